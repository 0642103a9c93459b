//! Strides: a counter that issues only every n-th number, so that another generator can issue the others.

use core::fmt;

/// The numbers that a counter issues: those that leave `offset` when they are divided by `step`. Two counters with the
/// same step and different offsets have no number in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stride {
    step: u16,
    offset: u16,
}

impl Stride {
    /// All numbers.
    pub const EVERY: Self = Self { step: 1, offset: 0 };

    /// Creates a stride. Returns `None` unless `offset` is below `step`.
    pub const fn new(step: u16, offset: u16) -> Option<Self> {
        if offset < step { Some(Self { step, offset }) } else { None }
    }

    /// Returns the distance from one number to the next: at least 1.
    pub const fn step(self) -> u16 {
        self.step
    }

    /// Returns the lowest number: below the step.
    pub const fn offset(self) -> u16 {
        self.offset
    }

    /// Returns how many consecutive numbers a grant of `count` takes from the counter. Exactly `count` of them are
    /// numbers of the stride, wherever the run starts.
    pub const fn span(self, count: u64) -> u128 {
        count as u128 * self.step as u128
    }

    /// Returns the number with this index. The lowest number has the index 0. Returns `None` if the number has more
    /// than 128 bits.
    pub const fn number(self, index: u128) -> Option<u128> {
        match index.checked_mul(self.step as u128) {
            Some(multiple) => multiple.checked_add(self.offset as u128),
            None => None,
        }
    }

    /// Returns the index of the lowest number of the stride that is at or above `number`.
    pub const fn index_from(self, number: u128) -> u128 {
        match self.step {
            1 => number, // a division of 128 bits is slow, and most regions have no step
            step => number.saturating_sub(self.offset as u128).div_ceil(step as u128),
        }
    }

    /// Returns whether a number belongs to the stride.
    pub const fn holds(self, number: u128) -> bool {
        self.step == 1 || number % self.step as u128 == self.offset as u128
    }

    /// Returns whether all numbers of `other` belong to this stride.
    pub const fn includes(self, other: Self) -> bool {
        other.step.is_multiple_of(self.step) && other.offset % self.step == self.offset
    }
}

impl Default for Stride {
    /// Returns [`Stride::EVERY`].
    fn default() -> Self {
        Self::EVERY
    }
}

/// Displays the stride as an operator thinks of it, such as `every 2nd number, from 1`.
impl fmt::Display for Stride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, offset } = self;
        let ending = match (step % 100, step % 10) {
            (11..=13, _) => "th",
            (_, 1) => "st",
            (_, 2) => "nd",
            (_, 3) => "rd",
            _ => "th",
        };
        match step {
            1 => f.write_str("every number"),
            _ => write!(f, "every {step}{ending} number, from {offset}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec::Vec};

    use super::*;

    fn stride(step: u16, offset: u16) -> Stride {
        Stride::new(step, offset).expect("a stride")
    }

    #[test]
    fn ok_and_err_an_offset_is_below_its_step() {
        for (step, offset, is_legal) in [(0, 0, false), (1, 0, true), (1, 1, false), (2, 1, true), (2, 2, false)] {
            assert_eq!(Stride::new(step, offset).is_some(), is_legal, "{step} {offset}");
        }
        assert!(Stride::new(u16::MAX, u16::MAX - 1).is_some());
    }

    #[test]
    fn ok_every_run_of_a_span_holds_exactly_the_numbers_of_its_grant() {
        for step in 1..=7 {
            for stride in (0..step).map(|offset| stride(step, offset)) {
                for (first, count) in (0..20).flat_map(|first| (1..6).map(move |count| (first, count))) {
                    let run = first..first + stride.span(count);
                    let held: Vec<u128> = run.filter(|number| stride.holds(*number)).collect();
                    let index = stride.index_from(first);
                    let granted: Vec<u128> = (0..count).filter_map(|n| stride.number(index + u128::from(n))).collect();
                    assert_eq!(granted, held, "{stride} {first} {count}");
                    assert_eq!(held.len() as u64, count);
                }
            }
        }
    }

    #[test]
    fn ok_strides_of_one_step_share_no_number_and_miss_none() {
        for number in 0..100 {
            let holders = (0..7).filter(|offset| stride(7, *offset).holds(number)).count();
            assert_eq!(holders, 1, "{number}");
        }
    }

    #[test]
    fn ok_a_stride_includes_another_if_it_holds_all_its_numbers() {
        let strides: Vec<Stride> = (1..8).flat_map(|step| (0..step).map(move |offset| stride(step, offset))).collect();
        for (outer, inner) in strides.iter().flat_map(|outer| strides.iter().map(move |inner| (outer, inner))) {
            let all = (0..500).filter(|number| inner.holds(*number)).all(|number| outer.holds(number));
            assert_eq!(outer.includes(*inner), all, "{outer} {inner}");
        }
    }

    #[test]
    fn ok_numbers_beyond_128_bits_are_none() {
        assert_eq!(Stride::EVERY.number(u128::MAX), Some(u128::MAX));
        assert_eq!(stride(2, 1).number(u128::MAX / 2), Some(u128::MAX));
        assert_eq!(stride(2, 0).number(u128::MAX / 2 + 1), None);
        assert_eq!(stride(3, 1).number(u128::MAX / 3), None);
        assert_eq!(stride(3, 0).index_from(u128::MAX), u128::MAX / 3);
        assert_eq!(stride(3, 2).index_from(1), 0);
    }

    #[test]
    fn ok_strides_read_like_a_sentence() {
        for (step, offset, expected) in [
            (1, 0, "every number"),
            (2, 1, "every 2nd number, from 1"),
            (3, 0, "every 3rd number, from 0"),
            (11, 4, "every 11th number, from 4"),
            (21, 20, "every 21st number, from 20"),
            (112, 1, "every 112th number, from 1"),
        ] {
            assert_eq!(stride(step, offset).to_string(), expected);
        }
    }
}
