//! Strict regions: every grant is durable before it is answered, nothing is reserved beyond it, and a request_id is granted once.
//!
//! Requests that come while a commit is under way share the next one ([`queue`](super::queue)).

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use futures_util::future::try_join_all;
use kent_ids::{Position, UnixNanos};
use kent_issue::{RequestRefusal, Stored, TooFast, pay};
use kent_proto::stored::{self, StrictGrant};
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};

use crate::{
    issuing::{
        pacing::Pacing,
        queue::{Ask, Last},
        record::Record,
        requests::{self, Request, RequestKind, Requests},
    },
    records::{counters::read_counter, failure::StoreFailure},
};

/// What became of requests that shared a commit.
#[derive(Debug)]
pub(crate) struct Attempted {
    /// What became of each, in their order.
    pub(crate) granted: Vec<Granted>,
    /// What the commit left, if there was one.
    pub(crate) left: Option<Last>,
    /// The record that somebody else wrote first.
    pub(crate) conflict: Option<Key>,
}

impl Attempted {
    /// How many suffixes were granted now.
    pub(crate) fn count(&self, asks: &[Ask]) -> u64 {
        let now = asks.iter().zip(&self.granted).filter(|(_, granted)| matches!(granted, Granted::Now(_)));
        now.fold(0, |sum, (ask, _)| sum.saturating_add(ask.count.get()))
    }
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// From this position on.
    Now(Position),
    /// It was granted under the same request_id before: from this position on, so many.
    Before(Position, u64),
    /// Not enough suffixes are left; these are issued.
    Full(Position),
    /// The pace does not allow it yet.
    TooFast(TooFast),
    /// After a restore it is not known how far the region had come.
    Unsure,
    /// Nothing is granted under the request_id.
    Refused(RequestRefusal),
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
    last: Option<Last>,
    unix_nanos: i64,
) -> Result<Attempted, StoreFailure> {
    let named = asks.iter().filter_map(|ask| ask.request.as_ref());
    let before: HashMap<_, _> =
        try_join_all(named.map(|request| granted_before(store, &request.key))).await?.into_iter().flatten().collect();
    let read = match last {
        Some(last) => last.counter,
        None => pacing.known(read_counter(store, &record.key).await?, record),
    };
    let txn = Txn::new().expect(record.key.clone(), Version::new(read.version));
    let txn = record.guard.iter().fold(txn, |txn, (key, version)| txn.expect(key.clone(), *version));
    let mut naming = Naming::new(store, requests, last.and_then(|last| last.undated), txn);
    let start = Position::new(read.value.reserved.get().unwrap_or(u128::MAX));
    let bound = pacing.bound(record.capacity, record.pace, read.value.paid);
    let mut paid = read.value.paid;
    let (mut issued, mut names, mut granted) = (start, HashSet::new(), Vec::with_capacity(asks.len()));
    for ask in asks {
        let key = ask.request.as_ref().map(|request| &request.key);
        if let Some(before) = key.and_then(|key| before.get(key)) {
            granted.push(before.clone());
            continue;
        }
        // Of two with the same request_id, the second is answered what the first was granted, when that is durable.
        if key.is_some_and(|key| !names.insert(key)) {
            granted.push(Granted::Again);
            continue;
        }
        if read.value.unsure {
            granted.push(Granted::Unsure);
            continue;
        }
        if let Some(request) = &ask.request
            && let Err(refusal) = naming.check(request).await?
        {
            granted.push(Granted::Refused(refusal));
            continue;
        }
        let first = issued;
        let Some(next) = first.checked_add(ask.count.get().into()).filter(|next| *next <= record.capacity) else {
            // Only what is stored tells for sure.
            granted.push(if last.is_some() { Granted::Again } else { Granted::Full(first) });
            continue;
        };
        paid = match pay(record.pace, paid, bound.time, ask.count.get().into()) {
            Ok(paid) => paid,
            Err(refused) => {
                granted.push(Granted::TooFast(refused));
                continue;
            }
        };
        if let Some(request) = &ask.request {
            let grant = StrictGrant { first: first.get(), count: ask.count.get(), unix_nanos };
            naming.record(request, &grant);
        }
        granted.push(Granted::Now(first));
        issued = next;
    }
    if issued == start {
        return Ok(Attempted { granted, left: None, conflict: None });
    }
    let counter = stored::Counter { reserved: Count::Below(issued.get()), paid, unsure: false };
    let (txn, names_left) = naming.finish();
    let committed = store.commit(txn.put(record.key.clone(), stored::encode_counter(&counter))).await;
    let mut instead = |outcome: Granted| {
        granted.iter_mut().filter(|granted| matches!(granted, Granted::Now(_))).for_each(|now| *now = outcome.clone());
    };
    let (left, conflict) = match committed {
        Ok(committed) => {
            let version = committed.version.get();
            (Some(Last { counter: Stored { version, value: counter }, undated: names_left(version) }), None)
        }
        Err(CommitError::Conflict { key, .. }) => {
            instead(Granted::Again);
            (None, Some(key))
        }
        Err(error) => {
            instead(Granted::Failed(error.into()));
            (None, None)
        }
    };
    Ok(Attempted { granted, left, conflict })
}

/// The part of a commit that request_ids have in it.
struct Naming<'r> {
    store: &'r dyn Store,
    requests: &'r Requests,
    floor: Stored<UnixNanos>,
    /// Whether the commit rests on the floor.
    is_dated: bool,
    /// How many request_ids without a time are kept, if that is known.
    undated: Option<Stored<u64>>,
    /// Those that the commit adds, and where they are counted.
    added: Option<(Key, u64)>,
    txn: Txn,
}

impl<'r> Naming<'r> {
    fn new(store: &'r dyn Store, requests: &'r Requests, undated: Option<Stored<u64>>, txn: Txn) -> Self {
        Self { store, requests, floor: requests.floor(), is_dated: false, undated, added: None, txn }
    }

    /// Whether something may be granted under a request_id that is not on record.
    async fn check(&mut self, request: &Request) -> Result<Result<(), RequestRefusal>, StoreFailure> {
        match &request.kind {
            RequestKind::Dated(dated) => Ok(self.requests.check_dated(*dated, self.floor)),
            RequestKind::Undated(key) => {
                let kept = match self.undated {
                    Some(kept) => kept,
                    None => requests::read_undated(self.store, key).await?,
                };
                self.undated = Some(kept);
                let added = self.added.as_ref().map_or(0, |(_, added)| *added);
                Ok(self.requests.check_undated(kept.value.saturating_add(added)))
            }
        }
    }

    /// Records what is granted under a request_id that was checked.
    fn record(&mut self, request: &Request, grant: &StrictGrant) {
        match &request.kind {
            RequestKind::Dated(_) => self.is_dated = true,
            RequestKind::Undated(key) => self.added.get_or_insert_with(|| (key.clone(), 0)).1 += 1,
        }
        let txn = mem::take(&mut self.txn).expect(request.key.clone(), Version::ABSENT);
        self.txn = txn.put(request.key.clone(), stored::encode_grant(grant));
    }

    /// The commit, and what it leaves of the number of request_ids once it is durable at a version.
    fn finish(self) -> (Txn, impl FnOnce(u64) -> Option<Stored<u64>>) {
        let Self { floor, is_dated, undated, added, txn, .. } = self;
        let txn = if is_dated { requests::expect_floor(txn, floor) } else { txn };
        let txn = match (&added, undated) {
            (Some((key, more)), Some(kept)) => requests::count_undated(txn, key.clone(), kept, *more),
            _ => txn,
        };
        let left = move |version| match (added, undated) {
            (Some((_, more)), Some(kept)) => Some(Stored { version, value: kept.value.saturating_add(more) }),
            (_, undated) => undated,
        };
        (txn, left)
    }
}

/// What was granted under a request_id before.
async fn granted_before<'a>(store: &dyn Store, key: &'a Key) -> Result<Option<(&'a Key, Granted)>, StoreFailure> {
    let Some(before) = store.get(key).await? else { return Ok(None) };
    let before = stored::decode_grant(&before.value)?;
    Ok(Some((key, Granted::Before(Position::new(before.first), before.count))))
}

#[cfg(test)]
mod tests;
