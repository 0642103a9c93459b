//! A simulated store of slot records, and daemons that share it. The test supplies the clock.

use std::{collections::HashSet, num::NonZeroU64};

use kent_ids::{ClusterKey, Format, Slot, UnixNanos};
use kent_issue::{ClockPolicy, Extended, HolderId, Refusal, SlotPlan, SlotRecord, Stored, TimeGrant, TimeIssuer};

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

    pub(crate) fn grant(&mut self, token: &str, count: u64, now: UnixNanos) -> Result<TimeGrant, Refusal> {
        let format = Format::by_token(token).expect("a known format");
        self.issuer.grant(format, NonZeroU64::new(count).expect("not zero"), now)
    }
}

/// All positions that were granted.
#[derive(Default)]
pub(crate) struct Ledger {
    seen: HashSet<(&'static str, u8, u128)>,
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
    }
}

pub(crate) fn ms(millis: i128) -> UnixNanos {
    UnixNanos::new(1_700_000_000_000_000_000 + millis * 1_000_000)
}
