//! The queue of strict grants: requests that arrive while a commit is in progress share the next commit.

use std::{
    collections::VecDeque,
    mem,
    num::NonZeroU64,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt;
use kent_ids::Block;
use kent_issue::{Stored, StrictState, Turns};
use kent_proto::stored;
use kent_store::Key;
use tokio::{sync::oneshot, task};

use super::requests::{Request, RequestKind};
use crate::{budgets::Charge, error::AllocateError, host::deadline::WaitLimit, records::counters::strict_state};

/// The maximum number of requests that share a commit. Together with the operations on the counter, the guards, the
/// floor and count of request IDs, and the turns, a commit stays below etcd's limit of 128 operations.
const SHARED_MAX: usize = 100;

/// The number of requests that are answered before the task yields.
const ANSWER_BATCH: usize = 32;

/// The requests that wait for a commit.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<(QueuedRequest, Waiter)>,
    /// Whether a leader commits for the waiting requests.
    is_led: bool,
    /// The number of waiting requests at which to notify the leader.
    gathering: Option<(usize, oneshot::Sender<()>)>,
    /// The state after the last known commit. If another replica has changed the counter since then, the next commit
    /// conflicts.
    last: Option<StrictState>,
    /// The replicas that take turns at the counter.
    pub(crate) turns: Turns,
}

/// A request for a strict grant.
#[derive(Debug)]
pub(crate) struct QueuedRequest {
    /// The requested number of identifiers.
    pub(crate) count: NonZeroU64,
    /// The request ID, if there is one.
    pub(crate) request: Option<Request>,
    /// What the request has taken from the caller's budgets. The charge is returned unless the grant may have been
    /// committed.
    pub(crate) charge: Charge,
}

/// The caller of a request; `answer` is `None` once the request is answered.
#[derive(Debug)]
pub(crate) struct Waiter {
    answer: Option<oneshot::Sender<Outcome>>,
    wait_limit: WaitLimit,
}

/// The pending answer to a request. The answer arrives within the caller's deadline.
#[derive(Debug)]
#[must_use = "dropping it abandons the request"]
pub struct PendingGrant(oneshot::Receiver<Outcome>);

/// The granted block, `None` if another attempt is needed, or an error.
pub type Outcome = Result<Option<Block>, AllocateError>;

impl QueuedRequest {
    /// The key of the counter of undated request IDs, if this request has such an ID.
    pub(crate) fn undated(&self) -> Option<&Key> {
        match &self.request.as_ref()?.kind {
            RequestKind::Dated(_) => None,
            RequestKind::Undated(key) => Some(key),
        }
    }
}

impl Queue {
    /// Takes the state after the last known commit; the next commit stores a new state.
    pub(crate) fn take_last(&mut self) -> Option<StrictState> {
        self.last.take()
    }

    /// Stores the state after a commit, unless a later commit of another replica is known.
    pub(crate) fn set_last(&mut self, last: StrictState) {
        if self.last.is_none_or(|known| known.counter.version <= last.counter.version) {
            self.last = Some(last);
        }
    }

    /// Stores the state after a commit of another replica, unless this commit or a later one is known.
    pub(crate) fn saw(&mut self, counter: Stored<stored::Counter>) {
        if self.last.is_some_and(|known| known.counter.version < counter.version) {
            self.last = Some(StrictState { is_remembered: true, ..strict_state(counter) });
        }
    }

    /// Returns true if no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns a receiver that is notified when `count` requests wait, or `None` if that many wait already.
    pub(crate) fn gather(&mut self, count: usize) -> Option<oneshot::Receiver<()>> {
        let (gathered, receiver) = oneshot::channel();
        self.gathering = Some((count, gathered)).filter(|_| self.waiting.len() < count);
        self.gathering.is_some().then_some(receiver)
    }

    /// Adds a request. Returns the pending answer, and whether the caller must start a leader.
    pub(crate) fn add(&mut self, request: QueuedRequest, wait_limit: WaitLimit) -> (PendingGrant, bool) {
        let (answer, receiver) = oneshot::channel();
        self.waiting.push_back((request, Waiter { answer: Some(answer), wait_limit }));
        if let Some((_, gathered)) = self.gathering.take_if(|(count, _)| self.waiting.len() >= *count) {
            // OK because the leader may have stopped waiting.
            let _ = gathered.send(());
        }
        (PendingGrant(receiver), !mem::replace(&mut self.is_led, true))
    }

    /// Removes and returns the requests that share the next commit, and drops abandoned requests. If no request is left
    /// and this replica takes no turns, the leader is done.
    pub(crate) fn next(&mut self, now: Duration) -> (Vec<QueuedRequest>, Vec<Waiter>) {
        self.expire(now);
        let shared: (Vec<_>, Vec<_>) = self.waiting.drain(..self.waiting.len().min(SHARED_MAX)).unzip();
        self.is_led = !shared.0.is_empty() || self.turns.is_registered();
        shared
    }

    /// Whether a leader commits for the waiting requests.
    pub(crate) fn is_led(&self) -> bool {
        self.is_led
    }

    /// Removes the waiting requests, whose outcome is unknown, because the leader does not commit for them any more.
    pub(crate) fn abandon(&mut self) {
        self.waiting.clear();
        self.is_led = false;
    }

    /// Answers the requests whose wait limit has passed, and removes these requests and the abandoned ones.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.waiting.retain_mut(|(_, waiter)| {
            waiter.expire(now, AllocateError::Late);
            waiter.is_waiting()
        });
    }
}

impl Waiter {
    /// Answers the request, unless it is answered already.
    pub(crate) fn answer(&mut self, outcome: Outcome) {
        if let Some(answer) = self.answer.take() {
            // OK because the grant stays recorded: a caller that has disconnected can send its request ID again. Without
            // one, its numbers are lost.
            let _ = answer.send(outcome);
        }
    }

    /// Answers with an error if the wait limit has passed.
    pub(crate) fn expire(&mut self, now: Duration, error: AllocateError) {
        if self.wait_limit.left(now).is_zero() {
            self.answer(Err(error));
        }
    }

    fn is_waiting(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }
}

impl PendingGrant {
    /// The answer to a request whose outcome is known.
    pub fn known(outcome: Outcome) -> Self {
        let (answer, receiver) = oneshot::channel();
        // OK because the receiver is not dropped yet.
        let _ = answer.send(outcome);
        Self(receiver)
    }
}

impl Future for PendingGrant {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.0.poll_unpin(cx).map(|answer| answer.unwrap_or(Err(AllocateError::OutcomeUnknown)))
    }
}

/// Answers the requests that shared a commit, a few at a time, so that the first callers can send new requests while
/// the others are answered.
pub(crate) async fn answer_in_batches(waiters: Vec<Waiter>, outcomes: Vec<Outcome>) {
    for (number, (mut waiter, outcome)) in waiters.into_iter().zip(outcomes).enumerate() {
        if number > 0 && number.is_multiple_of(ANSWER_BATCH) {
            // Let the answers go out to the clients before continuing.
            task::yield_now().await;
        }
        waiter.answer(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use kent_regions::Count;

    use super::*;

    const NOW: Duration = Duration::from_secs(10);

    fn add(queue: &mut Queue) -> (PendingGrant, bool) {
        let request = QueuedRequest { count: NonZeroU64::MIN, request: None, charge: Charge::default() };
        queue.add(request, WaitLimit::new(NOW, None))
    }

    fn next(queue: &mut Queue) -> usize {
        queue.next(NOW).0.len()
    }

    #[test]
    fn ok_one_caller_leads_until_the_queue_is_empty() {
        let mut queue = Queue::default();
        let (_one, must_lead) = add(&mut queue);
        assert!(must_lead, "the first caller leads");
        let (two, must_lead) = add(&mut queue);
        assert!(!must_lead, "there is a leader");
        drop(two);
        assert_eq!(next(&mut queue), 1, "the second request is abandoned");
        let (_three, must_lead) = add(&mut queue);
        assert!(!must_lead);
        assert_eq!(next(&mut queue), 1);
        assert_eq!(next(&mut queue), 0);
        assert!(add(&mut queue).1, "the leader is done");
    }

    #[test]
    fn ok_a_commit_stays_within_etcds_limit() {
        let mut queue = Queue::default();
        let waiting: Vec<_> = (0..150).map(|_| add(&mut queue)).collect();
        assert_eq!([(); 3].map(|()| next(&mut queue)), [100, 50, 0]);
        drop(waiting);
    }

    #[test]
    fn ok_the_leader_is_notified_when_enough_requests_wait() {
        let mut queue = Queue::default();
        let mut notified = queue.gather(2).expect("no request waits yet");
        let _one = add(&mut queue);
        assert!(notified.try_recv().is_err(), "one of two");
        let _two = add(&mut queue);
        assert!(notified.try_recv().is_ok());
        assert!(queue.gather(2).is_none(), "enough wait already");
    }

    #[test]
    fn ok_the_next_commit_compares_the_latest_known_counter() {
        let mut queue = Queue::default();
        let counter = |below| stored::Counter { reserved: Count::Below(below), ..stored::Counter::NEW };
        let other = |version, below| Stored { version, value: counter(below) };
        let own = |version, below| StrictState { is_remembered: true, ..strict_state(other(version, below)) };
        let known = |queue: &Queue| queue.last.map(|last| (last.counter.version, last.counter.value.below.get()));
        queue.saw(other(3, 30));
        assert_eq!(known(&queue), None, "the counter was never read");
        queue.set_last(own(5, 50));
        queue.saw(other(4, 40));
        assert_eq!(known(&queue), Some((5, 50)), "an old change");
        queue.saw(other(6, 60));
        queue.set_last(own(5, 50));
        assert_eq!(known(&queue), Some((6, 60)), "another replica committed after our commit");
        queue.set_last(own(7, 70));
        assert_eq!(queue.take_last().map(|last| last.is_remembered), Some(true));
        queue.saw(other(8, 80));
        assert_eq!(known(&queue), None, "a commit is in progress");
    }

    #[tokio::test]
    async fn ok_a_request_expires_at_its_wait_limit() {
        let mut queue = Queue::default();
        let ((committed, _), (queued, _)) = (add(&mut queue), add(&mut queue));
        let (_, mut waiters) = queue.next(NOW);
        let ((late, _), after) = (add(&mut queue), NOW + Duration::from_secs(1));
        for now in [NOW, after - Duration::from_nanos(1)] {
            waiters[0].expire(now, AllocateError::OutcomeUnknown);
            queue.expire(now);
        }
        assert!(waiters[0].is_waiting(), "there is time left");
        assert_eq!(queue.waiting.iter().filter(|(_, waiter)| waiter.is_waiting()).count(), 1);
        waiters[0].expire(after, AllocateError::OutcomeUnknown);
        queue.expire(after);
        waiters.iter_mut().for_each(|waiter| waiter.answer(Ok(None)));
        assert!(matches!(committed.await, Err(AllocateError::OutcomeUnknown)), "its commit is in progress");
        assert!(matches!(queued.await, Ok(None)), "its commit finished in time");
        assert!(matches!(late.await, Err(AllocateError::Late)));
        assert_eq!(next(&mut queue), 0, "an answered request is removed");
    }

    #[test]
    fn ok_requests_of_one_commit_are_answered_in_batches() {
        let mut queue = Queue::default();
        let mut pending: Vec<_> = (0..2 * ANSWER_BATCH + 8).map(|_| add(&mut queue).0.0).collect();
        let (_, waiters) = queue.next(NOW);
        let outcomes = waiters.iter().map(|_| Ok(None)).collect();
        let mut answering = pin!(answer_in_batches(waiters, outcomes));
        for (is_over, batch) in [(false, ANSWER_BATCH), (false, ANSWER_BATCH), (true, 8)] {
            assert_eq!(answering.as_mut().now_or_never().is_some(), is_over);
            let received = pending.iter_mut().filter_map(|pending| pending.try_recv().ok()).count();
            assert_eq!(received, batch);
        }
    }
}
