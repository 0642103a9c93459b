//! Shortcuts: the owner of all identifiers that begin with the same few bits, where there is only one owner.
//!
//! A table often has large regions and large unused parts. The first bits of an identifier in one of them are enough to
//! find its owner, with one access to memory.

use alloc::{vec, vec::Vec};

use super::{
    Label, SEARCH,
    intervals::{Interval, Key},
};

/// The owner for each value of the first bits of an identifier, or [`SEARCH`].
#[derive(Clone, Debug)]
pub(super) struct Shortcuts {
    owners: Vec<Label>,
    /// The number of bits to skip.
    skip: u32,
}

/// The maximum number of first bits. The shortcuts of a large table then take 256 KiB, and stay in a processor's cache.
const FIRST_MAX: u32 = 16;

impl Shortcuts {
    /// Builds the shortcuts of intervals that cover the identifiers of `bits` bits. There are at most as many shortcuts
    /// as intervals.
    pub(super) fn new<K: Key>(bits: u32, intervals: &[Interval<K>]) -> Self {
        let first = intervals.len().max(1).ilog2().min(FIRST_MAX).min(bits);
        let skip = bits - first;
        // The bits after the first ones are all ones in the last identifier of a run, and all zeros in its first one.
        let rest = 1_u128.checked_shl(skip).unwrap_or(0).wrapping_sub(1);
        let run = |id: u128| id.checked_shr(skip).unwrap_or(0) as usize; // OK because at most 16 bits are left
        let mut owners = vec![SEARCH; 1 << first];
        let mut start = Some(0);
        for interval in intervals {
            let (Some(from), last) = (start, interval.last.wide()) else { break };
            let whole = run(from) + usize::from(from & rest != 0)..run(last) + usize::from(last & rest == rest);
            owners.get_mut(whole).unwrap_or_default().fill(interval.owner);
            start = last.checked_add(1);
        }
        Self { owners, skip: skip.saturating_sub(bits.saturating_sub(64)) }
    }

    /// Returns the owner of an identifier, unless the index has to search. The argument is the first 64 bits of the
    /// identifier, or the whole identifier if it has fewer bits.
    #[inline(always)]
    pub(super) fn find(&self, first: u64) -> Option<Label> {
        Some(self.label(first)).filter(|label| *label != SEARCH)
    }

    /// Like [`find`](Self::find), but returns [`SEARCH`] if the index has to search.
    #[inline(always)]
    pub(super) fn label(&self, first: u64) -> Label {
        let run = first.checked_shr(self.skip).unwrap_or(0);
        // OK because at most 16 bits are left.
        self.owners.get(run as usize).copied().unwrap_or(SEARCH)
    }

    /// Returns the number of bytes of memory that the shortcuts use.
    pub(super) const fn bytes(&self) -> usize {
        size_of_val(self.owners.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shortcuts of intervals with these last identifiers, numbered from 0.
    fn shortcuts<K: Key>(bits: u32, ends: &[u128]) -> (Vec<Label>, u32) {
        let intervals: Vec<_> =
            ends.iter().zip(0..).map(|(end, owner)| Interval { last: K::of(*end), owner }).collect();
        let made = Shortcuts::new(bits, &intervals);
        (made.owners, made.skip)
    }

    #[test]
    fn ok_an_owner_is_known_where_there_is_only_one() {
        let s = SEARCH;
        for (bits, ends, owners, skip) in [
            (4, &[15][..], &[0][..], 4),
            (4, &[7, 15], &[0, 1], 3),
            (4, &[6, 15], &[s, 1], 3),
            (4, &[8, 15], &[0, s], 3),
            (4, &[0, 7, 11, 15], &[s, 1, 2, 3], 2),
            (4, &[2, 3, 4, 15], &[s, s, 3, 3], 2),
            (1, &[0, 1], &[0, 1], 0),
            (64, &[u64::MAX.into()], &[0], 64),
            (64, &[1 << 63, u64::MAX.into()], &[0, s], 63),
        ] {
            assert_eq!(shortcuts::<u64>(bits, ends), (owners.to_vec(), skip), "{ends:?}");
        }
        assert_eq!(shortcuts::<u128>(128, &[u128::MAX]), (vec![0], 64));
        assert_eq!(shortcuts::<u128>(128, &[u128::MAX >> 1, u128::MAX]), (vec![0, 1], 63));
        assert_eq!(shortcuts::<u128>(66, &[1 << 65, (1 << 66) - 1]), (vec![0, s], 63));
    }

    #[test]
    fn ok_a_shortcut_is_found_by_the_first_bits() {
        let intervals = [(3, 7), (11, 9), (15, 8), (15, 8)].map(|(last, owner)| Interval { last: last as u64, owner });
        let made = Shortcuts::new(4, &intervals);
        let found: Vec<_> = (0..16).map(|id| made.find(id)).collect();
        let expected = [[Some(7); 4], [Some(9); 4], [Some(9); 4], [Some(8); 4]].concat();
        assert_eq!(found, expected);
    }
}
