//! Requests for strict grants that wait for a commit: those that come while one is under way share the next one.

use std::{collections::VecDeque, mem, num::NonZeroU64, time::Duration};

use kent_ids::Block;
use kent_issue::StrictState;
use kent_store::Key;
use tokio::{sync::oneshot, task};

use super::requests::{Request, RequestKind};
use crate::{error::AllocateError, host::deadline::Patience};

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
    last: Option<StrictState>,
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

impl Ask {
    /// Where its request_id is counted, if that has no time.
    pub(crate) fn undated(&self) -> Option<&Key> {
        match &self.request.as_ref()?.kind {
            RequestKind::Dated(_) => None,
            RequestKind::Undated(key) => Some(key),
        }
    }
}

impl Queue {
    /// Takes what the last commit left, if that is known; who commits next says what that left.
    pub(crate) fn take_last(&mut self) -> Option<StrictState> {
        self.last.take()
    }

    /// Takes note of what a commit left.
    pub(crate) fn set_last(&mut self, last: StrictState) {
        self.last = Some(last);
    }

    /// Tells when so many wait; `None` if they do already.
    pub(crate) fn gather(&mut self, count: usize) -> Option<oneshot::Receiver<()>> {
        let (gathered, receiver) = oneshot::channel();
        self.gathering = Some((count, gathered)).filter(|_| self.waiting.len() < count);
        self.gathering.is_some().then_some(receiver)
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

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

    #[test]
    fn ok_those_who_shared_a_commit_are_answered_some_at_a_time() {
        let mut queue = Queue::default();
        let mut promises: Vec<_> = (0..20).map(|_| ask(&mut queue).0.0).collect();
        let (_, waiters) = queue.next(NOW);
        let outcomes = waiters.iter().map(|_| Ok(None)).collect();
        let mut answering = pin!(answer_in_turns(waiters, outcomes));
        for answered in [8, 16, 20] {
            assert_eq!(answering.as_mut().now_or_never().is_some(), answered == 20);
            let kept = promises.iter_mut().filter_map(|promise| promise.try_recv().ok()).count();
            assert_eq!(kept, if answered == 20 { 4 } else { 8 }, "{answered}");
        }
    }
}
