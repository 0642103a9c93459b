//! Classification: finds the regions of an identifier by longest-prefix match.

use alloc::vec::Vec;

use kent_ids::unscramble;

use crate::{
    attributes::Order,
    prefix::Prefix,
    region::{FormerPrefix, Kind, Region, RegionNumber},
    revision::Revision,
    table::Table,
};

/// The regions that contain an identifier, and its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification<'t> {
    /// All regions that contain the identifier, outermost first. The identifier belongs to the last one.
    pub path: Vec<&'t Region>,
    /// The status of the identifier in the last region.
    pub status: Status,
}

/// The status of an identifier in its innermost region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The identifier is in no region.
    Free,
    /// The identifier is in a closed region, under an extension that no subregion has.
    Unassigned,
    /// At least one bit of the identifier's expansion zone is 1.
    Reserved,
    /// The identifier consists of the region's prefix, zeros in the expansion zone, and a suffix.
    Member {
        /// The suffix.
        suffix: u128,
        /// The counter of the suffix: equal to the suffix or, in a region of scrambled order, computed with the table's
        /// key. `None` if the order is scrambled and the table has no key, or if the region leaves this suffix to
        /// another generator.
        counter: Option<u128>,
    },
}

impl Status {
    /// Returns the name of the status, such as `member`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Unassigned => "unassigned",
            Self::Reserved => "reserved",
            Self::Member { .. } => "member",
        }
    }
}

impl Classification<'_> {
    /// Returns whether the identifier is issued or reserved, or `None` if this is unknown: the order is scrambled and the
    /// table has no key, or the region leaves the suffix to another generator.
    pub fn issued(&self) -> Option<bool> {
        match (self.status, self.path.last()) {
            (Status::Member { counter, .. }, Some(region)) => counter.map(|counter| region.issued.includes(counter)),
            _ => Some(false),
        }
    }

    /// Returns whether the region leaves the suffix to another generator.
    pub fn is_of_others(&self) -> bool {
        match (self.status, self.path.last()) {
            (Status::Member { suffix, .. }, Some(region)) => !region.policy().stride.holds(suffix),
            _ => false,
        }
    }

    /// If the identifier is a member of a delegated region, returns the number of that region and the suffix, which is
    /// an identifier in the region's local table.
    pub fn delegated(&self) -> Option<(RegionNumber, u128)> {
        match (self.status, self.path.last()) {
            (Status::Member { suffix, .. }, Some(region)) if region.delegated => Some((region.number, suffix)),
            _ => None,
        }
    }

    /// Returns the prefix that the region had when the identifier was issued. Returns `None` if the identifier is not
    /// issued, if this is unknown, or if the region has had only one prefix.
    pub fn issued_prefix(&self) -> Option<Prefix> {
        let (Status::Member { counter: Some(counter), .. }, Some(region)) = (self.status, self.path.last()) else {
            return None;
        };
        let had_others = !region.past().prefixes.is_empty();
        (had_others && region.issued.includes(counter)).then(|| region.prefix_when(counter))
    }
}

impl Table {
    /// Classifies an identifier. Returns `None` if it has more bits than the identifiers of the space.
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

    /// Classifies many identifiers. With an index, this method is faster than calling [`classify`](Self::classify) for
    /// each identifier.
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

    /// Finds the innermost region of an identifier, without an index.
    fn innermost(&self, id: u128) -> Option<&Region> {
        let mut region = self.at_or_before(Prefix::new(id, self.bits()));
        // Every region that contains the identifier is, or contains, the last region that begins at or before the
        // identifier.
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
            true => Status::Member { suffix: below, counter: self.counter(region, below) },
            false => Status::Reserved,
        }
    }

    /// Returns the counter of a suffix.
    fn counter(&self, region: &Region, suffix: u128) -> Option<u128> {
        match region.order {
            Order::Sequential | Order::External => region.policy().stride.holds(suffix).then_some(suffix),
            Order::Scrambled => self.order_key(region).map(|key| unscramble(&key, suffix)),
        }
    }

    /// Returns `innermost` and the regions that contain it, outermost first.
    fn path<'t>(&'t self, innermost: Option<&'t Region>) -> Vec<&'t Region> {
        let mut path: Vec<&Region> = innermost.into_iter().flat_map(|region| self.outward(region)).collect();
        path.reverse();
        path
    }

    /// Returns every region that has or had this prefix, with the first and the last revision at which the region had
    /// the prefix. The last revision is `None` if the region still has the prefix.
    pub fn held(&self, prefix: Prefix) -> Vec<(&Region, Revision, Option<Revision>)> {
        let mut holders = Vec::new();
        // A region's current prefix begins with each of its former prefixes.
        for region in self.within(prefix) {
            let former = region.past().prefixes.iter().filter(|former| former.prefix == prefix);
            holders.extend(former.map(|FormerPrefix { from, to, .. }| (region, *from, Some(*to))));
            if region.prefix == prefix {
                holders.push((region, region.since, None));
            }
        }
        holders.sort_by_key(|(_, from, _)| *from);
        holders
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, sync::Arc};

    use kent_ids::{ClusterKey, Stride, scramble};

    use super::*;
    use crate::{Count, Edit, Index, Patch, Place, PolicyPatch, RegionNumber, Start};

    const KEY: ClusterKey = ClusterKey::new([7; 16]);

    /// Returns a table with a region of this order that has issued 5 of its 256 identifiers.
    fn table(order: Order) -> Table {
        let mut table = Table::new(16).expect("a width");
        let place = Place::At("010101".parse().expect("a prefix"));
        let create =
            Edit::Create { name: "r".to_string(), suffix: 8, place, start: Start { order, ..Start::default() } };
        let plan = table.plan(&create).expect("legal");
        table.apply(&plan).expect("applied");
        table.set_issued(RegionNumber(1), Count::Below(5));
        table
    }

    fn issued(table: &Table) -> Vec<Option<u128>> {
        let issued = |suffix: &u128| table.classify(0x5400 | suffix).expect("within the space").issued();
        (0..256).filter(|suffix| issued(suffix) != Some(false)).map(|suffix| issued(&suffix).map(|_| suffix)).collect()
    }

    #[test]
    fn ok_a_suffix_is_issued_if_its_counter_is() {
        assert_eq!(issued(&table(Order::Sequential)), [0, 1, 2, 3, 4].map(Some));
        let mut scrambled = table(Order::Scrambled);
        assert_eq!(issued(&scrambled), [None; 256], "unknown without the key");
        scrambled.set_scramble_key(KEY);
        let mut expected = [0, 1, 2, 3, 4].map(|counter| scramble(&KEY.of_region(1), counter));
        expected.sort_unstable();
        assert_eq!(issued(&scrambled), expected.map(Some));
        assert_ne!(expected, [0, 1, 2, 3, 4], "the key changes the order");
    }

    #[test]
    fn ok_it_is_unknown_whether_another_generator_has_issued_a_suffix() {
        let mut table = table(Order::Sequential);
        let policy = PolicyPatch { stride: Stride::new(3, 1), ..PolicyPatch::default() };
        let update = Edit::Update { name: "r".to_string(), patch: Patch { policy, ..Patch::default() } };
        let plan = table.plan(&update).expect("legal");
        table.apply(&plan).expect("applied");
        let issued: Vec<_> = (0..9).map(|suffix| table.classify(0x5400 | suffix).expect("a member").issued()).collect();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(issued, [None, yes, None, None, yes, None, None, no, None]);
    }

    #[test]
    fn ok_only_members_of_a_delegated_region_have_a_local_table() {
        let mut table = table(Order::Sequential);
        let local = |table: &Table, id| table.classify(id).expect("within the space").delegated();
        assert_eq!(local(&table, 0x5407), None, "it is not delegated");
        table.set_issued(RegionNumber(1), Count::ZERO);
        let plan = table.plan(&Edit::Delegate { name: "r".to_string() }).expect("legal");
        table.apply(&plan).expect("applied");
        assert_eq!(local(&table, 0x5407), Some((RegionNumber(1), 7)));
        assert_eq!(local(&table, 0x5507), None, "in its expansion zone");
        assert_eq!(local(&table, 0x0007), None, "in no region");
    }

    #[test]
    fn ok_each_of_many_identifiers_has_an_answer_with_an_index_and_without() {
        let plain = table(Order::Sequential);
        let mut indexed = plain.clone();
        assert!(indexed.set_index(Arc::new(Index::build(&plain))));
        for ids in [&[][..], &[0x5407], &[0, 0x5407, 1 << 16, 0x5507, u128::MAX]] {
            let expected: Vec<_> = ids.iter().map(|id| plain.classify(*id)).collect();
            assert_eq!(plain.classify_all(ids), expected, "{ids:x?}");
            assert_eq!(indexed.classify_all(ids), expected, "{ids:x?} with an index");
        }
    }

    #[test]
    fn ok_an_issued_identifier_has_the_prefix_of_its_time() {
        for order in [Order::Sequential, Order::Scrambled] {
            let mut table = table(order);
            table.set_scramble_key(KEY);
            let prefix = |table: &Table, counter| {
                let suffix = if order == Order::Scrambled { scramble(&KEY.of_region(1), counter) } else { counter };
                table
                    .classify(0x5400 | suffix)
                    .expect("within the space")
                    .issued_prefix()
                    .map(|prefix| prefix.to_string())
            };
            assert_eq!(prefix(&table, 3), None, "the region has had one prefix only");
            let split = Edit::Split { name: "r".to_string(), by: 1, new_regions: Vec::new() };
            let plan = table.plan(&split).expect("legal");
            table.apply(&plan).expect("applied");
            table.set_issued(RegionNumber(1), Count::Below(9));
            assert_eq!(prefix(&table, 4).as_deref(), Some("010101"), "{order:?}");
            assert_eq!(prefix(&table, 5).as_deref(), Some("0101010"), "{order:?}");
            assert_eq!(prefix(&table, 9), None, "it is not issued");
        }
    }
}
