//! Builds the index of a table: in one step, or in parts while other threads use the table.

use alloc::vec::Vec;

use crate::{index::Index, prefix::Prefix, region::RegionNumber, revision::Revision, table::Table};

impl Index {
    /// Builds the index of this table. Time and memory depend only on the number of regions: at most 50 bytes per
    /// region for a large table.
    pub fn build(table: &Table) -> Self {
        let sorted = table.prefixes_after(None);
        Self::over(table.revision(), table.bits(), table.next_number(), table.len(), sorted)
    }
}

/// The construction of an index while other threads use the table. It reads the prefixes in parts, and then no longer
/// needs the table.
#[derive(Clone, Debug)]
pub struct Indexing {
    revision: Revision,
    bits: u8,
    next: RegionNumber,
    prefixes: Vec<(Prefix, RegionNumber)>,
}

impl Indexing {
    /// Starts an index of this table without reading any prefixes.
    pub fn of(table: &Table) -> Self {
        let prefixes = Vec::with_capacity(table.len());
        Self { revision: table.revision(), bits: table.bits(), next: table.next_number(), prefixes }
    }

    /// Reads up to `most` further prefixes and returns whether there may be more. Returns `None` if the table has been
    /// edited since the index was started.
    pub fn read(&mut self, table: &Table, most: usize) -> Option<bool> {
        if table.revision() != self.revision {
            return None;
        }
        let had = self.prefixes.len();
        self.prefixes.extend(table.prefixes_after(self.prefixes.last().map(|(prefix, _)| *prefix)).take(most));
        Some(self.prefixes.len() == had + most)
    }

    /// Builds the index from the prefixes that were read.
    pub fn build(self) -> Index {
        Index::over(self.revision, self.bits, self.next, self.prefixes.len(), self.prefixes.iter().copied())
    }
}
