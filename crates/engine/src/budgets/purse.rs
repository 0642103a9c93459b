//! The budgets of one caller, and what a grant takes from them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kent_access::Target;

use super::account::Account;

/// The budgets that apply to a caller, its own and those of its roles, by source.
#[derive(Debug, Default)]
pub(crate) struct Purse(Vec<Arc<[Arc<Account>]>>);

/// The identifiers that a grant has taken from the caller's budgets. Dropping the charge returns them, unless [`Charge::keep`] was called.
#[derive(Debug, Default)]
#[must_use = "dropping the charge returns the identifiers"]
pub struct Charge {
    /// `None` if the caller has no budget for the source.
    accounts: Option<Arc<[Arc<Account>]>>,
    count: AtomicU64,
}

impl Purse {
    /// Groups accounts by their sources.
    pub(crate) fn new(accounts: Vec<Arc<Account>>) -> Self {
        let mut groups: Vec<Vec<Arc<Account>>> = Vec::new();
        for account in accounts {
            let right = account.budget().right();
            match groups.iter_mut().find(|group| group[0].budget().is_on(right)) {
                Some(group) if group.iter().any(|one| one.id() == account.id()) => {}
                Some(group) => group.push(account),
                None => groups.push(vec![account]),
            }
        }
        Self(groups.into_iter().map(Into::into).collect())
    }

    /// Takes `count` identifiers of a source from all of the caller's budgets for the source.
    ///
    /// # Errors
    ///
    /// The account whose share on this replica is too small: reserve more, and try again.
    pub(crate) fn charge(&self, target: Target<'_>, count: u64) -> Result<Charge, Arc<Account>> {
        let Some(accounts) = self.0.iter().find(|group| group[0].budget().includes(target)) else {
            return Ok(Charge::default());
        };
        for (taken, account) in accounts.iter().enumerate() {
            if !account.take(count) {
                accounts[..taken].iter().for_each(|account| account.share.put(count));
                return Err(account.clone());
            }
        }
        Ok(Charge { accounts: Some(accounts.clone()), count: AtomicU64::new(count) })
    }
}

impl Charge {
    /// Keeps the charge, because the identifiers are granted, or may have been granted.
    pub(crate) fn keep(&self) {
        self.count.store(0, Ordering::Release);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(accounts) = &self.accounts {
            let count = *self.count.get_mut();
            accounts.iter().for_each(|account| account.share.put(count));
        }
    }
}
