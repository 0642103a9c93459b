//! Budgets of callers: how many identifiers each caller may take in total from all replicas.
//!
//! An `Account` holds this replica's share of a budget. Grants take identifiers from the share in memory, and a call
//! that needs more than is left waits for `Budgets::reserve`, which reserves another share in the store.
//! `Budgets::keep` returns shares that are no longer used. The rules are those of [`kent_access::Spent`].

mod account;
mod purse;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_access::{Budget, BudgetId, Reservation, Short, Spent};
use kent_proto::stored;
use kent_store::{CommitError, Store, Txn, Version};
use thiserror::Error;
use tokio::{sync::Notify, time};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) use self::{
    account::Account,
    purse::{Charge, Purse},
};
use crate::{
    host::clock::Clock,
    records::{failure::StoreFailure, keys},
};

/// This replica's shares of all budgets.
#[derive(Debug)]
pub struct Budgets {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    accounts: Mutex<BTreeMap<BudgetId, Arc<Account>>>,
    /// Notified when this replica has reserved a share.
    reserved: Notify,
}

/// Why a share was not reserved.
#[derive(Debug, Error)]
pub(crate) enum NotReserved {
    /// Too few identifiers are left.
    #[error("{0} are left")]
    Short(u64),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// How often shares are checked for use.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// The number of checks without use after which a share goes back to the store.
const IDLE_CHECKS: u32 = 5;
/// The maximum number of attempts to return a share when commits of other replicas conflict.
const ATTEMPTS: u32 = 16;

impl Budgets {
    /// Creates an empty set of accounts, which are read from the store when they are first charged.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { store, clock, accounts: Mutex::default(), reserved: Notify::new() })
    }

    /// Returns the account of `budget`, which was read when the tokens, roles and budgets were at `version`.
    pub(crate) fn account(&self, budget: &Arc<Budget>, version: Version) -> Arc<Account> {
        let mut accounts = self.lock();
        let account = accounts.entry(budget.id()).or_insert_with(|| Arc::new(Account::new(budget.clone(), version)));
        account.renew(budget, version);
        account.clone()
    }

    /// Reserves a share for a call that needs `count` identifiers, unless another call has done so in the meantime.
    ///
    /// # Errors
    ///
    /// [`NotReserved`].
    pub(crate) async fn reserve(self: Arc<Self>, account: Arc<Account>, count: u64) -> Result<(), NotReserved> {
        let mut sizing = account.reserving.lock().await;
        let held = account.share.left();
        if held >= count || account.is_removed() {
            return Ok(());
        }
        let (need, now) = (count - held, self.clock.steady());
        let short = |left: u64| Err(NotReserved::Short(left.saturating_add(held)));
        if let Some(left) = account.known_left(now).filter(|left| need > *left) {
            return short(left);
        }
        let (key, spent_key) = (account.key(), keys::spent(account.id()));
        let (made, read) = (self.store.get(&key), self.store.get(&spent_key));
        let (made, read) = futures_util::future::try_join(made, read).await.map_err(StoreFailure::from)?;
        let Some(made) = made else {
            account.remove();
            return Ok(());
        };
        let total = account.decode(&made.value).map_err(StoreFailure::from)?.total();
        let version = read.as_ref().map_or(Version::ABSENT, |read| read.version);
        let spent = decode(read.map(|read| read.value))?;
        let returned = account.share.take_recalled();
        let ask = Reservation { returned, need, wish: sizing.wish(now), now: self.unix_ms() };
        let (next, size) = match spent.reserve(total, ask) {
            Ok(reserved) => reserved,
            Err(Short { left }) => {
                account.share.keep_recalled(returned);
                account.note_left(left, now);
                return short(left);
            }
        };
        // The commit compares the budget too, so no share exceeds a lowered total or comes from a removed budget.
        let txn = Txn::new().expect(key, made.version).expect(spent_key.clone(), version);
        match self.store.commit(txn.put(spent_key, stored::encode_spent(&next))).await {
            Ok(_) => {
                account.reserved(size, total);
                sizing.reserved(size, now);
                self.reserved.notify_one();
                Ok(())
            }
            // The call still finds too few identifiers, and tries again.
            Err(CommitError::Conflict { .. }) => {
                account.share.keep_recalled(returned);
                Ok(())
            }
            Err(error) => Err(self.not_made(&account, returned, error).into()),
        }
    }

    /// Returns the recalled part of a share to the store. If the outcome is unknown, that part stays counted as used.
    async fn give_back(&self, account: &Account, is_all: bool) {
        let _reserving = account.reserving.lock().await;
        if is_all {
            account.share.recall();
        }
        let returned = account.share.take_recalled();
        for _ in 0..ATTEMPTS {
            if returned == 0 {
                return;
            }
            let key = keys::spent(account.id());
            let read = match self.store.get(&key).await {
                Ok(Some(read)) => read,
                // The budget was removed.
                Ok(None) => return,
                Err(_) => break,
            };
            let Ok(spent) = stored::decode_spent(&read.value) else { break };
            let record = stored::encode_spent(&spent.give_back(returned));
            match self.store.commit(Txn::new().expect(key.clone(), read.version).put(key, record)).await {
                Ok(_) => return account.forget_left(),
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => return drop(self.not_made(account, returned, error)),
            }
        }
        account.share.keep_recalled(returned);
    }

    /// Keeps an unreturned share for another attempt, unless the commit may have been made.
    fn not_made(&self, account: &Account, returned: u64, error: CommitError) -> StoreFailure {
        match &error {
            CommitError::Unknown(unknown) => {
                warn!(holder = %account.holder(), %unknown, "the outcome of a change to a budget is unknown; a share may stay counted as used");
            }
            _ => account.share.keep_recalled(returned),
        }
        error.into()
    }

    /// Returns all shares to the store. The daemon must not grant anything afterward.
    pub(crate) async fn give_back_all(&self) {
        for account in self.all() {
            self.give_back(&account, true).await;
        }
    }

    /// Returns the used part of a budget, without this replica's share.
    ///
    /// # Errors
    ///
    /// The store does not answer, or the record is malformed.
    pub(crate) async fn spent(&self, id: BudgetId) -> Result<Spent, StoreFailure> {
        let read = async || decode(self.store.get(&keys::spent(id)).await?.map(|read| read.value));
        let account = self.lock().get(&id).cloned();
        let Some(account) = account else { return read().await };
        // The lock keeps the share from being extended or returned during the read. Identifiers granted during the read
        // are not counted.
        let _reserving = account.reserving.lock().await;
        let held = account.share.left();
        Ok(read().await?.give_back(held))
    }

    /// Reads the store once, and returns what is left of each of these budgets, including this replica's share. The
    /// answer may miss changes that are made during the read.
    ///
    /// # Errors
    ///
    /// The store does not answer, or a record is malformed.
    pub(crate) async fn left(&self, budgets: &[Arc<Budget>]) -> Result<Vec<u64>, StoreFailure> {
        let mut spent = HashMap::new();
        for (key, record) in self.store.scan(&keys::SPENT).await? {
            spent.insert(keys::parse_spent(&key)?, stored::decode_spent(&record.value)?);
        }
        let accounts = self.lock();
        let left = budgets.iter().map(|budget| {
            let held = accounts.get(&budget.id()).map_or(0, |account| account.share.left());
            spent.remove(&budget.id()).unwrap_or_default().give_back(held).left(budget.total())
        });
        Ok(left.collect())
    }

    /// Returns unused shares to the store until `stop` is canceled. `is_known` says whether a budget still exists.
    pub(crate) async fn keep(self: Arc<Self>, is_known: impl Fn(&Budget) -> bool, stop: CancellationToken) {
        loop {
            // `biased` polls the branches in a fixed order, so that a simulated run is repeatable.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.reserved.notified() => {}
            }
            while self.all().iter().any(|account| account.has_share()) {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = time::sleep(TIDY_EVERY) => {}
                }
                self.tidy(&is_known).await;
            }
        }
    }

    async fn tidy(&self, is_known: impl Fn(&Budget) -> bool) {
        for account in self.all() {
            if !is_known(account.budget()) {
                account.remove();
                self.lock().remove(&account.id());
                continue;
            }
            let is_idle = account.idle_checks() >= IDLE_CHECKS;
            if is_idle || account.share.is_recalled() {
                self.give_back(&account, is_idle).await;
            }
        }
    }

    /// The wall clock, in milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> i64 {
        i64::try_from(self.clock.wall().get() / 1_000_000).unwrap_or(i64::MAX)
    }

    fn all(&self) -> Vec<Arc<Account>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BudgetId, Arc<Account>>> {
        // OK because no code that holds the lock leaves the map inconsistent.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decodes the used part of a budget, which is 0 without a record.
fn decode(value: Option<Vec<u8>>) -> Result<Spent, StoreFailure> {
    Ok(value.map_or(Ok(Spent::default()), |value| stored::decode_spent(&value))?)
}

#[cfg(test)]
mod tests;
