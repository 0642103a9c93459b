//! A value that most regions have in common. Only regions with another value allocate memory for it.

use alloc::boxed::Box;
use core::ops::Deref;

/// A type with a value that most regions have.
pub trait Usual: PartialEq + Sized + 'static {
    /// The usual value.
    const USUAL: &'static Self;
}

/// A value behind a pointer, or the usual value. Each value has only one representation, so derived equality compares
/// values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rare<T>(Option<Box<T>>);

impl<T> Rare<T> {
    /// The usual value.
    pub const USUAL: Self = Self(None);
}

impl<T: Usual> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Self((value != *T::USUAL).then(|| Box::new(value)))
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self::USUAL
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
    fn ok_values_are_preserved_and_the_usual_one_is_not_allocated() {
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
