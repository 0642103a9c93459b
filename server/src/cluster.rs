//! The replicas on one store: what each hears of the others' edits, and knows of the others.
//!
//! Nothing here is needed for an identifier to be issued once: that rests on the store's commits. Two things are:
//! tables that follow others' edits soon, and a bound on how long a replica goes on without hearing of them. A replica
//! grants regions' suffixes only while its last look at all tables began less than the window ago, and it is announced
//! for longer than that. So whoever seals a region waits for those who are announced, and knows that nobody else grants.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use kent_issue::Stored;
use kent_proto::{note::ReplicaNote, stored};
use kent_store::{Change, Key, NewerSchema, Peers, ReadError, Store, Txn, Version, Versioned, Watch};
use tokio::{sync::Notify, time};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    config::WINDOW_MAX,
    host::{Environment, clock::Clock},
    issuing::slots::Slots,
    records::{
        failure::{LoadError, StoreFailure},
        keys,
        schema::schema_in_force,
    },
    tables::directory::Directory,
};

/// This replica among the others.
#[derive(Debug)]
pub(crate) struct Cluster {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    directory: Arc<Directory>,
    slots: Arc<Slots>,
    /// Of this run.
    name: String,
    /// Where clients reach it.
    address: String,
    window: Duration,
    /// The newest one that this program knows.
    schema: u16,
    state: Mutex<State>,
    /// Milliseconds on the steady clock: the last look at all tables that was a whole one began then.
    reached: AtomicU64,
    /// The same on the wall clock. A paused machine may stop either of them, while others count it as gone.
    reached_wall: AtomicI64,
    /// Rung when others should know at once how far the tables are.
    progress: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The tables have every edit up to here.
    applied: Version,
    /// How often an edit that was heard of could not be applied, or some may have been missed.
    missed: u64,
    /// How many of those a look at all tables has made good. Until all are, `applied` stays.
    made_good: u64,
    replicas: BTreeMap<String, Replica>,
}

/// What is known of another replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) note: ReplicaNote,
    /// On the steady clock.
    pub(crate) heard: Duration,
    /// How far its clock was ahead of ours when its notes came, nanoseconds; the latest last.
    ahead: VecDeque<i128>,
}

/// Who has not yet said that it knows of a seal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unconfirmed {
    /// Their addresses.
    pub(crate) replicas: Vec<String>,
    /// After this long none of them grants from the region any more.
    pub(crate) within: Duration,
}

/// Watches that were begun before the tables were read, so that nothing falls between.
pub(crate) struct Watches {
    spaces: Box<dyn Watch>,
    counters: Box<dyn Watch>,
    present: Box<dyn Watch>,
}

/// How often a replica says that it is there and looks at all tables, at the least.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a look at all tables may take to begin after the announcement.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// By how much an announcement outlives what it covers: clocks run at slightly different rates.
const MARGIN: Duration = Duration::from_secs(10);
/// How long a seal waits for others to say that they know.
const CONFIRM_WITHIN: Duration = Duration::from_secs(1);
/// How often it looks.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(10);
/// Offsets of clocks are judged by so many notes.
const SAMPLES: usize = 5;
/// Clocks that differ by more are warned of.
pub(crate) const CLOCKS_DIFFER: Duration = Duration::from_millis(250);

impl Watches {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// If the store is not available.
    pub(crate) async fn begin(peers: &dyn Peers) -> Result<Self, StoreFailure> {
        Ok(Self {
            spaces: peers.watch(&keys::SPACES).await?,
            counters: peers.watch(&keys::COUNTERS).await?,
            present: peers.watch(&keys::PRESENT).await?,
        })
    }
}

impl Cluster {
    /// This replica, with tables as they were read after the watches had begun.
    pub(crate) fn new(
        environment: Environment,
        directory: Arc<Directory>,
        slots: Arc<Slots>,
        address: String,
        window: Duration,
        schema: u16,
    ) -> Self {
        let Environment { store, clock, .. } = environment;
        let (name, state) = (slots.holder().to_string(), Mutex::default());
        let (reached, reached_wall, progress) = (AtomicU64::new(u64::MAX), AtomicI64::new(0), Notify::new());
        Self { store, clock, directory, slots, name, address, window, schema, state, reached, reached_wall, progress }
    }

    /// Whether regions' suffixes may be granted: not if others' edits may have been missed for longer than the window.
    pub(crate) fn is_in_touch(&self) -> bool {
        self.reached_ago().is_some_and(|ago| ago < self.window)
    }

    /// How long ago the last look at all tables began, by the clock that says the most.
    pub(crate) fn reached_ago(&self) -> Option<Duration> {
        let reached = self.reached.load(Ordering::Acquire);
        if reached == u64::MAX {
            return None;
        }
        let steady = self.clock.steady().saturating_sub(Duration::from_millis(reached));
        let wall = wall_millis(&*self.clock).saturating_sub(self.reached_wall.load(Ordering::Relaxed));
        Some(steady.max(Duration::from_millis(u64::try_from(wall).unwrap_or(0))))
    }

    /// The name of this run, where it serves, and how far its tables are.
    pub(crate) fn myself(&self) -> (String, ReplicaNote) {
        (self.name.clone(), self.note())
    }

    /// The others, by name.
    pub(crate) fn others(&self) -> Vec<(String, Replica)> {
        let state = self.lock();
        let others = state.replicas.iter().filter(|(name, _)| **name != self.name);
        others.map(|(name, replica)| (name.clone(), replica.clone())).collect()
    }

    /// How long ago a replica was heard of last.
    pub(crate) fn heard_ago(&self, replica: &Replica) -> Duration {
        self.clock.steady().saturating_sub(replica.heard)
    }

    /// Waits for a moment until every replica that is there knows the tables as of `version`, and says who does not.
    pub(crate) async fn confirm(&self, version: Version) -> Unconfirmed {
        let began = self.clock.steady();
        loop {
            let waited = self.clock.steady().saturating_sub(began);
            let unconfirmed = self.unconfirmed(version).await;
            if unconfirmed.as_ref().is_ok_and(Vec::is_empty) {
                return Unconfirmed::default();
            }
            if waited >= CONFIRM_WITHIN {
                let Ok(unconfirmed) = unconfirmed else {
                    let replicas = vec!["unknown, since the store is away".to_owned()];
                    return Unconfirmed { replicas, within: WINDOW_MAX };
                };
                // Each of them grants for as long as its own window lasts.
                let window = unconfirmed.iter().map(|note| note.window).max().unwrap_or_default();
                let replicas = unconfirmed.into_iter().map(|note| note.address).collect();
                return Unconfirmed { replicas, within: window.saturating_sub(waited) };
            }
            time::sleep(CONFIRM_INTERVAL).await;
        }
    }

    /// The notes of those who are there, and do not say that they know of `version`. The store is asked, since a replica that
    /// has just come may not be heard of here yet.
    async fn unconfirmed(&self, version: Version) -> Result<Vec<ReplicaNote>, StoreFailure> {
        let mut notes = Vec::new();
        for (key, versioned) in self.store.scan(&keys::PRESENT).await? {
            let note = ReplicaNote::decode(&versioned.value)?;
            if keys::parse_present(&key)? != self.name && note.applied < version.get() {
                notes.push(note);
            }
        }
        Ok(notes)
    }

    /// Says that this replica is there, and looks at all tables. Called once before anything is served, and then by
    /// [`keep`](Self::keep).
    pub(crate) async fn beat(&self, peers: &dyn Peers) -> Result<(), StoreFailure> {
        let began = self.clock.steady();
        let ttl = self.window + LOOK_WITHIN + MARGIN;
        let key = keys::present(&self.name);
        let announced = peers.announce(&key, self.note().encode(), ttl).await;
        announced.map_err(ReadError::from)?;
        let (looked, wall) = (self.clock.steady(), wall_millis(&*self.clock));
        if looked.saturating_sub(began) > LOOK_WITHIN {
            // By now the announcement may end before what it should cover.
            return Ok(());
        }
        self.agree_on_schema(peers).await?;
        self.look().await?;
        self.reached_wall.store(wall, Ordering::Relaxed);
        // OK because the machine has been up for less than 500 million years.
        self.reached.store(u64::try_from(looked.as_millis()).unwrap_or(u64::MAX - 1), Ordering::Release);
        Ok(())
    }

    /// Writes by the schema that is in force, and puts a newer one in force once everybody who is there knows it.
    async fn agree_on_schema(&self, peers: &dyn Peers) -> Result<(), StoreFailure> {
        let (in_force, version) = schema_in_force(&*self.store).await?;
        if in_force > self.schema {
            let known = self.schema;
            return Err(ReadError::from(NewerSchema { key: keys::IN_FORCE, found: in_force, known }).into());
        }
        peers.write_schema(in_force);
        if in_force == self.schema {
            return Ok(());
        }
        for (_, versioned) in self.store.scan(&keys::PRESENT).await? {
            if ReplicaNote::decode(&versioned.value)?.schema < self.schema {
                return Ok(());
            }
        }
        let raise = Txn::new().expect(keys::IN_FORCE, version).put(keys::IN_FORCE, self.schema.to_be_bytes().to_vec());
        match self.store.commit(raise).await {
            Ok(_) => info!(schema = self.schema, "every replica knows a newer schema: it is in force from now on"),
            // Somebody else did, or it is tried again.
            Err(error) => debug!(%error, "the schema was not raised yet"),
        }
        Ok(())
    }

    /// Looks at the tables of all spaces, and brings up to date what is not.
    async fn look(&self) -> Result<(), StoreFailure> {
        let missed = self.lock().missed;
        let records = self.store.scan(&keys::SPACES).await?;
        let newest = records.iter().map(|(_, versioned)| versioned.version).max();
        for (key, versioned) in &records {
            self.directory.follow(key, versioned).await.map_err(failure)?;
        }
        let mut state = self.lock();
        // What was missed since this look began is not made good by it.
        state.made_good = missed;
        let newest = newest.unwrap_or_default();
        if newest > state.applied {
            state.applied = newest;
            // Somebody may wait for us to know.
            self.progress.notify_one();
        }
        Ok(())
    }

    /// Says that this replica is there, and looks at all tables, every few seconds until `stop`.
    pub(crate) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        let Some(peers) = self.store.peers() else { return stop.cancelled().await };
        let interval = HEARTBEAT.min(self.window / 4);
        loop {
            // In this order, so that a simulated run can be repeated.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.progress.notified() => {}
                () = time::sleep(interval) => {}
            }
            if let Err(error) = self.beat(peers).await {
                if !error.is_passing() {
                    error!(%error, "what the other replicas have written cannot be used; stopping");
                    break;
                }
                warn!(%error, "the other replicas are not heard of; going on with what is in hand");
            }
        }
        peers.withdraw().await;
    }

    /// Applies what others do, until `stop`.
    pub(crate) async fn follow(self: Arc<Self>, mut watches: Watches, stop: CancellationToken) {
        let Watches { spaces, counters, present } = &mut watches;
        // Each by itself: a watch that connects again must not be disturbed by what the others hear.
        let spaces = async {
            loop {
                self.space_changed(spaces.next().await).await;
            }
        };
        let counters = async {
            loop {
                self.counter_changed(counters.next().await);
            }
        };
        let present = async {
            loop {
                self.present_changed(present.next().await).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = spaces => {}
            _ = counters => {}
            _ = present => {}
        }
    }

    async fn space_changed(&self, change: Change) {
        match change {
            Change::Put(key, versioned) => match self.directory.follow(&key, &versioned).await {
                Ok(sealed) => {
                    let mut state = self.lock();
                    if state.missed == state.made_good {
                        state.applied = state.applied.max(versioned.version);
                    }
                    drop(state);
                    if sealed {
                        // Somebody waits for us to know.
                        self.progress.notify_one();
                    }
                }
                Err(error) => {
                    warn!(%error, "an edit of another replica could not be read yet");
                    self.fall_behind();
                }
            },
            // Spaces are never removed; what cannot be read is told where it is needed.
            Change::Deleted(_) | Change::Unreadable(_) | Change::Missed => self.fall_behind(),
        }
    }

    fn fall_behind(&self) {
        self.lock().missed += 1;
        self.progress.notify_one();
    }

    /// Takes note of how far another replica has reserved. It is for showing only: reserving reads the record.
    fn counter_changed(&self, change: Change) {
        if let Change::Put(key, versioned) = change
            && let Some((space, number)) = keys::parse_counter(&key)
            && let Some(space) = self.directory.by_key(space)
            && let Ok(counter) = stored::decode_counter(&versioned.value)
        {
            space.set_reserved(number, Stored { version: versioned.version.get(), value: counter.reserved });
        }
    }

    async fn present_changed(&self, change: Change) {
        match change {
            Change::Put(key, versioned) => self.heard(&key, &versioned),
            Change::Deleted(key) => {
                if let Ok(name) = keys::parse_present(&key)
                    && let Some(gone) = self.lock().replicas.remove(name)
                {
                    info!(replica = gone.note.address, "a replica is gone");
                }
            }
            Change::Missed | Change::Unreadable(_) => {
                if let Err(error) = self.who_is_there().await {
                    warn!(%error, "the other replicas are not known at present");
                }
            }
        }
    }

    /// Reads who is there.
    pub(crate) async fn who_is_there(&self) -> Result<(), StoreFailure> {
        let present = self.store.scan(&keys::PRESENT).await?;
        let names = present.iter().filter_map(|(key, _)| keys::parse_present(key).ok());
        let names: Vec<String> = names.map(str::to_owned).collect();
        self.lock().replicas.retain(|name, _| names.contains(name));
        present.iter().for_each(|(key, versioned)| self.heard(key, versioned));
        Ok(())
    }

    fn heard(&self, key: &Key, versioned: &Versioned) {
        let (Ok(name), Ok(note)) = (keys::parse_present(key), ReplicaNote::decode(&versioned.value)) else {
            warn!(%key, "a replica's note makes no sense");
            return;
        };
        let heard = self.clock.steady();
        let ahead = i128::from(note.unix_nanos) - self.clock.wall().get();
        let mut state = self.lock();
        let known = state.replicas.remove(name);
        let differed = known.as_ref().is_some_and(Replica::clocks_differ);
        if known.is_none() && name != self.name {
            info!(replica = note.address, version = note.version, "another replica is here");
        }
        let mut samples = known.map(|known| known.ahead).unwrap_or_default();
        samples.push_back(ahead);
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
        let replica = Replica { note, heard, ahead: samples };
        if name != self.name && !differed && replica.clocks_differ() {
            let ahead_ms = i64::try_from(replica.ahead_nanos() / 1_000_000).unwrap_or(i64::MAX);
            warn!(replica = replica.note.address, ahead_ms, "clocks differ: set them by NTP");
        }
        state.replicas.insert(name.to_owned(), replica);
    }

    fn note(&self) -> ReplicaNote {
        let held = self.slots.held();
        ReplicaNote {
            address: self.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            schema: self.schema,
            slot: held.map(|held| held.slot),
            reserved_until: held.map_or(0, |held| held.record.reserved_until.get()),
            applied: self.lock().applied.get(),
            unix_nanos: i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX),
            window: self.window,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // OK because nothing that is done under the lock leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wall_millis(clock: &dyn Clock) -> i64 {
    // OK because a time is within some millions of years of 1970.
    i64::try_from(clock.wall().get() / 1_000_000).unwrap_or(i64::MAX)
}

impl Replica {
    /// How far its clock is ahead of ours, in nanoseconds. A note that took long to come makes it look behind, so the latest
    /// notes' largest value is the best one.
    pub(crate) fn ahead_nanos(&self) -> i128 {
        self.ahead.iter().copied().max().unwrap_or_default()
    }

    /// Whether the clocks differ by more than they should.
    pub(crate) fn clocks_differ(&self) -> bool {
        self.ahead.len() >= SAMPLES && self.ahead_nanos().unsigned_abs() > CLOCKS_DIFFER.as_nanos()
    }
}

fn failure(error: LoadError) -> StoreFailure {
    match error {
        LoadError::Store(failure) => failure,
        error => {
            debug!(%error, "a table of another replica");
            StoreFailure::Malformed(stored::Malformed { what: "a table that another replica has edited" })
        }
    }
}

#[cfg(test)]
mod tests;
