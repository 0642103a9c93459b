//! One daemon of the model of regions: its tables and counters in memory, and its pending operations.

use std::sync::{Arc, LazyLock};

use kent_issue::{Chunk, Counter, CounterPlan, Stored};
use kent_regions::{Count, Kind, Plan, Region, RegionNumber, Revision, Seal, Table};

use super::{
    super::{
        Mutant,
        shared::{Pool, Shared, pooled},
        store::{Contents, ModelStore, ModelTxn},
    },
    edits::EditKind,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    Space,
    Region(u64),
    Counter(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Value {
    Space(Revision, RegionNumber),
    Region(Box<Region>),
    /// The record of a deleted region.
    Deleted,
    Counter(Count),
}

pub(super) type Store = ModelStore<Key, Value>;

pooled!(Contents<Key, Value>, Sent, View, Vec<(u64, Counter)>);

/// A commit in flight, with the plan if the commit is an edit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) txn: ModelTxn<Key, Value>,
    pub(super) plan: Option<Plan>,
}

/// A daemon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Replica {
    pub(super) view: Shared<View>,
    pub(super) counters: Shared<Vec<(u64, Counter)>>,
    /// The pending commit that reserves or gives back a chunk.
    pub(super) waiting: Option<Waiting>,
    /// The stage of a pending edit.
    pub(super) edit: Option<Stage>,
    /// The number of counter changes that the daemon has received.
    pub(super) heard: u8,
    /// The region that a thread has checked and is about to grant from.
    pub(super) looked: Option<u64>,
}

/// A table in a daemon's memory, and the versions of the records that it was built from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) table: Table,
    /// The versions of the records from which the table was built.
    versions: Vec<(Key, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waiting {
    Chunk { region: u64, plan: CounterPlan, sent: Shared<Sent> },
    GiveBack { region: u64, sent: Shared<Sent> },
}

/// The stages of `Directory::try_edit`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// The commit that gives back the rest of the chunk is in flight.
    GiveBack(EditKind, Shared<Sent>),
    /// Next, the daemon reads the counter.
    Read(EditKind),
    /// Next, the daemon plans the edit. It has read the counter at this version.
    Plan(EditKind, u64),
    /// The commit of the edit is in flight.
    Commit(Shared<Sent>),
    /// The edit is durable at this version. Next, the daemon applies it.
    Apply(Shared<Sent>, u64),
    /// Next, the daemon reads the table again.
    Reload,
}

pub(super) const BITS: u32 = 6;
const CHUNK: Chunk = Chunk { min: 1, max: 2 };

impl Replica {
    pub(super) fn new(store: &Store, heard: u8) -> Option<Self> {
        let (view, counters) = (Shared::new(View::load(store)?), Shared::new(Vec::new()));
        Some(Self { view, counters, waiting: None, edit: None, heard, looked: None })
    }

    pub(super) fn with_counter<T>(&mut self, region: u64, act: impl FnOnce(&mut Counter) -> T) -> T {
        self.counters.update(|counters| {
            let index = counters.iter().position(|(of, _)| *of == region).unwrap_or_else(|| {
                counters.push((region, Counter::new(CHUNK)));
                counters.len() - 1
            });
            act(&mut counters[index].1)
        })
    }

    /// Returns whether the chunk of a region is exhausted.
    pub(super) fn is_spent(&self, region: u64) -> bool {
        self.counters.iter().all(|(of, counter)| *of != region || counter.left() == 0)
    }

    /// Returns the version of a counter after this daemon's last commit.
    pub(super) fn own_version(&self, region: u64) -> u64 {
        self.counters.iter().find(|(of, _)| *of == region).map_or(0, |(_, counter)| counter.version())
    }

    /// Returns whether a commit that reserves or gives back a chunk of the region is in flight, like `Cell::reserving`.
    pub(super) fn is_reserving(&self, region: u64) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.region() == region)
    }
}

impl Waiting {
    pub(super) const fn region(&self) -> u64 {
        match self {
            Self::Chunk { region, .. } | Self::GiveBack { region, .. } => *region,
        }
    }

    pub(super) const fn sent(&self) -> &Shared<Sent> {
        match self {
            Self::Chunk { sent, .. } | Self::GiveBack { sent, .. } => sent,
        }
    }
}

impl Stage {
    /// Returns the commit in flight.
    pub(super) const fn sent(&self) -> Option<&Shared<Sent>> {
        match self {
            Self::GiveBack(_, sent) | Self::Commit(sent) => Some(sent),
            Self::Read(_) | Self::Plan(..) | Self::Apply(..) | Self::Reload => None,
        }
    }
}

impl View {
    /// Returns the contents of a store, loaded once for all states with equal contents.
    pub(super) fn of(store: &Store) -> Arc<Option<Self>> {
        static READ: LazyLock<Pool<Arc<Option<View>>>> = LazyLock::new(Pool::default);
        READ.get_or_create(store.contents(), || Arc::new(Self::load(store)))
    }

    /// Loads the tables, like `State::load`.
    pub(super) fn load(store: &Store) -> Option<Self> {
        let (_, Value::Space(revision, next)) = store.get(&Key::Space)? else { return None };
        let regions = store.iter().filter_map(|(key, (_, value))| match (key, value) {
            (Key::Region(number), Value::Region(region)) => {
                let issued = match store.get(&Key::Counter(*number)) {
                    Some((_, Value::Counter(reserved))) if region.kind != Kind::Closed => *reserved,
                    _ => Count::ZERO,
                };
                Some(Region { issued: issued.into(), ..(**region).clone() })
            }
            _ => None,
        });
        // OK because the width is a small constant.
        let table = Table::restore(BITS as u8, *revision, *next, regions).ok()?;
        let versions = store.iter().map(|(key, (version, _))| (*key, *version)).collect();
        Some(Self { table, versions })
    }

    pub(super) fn version(&self, key: Key) -> u64 {
        self.versions.iter().find(|(of, _)| *of == key).map_or(0, |(_, version)| *version)
    }

    fn set_version(&mut self, key: Key, version: u64) {
        self.versions.retain(|(of, _)| *of != key);
        self.versions.push((key, version));
        self.versions.sort_unstable();
    }

    /// Stores the value of a counter, unless a newer version is known. `unchecked` disables this guard.
    pub(super) fn set_issued(&mut self, region: u64, read: Stored<Count>, unchecked: bool) {
        if unchecked || read.version > self.version(Key::Counter(region)) {
            self.set_version(Key::Counter(region), read.version);
            self.table.set_issued(RegionNumber(region), read.value);
        }
    }

    /// Applies a plan, like `Space::apply`. Returns false if the plan does not match the table.
    pub(super) fn apply(&mut self, plan: &Plan, version: u64) -> bool {
        if self.table.apply(plan).is_err() {
            return false;
        }
        self.set_version(Key::Space, version);
        for change in &plan.changes {
            self.set_version(Key::Region(change.number.0), version);
            let issued = change.after.as_ref().map_or(Count::ZERO, |after| *after.issued);
            if change.before.is_none() && issued != Count::ZERO {
                self.set_version(Key::Counter(change.number.0), version);
            }
        }
        if let Some((number, _)) = plan.declared {
            self.set_version(Key::Counter(number.0), version);
        }
        true
    }

    /// Returns the region if this daemon may grant from it, like `facts` in the server.
    pub(super) fn facts(&self, region: u64, mutant: Option<Mutant>) -> Option<&Region> {
        let found = self.table.get(RegionNumber(region))?;
        let seal = Seal::over([(&self.table, found)]).filter(|_| mutant != Some(Mutant::NoSealCheck));
        found.check_granting(seal).is_ok().then_some(found)
    }

    /// Returns the regions from which this daemon may grant.
    pub(super) fn open(&self, mutant: Option<Mutant>) -> impl Iterator<Item = u64> {
        self.table.iter().map(|region| region.number.0).filter(move |number| self.facts(*number, mutant).is_some())
    }
}
