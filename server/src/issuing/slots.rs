//! Granting time-based identifiers: the issuer behind a lock, and the task that keeps it supplied with a slot and a window.
//!
//! A grant does no I/O. The keeper alone talks to the store: it takes a slot, extends its window in time before it ends, takes
//! another when the clock went back or the slot was lost, and gives the rest of the window back at the end.

use std::{
    num::NonZeroU64,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_ids::{ClusterKey, Format, Slot, UnixNanos};
use kent_issue::{
    ClockPolicy, Extended, HolderId, Quarantine, Reading, Refusal, SlotPlan, SlotRecord, Stored, TimeGrant, TimeIssuer,
    TrustPolicy, TrustedClock,
};
use kent_proto::{note::ReplicaNote, stored};
use kent_store::{CommitError, Key, Store, Txn, Version, Versioned};
use tokio::{sync::Notify, time};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    host::{
        Environment,
        clock::Clock,
        deadline::Patience,
        entropy::{self, Entropy},
    },
    records::{failure::StoreFailure, keys},
};

/// Grants time-based identifiers.
#[derive(Debug)]
pub(crate) struct Slots {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    state: Mutex<State>,
    /// Rung by a grant that found no slot or no window left.
    wanted: Notify,
    /// Rung when the keeper has achieved something. Whoever waits is woken in the order of waiting, so that a simulated run can
    /// be repeated.
    supplied: Notify,
}

/// The issuer, and the clock that it is told.
#[derive(Debug)]
struct State {
    issuer: TimeIssuer,
    trusted: TrustedClock,
}

/// What a status report says of the slot that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldSlot {
    /// Which slot.
    pub(crate) slot: Slot,
    /// Its record.
    pub(crate) record: SlotRecord,
    /// For how long it lasts without the store.
    pub(crate) window_left: Duration,
}

impl Slots {
    /// Slots of `store`, none of them held yet.
    pub(crate) fn new(environment: Environment, policy: ClockPolicy, trust: TrustPolicy, key: ClusterKey) -> Self {
        let Environment { store, clock, entropy } = environment;
        let holder = HolderId::new(entropy::bytes(&*entropy));
        let state = State { issuer: TimeIssuer::new(policy, holder, key), trusted: TrustedClock::new(trust) };
        Self { store, clock, entropy, state: Mutex::new(state), wanted: Notify::new(), supplied: Notify::new() }
    }

    /// Who holds the slots of this run.
    pub(crate) fn holder(&self) -> HolderId {
        self.lock().issuer.holder()
    }

    /// Grants a block at once, or not at all, and says when.
    pub(crate) fn try_grant(&self, format: Format, count: NonZeroU64) -> Result<(TimeGrant, Duration), Refusal> {
        // The clock is read under the lock: readings that overtake each other would look like steps back.
        let mut state = self.lock();
        let reading = self.reading();
        let now = believe(&mut state, reading)?;
        let granted = state.issuer.grant(format, count, now);
        if let Err(Refusal::ClockStepped { back }) = &granted {
            log_step(*back);
        }
        Ok((granted?, reading.steady))
    }

    /// Waits for the clock or for a slot, whichever a grant was refused for, as long as `patience` allows. What was there before the
    /// wait began is granted.
    ///
    /// # Errors
    ///
    /// The refusal, when patience runs out, or at once if waiting cannot help.
    pub(crate) async fn wait(
        &self,
        format: Format,
        count: NonZeroU64,
        refusal: Refusal,
        patience: Patience,
    ) -> Result<Option<TimeGrant>, Refusal> {
        let left = patience.left(self.clock.steady());
        match refusal {
            Refusal::Ahead { wait } if wait <= left => {
                time::sleep(wait).await;
                Ok(None)
            }
            Refusal::NoSlot | Refusal::ClockStepped { .. } | Refusal::WindowSpent { .. } => {
                let mut supplied = pin!(self.supplied.notified());
                supplied.as_mut().enable();
                // It may have been supplied before we began to wait.
                if let Ok((grant, _)) = self.try_grant(format, count) {
                    return Ok(Some(grant));
                }
                self.wanted.notify_one();
                time::timeout(left, supplied).await.map(|()| None).map_err(|_| refusal)
            }
            refusal => Err(refusal),
        }
    }

    /// Waits until a slot is held, but no longer than `limit`.
    pub(crate) async fn wait_for_slot(&self, limit: Duration) {
        let mut supplied = pin!(self.supplied.notified());
        supplied.as_mut().enable();
        if self.held().is_none() {
            // OK because a daemon without a slot says so through its readiness.
            let _ = time::timeout(limit, supplied).await;
        }
    }

    /// The slot that is held.
    pub(crate) fn held(&self) -> Option<HeldSlot> {
        let mut state = self.lock();
        let now = self.now(&mut state).ok();
        let (slot, record) = state.issuer.held()?;
        let window_left = now.map(|now| state.issuer.window_left(now)).unwrap_or_default();
        Some(HeldSlot { slot, record: *record, window_left })
    }

    /// Why the wall clock is not believed.
    pub(crate) fn quarantine(&self) -> Option<Quarantine> {
        let mut state = self.lock();
        // OK because what matters is what the reading leaves behind.
        let _ = self.now(&mut state);
        state.trusted.quarantine()
    }

    /// What the wall clock says, if it is believed; nothing is before the first slot.
    pub(crate) fn believed(&self) -> Option<UnixNanos> {
        let mut state = self.lock();
        if !state.trusted.has_started() {
            return None;
        }
        self.now(&mut state).ok()
    }

    /// Takes an operator's word for what the wall clock says now.
    pub(crate) fn accept_clock(&self) -> UnixNanos {
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

    /// The time to issue: what the wall clock says, as far as it is believed.
    fn now(&self, state: &mut State) -> Result<UnixNanos, Refusal> {
        believe(state, self.reading())
    }

    /// Steps of the clock beyond the tolerance since the start.
    pub(crate) fn clock_epoch(&self) -> u64 {
        self.lock().issuer.clock().epoch()
    }

    /// How the clock is trusted.
    pub(crate) fn policy(&self) -> ClockPolicy {
        *self.lock().issuer.policy()
    }

    /// Keeps a slot and a window until `stop`, then gives the rest of the window back.
    ///
    /// Returns early only if what is stored cannot be trusted.
    pub(crate) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        loop {
            if let Err(error) = self.supply().await {
                if !error.is_passing() {
                    error!(%error, "the slot records cannot be trusted; issuing stops");
                    // What it says stays unsaid: nothing that is stored is touched any more.
                    let _ = self.lock().issuer.plan_give_back();
                    return;
                }
                warn!(%error, "the store did not supply a window; going on with what is left");
            }
            // In this order, so that a simulated run can be repeated.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.wanted.notified() => {}
                () = time::sleep(KEEPER_INTERVAL) => {}
            }
        }
        self.give_back().await;
    }

    /// Takes a slot if none is held, or extends its window if that is due.
    async fn supply(&self) -> Result<(), StoreFailure> {
        let extension = {
            let mut state = self.lock();
            // Before the first slot nothing is known that a reading could be compared with.
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
                // Others may agree with it by now.
                Err(_) if self.store.peers().is_some() && state.issuer.held().is_none() => None,
                Err(_) => return Ok(()),
            }
        };
        match extension {
            Some(plan) => self.extend(plan).await,
            None => self.take().await,
        }
    }

    /// Takes a slot. Somebody else may take the same one first, so it is tried as often as there are slots.
    async fn take(&self) -> Result<(), StoreFailure> {
        for _ in 0..Slot::COUNT {
            let records = self.read_all().await?;
            let random = entropy::number(&*self.entropy);
            let others = self.others().await?;
            let Some(now) = self.start_clock(&records, others.iter().map(|(_, now)| *now).max()) else { return Ok(()) };
            let there: Vec<HolderId> = others.iter().map(|(holder, _)| *holder).collect();
            let planned = self.lock().issuer.plan_take(&records, &there, now, random);
            let plan = match planned {
                Ok(plan) => plan,
                Err(refusal) => {
                    warn!(%refusal, "no slot can be taken yet");
                    return Ok(());
                }
            };
            match self.commit(&plan).await {
                Ok(version) => {
                    info!(slot = plan.slot().get(), epoch = plan.record().epoch.get(), "slot taken");
                    self.committed(plan, version);
                    return Ok(());
                }
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The time, judged by what is recorded if this is the first look at it.
    fn start_clock(&self, records: &[(Slot, Stored<SlotRecord>)], others: Option<UnixNanos>) -> Option<UnixNanos> {
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
                error!(ahead_s = ahead.as_secs(), "the clock is further ahead than anything recorded explains");
            }
            (None, Some(recorded)) if now.is_some_and(|now| now < recorded.offset(-HOUR_NANOS)) => {
                warn!("the clock is behind what is recorded by more than an hour: it, or an earlier one, is wrong");
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
            Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => self.reread(slot).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Finds out whether a commit of ours went through, or the slot is somebody else's now.
    async fn reread(&self, slot: Slot) -> Result<(), StoreFailure> {
        let read = match self.store.get(&keys::slot(slot)).await? {
            Some(versioned) => Some(stored_slot(&versioned)?),
            None => None,
        };
        match self.lock().issuer.on_read(slot, read) {
            Extended::Until(_) => self.supplied.notify_waiters(),
            Extended::Fenced => {
                warn!(slot = slot.get(), "the slot is somebody else's; taking another");
                self.wanted.notify_one();
            }
        }
        Ok(())
    }

    fn committed(&self, plan: SlotPlan, version: u64) {
        let mut state = self.lock();
        // Without a time, what the commit reserved is a gap.
        if let Ok(now) = self.now(&mut state) {
            if let Some(back) = state.issuer.observe(now) {
                log_step(back);
            }
            state.issuer.on_committed(plan, version, now);
        }
        drop(state);
        self.supplied.notify_waiters();
    }

    async fn read_all(&self) -> Result<Vec<(Slot, Stored<SlotRecord>)>, StoreFailure> {
        let records = self.store.scan(&keys::SLOTS).await?;
        let read = records.iter().map(|(key, versioned)| Ok((keys::parse_slot(key)?, stored_slot(versioned)?)));
        read.collect()
    }

    /// The other runs of daemons that are there, where there can be any, and what their clocks say.
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

    async fn commit(&self, plan: &SlotPlan) -> Result<u64, CommitError> {
        let key = keys::slot(plan.slot());
        let txn =
            Txn::new().expect(key.clone(), Version::new(plan.guard())).put(key, stored::encode_slot(plan.record()));
        Ok(self.store.commit(txn).await?.version.get())
    }

    async fn give_back(&self) {
        let Some(plan) = self.lock().issuer.plan_give_back() else { return };
        match self.commit(&plan).await {
            Ok(_) => info!(slot = plan.slot().get(), "slot given back"),
            Err(error) => {
                warn!(%error, slot = plan.slot().get(), "the slot could not be given back; its window ends by itself")
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // OK because every method of the issuer leaves it whole, and a panic inside one would be a bug that stops the daemon.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time to issue at this reading, as far as it is believed.
fn believe(state: &mut State, reading: Reading) -> Result<UnixNanos, Refusal> {
    let before = state.trusted.quarantine();
    let now = state.trusted.read(reading);
    let after = state.trusted.quarantine();
    match (before, after) {
        (None, Some(Quarantine { ahead, .. })) => {
            error!(ahead_s = ahead.as_secs(), "the clock jumped further ahead than is believed");
        }
        (Some(_), None) => info!("the clock is believed again"),
        _ => {}
    }
    now.ok_or(Refusal::Quarantined { ahead: after.map(|quarantine| quarantine.ahead).unwrap_or_default() })
}

/// How often the keeper looks whether an extension is due; the first windows last two seconds.
const KEEPER_INTERVAL: Duration = Duration::from_millis(250);

const HOUR_NANOS: i128 = 3_600_000_000_000;

fn log_step(back: Duration) {
    warn!(back_ms = back.as_millis(), "the clock went back beyond the tolerance; leaving the slot for another");
}

fn stored_slot(versioned: &kent_store::Versioned) -> Result<Stored<SlotRecord>, stored::Malformed> {
    Ok(Stored { version: versioned.version.get(), value: stored::decode_slot(&versioned.value)? })
}
