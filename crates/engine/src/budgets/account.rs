//! This replica's share of one budget.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kent_access::{Budget, BudgetId, Holder, Share, Sizing};
use kent_proto::stored::{self, Malformed};
use kent_store::{Key, Version};
use tokio::sync;

use crate::records::keys;

/// This replica's share of one budget, and its knowledge of the rest.
#[derive(Debug)]
pub struct Account {
    /// The budget when the account was created. Its total may have changed since then.
    budget: Arc<Budget>,
    pub(super) share: Share,
    /// The task that reserves or returns a share holds this lock.
    pub(super) reserving: sync::Mutex<Sizing>,
    state: Mutex<State>,
    is_removed: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// The total that this replica knows, and the version of the tokens, roles and budgets that the total comes from.
    total: u64,
    version: Version,
    /// What was left in the store when a call was last refused, and the time of that refusal on the steady clock.
    left: Option<(u64, Duration)>,
    /// The share at the last check of its use, and the number of checks that found it unchanged.
    checked: (u64, u32),
}

/// How long the replica repeats a refusal without asking the store.
const KNOWN_FOR: Duration = Duration::from_millis(500);

impl Account {
    pub(super) fn new(budget: Arc<Budget>, version: Version) -> Self {
        let state = State { total: budget.total(), version, left: None, checked: (0, 0) };
        let (reserving, state) = (sync::Mutex::default(), Mutex::new(state));
        Self { budget, share: Share::default(), reserving, state, is_removed: AtomicBool::new(false) }
    }

    /// Takes the total from a newer version. If the total differs, the share goes back, so that the store counts its
    /// unused part as left.
    pub(super) fn renew(&self, budget: &Budget, version: Version) {
        let mut state = self.lock();
        if version >= state.version {
            state.version = version;
            if state.total != budget.total() {
                state.total = budget.total();
                state.left = None;
                self.share.recall();
            }
        }
    }

    /// Takes `count` identifiers, or nothing if the share is smaller. A removed budget allows everything.
    pub(super) fn take(&self, count: u64) -> bool {
        self.share.take(count) || self.is_removed()
    }

    /// Adds a share that was reserved from `total`, unless the budget's total is another one now.
    pub(super) fn reserved(&self, size: u64, total: u64) {
        let state = self.lock();
        match state.total == total {
            true => self.share.put(size),
            false => self.share.keep_recalled(size),
        }
    }

    /// What is left in the store, if this replica read it for a recent refusal.
    pub(super) fn known_left(&self, now: Duration) -> Option<u64> {
        let (left, since) = self.lock().left?;
        (now.saturating_sub(since) < KNOWN_FOR).then_some(left)
    }

    pub(super) fn note_left(&self, left: u64, now: Duration) {
        self.lock().left = Some((left, now));
    }

    pub(super) fn forget_left(&self) {
        self.lock().left = None;
    }

    /// Returns the number of consecutive checks, including this one, that found the share unchanged, or 0 if the
    /// replica holds nothing.
    pub(super) fn idle_checks(&self) -> u32 {
        let held = self.share.left();
        let mut state = self.lock();
        let (before, checks) = state.checked;
        let checks = if held > 0 && held == before { checks + 1 } else { 0 };
        state.checked = (held, checks);
        checks
    }

    pub(super) fn has_share(&self) -> bool {
        self.share.left() > 0 || self.share.is_recalled()
    }

    pub(super) fn remove(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    pub(super) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    pub(super) fn id(&self) -> BudgetId {
        self.budget.id()
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The holder of the budget.
    pub(crate) fn holder(&self) -> &Holder {
        self.budget.holder()
    }

    pub(super) fn key(&self) -> Key {
        keys::budget(self.budget.holder(), self.budget.id())
    }

    pub(super) fn decode(&self, value: &[u8]) -> Result<Budget, Malformed> {
        stored::decode_budget(self.budget.id(), self.budget.holder().clone(), value)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // OK because no code that holds the lock leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
