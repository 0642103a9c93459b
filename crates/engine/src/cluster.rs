//! The replicas on one store: how each replica learns of the others and of their edits.
//!
//! The store's commits alone guarantee that no identifier is issued twice. This module adds two things: tables that
//! follow other replicas' edits quickly, and a bound on how long a replica grants without hearing of such edits. A
//! replica grants suffixes of regions only while less than a window has passed since its last refresh of all tables
//! began. Its announcement in the store outlasts the window. When an edit stops grants, as a seal does, the replica
//! that makes the edit therefore waits for all announced replicas to confirm it. Afterward, no replica makes a grant
//! that the edit forbids.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_issue::{HolderId, Stored};
use kent_proto::{
    note::{NoteFigures, ReplicaNote},
    stored,
};
use kent_store::{Change, Key, NewerSchema, Peers, ReadError, Store, Txn, Version, Versioned, Watch};
use tokio::{
    sync::{Notify, watch},
    time,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    auth::AccessTable,
    host::{
        Environment,
        clock::Clock,
        flight::{self, Happened},
        touch::{Touch, WINDOW_MAX},
    },
    issuing::{slots::Slots, turns::Turn},
    records::{
        failure::{LoadError, StoreFailure},
        keys,
        schema::schema_in_force,
    },
    tables::directory::Directory,
};

/// This replica's view of the other replicas.
#[derive(Debug)]
pub struct Cluster {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    directory: Arc<Directory>,
    slots: Arc<Slots>,
    /// The name of this run of the daemon.
    name: String,
    /// The address at which clients reach this replica.
    address: String,
    /// The newest schema of records that this program knows.
    schema: u16,
    state: Mutex<State>,
    /// When all tables, and the tokens and roles, were last refreshed.
    touch: Arc<Touch>,
    access: Arc<AccessTable>,
    /// Notified when another replica may have edited a layout.
    layouts_edited: watch::Sender<()>,
    /// Notified when this replica should announce immediately which version its tables have.
    progress: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The tables contain every edit up to this version.
    applied: Version,
    /// The version of an edit of this replica that other replicas may be waiting to see in its announcement.
    awaited: Option<Version>,
    /// The number of edits that could not be applied or may have been missed.
    missed: u64,
    /// The number of missed edits that a refresh of all tables has covered. Watched edits do not advance `applied`
    /// until all missed edits are covered.
    caught_up: u64,
    replicas: BTreeMap<String, Replica>,
    /// Why the last heartbeat failed.
    failure: Option<String>,
    /// This replica's figures, for its announcements.
    figures: Option<NoteFigures>,
}

/// The state of another replica.
#[derive(Clone, Debug)]
pub struct Replica {
    /// What the replica has announced.
    pub note: ReplicaNote,
    /// The time at which its last announcement arrived, on the steady clock.
    pub(crate) heard: Duration,
    /// The lead of its clock over ours when each of its latest announcements arrived, in nanoseconds, oldest first.
    ahead: VecDeque<i128>,
}

/// The replicas that have not confirmed a change, and may still make grants that the change forbids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The addresses of the replicas.
    pub replicas: Vec<String>,
    /// How long from now these replicas may still make such grants.
    pub within: Duration,
}

/// Watches of the store, which begin before the tables are read so that no change is missed.
pub(crate) struct Watches {
    spaces: Box<dyn Watch>,
    access: Box<dyn Watch>,
    counters: Box<dyn Watch>,
    turns: Box<dyn Watch>,
    layouts: Box<dyn Watch>,
    present: Box<dyn Watch>,
}

/// The longest time between two announcements of a replica, each followed by a refresh of all tables.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The longest time between an announcement and the start of the refresh that it covers.
const REFRESH_WITHIN: Duration = Duration::from_secs(5);
/// The time by which an announcement outlasts the grants that it covers, because clocks run at slightly different
/// rates.
const MARGIN: Duration = Duration::from_secs(10);
/// The time for which an edit that stops grants waits for the other replicas to confirm it.
const CONFIRM_WITHIN: Duration = Duration::from_secs(1);
/// The interval at which a waiting edit checks for confirmations.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(10);
/// The number of announcements from which a clock's offset is estimated.
const SAMPLES: usize = 5;
/// The difference between two clocks above which the daemon logs a warning.
pub(crate) const CLOCKS_DIFFER: Duration = Duration::from_millis(250);

impl Watches {
    /// Starts the watches.
    ///
    /// # Errors
    ///
    /// The store is not available.
    pub(crate) async fn begin(peers: &dyn Peers) -> Result<Self, StoreFailure> {
        Ok(Self {
            spaces: peers.watch(&keys::SPACES).await?,
            access: peers.watch(&keys::ACCESS).await?,
            counters: peers.watch(&keys::COUNTERS).await?,
            turns: peers.watch(&keys::TURNS).await?,
            layouts: peers.watch(&keys::LAYOUTS_REVISION).await?,
            present: peers.watch(&keys::PRESENT).await?,
        })
    }
}

impl Cluster {
    /// Creates the state of this replica. The tables, tokens and roles must have been read after the watches began.
    pub(crate) fn new(
        environment: Environment,
        directory: Arc<Directory>,
        slots: Arc<Slots>,
        (access, touch, layouts_edited): (Arc<AccessTable>, Arc<Touch>, watch::Sender<()>),
        address: String,
        schema: u16,
    ) -> Self {
        let Environment { store, clock, .. } = environment;
        let (name, state, progress) = (slots.holder().to_string(), Mutex::default(), Notify::new());
        Self { store, clock, directory, slots, name, address, schema, state, touch, access, layouts_edited, progress }
    }

    /// Whether this replica may grant suffixes of regions, which requires a refresh of all tables within the window.
    pub(crate) fn is_in_touch(&self) -> bool {
        self.touch.is_recent()
    }

    /// The time since the last refresh of all tables began, or `None` before the first one.
    pub fn reached_ago(&self) -> Option<Duration> {
        self.touch.ago()
    }

    /// The error of the last heartbeat, or `None` if it succeeded.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// The ID of this run of this replica.
    pub(crate) fn own(&self) -> HolderId {
        self.slots.holder()
    }

    /// The name of this replica.
    pub fn own_name(&self) -> &str {
        &self.name
    }

    /// Sets the figures of the next announcement.
    pub fn set_figures(&self, figures: NoteFigures) {
        self.lock().figures = Some(figures);
    }

    /// Returns the name and the announcement of this replica.
    pub fn own_note(&self) -> (String, ReplicaNote) {
        (self.name.clone(), self.note())
    }

    /// Returns the other replicas, by name.
    pub fn others(&self) -> Vec<(String, Replica)> {
        let state = self.lock();
        let others = state.replicas.iter().filter(|(name, _)| **name != self.name);
        others.map(|(name, replica)| (name.clone(), replica.clone())).collect()
    }

    /// The time since a replica's last announcement arrived.
    pub fn heard_ago(&self, replica: &Replica) -> Duration {
        self.clock.steady().saturating_sub(replica.heard)
    }

    /// Waits up to `CONFIRM_WITHIN` for every replica to apply the edits up to `version`, and returns those that have
    /// not.
    pub async fn confirm(&self, version: Version) -> Unconfirmed {
        self.announce_from(version);
        self.confirmed(|note| note.applied >= version.get()).await
    }

    /// Like [`Cluster::confirm`], for a change to tokens, roles or budgets.
    pub async fn confirm_access(&self, version: Version) -> Unconfirmed {
        self.progress.notify_one();
        self.confirmed(|note| note.access >= version.get()).await
    }

    async fn confirmed(&self, confirms: impl Fn(&ReplicaNote) -> bool) -> Unconfirmed {
        let began = self.clock.steady();
        loop {
            let waited = self.clock.steady().saturating_sub(began);
            let unconfirmed = self.unconfirmed(&confirms).await;
            if unconfirmed.as_ref().is_ok_and(Vec::is_empty) {
                return Unconfirmed::default();
            }
            if waited >= CONFIRM_WITHIN {
                let Ok(unconfirmed) = unconfirmed else {
                    let replicas = vec!["unknown, because the store is unavailable".to_owned()];
                    return Unconfirmed { replicas, within: WINDOW_MAX };
                };
                // Each unconfirmed replica may grant until its own window ends.
                let window = unconfirmed.iter().map(|note| note.window).max().unwrap_or_default();
                let replicas = unconfirmed.into_iter().map(|note| note.address).collect();
                return Unconfirmed { replicas, within: window.saturating_sub(waited) };
            }
            time::sleep(CONFIRM_INTERVAL).await;
        }
    }

    /// Announces that this replica has applied the edits up to `version`, as soon as it has applied them. If a caller
    /// repeats the edit on another replica, where it changes nothing, that replica waits for this confirmation as well.
    fn announce_from(&self, version: Version) {
        let mut state = self.lock();
        match state.applied >= version {
            true => self.progress.notify_one(),
            false => state.awaited = state.awaited.max(Some(version)),
        }
    }

    /// Returns the announcements of the replicas that have not confirmed. Reads the store, because a replica that has
    /// just started may not be known here yet.
    async fn unconfirmed(&self, confirms: impl Fn(&ReplicaNote) -> bool) -> Result<Vec<ReplicaNote>, StoreFailure> {
        let mut notes = Vec::new();
        for (key, versioned) in self.store.scan(&keys::PRESENT).await? {
            let note = ReplicaNote::decode(&versioned.value)?;
            if keys::parse_present(&key)? != self.name && !confirms(&note) {
                notes.push(note);
            }
        }
        Ok(notes)
    }

    /// Announces this replica and refreshes all tables. Runs once before the ports open, and then in
    /// [`keep`](Self::keep).
    pub(crate) async fn heartbeat(&self, peers: &dyn Peers) -> Result<(), StoreFailure> {
        let began = self.clock.steady();
        let ttl = self.touch.window() + REFRESH_WITHIN + MARGIN;
        let key = keys::present(&self.name);
        let announced = peers.announce(&key, self.note().encode(), ttl).await;
        announced.map_err(ReadError::from)?;
        let (refresh_began, wall) = (self.clock.steady(), self.touch.wall_millis());
        if refresh_began.saturating_sub(began) > REFRESH_WITHIN {
            // The announcement took so long that it may expire before the window of a refresh that begins now has
            // ended.
            return Ok(());
        }
        self.agree_on_schema(peers).await?;
        self.refresh_tables().await?;
        self.refresh_access().await?;
        self.touch.set(refresh_began, wall);
        Ok(())
    }

    /// Makes this replica write records in the schema in force, and puts a newer schema in force once all replicas know
    /// it.
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
            Ok(_) => info!(schema = self.schema, "all replicas know a newer schema; it is now in force"),
            // Either another replica has raised the schema, or the next heartbeat tries again.
            Err(error) => debug!(%error, "the schema is not raised yet"),
        }
        Ok(())
    }

    /// Reads the records of all spaces, and updates the tables that are out of date.
    async fn refresh_tables(&self) -> Result<(), StoreFailure> {
        let missed = self.lock().missed;
        let records = self.store.scan(&keys::SPACES).await?;
        let newest = records.iter().map(|(_, versioned)| versioned.version).max();
        let mut is_awaited = false;
        for (key, versioned) in &records {
            is_awaited |= self.directory.follow(key, versioned).await.map_err(failure)?;
        }
        let mut state = self.lock();
        // This refresh does not cover edits missed since it began.
        state.caught_up = missed;
        let newest = newest.unwrap_or_default();
        if is_awaited || newest > state.applied {
            state.applied = state.applied.max(newest);
            // Another replica may be waiting for our confirmation.
            self.progress.notify_one();
        }
        Ok(())
    }

    /// Reads the tokens and roles, if they have changed.
    async fn refresh_access(&self) -> Result<(), StoreFailure> {
        let before = self.access.snapshot().version();
        self.access.refresh().await?;
        if self.access.snapshot().version() > before {
            // Another replica may be waiting for our confirmation.
            self.progress.notify_one();
        }
        Ok(())
    }

    /// Announces this replica and refreshes all tables every few seconds until `stop` is canceled.
    pub(crate) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        let Some(peers) = self.store.peers() else { return stop.cancelled().await };
        let interval = HEARTBEAT.min(self.touch.window() / 4);
        loop {
            // `biased` polls the branches in a fixed order, so that a simulated run is repeatable.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.progress.notified() => {}
                () = time::sleep(interval) => {}
            }
            let beat = self.heartbeat(peers).await;
            self.lock().failure = beat.as_ref().err().map(ToString::to_string);
            if let Err(error) = beat {
                if !error.is_temporary() {
                    error!(%error, "the records of the other replicas cannot be used; stopping");
                    break;
                }
                flight::record(Happened::OutOfTouch);
                warn!(%error, "cannot reach the other replicas; continuing with the window and the chunks in memory");
            }
        }
        peers.withdraw().await;
    }

    /// Applies other replicas' changes until `stop` is canceled.
    pub(crate) async fn follow(self: Arc<Self>, mut watches: Watches, stop: CancellationToken) {
        let Watches { spaces, access, counters, turns, layouts, present } = &mut watches;
        // Each watch has its own loop, because an event on one watch must not interrupt another watch that is
        // reconnecting.
        let spaces = async {
            let mut is_awaited = false;
            loop {
                let change = spaces.next().await;
                let version = if let Change::Put(_, versioned) = &change { Some(versioned.version) } else { None };
                is_awaited |= self.space_changed(change).await;
                // A commit may edit several tables. It is applied when the last of them is.
                if let Some(version) = version.filter(|version| !spaces.continues(*version)) {
                    self.spaces_changed(version, mem::take(&mut is_awaited));
                }
            }
        };
        let access = async {
            loop {
                let change = access.next().await;
                let before = self.access.snapshot().version();
                // Another replica may be waiting for our confirmation. If a change could not be followed, the next
                // heartbeat reads it.
                if !self.access.follow(&change) || self.access.snapshot().version() > before {
                    self.progress.notify_one();
                }
            }
        };
        let counters = async {
            loop {
                self.counter_changed(counters.next().await);
            }
        };
        let turns = async {
            loop {
                self.turn_changed(turns.next().await).await;
            }
        };
        let layouts = async {
            loop {
                layouts.next().await;
                self.layouts_edited.send_replace(());
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
            _ = access => {}
            _ = counters => {}
            _ = turns => {}
            _ = layouts => {}
            _ = present => {}
        }
    }

    /// Applies a change of a space. Returns whether another replica may be waiting for our confirmation.
    async fn space_changed(&self, change: Change) -> bool {
        match change {
            Change::Put(key, versioned) => match self.directory.follow(&key, &versioned).await {
                Ok(is_awaited) => return is_awaited,
                Err(error) => {
                    warn!(%error, "cannot read an edit of another replica yet");
                    self.mark_missed();
                }
            },
            // Records of spaces are never deleted. A refresh of the tables reports a record that cannot be read.
            Change::Deleted(..) | Change::Unreadable(_) | Change::Missed => self.mark_missed(),
        }
        false
    }

    /// Notes that the tables include the commit with this version, unless an edit was missed.
    fn spaces_changed(&self, version: Version, is_awaited: bool) {
        let mut state = self.lock();
        if state.missed == state.caught_up {
            state.applied = state.applied.max(version);
        }
        let applied = state.applied;
        let is_reached = state.awaited.take_if(|awaited| *awaited <= applied).is_some();
        drop(state);
        if is_awaited || is_reached {
            // Another replica is waiting for our confirmation.
            self.progress.notify_one();
        }
    }

    fn mark_missed(&self) {
        self.lock().missed += 1;
        self.progress.notify_one();
    }

    /// Records how far another replica has reserved. A reservation reads the record itself. A strict grant does not,
    /// but its commit compares the version.
    fn counter_changed(&self, change: Change) {
        if let Change::Put(key, versioned) = change
            && let Some((space, number)) = keys::parse_counter(&key)
            && let Some(space) = self.directory.by_key(space)
            && let Ok(counter) = stored::decode_counter(&versioned.value)
        {
            let version = versioned.version.get();
            space.set_reserved(number, Stored { version, value: counter.reserved });
            if let Some(cell) = space.known_cell(number) {
                cell.saw(Stored { version, value: counter });
            }
        }
    }

    /// Follows the turns at the counters that this replica uses.
    async fn turn_changed(&self, change: Change) {
        let followed = match change {
            Change::Put(key, versioned) => self.follow_turn(&key, Turn::Record(&versioned)),
            Change::Deleted(key, version) => self.follow_turn(&key, Turn::Gone(version)),
            Change::Missed | Change::Unreadable(_) => return self.read_turns().await,
        };
        if let Err(error) = followed {
            warn!(%error, "cannot read a turn at a counter");
        }
    }

    /// Reads the turns at all counters at which replicas take turns.
    async fn read_turns(&self) {
        for space in self.directory.spaces() {
            for (number, cell) in space.cells() {
                if cell.with_queue(|queue| queue.turns.begin_read_if_used()) {
                    let read = self.store.scan(&keys::turns(space.key(), number)).await;
                    if let Err(error) = cell.turns_read(read, self.clock.steady()) {
                        warn!(%error, space = space.key(), region = number.0, "cannot read the turns at a counter");
                    }
                }
            }
        }
    }

    fn follow_turn(&self, key: &Key, turn: Turn<'_>) -> Result<(), stored::Malformed> {
        let (space, number, replica) = keys::parse_turn(key)?;
        let cell = self.directory.by_key(space).and_then(|space| space.known_cell(number));
        cell.map_or(Ok(()), |cell| cell.turn_changed(replica, turn, self.clock.steady()))
    }

    async fn present_changed(&self, change: Change) {
        match change {
            Change::Put(key, versioned) => self.note_arrived(&key, &versioned),
            Change::Deleted(key, _) => {
                if let Ok(name) = keys::parse_present(&key)
                    && let Some(gone) = self.lock().replicas.remove(name)
                {
                    flight::record(Happened::ReplicaGone { address: gone.note.address.as_str().into() });
                    info!(replica = gone.note.address, "a replica has disappeared");
                }
            }
            Change::Missed | Change::Unreadable(_) => {
                if let Err(error) = self.read_replicas().await {
                    warn!(%error, "cannot list the other replicas");
                }
            }
        }
    }

    /// Reads the announcements of all replicas.
    pub(crate) async fn read_replicas(&self) -> Result<(), StoreFailure> {
        let present = self.store.scan(&keys::PRESENT).await?;
        let names = present.iter().filter_map(|(key, _)| keys::parse_present(key).ok());
        let names: Vec<String> = names.map(str::to_owned).collect();
        self.lock().replicas.retain(|name, _| names.contains(name));
        present.iter().for_each(|(key, versioned)| self.note_arrived(key, versioned));
        Ok(())
    }

    fn note_arrived(&self, key: &Key, versioned: &Versioned) {
        let (Ok(name), Ok(note)) = (keys::parse_present(key), ReplicaNote::decode(&versioned.value)) else {
            warn!(%key, "a replica's announcement is malformed");
            return;
        };
        let heard = self.clock.steady();
        let ahead = i128::from(note.unix_nanos) - self.clock.wall().get();
        let mut state = self.lock();
        let known = state.replicas.remove(name);
        let differed = known.as_ref().is_some_and(Replica::clocks_differ);
        if known.is_none() && name != self.name {
            info!(replica = note.address, version = note.version, "another replica has appeared");
        }
        let mut samples = known.map(|known| known.ahead).unwrap_or_default();
        samples.push_back(ahead);
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
        let replica = Replica { note, heard, ahead: samples };
        if name != self.name && !differed && replica.clocks_differ() {
            let ahead_ms = i64::try_from(replica.ahead_nanos() / 1_000_000).unwrap_or(i64::MAX);
            warn!(replica = replica.note.address, ahead_ms, "clocks differ; synchronize them with NTP");
        }
        state.replicas.insert(name.to_owned(), replica);
    }

    fn note(&self) -> ReplicaNote {
        let held = self.slots.held();
        let (applied, figures) = {
            let state = self.lock();
            (state.applied, state.figures)
        };
        ReplicaNote {
            address: self.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            schema: self.schema,
            slot: held.map(|held| held.slot),
            reserved_until: held.map_or(0, |held| held.record.reserved_until.get()),
            applied: applied.get(),
            unix_nanos: i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX),
            window: self.touch.window(),
            access: self.access.snapshot().version().get(),
            figures,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // OK because no code that holds the lock leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replica {
    /// Returns the lead of the replica's clock over ours, in nanoseconds. A delayed announcement makes the clock look
    /// behind, so the largest of the latest values is the best estimate.
    pub fn ahead_nanos(&self) -> i128 {
        self.ahead.iter().copied().max().unwrap_or_default()
    }

    /// Whether the clocks differ by more than [`CLOCKS_DIFFER`]. False until enough announcements have arrived.
    pub(crate) fn clocks_differ(&self) -> bool {
        self.ahead.len() >= SAMPLES && self.ahead_nanos().unsigned_abs() > CLOCKS_DIFFER.as_nanos()
    }
}

fn failure(error: LoadError) -> StoreFailure {
    match error {
        LoadError::Store(failure) => failure,
        error => {
            debug!(%error, "cannot use a table that another replica has edited");
            StoreFailure::Malformed(stored::Malformed { what: "a table that another replica has edited" })
        }
    }
}

#[cfg(test)]
mod tests;
