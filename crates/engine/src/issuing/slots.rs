//! Grants time-based identifiers from an issuer behind a lock. A task, the keeper, supplies the issuer with a slot and
//! a window.
//!
//! A grant does no I/O. Only the keeper accesses the store. It takes a slot, and extends its window before the window
//! ends. It takes another slot when the clock goes back or the slot is lost, and returns the rest of the window when it
//! stops.

use std::{
    num::NonZeroU64,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_ids::{ClusterKey, Slot, UnixNanos, UnixSeconds};
use kent_issue::{
    ClockPolicy, Extended, HolderId, Quarantine, Reading, Refusal, SlotPlan, SlotRecord, Stored, TimeGrant, TimeIssuer,
    TimedLayout, TrustPolicy, TrustedClock,
};
use kent_proto::{note::ReplicaNote, stored};
use kent_store::{CommitError, Key, Store, Txn, Version, Versioned};
use tokio::{sync::Notify, time};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    error::RestoreWait,
    host::{
        Environment,
        clock::Clock,
        deadline::WaitLimit,
        entropy::{self, Entropy},
        flight::{self, Happened},
        touch::WINDOW_MAX,
    },
    issuing::timed::Timed,
    records::{failure::StoreFailure, keys},
};

/// Grants time-based identifiers.
#[derive(Debug)]
pub struct Slots {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// The version of the record of the cluster key.
    founded: Version,
    /// The end of the wait after a restore, if the store was restored.
    restored_until: Option<UnixNanos>,
    state: Mutex<State>,
    /// Notified by a grant that finds no slot or no window left.
    wanted: Notify,
    /// Notified when the keeper has a new slot or window. Waiters wake in the order in which they began to wait, so
    /// that a simulated run is repeatable.
    supplied: Notify,
}

/// A slot that has a record, and the record.
pub(crate) type SlotRead = (Slot, Stored<SlotRecord>);

/// The issuer, and the clock that supplies its time.
#[derive(Debug)]
struct State {
    issuer: TimeIssuer,
    trusted: TrustedClock,
}

/// The slot that this daemon holds, as reports show it.
#[derive(Clone, Copy, Debug)]
pub struct HeldSlot {
    /// The slot.
    pub slot: Slot,
    /// Its record.
    pub record: SlotRecord,
    /// How long the slot can still be used without reaching the store.
    pub window_left: Duration,
}

impl Slots {
    /// Creates the state without a slot. `founded` is the version of the cluster key's record, and `restored_until` is
    /// the end of the wait after a restore.
    pub(crate) fn new(
        environment: Environment,
        policy: ClockPolicy,
        trust: TrustPolicy,
        (key, founded): (ClusterKey, Version),
        restored_until: Option<UnixNanos>,
    ) -> Self {
        let Environment { store, clock, entropy } = environment;
        let holder = HolderId::new(entropy::bytes(&*entropy));
        let state = State { issuer: TimeIssuer::new(policy, holder, key), trusted: TrustedClock::new(trust) };
        Self {
            store,
            clock,
            entropy,
            founded,
            restored_until,
            state: Mutex::new(state),
            wanted: Notify::new(),
            supplied: Notify::new(),
        }
    }

    /// The holder ID of this run.
    pub(crate) fn holder(&self) -> HolderId {
        self.lock().issuer.holder()
    }

    /// Grants a block without waiting, and returns it with the time of the grant on the steady clock.
    pub(crate) fn try_grant(&self, timed: &Timed, count: NonZeroU64) -> Result<(TimeGrant, Duration), Refusal> {
        // The clock is read under the lock, because readings out of order would look like steps back.
        let mut state = self.lock();
        let reading = self.reading();
        let now = trusted_time(&mut state, reading)?;
        let granted = match timed {
            Timed::Format(format) => state.issuer.grant(*format, count, now),
            Timed::Layout(used, tag) => {
                let layout = TimedLayout { number: used.number, layout: &used.layout, tag: *tag };
                state.issuer.grant_layout(layout, count, now)
            }
        };
        if let Err(Refusal::ClockStepped { back }) = &granted {
            log_step(*back);
        }
        Ok((granted?, reading.steady))
    }

    /// Waits up to `wait_limit` for the clock or the slot, whichever `refusal` names. Returns a block if one can be
    /// granted before the wait begins.
    ///
    /// # Errors
    ///
    /// The refusal, if the wait limit passes or waiting does not help.
    pub(crate) async fn wait(
        &self,
        timed: &Timed,
        count: NonZeroU64,
        refusal: Refusal,
        wait_limit: WaitLimit,
    ) -> Result<Option<TimeGrant>, Refusal> {
        let left = wait_limit.left(self.clock.steady());
        match refusal {
            Refusal::Ahead { wait } if wait <= left => {
                time::sleep(wait).await;
                Ok(None)
            }
            Refusal::NoSlot | Refusal::ClockStepped { .. } | Refusal::WindowSpent { .. } => {
                let mut supplied = pin!(self.supplied.notified());
                supplied.as_mut().enable();
                // The keeper may have supplied a slot before we began to wait.
                if let Ok((grant, _)) = self.try_grant(timed, count) {
                    return Ok(Some(grant));
                }
                self.wanted.notify_one();
                time::timeout(left, supplied).await.map(|()| None).map_err(|_| refusal)
            }
            refusal => Err(refusal),
        }
    }

    /// Waits until the daemon holds a slot, but no longer than `limit`.
    pub async fn wait_for_slot(&self, limit: Duration) {
        let mut supplied = pin!(self.supplied.notified());
        supplied.as_mut().enable();
        if self.held().is_none() {
            // OK because readiness reports a daemon without a slot.
            let _ = time::timeout(limit, supplied).await;
        }
    }

    /// The slot that the daemon holds.
    pub fn held(&self) -> Option<HeldSlot> {
        let mut state = self.lock();
        let now = self.now(&mut state).ok();
        let (slot, record) = state.issuer.held()?;
        let window_left = now.map(|now| state.issuer.window_left(now)).unwrap_or_default();
        Some(HeldSlot { slot, record: *record, window_left })
    }

    /// The reason why the wall clock is not trusted.
    pub fn quarantine(&self) -> Option<Quarantine> {
        let mut state = self.lock();
        // OK because only the updated state matters here.
        let _ = self.now(&mut state);
        state.trusted.quarantine()
    }

    /// The current time for issuing; `None` before the clock is first checked, and while it is not trusted and no other
    /// time is known.
    pub fn trusted_now(&self) -> Option<UnixNanos> {
        let mut state = self.lock();
        if !state.trusted.has_started() {
            return None;
        }
        self.now(&mut state).ok()
    }

    /// Fails until the wait after a restore, which `--clock-error` sets, is over: a lost host whose clock was ahead may
    /// have issued identifiers with times up to the end of the wait.
    pub(crate) fn check_restored(&self) -> Result<(), RestoreWait> {
        let Some(until) = self.restored_until else { return Ok(()) };
        match self.trusted_now() {
            Some(now) if now >= until => Ok(()),
            now => Err(RestoreWait { until, now }),
        }
    }

    /// The wait after a restore, if it is the reason why there is no slot. Returns `None` if no time is known, because
    /// that is a different reason.
    pub(crate) fn restore_wait(&self) -> Option<RestoreWait> {
        self.check_restored().err().filter(|wait| wait.now.is_some())
    }

    /// Trusts the current wall clock because an operator vouches for it.
    pub fn accept_clock(&self) -> UnixNanos {
        let mut state = self.lock();
        let reading = self.reading();
        state.trusted.vouch(reading);
        warn!(wall = %reading.wall.get(), "an operator vouched for the clock");
        drop(state);
        self.wanted.notify_one();
        reading.wall
    }

    fn reading(&self) -> Reading {
        Reading { wall: self.clock.wall(), steady: self.clock.steady() }
    }

    /// The current time for issuing: from the wall clock or, while that is not trusted, from the steady clock.
    fn now(&self, state: &mut State) -> Result<UnixNanos, Refusal> {
        trusted_time(state, self.reading())
    }

    /// The number of clock steps since the daemon started that exceeded the tolerance.
    pub fn clock_epoch(&self) -> u64 {
        self.lock().issuer.clock().epoch()
    }

    /// The tolerance for clock steps, and the length of a window.
    pub fn policy(&self) -> ClockPolicy {
        *self.lock().issuer.policy()
    }

    /// Keeps a slot and a window until `stop`, then returns the rest of the window.
    ///
    /// # Errors
    ///
    /// If the slot records cannot be trusted. In this case, the slot is dropped, and the daemon must no longer write to
    /// the store.
    pub(crate) async fn keep(self: Arc<Self>, stop: CancellationToken) -> Result<(), StoreFailure> {
        loop {
            if let Err(error) = self.supply().await {
                if !error.is_temporary() {
                    // Drop the slot without writing to the store.
                    let _ = self.lock().issuer.plan_give_back();
                    return Err(error);
                }
                warn!(%error, "cannot extend the window; continuing with the rest of the current one");
            }
            // The order is fixed (biased), so that a simulated run is repeatable.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.wanted.notified() => {}
                () = time::sleep(KEEPER_INTERVAL) => {}
            }
        }
        self.give_back().await;
        Ok(())
    }

    /// Takes a slot if the daemon holds none. Otherwise, extends the window if an extension is due.
    async fn supply(&self) -> Result<(), StoreFailure> {
        let extension = {
            let mut state = self.lock();
            // Until the first slot is taken, every reading is accepted, because `take` checks the clock before it takes
            // a slot.
            match self.now(&mut state) {
                Ok(now) => {
                    if let Some(back) = state.issuer.observe(now) {
                        log_step(back);
                    }
                    match state.issuer.held() {
                        Some(_) => match state.issuer.plan_extension(now) {
                            Some(plan) => Some(plan),
                            None => return Ok(()),
                        },
                        None => None,
                    }
                }
                // Try to take a slot anyway: the clocks of other replicas may agree with ours by now.
                Err(_) if self.store.peers().is_some() && state.issuer.held().is_none() => None,
                Err(_) => return Ok(()),
            }
        };
        match extension {
            Some(plan) => self.extend(plan).await,
            None => self.take().await,
        }
    }

    /// Takes a slot. Another replica may take the same slot first, so there is one attempt for each slot.
    async fn take(&self) -> Result<(), StoreFailure> {
        for _ in 0..Slot::COUNT {
            let records = self.read_all().await?;
            let random = entropy::number(&*self.entropy);
            let others = self.others().await?;
            let Some(now) = self.start_clock(&records, others.iter().map(|(_, now)| *now).max()) else { return Ok(()) };
            let present: Vec<HolderId> = others.iter().map(|(holder, _)| *holder).collect();
            let planned = self.lock().issuer.plan_take(&records, &present, now, random);
            let plan = match planned {
                Ok(plan) => plan,
                Err(refusal) => {
                    let reason = self.restore_wait().map_or_else(|| refusal.to_string(), |wait| wait.to_string());
                    warn!("no slot can be taken yet: {reason}");
                    return Ok(());
                }
            };
            match self.commit(&plan).await {
                Ok(version) => {
                    let (slot, epoch) = (plan.slot().get(), plan.record().epoch.get());
                    info!(slot, epoch, "slot taken");
                    flight::record(Happened::SlotTaken { slot, epoch });
                    self.committed(plan, version);
                    return Ok(());
                }
                Err(CommitError::Conflict { key, .. }) if key == keys::CLUSTER => {
                    return Err(StoreFailure::other_store());
                }
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the time for issuing, or `None` while the clock is not trusted. The first call compares the clock with the
    /// recorded times and with the other replicas' clocks, and so does every later call until the clock is trusted.
    fn start_clock(&self, records: &[SlotRead], others: Option<UnixNanos>) -> Option<UnixNanos> {
        let mut state = self.lock();
        let is_refused = state.trusted.quarantine().is_some_and(|quarantine| quarantine.instead.is_none());
        if state.trusted.has_started() && !is_refused {
            return self.now(&mut state).ok();
        }
        let recorded = records.iter().map(|(_, stored)| stored.value.latest().nanos()).max();
        let now = state.trusted.start(self.reading(), recorded, others);
        match (state.trusted.quarantine(), recorded) {
            (Some(_), _) if is_refused => {}
            (Some(Quarantine { ahead, .. }), _) => {
                error!(ahead_s = ahead.as_secs(), "the clock is too far ahead of every recorded time");
                flight::record(Happened::ClockAhead { by: ahead });
            }
            // During the wait after a restore, the recorded time is the end of the wait.
            (None, Some(recorded))
                if now.is_some_and(|now| now < recorded.offset(-HOUR_NANOS) && self.restored_until <= Some(now)) =>
            {
                warn!(
                    "the clock is more than an hour behind the latest recorded time: it is wrong now, or a clock was \
                     wrong when that time was recorded"
                );
            }
            _ => {}
        }
        now
    }

    async fn extend(&self, plan: SlotPlan) -> Result<(), StoreFailure> {
        let slot = plan.slot();
        match self.commit(&plan).await {
            Ok(version) => {
                debug!(slot = slot.get(), until = plan.record().reserved_until.get(), "window extended");
                self.committed(plan, version);
                Ok(())
            }
            Err(CommitError::Conflict { key, .. }) if key == keys::CLUSTER => Err(StoreFailure::other_store()),
            Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => self.reread(slot).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the slot's record to find out whether our commit succeeded or another replica has taken the slot.
    async fn reread(&self, slot: Slot) -> Result<(), StoreFailure> {
        let read = match self.store.get(&keys::slot(slot)).await? {
            Some(versioned) => Some(stored_slot(&versioned)?),
            None => None,
        };
        match self.lock().issuer.on_read(slot, read) {
            Extended::Until(_) => self.supplied.notify_waiters(),
            Extended::Fenced => {
                warn!(slot = slot.get(), "another daemon has taken the slot; taking a new one");
                flight::record(Happened::SlotLost { slot: slot.get() });
                self.wanted.notify_one();
            }
        }
        Ok(())
    }

    fn committed(&self, plan: SlotPlan, version: u64) {
        let mut state = self.lock();
        // Without a trusted time, the reservation becomes a gap.
        if let Ok(now) = self.now(&mut state) {
            if let Some(back) = state.issuer.observe(now) {
                log_step(back);
            }
            state.issuer.on_committed(plan, version, now);
        }
        drop(state);
        self.supplied.notify_waiters();
    }

    /// Reads the records of all slots that have one.
    pub(crate) async fn read_all(&self) -> Result<Vec<SlotRead>, StoreFailure> {
        let records = self.store.scan(&keys::SLOTS).await?;
        let read = records.iter().map(|(key, versioned)| Ok((keys::parse_slot(key)?, stored_slot(versioned)?)));
        read.collect()
    }

    /// The other replicas and the times of their clocks; empty if the store cannot be shared.
    async fn others(&self) -> Result<Vec<(HolderId, UnixNanos)>, StoreFailure> {
        if self.store.peers().is_none() {
            return Ok(Vec::new());
        }
        let present = self.store.scan(&keys::PRESENT).await?;
        let other = |(key, versioned): &(Key, Versioned)| {
            let holder: HolderId = keys::parse_present(key).ok()?.parse().ok()?;
            let note = ReplicaNote::decode(&versioned.value).ok()?;
            Some((holder, UnixNanos::new(note.unix_nanos.into()))).filter(|_| holder != self.holder())
        };
        Ok(present.iter().filter_map(other).collect())
    }

    /// Returns the time after which no other daemon that was fenced grants from its slot: the longest window of the daemons
    /// that are announced. An announcement outlasts the window.
    pub(crate) async fn longest_window(&self) -> Duration {
        if self.store.peers().is_none() {
            return Duration::ZERO;
        }
        let Ok(present) = self.store.scan(&keys::PRESENT).await else { return WINDOW_MAX };
        let own = self.holder().to_string();
        let others = present.iter().filter(|(key, _)| !keys::parse_present(key).is_ok_and(|name| name == own));
        let window = |value: &[u8]| ReplicaNote::decode(value).map_or(WINDOW_MAX, |note| note.window);
        others.map(|(_, versioned)| window(&versioned.value)).max().unwrap_or_default()
    }

    async fn commit(&self, plan: &SlotPlan) -> Result<u64, CommitError> {
        Ok(self.store.commit(self.of_this_store(write(Txn::new(), plan))).await?.version.get())
    }

    /// Adds a guard to a transaction: a store that replaced this one has a different cluster key. A replica that hung
    /// during the replacement must not write to the new store.
    pub(crate) fn of_this_store(&self, txn: Txn) -> Txn {
        txn.expect(keys::CLUSTER, self.founded)
    }

    /// The store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Adds to a transaction what reserves every slot through `until`, and what fences all other daemons: their clocks may
    /// be behind, and their windows may reach past `until`.
    pub(crate) fn reserve_all(&self, txn: Txn, read: &[SlotRead], until: UnixSeconds) -> Txn {
        let (own, is_shared) = (self.holder(), self.store.peers().is_some());
        let plan = |slot: Slot| {
            let unheld = (HolderId::new(entropy::bytes(&*self.entropy)), entropy::number(&*self.entropy));
            let read = read.iter().find(|(known, _)| *known == slot).map(|(_, stored)| *stored);
            let fences = is_shared && read.is_some_and(|read| read.value.holder != own);
            SlotPlan::reserve(slot, read, until, fences, unheld)
        };
        Slot::all().filter_map(plan).fold(txn, |txn, plan| write(txn, &plan))
    }

    async fn give_back(&self) {
        let Some(plan) = self.lock().issuer.plan_give_back() else { return };
        match self.commit(&plan).await {
            Ok(_) => {
                info!(slot = plan.slot().get(), "slot returned");
                flight::record(Happened::SlotReturned { slot: plan.slot().get() });
            }
            Err(error) => {
                warn!(%error, slot = plan.slot().get(), "cannot return the slot; it becomes free when its window ends")
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // OK because no method of the issuer leaves the state inconsistent; a panic inside a method is a bug, and stops
        // the daemon.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the write of a plan to a transaction.
fn write(txn: Txn, plan: &SlotPlan) -> Txn {
    let key = keys::slot(plan.slot());
    txn.expect(key.clone(), Version::new(plan.guard())).put(key, stored::encode_slot(plan.record()))
}

/// Returns the time for issuing at this reading, and logs when the trust in the clock changes. Fails if the clock is
/// not trusted and no other time is known.
fn trusted_time(state: &mut State, reading: Reading) -> Result<UnixNanos, Refusal> {
    let before = state.trusted.quarantine();
    let now = state.trusted.read(reading);
    let after = state.trusted.quarantine();
    match (before, after) {
        (None, Some(Quarantine { ahead, .. })) => {
            error!(ahead_s = ahead.as_secs(), "the clock jumped further ahead than the daemon accepts");
            flight::record(Happened::ClockAhead { by: ahead });
        }
        (Some(_), None) => {
            info!("the clock is trusted again");
            flight::record(Happened::ClockTrusted);
        }
        _ => {}
    }
    now.ok_or(Refusal::Quarantined { ahead: after.map(|quarantine| quarantine.ahead).unwrap_or_default() })
}

/// The interval at which the keeper checks whether an extension is due. The interval is short, because the first
/// windows last only two seconds.
const KEEPER_INTERVAL: Duration = Duration::from_millis(250);

const HOUR_NANOS: i128 = 3_600_000_000_000;

fn log_step(back: Duration) {
    flight::record(Happened::ClockBack { by: back });
    warn!(back_ms = back.as_millis(), "the clock went back beyond the tolerance; changing to another slot");
}

fn stored_slot(versioned: &kent_store::Versioned) -> Result<Stored<SlotRecord>, stored::Malformed> {
    Ok(Stored { version: versioned.version.get(), value: stored::decode_slot(&versioned.value)? })
}
