//! Strict regions: every grant is durable before it is answered, nothing is reserved beyond it, and a request_id is granted once.
//!
//! Requests that come while a commit is under way share the next one.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    num::NonZeroU64,
};

use futures_util::future::try_join_all;
use kent_ids::{Block, Position};
use kent_issue::Stored;
use kent_proto::stored::{self, StrictGrant};
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};
use tokio::sync::oneshot;

use crate::{
    cell::{Record, read_counter},
    error::{AllocateError, StoreFailure},
    space::RegionFacts,
};

/// The most requests that share a commit: with the counter, less than the 128 records that etcd takes at once.
const SHARED_MAX: usize = 100;

/// Requests that wait for a commit. While one is under way others gather, and share the next.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Ask>,
    /// Whether somebody commits for those who wait.
    is_led: bool,
    /// Who wants to know when so many wait.
    gathering: Option<(usize, oneshot::Sender<()>)>,
    /// The counter as the last commit left it. Somebody else may have moved it since, and then a commit tells.
    last: Option<Stored<Count>>,
}

/// A request for a grant, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Ask {
    /// The region, as its caller calls it.
    pub(crate) region: String,
    /// How many identifiers.
    pub(crate) count: NonZeroU64,
    /// The record of what was granted under the request_id.
    pub(crate) request: Option<Key>,
    /// Takes the outcome.
    pub(crate) answer: oneshot::Sender<Outcome>,
}

/// A block; or that another attempt is needed; or why there is none.
pub(crate) type Outcome = Result<Option<Block>, AllocateError>;

impl Queue {
    /// Takes the counter as the last commit left it, if it is known; who commits next says how that left it.
    pub(crate) fn take_last(&mut self) -> Option<Stored<Count>> {
        self.last.take()
    }

    /// Takes note of the counter as a commit left it.
    pub(crate) fn set_last(&mut self, last: Option<Stored<Count>>) {
        self.last = last;
    }

    /// Tells when so many wait; `None` if they do already.
    pub(crate) fn gather(&mut self, count: usize) -> Option<oneshot::Receiver<()>> {
        let (gathered, tell) = oneshot::channel();
        self.gathering = Some((count, gathered)).filter(|_| self.waiting.len() < count);
        self.gathering.is_some().then_some(tell)
    }

    /// Adds a request. True if its caller must see to it that somebody commits.
    pub(crate) fn add(&mut self, ask: Ask) -> bool {
        self.waiting.push_back(ask);
        if let Some((_, gathered)) = self.gathering.take_if(|(count, _)| self.waiting.len() >= *count) {
            // OK because whoever waits for it may have stopped waiting.
            let _ = gathered.send(());
        }
        !mem::replace(&mut self.is_led, true)
    }

    /// The requests that share the next commit, without those that nobody waits for any more; none when there are no more, and
    /// then whoever committed for them is done.
    pub(crate) fn next(&mut self) -> Vec<Ask> {
        self.waiting.retain(|ask| !ask.answer.is_closed());
        let shared = self.waiting.drain(..self.waiting.len().min(SHARED_MAX)).collect::<Vec<_>>();
        self.is_led = !shared.is_empty();
        shared
    }
}

/// What became of requests that shared a commit.
#[derive(Debug)]
pub(crate) struct Attempted {
    /// What became of each, in their order.
    pub(crate) granted: Vec<Granted>,
    /// The counter as the commit left it, if there was one.
    pub(crate) counter: Option<Stored<Count>>,
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
    /// There is no room for as many: so many are issued.
    Full(Position),
    /// It must be tried again.
    Again,
    /// Whether it was granted is not known, or it was not. With a request_id, a retry finds out.
    Failed(StoreFailure),
}

/// One attempt at several grants: the counter moves and, for those with a request_id, what was granted is recorded, in one
/// commit. `last` is the counter as it was last seen, which saves reading it.
pub(crate) async fn grant(
    store: &dyn Store,
    record: &Record,
    asks: &[Ask],
    last: Option<Stored<Count>>,
    unix_nanos: i64,
) -> Result<Attempted, StoreFailure> {
    let before = try_join_all(asks.iter().map(|ask| granted_before(store, ask.request.as_ref()))).await?;
    let read = match last {
        Some(last) => last,
        None => read_counter(store, &record.key).await?,
    };
    let txn = Txn::new().expect(record.key.clone(), Version::new(read.version));
    let mut txn = record.guard.iter().fold(txn, |txn, (key, version)| txn.expect(key.clone(), *version));
    let start = Position::new(read.value.get().unwrap_or(u128::MAX));
    let (mut issued, mut named, mut granted) = (start, HashSet::new(), Vec::new());
    for (ask, before) in asks.iter().zip(before) {
        if let Some(before) = before {
            granted.push(before);
            continue;
        }
        // Of two with the same request_id, the second is answered what the first was granted, when that is durable.
        if ask.request.as_ref().is_some_and(|key| !named.insert(key)) {
            granted.push(Granted::Again);
            continue;
        }
        let first = issued;
        let Some(next) = first.checked_add(ask.count.get().into()).filter(|next| *next <= record.capacity) else {
            // Only what is stored tells for sure.
            granted.push(if last.is_some() { Granted::Again } else { Granted::Full(first) });
            continue;
        };
        if let Some(key) = &ask.request {
            let grant = StrictGrant { first: first.get(), count: ask.count.get(), unix_nanos };
            txn = txn.expect(key.clone(), Version::ABSENT).put(key.clone(), stored::encode_grant(&grant));
        }
        granted.push(Granted::Now(first));
        issued = next;
    }
    if issued == start {
        return Ok(Attempted { granted, counter: None, conflict: None });
    }
    let reserved = Count::Below(issued.get());
    let committed = store.commit(txn.put(record.key.clone(), stored::encode_counter(reserved))).await;
    let mut instead = |outcome: Granted| {
        granted.iter_mut().filter(|granted| matches!(granted, Granted::Now(_))).for_each(|now| *now = outcome.clone());
    };
    let (counter, conflict) = match committed {
        Ok(committed) => (Some(Stored { version: committed.version.get(), value: reserved }), None),
        Err(CommitError::Conflict { key, .. }) => {
            instead(Granted::Again);
            (None, Some(key))
        }
        Err(error) => {
            instead(Granted::Failed(error.into()));
            (None, None)
        }
    };
    Ok(Attempted { granted, counter, conflict })
}

/// What was granted under a request_id before.
async fn granted_before(store: &dyn Store, request: Option<&Key>) -> Result<Option<Granted>, StoreFailure> {
    let Some(key) = request else { return Ok(None) };
    let Some(before) = store.get(key).await? else { return Ok(None) };
    let before = stored::decode_grant(&before.value)?;
    Ok(Some(Granted::Before(Position::new(before.first), before.count)))
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
mod tests {
    use super::*;

    fn ask() -> (Ask, oneshot::Receiver<Outcome>) {
        let (answer, outcome) = oneshot::channel();
        (Ask { region: "r".to_owned(), count: NonZeroU64::MIN, request: None, answer }, outcome)
    }

    #[test]
    fn ok_one_leads_until_nobody_waits() {
        let mut queue = Queue::default();
        let ((first, one), (second, two), (third, three)) = (ask(), ask(), ask());
        assert!(queue.add(first), "somebody must commit");
        assert!(!queue.add(second), "somebody does");
        drop(two);
        assert_eq!(queue.next().len(), 1, "nobody waits for the second any more");
        assert!(!queue.add(third));
        assert_eq!(queue.next().len(), 1);
        assert!(queue.next().is_empty());
        assert!(queue.add(ask().0), "whoever led is done");
        drop((one, three));
    }

    #[test]
    fn ok_no_more_share_a_commit_than_etcd_takes() {
        let mut queue = Queue::default();
        let waiting: Vec<_> = (0..150).map(|_| ask()).map(|(ask, outcome)| (queue.add(ask), outcome)).collect();
        assert_eq!([queue.next().len(), queue.next().len(), queue.next().len()], [100, 50, 0]);
        drop(waiting);
    }

    #[test]
    fn ok_who_gathers_is_told_when_as_many_wait() {
        let mut queue = Queue::default();
        let mut told = queue.gather(2).expect("nobody waits yet");
        let (one, _waits) = ask();
        queue.add(one);
        assert!(told.try_recv().is_err(), "one of two");
        let (two, _waits_too) = ask();
        queue.add(two);
        assert!(told.try_recv().is_ok());
        assert!(queue.gather(2).is_none(), "as many wait already");
    }
}
