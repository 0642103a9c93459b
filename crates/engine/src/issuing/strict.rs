//! Commits the strict grants that `kent_issue` plans ([`StrictState::plan`]).
//!
//! Requests that arrive while a commit is in progress share the next commit ([`queue`](super::queue)).

use futures_util::future::try_join_all;
use kent_ids::Position;
use kent_issue::{
    Earlier, Reserved, Run, StrictId, StrictOutcome, StrictPlan, StrictRefusal, StrictRequest, StrictState, TurnEnd,
};
use kent_proto::stored::{self, StrictGrant};
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};

use crate::{
    issuing::{
        cell::Cell,
        pacing::Pacing,
        queue::QueuedRequest,
        record::Record,
        requests::{self, Request, RequestKind, Requests},
        turns::TurnsAt,
    },
    records::{
        counters::{position, read_counter, strict_state},
        failure::StoreFailure,
    },
};

/// The outcomes of requests that shared a commit.
#[derive(Debug)]
pub(crate) struct Attempted {
    /// The outcomes, in the order of the requests.
    pub(crate) granted: Vec<Granted>,
    /// The number of identifiers that this commit granted.
    pub(crate) count: u64,
    /// The state after the commit, if there was one.
    pub(crate) left: Option<StrictState>,
    /// The record that another commit wrote first.
    pub(crate) conflict: Option<Key>,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// The request is granted now, from this value of the counter on.
    From(Position),
    /// The request was granted earlier under the same request ID.
    Before(Run),
    /// The request is rejected.
    Refused(StrictRefusal),
    /// The request needs another attempt.
    Again,
    /// The commit failed or its outcome is unknown. A retry with the same request ID shows whether the grant was made.
    Failed(StoreFailure),
}

/// Attempts several grants in one commit, which moves the counter of `cell` and records each grant that has a request
/// ID. `last` is the state after the last commit, if it is known; it saves a read of the store. The commit records
/// the end of this replica's turn, if it has one.
pub(crate) async fn grant(
    store: &dyn Store,
    (cell, record): (&Cell, &Record),
    (pacing, requests): (&Pacing, &Requests),
    queued: &[QueuedRequest],
    (last, turn): (Option<StrictState>, Option<(TurnsAt<'_>, &TurnEnd)>),
    unix_nanos: i64,
) -> Result<Attempted, StoreFailure> {
    let planned = try_join_all(queued.iter().map(|request| read_before(store, request))).await?;
    let mut state = match last {
        Some(last) => last,
        None => {
            let read = read_counter(store, &record.key).await?;
            cell.check(&record.key, position(read.value.reserved))?;
            strict_state(pacing.effective(read, record))
        }
    };
    let count_key = queued.iter().find_map(QueuedRequest::undated);
    if let (None, Some(key)) = (state.undated, count_key) {
        state.undated = Some(requests::read_undated(store, key).await?);
    }
    let bound = pacing.bound(record, state.counter.value.paid);
    let (rules, floor_version) = requests.rules();
    let plan = state.plan(&bound, &rules, &planned);
    let nothing = |granted, conflict| Attempted { granted, count: 0, left: None, conflict };
    if plan.is_empty() {
        return Ok(nothing(outcomes(&plan, Granted::From), None));
    }
    let txn = commit(record, &plan, turn);
    let txn = if plan.is_dated() { requests::expect_floor(txn, floor_version) } else { txn };
    let txn = match (count_key, plan.undated()) {
        (Some(key), Some((kept, count))) => requests::count_undated(txn, key.clone(), kept.version, count),
        _ => txn,
    };
    let txn = queued.iter().zip(plan.outcomes()).fold(txn, |txn, (one, outcome)| match (&one.request, outcome) {
        (Some(request), StrictOutcome::Granted(first)) => {
            let caller = request.caller.to_string();
            let (first, count, stride) = (first.get(), one.count.get(), record.stride);
            let grant = StrictGrant { first, count, stride, unix_nanos, caller };
            txn.expect(request.key.clone(), Version::ABSENT).put(request.key.clone(), stored::encode_grant(&grant))
        }
        _ => txn,
    });
    Ok(match store.commit(txn).await {
        Ok(committed) => {
            let version = committed.version.get();
            cell.with(|counter| counter.on_strict(plan.reserved().below, version));
            let left = Some(plan.on_committed(version));
            Attempted { granted: outcomes(&plan, Granted::From), count: plan.count(), left, conflict: None }
        }
        Err(CommitError::Conflict { key, .. }) => nothing(outcomes(&plan, |_| Granted::Again), Some(key)),
        Err(error) => {
            let failure = StoreFailure::from(error);
            nothing(outcomes(&plan, |_| Granted::Failed(failure.clone())), None)
        }
    })
}

/// Returns the outcome of each request; `now` gives the outcome of those that this commit would grant.
fn outcomes(plan: &StrictPlan, now: impl Fn(Position) -> Granted) -> Vec<Granted> {
    let outcomes = plan.outcomes().iter().map(|outcome| match *outcome {
        StrictOutcome::Granted(first) => now(first),
        StrictOutcome::GrantedBefore(run) => Granted::Before(run),
        StrictOutcome::Refused(refusal) => Granted::Refused(refusal),
        StrictOutcome::Again => Granted::Again,
    });
    outcomes.collect()
}

/// Builds the commit that moves the counter.
fn commit(record: &Record, plan: &StrictPlan, turn: Option<(TurnsAt<'_>, &TurnEnd)>) -> Txn {
    let txn = Txn::new().expect(record.key.clone(), Version::new(plan.guard()));
    let txn = record.guards.iter().fold(txn, |txn, (key, version)| txn.expect(key.clone(), *version));
    let Reserved { below, paid } = plan.reserved();
    let counter = stored::Counter { reserved: Count::Below(below.get()), paid, unsure: false };
    let txn = txn.put(record.key.clone(), stored::encode_counter(&counter));
    match turn {
        Some((turns, end)) => turns.add_to(txn, end, &counter),
        None => txn,
    }
}

/// Returns a request with the earlier grant under its request ID, if there is one.
async fn read_before<'a>(store: &dyn Store, queued: &'a QueuedRequest) -> Result<StrictRequest<'a, Key>, StoreFailure> {
    let Some(request @ Request { key, kind, .. }) = &queued.request else {
        return Ok(StrictRequest { count: queued.count, id: None });
    };
    let before = granted_before(store, request).await?;
    let dated = match kind {
        RequestKind::Dated(dated) => Some(*dated),
        RequestKind::Undated(_) => None,
    };
    Ok(StrictRequest { count: queued.count, id: Some(StrictId { key, dated, before }) })
}

/// Returns the grant that was made under a request ID, if there is one.
pub(crate) async fn granted_before(store: &dyn Store, request: &Request) -> Result<Option<Earlier>, StoreFailure> {
    let Some(read) = store.get(&request.key).await? else { return Ok(None) };
    let StrictGrant { first, count, stride, caller, .. } = stored::decode_grant(&read.value)?;
    Ok(Some(Earlier { run: Run { first: Position::new(first), count, stride }, is_own: *caller == *request.caller }))
}

#[cfg(test)]
mod tests;
