//! Decides whether a region grants identifiers, which region grants instead of it, and when it expands automatically.

use alloc::string::ToString;

use crate::{
    attributes::{ChunkPolicy, Order},
    count::Count,
    refusal::Refusal,
    region::{Kind, Region, RegionNumber},
    table::Table,
};

/// The reason that a region grants nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotGranting {
    /// The region is closed: its subregions have replaced it.
    Closed,
    /// The region is delegated: its suffixes are a separate space.
    Delegated,
    /// The region is external: users supply its identifiers.
    External,
    /// An operator has sealed the region or a region around it.
    Sealed(Seal),
}

/// A seal that covers a region. A seal covers the whole prefix of the sealed region: its subregions, and the tables of
/// delegated regions in it, to any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seal {
    /// The number of steps from the table of the covered region outward to that of the sealed region: 0 if both are in
    /// the same table.
    pub outward: usize,
    /// The sealed region.
    pub region: RegionNumber,
}

impl Seal {
    /// Finds the innermost seal that covers a region. `levels` begins with the region's table and the region. If this
    /// table is the local table of a delegated region, the delegated region and its table come next, and so on outward.
    pub fn over<'t>(levels: impl IntoIterator<Item = (&'t Table, &'t Region)>) -> Option<Self> {
        levels.into_iter().enumerate().find_map(|(outward, (table, region))| {
            let sealed = table.outward(region).find(|region| region.sealed)?;
            Some(Self { outward, region: sealed.number })
        })
    }
}

impl Table {
    /// Returns the region that continues a closed region's counter: its all-zero subregion or, if that subregion is
    /// closed as well, the all-zero subregion inside it, and so on. Returns `None` for a region that is not closed.
    pub fn heir<'t>(&'t self, closed: &'t Region) -> Option<&'t Region> {
        let mut heir = closed;
        while heir.kind == Kind::Closed {
            heir = self.children(heir).next()?;
        }
        (heir.number != closed.number).then_some(heir)
    }

    /// Rejects a closed region.
    pub(crate) fn check_not_closed(&self, region: &Region) -> Result<(), Refusal> {
        if region.kind != Kind::Closed {
            return Ok(());
        }
        // OK because a closed region has an all-zero subregion.
        let heir = self.heir(region).map(|heir| heir.name.to_string()).unwrap_or_default();
        Err(Refusal::Closed { region: region.name.to_string(), heir })
    }
}

impl Region {
    /// Checks whether the region may grant identifiers. Does not check whether any are left. `seal` is the seal that
    /// covers the region.
    ///
    /// # Errors
    /// Fails with [`NotGranting`]. If there are several reasons, returns the most permanent one.
    pub fn check_granting(&self, seal: Option<Seal>) -> Result<(), NotGranting> {
        match (self, seal) {
            (Self { kind: Kind::Closed, .. }, _) => Err(NotGranting::Closed),
            (Self { delegated: true, .. }, _) => Err(NotGranting::Delegated),
            (Self { order: Order::External, .. }, _) => Err(NotGranting::External),
            (_, Some(seal)) => Err(NotGranting::Sealed(seal)),
            (_, None) => Ok(()),
        }
    }

    /// Returns the number of suffixes that may be issued after all automatic expansions: the smaller of the resulting
    /// capacity and the cap.
    pub fn reach(&self) -> Count {
        let reach = match self.policy().auto_expand {
            Some(auto) if self.kind != Kind::Closed => {
                let widest = self.suffix.saturating_add(self.expandable_bits()).min(auto.max_suffix.max(self.suffix));
                Count::power_of_two(widest)
            }
            _ => self.capacity(),
        };
        self.policy().cap.map_or(reach, |cap| cap.min(reach))
    }

    /// Returns whether the region is strict or has a cap. Such a policy may forbid a chunk that was reserved under
    /// another policy.
    pub fn may_forbid_chunks(&self) -> bool {
        self.policy().cap.is_some() || self.policy().chunk == ChunkPolicy::Strict
    }

    /// Returns the number of bits by which the policy expands the region before `count` more suffixes are granted, or
    /// `None` if no expansion is due. If all expansions together could not provide `count` suffixes, none is due,
    /// because the request is refused. A region with a stride uses up [`Stride::span`](kent_ids::Stride::span) suffixes.
    pub fn expansion_due(&self, count: u64) -> Option<u8> {
        let auto = self.policy().auto_expand?;
        let by = auto.by_bits.min(self.expandable_bits()).min(auto.max_suffix.saturating_sub(self.suffix));
        let capacity = Count::power_of_two(self.suffix).get()?;
        let needed = self.issued.get()?.checked_add(self.policy().stride.span(count))?;
        // A region whose cap is at most its capacity never needs to expand.
        if by == 0 || self.policy().cap.is_some_and(|cap| cap <= Count::Below(capacity)) {
            return None;
        }
        if Count::Below(needed) > self.reach() {
            return None;
        }
        // needed / capacity > percent / 100, without overflow.
        let percent = u128::from(auto.at_percent);
        let threshold = capacity / 100 * percent + capacity % 100 * percent / 100;
        (needed > threshold || needed >= capacity).then_some(by)
    }

    /// Returns the seconds until the region is full, given the number of issued suffixes and the rate of grants in
    /// identifiers per second. Includes the capacity that automatic expansion adds. A full region has 0 seconds left, whatever the rate.
    /// Returns `None` if the region is closed, or if it is not full and the rate is 0.
    pub fn full_in(&self, issued: Count, rate: f64) -> Option<f64> {
        if self.kind == Kind::Closed {
            return None;
        }
        let left = (self.reach().to_f64() - issued.to_f64()).max(0.0);
        let rate = rate * f64::from(self.policy().stride.step());
        if left == 0.0 { Some(0.0) } else { (rate > 0.0).then(|| left / rate) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{AutoExpand, Edit, NewRegion, Pace, Patch, Place, Policy, PolicyPatch, RegionNumber, Start, Table};

    /// Returns a region with a suffix of 4 bits and a zone of 4 bits.
    fn region() -> Region {
        let mut table = Table::new(16).expect("a width");
        let place = Place::At("01010101".parse().expect("a prefix"));
        let (name, pace) = ("r".to_string(), Some(Pace::for_bits(4)));
        let create = Edit::Create { name, suffix: 4, place, start: Start { pace, ..Start::default() } };
        let plan = table.plan(&create).expect("legal");
        table.apply(&plan).expect("applied");
        table.get(RegionNumber(1)).expect("made").clone()
    }

    fn ruled(policy: Policy) -> Region {
        let mut region = region();
        region.set_policy(policy);
        region
    }

    #[test]
    fn ok_closed_delegated_external_and_sealed_regions_grant_nothing() {
        let open = region();
        let seal = Some(Seal { outward: 1, region: RegionNumber(7) });
        let sealed = seal.map_or(Ok(()), |seal| Err(NotGranting::Sealed(seal)));
        for (region, seal, expected) in [
            (open.clone(), None, Ok(())),
            (Region { kind: Kind::Partial, ..open.clone() }, None, Ok(())),
            (open.clone(), seal, sealed),
            (Region { order: Order::External, ..open.clone() }, seal, Err(NotGranting::External)),
            (Region { delegated: true, ..open.clone() }, seal, Err(NotGranting::Delegated)),
            (Region { kind: Kind::Closed, ..open.clone() }, seal, Err(NotGranting::Closed)),
            (Region { order: Order::Scrambled, ..open }, None, Ok(())),
        ] {
            assert_eq!(region.check_granting(seal), expected, "{region:?}");
        }
    }

    fn apply(table: &mut Table, edit: &Edit) {
        let plan = table.plan(edit).expect("legal");
        table.apply(&plan).expect("applied");
    }

    /// Returns a table with the partial region `r` (number 1). `r` contains `a` (2) and the open region `c` (4), and
    /// `a` contains `b` (3).
    fn nested() -> Table {
        let mut table = Table::new(16).expect("a width");
        let place = Place::At("01".parse().expect("a prefix"));
        apply(&mut table, &Edit::Create { name: "r".to_string(), suffix: 4, place, start: Start::default() });
        for (parent, name, extension) in [("r", "a", "01"), ("a", "b", "11"), ("r", "c", "10")] {
            let extension = extension.parse().ok();
            let new = NewRegion { name: name.to_string(), suffix: Some(4), extension, start: Start::default() };
            let name = parent.to_string();
            apply(&mut table, &Edit::Subdivide { name, by: 2, new_regions: [new].into(), reserve_others: false });
        }
        table
    }

    fn level(table: &Table, number: u64) -> (&Table, &Region) {
        (table, table.get(RegionNumber(number)).expect("there"))
    }

    fn seal(table: &mut Table, name: &str, sealed: bool) {
        let patch = Patch { sealed: Some(sealed), ..Patch::default() };
        apply(table, &Edit::Update { name: name.to_string(), patch });
    }

    #[test]
    fn ok_a_seal_covers_all_regions_inside_and_no_others() {
        let mut table = nested();
        let seals =
            |table: &Table| [1, 2, 3, 4].map(|number| Seal::over([level(table, number)]).map(|seal| seal.region.0));
        assert_eq!(seals(&table), [None; 4]);
        for (name, sealed, expected) in [
            ("a", true, [None, Some(2), Some(2), None]),
            ("b", true, [None, Some(2), Some(3), None]),
            ("r", true, [Some(1), Some(2), Some(3), Some(1)]),
            ("a", false, [Some(1), Some(1), Some(3), Some(1)]),
            ("r", false, [None, None, Some(3), None]),
        ] {
            seal(&mut table, name, sealed);
            assert_eq!(seals(&table), expected, "{name} {sealed}");
        }
    }

    #[test]
    fn ok_a_seal_covers_the_tables_of_delegated_regions() {
        let (mut outer, mut inner) = (nested(), nested());
        let over = |outer: &Table, inner: &Table| {
            let found = Seal::over([level(inner, 3), level(outer, 4)]);
            found.map(|seal| (seal.outward, seal.region.0))
        };
        assert_eq!(over(&outer, &inner), None);
        seal(&mut outer, "r", true);
        assert_eq!(over(&outer, &inner), Some((1, 1)));
        seal(&mut inner, "a", true);
        assert_eq!(over(&outer, &inner), Some((0, 2)), "the innermost one");
    }

    #[test]
    fn ok_the_heir_of_a_closed_region_is_the_innermost_all_zero_subregion() {
        let mut table = nested();
        let heir = |table: &Table, name: &str| {
            let region = table.named(name).expect("there");
            table.heir(region).map(|heir| heir.name.to_string())
        };
        assert_eq!(heir(&table, "c"), None);
        for (parent, name, by) in [("c", "c0", 1), ("c0", "c00", 2)] {
            let extension = Some(crate::Prefix::new(0, by));
            let new = NewRegion { name: name.to_string(), suffix: None, extension, start: Start::default() };
            let name = parent.to_string();
            apply(&mut table, &Edit::Subdivide { name, by, new_regions: [new].into(), reserve_others: true });
        }
        assert_eq!(["c", "c0", "c00", "r"].map(|name| heir(&table, name).unwrap_or_default()), ["c00", "c00", "", ""]);
    }

    #[test]
    fn ok_a_forecast_counts_automatic_expansion() {
        let forecast = |auto: Option<(u8, u8)>, cap, issued| {
            let auto_expand = auto.map(|(by_bits, max_suffix)| AutoExpand { at_percent: 80, by_bits, max_suffix });
            let policy = Policy { auto_expand, cap, ..Policy::default() };
            ruled(policy).full_in(issued, 2.0)
        };
        let below = Count::Below;
        for (auto, cap, issued, expected) in [
            (None, None, below(6), 5.0),
            (None, None, below(16), 0.0),
            (None, Some(below(10)), below(6), 2.0),
            (Some((1, 6)), None, below(6), 29.0),
            // The suffix grows to at most 8 bits, because the zone has only 4.
            (Some((1, 20)), None, below(6), 125.0),
            // A maximum below the current width does not shrink the region.
            (Some((1, 3)), None, below(6), 5.0),
            (Some((1, 6)), Some(below(20)), below(6), 7.0),
            (None, None, below(17), 0.0),
        ] {
            assert_eq!(forecast(auto, cap, issued), Some(expected), "{auto:?} {cap:?} {issued:?}");
        }
        assert_eq!(region().full_in(Count::ZERO, 0.0), None, "the rate is zero");
        assert_eq!(region().full_in(below(16), 0.0), Some(0.0), "a full region is full at any rate");
        let closed = Region { kind: Kind::Closed, ..region() };
        assert_eq!(
            closed.full_in(below(16), 2.0),
            None,
            "a closed region never fills up: its heir continues the counter"
        );
    }

    #[test]
    fn ok_a_region_with_a_stride_fills_up_in_steps() {
        let stride = kent_ids::Stride::new(3, 1).expect("a stride");
        let auto_expand = Some(AutoExpand { at_percent: 100, by_bits: 1, max_suffix: 8 });
        let with = |auto_expand, issued| {
            let policy = Policy { auto_expand, stride, ..Policy::default() };
            Region { issued: Count::Below(issued).into(), ..ruled(policy) }
        };
        assert_eq!(with(None, 4).full_in(Count::Below(4), 2.0), Some(2.0), "12 suffixes at 6 per second");
        for (issued, count, expected) in [(9, 2, None), (10, 2, Some(1)), (13, 1, Some(1)), (12, 1, None)] {
            assert_eq!(with(auto_expand, issued).expansion_due(count), expected, "{issued} {count}");
        }
    }

    #[test]
    fn ok_an_expansion_follows_the_policy_and_the_zone() {
        let due = |issued, count, auto: (u8, u8, u8), cap| {
            let (at_percent, by_bits, max_suffix) = auto;
            let auto_expand = Some(AutoExpand { at_percent, by_bits, max_suffix });
            let policy = Policy { auto_expand, cap, ..Policy::default() };
            Region { issued: Count::into(issued), ..ruled(policy) }.expansion_due(count)
        };
        let below = Count::Below;
        for (issued, count, auto, cap, expected) in [
            // 50 percent of 16 is 8.
            (below(7), 1, (50, 1, 8), None, None),
            (below(8), 1, (50, 1, 8), None, Some(1)),
            (below(7), 2, (50, 1, 8), None, Some(1)),
            // At 100 percent, the region expands when the last suffix is requested.
            (below(14), 1, (100, 1, 8), None, None),
            (below(15), 1, (100, 1, 8), None, Some(1)),
            (below(16), 1, (100, 1, 8), None, Some(1)),
            // The bits per expansion, the maximum width and the zone each limit the expansion.
            (below(16), 1, (100, 3, 6), None, Some(2)),
            (below(16), 1, (100, 9, 99), None, Some(4)),
            (below(16), 1, (100, 1, 4), None, None),
            // A request for more suffixes than all expansions can provide is refused, so the region does not expand for
            // it.
            (below(16), 48, (100, 1, 6), None, Some(1)),
            (below(16), 49, (100, 1, 6), None, None),
            (below(16), 240, (100, 1, 99), None, Some(1)),
            (below(16), 241, (100, 1, 99), None, None),
            (below(16), 4, (100, 1, 8), Some(below(20)), Some(1)),
            (below(16), 5, (100, 1, 8), Some(below(20)), None),
            // A cap prevents the expansion unless the cap is above the capacity.
            (below(16), 1, (100, 1, 8), Some(below(16)), None),
            (below(16), 1, (100, 1, 8), Some(below(17)), Some(1)),
            (Count::Max, 1, (100, 1, 8), None, None),
        ] {
            assert_eq!(due(issued, count, auto, cap), expected, "{issued:?} {count} {auto:?} {cap:?}");
        }
        assert_eq!(region().expansion_due(u64::MAX), None, "no policy");
    }

    #[test]
    fn ok_the_share_of_a_large_region_is_exact() {
        for (suffix, at_percent, threshold) in [(8, 50, 128), (10, 80, 819), (120, 75, 3 << 118)] {
            let auto_expand = Some(AutoExpand { at_percent, by_bits: 1, max_suffix: 128 });
            let policy = Policy { auto_expand, ..Policy::default() };
            let due = |issued| {
                let issued = Count::Below(issued);
                Region { suffix, issued: issued.into(), ..ruled(policy) }.expansion_due(1)
            };
            assert_eq!((due(threshold - 1), due(threshold)), (None, Some(1)), "{at_percent} percent of 2^{suffix}");
        }
    }

    #[test]
    fn ok_an_expansion_that_is_due_happens_once() {
        let mut table = Table::new(16).expect("a width");
        let place = Place::At("01010101".parse().expect("a prefix"));
        let pace = Some(Pace::for_bits(4));
        let create = Edit::Create {
            name: "r".to_string(),
            suffix: 4,
            place,
            start: Start { next: Count::Below(12), pace, ..Start::default() },
        };
        let auto_expand = Some(AutoExpand { at_percent: 75, by_bits: 2, max_suffix: 6 });
        let policy = PolicyPatch { auto_expand: Some(auto_expand), ..PolicyPatch::default() };
        let update = Edit::Update { name: "r".to_string(), patch: Patch { policy, ..Patch::default() } };
        for edit in [create, update] {
            let plan = table.plan(&edit).expect("legal");
            table.apply(&plan).expect("applied");
        }
        let due = |count| Edit::ExpandIfDue { name: "r".to_string(), count };
        let plan = table.plan(&due(1)).expect("due");
        assert_eq!(plan, table.plan(&Edit::Expand { name: "r".to_string(), by: 2 }).expect("legal"));
        table.apply(&plan).expect("applied");
        assert_eq!(table.plan(&due(1)).expect_err("already expanded").code(), "not-due");
    }
}
