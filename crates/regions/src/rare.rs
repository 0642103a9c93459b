//! A value that is the same in most regions, and takes memory only where it is not.

use alloc::boxed::Box;
use core::ops::Deref;

/// What most regions have.
pub trait Usual: PartialEq + Sized + 'static {
    /// The value.
    const USUAL: &'static Self;
}

/// A value behind a pointer, or the usual one. There is one form of each value, so that equality is that of the values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rare<T>(Option<Box<T>>);

impl<T: Usual> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Self((value != *T::USUAL).then(|| Box::new(value)))
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Usual> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::USUAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Count, Policy, Texts};

    #[test]
    fn ok_a_value_is_what_was_put_in_and_the_usual_one_takes_a_pointer() {
        let capped = Policy { cap: Some(Count::Below(7)), ..Policy::default() };
        for policy in [capped, Policy::default()] {
            assert_eq!(*Rare::from(policy), policy);
        }
        assert_eq!(Rare::from(Policy::default()), Rare::default());
        assert_eq!(*Rare::<Texts>::default(), Texts::default());
        assert_ne!(Rare::from(capped), Rare::default());
        assert_eq!(size_of::<Rare<Texts>>(), size_of::<usize>());
    }
}
