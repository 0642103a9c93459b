//! A limit on CPU-bound calls: a few run at a time, some wait, and the others are rejected.

use std::{panic::resume_unwind, sync::Arc, thread};

use thiserror::Error;
use tokio::{sync::Semaphore, task::JoinHandle};

use crate::host::tasks::Tasks;

/// The maximum number of CPU-bound calls that run or wait. Each service bounds the work of one call, for example to a
/// thousand strings or ten thousand identifiers.
const CALLS_MAX: usize = 64;

/// Runs CPU-bound calls without slowing down grants.
#[derive(Clone, Debug)]
pub struct Computing {
    tasks: Tasks,
    /// One permit for each call that runs or waits.
    queue_permits: Arc<Semaphore>,
    /// One permit for each call that runs.
    run_permits: Arc<Semaphore>,
}

/// Too many calls are already computing or waiting.
#[derive(Clone, Copy, Debug, Error)]
#[error("{max} calls are already computing or waiting, which is the maximum")]
pub struct Busy {
    /// The maximum number of calls.
    pub(crate) max: usize,
}

impl Computing {
    /// Creates a limit of half the number of processors, but at least one.
    pub(crate) fn new(tasks: Tasks) -> Self {
        let run_permits = thread::available_parallelism().map_or(1, |count| count.get() / 2).max(1);
        Self {
            tasks,
            queue_permits: Arc::new(Semaphore::new(CALLS_MAX)),
            run_permits: Arc::new(Semaphore::new(run_permits)),
        }
    }

    /// Runs `work` when a permit is free and no other thread needs the processor. The work must not hold a lock that
    /// grants or edits need. Work that has begun continues when its caller disconnects, and keeps its permit.
    ///
    /// # Errors
    ///
    /// [`Busy`]: the work was not started.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        outcome(self.tasks.spawn_busy(self.with_permits(work).await?)).await
    }

    /// Like [`Computing::run`], but with the priority of calls, because the work takes locks from time to time.
    ///
    /// # Errors
    ///
    /// [`Busy`]: the work was not started.
    pub async fn run_locking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        outcome(self.tasks.spawn_locking(self.with_permits(work).await?)).await
    }

    /// Returns the work together with its permits; the work holds the permits until it is done.
    async fn with_permits<T, W>(&self, work: W) -> Result<impl FnOnce() -> T + Send + use<T, W>, Busy>
    where
        W: FnOnce() -> T + Send + 'static,
    {
        let busy = |_| Busy { max: CALLS_MAX };
        let place = self.queue_permits.clone().try_acquire_owned().map_err(busy)?;
        // OK because these semaphores are never closed.
        let turn = self.run_permits.clone().acquire_owned().await.map_err(|_| Busy { max: CALLS_MAX })?;
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
            // The daemon is stopping, and canceled the work before it began.
            Err(_) => Err(Busy { max: 0 }),
        },
    }
}

/// Yields the processor regularly. Otherwise, the kernel may let work run for a millisecond while a grant waits, even
/// on a thread with idle priority.
#[derive(Debug)]
pub(crate) struct YieldEvery {
    each: u32,
    steps: u32,
}

impl YieldEvery {
    /// Yields after every `each` steps.
    pub(crate) const fn new(each: u32) -> Self {
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

/// Passes the items on, and yields the processor after every `each` of them.
pub fn yielding<T>(items: impl Iterator<Item = T>, each: u32) -> impl Iterator<Item = T> {
    let mut yields = YieldEvery::new(each);
    items.inspect(move |_| yields.step())
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
    async fn err_calls_beyond_the_limit_are_rejected_and_the_others_are_served() {
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
        assert!(computing.run(|| ()).await.is_err(), "no other call may wait");
        drop(release);
        for call in waiting {
            call.await.expect("served");
        }
        computing.run(|| ()).await.expect("a permit is free again");
        drop(calls);
    }

    #[tokio::test]
    async fn ok_a_cancelled_call_releases_its_permit() {
        let calls = Calls::start(1).expect("threads");
        let computing = Computing::new(Tasks::with_calls(&calls));
        let mut run = Box::pin(computing.run(|| ()));
        let _begun: Poll<_> = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(run);
        let all = u32::try_from(CALLS_MAX).expect("few");
        drop(computing.queue_permits.acquire_many(all).await.expect("all permits are free again"));
        drop(calls);
    }
}
