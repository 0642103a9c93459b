//! Strict regions: every grant is durable before it is answered, nothing is reserved beyond it, and a request_id is granted once.
//!
//! Requests that come while a commit is under way share the next one.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    num::NonZeroU64,
    time::Duration,
};

use futures_util::future::try_join_all;
use kent_ids::{Block, Position, UnixNanos};
use kent_issue::{RequestRefusal, Stored, TooFast, pay};
use kent_proto::stored::{self, StrictGrant};
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};
use tokio::{sync::oneshot, task};

use crate::{
    cell::{Record, read_counter},
    deadline::Patience,
    error::{AllocateError, StoreFailure},
    pacing::Pacing,
    requests::{self, Request, RequestKind, Requests},
    space::RegionFacts,
};

/// The most requests that share a commit: with the counter, the region, the floor of request_ids and their number, less than the
/// 128 records that etcd takes at once.
const SHARED_MAX: usize = 100;

/// So many are answered at a time.
const TURN: usize = 8;

/// Requests that wait for a commit. While one is under way others gather, and share the next.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<(Ask, Waiter)>,
    /// Whether somebody commits for those who wait.
    is_led: bool,
    /// Who wants to know when so many wait.
    gathering: Option<(usize, oneshot::Sender<()>)>,
    /// What the last commit left. Somebody else may have moved it since, and then a commit tells.
    last: Option<Last>,
}

/// What a commit left of the records that every commit compares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    /// The counter.
    pub(crate) counter: Stored<stored::Counter>,
    /// How many request_ids without a time are kept, if a commit had to know.
    undated: Option<Stored<u64>>,
}

/// A request for a grant.
#[derive(Debug)]
pub(crate) struct Ask {
    /// How many identifiers.
    pub(crate) count: NonZeroU64,
    /// The request_id.
    pub(crate) request: Option<Request>,
}

/// Who asked, as long as nothing has been answered.
#[derive(Debug)]
pub(crate) struct Waiter {
    answer: Option<oneshot::Sender<Outcome>>,
    patience: Patience,
}

/// That a request will be answered, within its caller's patience.
#[derive(Debug)]
#[must_use = "whoever drops it goes away before the answer"]
pub(crate) struct Promise(oneshot::Receiver<Outcome>);

/// A block; or that another attempt is needed; or why there is none.
pub(crate) type Outcome = Result<Option<Block>, AllocateError>;

impl Queue {
    /// Takes what the last commit left, if that is known; who commits next says what that left.
    pub(crate) fn take_last(&mut self) -> Option<Last> {
        self.last.take()
    }

    /// Takes note of what a commit left.
    pub(crate) fn set_last(&mut self, last: Last) {
        self.last = Some(last);
    }

    /// Tells when so many wait; `None` if they do already.
    pub(crate) fn gather(&mut self, count: usize) -> Option<oneshot::Receiver<()>> {
        let (gathered, tell) = oneshot::channel();
        self.gathering = Some((count, gathered)).filter(|_| self.waiting.len() < count);
        self.gathering.is_some().then_some(tell)
    }

    /// Adds a request: the promise of an answer, and whether the caller must see to it that somebody commits.
    pub(crate) fn add(&mut self, ask: Ask, patience: Patience) -> (Promise, bool) {
        let (answer, promised) = oneshot::channel();
        self.waiting.push_back((ask, Waiter { answer: Some(answer), patience }));
        if let Some((_, gathered)) = self.gathering.take_if(|(count, _)| self.waiting.len() >= *count) {
            // OK because whoever waits for it may have stopped waiting.
            let _ = gathered.send(());
        }
        (Promise(promised), !mem::replace(&mut self.is_led, true))
    }

    /// The requests that share the next commit, without those that nobody waits for any more; none when there are no more, and
    /// then whoever committed for them is done.
    pub(crate) fn next(&mut self, now: Duration) -> (Vec<Ask>, Vec<Waiter>) {
        self.end_waiting(now);
        let shared: (Vec<_>, Vec<_>) = self.waiting.drain(..self.waiting.len().min(SHARED_MAX)).unzip();
        self.is_led = !shared.0.is_empty();
        shared
    }

    /// Answers those whose patience is over. They, and those who have gone away, ask for nothing any more.
    pub(crate) fn end_waiting(&mut self, now: Duration) {
        self.waiting.retain_mut(|(_, waiter)| {
            waiter.end_waiting(now);
            waiter.is_there()
        });
    }
}

impl Waiter {
    /// Answers, unless that was done before.
    pub(crate) fn answer(&mut self, outcome: Outcome) {
        if let Some(answer) = self.answer.take() {
            // OK because a caller who went away meanwhile leaves a gap.
            let _ = answer.send(outcome);
        }
    }

    /// Answers if the caller's patience is over.
    pub(crate) fn end_waiting(&mut self, now: Duration) {
        if self.patience.left(now).is_zero() {
            self.answer(Err(AllocateError::Late));
        }
    }

    fn is_there(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }
}

impl Promise {
    /// The outcome.
    pub(crate) async fn kept(self) -> Outcome {
        self.0.await.unwrap_or(Err(AllocateError::Late))
    }
}

/// Answers those who shared a commit, some at a time: while the later ones are answered, the first ask again.
pub(crate) async fn answer_in_turns(waiters: Vec<Waiter>, outcomes: Vec<Outcome>) {
    for (number, (mut waiter, outcome)) in waiters.into_iter().zip(outcomes).enumerate() {
        if number > 0 && number.is_multiple_of(TURN) {
            // What was answered is on its way to the clients before this goes on.
            task::yield_now().await;
        }
        waiter.answer(outcome);
    }
}

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

/// By how many bits a region expands by itself now, if it does: its policy says at which share, by how many and how far.
pub(crate) fn due(facts: &RegionFacts, count: NonZeroU64) -> Option<u8> {
    let auto = facts.policy.auto_expand?;
    let suffix = facts.constants.suffix_bits;
    let by = auto.by_bits.min(facts.expandable_bits).min(auto.max_suffix.saturating_sub(suffix));
    let capacity = Count::power_of_two(suffix).get()?;
    // A region that is capped below that never needs it.
    let needed = facts.reserved.get()?.checked_add(count.get().into())?;
    if by == 0 || facts.policy.cap.is_some_and(|cap| cap <= Count::Below(capacity)) {
        return None;
    }
    // needed / capacity >= percent / 100, without overflow: the capacity is a power of two.
    let threshold = capacity / 100 * u128::from(auto.at_percent) + capacity % 100 * u128::from(auto.at_percent) / 100;
    (needed > threshold || needed >= capacity).then_some(by)
}

#[cfg(test)]
mod grant_tests;
#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(10);

    fn ask(queue: &mut Queue) -> (Promise, bool) {
        let ask = Ask { count: NonZeroU64::MIN, request: None };
        queue.add(ask, Patience::new(NOW, None))
    }

    fn next(queue: &mut Queue) -> usize {
        queue.next(NOW).0.len()
    }

    #[test]
    fn ok_one_leads_until_nobody_waits() {
        let mut queue = Queue::default();
        let (_one, must_lead) = ask(&mut queue);
        assert!(must_lead, "somebody must commit");
        let (two, must_lead) = ask(&mut queue);
        assert!(!must_lead, "somebody does");
        drop(two);
        assert_eq!(next(&mut queue), 1, "nobody waits for the second any more");
        let (_three, must_lead) = ask(&mut queue);
        assert!(!must_lead);
        assert_eq!(next(&mut queue), 1);
        assert_eq!(next(&mut queue), 0);
        assert!(ask(&mut queue).1, "whoever led is done");
    }

    #[test]
    fn ok_no_more_share_a_commit_than_etcd_takes() {
        let mut queue = Queue::default();
        let waiting: Vec<_> = (0..150).map(|_| ask(&mut queue)).collect();
        assert_eq!([(); 3].map(|()| next(&mut queue)), [100, 50, 0]);
        drop(waiting);
    }

    #[test]
    fn ok_who_gathers_is_told_when_as_many_wait() {
        let mut queue = Queue::default();
        let mut told = queue.gather(2).expect("nobody waits yet");
        let _one = ask(&mut queue);
        assert!(told.try_recv().is_err(), "one of two");
        let _two = ask(&mut queue);
        assert!(told.try_recv().is_ok());
        assert!(queue.gather(2).is_none(), "as many wait already");
    }

    #[tokio::test]
    async fn ok_nobody_waits_longer_than_they_want() {
        let mut queue = Queue::default();
        let ((committed, _), (queued, _)) = (ask(&mut queue), ask(&mut queue));
        let (_, mut waiters) = queue.next(NOW);
        let ((late, _), after) = (ask(&mut queue), NOW + Duration::from_secs(1));
        for now in [NOW, after - Duration::from_nanos(1)] {
            waiters[0].end_waiting(now);
            queue.end_waiting(now);
        }
        assert!(waiters[0].is_there(), "there is time left");
        assert_eq!(queue.waiting.iter().filter(|(_, waiter)| waiter.is_there()).count(), 1);
        waiters[0].end_waiting(after);
        queue.end_waiting(after);
        waiters.iter_mut().for_each(|waiter| waiter.answer(Ok(None)));
        assert!(matches!(committed.kept().await, Err(AllocateError::Late)));
        assert!(matches!(queued.kept().await, Ok(None)), "a commit that came in time");
        assert!(matches!(late.kept().await, Err(AllocateError::Late)));
        assert_eq!(next(&mut queue), 0, "whoever was answered asks for nothing");
    }
}
