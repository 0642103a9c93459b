//! Regions: named parts of a space.

use alloc::{string::ToString, vec::Vec};
use core::num::NonZeroU64;

use kent_ids::Stride;

use crate::{
    attributes::{Order, Policy, Texts},
    count::Count,
    name::Name,
    pace::Pace,
    prefix::Prefix,
    rare::{Rare, Usual},
    refusal::Refusal,
    revision::Revision,
};

/// The permanent number of a region in its space. No other region ever gets the same number, not even after the region
/// is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionNumber(pub u64);

/// The number of a region's parent, if it has one. It takes half of the memory of an `Option<RegionNumber>`, because no
/// region has the number 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parent(Option<NonZeroU64>);

impl From<Option<RegionNumber>> for Parent {
    fn from(parent: Option<RegionNumber>) -> Self {
        Self(parent.and_then(|RegionNumber(number)| NonZeroU64::new(number)))
    }
}

/// The permitted contents of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Its own identifiers, and no subregions.
    Open,
    /// Subregions, and its own identifiers under the all-zero extension (Kent 1992, 3.3).
    Partial,
    /// Subregions only; they replace the region.
    Closed,
}

impl Kind {
    /// Returns the name of the kind: `open`, `partial` or `closed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Partial => "partial",
            Self::Closed => "closed",
        }
    }
}

/// A prefix that a region had before it was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FormerPrefix {
    /// The prefix.
    pub prefix: Prefix,
    /// The revision that gave the prefix to the region.
    pub from: Revision,
    /// The last revision in which the region had the prefix.
    pub to: Revision,
    /// The number of suffixes that were issued or reserved when the prefix changed.
    pub issued: Count,
}

/// Most regions of a large table have issued nothing yet.
impl Usual for Count {
    const USUAL: &'static Self = &Self::ZERO;
}

/// What a region keeps from its past. Most regions keep nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    /// The name with which it was created; `None` if it still has that name.
    pub first_name: Option<Name>,
    /// The number from which the key of its scrambled order is derived; `None` if that is its own number. It is that of
    /// the closed region whose numbers it continues, or its former number if an undo created it again.
    pub key_number: Option<RegionNumber>,
    /// Its former prefixes, oldest first.
    pub prefixes: Vec<FormerPrefix>,
}

impl Usual for Past {
    const USUAL: &'static Self = &Self { first_name: None, key_number: None, prefixes: Vec::new() };
}

/// What most regions of a large table do not have. One pointer to it takes less memory in each region than three pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extras {
    /// The first name, the number of the order key, and the former prefixes.
    pub past: Rare<Past>,
    /// The policy.
    pub policy: Rare<Policy>,
    /// The descriptive texts.
    pub texts: Rare<Texts>,
}

impl Usual for Extras {
    const USUAL: &'static Self = &Self { past: Rare::USUAL, policy: Rare::USUAL, texts: Rare::USUAL };
}

/// A named part of a space: `prefix | expansion zone | suffix`.
///
/// The fields hold the stored values. [`Table::restore`](crate::Table::restore) checks that they are consistent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// Its permanent number.
    pub number: RegionNumber,
    /// Its name, unique in the space.
    pub name: Name,
    /// The leading bits of its identifiers.
    pub prefix: Prefix,
    /// z: the number of bits in the expansion zone. These bits are zero in every identifier.
    pub zone: u8,
    /// s: the number of bits in the suffix.
    pub suffix: u8,
    /// Its permitted contents.
    pub kind: Kind,
    /// k: the number of bits by which the prefixes of its subregions are longer than its own; 0 without subregions.
    pub sub_bits: u8,
    /// Its parent.
    pub parent: Parent,
    /// The number of issued or reserved suffixes.
    pub issued: Rare<Count>,
    /// The revision in which it got its current prefix.
    pub since: Revision,
    /// The order in which its suffixes are issued.
    pub order: Order,
    /// The maximum average rate at which its suffixes may be issued.
    pub pace: Pace,
    /// Whether it is sealed. Until it is unsealed, neither it nor any region inside it grants anything.
    pub sealed: bool,
    /// Whether its suffixes are a separate space with its own table. If so, s does not change.
    pub delegated: bool,
    /// Its past, its policy and its texts.
    pub extras: Rare<Extras>,
}

// With the two counters of an `Arc`, a region takes 104 bytes. mimalloc needs up to 7 more to align it, so with 112 bytes
// a region would take a block of 128 bytes instead of 112.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Region>() <= 88);

impl Region {
    /// Returns the number of its parent, if it has one.
    pub fn parent(&self) -> Option<RegionNumber> {
        self.parent.0.map(|number| RegionNumber(number.get()))
    }

    /// Returns its first name, the number of its order key, and its former prefixes.
    pub fn past(&self) -> &Past {
        &self.extras.past
    }

    /// Returns its policy.
    pub fn policy(&self) -> &Policy {
        &self.extras.policy
    }

    /// Returns its descriptive texts.
    pub fn texts(&self) -> &Texts {
        &self.extras.texts
    }

    /// Gives it another past.
    pub fn set_past(&mut self, past: Past) {
        self.extras = Extras { past: past.into(), ..Extras::clone(&self.extras) }.into();
    }

    /// Gives it another policy.
    pub fn set_policy(&mut self, policy: Policy) {
        self.extras = Extras { policy: policy.into(), ..Extras::clone(&self.extras) }.into();
    }

    /// Gives it other descriptive texts.
    pub fn set_texts(&mut self, texts: Texts) {
        self.extras = Extras { texts: texts.into(), ..Extras::clone(&self.extras) }.into();
    }

    /// Returns the name with which the region was created. Access rights refer to this name, so that a rename transfers
    /// no rights.
    pub fn first_name(&self) -> &str {
        self.past().first_name.as_ref().unwrap_or(&self.name)
    }

    /// Returns the number from which the key of the region's scrambled order is derived.
    pub fn key_number(&self) -> RegionNumber {
        self.past().key_number.unwrap_or(self.number)
    }

    /// Gives the region another name.
    pub(crate) fn rename(&mut self, name: &str) {
        let first = self.past().first_name.clone().unwrap_or_else(|| self.name.clone());
        self.name = name.into();
        self.set_past(Past { first_name: (first != name).then_some(first), ..self.past().clone() });
    }

    /// Returns the number of identifiers that the region can currently hold: 2^s, or zero if it is closed.
    pub const fn capacity(&self) -> Count {
        match self.kind {
            Kind::Open | Kind::Partial => Count::power_of_two(self.suffix),
            Kind::Closed => Count::ZERO,
        }
    }

    /// Returns the number of suffixes that may be issued: the smaller of the capacity and the policy's cap.
    pub fn limit(&self) -> Count {
        self.policy().cap.map_or(self.capacity(), |cap| cap.min(self.capacity()))
    }

    /// Returns the number of identifiers that the region could hold after expanding as far as possible.
    pub const fn ultimate_capacity(&self) -> Count {
        match self.kind {
            Kind::Open | Kind::Partial => Count::power_of_two(self.suffix.saturating_add(self.expandable_bits())),
            Kind::Closed => Count::ZERO,
        }
    }

    /// Returns the prefix that the region had when its counter passed `counter`. The counter of a suffix is the suffix
    /// itself, except in a scrambled region.
    pub fn prefix_when(&self, counter: u128) -> Prefix {
        let first = self.past().prefixes.iter().find(|former| former.issued.includes(counter));
        first.map_or(self.prefix, |former| former.prefix)
    }

    /// Checks that the issued suffixes fit the suffix width, and that a delegated region has none.
    pub(crate) fn check_issued(&self) -> Result<(), Refusal> {
        if self.delegated && *self.issued != Count::ZERO {
            return Err(Refusal::Populated { region: self.name.to_string(), issued: *self.issued });
        }
        if *self.issued <= Count::power_of_two(self.suffix) {
            return Ok(());
        }
        Err(Refusal::SuffixInUse {
            region: self.name.to_string(),
            issued: *self.issued,
            needed: self.issued.bits(),
            requested: self.suffix,
            most: None,
        })
    }

    /// Checks that no suffix is issued or reserved.
    pub(crate) fn check_unused(&self) -> Result<(), Refusal> {
        match *self.issued {
            Count::ZERO => Ok(()),
            issued => Err(Refusal::InUse { region: self.name.to_string(), issued }),
        }
    }

    /// Rejects an external region and a region with a stride: the table does not know which numbers its users have
    /// chosen, or another generator has issued.
    pub(crate) fn check_use_known(&self) -> Result<(), Refusal> {
        match self.order {
            Order::External => Err(Refusal::UseUnknown { region: self.name.to_string() }),
            Order::Sequential | Order::Scrambled => self.check_all_own(),
        }
    }

    /// Rejects a region with a stride.
    pub(crate) fn check_all_own(&self) -> Result<(), Refusal> {
        match self.policy().stride {
            Stride::EVERY => Ok(()),
            stride => Err(Refusal::OthersUnknown { region: self.name.to_string(), stride }),
        }
    }

    /// Rejects a delegated region.
    pub(crate) fn check_not_delegated(&self) -> Result<(), Refusal> {
        match self.delegated {
            true => Err(Refusal::Delegated { region: self.name.to_string(), suffix: self.suffix }),
            false => Ok(()),
        }
    }

    /// Whether the cap limits what the region may issue, so that an expansion would not help.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.policy().cap.is_some_and(|cap| cap <= self.capacity())
    }

    /// Returns the number of bits by which the region can be expanded.
    pub const fn expandable_bits(&self) -> u8 {
        match self.kind {
            Kind::Open if self.delegated => 0,
            Kind::Open => self.zone,
            Kind::Partial => self.zone.saturating_sub(self.sub_bits),
            Kind::Closed => 0,
        }
    }
}
