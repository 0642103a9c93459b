//! Strict regions: commits for the grants that `kent_issue` plans ([`StrictState::plan`]).
//!
//! Requests that come while a commit is under way share the next one ([`queue`](super::queue)).

use futures_util::future::try_join_all;
use kent_ids::Position;
use kent_issue::{
    Reserved, Run, Stored, StrictId, StrictOutcome, StrictPlan, StrictRefusal, StrictRequest, StrictState,
};
use kent_proto::stored::{self, StrictGrant};
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};

use crate::{
    issuing::{
        pacing::Pacing,
        queue::Ask,
        record::Record,
        requests::{self, Request, RequestKind, Requests},
    },
    records::{
        counters::{position, read_counter},
        failure::StoreFailure,
    },
};

/// What became of requests that shared a commit.
#[derive(Debug)]
pub(crate) struct Attempted {
    /// What became of each, in their order.
    pub(crate) granted: Vec<Granted>,
    /// How many suffixes were granted now.
    pub(crate) count: u64,
    /// What the commit left, if there was one.
    pub(crate) left: Option<StrictState>,
    /// The record that another commit wrote first.
    pub(crate) conflict: Option<Key>,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// Now or before: from this position on.
    From(Position),
    /// It is refused.
    Refused(StrictRefusal),
    /// It must be tried again.
    Again,
    /// Whether it was granted is not known, or it was not. With a request_id, a retry finds out.
    Failed(StoreFailure),
}

/// One attempt at several grants: the counter moves and, for those with a request_id, what was granted is recorded, in one
/// commit. `last` is what the last commit left, which saves reading it.
pub(crate) async fn grant(
    store: &dyn Store,
    record: &Record,
    (pacing, requests): (&Pacing, &Requests),
    asks: &[Ask],
    last: Option<StrictState>,
    unix_nanos: i64,
) -> Result<Attempted, StoreFailure> {
    let asked = try_join_all(asks.iter().map(|ask| read_before(store, ask))).await?;
    let mut state = match last {
        Some(last) => last,
        None => read(pacing.known(read_counter(store, &record.key).await?, record)),
    };
    let count_key = asks.iter().find_map(Ask::undated);
    if let (None, Some(key)) = (state.undated, count_key) {
        state.undated = Some(requests::read_undated(store, key).await?);
    }
    let bound = pacing.bound(record.capacity, record.pace, state.counter.value.paid);
    let (rules, floor_version) = requests.rules();
    let plan = state.plan(&bound, &rules, &asked);
    let nothing = |granted, conflict| Attempted { granted, count: 0, left: None, conflict };
    if plan.is_empty() {
        return Ok(nothing(said(&plan, Granted::From), None));
    }
    let txn = commit(record, &plan);
    let txn = if plan.is_dated() { requests::expect_floor(txn, floor_version) } else { txn };
    let txn = match (count_key, plan.undated()) {
        (Some(key), Some((kept, count))) => requests::count_undated(txn, key.clone(), kept.version, count),
        _ => txn,
    };
    let txn = asks.iter().zip(plan.outcomes()).fold(txn, |txn, (ask, outcome)| match (&ask.request, outcome) {
        (Some(request), StrictOutcome::Granted(first)) => {
            let grant = StrictGrant { first: first.get(), count: ask.count.get(), unix_nanos };
            txn.expect(request.key.clone(), Version::ABSENT).put(request.key.clone(), stored::encode_grant(&grant))
        }
        _ => txn,
    });
    Ok(match store.commit(txn).await {
        Ok(committed) => {
            let left = Some(plan.on_committed(committed.version.get()));
            Attempted { granted: said(&plan, Granted::From), count: plan.count(), left, conflict: None }
        }
        Err(CommitError::Conflict { key, .. }) => nothing(said(&plan, |_| Granted::Again), Some(key)),
        Err(error) => {
            let failure = StoreFailure::from(error);
            nothing(said(&plan, |_| Granted::Failed(failure.clone())), None)
        }
    })
}

/// What to tell each caller, where those that are granted now are told by `now`.
fn said(plan: &StrictPlan, now: impl Fn(Position) -> Granted) -> Vec<Granted> {
    let outcomes = plan.outcomes().iter().map(|outcome| match *outcome {
        StrictOutcome::Granted(first) => now(first),
        StrictOutcome::GrantedBefore(first) => Granted::From(first),
        StrictOutcome::Refused(refusal) => Granted::Refused(refusal),
        StrictOutcome::Again => Granted::Again,
    });
    outcomes.collect()
}

/// The commit that moves the counter.
fn commit(record: &Record, plan: &StrictPlan) -> Txn {
    let txn = Txn::new().expect(record.key.clone(), Version::new(plan.guard()));
    let txn = record.guard.iter().fold(txn, |txn, (key, version)| txn.expect(key.clone(), *version));
    let Reserved { below, paid } = plan.reserved();
    let counter = stored::Counter { reserved: Count::Below(below.get()), paid, unsure: false };
    txn.put(record.key.clone(), stored::encode_counter(&counter))
}

/// The state that a counter's record tells of.
fn read(Stored { version, value }: Stored<stored::Counter>) -> StrictState {
    let reserved = Reserved { below: position(value.reserved), paid: value.paid };
    let counter = Stored { version, value: reserved };
    StrictState { counter, is_unsure: value.unsure, undated: None, is_remembered: false }
}

/// A request, with what was granted under its request_id before.
async fn read_before<'a>(store: &dyn Store, ask: &'a Ask) -> Result<StrictRequest<'a, Key>, StoreFailure> {
    let Some(Request { key, kind }) = &ask.request else { return Ok(StrictRequest { count: ask.count, id: None }) };
    let before = match store.get(key).await? {
        Some(read) => {
            let StrictGrant { first, count, .. } = stored::decode_grant(&read.value)?;
            Some(Run { first: Position::new(first), count })
        }
        None => None,
    };
    let dated = match kind {
        RequestKind::Dated(dated) => Some(*dated),
        RequestKind::Undated(_) => None,
    };
    Ok(StrictRequest { count: ask.count, id: Some(StrictId { key, dated, before }) })
}

#[cfg(test)]
mod tests;
