//! The model of strict grants: daemons grant from one region, under request_ids and without, while commits conflict, get lost or come late,
//! and dated request_ids are forgotten.
//!
//! Drives `kent_issue::StrictState` in the order of `server/src/issuing/strict.rs` (`grant`) and of `server/src/issuing/requests.rs`
//! (`forget`): read what is on record under the request_ids, read the counter if the last commit did not leave it, plan, commit.

use std::{collections::BTreeMap, num::NonZeroU64, time::Duration};

use kent_ids::{Position, UnixNanos};
use kent_issue::{
    Bound, DatedRequest, RequestPolicy, RequestRefusal, RequestRules, Reserved, Run, Stored, StrictId, StrictOutcome,
    StrictPlan, StrictRefusal, StrictRequest, StrictState,
};
use kent_regions::Pace;
use stateright::{Model, Property};

use super::Mutant;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrictModel {
    pub(crate) daemons: usize,
    pub(crate) budget: StrictBudget,
    pub(crate) mutant: Option<Mutant>,
}

/// How often what may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StrictBudget {
    pub(crate) attempts: u8,
    pub(crate) faults: u8,
}

/// A request: without a request_id, or under one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Asked {
    Nameless,
    Dated,
    /// One of two, of which one may be kept.
    Undated(u8),
}

/// A record of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Counter,
    Floor,
    Undated,
    Request(Asked),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Value {
    Counter(Reserved),
    Floor(UnixNanos),
    Undated(u64),
    Request(Run),
    /// What was removed.
    Nothing,
}

/// A commit, and what it grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Commit {
    expect: Vec<(Key, u64)>,
    write: Vec<(Key, Value)>,
    grants: Vec<(Asked, Run)>,
}

/// A state of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StrictModelState {
    revision: u64,
    store: BTreeMap<Key, (u64, Value)>,
    daemons: Vec<Daemon>,
    /// Commits whose senders have given them up.
    late: Vec<Commit>,
    /// Everything that was granted durably.
    granted: Vec<(Asked, Run)>,
    left: StrictBudget,
    broken: Option<&'static str>,
    /// What happened once: a request_id was answered again, and one was refused since it is forgotten.
    was_repeated: bool,
    was_forgotten: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Daemon {
    /// What the last commit left.
    last: Option<StrictState>,
    /// The floor as it was last read.
    floor: (u64, Option<UnixNanos>),
    work: Work,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Work {
    #[default]
    None,
    /// The request_ids were looked up.
    LookedUp(Vec<(Asked, Option<Run>)>),
    /// A commit is under way.
    Planned(Vec<Asked>, Box<StrictPlan>, Commit),
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StrictStep {
    /// A daemon looks up the request_ids of some requests, which share a commit.
    LookUp(usize, &'static [Asked]),
    /// It reads what else it needs, and plans.
    Plan(usize),
    /// The commit reaches the store, and its answer the daemon.
    Arrive(usize),
    /// It reaches the store, and the answer is lost.
    ArriveUnheard(usize),
    /// It is on its way when the daemon stops waiting for it.
    GiveUp(usize),
    /// A commit that was given up reaches the store.
    Late(usize),
    /// The daemon dies and another one starts in its place.
    Crash(usize),
    /// A daemon whose clock is ahead raises the floor above the dated request_id.
    RaiseFloor,
    /// It removes what is below the floor.
    Remove,
}

const BATCHES: [&[Asked]; 4] = [
    &[Asked::Nameless],
    &[Asked::Dated, Asked::Nameless],
    &[Asked::Undated(0), Asked::Undated(0), Asked::Dated],
    &[Asked::Undated(1), Asked::Dated],
];
const NO_SUFFIX_TWICE: &str = "no suffix is granted twice";
const NO_GAP: &str = "no suffix is passed over";
const REQUEST_ONCE: &str = "a request_id is granted once";
const TRUE_ANSWER: &str = "an answer is what was granted";
const FEW_KEPT: &str = "no more request_ids are kept than may be";
const UNDATED_MAX: u64 = 1;
/// A UUID of version 7, and the moment that it tells.
const DATED: &str = "01a3185c-5000-7000-8000-000000000001";
/// So few that a run may use them up.
const CAPACITY: u128 = 4;

fn dated() -> Option<DatedRequest> {
    DatedRequest::parse(DATED)
}

fn dated_at() -> UnixNanos {
    dated().map_or(UnixNanos::new(0), DatedRequest::time)
}

/// Every request has a count of its own.
fn count(asked: Asked) -> NonZeroU64 {
    match asked {
        Asked::Nameless | Asked::Dated => NonZeroU64::MIN,
        Asked::Undated(_) => NonZeroU64::MIN.saturating_add(1),
    }
}

impl StrictModelState {
    fn version(&self, key: Key) -> u64 {
        self.store.get(&key).filter(|(_, value)| *value != Value::Nothing).map_or(0, |(version, _)| *version)
    }

    fn value(&self, key: Key) -> Option<Value> {
        self.store.get(&key).map(|(_, value)| *value).filter(|value| *value != Value::Nothing)
    }

    fn granted_before(&self, asked: Asked) -> Option<Run> {
        match self.value(Key::Request(asked)) {
            Some(Value::Request(run)) => Some(run),
            _ => None,
        }
    }

    fn floor(&self) -> (u64, Option<UnixNanos>) {
        match self.value(Key::Floor) {
            Some(Value::Floor(floor)) => (self.version(Key::Floor), Some(floor)),
            _ => (0, None),
        }
    }

    fn undated(&self) -> Stored<u64> {
        let value = match self.value(Key::Undated) {
            Some(Value::Undated(count)) => count,
            _ => 0,
        };
        Stored { version: self.version(Key::Undated), value }
    }

    /// The counter, as it is read.
    fn counter(&self) -> StrictState {
        let value = match self.value(Key::Counter) {
            Some(Value::Counter(reserved)) => reserved,
            _ => Reserved { below: Position::ZERO, paid: UnixNanos::new(0) },
        };
        let counter = Stored { version: self.version(Key::Counter), value };
        StrictState { counter, is_unsure: false, undated: None, is_remembered: false }
    }

    fn plan(&mut self, at: usize, mutant: Option<Mutant>) {
        let looked_up = match std::mem::take(&mut self.daemons[at].work) {
            Work::LookedUp(looked_up) => looked_up,
            work => {
                self.daemons[at].work = work;
                return;
            }
        };
        let mut state = self.daemons[at].last.take().unwrap_or_else(|| self.counter());
        if state.undated.is_none() && looked_up.iter().any(|(asked, _)| matches!(asked, Asked::Undated(_))) {
            state.undated = Some(self.undated());
        }
        let (floor_version, floor) = self.daemons[at].floor;
        let policy = RequestPolicy { retention: Duration::from_secs(1), undated_max: UNDATED_MAX };
        let rules = RequestRules { policy, floor: floor.unwrap_or(UnixNanos::new(0)), now: Some(dated_at()) };
        let pace = Pace::per_second(NonZeroU64::MAX);
        let bound = Bound { capacity: Position::new(CAPACITY), pace, time: dated_at() };
        let keys: Vec<_> = looked_up.iter().map(|(asked, _)| *asked).collect();
        let requests = looked_up.iter().zip(&keys).map(|((asked, before), key)| {
            let dated = if *asked == Asked::Dated { dated() } else { None };
            let id = (*asked != Asked::Nameless).then_some(StrictId { key, dated, before: *before });
            StrictRequest { count: count(*asked), id }
        });
        let plan = state.plan(&bound, &rules, &requests.collect::<Vec<_>>());
        if plan.is_empty() {
            self.answer(&keys, &plan);
            return;
        }
        let mut commit = Commit {
            expect: vec![(Key::Counter, plan.guard())],
            write: vec![(Key::Counter, Value::Counter(plan.reserved()))],
            grants: Vec::new(),
        };
        if mutant == Some(Mutant::NoCounterCheck) {
            commit.expect.clear();
        }
        if plan.is_dated() && mutant != Some(Mutant::NoFloorCheck) {
            commit.expect.push((Key::Floor, floor_version));
        }
        if let Some((kept, count)) = plan.undated() {
            commit.expect.push((Key::Undated, kept.version));
            commit.write.push((Key::Undated, Value::Undated(count)));
        }
        for (asked, outcome) in keys.iter().zip(plan.outcomes()) {
            let StrictOutcome::Granted(first) = *outcome else { continue };
            let run = Run { first, count: count(*asked).get() };
            commit.grants.push((*asked, run));
            if *asked != Asked::Nameless {
                // Without the look-up, what is on record is overwritten.
                if mutant != Some(Mutant::NoRequestLookUp) {
                    commit.expect.push((Key::Request(*asked), 0));
                }
                commit.write.push((Key::Request(*asked), Value::Request(run)));
            }
        }
        self.daemons[at].work = Work::Planned(keys, Box::new(plan), commit);
    }

    /// What the callers are told, if they still listen.
    fn answer(&mut self, keys: &[Asked], plan: &StrictPlan) {
        for (asked, outcome) in keys.iter().zip(plan.outcomes()) {
            let first = match outcome {
                StrictOutcome::Granted(first) => first,
                StrictOutcome::GrantedBefore(first) => {
                    self.was_repeated = true;
                    first
                }
                StrictOutcome::Refused(refusal) => {
                    self.was_forgotten |= matches!(refusal, StrictRefusal::Request(RequestRefusal::TooOld { .. }));
                    continue;
                }
                StrictOutcome::Again => continue,
            };
            let run = Run { first: *first, count: count(*asked).get() };
            if !self.granted.contains(&(*asked, run)) {
                self.broken = Some(TRUE_ANSWER);
            }
        }
    }

    /// Commits, or names the record that is in the way.
    fn commit(&mut self, commit: &Commit) -> Result<u64, Key> {
        if let Some((key, _)) = commit.expect.iter().find(|(key, version)| self.version(*key) != *version) {
            return Err(*key);
        }
        self.revision += 1;
        for (key, value) in &commit.write {
            self.store.insert(*key, (self.revision, *value));
        }
        for (asked, run) in &commit.grants {
            let end = |run: &Run| run.first.get() + u128::from(run.count);
            let meets = |other: &Run| other.first.get() < end(run) && run.first.get() < end(other);
            if self.granted.iter().any(|(_, other)| meets(other)) {
                self.broken = Some(NO_SUFFIX_TWICE);
            }
            if *asked != Asked::Nameless && self.granted.iter().any(|(other, _)| other == asked) {
                self.broken = Some(REQUEST_ONCE);
            }
            self.granted.push((*asked, *run));
        }
        let sum: u128 = self.granted.iter().map(|(_, run)| u128::from(run.count)).sum();
        if self.counter().counter.value.below.get() != sum {
            self.broken = Some(NO_GAP);
        }
        let kept = self.store.keys().filter(|key| matches!(key, Key::Request(Asked::Undated(_)))).count();
        if kept as u64 > UNDATED_MAX {
            self.broken = Some(FEW_KEPT);
        }
        self.granted.sort_unstable_by_key(|(_, run)| run.first);
        Ok(self.revision)
    }

    fn arrive(&mut self, at: usize, is_heard: bool) {
        let Work::Planned(keys, plan, commit) = std::mem::take(&mut self.daemons[at].work) else { return };
        match self.commit(&commit) {
            _ if !is_heard => {}
            Ok(version) => {
                self.daemons[at].last = Some(plan.on_committed(version));
                self.answer(&keys, &plan);
            }
            Err(Key::Floor) => self.daemons[at].floor = self.floor(),
            Err(_) => {}
        }
    }
}

impl Model for StrictModel {
    type State = StrictModelState;
    type Action = StrictStep;

    fn init_states(&self) -> Vec<StrictModelState> {
        vec![StrictModelState {
            revision: 0,
            store: BTreeMap::new(),
            daemons: vec![Daemon::default(); self.daemons],
            late: Vec::new(),
            granted: Vec::new(),
            left: self.budget,
            broken: None,
            was_repeated: false,
            was_forgotten: false,
        }]
    }

    fn actions(&self, state: &StrictModelState, steps: &mut Vec<StrictStep>) {
        for (at, daemon) in state.daemons.iter().enumerate() {
            match &daemon.work {
                Work::None if state.left.attempts > 0 => {
                    steps.extend(BATCHES.map(|batch| StrictStep::LookUp(at, batch)));
                }
                Work::None => {}
                Work::LookedUp(_) => steps.push(StrictStep::Plan(at)),
                Work::Planned(..) => {
                    steps.push(StrictStep::Arrive(at));
                    if state.left.faults > 0 {
                        steps.extend([StrictStep::ArriveUnheard(at), StrictStep::GiveUp(at)]);
                    }
                }
            }
            if state.left.faults > 0 && *daemon != Daemon::default() {
                steps.push(StrictStep::Crash(at));
            }
        }
        steps.extend((0..state.late.len()).map(StrictStep::Late));
        if state.floor().1.is_none() {
            steps.push(StrictStep::RaiseFloor);
        } else if state.granted_before(Asked::Dated).is_some() {
            steps.push(StrictStep::Remove);
        }
    }

    fn next_state(&self, last: &StrictModelState, step: StrictStep) -> Option<StrictModelState> {
        let mut state = last.clone();
        match step {
            StrictStep::LookUp(at, batch) => {
                state.left.attempts -= 1;
                let look_up = |asked: &Asked| match self.mutant {
                    Some(Mutant::NoRequestLookUp) => (*asked, None),
                    _ => (*asked, state.granted_before(*asked)),
                };
                let looked_up = batch.iter().map(look_up).collect();
                state.daemons[at].work = Work::LookedUp(looked_up);
            }
            StrictStep::Plan(at) => state.plan(at, self.mutant),
            StrictStep::Arrive(at) => state.arrive(at, true),
            StrictStep::ArriveUnheard(at) => {
                state.left.faults -= 1;
                state.arrive(at, false);
            }
            StrictStep::GiveUp(at) => {
                state.left.faults -= 1;
                if let Work::Planned(_, _, commit) = std::mem::take(&mut state.daemons[at].work) {
                    state.late.push(commit);
                }
            }
            StrictStep::Late(at) => {
                let commit = state.late.remove(at);
                // OK because nobody waits for what comes of it.
                let _ = state.commit(&commit);
            }
            StrictStep::Crash(at) => {
                state.left.faults -= 1;
                state.daemons[at] = Daemon { floor: state.floor(), ..Daemon::default() };
            }
            StrictStep::RaiseFloor => {
                state.revision += 1;
                state.store.insert(Key::Floor, (state.revision, Value::Floor(dated_at().offset(1))));
            }
            StrictStep::Remove => {
                state.revision += 1;
                state.store.insert(Key::Request(Asked::Dated), (state.revision, Value::Nothing));
            }
        }
        // Which daemon is which makes no difference.
        state.daemons.sort_by_cached_key(super::shared::hash);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_SUFFIX_TWICE, |_, state: &StrictModelState| state.broken != Some(NO_SUFFIX_TWICE)),
            Property::always(NO_GAP, |_, state: &StrictModelState| state.broken != Some(NO_GAP)),
            Property::always(REQUEST_ONCE, |_, state: &StrictModelState| state.broken != Some(REQUEST_ONCE)),
            Property::always(TRUE_ANSWER, |_, state: &StrictModelState| state.broken != Some(TRUE_ANSWER)),
            Property::always(FEW_KEPT, |_, state: &StrictModelState| state.broken != Some(FEW_KEPT)),
            Property::sometimes("a request_id is answered again", |_, state: &StrictModelState| state.was_repeated),
            Property::sometimes("a request_id is forgotten", |_, state: &StrictModelState| state.was_forgotten),
            Property::sometimes("all that is there is granted", |_, state: &StrictModelState| {
                state.counter().counter.value.below.get() == CAPACITY
            }),
        ]
    }
}
