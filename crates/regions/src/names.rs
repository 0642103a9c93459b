//! Finds regions by their names.
//!
//! The regions already hold their names, so this set holds only hashes of names. It takes a quarter of the memory of a
//! map of names, and a search compares integers instead of strings.

use alloc::{collections::BTreeSet, vec::Vec};

use siphasher::sip::SipHasher13;

use crate::region::{Region, RegionNumber};

/// The hashes of the names of all regions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeSet<Entry>);

/// The hash of a name, and the number of the region. In a million names, about a hundred pairs have the same
/// hash. Packed, because an aligned number would enlarge an entry from 12 to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed)]
struct Entry {
    hash: u32,
    number: RegionNumber,
}

impl Names {
    /// Adds a region.
    pub(crate) fn insert(&mut self, region: &Region) {
        self.0.insert(entry(region));
    }

    /// Removes a region.
    pub(crate) fn remove(&mut self, region: &Region) {
        self.0.remove(&entry(region));
    }

    /// Returns the regions that may have this name. Others are among them only if two names have the same hash.
    pub(crate) fn candidates(&self, name: &str) -> impl Iterator<Item = RegionNumber> {
        let hash = hash(name);
        let entry = |number| Entry { hash, number: RegionNumber(number) };
        self.0.range(entry(0)..=entry(u64::MAX)).map(|entry| entry.number)
    }

    /// Returns the regions whose names have the same hash as another region's name, except for one such region.
    pub(crate) fn doubtful(&self) -> impl Iterator<Item = RegionNumber> {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.filter(|(one, other)| { one.hash } == { other.hash }).map(|(_, other)| other.number)
    }
}

impl<'r> FromIterator<&'r Region> for Names {
    fn from_iter<I: IntoIterator<Item = &'r Region>>(regions: I) -> Self {
        let mut entries: Vec<_> = regions.into_iter().map(entry).collect();
        entries.sort_unstable();
        Self(entries.into_iter().collect())
    }
}

fn entry(region: &Region) -> Entry {
    Entry { hash: hash(&region.name), number: region.number }
}

/// The key is constant, because equal hashes only cost time, and only operators choose names.
fn hash(name: &str) -> u32 {
    SipHasher13::new().hash(name.as_bytes()) as u32 // OK because any part of the hash will do
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_regions_whose_names_have_the_same_hash_are_candidates() {
        let numbers = |numbers: &[u64]| numbers.iter().copied().map(RegionNumber).collect::<Vec<_>>();
        let (orders, parts) = (hash("orders"), hash("parts"));
        let entry = |(hash, number)| Entry { hash, number: RegionNumber(number) };
        let names = Names([(orders, 7), (parts, 2), (orders, 3), (orders, 5)].map(entry).into());
        assert_eq!(names.candidates("orders").collect::<Vec<_>>(), numbers(&[3, 5, 7]));
        assert_eq!(names.candidates("parts").collect::<Vec<_>>(), numbers(&[2]));
        assert_eq!(names.candidates("order").count(), 0);
        assert_eq!(names.doubtful().collect::<Vec<_>>(), numbers(&[5, 7]));
    }
}
