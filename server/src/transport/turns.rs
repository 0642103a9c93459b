//! Turns: the connections of one thread read and write a little at a time, one after the other.
//!
//! One connection may bring hundreds of calls at once. Without turns, a call of another connection on the same thread would wait until
//! all of them are answered.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
};

use tokio::{sync::Notify, task};

/// The bytes that a connection reads in one turn: some ten small calls.
const READ_BYTES: usize = 1024;

/// The bytes that a connection writes in one turn. Encrypting them takes about as long as answering ten calls.
const WRITE_BYTES: usize = 32 * 1024;

/// The turns of one thread.
#[derive(Debug, Default)]
pub(super) struct Turns {
    connections: AtomicUsize,
    /// The connections that have used up their turn and have more to do, in the order of their tickets.
    waiting: Mutex<VecDeque<Waker>>,
    /// The number of tickets so far, and how many of them have had their turn.
    tickets: AtomicU64,
    served: AtomicU64,
    wanted: Notify,
}

impl Turns {
    /// Gives the waiting connections their turns, one after the other. All other work of the thread comes before each of them.
    pub(super) async fn run(&self) -> Infallible {
        loop {
            // The runtime first runs the tasks that are ready, and then looks at all sockets.
            task::yield_now().await;
            let next = self.waiting().pop_front();
            match next {
                Some(next) => {
                    self.served.fetch_add(1, Relaxed);
                    next.wake();
                }
                None => self.wanted.notified().await,
            }
        }
    }

    /// Adds a connection.
    pub(super) fn join(self: &Arc<Self>) -> Turn {
        self.connections.fetch_add(1, Relaxed);
        Turn { turns: self.clone(), read: 0, written: 0, waiting: None }
    }

    fn is_shared(&self) -> bool {
        self.connections.load(Relaxed) > 1
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of one connection in the turns of its thread. A connection without others has no limits.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    /// The bytes that the connection has read and written in its turn.
    read: usize,
    written: usize,
    /// The ticket for the next turn, and the task that it wakes.
    waiting: Option<(u64, Waker)>,
}

impl Turn {
    /// Returns how many bytes the connection may read, once it may.
    pub(super) fn poll_read(&mut self, cx: &Context<'_>) -> Poll<usize> {
        self.poll_left(cx, |turn| READ_BYTES.saturating_sub(turn.read))
    }

    pub(super) fn has_read(&mut self, bytes: usize) {
        self.read = self.read.saturating_add(bytes);
    }

    /// Returns how many bytes the connection may write, once it may.
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

    /// Waits until a connection that has used up its turn has another one.
    fn poll_turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        match &self.waiting {
            None => Poll::Ready(()),
            Some((ticket, _)) if self.turns.served.load(Relaxed) > *ticket => {
                (self.read, self.written, self.waiting) = (0, 0, None);
                Poll::Ready(())
            }
            Some((_, waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            Some(_) => self.wait(cx),
        }
    }

    /// Wakes the task at the next turn.
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        let mut waiting = self.turns.waiting();
        waiting.push_back(cx.waker().clone());
        self.waiting = Some((self.turns.tickets.fetch_add(1, Relaxed), cx.waker().clone()));
        drop(waiting);
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
    use std::{future::poll_fn, pin::pin};

    use futures_util::future::{Either, select};

    use super::*;
    use crate::host::tasks::Tasks;

    /// What a connection may still read, if it need not wait.
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
    async fn ok_the_next_turn_begins_after_all_other_work() {
        let turns = Arc::new(Turns::default());
        let (mut greedy, _other) = (turns.join(), turns.join());
        let work = async {
            for _ in 0..3 {
                greedy.has_read(READ_BYTES);
                greedy.has_written(&Poll::Ready(Ok(WRITE_BYTES)));
                let (done, mut other_work) = tokio::sync::oneshot::channel();
                let task = Tasks::new().spawn_call(async { done.send(()).expect("the receiver waits") });
                assert!(readable(&mut greedy).await.is_none());
                assert!(other_work.try_recv().is_err());
                assert_eq!(poll_fn(|cx| greedy.poll_read(cx)).await, READ_BYTES);
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
