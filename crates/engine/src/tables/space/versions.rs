//! The versions of the records of a space's regions.

use std::num::NonZeroU64;

use kent_regions::{ByNumber, RegionNumber};
use kent_store::Version;

/// The version of each region's record.
#[derive(Debug, Default)]
pub(in crate::tables) struct RegionVersions(ByNumber<NonZeroU64>);

impl RegionVersions {
    /// Returns the version of a region's record. It is [`Version::ABSENT`] if there is no such region.
    pub(in crate::tables) fn get(&self, number: RegionNumber) -> Version {
        self.0.get(number).map_or(Version::ABSENT, |version| Version::new(version.get()))
    }

    pub(in crate::tables) fn set(&mut self, number: RegionNumber, version: Version) {
        match NonZeroU64::new(version.get()) {
            Some(version) => self.0.insert(number, version),
            None => self.0.remove(number),
        };
    }

    pub(in crate::tables) fn remove(&mut self, number: RegionNumber) {
        self.0.remove(number);
    }
}
