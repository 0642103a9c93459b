//! Classification: to which regions an identifier belongs, the longest matching prefix deciding.

use alloc::vec::Vec;

use crate::{
    prefix::Prefix,
    region::{FormerPrefix, Kind, Region},
    revision::Revision,
    table::Table,
};

/// Where an identifier belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification<'t> {
    /// All regions around it, outermost first; the last one is the one that it belongs to.
    pub path: Vec<&'t Region>,
    /// What it is there.
    pub status: Status,
}

/// What an identifier is in the innermost region around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// In no region.
    Free,
    /// In a closed region, under an extension that no subregion has.
    Unassigned,
    /// A bit of the expansion zone is set.
    Reserved,
    /// One of the region's identifiers.
    Member {
        /// Its suffix.
        suffix: u128,
        /// Whether it is issued or reserved.
        issued: bool,
    },
}

impl Status {
    /// The name in regions.md.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Unassigned => "unassigned",
            Self::Reserved => "reserved",
            Self::Member { .. } => "member",
        }
    }
}

impl Table {
    /// Where an identifier belongs, or `None` if it has more than n bits.
    pub fn classify(&self, id: u128) -> Option<Classification<'_>> {
        if !self.is_wide_enough(id) {
            return None;
        }
        let region = match self.index() {
            Some(index) => index.find(id).and_then(|number| self.get(number)),
            None => self.innermost(id),
        };
        Some(self.classified(id, region))
    }

    /// What [`classify`](Self::classify) says about each of many identifiers; with an index, faster than one by one.
    pub fn classify_all(&self, ids: &[u128]) -> Vec<Option<Classification<'_>>> {
        let Some(index) = self.index() else { return ids.iter().map(|id| self.classify(*id)).collect() };
        let mut found = Vec::new();
        index.find_all(ids, &mut found);
        let regions = found.iter().map(|number| number.and_then(|number| self.get(number)));
        let each = ids.iter().zip(regions);
        each.map(|(id, region)| self.is_wide_enough(*id).then(|| self.classified(*id, region))).collect()
    }

    const fn is_wide_enough(&self, id: u128) -> bool {
        self.bits() >= 128 || id >> self.bits() == 0
    }

    /// The innermost region around an identifier, without an index.
    fn innermost(&self, id: u128) -> Option<&Region> {
        let mut region = self.at_or_before(Prefix::new(id, self.bits()));
        // The regions around an identifier are around the last one that begins before it, too.
        while let Some(candidate) = region
            && !candidate.prefix.holds(id, self.bits())
        {
            region = self.parent(candidate);
        }
        region
    }

    fn classified<'t>(&'t self, id: u128, region: Option<&'t Region>) -> Classification<'t> {
        let status = region.map_or(Status::Free, |region| self.status(region, id));
        Classification { path: self.path(region), status }
    }

    fn status(&self, region: &Region, id: u128) -> Status {
        if region.kind == Kind::Closed {
            return Status::Unassigned;
        }
        let below = id ^ region.prefix.base(self.bits());
        match region.capacity().includes(below) {
            true => Status::Member { suffix: below, issued: region.issued.includes(below) },
            false => Status::Reserved,
        }
    }

    /// The regions around and including this one, outermost first.
    fn path<'t>(&'t self, innermost: Option<&'t Region>) -> Vec<&'t Region> {
        let mut path: Vec<&Region> = core::iter::successors(innermost, |region| self.parent(region)).collect();
        path.reverse();
        path
    }

    /// Every region that has or had this prefix, with the first and last revision in which it did (`None`: still has it).
    pub fn held(&self, prefix: Prefix) -> Vec<(&Region, Revision, Option<Revision>)> {
        let mut holders = Vec::new();
        // A region's present prefix begins with every one that it had.
        for region in self.within(prefix) {
            let former = region.history.iter().filter(|former| former.prefix == prefix);
            holders.extend(former.map(|FormerPrefix { from, to, .. }| (region, *from, Some(*to))));
            if region.prefix == prefix {
                holders.push((region, region.since, None));
            }
        }
        holders.sort_by_key(|(_, from, _)| *from);
        holders
    }
}
