//! Strict counters: every grant is durable before the reply, nothing is reserved ahead, and each request ID gets one
//! grant.
//!
//! Concurrent requests share one commit. First read the records of the request IDs ([`StrictId::before`]), and then the
//! counter ([`StrictState`]), unless the counter's state is known from the last commit. Call [`StrictState::plan`].
//! Commit the plan: the commit compares the counter and, if it grants a request with a dated request ID, the floor of
//! dated request IDs. Then call [`StrictPlan::on_committed`]. After a conflict or an unknown outcome, discard the plan
//! and read everything again.

use alloc::{collections::BTreeSet, vec::Vec};
use core::num::NonZeroU64;

use kent_ids::{Position, Stride, UnixNanos};
use thiserror::Error;

use crate::{Bound, DatedRequest, RequestPolicy, RequestRefusal, Reserved, Stored, TooFast, pay};

/// A request for suffixes.
#[derive(Clone, Copy, Debug)]
pub struct StrictRequest<'k, K> {
    /// The number of identifiers.
    pub count: NonZeroU64,
    /// The request ID, if the request has one.
    pub id: Option<StrictId<'k, K>>,
}

/// A request ID and its record.
#[derive(Clone, Copy, Debug)]
pub struct StrictId<'k, K> {
    /// The key that identifies the request ID.
    pub key: &'k K,
    /// The request ID with its creation time, if it is dated.
    pub dated: Option<DatedRequest>,
    /// The grant that was made earlier under this request ID.
    pub before: Option<Earlier>,
}

/// A grant that was made earlier under a request ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Earlier {
    /// What was granted.
    pub run: Run,
    /// Whether it was granted to the caller of this request.
    pub is_own: bool,
}

/// The suffixes of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The value of the counter before the grant.
    pub first: Position,
    /// The number of identifiers.
    pub count: u64,
    /// Which suffixes from the first on they have.
    pub stride: Stride,
}

/// The stored state that a commit compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StrictState {
    /// The counter's record.
    pub counter: Stored<Reserved>,
    /// Whether the counter's value is unknown after a restore.
    pub is_unsure: bool,
    /// The number of undated request IDs. If this number was not read, requests with an undated request ID must be
    /// retried.
    pub undated: Option<Stored<u64>>,
    /// Whether this state is known from our last commit, not read from the store: other daemons may have advanced the
    /// counter since that commit.
    pub is_remembered: bool,
}

/// The rules for new request IDs.
#[derive(Clone, Copy, Debug)]
pub struct RequestRules {
    /// The retention of request IDs, and the limit on their number.
    pub policy: RequestPolicy,
    /// Dated request IDs from before this time are forgotten.
    pub floor: UnixNanos,
    /// The time, if it is known.
    pub now: Option<UnixNanos>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StrictOutcome {
    /// The request is granted, from this value of the counter on, once the commit is durable.
    Granted(Position),
    /// The request was granted earlier under the same request ID.
    GrantedBefore(Run),
    /// The request is rejected.
    Refused(StrictRefusal),
    /// The request must be planned again after this commit, with the state that is stored then.
    Again,
}

/// The reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum StrictRefusal {
    /// Too few suffixes are left.
    #[error("{} suffixes are issued, and too few are left", issued.get())]
    Full {
        /// The number of issued suffixes.
        issued: Position,
    },
    /// The pace does not allow the grant yet.
    #[error(transparent)]
    TooFast(#[from] TooFast),
    /// The counter's value is unknown after a restore.
    #[error("the counter's value is unknown after a restore")]
    Unsure,
    /// The request ID was used before, with another count.
    #[error("the same request_id was used before, for {count} suffixes")]
    Reused {
        /// The number of suffixes that the earlier request got.
        count: u64,
    },
    /// Another caller used the request ID before, and got the suffixes.
    #[error("the same request_id was used before, by another caller")]
    OthersId,
    /// The request ID must not be used.
    #[error(transparent)]
    Request(#[from] RequestRefusal),
}

/// A commit, and the outcomes of its requests.
#[must_use = "nothing is granted before the commit is durable"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StrictPlan {
    outcomes: Vec<StrictOutcome>,
    base: StrictState,
    after: Reserved,
    is_dated: bool,
    added: u64,
    count: u64,
}

impl StrictState {
    /// Plans one commit for all `requests`, in their order.
    pub fn plan<K: Ord>(self, bound: &Bound, rules: &RequestRules, requests: &[StrictRequest<'_, K>]) -> StrictPlan {
        let outcomes = Vec::with_capacity(requests.len());
        let after = self.counter.value;
        let mut plan = StrictPlan { outcomes, base: self, after, is_dated: false, added: 0, count: 0 };
        let mut keys = BTreeSet::new();
        for request in requests {
            let outcome = match request.id {
                Some(StrictId { before: Some(earlier), .. }) => {
                    let repeated = earlier.check(request.count.get());
                    repeated.map_or_else(StrictOutcome::Refused, StrictOutcome::GrantedBefore)
                }
                // Of two requests with the same request ID, the second is planned again, and then returns the durable
                // grant of the first.
                Some(StrictId { key, .. }) if !keys.insert(key) => StrictOutcome::Again,
                _ => plan.add(bound, rules, request).unwrap_or_else(StrictOutcome::Refused),
            };
            plan.outcomes.push(outcome);
        }
        plan
    }
}

impl Earlier {
    /// Checks that a request for `count` suffixes repeats the request that was granted.
    ///
    /// # Errors
    ///
    /// Fails with [`StrictRefusal::OthersId`] if another caller got the grant, or with [`StrictRefusal::Reused`] if the
    /// count differs.
    pub fn check(self, count: u64) -> Result<Run, StrictRefusal> {
        match self {
            Self { is_own: false, .. } => Err(StrictRefusal::OthersId),
            Self { run, .. } if run.count != count => Err(StrictRefusal::Reused { count: run.count }),
            Self { run, .. } => Ok(run),
        }
    }
}

impl StrictPlan {
    /// Grants the next suffixes to a request.
    fn add<K>(
        &mut self,
        bound: &Bound,
        rules: &RequestRules,
        request: &StrictRequest<'_, K>,
    ) -> Result<StrictOutcome, StrictRefusal> {
        if self.base.is_unsure {
            return Err(StrictRefusal::Unsure);
        }
        let dated = request.id.as_ref().map(|id| id.dated);
        match (dated, self.base.undated) {
            (Some(Some(dated)), _) => rules.policy.check_dated(dated, rules.floor, rules.now)?,
            (Some(None), Some(kept)) => rules.policy.check_undated(kept.value.saturating_add(self.added))?,
            (Some(None), None) => return Ok(StrictOutcome::Again),
            (None, _) => {}
        }
        let Reserved { below: first, paid } = self.after;
        let span = bound.stride.span(request.count.get());
        let Some(below) = first.checked_add(span).filter(|below| *below <= bound.capacity) else {
            return match self.base.is_remembered {
                true => Ok(StrictOutcome::Again),
                false => Err(StrictRefusal::Full { issued: first }),
            };
        };
        self.after = Reserved { below, paid: pay(bound.pace, paid, bound.time, span)? };
        self.count = self.count.saturating_add(request.count.get());
        match dated {
            Some(Some(_)) => self.is_dated = true,
            Some(None) => self.added += 1,
            None => {}
        }
        Ok(StrictOutcome::Granted(first))
    }

    /// Returns the outcome of each request. The commit must also write a record for the request ID of each granted
    /// request.
    pub fn outcomes(&self) -> &[StrictOutcome] {
        &self.outcomes
    }

    /// Returns true if there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.after == self.base.counter.value
    }

    /// Returns the number of identifiers that the commit grants, at most `u64::MAX`.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the version that the counter's record must have when the plan is committed; 0 if the record must not
    /// exist.
    pub const fn guard(&self) -> u64 {
        self.base.counter.version
    }

    /// Returns the counter's record to write.
    pub const fn reserved(&self) -> Reserved {
        self.after
    }

    /// Returns whether the commit must compare the floor of dated request IDs.
    pub const fn is_dated(&self) -> bool {
        self.is_dated
    }

    /// Returns the stored number of undated request IDs, which the commit must compare, and the number to write.
    /// Returns `None` if the commit adds none.
    pub fn undated(&self) -> Option<(Stored<u64>, u64)> {
        let kept = self.base.undated.filter(|_| self.added > 0)?;
        Some((kept, kept.value.saturating_add(self.added)))
    }

    /// Returns the state from which to make the next plan, after this commit became durable at `version`.
    pub fn on_committed(&self, version: u64) -> StrictState {
        let undated = match self.undated() {
            Some((_, value)) => Some(Stored { version, value }),
            None => self.base.undated,
        };
        let counter = Stored { version, value: self.after };
        StrictState { counter, is_unsure: false, undated, is_remembered: true }
    }
}

#[cfg(test)]
mod tests;
