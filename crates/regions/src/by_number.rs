//! A map from region numbers to values, for numbers that are mostly consecutive.
//!
//! The values are stored in groups of consecutive numbers. With few gaps, this takes half of the memory of a `BTreeMap`
//! with an entry for each number, and a search takes fewer steps.

use alloc::{boxed::Box, collections::BTreeMap};

use crate::region::RegionNumber;

/// A map from region numbers to values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ByNumber<T> {
    /// The groups that are not empty, by number divided by [`GROUP`].
    groups: BTreeMap<u64, Box<[Option<T>; GROUP]>>,
    len: usize,
}

/// The number of values in a group. A group with only one value takes about as much memory as a region. mimalloc needs up
/// to 7 bytes more than a group to align it, so with 16 pointers a group would take a block of 160 bytes instead of 128.
const GROUP: usize = 15;

impl<T> ByNumber<T> {
    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of a number.
    pub fn get(&self, number: RegionNumber) -> Option<&T> {
        let (group, at) = position(number);
        self.groups.get(&group)?[at].as_ref()
    }

    /// Returns the value of a number, which the caller may change.
    pub fn get_mut(&mut self, number: RegionNumber) -> Option<&mut T> {
        let (group, at) = position(number);
        self.groups.get_mut(&group)?[at].as_mut()
    }

    /// Sets the value of a number, and returns the value before.
    pub fn insert(&mut self, number: RegionNumber, value: T) -> Option<T> {
        let (group, at) = position(number);
        let group = self.groups.entry(group).or_insert_with(|| Box::new([const { None }; GROUP]));
        let before = group[at].replace(value);
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes the value of a number, and returns it.
    pub fn remove(&mut self, number: RegionNumber) -> Option<T> {
        let (group, at) = position(number);
        let values = self.groups.get_mut(&group)?;
        let before = values[at].take()?;
        if values.iter().all(Option::is_none) {
            self.groups.remove(&group);
        }
        self.len -= 1;
        Some(before)
    }
}

/// Returns the group of a number, and the position in the group.
const fn position(RegionNumber(number): RegionNumber) -> (u64, usize) {
    (number / GROUP as u64, (number % GROUP as u64) as usize) // OK because a remainder is small
}

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        Self { groups: BTreeMap::new(), len: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ok_it_works_like_an_ordinary_map(
            changes in proptest::collection::vec((prop_oneof![0..40_u64, Just(u64::MAX)], any::<Option<u8>>()), 0..80)
        ) {
            let (mut map, mut model) = (ByNumber::default(), BTreeMap::new());
            for (number, value) in changes {
                let number = RegionNumber(number);
                match value {
                    Some(value) => prop_assert_eq!(map.insert(number, value), model.insert(number, value)),
                    None => prop_assert_eq!(map.remove(number), model.remove(&number)),
                }
                prop_assert_eq!(map.get(number), model.get(&number));
                prop_assert_eq!(map.get_mut(number), model.get_mut(&number));
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
            }
            for number in (0..40).map(RegionNumber) {
                prop_assert_eq!(map.get(number), model.get(&number));
            }
            // Equality ignores how a map came about.
            let mut same = ByNumber::default();
            for (number, value) in model.into_iter().rev() {
                same.insert(number, value);
            }
            prop_assert_eq!(map, same);
        }
    }
}
