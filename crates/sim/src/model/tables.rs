//! The model of regions: daemons reserve chunks and grant from them while tables are edited.
//!
//! Drives `kent_issue::Counter` and `kent_regions::Table` in the order of `server/src/counters.rs` (`grant_in_hand`, `reserve`,
//! `follow`), `server/src/cell.rs` (`try_reserve`, `give_back`) and `server/src/directory.rs` (`hold_still`, `settle`, `plan`,
//! `transaction`, `reload`).

use std::{collections::BTreeSet, time::Duration};

use kent_ids::{Position, UnixNanos};
use kent_issue::{Bound, Chunk, Counter, CounterPlan, Reserved, Stored};
use kent_regions::{
    Count, Donate, Edit, Kind, Newcomer, Order, Place, Plan, Prefix, Region, RegionNumber, Revision, Status, Table,
    Zone,
};
use stateright::{Model, Property};

use super::{
    Mutant,
    store::{ModelStore, ModelTxn},
};

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TablesModel {
    pub(crate) replicas: usize,
    pub(crate) budget: TableBudget,
    pub(crate) mutant: Option<Mutant>,
}

/// How often what may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableBudget {
    pub(crate) edits: u8,
    pub(crate) reservations: u8,
    pub(crate) grants: u8,
    pub(crate) faults: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Space,
    Region(u64),
    Counter(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Space(Revision, RegionNumber),
    Region(Box<Region>),
    Counter(Count),
}

type Txn = ModelTxn<Key, Value>;

/// A state of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TablesState {
    store: ModelStore<Key, Value>,
    replicas: Vec<Replica>,
    late: Vec<Txn>,
    /// Identifiers, and the region that granted each.
    granted: BTreeSet<(u128, u64)>,
    left: TableBudget,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    table: Table,
    /// Of the space's record, and of the regions'.
    versions: Vec<(Key, u64)>,
    counters: Vec<(u64, Counter)>,
    waiting: Option<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    /// For a chunk of a region.
    Chunk { region: u64, plan: CounterPlan, txn: Txn },
    /// For an edit.
    Edit { plan: Box<Plan>, txn: Txn },
    /// For the rest of a chunk to be taken back.
    GiveBack { txn: Txn },
    /// To read the table again.
    Reload,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TablesStep {
    /// Grants one identifier from the chunk in hand of this region.
    Grant(usize, u64),
    /// `Counters::reserve`, up to its commit.
    Reserve(usize, u64),
    /// `Directory::try_edit`, up to its commit.
    Edit(usize, EditKind),
    /// `Cell::give_back`, up to its commit.
    GiveBack(usize, u64),
    Arrive(usize),
    ArriveUnheard(usize),
    Lose(usize),
    /// The commit is on its way when the daemon stops waiting for it.
    GiveUp(usize),
    Late(usize),
    Reload(usize),
    Crash(usize),
    PowerLoss,
}

/// The edits that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EditKind {
    Expand,
    Shrink,
    Split,
    /// Gives the region an all-zero subregion, which takes its place.
    Close,
    /// Gives it another one beside its own identifiers.
    Divide,
    /// Makes another region on what is free.
    Create,
}

const EDITS: [EditKind; 6] =
    [EditKind::Expand, EditKind::Shrink, EditKind::Split, EditKind::Close, EditKind::Divide, EditKind::Create];
const BITS: u32 = 6;
/// The region of which everything begins, its suffix and its zone.
const FIRST: u64 = 1;
const CHUNK: Chunk = Chunk { min: 1, max: 2 };
/// The time by which counters are paid for.
const TIME: UnixNanos = UnixNanos::new(0);
const NOW: Duration = Duration::ZERO;

impl EditKind {
    fn edit(self, table: &Table) -> Option<Edit> {
        let name = table.get(RegionNumber(FIRST))?.name.clone();
        let newcomer = |suffix, extension: &str| Newcomer {
            name: format!("n{}", table.next_number().0),
            suffix,
            extension: extension.parse::<Prefix>().ok(),
            order: Order::Sequential,
        };
        Some(match self {
            Self::Expand => Edit::Expand { name, by: 1 },
            Self::Shrink => Edit::Shrink { name, by: 1 },
            Self::Split => Edit::Split { name, by: 1, newcomers: vec![newcomer(Some(1), "1")] },
            Self::Close => Edit::Subdivide { name, by: 1, newcomers: vec![newcomer(None, "0")], reserve_others: true },
            Self::Divide => {
                Edit::Subdivide { name, by: 1, newcomers: vec![newcomer(Some(1), "1")], reserve_others: false }
            }
            Self::Create => {
                let place = Place::Chosen { zone: Zone::UpTo(1), donor: Donate::Never };
                let name = format!("n{}", table.next_number().0);
                Edit::Create { name, suffix: 1, place, next: Count::ZERO, order: Order::Sequential, pace: None }
            }
        })
    }

    /// The edits for which the counter is held still.
    const fn is_about_the_counter(self) -> bool {
        matches!(self, Self::Shrink | Self::Close | Self::Divide)
    }
}

impl Replica {
    fn new(store: &ModelStore<Key, Value>) -> Option<Self> {
        let mut replica =
            Self { table: Table::new(BITS).ok()?, versions: Vec::new(), counters: Vec::new(), waiting: None };
        replica.reload(store)?;
        Some(replica)
    }

    /// `State::load`.
    fn reload(&mut self, store: &ModelStore<Key, Value>) -> Option<()> {
        let (_, Value::Space(revision, next)) = store.get(&Key::Space)? else { return None };
        let mut regions = Vec::new();
        self.versions.clear();
        for (key, (version, value)) in store.iter() {
            if matches!(key, Key::Space | Key::Region(_)) {
                self.versions.push((*key, *version));
            }
            if let (Key::Region(number), Value::Region(region)) = (key, value) {
                let issued = match store.get(&Key::Counter(*number)) {
                    Some((_, Value::Counter(reserved))) if region.kind != Kind::Closed => *reserved,
                    _ => Count::ZERO,
                };
                regions.push(Region { issued, ..(**region).clone() });
            }
        }
        self.table = Table::restore(BITS as u8, *revision, *next, regions).ok()?;
        Some(())
    }

    fn version(&self, key: Key) -> u64 {
        self.versions.iter().find(|(of, _)| *of == key).map_or(0, |(_, version)| *version)
    }

    fn set_version(&mut self, key: Key, version: u64) {
        self.versions.retain(|(of, _)| *of != key);
        self.versions.push((key, version));
        self.versions.sort_unstable();
    }

    fn counter(&mut self, region: u64) -> &mut Counter {
        let index = self.counters.iter().position(|(of, _)| *of == region).unwrap_or_else(|| {
            self.counters.push((region, Counter::new(CHUNK)));
            self.counters.len() - 1
        });
        &mut self.counters[index].1
    }

    /// `facts`: what a region may grant, as this daemon knows it.
    fn facts(&self, region: u64) -> Option<&Region> {
        self.table.get(RegionNumber(region)).filter(|region| region.kind != Kind::Closed)
    }
}

impl TablesState {
    fn commit(&mut self, txn: &Txn, mutant: Option<Mutant>) -> Result<u64, Key> {
        let unguarded = |key: &Key| match mutant {
            Some(Mutant::NoVersionCheck) => matches!(key, Key::Counter(_)),
            Some(Mutant::NoRegionGuard) => {
                matches!(key, Key::Region(_)) && txn.write.iter().all(|(key, _)| matches!(key, Key::Counter(_)))
            }
            Some(Mutant::NoRevisionCheck) => matches!(key, Key::Space | Key::Region(_)),
            _ => false,
        };
        let mut txn = txn.clone();
        txn.expect.retain(|(key, _)| !unguarded(key));
        self.store.commit(&txn, mutant != Some(Mutant::AnswerBeforeFlush))
    }

    fn read_counter(&self, region: u64) -> Stored<Count> {
        match self.store.get(&Key::Counter(region)) {
            Some((version, Value::Counter(reserved))) => Stored { version: *version, value: *reserved },
            _ => Stored { version: 0, value: Count::ZERO },
        }
    }

    fn grant(&mut self, replica: usize, region: u64) -> bool {
        let it = &mut self.replicas[replica];
        let Some(facts) = it.facts(region) else { return false };
        let (base, capacity) = (facts.prefix.base(it.table.bits()), facts.capacity());
        let Ok(first) = it.counter(region).grant(1) else { return false };
        if !capacity.includes(first.get()) {
            self.broken = Some("an identifier is outside of its region");
        }
        let id = base | first.get();
        if self.granted.iter().any(|(granted, _)| *granted == id) {
            self.broken = Some("an identifier was granted twice");
        }
        self.granted.insert((id, region));
        true
    }

    /// `Counters::reserve` and `Cell::try_reserve`.
    fn reserve(&mut self, replica: usize, region: u64) -> Option<()> {
        let read = self.read_counter(region);
        let it = &mut self.replicas[replica];
        let facts = it.facts(region)?;
        let (capacity, guard) = (facts.limit().get()?, it.version(Key::Region(region)));
        // The pace bounds nothing here: it has no part in what two replicas may do to each other.
        let value = Reserved { below: Position::new(read.value.get()?), paid: TIME };
        let (read, bound) = (
            Stored { version: read.version, value },
            Bound { capacity: Position::new(capacity), pace: facts.pace, time: TIME },
        );
        let plan = it.counter(region).plan_chunk(read, 1, &bound, NOW).ok()?;
        let txn = ModelTxn {
            expect: vec![(Key::Counter(region), plan.guard()), (Key::Region(region), guard)],
            write: vec![(Key::Counter(region), Value::Counter(Count::Below(plan.reserved().below.get())))],
        };
        it.waiting = Some(Waiting::Chunk { region, plan, txn });
        Some(())
    }

    fn give_back(&mut self, replica: usize, region: u64) -> Option<Txn> {
        let plan = self.replicas[replica].counter(region).plan_give_back()?;
        Some(ModelTxn {
            expect: vec![(Key::Counter(region), plan.guard())],
            write: vec![(Key::Counter(region), Value::Counter(Count::Below(plan.reserved().below.get())))],
        })
    }

    /// `Directory::try_edit`.
    fn edit(&mut self, replica: usize, kind: EditKind, mutant: Option<Mutant>) -> Option<()> {
        let mut expect = Vec::new();
        if kind.is_about_the_counter() {
            if let Some(txn) = self.give_back(replica, FIRST) {
                // If it is refused, what was not given back is a gap.
                let _ = self.commit(&txn, mutant);
            }
            let read = self.read_counter(FIRST);
            self.replicas[replica].table.set_issued(RegionNumber(FIRST), read.value);
            expect.push((Key::Counter(FIRST), read.version));
        }
        let it = &mut self.replicas[replica];
        let plan = it.table.plan(&kind.edit(&it.table)?).ok()?;
        let made = plan.changes.iter().filter(|change| change.before.is_none()).count() as u64;
        let next = RegionNumber(it.table.next_number().0 + made);
        expect.push((Key::Space, it.version(Key::Space)));
        let mut write = vec![(Key::Space, Value::Space(plan.revision, next))];
        for change in &plan.changes {
            let number = change.after.number.0;
            expect.push((Key::Region(number), it.version(Key::Region(number))));
            write.push((Key::Region(number), Value::Region(Box::new(change.after.clone()))));
            if change.before.is_none() && change.after.issued != Count::ZERO {
                expect.push((Key::Counter(number), 0));
                write.push((Key::Counter(number), Value::Counter(change.after.issued)));
            }
        }
        it.waiting = Some(Waiting::Edit { plan: Box::new(plan), txn: ModelTxn { expect, write } });
        Some(())
    }

    fn hear(&mut self, replica: usize, waiting: Waiting, answer: Result<u64, Key>) {
        let it = &mut self.replicas[replica];
        it.waiting = None;
        match (waiting, answer) {
            (Waiting::Chunk { region, plan, txn: ModelTxn { write, .. } }, Ok(version)) => {
                it.counter(region).on_committed(plan, version);
                if let Some((_, Value::Counter(reserved))) = write.first() {
                    it.table.set_issued(RegionNumber(region), *reserved);
                }
            }
            // The table has moved on.
            (Waiting::Chunk { .. }, Err(Key::Region(_))) => it.waiting = Some(Waiting::Reload),
            (Waiting::Edit { plan, .. }, Ok(version)) => {
                if it.table.apply(&plan).is_err() {
                    it.waiting = Some(Waiting::Reload);
                    return;
                }
                it.set_version(Key::Space, version);
                for change in &plan.changes {
                    it.set_version(Key::Region(change.after.number.0), version);
                }
            }
            (Waiting::Edit { .. }, Err(_)) => it.waiting = Some(Waiting::Reload),
            _ => {}
        }
    }

    /// Every identifier belongs to the region that granted it, or to the one that this became; and the stored table is one.
    fn is_sound(&self) -> bool {
        let Some(replica) = Replica::new(&self.store) else { return false };
        let table = &replica.table;
        self.granted.iter().all(|(id, number)| {
            let Some(found) = table.classify(*id) else { return false };
            let mut owner = table.get(RegionNumber(*number));
            while let Some(region) = owner
                && region.kind == Kind::Closed
            {
                owner = table.children(region).next();
            }
            let last = found.path.last().map(|region| region.number);
            let issued = matches!(found.status, Status::Member { issued: true, .. });
            issued && last.is_some() && last == owner.map(|owner| owner.number)
        })
    }

    /// Whether some region still grants once faults have stopped, unless it is full.
    fn recovers(&self, mutant: Option<Mutant>) -> bool {
        let mut calm = self.clone();
        for txn in std::mem::take(&mut calm.late) {
            // Whether it is made or refused makes no difference now.
            let _ = calm.commit(&txn, mutant);
        }
        (0..calm.replicas.len()).all(|replica| {
            for _ in 0..10 {
                match calm.replicas[replica].waiting.clone() {
                    Some(Waiting::Reload) => {
                        let store = calm.store.clone();
                        calm.replicas[replica].waiting = None;
                        if calm.replicas[replica].reload(&store).is_none() {
                            return false;
                        }
                    }
                    Some(waiting) => {
                        let txn = waiting.txn().cloned();
                        let answer = txn.map_or(Ok(0), |txn| calm.commit(&txn, mutant));
                        calm.hear(replica, waiting, answer);
                    }
                    None => {}
                }
                let open: Vec<u64> = calm.replicas[replica]
                    .table
                    .iter()
                    .filter(|region| region.kind != Kind::Closed)
                    .map(|region| region.number.0)
                    .collect();
                let full = open.iter().all(|number| {
                    let capacity = calm.replicas[replica].facts(*number).map(Region::capacity);
                    capacity.is_none_or(|capacity| calm.read_counter(*number).value >= capacity)
                });
                if full || open.iter().any(|number| calm.grant(replica, *number)) {
                    return true;
                }
                if calm.replicas[replica].waiting.is_none() {
                    // The first region that has room.
                    let _ = open.iter().any(|number| calm.reserve(replica, *number).is_some());
                }
            }
            false
        })
    }
}

impl Waiting {
    const fn txn(&self) -> Option<&Txn> {
        match self {
            Self::Chunk { txn, .. } | Self::Edit { txn, .. } | Self::GiveBack { txn } => Some(txn),
            Self::Reload => None,
        }
    }
}

impl Model for TablesModel {
    type State = TablesState;
    type Action = TablesStep;

    fn init_states(&self) -> Vec<TablesState> {
        let mut store = ModelStore::new();
        let (Ok(mut table), Ok(prefix)) = (Table::new(BITS), "0".parse::<Prefix>()) else { return Vec::new() };
        let place = Place::At(prefix);
        let create = Edit::Create {
            name: "first".to_owned(),
            suffix: 2,
            place,
            next: Count::ZERO,
            order: Order::Sequential,
            pace: None,
        };
        let Ok(plan) = table.plan(&create) else { return Vec::new() };
        if table.apply(&plan).is_err() {
            return Vec::new();
        }
        let mut write = vec![(Key::Space, Value::Space(table.revision(), table.next_number()))];
        for region in table.iter() {
            write.push((Key::Region(region.number.0), Value::Region(Box::new(region.clone()))));
        }
        let made = store.commit(&ModelTxn { expect: Vec::new(), write }, true);
        let replicas: Option<Vec<Replica>> = (0..self.replicas).map(|_| Replica::new(&store)).collect();
        let (Ok(_), Some(replicas)) = (made, replicas) else { return Vec::new() };
        let (late, granted) = (Vec::new(), BTreeSet::new());
        vec![TablesState { store, replicas, late, granted, left: self.budget, broken: None }]
    }

    fn actions(&self, state: &TablesState, actions: &mut Vec<TablesStep>) {
        let left = state.left;
        for (number, replica) in state.replicas.iter().enumerate() {
            let open =
                || replica.table.iter().filter(|region| region.kind != Kind::Closed).map(|region| region.number.0);
            if left.grants > 0 {
                actions.extend(open().map(|region| TablesStep::Grant(number, region)));
            }
            match &replica.waiting {
                None => {
                    if left.reservations > 0 {
                        actions.extend(open().map(|region| TablesStep::Reserve(number, region)));
                        actions.extend(open().map(|region| TablesStep::GiveBack(number, region)));
                    }
                    if left.edits > 0 {
                        actions.extend(EDITS.map(|edit| TablesStep::Edit(number, edit)));
                    }
                }
                Some(Waiting::Reload) => actions.push(TablesStep::Reload(number)),
                Some(_) => {
                    actions.push(TablesStep::Arrive(number));
                    if left.faults > 0 {
                        actions.extend([TablesStep::ArriveUnheard(number), TablesStep::Lose(number)]);
                        actions.push(TablesStep::GiveUp(number));
                    }
                }
            }
            if left.faults > 0 {
                actions.push(TablesStep::Crash(number));
            }
        }
        if left.faults > 0 {
            actions.push(TablesStep::PowerLoss);
        }
        actions.extend((0..state.late.len()).map(TablesStep::Late));
    }

    fn next_state(&self, last: &TablesState, step: TablesStep) -> Option<TablesState> {
        let mut state = last.clone();
        match step {
            TablesStep::Grant(replica, region) => {
                state.left.grants -= 1;
                state.grant(replica, region).then_some(())?;
            }
            TablesStep::Reserve(replica, region) => {
                state.left.reservations -= 1;
                state.reserve(replica, region)?;
            }
            TablesStep::GiveBack(replica, region) => {
                state.left.reservations -= 1;
                let before = state.replicas[replica].counters.clone();
                let txn = state.give_back(replica, region)?;
                if self.mutant == Some(Mutant::GrantAfterGiveBack) {
                    state.replicas[replica].counters = before;
                }
                state.replicas[replica].waiting = Some(Waiting::GiveBack { txn });
            }
            TablesStep::Edit(replica, kind) => {
                state.left.edits -= 1;
                state.edit(replica, kind, self.mutant)?;
            }
            TablesStep::Arrive(replica) => {
                let waiting = state.replicas[replica].waiting.take()?;
                let answer = state.commit(waiting.txn()?, self.mutant);
                state.hear(replica, waiting, answer);
            }
            TablesStep::ArriveUnheard(replica) | TablesStep::Lose(replica) | TablesStep::GiveUp(replica) => {
                state.left.faults -= 1;
                let waiting = state.replicas[replica].waiting.take()?;
                let txn = waiting.txn()?.clone();
                if let TablesStep::ArriveUnheard(_) = step {
                    // The answer is what is lost.
                    let _ = state.commit(&txn, self.mutant);
                }
                if let TablesStep::GiveUp(_) = step {
                    state.late.push(txn);
                }
                // An edit is looked for in the store; a chunk whose fate is unknown is a gap.
                state.replicas[replica].waiting = matches!(waiting, Waiting::Edit { .. }).then_some(Waiting::Reload);
            }
            TablesStep::Late(index) => {
                let txn = state.late.remove(index);
                // Nobody waits for the answer.
                let _ = state.commit(&txn, self.mutant);
            }
            TablesStep::Reload(replica) => {
                let store = state.store.clone();
                state.replicas[replica].waiting = None;
                state.replicas[replica].reload(&store)?;
            }
            TablesStep::Crash(replica) => {
                state.left.faults -= 1;
                let txn = state.replicas[replica].waiting.take().and_then(|waiting| waiting.txn().cloned());
                state.late.extend(txn);
                state.replicas[replica] = Replica::new(&state.store)?;
            }
            TablesStep::PowerLoss => {
                state.left.faults -= 1;
                state.store.crash();
                state.late.clear();
                for replica in 0..state.replicas.len() {
                    state.replicas[replica] = Replica::new(&state.store)?;
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no identifier is granted twice, or outside of its region", |_, state: &TablesState| {
                state.broken.is_none()
            }),
            Property::always("the table is one, and every identifier is its region's", |_, state: &TablesState| {
                state.is_sound()
            }),
            Property::always("something is granted once faults stop", |model: &Self, state: &TablesState| {
                state.recovers(model.mutant)
            }),
            Property::sometimes("a region closes after it has granted", |_, state: &TablesState| {
                let closed = |(_, (_, value)): (&Key, &(u64, Value))| matches!(value, Value::Region(region) if region.kind == Kind::Closed);
                !state.granted.is_empty() && state.store.iter().any(closed)
            }),
            Property::sometimes("two daemons grant", |_, state: &TablesState| {
                let granting = state.replicas.iter().filter(|replica| !replica.counters.is_empty());
                granting.count() > 1 && state.granted.len() > 1
            }),
        ]
    }
}
