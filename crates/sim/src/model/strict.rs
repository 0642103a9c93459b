//! The model of strict grants: daemons grant from one region with and without request IDs, while commits conflict, are
//! lost or arrive late, and dated request IDs expire.
//!
//! Calls the methods of `kent_issue::StrictState` in the same order as `crates/engine/src/issuing/strict.rs` (`grant`)
//! and `crates/engine/src/issuing/requests.rs` (`forget`): read the records of the request IDs, read the counter unless
//! the last commit left it in memory, plan, commit.

use std::{collections::BTreeMap, num::NonZeroU64, time::Duration};

use kent_ids::{Position, Stride, UnixNanos};
use kent_issue::{
    Bound, DatedRequest, Earlier, RequestPolicy, RequestRefusal, RequestRules, Reserved, Run, Stored, StrictId,
    StrictOutcome, StrictPlan, StrictRefusal, StrictRequest, StrictState,
};
use kent_regions::Pace;
use stateright::{Model, Property};

use super::Mutant;

/// The bounds of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrictModel {
    pub(crate) daemons: usize,
    pub(crate) budget: StrictBudget,
    pub(crate) mutant: Option<Mutant>,
}

/// The maximum number of each kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StrictBudget {
    pub(crate) attempts: u8,
    pub(crate) faults: u8,
}

/// The request ID of a request, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RequestId {
    None,
    Dated,
    /// One of two undated request IDs, of which the store keeps at most one.
    Undated(u8),
}

/// The key of a record in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Counter,
    Floor,
    Undated,
    Request(RequestId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Value {
    Counter(Reserved),
    Floor(UnixNanos),
    Undated(u64),
    Request(Run),
    /// A removed record.
    Removed,
}

/// A commit and its grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Commit {
    expect: Vec<(Key, u64)>,
    write: Vec<(Key, Value)>,
    grants: Vec<(RequestId, Run)>,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StrictModelState {
    revision: u64,
    store: BTreeMap<Key, (u64, Value)>,
    daemons: Vec<Daemon>,
    /// Commits in flight whose senders have given up.
    late: Vec<Commit>,
    /// All durable grants.
    granted: Vec<(RequestId, Run)>,
    left: StrictBudget,
    broken: Option<&'static str>,
    /// Whether a repeated request ID got its earlier grant.
    was_repeated: bool,
    /// Whether an expired request ID was refused.
    was_expired: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Daemon {
    /// The state that the last commit left in memory.
    last: Option<StrictState>,
    /// The version and value of the floor for dated request IDs, as last read.
    floor: (u64, Option<UnixNanos>),
    work: Work,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Work {
    #[default]
    None,
    /// The daemon has looked up the request IDs.
    LookedUp(Vec<(RequestId, Option<Run>)>),
    /// A commit is in flight.
    Planned(Vec<RequestId>, Box<StrictPlan>, Commit),
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StrictStep {
    /// A daemon looks up the request IDs of some requests, which share a commit.
    LookUp(usize, &'static [RequestId]),
    /// The daemon reads the other records that it needs, and plans the commit.
    Plan(usize),
    /// The commit reaches the store, and the answer reaches the daemon.
    Arrive(usize),
    /// The commit reaches the store, but the answer is lost.
    ArriveUnheard(usize),
    /// The daemon stops waiting for a commit that is in flight.
    GiveUp(usize),
    /// A commit whose sender has given up reaches the store.
    Late(usize),
    /// A daemon crashes, and a new one starts in its place.
    Crash(usize),
    /// A daemon whose clock is ahead raises the floor above the time of the dated request ID.
    RaiseFloor,
    /// A daemon removes records below the floor.
    Remove,
}

const BATCHES: [&[RequestId]; 4] = [
    &[RequestId::None],
    &[RequestId::Dated, RequestId::None],
    &[RequestId::Undated(0), RequestId::Undated(0), RequestId::Dated],
    &[RequestId::Undated(1), RequestId::Dated],
];
const NO_SUFFIX_TWICE: &str = "no suffix is granted twice";
const NO_GAP: &str = "no suffix is skipped";
const REQUEST_ONCE: &str = "a request_id is granted once";
const TRUE_ANSWER: &str = "an answer equals the durable grant";
const FEW_KEPT: &str = "no more undated request_ids are kept than allowed";
const UNDATED_MAX: u64 = 1;
/// A UUID of version 7, whose time is [`dated_at`].
const DATED: &str = "01a3185c-5000-7000-8000-000000000001";
/// A capacity that a run may exhaust.
const CAPACITY: u128 = 4;

fn dated() -> Option<DatedRequest> {
    DatedRequest::parse(DATED)
}

fn dated_at() -> UnixNanos {
    dated().map_or(UnixNanos::new(0), DatedRequest::time)
}

/// Returns the count of a request. Each request ID always has the same count.
fn granted(first: Position, id: RequestId) -> Run {
    Run { first, count: count(id).get(), stride: Stride::EVERY }
}

fn count(id: RequestId) -> NonZeroU64 {
    match id {
        RequestId::None | RequestId::Dated => NonZeroU64::MIN,
        RequestId::Undated(_) => NonZeroU64::MIN.saturating_add(1),
    }
}

impl StrictModelState {
    fn version(&self, key: Key) -> u64 {
        self.store.get(&key).filter(|(_, value)| *value != Value::Removed).map_or(0, |(version, _)| *version)
    }

    fn value(&self, key: Key) -> Option<Value> {
        self.store.get(&key).map(|(_, value)| *value).filter(|value| *value != Value::Removed)
    }

    fn granted_before(&self, id: RequestId) -> Option<Run> {
        match self.value(Key::Request(id)) {
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

    /// Returns the state as read from the store.
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
        if state.undated.is_none() && looked_up.iter().any(|(id, _)| matches!(id, RequestId::Undated(_))) {
            state.undated = Some(self.undated());
        }
        let (floor_version, floor) = self.daemons[at].floor;
        let policy = RequestPolicy { retention: Duration::from_secs(1), undated_max: UNDATED_MAX };
        let rules = RequestRules { policy, floor: floor.unwrap_or(UnixNanos::new(0)), now: Some(dated_at()) };
        let pace = Pace::per_second(NonZeroU64::MAX);
        let bound = Bound { capacity: Position::new(CAPACITY), pace, time: dated_at(), stride: Stride::EVERY };
        let keys: Vec<_> = looked_up.iter().map(|(id, _)| *id).collect();
        let requests = looked_up.iter().zip(&keys).map(|((request, before), key)| {
            let dated = if *request == RequestId::Dated { dated() } else { None };
            let id = (*request != RequestId::None).then_some(StrictId {
                key,
                dated,
                before: before.map(|run| Earlier { run, is_own: true }),
            });
            StrictRequest { count: count(*request), id }
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
        for (id, outcome) in keys.iter().zip(plan.outcomes()) {
            let StrictOutcome::Granted(first) = *outcome else { continue };
            let run = granted(first, *id);
            commit.grants.push((*id, run));
            if *id != RequestId::None {
                // With this mutant, an existing record is overwritten.
                if mutant != Some(Mutant::NoRequestLookUp) {
                    commit.expect.push((Key::Request(*id), 0));
                }
                commit.write.push((Key::Request(*id), Value::Request(run)));
            }
        }
        self.daemons[at].work = Work::Planned(keys, Box::new(plan), commit);
    }

    /// Checks the answers to the callers.
    fn answer(&mut self, keys: &[RequestId], plan: &StrictPlan) {
        for (id, outcome) in keys.iter().zip(plan.outcomes()) {
            let run = match outcome {
                StrictOutcome::Granted(first) => granted(*first, *id),
                StrictOutcome::GrantedBefore(run) => {
                    self.was_repeated = true;
                    *run
                }
                StrictOutcome::Refused(refusal) => {
                    self.was_expired |= matches!(refusal, StrictRefusal::Request(RequestRefusal::TooOld { .. }));
                    continue;
                }
                StrictOutcome::Again => continue,
            };
            if !self.granted.contains(&(*id, run)) {
                self.broken = Some(TRUE_ANSWER);
            }
        }
    }

    /// Applies a commit, or returns the first key whose version differs from the expected one.
    fn commit(&mut self, commit: &Commit) -> Result<u64, Key> {
        if let Some((key, _)) = commit.expect.iter().find(|(key, version)| self.version(*key) != *version) {
            return Err(*key);
        }
        self.revision += 1;
        for (key, value) in &commit.write {
            self.store.insert(*key, (self.revision, *value));
        }
        for (id, run) in &commit.grants {
            let end = |run: &Run| run.first.get() + u128::from(run.count);
            let overlaps = |other: &Run| other.first.get() < end(run) && run.first.get() < end(other);
            if self.granted.iter().any(|(_, other)| overlaps(other)) {
                self.broken = Some(NO_SUFFIX_TWICE);
            }
            if *id != RequestId::None && self.granted.iter().any(|(other, _)| other == id) {
                self.broken = Some(REQUEST_ONCE);
            }
            self.granted.push((*id, *run));
        }
        let sum: u128 = self.granted.iter().map(|(_, run)| u128::from(run.count)).sum();
        if self.counter().counter.value.below.get() != sum {
            self.broken = Some(NO_GAP);
        }
        let kept = self.store.keys().filter(|key| matches!(key, Key::Request(RequestId::Undated(_)))).count();
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
            was_expired: false,
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
        } else if state.granted_before(RequestId::Dated).is_some() {
            steps.push(StrictStep::Remove);
        }
    }

    fn next_state(&self, last: &StrictModelState, step: StrictStep) -> Option<StrictModelState> {
        let mut state = last.clone();
        match step {
            StrictStep::LookUp(at, batch) => {
                state.left.attempts -= 1;
                let look_up = |id: &RequestId| match self.mutant {
                    Some(Mutant::NoRequestLookUp) => (*id, None),
                    _ => (*id, state.granted_before(*id)),
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
                // OK because the sender has given up.
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
                state.store.insert(Key::Request(RequestId::Dated), (state.revision, Value::Removed));
            }
        }
        // Daemons are interchangeable, so their order does not matter.
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
            Property::sometimes("a repeated request_id gets its earlier grant", |_, state: &StrictModelState| {
                state.was_repeated
            }),
            Property::sometimes("an expired request_id is refused", |_, state: &StrictModelState| state.was_expired),
            Property::sometimes("the whole capacity is granted", |_, state: &StrictModelState| {
                state.counter().counter.value.below.get() == CAPACITY
            }),
        ]
    }
}
