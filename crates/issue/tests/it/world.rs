//! A simulated store of slot records, and daemons that share it. The test supplies the clock.

use std::{collections::HashSet, num::NonZeroU64};

use kent_ids::{ClusterKey, Format, Slot, UnixNanos, layout::Layout};
use kent_issue::{
    ClockPolicy, Extended, HolderId, Refusal, SlotPlan, SlotRecord, Stored, TimeGrant, TimeIssuer, TimedLayout,
};
use rand::{SeedableRng, rngs::StdRng};

/// The slot records of a linearizable store.
#[derive(Default)]
pub(crate) struct Records {
    slots: Vec<(Slot, Stored<SlotRecord>)>,
    revision: u64,
}

impl Records {
    pub(crate) fn all(&self) -> &[(Slot, Stored<SlotRecord>)] {
        &self.slots
    }

    pub(crate) fn read(&self, slot: Slot) -> Option<Stored<SlotRecord>> {
        self.slots.iter().find(|(known, _)| *known == slot).map(|(_, stored)| *stored)
    }

    /// Commits the plan if its guard holds, and returns the new version.
    pub(crate) fn commit(&mut self, plan: &SlotPlan) -> Option<u64> {
        if self.read(plan.slot()).map_or(0, |stored| stored.version) != plan.guard() {
            return None;
        }
        self.revision += 1;
        let stored = Stored { version: self.revision, value: *plan.record() };
        self.slots.retain(|(slot, _)| *slot != plan.slot());
        self.slots.push((plan.slot(), stored));
        Some(self.revision)
    }
}

/// A daemon's issuer.
pub(crate) struct Daemon {
    pub(crate) issuer: TimeIssuer,
}

impl Daemon {
    pub(crate) fn start(run: u8) -> Self {
        let issuer =
            TimeIssuer::new(ClockPolicy::default(), HolderId::new([run; 16]), ClusterKey::new(*b"the cluster key!"));
        Self { issuer }
    }

    pub(crate) fn take(&mut self, records: &mut Records, now: UnixNanos) {
        let plan = self.issuer.plan_take(records.all(), &[], now, 0x1234_5678_9abc_def0).expect("a slot is free");
        if let Some(version) = records.commit(&plan) {
            self.issuer.on_committed(plan, version, now);
        }
    }

    pub(crate) fn extend(&mut self, records: &mut Records, now: UnixNanos) -> Option<Extended> {
        let plan = self.issuer.plan_extension(now)?;
        let slot = plan.slot();
        match records.commit(&plan) {
            Some(version) => {
                self.issuer.on_committed(plan, version, now);
                None
            }
            None => Some(self.issuer.on_read(slot, records.read(slot))),
        }
    }

    /// Grants a block of a format, or of the custom layout with these fields.
    pub(crate) fn grant(&mut self, token: &str, count: u64, now: UnixNanos) -> Result<TimeGrant, Refusal> {
        let count = NonZeroU64::new(count).expect("not zero");
        match Format::by_token(token) {
            Some(format) => self.issuer.grant(format, count, now),
            None => {
                let layout: Layout = token.parse().expect("a format or a layout");
                // Another number for each layout of the tests.
                let number = token.len() as u64;
                self.issuer.grant_layout(TimedLayout { number, layout: &layout, tag: 0 }, count, now)
            }
        }
    }
}

/// Custom layouts: a tick of a millisecond, ticks longer than a second, and a slot that is permuted with the counter.
pub(crate) const LAYOUTS: [&str; 3] = [
    "zero:1 time:41:1ms@2015-01-01 slot:10:64 counter:12",
    "time:26:90s@1970-01-01 slot:6 counter:32",
    "time:44:1ms@1970-01-01 permuted:20",
];

/// All positions that were granted.
#[derive(Default)]
pub(crate) struct Ledger {
    seen: HashSet<(&'static str, u8, u128)>,
    /// The identifiers of layouts, which must differ between slots, too.
    values: HashSet<(&'static str, u128)>,
}

impl Ledger {
    /// Records a block. Panics if any of its positions was granted before.
    pub(crate) fn record(&mut self, token: &'static str, grant: &TimeGrant) {
        let constants = grant.block.slot_constants().expect("a time-based block");
        let first = grant.block.first().get();
        for position in first..first + u128::from(grant.block.count()) {
            let fresh = self.seen.insert((token, constants.slot.get(), position));
            assert!(fresh, "{token}: position {position} of slot {} was granted twice", constants.slot.get());
        }
        if grant.block.layout_constants().is_some() {
            grant.block.values(StdRng::seed_from_u64(0), |values| {
                values.iter().for_each(|value| assert!(self.values.insert((token, *value)), "{token}: {value} twice"));
            });
        }
    }
}

pub(crate) fn ms(millis: i128) -> UnixNanos {
    UnixNanos::new(1_700_000_000_000_000_000 + millis * 1_000_000)
}
