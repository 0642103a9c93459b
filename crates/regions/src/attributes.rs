//! The attributes of a region: its order of issue, its policy, and its descriptive texts.

use alloc::{collections::BTreeMap, string::String};

use kent_ids::Stride;

use crate::{
    count::Count,
    limits::{LABEL_BYTES_MAX, TEXT_BYTES_MAX},
    rare::Usual,
    refusal::Refusal,
};

/// The order in which a region's suffixes are issued. It is fixed when the region is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The suffix is equal to the counter.
    #[default]
    Sequential,
    /// The suffix is a keyed permutation of the counter within its octave: the numbers from one power of two up to the
    /// next. Consecutive counters rarely give adjacent suffixes.
    Scrambled,
    /// Kent issues nothing: users supply the suffixes, such as employee or part numbers (Kent 1992).
    External,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 3] = [Self::Sequential, Self::Scrambled, Self::External];

    /// Returns the lowest counter at which a region can continue if all suffixes below `next` count as issued. In a
    /// scrambled order, this counter is the start of an octave, because the order within an octave depends on the key.
    pub const fn floor(self, next: Count) -> Count {
        match (self, next) {
            (Self::Scrambled, Count::Below(next)) if next > 0 => match next.checked_next_power_of_two() {
                Some(octave) => Count::Below(octave),
                None => Count::Max,
            },
            (_, next) => next,
        }
    }

    /// Returns the name of the order: `sequential`, `scrambled` or `external`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Scrambled => "scrambled",
            Self::External => "external",
        }
    }
}

/// The automatic behavior of a region, and the limits of its grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The conditions of automatic expansion; `None` if the region does not expand automatically.
    pub auto_expand: Option<AutoExpand>,
    /// The maximum number of suffixes to issue; `None` if only the capacity limits it.
    pub cap: Option<Count>,
    /// The number of suffixes that each chunk reserves; a strict region reserves no chunks.
    pub chunk: ChunkPolicy,
    /// Which suffixes are issued. Another generator may issue the others.
    pub stride: Stride,
}

/// The conditions and limits of a region's automatic expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AutoExpand {
    /// The region expands when this percentage of the capacity, 1 to 100, is reserved.
    pub at_percent: u8,
    /// The number of bits that one expansion adds to the suffix: at least 1. If the zone has fewer bits, the expansion
    /// adds all of them.
    pub by_bits: u8,
    /// The maximum width of the suffix in bits after an expansion.
    pub max_suffix: u8,
}

/// The number of suffixes of a region that one chunk reserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChunkPolicy {
    /// Enough suffixes for about one second of grants, within the daemon's bounds.
    #[default]
    Adaptive,
    /// Enough suffixes for about one second of grants, within these bounds.
    Within {
        /// The smallest chunk: at least 1.
        min: u64,
        /// The largest chunk: at least `min`.
        max: u64,
    },
    /// No chunks: every grant is durable before it is answered, and a request that is repeated with the same ID is not
    /// granted twice.
    Strict,
}

/// The descriptive texts of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Texts {
    /// The owner.
    pub owner: String,
    /// The description.
    pub description: String,
    /// The values of the labels, by label name.
    pub labels: BTreeMap<String, String>,
}

impl Usual for Policy {
    const USUAL: &'static Self =
        &Self { auto_expand: None, cap: None, chunk: ChunkPolicy::Adaptive, stride: Stride::EVERY };
}

impl Usual for Texts {
    const USUAL: &'static Self = &Self { owner: String::new(), description: String::new(), labels: BTreeMap::new() };
}

impl Texts {
    /// Returns the total length in bytes.
    pub fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.owner.len() + self.description.len() + labels
    }

    /// Checks the length and the characters of the texts.
    ///
    /// # Errors
    ///
    /// Returns the refusal for the first rule that the texts break.
    pub fn check(&self) -> Result<(), Refusal> {
        for (name, value) in &self.labels {
            if !is_label_text(name) || !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
                return Err(Refusal::LabelName { name: name.clone() });
            }
            if !is_label_text(value) {
                return Err(Refusal::LabelValue { name: name.clone(), value: value.clone() });
            }
        }
        if self.owner.contains(char::is_control) {
            return Err(Refusal::OwnerControl { owner: self.owner.clone() });
        }
        let bytes = self.bytes();
        if bytes > TEXT_BYTES_MAX { Err(Refusal::TextTooLong { bytes }) } else { Ok(()) }
    }
}

/// Returns whether a string can be the value of a label. Selectors and shells accept such a string without quotes.
fn is_label_text(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@+".contains(&byte);
    (1..=LABEL_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

impl Policy {
    /// Returns the policy after these changes.
    ///
    /// # Errors
    ///
    /// Fails with `bad-input` if the policy would be strict and also have bounds for chunks.
    pub(crate) fn changed(&self, region: &str, patch: &PolicyPatch) -> Result<Self, Refusal> {
        let (bounds, strict) = match self.chunk {
            ChunkPolicy::Adaptive => (None, false),
            ChunkPolicy::Within { min, max } => (Some((min, max)), false),
            ChunkPolicy::Strict => (None, true),
        };
        let chunk = match (patch.bounds.unwrap_or(bounds), patch.strict.unwrap_or(strict)) {
            (None, false) => ChunkPolicy::Adaptive,
            (Some((min, max)), false) => ChunkPolicy::Within { min, max },
            (None, true) => ChunkPolicy::Strict,
            (Some(_), true) => {
                let bounds = patch.bounds.flatten();
                return Err(Refusal::StrictAndBounds { region: region.into(), bounds });
            }
        };
        Ok(Self {
            auto_expand: patch.auto_expand.unwrap_or(self.auto_expand),
            cap: patch.cap.unwrap_or(self.cap),
            chunk,
            stride: patch.stride.unwrap_or(self.stride),
        })
    }

    pub(crate) fn check(&self, order: Order) -> Result<(), Refusal> {
        let refused = |what| Err(Refusal::BadPolicy { what });
        match self.auto_expand {
            Some(AutoExpand { at_percent, .. }) if !(1..=100).contains(&at_percent) => {
                return refused("auto_expand.at_percent must be 1 to 100");
            }
            Some(AutoExpand { by_bits: 0, .. }) => return refused("auto_expand.by_bits must be at least 1"),
            _ => {}
        }
        if self.cap == Some(Count::ZERO) {
            return refused("a cap must be at least 1; to stop all grants, seal the region");
        }
        if order == Order::External && *self != Self::default() {
            return refused(EXTERNAL);
        }
        if order == Order::Scrambled && self.stride != Stride::EVERY {
            return refused("a scrambled region cannot leave out numbers; choose a sequential region for a step");
        }
        match self.chunk {
            ChunkPolicy::Within { min, max } if min == 0 || min > max => {
                refused("the smallest chunk must have at least 1 suffix, and must not be larger than the largest chunk")
            }
            ChunkPolicy::Strict if order == Order::Scrambled => Err(Refusal::StrictScrambled),
            _ => Ok(()),
        }
    }
}

const EXTERNAL: &str = "an external region cannot have a policy: its users choose the numbers, and it issues none";

/// A change to a policy. `None` leaves a part as it is; `Some(None)` clears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyPatch {
    /// The conditions of automatic expansion.
    pub auto_expand: Option<Option<AutoExpand>>,
    /// The maximum number of suffixes to issue.
    pub cap: Option<Option<Count>>,
    /// The minimum and maximum size of a chunk.
    pub bounds: Option<Option<(u64, u64)>>,
    /// Whether every grant is durable before it is answered, and no chunks are reserved.
    pub strict: Option<bool>,
    /// Which suffixes are issued.
    pub stride: Option<Stride>,
}

impl PolicyPatch {
    /// Returns true if the patch sets a part of the policy, and false if it only clears parts.
    pub(crate) const fn sets(&self) -> bool {
        let Self { auto_expand, cap, bounds, strict, stride: _ } = self;
        let parts = matches!(auto_expand, Some(Some(_))) || matches!(cap, Some(Some(_)));
        parts || matches!(bounds, Some(Some(_))) || matches!(strict, Some(true)) || self.narrows()
    }

    /// Returns whether the patch may leave out suffixes.
    pub(crate) const fn narrows(&self) -> bool {
        matches!(self.stride, Some(stride) if stride.step() != 1)
    }

    /// Returns whether the patch replaces the whole policy, as an import and an undo do.
    pub(crate) const fn is_whole(&self) -> bool {
        let Self { auto_expand, cap, bounds, strict, stride } = self;
        auto_expand.is_some() && cap.is_some() && bounds.is_some() && strict.is_some() && stride.is_some()
    }

    /// Returns the patch that turns any policy into `policy`.
    pub const fn to(policy: &Policy) -> Self {
        let (bounds, strict) = match policy.chunk {
            ChunkPolicy::Adaptive => (None, false),
            ChunkPolicy::Within { min, max } => (Some((min, max)), false),
            ChunkPolicy::Strict => (None, true),
        };
        Self {
            auto_expand: Some(policy.auto_expand),
            cap: Some(policy.cap),
            bounds: Some(bounds),
            strict: Some(strict),
            stride: Some(policy.stride),
        }
    }
}

/// A change to a region's attributes. `None` leaves an attribute as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// A new name.
    pub name: Option<String>,
    /// Whether to stop granting (`true`) or to resume (`false`).
    pub sealed: Option<bool>,
    /// A new owner.
    pub owner: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// Labels to set, or to remove if the value is `None`.
    pub labels: BTreeMap<String, Option<String>>,
    /// The changes to the policy.
    pub policy: PolicyPatch,
    /// Declares all suffixes below this one as issued. A counter that is already higher stays as it is.
    pub next: Option<Count>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_orders_have_the_names_of_the_paper() {
        assert_eq!(Order::ALL.map(Order::as_str), ["sequential", "scrambled", "external"]);
    }

    #[test]
    fn ok_texts_together_have_at_most_4096_bytes() {
        let labels = [("ab".into(), "cde".into()), ("fg".into(), "".into())].into();
        let texts = |owner: usize| Texts { owner: "o".repeat(owner), description: "1234567".into(), labels };
        assert_eq!(texts(11).bytes(), 11 + 7 + 5 + 2);
        let texts = |owner: usize| Texts { owner: "o".repeat(owner), ..Texts::default() };
        assert_eq!(texts(4096).check(), Ok(()));
        assert_eq!(texts(4097).check(), Err(Refusal::TextTooLong { bytes: 4097 }));
    }

    #[test]
    fn err_an_owner_is_one_line() {
        let texts = |owner: &str| Texts { owner: owner.into(), description: "any\ntext".into(), ..Texts::default() };
        assert_eq!(texts("Caf\u{e9} team").check(), Ok(()));
        for owner in ["a\nb", "\u{1b}[31mred", "a\u{85}"] {
            assert_eq!(texts(owner).check(), Err(Refusal::OwnerControl { owner: owner.into() }));
        }
    }

    #[test]
    fn ok_and_err_labels() {
        let check = |name: &str, value: &str| {
            Texts { labels: [(name.into(), value.into())].into(), ..Texts::default() }.check()
        };
        for (name, value) in [("team", "shop"), ("a.example/team", "a@b.c"), ("7", "-1"), ("url", "https://x:1/a+b")] {
            assert_eq!(check(name, value), Ok(()), "{name}={value}");
        }
        let long = "x".repeat(64);
        for name in ["", "a b", "-a", "a=", "!a", "\u{e9}", "a,b", &long] {
            assert_eq!(check(name, "a"), Err(Refusal::LabelName { name: name.into() }));
        }
        for value in ["", "x y", "x,y", "x=y", "x\n", "'", "\u{e9}", &long] {
            assert_eq!(check("a", value), Err(Refusal::LabelValue { name: "a".into(), value: value.into() }));
        }
    }

    #[test]
    fn ok_policies_up_to_their_bounds() {
        let expand = |at_percent| Some(AutoExpand { at_percent, by_bits: 1, max_suffix: 6 });
        for (auto_expand, chunk, order) in [
            (expand(1), ChunkPolicy::Adaptive, Order::Scrambled),
            (expand(100), ChunkPolicy::Adaptive, Order::Sequential),
            (None, ChunkPolicy::Within { min: 1, max: 1 }, Order::Scrambled),
            (None, ChunkPolicy::Within { min: 1, max: 2 }, Order::Sequential),
            (None, ChunkPolicy::Strict, Order::Sequential),
        ] {
            let policy = Policy { auto_expand, chunk, ..Policy::default() };
            assert_eq!(policy.check(order), Ok(()), "{auto_expand:?} {chunk:?}");
        }
    }

    #[test]
    fn ok_a_policy_changes_one_part_at_a_time() {
        let auto_expand = Some(AutoExpand { at_percent: 80, by_bits: 2, max_suffix: 50 });
        let cap = Some(Count::Below(9));
        let odd = Stride::new(2, 1).expect("a stride");
        let full = Policy { auto_expand, cap, chunk: ChunkPolicy::Within { min: 1, max: 8 }, stride: odd };
        let strict = Policy { chunk: ChunkPolicy::Strict, ..full };
        let none = PolicyPatch::default();
        let unbounded = PolicyPatch { bounds: Some(None), ..none };
        for (policy, patch, expected) in [
            (full, none, full),
            (full, PolicyPatch { auto_expand: Some(None), ..none }, Policy { auto_expand: None, ..full }),
            (full, PolicyPatch { cap: Some(None), ..none }, Policy { cap: None, ..full }),
            (full, PolicyPatch { stride: Some(Stride::EVERY), ..none }, Policy { stride: Stride::EVERY, ..full }),
            (full, unbounded, Policy { chunk: ChunkPolicy::Adaptive, ..full }),
            (full, PolicyPatch { strict: Some(true), ..unbounded }, strict),
            (full, PolicyPatch { strict: Some(false), ..none }, full),
            (strict, PolicyPatch { cap: Some(None), ..none }, Policy { cap: None, ..strict }),
            (strict, PolicyPatch { bounds: Some(Some((1, 8))), strict: Some(false), ..none }, full),
            (strict, PolicyPatch::to(&full), full),
            (full, PolicyPatch::to(&Policy::default()), Policy::default()),
        ] {
            assert_eq!(policy.changed("r", &patch), Ok(expected), "{patch:?}");
        }
        for (policy, patch) in [
            (full, PolicyPatch { strict: Some(true), ..none }),
            (strict, PolicyPatch { bounds: Some(Some((1, 8))), ..none }),
        ] {
            assert!(matches!(policy.changed("r", &patch), Err(Refusal::StrictAndBounds { .. })), "{patch:?}");
        }
    }

    #[test]
    fn err_policies_that_do_not_fit_the_order_and_caps_of_zero() {
        let policy = Policy::default();
        let strict = Policy { chunk: ChunkPolicy::Strict, ..policy };
        let cap = |cap| Policy { cap: Some(Count::Below(cap)), ..policy };
        assert_eq!(strict.check(Order::Scrambled), Err(Refusal::StrictScrambled));
        for (policy, order) in [(strict, Order::External), (cap(9), Order::External), (cap(0), Order::Sequential)] {
            assert!(matches!(policy.check(order), Err(Refusal::BadPolicy { .. })), "{policy:?} {order:?}");
        }
        assert_eq!((policy.check(Order::External), cap(1).check(Order::Scrambled)), (Ok(()), Ok(())));
    }
}
