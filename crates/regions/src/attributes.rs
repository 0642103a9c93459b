//! What is kept with a region beside its place: the order of issue, policies, and what people write about it.

use alloc::{collections::BTreeMap, string::String};

use crate::{count::Count, limits::TEXT_BYTES_MAX, rare::Usual, refusal::Refusal};

/// In which order a region's suffixes are issued. Fixed when the region is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Suffix = counter.
    #[default]
    Sequential,
    /// A keyed permutation inside each octave of the counter: neighbours in time are not neighbours in value.
    Scrambled,
    /// Nothing is issued: the values come from users (Kent 1992: employee and part numbers).
    External,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sequential, Self::Scrambled, Self::External];

    /// The first number to issue above every suffix below `next`: in a scrambled order, numbers follow no order inside an octave,
    /// and another key has another one, so it is that of the next octave.
    pub const fn floor(self, next: Count) -> Count {
        match (self, next) {
            (Self::Scrambled, Count::Below(next)) if next > 0 => match next.checked_next_power_of_two() {
                Some(octave) => Count::Below(octave),
                None => Count::Max,
            },
            (_, next) => next,
        }
    }

    /// The name in regions.md: `sequential`, `scrambled` or `external`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Scrambled => "scrambled",
            Self::External => "external",
        }
    }
}

/// What a region does by itself, and what it does not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Expand before it is full.
    pub auto_expand: Option<AutoExpand>,
    /// Never more than so many suffixes, whatever the capacity.
    pub cap: Option<Count>,
    /// How many suffixes are reserved at once, and whether at all.
    pub chunk: ChunkPolicy,
}

/// When and how far a region expands by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AutoExpand {
    /// When so many percent of the capacity are reserved: 1 to 100.
    pub at_percent: u8,
    /// By so many bits, at least 1, or as many as the zone leaves.
    pub by_bits: u8,
    /// To a suffix of at most so many bits.
    pub max_suffix: u8,
}

/// How many suffixes of a region are reserved at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChunkPolicy {
    /// As many as last about a second, within the daemon's bounds.
    #[default]
    Adaptive,
    /// Within these bounds: at least 1, and not more than `max`.
    Within {
        /// The smallest chunk.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// None: every grant is durable before it is answered, and once for each request.
    Strict,
}

/// What people write about a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Texts {
    /// Whose it is.
    pub owner: String,
    /// What it is for.
    pub description: String,
    /// Whatever else, by name.
    pub labels: BTreeMap<String, String>,
}

impl Usual for Policy {
    const USUAL: &'static Self = &Self { auto_expand: None, cap: None, chunk: ChunkPolicy::Adaptive };
}

impl Usual for Texts {
    const USUAL: &'static Self = &Self { owner: String::new(), description: String::new(), labels: BTreeMap::new() };
}

impl Texts {
    /// How many bytes they have together.
    pub fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.owner.len() + self.description.len() + labels
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let bytes = self.bytes();
        if bytes > TEXT_BYTES_MAX { Err(Refusal::TextTooLong { bytes }) } else { Ok(()) }
    }
}

impl Policy {
    pub(crate) fn check(&self, order: Order) -> Result<(), Refusal> {
        let refused = |what| Err(Refusal::BadPolicy { what });
        match self.auto_expand {
            Some(AutoExpand { at_percent, .. }) if !(1..=100).contains(&at_percent) => {
                return refused("a region expands by itself at 1 to 100 percent");
            }
            Some(AutoExpand { by_bits: 0, .. }) => return refused("a region expands by at least 1 bit"),
            _ => {}
        }
        match self.chunk {
            ChunkPolicy::Within { min, max } if min == 0 || min > max => {
                refused("a chunk has at least 1 suffix, and its smallest size is not above its largest")
            }
            ChunkPolicy::Strict if order == Order::Scrambled => {
                refused("a strict region numbers without gaps: it cannot be scrambled")
            }
            _ => Ok(()),
        }
    }
}

/// A change of what is kept with a region. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// A new name.
    pub name: Option<String>,
    /// Stop granting, or resume.
    pub sealed: Option<bool>,
    /// Another owner.
    pub owner: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Labels to set, or with `None` to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Another policy, whole.
    pub policy: Option<Policy>,
    /// Suffixes below this count as issued: the counter never goes back.
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
    fn ok_policies_up_to_their_bounds() {
        let expand = |at_percent| Some(AutoExpand { at_percent, by_bits: 1, max_suffix: 6 });
        for (auto_expand, chunk, order) in [
            (expand(1), ChunkPolicy::Adaptive, Order::Scrambled),
            (expand(100), ChunkPolicy::Adaptive, Order::Sequential),
            (None, ChunkPolicy::Within { min: 1, max: 1 }, Order::Scrambled),
            (None, ChunkPolicy::Within { min: 1, max: 2 }, Order::Sequential),
            (None, ChunkPolicy::Strict, Order::Sequential),
        ] {
            assert_eq!(Policy { auto_expand, cap: None, chunk }.check(order), Ok(()), "{auto_expand:?} {chunk:?}");
        }
    }

    #[test]
    fn err_a_strict_region_is_not_scrambled() {
        let strict = Policy { chunk: ChunkPolicy::Strict, ..Policy::default() };
        assert!(matches!(strict.check(Order::Scrambled), Err(Refusal::BadPolicy { .. })));
    }
}
