//! Regions: named parts of a space.

use alloc::{string::String, vec::Vec};

use crate::{
    attributes::{Order, Policy, Texts},
    count::Count,
    pace::Pace,
    prefix::Prefix,
    rare::Rare,
    refusal::Refusal,
    revision::Revision,
};

/// The stable number of a region in its space: given when it is made, never to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionNumber(pub u64);

/// What a region may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Identifiers of its own; no subregions.
    Open,
    /// Subregions, and identifiers of its own under the all-zero extension (Kent 1992, 3.3).
    Partial,
    /// Subregions only: they take its place.
    Closed,
}

impl Kind {
    /// The name in regions.md: `open`, `partial` or `closed`.
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
    /// The revision that gave it to the region.
    pub from: Revision,
    /// The last revision in which the region had it.
    pub to: Revision,
    /// Suffixes below this were issued or reserved by then.
    pub issued: Count,
}

/// A named part of a space: `prefix | expansion zone | suffix`.
///
/// The fields are the stored form. What they may be together is the table's business: see
/// [`Table::restore`](crate::Table::restore).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// Its stable number.
    pub number: RegionNumber,
    /// Its name, unique in the space.
    pub name: String,
    /// The leading bits of its identifiers.
    pub prefix: Prefix,
    /// z: bits of the expansion zone, zero in every identifier.
    pub zone: u8,
    /// s: bits of the suffix.
    pub suffix: u8,
    /// What it may hold.
    pub kind: Kind,
    /// k: by how many bits the prefixes of its subregions are longer; 0 without subregions.
    pub sub_bits: u8,
    /// The region around it.
    pub parent: Option<RegionNumber>,
    /// Suffixes below this are issued or reserved.
    pub issued: Count,
    /// The revision that gave it its present prefix.
    pub since: Revision,
    /// The prefixes that it had before, oldest first.
    pub history: Vec<FormerPrefix>,
    /// In which order its suffixes are issued.
    pub order: Order,
    /// How fast they may be issued.
    pub pace: Pace,
    /// Whether nothing is granted for now.
    pub sealed: bool,
    /// Whether its suffixes are a space of their own, with a table of its own; s is permanent then.
    pub delegated: bool,
    /// What it does by itself.
    pub policy: Rare<Policy>,
    /// What people write about it.
    pub texts: Rare<Texts>,
}

impl Region {
    /// How many identifiers it can hold as it is: 2^s, or none if it is closed.
    pub const fn capacity(&self) -> Count {
        match self.kind {
            Kind::Open | Kind::Partial => Count::power_of_two(self.suffix),
            Kind::Closed => Count::ZERO,
        }
    }

    /// How many suffixes may be issued: the capacity, or the policy's cap below it.
    pub fn limit(&self) -> Count {
        self.policy.cap.map_or(self.capacity(), |cap| cap.min(self.capacity()))
    }

    /// How many it could hold after expanding as far as possible.
    pub const fn ultimate_capacity(&self) -> Count {
        match self.kind {
            Kind::Open | Kind::Partial => Count::power_of_two(self.suffix.saturating_add(self.expandable_bits())),
            Kind::Closed => Count::ZERO,
        }
    }

    /// The prefix that the region had when its counter passed this number: the issued suffix or, in a scrambled region, the
    /// number behind it.
    pub fn prefix_when(&self, counter: u128) -> Prefix {
        let first = self.history.iter().find(|former| former.issued.includes(counter));
        first.map_or(self.prefix, |former| former.prefix)
    }

    /// Checks that the suffix holds what is issued; of a delegated region nothing is.
    pub(crate) fn check_issued(&self) -> Result<(), Refusal> {
        if self.delegated && self.issued != Count::ZERO {
            return Err(Refusal::Populated { region: self.name.clone(), issued: self.issued });
        }
        if self.issued <= Count::power_of_two(self.suffix) {
            return Ok(());
        }
        Err(Refusal::SuffixInUse { issued: self.issued, needed: self.issued.bits(), asked: self.suffix })
    }

    /// Refuses a region whose suffixes are a space of their own.
    pub(crate) fn check_not_delegated(&self) -> Result<(), Refusal> {
        match self.delegated {
            true => Err(Refusal::Delegated { region: self.name.clone(), suffix: self.suffix }),
            false => Ok(()),
        }
    }

    /// By how many bits it could be expanded.
    pub const fn expandable_bits(&self) -> u8 {
        match self.kind {
            Kind::Open if self.delegated => 0,
            Kind::Open => self.zone,
            Kind::Partial => self.zone.saturating_sub(self.sub_bits),
            Kind::Closed => 0,
        }
    }
}
