//! A budget for calls that compute: few at a time, some that wait, the others refused.

use std::{panic::resume_unwind, sync::Arc, thread};

use thiserror::Error;
use tokio::{sync::Semaphore, task::JoinHandle};

use crate::host::tasks::Tasks;

/// Calls that may wait for their turn, or have it. Each is bounded by what its service accepts: a thousand texts, ten thousand
/// identifiers.
const CALLS_MAX: usize = 64;

/// Runs what computes beside all else.
#[derive(Clone, Debug)]
pub(crate) struct Computing {
    tasks: Tasks,
    /// Who may wait.
    places: Arc<Semaphore>,
    /// Who may compute.
    turns: Arc<Semaphore>,
}

/// Too many calls compute already.
#[derive(Clone, Copy, Debug, Error)]
#[error("{max} calls compute or wait already, and more are not served")]
pub(crate) struct Busy {
    /// How many may.
    pub(crate) max: usize,
}

impl Computing {
    /// Half of the processors compute, and at least one.
    pub(crate) fn new(tasks: Tasks) -> Self {
        let turns = thread::available_parallelism().map_or(1, |count| count.get() / 2).max(1);
        Self { tasks, places: Arc::new(Semaphore::new(CALLS_MAX)), turns: Arc::new(Semaphore::new(turns)) }
    }

    /// Computes when it is its turn, and when no other thread wants the processor. The work must hold no lock that grants or edits
    /// need. Work that has begun goes on when its caller goes away, and keeps its turn.
    ///
    /// # Errors
    ///
    /// [`Busy`]: nothing was done.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        outcome(self.tasks.spawn_busy(self.in_turn(work).await?)).await
    }

    /// [`Computing::run`], but with the priority of calls, since the work holds locks now and then.
    ///
    /// # Errors
    ///
    /// [`Busy`]: nothing was done.
    pub(crate) async fn run_locking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        outcome(self.tasks.spawn_locking(self.in_turn(work).await?)).await
    }

    /// The work with its turn, which it keeps until it is done.
    async fn in_turn<T, W>(&self, work: W) -> Result<impl FnOnce() -> T + Send + use<T, W>, Busy>
    where
        W: FnOnce() -> T + Send + 'static,
    {
        let busy = |_| Busy { max: CALLS_MAX };
        let place = self.places.clone().try_acquire_owned().map_err(busy)?;
        // OK because these semaphores are never closed.
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| Busy { max: CALLS_MAX })?;
        Ok(move || {
            let _held = (place, turn);
            work()
        })
    }
}

async fn outcome<T>(work: JoinHandle<T>) -> Result<T, Busy> {
    match work.await {
        Ok(done) => Ok(done),
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The daemon has stopped.
            Err(_) => Err(Busy { max: 0 }),
        },
    }
}

/// Offers the processor to other threads now and then. Without that the kernel may let work of a millisecond go on while a grant
/// waits, even on a thread that should run only when no other wants to.
#[derive(Debug)]
pub(crate) struct Breath {
    each: u32,
    steps: u32,
}

impl Breath {
    /// Offers it after every `each` steps.
    pub(crate) const fn each(each: u32) -> Self {
        Self { each, steps: 0 }
    }

    /// Counts a step.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
        if self.steps >= self.each {
            self.steps = 0;
            thread::yield_now();
        }
    }
}

/// Passes items on, and offers the processor to other threads after every few of them.
pub(crate) fn in_parts<T>(items: impl Iterator<Item = T>, each: u32) -> impl Iterator<Item = T> {
    let mut breath = Breath::each(each);
    items.inspect(move |_| breath.step())
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        task::{Context, Poll, Waker},
    };

    use super::*;
    use crate::host::tasks::Calls;

    #[tokio::test]
    async fn err_more_than_may_wait_are_refused_and_the_others_are_served() {
        let calls = Calls::start(1).expect("threads");
        let computing = Computing::new(Tasks::with_calls(&calls));
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let mut waiting = Vec::new();
        for _ in 0..CALLS_MAX {
            let (computing, held) = (computing.clone(), held.clone());
            let mut call =
                Box::pin(
                    async move { computing.run(move || held.lock().expect("not poisoned").recv()).await.map(drop) },
                );
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            waiting.push(call);
        }
        assert!(computing.run(|| ()).await.is_err(), "nobody else may wait");
        drop(release);
        for call in waiting {
            call.await.expect("served");
        }
        computing.run(|| ()).await.expect("there is a place again");
        drop(calls);
    }

    #[tokio::test]
    async fn ok_a_call_that_goes_away_leaves_its_place() {
        let calls = Calls::start(1).expect("threads");
        let computing = Computing::new(Tasks::with_calls(&calls));
        let mut run = Box::pin(computing.run(|| ()));
        let _begun: Poll<_> = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(run);
        let all = u32::try_from(CALLS_MAX).expect("few");
        drop(computing.places.acquire_many(all).await.expect("all places are free again"));
        drop(calls);
    }
}
