//! Strict counters: every grant is durable before it is answered, nothing is reserved beyond it, and a request_id is granted once.
//!
//! Requests that come at the same time share one commit. In order: read what is on record under their request_ids
//! ([`StrictRequest::before`]), then the counter, unless the last commit left it ([`StrictState`]); [`StrictState::plan`]; commit what
//! the plan says, which compares the counter, and the floor of dated request_ids where one is granted; [`StrictPlan::on_committed`].
//! After a conflict, or without an answer, read everything again: nothing that was planned counts.

use alloc::{collections::BTreeSet, vec::Vec};
use core::num::NonZeroU64;

use kent_ids::{Position, UnixNanos};
use thiserror::Error;

use crate::{Bound, DatedRequest, RequestPolicy, RequestRefusal, Reserved, Stored, TooFast, pay};

/// A request for suffixes.
#[derive(Clone, Copy, Debug)]
pub struct StrictRequest<'k, K> {
    /// How many.
    pub count: NonZeroU64,
    /// Its request_id, if it has one.
    pub id: Option<StrictId<'k, K>>,
}

/// A request_id, and what is on record under it.
#[derive(Clone, Copy, Debug)]
pub struct StrictId<'k, K> {
    /// What tells request_ids apart.
    pub key: &'k K,
    /// When it was made, if it says so.
    pub dated: Option<DatedRequest>,
    /// What was granted under it before.
    pub before: Option<Run>,
}

/// Suffixes that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The first.
    pub first: Position,
    /// How many.
    pub count: u64,
}

/// What a commit rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StrictState {
    /// The counter's record.
    pub counter: Stored<Reserved>,
    /// After a restore, whether it is unknown how far the counter had come.
    pub is_unsure: bool,
    /// How many undated request_ids are kept. Without it, a request under one has to be tried again.
    pub undated: Option<Stored<u64>>,
    /// Whether it is what our last commit left, and not what is stored now: others may have moved the counter since.
    pub is_remembered: bool,
}

/// By what request_ids are judged.
#[derive(Clone, Copy, Debug)]
pub struct RequestRules {
    /// For how long they are kept, and how many.
    pub policy: RequestPolicy,
    /// Below this, dated ones are forgotten.
    pub floor: UnixNanos,
    /// The time, if the clock is believed.
    pub now: Option<UnixNanos>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StrictOutcome {
    /// It gets the suffixes from this one on, once the commit is durable.
    Granted(Position),
    /// It got the suffixes from this one on before, under the same request_id.
    GrantedBefore(Position),
    /// It gets nothing.
    Refused(StrictRefusal),
    /// It must be tried again, after this commit, with what is stored then.
    Again,
}

/// Nothing is granted to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum StrictRefusal {
    /// Not enough suffixes are left.
    #[error("{} suffixes are issued, and too few are left", issued.get())]
    Full {
        /// How many are issued.
        issued: Position,
    },
    /// The pace does not allow it yet.
    #[error(transparent)]
    TooFast(#[from] TooFast),
    /// After a restore it is unknown how far the counter had come.
    #[error("after a restore it is unknown how far the counter had come")]
    Unsure,
    /// The request_id was used before, for another count.
    #[error("{count} suffixes were granted under the same request_id before")]
    Reused {
        /// How many were granted.
        count: u64,
    },
    /// Nothing is granted under the request_id.
    #[error(transparent)]
    Request(#[from] RequestRefusal),
}

/// What to commit, and what becomes of the requests then.
#[must_use = "nothing is granted before the commit is durable"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StrictPlan {
    outcomes: Vec<StrictOutcome>,
    base: StrictState,
    after: Reserved,
    is_dated: bool,
    added: u64,
}

impl StrictState {
    /// Plans one commit for all `requests`, in their order.
    pub fn plan<K: Ord>(self, bound: &Bound, rules: &RequestRules, requests: &[StrictRequest<'_, K>]) -> StrictPlan {
        let outcomes = Vec::with_capacity(requests.len());
        let mut plan = StrictPlan { outcomes, base: self, after: self.counter.value, is_dated: false, added: 0 };
        let mut keys = BTreeSet::new();
        for request in requests {
            let outcome = match request.id {
                Some(StrictId { before: Some(run), .. }) => Self::repeat(run, request.count.get()),
                // Of two with one request_id, the second gets what the first was granted, once that is durable.
                Some(StrictId { key, .. }) if !keys.insert(key) => StrictOutcome::Again,
                _ => plan.add(bound, rules, request).unwrap_or_else(StrictOutcome::Refused),
            };
            plan.outcomes.push(outcome);
        }
        plan
    }

    fn repeat(run: Run, count: u64) -> StrictOutcome {
        match run.count == count {
            true => StrictOutcome::GrantedBefore(run.first),
            false => StrictOutcome::Refused(StrictRefusal::Reused { count: run.count }),
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
        let count = request.count.get().into();
        let Some(below) = first.checked_add(count).filter(|below| *below <= bound.capacity) else {
            return match self.base.is_remembered {
                true => Ok(StrictOutcome::Again),
                false => Err(StrictRefusal::Full { issued: first }),
            };
        };
        self.after = Reserved { below, paid: pay(bound.pace, paid, bound.time, count)? };
        match dated {
            Some(Some(_)) => self.is_dated = true,
            Some(None) => self.added += 1,
            None => {}
        }
        Ok(StrictOutcome::Granted(first))
    }

    /// What becomes of each request. Those granted now have their records in the commit if they have a request_id.
    pub fn outcomes(&self) -> &[StrictOutcome] {
        &self.outcomes
    }

    /// Whether there is anything to commit.
    pub fn is_empty(&self) -> bool {
        self.after == self.base.counter.value
    }

    /// How many suffixes the commit grants.
    pub fn count(&self) -> u64 {
        // Several large requests may come to more, which is as good as all.
        u64::try_from(self.after.below.since(self.base.counter.value.below)).unwrap_or(u64::MAX)
    }

    /// The version that the counter's record must still have; 0 if it must not exist.
    pub const fn guard(&self) -> u64 {
        self.base.counter.version
    }

    /// What to write to the counter's record.
    pub const fn reserved(&self) -> Reserved {
        self.after
    }

    /// Whether the commit must compare the floor of dated request_ids.
    pub const fn is_dated(&self) -> bool {
        self.is_dated
    }

    /// The number of undated request_ids that the commit must compare, and what to write instead.
    pub fn undated(&self) -> Option<(Stored<u64>, u64)> {
        let kept = self.base.undated.filter(|_| self.added > 0)?;
        Some((kept, kept.value.saturating_add(self.added)))
    }

    /// What a commit that is durable at `version` left for the next one.
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
