//! The model of time-based issuing: daemons take, extend, lose and give back slots, with arbitrary clock readings.
//!
//! Calls the methods of `kent_issue::TimeIssuer` in the same order as `crates/engine/src/issuing/slots.rs`: `supply`
//! (observe, extend or take), `extend` and `reread`, `committed`, `give_back`. A daemon can pause at any point, because
//! the other daemons may take the next steps.

use std::{num::NonZeroU64, time::Duration};

use kent_ids::{ClusterKey, Format, Slot, UnixNanos, UnixSeconds};
use kent_issue::{ClockPolicy, HolderId, SlotPlan, SlotRecord, Stored, TimeIssuer};
use stateright::{Model, Property};

use super::{
    Mutant,
    shared::{Shared, hash, pooled},
    store::{Contents, ModelStore, ModelTxn},
};

/// The model of slots: its bounds, and the mutant that it runs with, if any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotsModel {
    pub(crate) replicas: usize,
    /// Possible clock readings in seconds.
    pub(crate) clocks: &'static [i64],
    pub(crate) budget: Budget,
    pub(crate) mutant: Option<Mutant>,
}

/// The maximum number of each kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) clock_readings: u8,
    pub(crate) supplies: u8,
    pub(crate) grants: u8,
    pub(crate) faults: u8,
    /// Copies of running machines, including their memory.
    pub(crate) twins: u8,
}

type Store = ModelStore<u8, SlotRecord>;

pooled!(Contents<u8, SlotRecord>, Replica);

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotsState {
    store: Store,
    replicas: Vec<Shared<Replica>>,
    /// Commits in flight whose senders have given up.
    late: Vec<(SlotPlan, bool)>,
    /// The slot and position of every grant, sorted.
    granted: Vec<(u8, u128)>,
    /// Windows that were held or in flight when a machine was copied: slot and last second. Both twins have them, and
    /// no record in the store can revoke them.
    doubled: Vec<(u8, UnixSeconds)>,
    left: Budget,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    issuer: TimeIssuer,
    clock: i64,
    waiting: Option<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    /// The daemon waits for the answer to a commit.
    Commit { plan: SlotPlan, give_back: bool },
    /// The daemon is about to read a slot again after a commit with an unknown outcome. The plan is present only with
    /// [`Mutant::AdoptRecord`].
    Reread(u8, Option<SlotPlan>),
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SlotsStep {
    /// A daemon's clock changes to this reading.
    Clock(usize, i64),
    /// A daemon runs `Slots::supply` up to its commit.
    Supply(usize),
    /// A commit reaches the store, and the answer reaches the daemon.
    Arrive(usize),
    /// A commit reaches the store, but the answer is lost.
    ArriveUnheard(usize),
    /// A commit is lost before it reaches the store.
    Lose(usize),
    /// The daemon stops waiting for a commit that is in flight.
    GiveUp(usize),
    /// A commit whose sender has given up reaches the store.
    Late(usize),
    Reread(usize),
    Grant(usize),
    /// A daemon runs `Slots::give_back` up to its commit.
    GiveBack(usize),
    /// A daemon crashes, and a new one starts in its place.
    Crash(usize),
    /// A copy of a running machine, with the same holder ID and memory, replaces another machine.
    Twin(usize, usize),
    /// Power is lost: the store loses unflushed writes.
    PowerLoss,
}

const SECOND: Duration = Duration::from_secs(1);
const FORMAT: &str = "uuidv8-draft01-32";

fn format() -> Option<Format> {
    Format::by_token(FORMAT)
}

/// Creates an issuer. All daemons have the same holder ID, which makes them interchangeable. Safety must not depend on
/// the holder of a slot.
fn issuer() -> TimeIssuer {
    let policy =
        ClockPolicy { tolerance: Duration::ZERO, max_ahead: Duration::ZERO, window_first: SECOND, window_last: SECOND };
    TimeIssuer::new(policy, HolderId::new([0; 16]), ClusterKey::new([0; 16]))
}

fn nanos(seconds: i64) -> UnixNanos {
    UnixNanos::new(i128::from(seconds) * 1_000_000_000)
}

impl SlotsState {
    fn records(&self, mutant: Option<Mutant>) -> Vec<(Slot, Stored<SlotRecord>)> {
        let slot = |number: &u8| Slot::new(*number).ok();
        let records = self.store.iter().filter_map(|(number, (version, value))| {
            let mut value = *value;
            if mutant == Some(Mutant::StartBelowCeiling) {
                // The daemon reads a ceiling that is one second too low.
                value.reserved_until = UnixSeconds::new(value.reserved_until.get() - 1);
            }
            Some((slot(number)?, Stored { version: *version, value }))
        });
        records.collect()
    }

    fn commit(&mut self, plan: &SlotPlan, give_back: bool, mutant: Option<Mutant>) -> Result<u64, u8> {
        let slot = plan.slot().get();
        let before = self.store.get(&slot).map(|(_, record)| record.reserved_until);
        let unguarded = mutant == Some(Mutant::NoVersionCheck) && plan.guard() != 0;
        let expect = if unguarded { Vec::new() } else { vec![(slot, plan.guard())] };
        let txn = ModelTxn { expect, write: vec![(slot, *plan.record())] };
        let made = self.store.commit(&txn, mutant != Some(Mutant::AnswerBeforeFlush))?;
        if !give_back && before.is_some_and(|before| plan.record().reserved_until < before) {
            self.broken = Some("a ceiling went down");
        }
        Ok(made)
    }

    /// Runs `Slots::supply` up to its commit, if any.
    fn supply(&mut self, replica: usize, mutant: Option<Mutant>) {
        let records = self.records(mutant);
        self.replicas[replica].update(|it| {
            let now = nanos(it.clock);
            it.issuer.observe(now);
            let plan = match it.issuer.held() {
                Some(_) => it.issuer.plan_extension(now),
                None => it.issuer.plan_take(&records, &[], now, 0).ok(),
            };
            it.waiting = plan.map(|plan| Waiting::Commit { plan, give_back: false });
        });
    }

    /// Delivers the answer to a commit to its daemon.
    fn hear(
        &mut self,
        replica: usize,
        plan: SlotPlan,
        give_back: bool,
        answer: Result<u64, u8>,
        mutant: Option<Mutant>,
    ) {
        self.replicas[replica].update(|it| {
            it.waiting = None;
            match answer {
                _ if give_back => {}
                Ok(version) => it.issuer.on_committed(plan, version, nanos(it.clock)),
                // After a failed extension, the daemon reads the record again. After a failed take, the daemon starts
                // over.
                Err(_) => it.waiting = it.reread(&plan, mutant),
            }
        });
    }

    /// Runs the part of `Slots::extend` and `Slots::take` that follows a commit with an unknown outcome.
    fn unknown(&mut self, replica: usize, plan: &SlotPlan, mutant: Option<Mutant>) {
        self.replicas[replica].update(|it| it.waiting = it.reread(plan, mutant));
    }

    fn reread(&mut self, replica: usize, number: u8, adopts: Option<SlotPlan>) {
        let read = self.store.get(&number).map(|(version, value)| Stored { version: *version, value: *value });
        let Ok(slot) = Slot::new(number) else { return };
        self.replicas[replica].update(|it| {
            it.waiting = None;
            match (adopts, read) {
                (Some(plan), Some(read))
                    if it.issuer.held().is_some_and(|(_, ours)| ours.epoch == read.value.epoch) =>
                {
                    it.issuer.on_committed(plan, read.version, nanos(it.clock));
                }
                _ => drop(it.issuer.on_read(slot, read)),
            }
        });
    }

    fn grant(&mut self, replica: usize) -> bool {
        let Some(format) = format() else { return false };
        let granted = self.replicas[replica].update(|it| it.issuer.grant(format, NonZeroU64::MIN, nanos(it.clock)));
        let Ok(granted) = granted else { return false };
        let Some(slot) = granted.block.slot_constants().map(|constants| constants.slot.get()) else { return false };
        let first = granted.block.first();
        let doubled = self.doubled.iter().any(|(of, until)| *of == slot && first < format.line().after_second(*until));
        match self.granted.binary_search(&(slot, first.get())) {
            Ok(_) if doubled => {}
            Ok(_) => self.broken = Some("a position was granted twice"),
            Err(index) => self.granted.insert(index, (slot, first.get())),
        }
        true
    }

    /// Copies a machine. The answer to a pending commit goes to the original.
    fn twin(&mut self, of: usize, replica: usize, mutant: Option<Mutant>) {
        if let Some(Waiting::Commit { plan, give_back }) = self.replicas[replica].update(|it| it.waiting.take()) {
            self.late.push((plan, give_back));
        }
        let mut twin = self.replicas[of].clone();
        let held = twin.issuer.held().map(|(slot, record)| (slot.get(), record.reserved_until));
        self.doubled.extend(held);
        let waiting = twin.update(|it| it.waiting.take());
        self.replicas[replica] = twin;
        if let Some(Waiting::Commit { plan, .. }) = waiting {
            self.doubled.push((plan.slot().get(), plan.record().reserved_until));
            self.unknown(replica, &plan, mutant);
        }
    }

    /// Returns whether no daemon waits and no late commit is in flight. Only such states are checked for recovery,
    /// because every other state leads to one of them without further faults.
    fn is_quiet(&self) -> bool {
        self.late.is_empty() && self.replicas.iter().all(|replica| replica.waiting.is_none())
    }

    /// Returns whether every daemon can grant again after faults have stopped and clocks have advanced.
    fn recovers(&self, model: &SlotsModel) -> bool {
        if !self.is_quiet() {
            return true;
        }
        let mut calm = self.clone();
        let later = model.clocks.iter().max().map_or(0, |latest| latest + 100);
        for replica in 0..calm.replicas.len() {
            for step in 0..12 {
                calm.replicas[replica].update(|it| it.clock = later + step);
                match calm.replicas[replica].waiting.clone() {
                    Some(Waiting::Commit { plan, give_back }) => {
                        let answer = calm.commit(&plan, give_back, model.mutant);
                        calm.hear(replica, plan, give_back, answer, model.mutant);
                    }
                    Some(Waiting::Reread(slot, plan)) => calm.reread(replica, slot, plan),
                    None => calm.supply(replica, model.mutant),
                }
                if calm.grant(replica) {
                    break;
                }
                if step == 11 {
                    return false;
                }
            }
        }
        true
    }
}

impl Replica {
    /// Replaces a crashed daemon with a new one.
    fn restart(&mut self) {
        (self.issuer, self.waiting) = (issuer(), None);
    }

    /// Returns a pending read of the plan's slot, if the daemon holds that slot.
    fn reread(&self, plan: &SlotPlan, mutant: Option<Mutant>) -> Option<Waiting> {
        let (held, _) = self.issuer.held()?;
        let adopts = (mutant == Some(Mutant::AdoptRecord)).then(|| plan.clone());
        (held == plan.slot()).then(|| Waiting::Reread(held.get(), adopts))
    }
}

impl Model for SlotsModel {
    type State = SlotsState;
    type Action = SlotsStep;

    fn init_states(&self) -> Vec<SlotsState> {
        let clock = self.clocks.first().copied().unwrap_or_default();
        let replica = Shared::new(Replica { issuer: issuer(), clock, waiting: None });
        vec![SlotsState {
            store: Store::new(),
            replicas: vec![replica; self.replicas],
            late: Vec::new(),
            granted: Vec::new(),
            doubled: Vec::new(),
            left: self.budget,
            broken: None,
        }]
    }

    fn actions(&self, state: &SlotsState, actions: &mut Vec<SlotsStep>) {
        let left = state.left;
        for (number, replica) in state.replicas.iter().enumerate() {
            if left.clock_readings > 0 {
                let readings = self.clocks.iter().filter(|reading| **reading != replica.clock);
                actions.extend(readings.map(|reading| SlotsStep::Clock(number, *reading)));
            }
            match &replica.waiting {
                None if left.supplies > 0 => {
                    actions.push(SlotsStep::Supply(number));
                    if replica.issuer.held().is_some() {
                        actions.push(SlotsStep::GiveBack(number));
                    }
                }
                None => {}
                Some(Waiting::Commit { .. }) => {
                    actions.push(SlotsStep::Arrive(number));
                    if left.faults > 0 {
                        actions.extend([SlotsStep::ArriveUnheard(number), SlotsStep::Lose(number)]);
                        actions.push(SlotsStep::GiveUp(number));
                    }
                }
                Some(Waiting::Reread(..)) => actions.push(SlotsStep::Reread(number)),
            }
            if left.grants > 0 && replica.issuer.held().is_some() {
                actions.push(SlotsStep::Grant(number));
            }
            if left.faults > 0 {
                actions.push(SlotsStep::Crash(number));
            }
            if left.twins > 0 {
                let others = (0..state.replicas.len()).filter(|other| *other != number);
                actions.extend(others.map(|other| SlotsStep::Twin(number, other)));
            }
        }
        if left.faults > 0 {
            actions.push(SlotsStep::PowerLoss);
        }
        actions.extend((0..state.late.len()).map(SlotsStep::Late));
    }

    fn next_state(&self, last: &SlotsState, step: SlotsStep) -> Option<SlotsState> {
        let mut state = last.clone();
        match step {
            SlotsStep::Clock(replica, reading) => {
                state.left.clock_readings -= 1;
                state.replicas[replica].update(|it| it.clock = reading);
            }
            SlotsStep::Supply(replica) => {
                state.left.supplies -= 1;
                state.supply(replica, self.mutant);
            }
            SlotsStep::Arrive(replica) => {
                let Some(Waiting::Commit { plan, give_back }) = last.replicas[replica].waiting.clone() else {
                    return None;
                };
                let answer = state.commit(&plan, give_back, self.mutant);
                state.hear(replica, plan, give_back, answer, self.mutant);
            }
            SlotsStep::ArriveUnheard(replica) | SlotsStep::Lose(replica) | SlotsStep::GiveUp(replica) => {
                state.left.faults -= 1;
                let Some(Waiting::Commit { plan, give_back }) = last.replicas[replica].waiting.clone() else {
                    return None;
                };
                if let SlotsStep::ArriveUnheard(_) = step {
                    // OK because the answer is lost.
                    let _ = state.commit(&plan, give_back, self.mutant);
                }
                state.unknown(replica, &plan, self.mutant);
                if let SlotsStep::GiveUp(_) = step {
                    state.late.push((plan, give_back));
                }
            }
            SlotsStep::Late(index) => {
                let (plan, give_back) = state.late.remove(index);
                // OK because the sender has given up.
                let _ = state.commit(&plan, give_back, self.mutant);
            }
            SlotsStep::Reread(replica) => {
                let Some(Waiting::Reread(slot, plan)) = last.replicas[replica].waiting.clone() else { return None };
                state.reread(replica, slot, plan);
            }
            SlotsStep::Grant(replica) => {
                state.left.grants -= 1;
                if !state.grant(replica) && state.replicas[replica] == last.replicas[replica] {
                    return None;
                }
            }
            SlotsStep::GiveBack(replica) => {
                state.left.supplies -= 1;
                let continues = self.mutant == Some(Mutant::GrantAfterGiveBack);
                state.replicas[replica].update(|it| {
                    let before = continues.then(|| it.issuer.clone());
                    let plan = it.issuer.plan_give_back()?;
                    it.issuer = before.unwrap_or_else(|| it.issuer.clone());
                    it.waiting = Some(Waiting::Commit { plan, give_back: true });
                    Some(())
                })?;
            }
            SlotsStep::Crash(replica) => {
                state.left.faults -= 1;
                if let Some(Waiting::Commit { plan, give_back }) = last.replicas[replica].waiting.clone() {
                    state.late.push((plan, give_back));
                }
                state.replicas[replica].update(Replica::restart);
            }
            SlotsStep::Twin(of, replica) => {
                state.left.twins -= 1;
                state.twin(of, replica, self.mutant);
            }
            SlotsStep::PowerLoss => {
                state.left.faults -= 1;
                state.store.crash();
                // The embedded store is on the daemons' machine, so the daemons also crash.
                state.replicas.iter_mut().for_each(|replica| replica.update(Replica::restart));
                state.late.clear();
            }
        }
        // Neither the order of daemons nor the order of late commits matters.
        state.replicas.sort_by_key(Shared::hash_of);
        if state.late.len() > 1 {
            state.late.sort_by_cached_key(hash);
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no position is granted twice, no ceiling goes down", |_, state: &SlotsState| {
                state.broken.is_none()
            }),
            Property::always("every daemon grants once faults stop", |model: &Self, state: &SlotsState| {
                state.recovers(model)
            }),
            Property::sometimes("two daemons grant from one slot", |_, state: &SlotsState| {
                state.granted.len() > 1
                    && state.granted.iter().all(|(slot, _)| *slot == 0)
                    && state.store.iter().any(|(_, (_, record))| record.epoch.get() > 1)
            }),
        ]
    }
}
