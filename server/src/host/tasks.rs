//! Tasks. This is the only file of the daemon that spawns them.
//!
//! They run in three places. What keeps the daemon alive (its slot, its presence, its health) has a runtime that no call comes
//! to. Calls that may take a while have another one, of low priority. What keeps a processor busy and holds no lock has a third
//! one, whose threads run only when no other wants their processor.
//!
//! Every task has a name and an owner. A task that ends before it was asked to, by an error or a panic, stops the daemon: it
//! is better gone than limping.

use std::{
    error::Error,
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rustix::process::setpriority_process;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::{
    runtime::{self, Handle, Runtime},
    task::JoinHandle,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use tracing::error;

/// Spawns the daemon's tasks and ends them together.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    /// Where the daemon's own tasks run, whichever thread asks for them.
    runtime: Handle,
    /// Where calls run, and what they leave behind.
    calls: Handle,
    /// Where what keeps a processor busy runs.
    busy: Handle,
    /// Whether there are threads for that.
    has_threads: bool,
    tracker: TaskTracker,
    /// What runs on the threads that serve connections.
    aboard: TaskTracker,
    stop: CancellationToken,
    failed: CancellationToken,
    /// Whether an invariant is broken.
    broken: Arc<AtomicBool>,
}

impl Tasks {
    /// No tasks yet. They will all run where this is called.
    pub(crate) fn new() -> Self {
        let (stop, failed) = <(CancellationToken, CancellationToken)>::default();
        let (runtime, calls, busy) = (Handle::current(), Handle::current(), Handle::current());
        let (tracker, aboard) = (TaskTracker::new(), TaskTracker::new());
        Self { runtime, calls, busy, has_threads: false, tracker, aboard, stop, failed, broken: Arc::default() }
    }

    /// No tasks yet. The daemon's own will run where this is called, calls on a runtime of theirs.
    pub(crate) fn with_calls(calls: &Calls) -> Self {
        Self { calls: calls.calls.handle.clone(), busy: calls.busy.handle.clone(), has_threads: true, ..Self::new() }
    }

    /// Starts a task of the daemon. It must run until [`Tasks::stopping`] says otherwise; if it ends sooner, the daemon stops.
    pub(crate) fn spawn<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let inner = self.runtime.spawn(task);
        let tasks = self.clone();
        let watch = async move {
            let outcome = inner.await;
            if let Err(panic) = &outcome {
                error!(task = name, %panic, "a task of the daemon panicked; stopping");
            } else if !tasks.stop.is_cancelled() {
                error!(task = name, "a task of the daemon ended; stopping");
            }
            if outcome.is_err() || !tasks.stop.is_cancelled() {
                tasks.failed.cancel();
            }
        };
        self.tracker.spawn_on(watch, &self.runtime);
    }

    /// Starts work that ends by itself, such as a commit that must not be abandoned half way. It goes on when the handle is
    /// dropped, and is waited for at the end.
    pub(crate) fn spawn_work<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.tracker.spawn_on(work, &self.calls)
    }

    /// [`Tasks::spawn_work`], but on the thread of the caller, which then need not be woken by another. The thread must wait for
    /// [`Tasks::aboard`] before it ends. Others may wait for what it does, so that the daemon stops if it panics.
    pub(crate) fn spawn_work_aboard<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let guard = StopOnPanic(self.failed.clone());
        let work = async move {
            let _guard = guard;
            work.await
        };
        self.aboard.spawn_on(work, &Handle::current())
    }

    /// What was started by [`Tasks::spawn_work_aboard`].
    pub(crate) fn aboard(&self) -> &TaskTracker {
        &self.aboard
    }

    /// Starts a call that is given up when the handle is dropped. It is not waited for at the end: its port was.
    pub(crate) fn spawn_call<F>(&self, call: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        AbortOnDropHandle::new(self.calls.spawn(call))
    }

    /// Makes and hands over what is large, for a call: as [`Tasks::spawn_call`], but only when no other thread wants the processor.
    /// The task must hold no lock that grants or edits need.
    pub(crate) fn spawn_idle<F>(&self, task: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        AbortOnDropHandle::new(self.busy.spawn(task))
    }

    /// Starts work that ends by itself and keeps a processor busy meanwhile: when no other thread wants the processor, or at once
    /// where there are no such threads. The work must hold no lock that grants or edits need: it may be halted for long.
    pub(crate) fn spawn_busy<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.spawn_blocking(work, &self.busy)
    }

    /// [`Tasks::spawn_busy`], but with the priority of calls, since the work holds locks now and then.
    pub(crate) fn spawn_locking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.spawn_blocking(work, &self.calls)
    }

    fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        runtime: &Handle,
    ) -> JoinHandle<T> {
        if self.has_threads {
            self.tracker.spawn_blocking_on(work, runtime)
        } else {
            self.spawn_work(async move { work() })
        }
    }

    /// Cancelled when the daemon's tasks should end.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Cancelled when a task has failed and the daemon must stop.
    pub(crate) fn failed(&self) -> &CancellationToken {
        &self.failed
    }

    /// Stops the daemon, since one of its own rules does not hold.
    pub(crate) fn fail_broken(&self, broken: &dyn Error) {
        self.broken.store(true, Ordering::SeqCst);
        error!(%broken, "an invariant is broken: not one identifier more is issued");
        self.failed.cancel();
    }

    /// Whether an invariant is broken, so that nothing may be issued any more, although calls are still served.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Asks all tasks to end, and waits until they have.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// The niceness of the threads of calls: they get a tenth of a processor that grants want as well.
const LOW_PRIORITY: i32 = 10;

fn give_way() {
    // OK because it fails only where nobody may change priorities, and then all threads are alike.
    let _ = setpriority_process(None, LOW_PRIORITY);
}

/// A thread of low priority is interrupted only after its time slice of up to 3 ms; one of this policy at once, when another thread
/// wakes.
fn run_when_idle() {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    // OK because it fails only where nobody may change priorities, and then all threads are alike.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
}

/// The runtimes beside the daemon's own. Dropping them waits for nothing: what was under way has been waited for, or is given up.
#[derive(Debug)]
pub(crate) struct Calls {
    calls: Background,
    busy: Background,
}

impl Calls {
    /// Starts their threads.
    ///
    /// # Errors
    ///
    /// Those of starting threads.
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let calls = Background::start("calls", threads, give_way)?;
        Ok(Self { calls, busy: Background::start("busy", 1, run_when_idle)? })
    }
}

/// A runtime that is not waited for at its end.
#[derive(Debug)]
struct Background {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Background {
    fn start(name: &str, threads: usize, set_up: fn()) -> io::Result<Self> {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(threads).thread_name(name).on_thread_start(set_up).enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Stops the daemon when it is dropped by a panic.
struct StopOnPanic(CancellationToken);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            error!("work of the daemon panicked; stopping");
            self.0.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn err_work_that_panics_stops_the_daemon() {
        let tasks = Tasks::new();
        tasks.spawn_work_aboard(async {}).await.expect("it ended");
        assert!(!tasks.failed().is_cancelled());
        tasks.spawn_work_aboard(async { panic!("of the test") }).await.expect_err("it panicked");
        assert!(tasks.failed().is_cancelled());
    }

    #[tokio::test]
    async fn ok_no_call_holds_up_the_daemons_own_tasks() {
        let calls = Calls::start(1).expect("threads");
        let tasks = Tasks::with_calls(&calls);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let call = tasks.spawn_call(async move {
            begin.send(()).expect("somebody waits");
            held.recv()
        });
        begun.await.expect("the only thread of calls is held");
        let (kept, keeps) = tokio::sync::oneshot::channel();
        tasks.stopping().cancel();
        tasks.spawn("keeper", async { kept.send(()).expect("somebody waits") });
        keeps.await.expect("it runs");
        drop(release);
        call.await.expect("it ended").expect_err("released");
    }
}
