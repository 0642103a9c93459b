//! The calls that wait in the task of their connection.
//!
//! Strict grants wait here for their commit. The task of the connection sends all answers to a commit together, and no
//! call needs a task of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use futures_util::{FutureExt, task::AtomicWaker};
use h2::server::SendResponse;

/// The waiting calls of a connection. Each waits for a future `F`, and has data `T`.
pub(super) struct Waiting<F, T> {
    calls: Vec<(F, T, SendResponse<Bytes>)>,
    /// Created for the first call, because most connections have no strict grants.
    bell: Option<(Arc<Bell>, Waker)>,
}

/// Wakes the task of the connection, and tells it that a call may be ready. Most of the time, the task wakes for other
/// reasons, and does not have to poll the calls.
#[derive(Default)]
struct Bell {
    has_rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A swap and not a store: the task that takes the flag must see the work of all that have set it.
        self.has_rung.swap(true, Ordering::AcqRel);
        self.task.wake();
    }
}

/// A call whose future is ready: its output, and the data of the call.
pub(super) type Ready<F, T> = (<F as Future>::Output, T, SendResponse<Bytes>);

impl<F: Future + Unpin, T> Waiting<F, T> {
    pub(super) const fn new() -> Self {
        Self { calls: Vec::new(), bell: None }
    }

    /// Adds a call. If its future is ready, returns the call instead. If its caller has given up, drops it.
    pub(super) fn add(&mut self, call: (F, T, SendResponse<Bytes>), cx: &mut Context<'_>) -> Option<Ready<F, T>> {
        let (bell, _) = self.bell.get_or_insert_with(|| {
            let bell = Arc::<Bell>::default();
            (bell.clone(), bell.into())
        });
        bell.task.register(cx.waker());
        let mut next = self.calls.len();
        self.calls.push(call);
        self.next_ready(&mut next)
    }

    /// Whether to poll the calls: one may be ready, or its caller may have given up. If not, the bell will wake the
    /// task.
    pub(super) fn has_rung(&self, cx: &mut Context<'_>) -> bool {
        let Some((bell, _)) = self.bell.as_ref().filter(|_| !self.calls.is_empty()) else { return false };
        // Registered first, so that the task is woken if the bell rings after the check.
        bell.task.register(cx.waker());
        bell.has_rung.swap(false, Ordering::Acquire)
    }

    /// Removes and returns a call whose future is ready, from the position `next` on, and moves `next` past the calls
    /// that still wait. Drops the calls whose callers have given up.
    pub(super) fn next_ready(&mut self, next: &mut usize) -> Option<Ready<F, T>> {
        let Self { calls, bell } = self;
        let mut cx = Context::from_waker(&bell.as_ref()?.1);
        while let Some((future, _, respond)) = calls.get_mut(*next) {
            match future.poll_unpin(&mut cx) {
                Poll::Ready(output) => {
                    let (_, data, respond) = calls.swap_remove(*next);
                    return Some((output, data, respond));
                }
                Poll::Pending if respond.poll_reset(&mut cx).is_ready() => drop(calls.swap_remove(*next)),
                Poll::Pending => *next += 1,
            }
        }
        if calls.is_empty() {
            // A connection without strict grants holds no memory for them.
            *calls = Vec::new();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, iter};

    use h2::{Reason, client, server};
    use tokio::{
        io::duplex,
        sync::oneshot::{self, Receiver},
        task::yield_now,
    };
    use tokio_util::task::TaskTracker;
    use tonic::codegen::http::Request;

    use super::*;

    type Numbered = Waiting<Receiver<()>, u32>;

    /// Returns the numbers of the calls that are ready, or `None` if the bell has not rung.
    async fn ready(waiting: &mut Numbered) -> Option<Vec<u32>> {
        let has_rung = poll_fn(|cx| Poll::Ready(waiting.has_rung(cx))).await;
        let mut next = 0;
        let mut numbers: Vec<u32> = iter::from_fn(|| waiting.next_ready(&mut next)).map(|ready| ready.1).collect();
        numbers.sort_unstable();
        has_rung.then_some(numbers)
    }

    #[tokio::test]
    async fn ok_ready_calls_are_returned_and_abandoned_ones_dropped() {
        let (near, far) = duplex(1 << 16);
        let connected = tokio::join!(client::handshake(near), server::handshake(far));
        let (caller, connection) = connected.0.expect("HTTP/2");
        let (mut server, tasks) = (connected.1.expect("HTTP/2"), TaskTracker::new());
        tasks.spawn(connection);
        let (mut caller, mut waiting) = (caller.ready().await.expect("ready"), Numbered::new());
        let (mut calls, mut senders) = (Vec::new(), Vec::new());
        for number in 0..6 {
            calls.push(caller.send_request(Request::new(()), false).expect("sent"));
            let (_, respond) = server.accept().await.expect("a call").expect("HTTP/2");
            let (sender, receiver) = oneshot::channel();
            if number == 0 {
                sender.send(()).expect("received");
            } else {
                senders.push(sender);
            }
            let mut call = Some((receiver, number, respond));
            let added = poll_fn(|cx| Poll::Ready(waiting.add(call.take().expect("polled once"), cx))).await;
            assert_eq!(added.map(|ready| ready.1), (number == 0).then_some(0));
        }
        assert_eq!(ready(&mut waiting).await, None);
        calls[2].1.send_reset(Reason::CANCEL);
        // The reset was sent before, so it arrives as soon as both ends have worked for a while.
        for _ in 0..50 {
            poll_fn(|cx| {
                assert!(server.poll_accept(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            yield_now().await;
        }
        let [first, abandoned, third, fourth, fifth] = senders.try_into().expect("five");
        assert!(!abandoned.is_closed());
        assert_eq!(ready(&mut waiting).await, Some(Vec::new()));
        assert!(abandoned.is_closed());
        for sender in [first, third, fifth] {
            sender.send(()).expect("waits");
        }
        assert_eq!(ready(&mut waiting).await, Some(vec![1, 3, 5]));
        assert_eq!(ready(&mut waiting).await, None);
        assert!(!fourth.is_closed());
    }
}
