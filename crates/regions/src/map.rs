//! Maps of a space: cells that tile a prefix, each with sums over the regions in it.
//!
//! A map begins with one cell, and divides its widest cell repeatedly until it has enough cells. Each step costs a few
//! lookups in sums that the table keeps, so the time depends on the number of cells and not on the number of regions.

use alloc::{collections::BinaryHeap, sync::Arc, vec::Vec};
use core::{cmp::Reverse, mem};

use crate::{
    chart::{Chart, Charted},
    count::Count,
    prefix::Prefix,
    region::{Kind, Region},
    revision::Revision,
    rewind::Rewind,
    table::Table,
    tally::Tally,
};

/// The maximum number of cells of a map.
pub const CELLS_MAX: usize = 4096;

/// A map of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The regions around the prefix, outermost first. They are not counted in any cell.
    pub around: Vec<Arc<Region>>,
    /// The cells, in the order of their prefixes. They tile the prefix.
    pub cells: Vec<Cell>,
}

/// All identifiers that begin with a prefix.
///
/// A region is counted in the cell that contains its first identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The prefix.
    pub prefix: Prefix,
    /// The sums over the regions that are counted in the cell.
    sums: Tally,
    /// The sums over the regions that begin with the prefix.
    below: Tally,
    /// The region with exactly this prefix.
    own: Option<Arc<Region>>,
    /// The innermost region around the cell.
    around: Option<Arc<Region>>,
}

/// What is in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// Suffixes of a region.
    Region,
    /// Identifiers in no region.
    Free,
    /// Unassigned identifiers of a region: its expansion zone, or extensions without a subregion.
    Zone,
    /// A region with subregions.
    Subregions,
    /// A delegated region.
    Delegated,
    /// A region that has a seal itself, and is not only covered by the seal of a region around it.
    Sealed,
    /// A closed region.
    Closed,
    /// A strict region.
    Strict,
}

impl Cell {
    /// Returns the number of regions that are counted in the cell.
    pub const fn regions(&self) -> u32 {
        self.sums.regions
    }

    /// Returns the total capacity of the regions that are counted in the cell.
    pub const fn capacity(&self) -> Count {
        self.sums.capacity()
    }

    /// Returns the number of issued or reserved suffixes of the regions that are counted in the cell.
    pub const fn issued(&self) -> Count {
        self.sums.issued()
    }

    /// Returns the share of the cell that is in no region, from 0 to 1. The share is above 0 if any identifier is in no
    /// region.
    pub fn free_share(&self) -> f64 {
        if self.around.is_some() { 0.0 } else { self.below.free_share(self.prefix) }
    }

    /// Returns the region that the cell shows: the only region that begins with the cell's prefix. If no region begins
    /// with it, the cell shows the innermost region around it, provided that the cell contains identifiers outside that
    /// region's zone. Returns `None` if the cell shows several regions, no region, or a region and free space.
    pub fn region(&self) -> Option<&Arc<Region>> {
        match self.below.regions {
            0 => self.around.as_ref().filter(|region| has_suffixes(region, self.prefix)),
            1 => self.own.as_ref(),
            _ => None,
        }
    }

    /// Returns the innermost region around the cell. The region's prefix is shorter than the cell's.
    pub const fn around(&self) -> Option<&Arc<Region>> {
        self.around.as_ref()
    }

    /// Returns what is in the cell.
    pub fn contents(&self) -> impl Iterator<Item = Content> {
        let Tally { regions, closed, parents, delegated, sealed, strict, with_zone, .. } = self.sums;
        let is_room = self.below.regions == 0 && self.around.is_some() && self.region().is_none();
        let present = [
            (Content::Region, regions > closed || self.region().is_some()),
            (Content::Free, self.free_share() > 0.0),
            (Content::Zone, with_zone > 0 || is_room),
            (Content::Subregions, parents > 0),
            (Content::Delegated, delegated > 0),
            (Content::Sealed, sealed > 0),
            (Content::Closed, closed > 0),
            (Content::Strict, strict > 0),
        ];
        present.into_iter().filter(|(_, is_present)| *is_present).map(|(content, _)| content)
    }

    /// Returns whether regions other than the cell's own begin inside the cell, so that its halves differ.
    fn is_divisible(&self) -> bool {
        self.below.regions > u32::from(self.own.is_some())
    }

    /// Returns the two halves of a divisible cell.
    fn halves(self, charted: &impl Charted) -> [Self; 2] {
        let [left, right] = [false, true].map(|is_upper| self.prefix.half(is_upper));
        let own = charted.exactly(self.prefix).map(|(_, tally)| tally).unwrap_or_default();
        // These regions are counted here, but their prefixes are not longer than the cell's, so their first identifier
        // is in the left half.
        let whole = self.sums.minus(self.below).plus(own);
        let around = self.own.or(self.around);
        let (in_left, in_right) = (charted.sum(left), charted.sum(right));
        [
            Self::new(charted, left, in_left, whole.plus(in_left), around.clone()),
            Self::new(charted, right, in_right, in_right, around),
        ]
    }

    fn new(charted: &impl Charted, prefix: Prefix, below: Tally, sums: Tally, around: Option<Arc<Region>>) -> Self {
        let own = if below.regions == 0 { None } else { charted.exactly(prefix).map(|(region, _)| region.clone()) };
        Self { prefix, sums, below, own, around }
    }
}

/// Returns whether a region has identifiers outside its zone that begin with a prefix.
fn has_suffixes(region: &Region, prefix: Prefix) -> bool {
    region.kind != Kind::Closed && region.prefix.zeros(region.zone).relates_to(prefix)
}

/// A map that is drawn in parts, so that other threads can use the table between two parts.
#[derive(Debug)]
pub struct Mapping {
    revision: Revision,
    cells_max: usize,
    around: Vec<Arc<Region>>,
    /// The divisible cells: the widest first, and the leftmost first among cells of equal width.
    divisible: BinaryHeap<Reverse<Next>>,
    /// The other cells.
    done: Vec<Cell>,
}

/// A divisible cell. The ordering of cells is the order in which they are divided.
#[derive(Debug)]
struct Next(Cell);

impl Next {
    const fn key(&self) -> (u8, Prefix) {
        (self.0.prefix.len(), self.0.prefix)
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Next {}

impl Mapping {
    /// Begins a map of the part of a table below `under`, with at most `cells_max` cells (1 to [`CELLS_MAX`]). A prefix
    /// that is longer than the identifiers is truncated.
    pub fn of(table: &Table, under: Prefix, cells_max: usize) -> Self {
        Self::begin(table, table.revision(), under, cells_max)
    }

    fn begin(charted: &impl Charted, revision: Revision, under: Prefix, cells_max: usize) -> Self {
        let under = under.first(charted.bits());
        let outer = (0..under.len()).map(|len| under.first(len));
        let around: Vec<_> =
            outer.filter_map(|outer| charted.exactly(outer)).map(|(region, _)| region.clone()).collect();
        let below = charted.sum(under);
        let cell = Cell::new(charted, under, below, below, around.last().cloned());
        let cells_max = cells_max.clamp(1, CELLS_MAX);
        let mut mapping = Self { revision, cells_max, around, divisible: BinaryHeap::new(), done: Vec::new() };
        mapping.keep(cell);
        mapping
    }

    /// Like [`Mapping::of`], for the table at the earlier revision of a [`Rewind`]. Returns `None` if the table has been
    /// edited since the rewind was created.
    pub fn of_earlier(table: &Table, rewind: &Rewind, under: Prefix, cells_max: usize) -> Option<Self> {
        Some(Self::begin(&rewind.of(table)?, table.revision(), under, cells_max))
    }

    /// Like [`Mapping::divide`], for a map that [`Mapping::of_earlier`] began with the same rewind.
    pub fn divide_earlier(&mut self, table: &Table, rewind: &Rewind, most: usize) -> Option<bool> {
        Some(self.divide_in(&rewind.of(table)?, most))
    }

    /// Divides up to `most` cells, and returns whether there are more to divide. Returns `None` if the table has been
    /// edited since the map began.
    pub fn divide(&mut self, table: &Table, most: usize) -> Option<bool> {
        (table.revision() == self.revision).then(|| self.divide_in(table, most))
    }

    fn divide_in(&mut self, charted: &impl Charted, most: usize) -> bool {
        for _ in 0..most {
            if self.len() >= self.cells_max {
                return false;
            }
            let Some(Reverse(Next(cell))) = self.divisible.pop() else { return false };
            cell.halves(charted).into_iter().for_each(|half| self.keep(half));
        }
        !self.divisible.is_empty() && self.len() < self.cells_max
    }

    /// Returns the map.
    pub fn finish(mut self) -> Map {
        let mut cells = mem::take(&mut self.done);
        cells.extend(self.divisible.into_iter().map(|Reverse(Next(cell))| cell));
        cells.sort_unstable_by_key(|cell| cell.prefix);
        Map { around: self.around, cells }
    }

    fn len(&self) -> usize {
        self.divisible.len() + self.done.len()
    }

    fn keep(&mut self, cell: Cell) {
        match cell.is_divisible() {
            true => self.divisible.push(Reverse(Next(cell))),
            false => self.done.push(cell),
        }
    }
}

impl Table {
    /// Returns a map of the part of the table below `under`, with at most `cells_max` cells (1 to [`CELLS_MAX`]).
    pub fn map(&self, under: Prefix, cells_max: usize) -> Map {
        whole(self, under, cells_max)
    }
}

impl Chart {
    /// Returns a map of the part of the chart below `under`, with at most `cells_max` cells (1 to [`CELLS_MAX`]).
    pub fn map(&self, under: Prefix, cells_max: usize) -> Map {
        whole(self, under, cells_max)
    }
}

fn whole(charted: &impl Charted, under: Prefix, cells_max: usize) -> Map {
    let mut mapping = Mapping::begin(charted, Revision(0), under, cells_max);
    while mapping.divide_in(charted, CELLS_MAX) {}
    mapping.finish()
}

#[cfg(test)]
mod tests;
