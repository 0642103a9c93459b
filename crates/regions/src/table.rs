//! The prefix table of one space: its regions by name, by number and by prefix.

use alloc::{sync::Arc, vec::Vec};
use core::hash::{Hash, Hasher};
use core::ops::Bound::{self, Excluded, Unbounded};

use thiserror::Error;

use kent_ids::ClusterKey;

use crate::{
    by_number::ByNumber,
    chart::Charted,
    count::Count,
    free::FreeBlocks,
    index::Index,
    limits::BITS_MAX,
    names::Names,
    ordered::Ordered,
    prefix::Prefix,
    refusal::Refusal,
    region::{Kind, Region, RegionNumber},
    revision::Revision,
    tally::{Tallies, Tally},
};

/// The prefix table of a space of n-bit identifiers.
///
/// Regions nest and form a forest. In the order of prefixes, a region comes before the regions inside it.
#[derive(Clone, Debug)]
pub struct Table {
    bits: u8,
    revision: Revision,
    next_number: RegionNumber,
    /// Pointers to regions make copies of the table cheap. `by_prefix` has pointers to the same regions.
    regions: ByNumber<Arc<Region>>,
    names: Names,
    by_prefix: Ordered,
    free: FreeBlocks,
    tallies: Tallies,
    /// The index of this revision, if one has been set.
    index: Option<Arc<Index>>,
    /// The key from which the keys of scrambled regions are derived, if it is known.
    scramble_key: Option<ClusterKey>,
}

/// Equality ignores the index and the key, which do not change the contents of the table.
impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        let facts = |table: &Self| (table.bits, table.revision, table.next_number);
        facts(self) == facts(other) && self.regions == other.regions
    }
}

impl Eq for Table {}

impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.bits, self.revision, self.next_number).hash(state);
        self.regions.hash(state);
    }
}

/// The error for a width that is not 1 to 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("identifiers must have 1 to 128 bits, not {bits}")]
pub struct BadWidth {
    /// The requested width in bits.
    pub bits: u32,
}

impl Table {
    /// Creates an empty table for identifiers of `bits` bits, at revision 0.
    ///
    /// # Errors
    /// Returns [`BadWidth`] unless `bits` is 1 to 128.
    pub fn new(bits: u32) -> Result<Self, BadWidth> {
        match u8::try_from(bits) {
            Ok(bits) if (1..=BITS_MAX).contains(&bits) => Ok(Self::empty(bits, Revision(0), RegionNumber(1))),
            _ => Err(BadWidth { bits }),
        }
    }

    pub(crate) fn empty(bits: u8, revision: Revision, next_number: RegionNumber) -> Self {
        let (regions, names, by_prefix) = (ByNumber::default(), Names::default(), Ordered::default());
        Self {
            bits,
            revision,
            next_number,
            regions,
            names,
            by_prefix,
            free: FreeBlocks::all(),
            tallies: Tallies::default(),
            index: None,
            scramble_key: None,
        }
    }

    /// Returns an empty table with regions, in the order of their prefixes and by number, but without their names.
    pub(crate) fn with(self, listed: &[Arc<Region>], regions: ByNumber<Arc<Region>>) -> Self {
        let top: Vec<_> =
            listed.iter().filter(|region| region.parent().is_none()).map(|region| region.prefix).collect();
        let by_prefix = listed.iter().cloned().collect();
        Self { regions, by_prefix, free: FreeBlocks::beside(&top), tallies: Tallies::of(listed), ..self }
    }

    /// Returns a table with the names of its regions.
    pub(crate) fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// Returns a region that has the name of another one.
    pub(crate) fn same_name(&self) -> Option<&Region> {
        let mut doubtful = self.names.doubtful().filter_map(|number| self.get(number));
        doubtful.find(|region| self.all_named(&region.name).nth(1).is_some())
    }

    /// Returns the region with this name. In a damaged table, there may be several.
    fn all_named(&self, name: &str) -> impl Iterator<Item = &Arc<Region>> {
        let candidates = self.names.candidates(name).filter_map(|number| self.regions.get(number));
        candidates.filter(move |region| region.name == name)
    }

    /// Returns the key from which the keys of scrambled regions are derived, if it is known.
    pub const fn scramble_key(&self) -> Option<&ClusterKey> {
        self.scramble_key.as_ref()
    }

    /// Sets the key from which the keys of scrambled regions are derived. [`classify`](Self::classify) needs it to know
    /// which suffixes such regions have issued.
    pub const fn set_scramble_key(&mut self, key: ClusterKey) {
        self.scramble_key = Some(key);
    }

    /// Returns the key of a region's scrambled order, if the key of the space is known. Each region has its own key, so
    /// that a lease from one region reveals nothing about the order of another.
    pub fn order_key(&self, region: &Region) -> Option<ClusterKey> {
        self.scramble_key.map(|key| key.of_region(region.key_number().0))
    }

    /// Returns the width n of the identifiers in bits.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// Returns the revision of the table.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the number for the next new region.
    pub const fn next_number(&self) -> RegionNumber {
        self.next_number
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Returns whether there are no regions.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Returns the region with this number.
    pub fn get(&self, number: RegionNumber) -> Option<&Region> {
        self.get_shared(number).map(Arc::as_ref)
    }

    /// Like [`get`](Self::get), but returns a shared pointer that the caller can keep.
    pub fn get_shared(&self, number: RegionNumber) -> Option<&Arc<Region>> {
        self.regions.get(number)
    }

    /// Returns the region with this name.
    ///
    /// # Errors
    ///
    /// Fails with `no-such-region`.
    pub fn named(&self, name: &str) -> Result<&Region, Refusal> {
        self.shared(name).map(Arc::as_ref)
    }

    /// Like [`named`](Self::named), but returns a shared pointer that the caller can keep.
    ///
    /// # Errors
    ///
    /// Fails with `no-such-region`.
    pub fn shared(&self, name: &str) -> Result<&Arc<Region>, Refusal> {
        self.all_named(name).next().ok_or_else(|| Refusal::NoSuchRegion { name: name.into() })
    }

    /// Returns all regions in the order of their prefixes, outer before inner.
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.iter_after(None).map(Arc::as_ref)
    }

    /// Returns all regions, or those after a prefix, in the order of their prefixes, as shared pointers that the caller
    /// can keep.
    pub fn iter_after(&self, after: Option<Prefix>) -> impl Iterator<Item = &Arc<Region>> {
        self.by_prefix.from(after.map_or(Unbounded, Excluded))
    }

    /// Returns all prefixes, or those after `after`, in order, each with the number of its region.
    pub(crate) fn prefixes_after(&self, after: Option<Prefix>) -> impl Iterator<Item = (Prefix, RegionNumber)> + Clone {
        self.by_prefix.from(after.map_or(Unbounded, Excluded)).map(|region| (region.prefix, region.number))
    }

    /// Returns the index of the current revision, if one has been set.
    pub fn index(&self) -> Option<&Index> {
        self.index.as_deref()
    }

    /// Sets the index to use until the next edit, and returns whether it was accepted. An index of another revision is
    /// rejected.
    pub fn set_index(&mut self, index: Arc<Index>) -> bool {
        let fits = index.revision() == self.revision;
        self.index = fits.then_some(index);
        fits
    }

    /// Returns the parent of a region.
    pub fn parent(&self, region: &Region) -> Option<&Region> {
        region.parent().and_then(|parent| self.get(parent))
    }

    /// Returns a region, its parent, its parent's parent, and so on.
    pub fn outward<'t>(&'t self, region: &'t Region) -> impl Iterator<Item = &'t Region> {
        core::iter::successors(Some(region), |region| self.parent(region))
    }

    /// Returns the subregions of a region, in the order of their prefixes.
    pub fn children(&self, region: &Region) -> impl Iterator<Item = &Region> {
        let number = region.number;
        let inside = self.outermost_from(Excluded(region.prefix), region.prefix);
        inside.filter(move |inner| inner.parent() == Some(number))
    }

    /// Returns the outermost regions among those that begin at or after `from` and whose prefix begins with `under`.
    pub(crate) fn outermost_from(&self, from: Bound<Prefix>, under: Prefix) -> impl Iterator<Item = &Region> {
        let mut from = from;
        core::iter::from_fn(move || {
            let region = self.by_prefix.from(from).next()?;
            from = Excluded(region.prefix.last_inside());
            region.prefix.starts_with(under).then_some(region.as_ref())
        })
    }

    /// Returns the regions without a parent, in the order of their prefixes.
    pub fn top_level(&self) -> impl Iterator<Item = &Region> {
        self.outermost_from(Unbounded, Prefix::EMPTY).filter(|region| region.parent().is_none())
    }

    /// Returns the space below `under` that no top-level region covers, as the fewest possible blocks, from left to
    /// right.
    pub fn free_blocks(&self, under: Prefix) -> Vec<Prefix> {
        self.free.below(under)
    }

    /// Returns the free blocks of at least 2^`bits` identifiers, larger blocks first, blocks of equal size from left to
    /// right. A block is a maximal free prefix: it overlaps no top-level region, but its sibling does. With `after`,
    /// returns only the blocks after that one.
    pub fn free_by_size(&self, bits: u8, after: Option<Prefix>) -> impl Iterator<Item = Prefix> {
        let longest = self.bits.checked_sub(bits);
        longest.into_iter().flat_map(move |len| self.free.up_to(len, after))
    }

    /// Returns the region with exactly this prefix.
    pub(crate) fn at(&self, prefix: Prefix) -> Option<&Region> {
        self.by_prefix.at(prefix).map(Arc::as_ref)
    }

    pub(crate) const fn free(&self) -> &FreeBlocks {
        &self.free
    }

    /// Returns the regions whose prefix begins with `prefix`, in the order of their prefixes.
    pub(crate) fn within(&self, prefix: Prefix) -> impl Iterator<Item = &Region> {
        self.by_prefix.within(prefix).map(Arc::as_ref)
    }

    /// Returns the last region that begins at or before `prefix`.
    pub(crate) fn at_or_before(&self, prefix: Prefix) -> Option<&Region> {
        self.by_prefix.at_or_before(prefix).map(Arc::as_ref)
    }

    /// Moves to another revision: removes the regions with these numbers, and adds `regions`.
    pub(crate) fn revise(
        &mut self,
        revision: Revision,
        numbers: impl Iterator<Item = RegionNumber>,
        regions: Vec<Region>,
    ) {
        for number in numbers {
            self.remove(number);
        }
        for region in regions {
            self.insert(region);
        }
        self.revision = revision;
        self.index = None;
    }

    /// Sets how many suffixes of a region are issued or reserved. This is not an edit, so the revision stays the same.
    /// Does nothing for a closed region, whose counter continues in its all-zero subregion.
    pub fn set_issued(&mut self, number: RegionNumber, issued: Count) {
        if let Some(region) = self.regions.get_mut(number).filter(|region| region.kind != Kind::Closed) {
            let before = Tally::in_table(region);
            // Without this second pointer, the region can be changed in place, unless it is used elsewhere.
            self.by_prefix.remove(region.prefix);
            Arc::make_mut(region).issued = issued.into();
            self.by_prefix.insert(region.clone());
            self.tallies.replace(region.prefix, before, Tally::in_table(region));
        }
    }

    /// Issues the next `count` suffixes of the named region, and returns the first.
    ///
    /// # Errors
    ///
    /// Fails with `no-such-region`, `closed`, `delegated` or `capacity-exhausted`.
    pub fn issue(&mut self, name: &str, count: u128) -> Result<u128, Refusal> {
        let region = self.open(name)?;
        let issued = region.issued.checked_add(count).filter(|issued| *issued <= region.capacity());
        match (issued, region.issued.get()) {
            (Some(issued), Some(first)) => {
                self.set_issued(region.number, issued);
                Ok(first)
            }
            _ => Err(Refusal::CapacityExhausted {
                region: name.into(),
                capacity: region.capacity(),
                issued: *region.issued,
                expandable_bits: region.expandable_bits(),
            }),
        }
    }

    /// Declares that a suffix of the named region is in use. This suffix and all lower ones count as issued. Returns
    /// the new count.
    ///
    /// # Errors
    ///
    /// Fails with `no-such-region`, `closed`, `delegated` or `suffix-range`.
    pub fn note(&mut self, name: &str, suffix: u128) -> Result<Count, Refusal> {
        let region = self.open(name)?;
        if !region.capacity().includes(suffix) {
            return Err(Refusal::SuffixValue { suffix, bits: region.suffix });
        }
        let issued = region.issued.max(Count::through(suffix));
        self.set_issued(region.number, issued);
        Ok(issued)
    }

    /// Returns the identifier of a suffix of the named region: `prefix | zeros | suffix`.
    ///
    /// # Errors
    ///
    /// Fails with `no-such-region`, `closed`, `delegated` or `suffix-range`.
    pub fn compose(&self, name: &str, suffix: u128) -> Result<u128, Refusal> {
        let region = self.open(name)?;
        region.compose(suffix, self.bits).map_err(|_| Refusal::SuffixValue { suffix, bits: region.suffix })
    }

    fn open(&self, name: &str) -> Result<&Region, Refusal> {
        let region = self.named(name)?;
        self.check_not_closed(region)?;
        region.check_not_delegated()?;
        Ok(region)
    }

    pub(crate) fn insert(&mut self, region: Region) {
        self.next_number = self.next_number.max(RegionNumber(region.number.0.saturating_add(1)));
        self.names.insert(&region);
        let region = Arc::new(region);
        self.by_prefix.insert(region.clone());
        if region.parent().is_none() {
            self.free.take(region.prefix);
        }
        let (prefix, added) = (region.prefix, Tally::in_table(&region));
        self.regions.insert(region.number, region);
        let by_prefix = &self.by_prefix;
        self.tallies
            .add(prefix, added, |under| by_prefix.within(under).map(|region| (region.prefix, Tally::in_table(region))));
    }

    fn remove(&mut self, number: RegionNumber) {
        if let Some(region) = self.regions.remove(number) {
            self.names.remove(&region);
            self.by_prefix.remove(region.prefix);
            self.tallies.remove(region.prefix, Tally::in_table(&region));
            if region.parent().is_none() {
                self.free.give(region.prefix);
            }
        }
    }
}

impl Charted for Table {
    fn bits(&self) -> u8 {
        self.bits
    }

    fn stored(&self, under: Prefix) -> Option<Tally> {
        self.tallies.at(under)
    }

    fn inside(&self, under: Prefix) -> impl Iterator<Item = (&Arc<Region>, Tally)> {
        self.by_prefix.within(under).map(|region| (region, Tally::in_table(region)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::hash::BuildHasher;

    use super::*;
    use crate::{Edit, Name, Order, Place, Start};

    /// Returns a table of one region.
    fn table(name: &str) -> Table {
        let mut table = Table::new(8).expect("a width");
        let place = Place::At("1".parse().expect("a prefix"));
        let (next, order) = (Count::ZERO, Order::Sequential);
        let create =
            Edit::Create { name: name.into(), suffix: 4, place, start: Start { next, order, ..Start::default() } };
        let plan = table.plan(&create).expect("a plan");
        table.apply(&plan).expect("a fresh plan");
        table
    }

    #[test]
    fn ok_tables_are_equal_if_their_facts_are() {
        let hash = |table: &Table| core::hash::BuildHasherDefault::<Sum>::default().hash_one(table);
        let same = table("r");
        assert_eq!(same, table("r"));
        assert_eq!(hash(&same), hash(&table("r")));
        let mut issued = table("r");
        issued.issue("r", 1).expect("enough suffixes are left");
        let later = Table { revision: Revision(7), ..table("r") };
        let wider = Table { bits: 9, ..table("r") };
        let mut indexed = table("r");
        assert!(indexed.set_index(Arc::new(Index::build(&indexed))));
        assert_eq!((&indexed, hash(&indexed)), (&same, hash(&same)));
        for other in [table("s"), issued, later, wider, Table::new(8).expect("a width")] {
            assert_ne!(same, other);
            assert_ne!(hash(&same), hash(&other));
        }
    }

    #[test]
    fn ok_a_restored_table_adds_up_to_the_same_as_one_that_grows() {
        let template = table("r").named("r").expect("there").clone();
        let region = |at: u128, len: u8, number: u128| {
            let number = RegionNumber(number as u64 + 1);
            let (name, prefix) = (alloc::format!("r{}", number.0), Prefix::new(at, len));
            Region {
                number,
                name: name.into(),
                prefix,
                zone: 12 - len,
                sealed: at.is_multiple_of(5),
                ..template.clone()
            }
        };
        // Odd blocks are whole, and of the others some halves are free.
        let regions: Vec<Region> = (0..256)
            .filter_map(|at| match at % 4 {
                1 | 3 => Some(region(at, 8, at)),
                0 => Some(region(at << 1, 9, at)),
                _ => None,
            })
            .collect();
        let mut grown = Table::empty(16, Revision(1), RegionNumber(300));
        regions.iter().rev().for_each(|region| grown.insert(region.clone()));
        let restored = Table::restore(16, Revision(1), RegionNumber(300), regions).expect("a table");
        assert_eq!((&restored, &restored.free), (&grown, &grown.free));
        for len in 0..=9 {
            for bits in 0..1 << len {
                let under = Prefix::new(bits, len);
                assert_eq!(restored.tallies.at(under), grown.tallies.at(under), "{under}");
            }
        }
        assert!(restored.tallies.at(Prefix::new(0, 2)).is_some(), "the tallies are divided");
    }

    /// A simple hash that depends on the order of the bytes.
    #[derive(Default)]
    struct Sum(u64);

    impl Hasher for Sum {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            self.0 = bytes.iter().fold(self.0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte) + 1));
        }
    }

    #[test]
    fn ok_equal_hashes_do_not_mix_up_names() {
        let mut table = table("r");
        let (r, name) = (table.named("r").expect("there").clone(), Name::from("s"));
        table.insert(Region { number: RegionNumber(2), name: name.clone(), prefix: Prefix::new(0, 1), ..r.clone() });
        // As if the names of both regions had the same hash.
        table.names.insert(&Region { name, ..r });
        assert_eq!(table.named("s").map(|region| region.number), Ok(RegionNumber(2)));
    }

    #[test]
    fn ok_an_index_of_another_revision_is_rejected() {
        let (mut table, other) = (table("r"), Table::new(8).expect("a width"));
        assert!(!table.set_index(Arc::new(Index::build(&other))));
        assert!(table.index().is_none());
        let index = Arc::new(Index::build(&table));
        assert!(table.set_index(index.clone()) && table.index().is_some());
        assert!(!table.set_index(Arc::new(Index::build(&other))) && table.index().is_none());
    }

    #[test]
    fn ok_a_table_lists_its_regions() {
        let table = table("r");
        assert_eq!((table.len(), table.is_empty(), table.bits()), (1, false, 8));
        assert_eq!((table.revision(), table.next_number()), (Revision(1), RegionNumber(2)));
        let names: Vec<&str> = table.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(names, ["r"]);
        assert_eq!(table.get(RegionNumber(1)), table.named("r").ok());
        assert!(table.get(RegionNumber(2)).is_none());
        assert!(Table::new(8).expect("a width").is_empty());
        for bits in [0, 129, 256] {
            assert_eq!(Table::new(bits), Err(BadWidth { bits }));
        }
    }
}
