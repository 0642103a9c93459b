//! Changes to budgets.

use std::{
    iter,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
    time::Duration,
};

use kent_access::{Bound, Budget, BudgetId, Holder, Needs, Right, Spent, TokenId};
use kent_proto::model::Invalid;
use kent_store::Version;
use tokio::time;

use super::{Access, AccessError, BUDGETS_EACH_MAX, check_admin, check_budgets, check_covers, find_role, find_token};
use crate::{
    auth::{Caller, Snapshot, Write},
    records::failure::StoreFailure,
};

/// A change to the total of a budget.
#[derive(Clone, Copy, Debug)]
pub enum NewTotal {
    /// The new total. The budget is created if it does not exist.
    Of(u64),
    /// An addition to the current total.
    More(u64),
}

/// A budget to show in the metrics; its source exists.
#[derive(Debug)]
pub struct BudgetLeft {
    pub(crate) holder: Holder,
    /// The source, as `kent budget show` names it.
    pub(crate) resource: String,
    pub(crate) total: u64,
    /// `None` if the store has not answered.
    pub(crate) left: Option<u64>,
}

/// The budgets that have metrics.
#[derive(Debug)]
pub struct BudgetsLeft {
    pub(crate) shown: Vec<BudgetLeft>,
    /// The number of other budgets, beyond [`SHOWN_BUDGETS_MAX`].
    pub(crate) omitted: usize,
}

/// The maximum number of budgets with metrics.
const SHOWN_BUDGETS_MAX: usize = 1000;

/// How long the metrics wait for the store.
const STORE_WAIT_MAX: Duration = Duration::from_millis(500);

impl Access {
    /// Creates a budget, or changes its total. Returns the budget and the version of the store that includes the change.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub async fn set_budget(
        &self,
        caller: &Caller,
        holder: Holder,
        resource: &str,
        total: NewTotal,
    ) -> Result<(Arc<Budget>, Version), AccessError> {
        check_admin(caller)?;
        let right = self.budget_right(caller, resource)?;
        let (id, now) = (self.draw_budget(), self.auth.unix_ms());
        let planned = |present: &Snapshot| {
            check_holder(present, caller, &holder, Some(now))?;
            let existing = present.budgets_of(&holder).find(|budget| budget.is_on(&right));
            match (existing, total) {
                (Some(budget), NewTotal::Of(total)) => Ok(budget.with_total(total)),
                (Some(budget), NewTotal::More(more)) => {
                    let total = budget.total().checked_add(more);
                    let problem =
                        format!("is {more}, which added to the current total of {} exceeds 2^64 - 1", budget.total());
                    Ok(budget.with_total(total.ok_or_else(|| Invalid::new("add", problem))?))
                }
                (None, NewTotal::Of(total)) => {
                    check_budgets(present, 1)?;
                    if present.budgets_of(&holder).count() >= BUDGETS_EACH_MAX {
                        let hint = "remove unused ones (kent budget show, kent budget rm HOLDER RESOURCE)";
                        return Err(AccessError::TooMany {
                            what: "budgets of one holder",
                            max: BUDGETS_EACH_MAX,
                            hint,
                        });
                    }
                    new_budget(id, holder.clone(), right.clone(), total)
                }
                (None, NewTotal::More(_)) => Err(no_such(&holder, resource)),
            }
        };
        let change = |present: &Snapshot| Ok::<_, AccessError>(vec![Write::Budget(planned(present)?)]);
        let version = self.auth.table().change(change).await?;
        let snapshot = self.auth.table().snapshot();
        let made = snapshot.budgets_of(&holder).find(|budget| budget.is_on(&right)).cloned();
        Ok((made.ok_or_else(|| no_such(&holder, resource))?, version))
    }

    /// Removes a budget.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub async fn delete_budget(&self, caller: &Caller, holder: Holder, resource: &str) -> Result<Version, AccessError> {
        check_admin(caller)?;
        let change = self.auth.table().change(|present| {
            check_holder(present, caller, &holder, None)?;
            // A deleted region of the same name may still have a budget here, so prefer the budget of the current
            // region.
            let named = present.budgets_of(&holder).filter(|budget| self.describe_resource(budget.right()) == resource);
            let budget =
                named.max_by_key(|budget| self.is_present(budget)).ok_or_else(|| no_such(&holder, resource))?;
            check_covers(caller, std::slice::from_ref(budget.right()))?;
            Ok(vec![Write::NoBudget(holder.clone(), budget.id())])
        });
        change.await
    }

    /// Returns the budgets that the caller may manage, ordered by holder, starting after `after`.
    pub fn budgets(
        &self,
        caller: &Caller,
        holder: Option<&Holder>,
        after: Option<(Holder, BudgetId)>,
        most: usize,
    ) -> Result<Vec<Arc<Budget>>, AccessError> {
        check_admin(caller)?;
        let snapshot = self.auth.table().snapshot();
        if let Some(holder) = holder {
            check_holder(&snapshot, caller, holder, None)?;
        }
        let after = after.map_or(Unbounded, Excluded);
        let budgets = snapshot.budgets().range((after, Unbounded)).map(|(_, budget)| budget).filter(|budget| {
            holder.is_none_or(|holder| budget.holder() == holder)
                && check_covers(caller, std::slice::from_ref(budget.right())).is_ok()
                && check_holder(&snapshot, caller, budget.holder(), None).is_ok()
        });
        Ok(budgets.take(most).cloned().collect())
    }

    /// Returns the used part of a budget.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or the record is malformed.
    pub async fn spent(&self, budget: &Budget) -> Result<Spent, StoreFailure> {
        self.auth.budgets().spent(budget.id()).await
    }

    /// Returns the budgets of existing sources, with what is left of each. Budgets of roles come first.
    pub async fn budgets_left(&self) -> BudgetsLeft {
        let snapshot = self.auth.table().snapshot();
        let is_role = |budget: &&Arc<Budget>| matches!(budget.holder(), Holder::Role(_));
        let all = || snapshot.budgets().values().filter(|budget| self.is_present(budget));
        let mut budgets: Vec<_> =
            all().filter(is_role).chain(all().filter(|budget| !is_role(budget))).cloned().collect();
        let omitted = budgets.len().saturating_sub(SHOWN_BUDGETS_MAX);
        budgets.truncate(SHOWN_BUDGETS_MAX);
        let left = match budgets.is_empty() {
            true => Vec::new(),
            // Metrics are still served when the store fails.
            false => match time::timeout(STORE_WAIT_MAX, self.auth.budgets().left(&budgets)).await {
                Ok(Ok(left)) => left,
                Ok(Err(_)) | Err(_) => Vec::new(),
            },
        };
        let lefts = left.into_iter().map(Some).chain(iter::repeat(None));
        let shown = budgets.iter().zip(lefts).map(|(budget, left)| BudgetLeft {
            holder: budget.holder().clone(),
            resource: self.describe_resource(budget.right()),
            total: budget.total(),
            left,
        });
        BudgetsLeft { shown: shown.collect(), omitted }
    }

    /// Returns the budgets of a new token.
    pub(super) fn new_budgets(
        &self,
        caller: &Caller,
        token: TokenId,
        sources: &[(String, u64)],
    ) -> Result<Vec<Budget>, AccessError> {
        if sources.len() > BUDGETS_EACH_MAX {
            let problem = format!("has {} entries, but the maximum is {BUDGETS_EACH_MAX}", sources.len());
            return Err(Invalid::new("budgets", problem).into());
        }
        let mut budgets: Vec<Budget> = Vec::new();
        for (resource, total) in sources {
            let right = self.budget_right(caller, resource)?;
            if budgets.iter().any(|budget| budget.is_on(&right)) {
                return Err(Invalid::new("budgets", format!("names {resource} twice")).into());
            }
            budgets.push(new_budget(self.draw_budget(), Holder::Token(token), right, *total)?);
        }
        Ok(budgets)
    }

    /// Returns the right on the source of a budget, for which the caller must have `admin`.
    fn budget_right(&self, caller: &Caller, resource: &str) -> Result<Right, AccessError> {
        let bad = |bad: &dyn std::fmt::Display| Invalid::new("resource", bad);
        let permission = Budget::permission(resource).map_err(|not| bad(&not))?;
        let (right, missing) = self.bind(permission).map_err(|unbound| bad(&unbound))?;
        // Check this first, so that a caller learns nothing about regions that it may not manage.
        check_covers(caller, std::slice::from_ref(&right))?;
        match right.permission().needs() {
            Needs::Region { space, .. } if missing.is_some() => {
                Err(bad(&format_args!("is {resource}, a region that does not exist (kent region ls --space {space})"))
                    .into())
            }
            _ => Ok(right),
        }
    }

    /// Returns false if the budget is for a region that does not exist.
    fn is_present(&self, budget: &Budget) -> bool {
        let Bound::Region(place) = budget.right().bound() else { return true };
        let number = kent_regions::RegionNumber(place.number);
        self.directory.by_key(&place.space).is_some_and(|space| space.read(|table| table.get(number).is_some()))
    }
}

fn new_budget(id: BudgetId, holder: Holder, right: Right, total: u64) -> Result<Budget, AccessError> {
    Budget::new(id, holder, right, total).map_err(|bad| Invalid::new("resource", bad).into())
}

/// Fails if the caller may not manage the holder, or if the holder has ended at `now`.
fn check_holder(present: &Snapshot, caller: &Caller, holder: &Holder, now: Option<i64>) -> Result<(), AccessError> {
    match holder {
        Holder::Token(id) => {
            let token = find_token(present, caller, *id)?;
            match now.and_then(|now| token.refused(now)) {
                Some(reason) => Err(AccessError::Ended { id: *id, reason }),
                None => Ok(()),
            }
        }
        Holder::Role(name) => find_role(present, caller, name).map(drop).map_err(|error| match error {
            AccessError::NoSuchRole { name } => AccessError::NoSuchHolder { name },
            error => error,
        }),
    }
}

fn no_such(holder: &Holder, resource: &str) -> AccessError {
    AccessError::NoSuchBudget { holder: holder.clone(), resource: resource.chars().take(SHOWN_MAX).collect() }
}

/// The maximum number of characters that an error quotes from a string.
const SHOWN_MAX: usize = 80;
