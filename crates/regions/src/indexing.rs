//! Making the index of a table: at once, or part by part while others use the table.

use alloc::vec::Vec;

use crate::{index::Index, prefix::Prefix, region::RegionNumber, revision::Revision, table::Table};

impl Index {
    /// The index of this table. Time and memory grow with the number of regions, whatever their prefixes: at most 50 bytes a
    /// region of a large table.
    pub fn build(table: &Table) -> Self {
        let sorted = table.prefixes_after(None);
        Self::over(table.revision(), table.bits(), table.next_number(), table.len(), sorted)
    }
}

/// An index that is being made of a table which others use meanwhile: its prefixes are read part by part, and the rest is done
/// without the table.
#[derive(Clone, Debug)]
pub struct Indexing {
    revision: Revision,
    bits: u8,
    next: RegionNumber,
    prefixes: Vec<(Prefix, RegionNumber)>,
}

impl Indexing {
    /// Nothing has been read of the table yet.
    pub fn of(table: &Table) -> Self {
        let prefixes = Vec::with_capacity(table.len());
        Self { revision: table.revision(), bits: table.bits(), next: table.next_number(), prefixes }
    }

    /// Reads the next `most` prefixes, and says whether there may be more; `None` if the table has been edited.
    pub fn read(&mut self, table: &Table, most: usize) -> Option<bool> {
        if table.revision() != self.revision {
            return None;
        }
        let had = self.prefixes.len();
        self.prefixes.extend(table.prefixes_after(self.prefixes.last().map(|(prefix, _)| *prefix)).take(most));
        Some(self.prefixes.len() == had + most)
    }

    /// The index of what has been read.
    pub fn build(self) -> Index {
        Index::over(self.revision, self.bits, self.next, self.prefixes.len(), self.prefixes.iter().copied())
    }
}
