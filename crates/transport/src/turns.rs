//! Turns: the connections of one thread read and write a little at a time, one after the other.
//!
//! One connection may bring hundreds of calls at once. Without turns, a call of another connection on the same thread
//! would wait until all these calls are answered.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
};

use tokio::{sync::Notify, task};

/// The bytes that a connection reads in one turn: about eight small calls.
const READ_BYTES: usize = 768;

/// This many bytes written in a turn count as one byte read in the next turn. Calls with large answers, such as
/// refusals, take longer, so a turn has fewer of them.
const WRITTEN_PER_READ: usize = 4;

/// The bytes that a connection may always read in a turn: about one small call.
const MIN_READ_BYTES: usize = 96;

/// The bytes that a connection writes in one turn. Encrypting these bytes takes about as long as answering ten calls.
const WRITE_BYTES: usize = 32 * 1024;

/// The turns of one thread.
#[derive(Debug, Default)]
pub(super) struct Turns {
    connections: AtomicUsize,
    queue: Mutex<Queue>,
    wanted: Notify,
}

/// The connections that have used up their turn and have more to do.
#[derive(Debug, Default)]
struct Queue {
    /// The first connection in the queue has this ticket, and each following connection has the next ticket.
    first: u64,
    waiting: VecDeque<Waker>,
}

impl Queue {
    /// Adds a connection at the end, and returns its ticket.
    fn push(&mut self, waker: Waker) -> u64 {
        let ticket = self.first + self.waiting.len() as u64;
        self.waiting.push_back(waker);
        ticket
    }

    fn pop(&mut self) -> Option<Waker> {
        let waker = self.waiting.pop_front()?;
        self.first += 1;
        Some(waker)
    }

    /// The waker of a connection that still waits. The waker may change, but the connection's place in the queue does
    /// not.
    fn waker(&mut self, ticket: u64) -> Option<&mut Waker> {
        let place = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        self.waiting.get_mut(place)
    }
}

impl Turns {
    /// Gives the waiting connections their turns, one after the other. Before each turn, the thread does all its other
    /// work.
    pub(super) async fn run(&self) -> Infallible {
        loop {
            // The runtime first runs the tasks that are ready, and then looks at all sockets.
            task::yield_now().await;
            let next = self.queue().pop();
            match next {
                Some(next) => next.wake(),
                None => self.wanted.notified().await,
            }
        }
    }

    /// Adds a connection.
    pub(super) fn join(self: &Arc<Self>) -> Turn {
        self.connections.fetch_add(1, Relaxed);
        Turn { turns: self.clone(), read: 0, written: 0, ticket: None }
    }

    fn is_shared(&self) -> bool {
        self.connections.load(Relaxed) > 1
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turns of one connection. A connection that is alone on its thread has no limits.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    /// The bytes that the connection has read in its turn, and what it wrote in the previous turn.
    read: usize,
    /// The bytes that the connection has written in its turn.
    written: usize,
    /// The ticket for the next turn, if the current turn is used up.
    ticket: Option<u64>,
}

impl Turn {
    /// Waits for the connection's turn. Returns how many bytes the connection may read.
    pub(super) fn poll_read(&mut self, cx: &Context<'_>) -> Poll<usize> {
        self.poll_left(cx, |turn| READ_BYTES.saturating_sub(turn.read))
    }

    pub(super) fn has_read(&mut self, bytes: usize) {
        self.read = self.read.saturating_add(bytes);
    }

    /// Waits for the connection's turn. Returns how many bytes the connection may write.
    pub(super) fn poll_write(&mut self, cx: &Context<'_>) -> Poll<usize> {
        self.poll_left(cx, |turn| WRITE_BYTES.saturating_sub(turn.written))
    }

    pub(super) fn has_written(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written = self.written.saturating_add(*bytes);
        }
    }

    fn poll_left(&mut self, cx: &Context<'_>, left: impl FnOnce(&Self) -> usize) -> Poll<usize> {
        if !self.turns.is_shared() {
            return Poll::Ready(usize::MAX);
        }
        ready!(self.poll_turn(cx));
        match left(self) {
            0 => self.wait(cx),
            left => Poll::Ready(left),
        }
    }

    /// Waits until a connection that has used up its turn gets another one.
    fn poll_turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Some(ticket) = self.ticket else { return Poll::Ready(()) };
        if let Some(waker) = self.turns.queue().waker(ticket) {
            waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        self.read = (self.written / WRITTEN_PER_READ).min(READ_BYTES - MIN_READ_BYTES);
        (self.written, self.ticket) = (0, None);
        Poll::Ready(())
    }

    /// Wakes the task at the next turn.
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.ticket = Some(self.turns.queue().push(cx.waker().clone()));
        self.turns.wanted.notify_one();
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, task::Wake};

    use futures_util::future::{Either, select};
    use kent_engine::host::tasks::Tasks;

    use super::*;

    /// Counts how often its waker was called.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Returns how many bytes a connection may still read, if it does not have to wait.
    async fn readable(turn: &mut Turn) -> Option<usize> {
        poll_fn(|cx| {
            Poll::Ready(match turn.poll_read(cx) {
                Poll::Ready(bytes) => Some(bytes),
                Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn ok_a_connection_waits_for_its_turn_only_if_there_are_others() {
        let turns = Arc::new(Turns::default());
        let mut greedy = turns.join();
        greedy.has_read(READ_BYTES);
        assert_eq!(readable(&mut greedy).await, Some(usize::MAX));
        let mut other = turns.join();
        assert_eq!(readable(&mut greedy).await, None);
        assert_eq!(readable(&mut other).await, Some(READ_BYTES));
        other.has_read(READ_BYTES - 1);
        assert_eq!(readable(&mut other).await, Some(1));
        drop(other);
        assert_eq!(readable(&mut greedy).await, Some(usize::MAX));
    }

    #[tokio::test]
    async fn ok_a_connection_that_writes_much_reads_less_in_its_next_turn() {
        let turns = Arc::new(Turns::default());
        let (mut greedy, _other) = (turns.join(), turns.join());
        for (written, left) in [
            (0, READ_BYTES),
            (WRITTEN_PER_READ, READ_BYTES - 1),
            (WRITTEN_PER_READ * 100, READ_BYTES - 100),
            (WRITTEN_PER_READ * READ_BYTES, MIN_READ_BYTES),
            (WRITE_BYTES, MIN_READ_BYTES),
            (0, READ_BYTES),
        ] {
            greedy.has_written(&Poll::Ready(Ok(written)));
            greedy.has_read(READ_BYTES);
            match select(pin!(turns.run()), pin!(poll_fn(|cx| greedy.poll_read(cx)))).await {
                Either::Left((never, _)) => match never {},
                Either::Right((readable, _)) => assert_eq!(readable, left, "{written}"),
            }
        }
    }

    /// The compiler may give two wakers of the same task different addresses.
    #[tokio::test]
    async fn ok_another_waker_of_the_task_keeps_the_place_in_the_queue() {
        let turns = Arc::new(Turns::default());
        let (mut greedy, _other) = (turns.join(), turns.join());
        greedy.has_read(READ_BYTES);
        let [first, second] = [(); 2].map(|()| Arc::new(Wakes::default()));
        let (one, other) = (Waker::from(first.clone()), Waker::from(second.clone()));
        assert!(greedy.poll_read(&Context::from_waker(&one)).is_pending());
        assert!(greedy.poll_read(&Context::from_waker(&other)).is_pending());
        let some_time = async {
            for _ in 0..4 {
                task::yield_now().await;
            }
        };
        select(pin!(turns.run()), pin!(some_time)).await;
        assert_eq!([first, second].map(|wakes| wakes.0.load(Relaxed)), [0, 1]);
        assert_eq!(greedy.poll_read(&Context::from_waker(&one)), Poll::Ready(READ_BYTES));
    }

    #[tokio::test]
    async fn ok_the_next_turn_begins_after_all_other_work() {
        let turns = Arc::new(Turns::default());
        let (mut greedy, _other) = (turns.join(), turns.join());
        let work = async {
            for _ in 0..3 {
                greedy.has_read(READ_BYTES);
                greedy.has_written(&Poll::Ready(Ok(WRITE_BYTES)));
                let (done, mut other_work) = tokio::sync::oneshot::channel();
                let task = Tasks::on_this_runtime().spawn_call(async { done.send(()).expect("the receiver waits") });
                assert!(readable(&mut greedy).await.is_none());
                assert!(other_work.try_recv().is_err());
                assert_eq!(poll_fn(|cx| greedy.poll_read(cx)).await, MIN_READ_BYTES);
                other_work.try_recv().expect("done before the turn");
                assert_eq!(poll_fn(|cx| greedy.poll_write(cx)).await, WRITE_BYTES);
                task.await.expect("no panic");
            }
        };
        match select(pin!(turns.run()), pin!(work)).await {
            Either::Left((never, _)) => match never {},
            Either::Right(((), _)) => {}
        }
    }
}
