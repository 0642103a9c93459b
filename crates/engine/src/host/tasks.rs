//! Tasks. This is the only file of the daemon that spawns tasks.
//!
//! Tasks run on four runtimes. The daemon's own tasks (slot keeper, heartbeat, health reporter) have a runtime that no
//! gRPC call uses. Calls that may take a long time run on a second runtime with low priority. TLS handshakes run on a
//! third runtime, which leaves processors free for grants when many callers connect. Work that keeps a processor busy
//! and holds no lock runs on the fourth runtime, whose threads run only when no other thread needs the processor.
//!
//! Each of the daemon's own tasks has a name. If a task ends early, because of an error or a panic, the daemon stops
//! rather than continuing without the task.

use std::{
    error::Error,
    future::Future,
    io,
    pin::Pin,
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

use super::{call, flight};

/// Spawns the daemon's tasks and stops them together.
#[derive(Clone, Debug)]
pub struct Tasks {
    /// The runtime for the daemon's own tasks.
    runtime: Handle,
    /// The runtime for calls, and for work that outlives calls.
    calls: Handle,
    handshakes: Handle,
    /// The runtime for work that keeps a processor busy.
    busy: Handle,
    /// Whether calls and busy work have their own threads.
    has_threads: bool,
    tracker: TaskTracker,
    /// Work that runs on the threads that serve connections.
    local_work: TaskTracker,
    stop: CancellationToken,
    failed: CancellationToken,
    /// Set when an invariant is broken.
    broken: Arc<AtomicBool>,
    /// Set when the store was replaced or rolled back.
    replaced: Arc<AtomicBool>,
}

impl Tasks {
    /// Creates an empty set of tasks. All tasks run on the current runtime.
    pub fn on_this_runtime() -> Self {
        let (stop, failed) = <(CancellationToken, CancellationToken)>::default();
        let runtime = Handle::current();
        let [calls, handshakes, busy] = std::array::from_fn(|_| runtime.clone());
        let (tracker, local_work) = (TaskTracker::new(), TaskTracker::new());
        Self {
            runtime,
            calls,
            handshakes,
            busy,
            has_threads: false,
            tracker,
            local_work,
            stop,
            failed,
            broken: Arc::default(),
            replaced: Arc::default(),
        }
    }

    /// Creates an empty set of tasks. The daemon's own tasks run on the current runtime. The other tasks run on the
    /// runtimes of `calls`.
    pub fn with_calls(calls: &Calls) -> Self {
        Self {
            calls: calls.calls.handle.clone(),
            handshakes: calls.handshakes.handle.clone(),
            busy: calls.busy.handle.clone(),
            has_threads: true,
            ..Self::on_this_runtime()
        }
    }

    /// Spawns a task of the daemon. The task must run until [`Tasks::stopping`] is canceled; if it ends earlier, the
    /// daemon stops.
    pub fn spawn<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let inner = self.runtime.spawn(boxed(task));
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
        self.tracker.spawn_on(boxed(watch), &self.runtime);
    }

    /// Spawns work that ends by itself, such as a commit that must not be abandoned midway. The work continues when the
    /// handle is dropped, and [`Tasks::stop`] waits for it. The work's log lines contain the call that spawned the
    /// work.
    pub fn spawn_work<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.tracker.spawn_on(call::inherited(boxed(work)), &self.calls)
    }

    /// Like [`Tasks::spawn_work`], but on the caller's thread, so that no other thread has to be woken. The caller's
    /// thread must wait for [`Tasks::local_work`] before it ends. Other calls may wait for the result, so the daemon
    /// stops if the work panics.
    pub(crate) fn spawn_work_local<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        // Boxed first, because moving a future copies it whole.
        let work = guarded(boxed(work), StopOnPanic(self.failed.clone()));
        self.local_work.spawn_on(work, &Handle::current())
    }

    /// The tracker of the work that `Tasks::spawn_work_local` spawns.
    pub fn local_work(&self) -> &TaskTracker {
        &self.local_work
    }

    /// Spawns a call that is aborted when the handle is dropped. [`Tasks::stop`] does not wait for the call, because
    /// the ports have already waited for it.
    pub fn spawn_call<F>(&self, call: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        AbortOnDropHandle::new(self.calls.spawn(boxed(call)))
    }

    /// Spawns a handshake that is aborted when the handle is dropped.
    pub fn spawn_handshake(&self, handshake: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.handshakes.spawn(boxed(handshake)))
    }

    /// Like [`Tasks::spawn_call`], but for large answers: the task runs only when no other thread needs the processor.
    /// The task must not hold a lock that grants or edits need.
    pub fn spawn_idle<F>(&self, task: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        AbortOnDropHandle::new(self.busy.spawn(boxed(task)))
    }

    /// Spawns work that ends by itself and keeps a processor busy. The work runs when no other thread needs the
    /// processor, or immediately if busy work does not have its own threads. The work must not hold a lock that grants
    /// or edits need: it may be suspended for a long time.
    pub fn spawn_busy<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.spawn_blocking(work, &self.busy)
    }

    /// Like [`Tasks::spawn_busy`], but with the priority of calls, because the work takes locks from time to time.
    pub fn spawn_locking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.spawn_blocking(work, &self.calls)
    }

    fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        runtime: &Handle,
    ) -> JoinHandle<T> {
        let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
        if self.has_threads {
            self.tracker.spawn_blocking_on(work, runtime)
        } else {
            self.spawn_work(async move { work() })
        }
    }

    /// The token that is canceled when the daemon's tasks should end.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// The token that is canceled when a task has failed and the daemon must stop.
    pub fn failed(&self) -> &CancellationToken {
        &self.failed
    }

    /// Stops the daemon because an invariant does not hold.
    pub(crate) fn fail_broken(&self, broken: &dyn Error) {
        if self.broken.swap(true, Ordering::SeqCst) {
            // The first caller of this method stops the daemon, once its messages are in the log.
            return;
        }
        error!(%broken, "an invariant is broken; no more identifiers are issued");
        flight::log();
        self.failed.cancel();
    }

    /// Makes the daemon issue nothing more because the store was replaced or rolled back.
    pub(crate) fn fail_replaced(&self, replaced: &dyn Error) {
        self.replaced.store(true, Ordering::SeqCst);
        self.fail_broken(replaced);
    }

    /// Whether the store was replaced or rolled back. Another daemon on this store would issue identifiers again.
    pub fn is_store_replaced(&self) -> bool {
        self.replaced.load(Ordering::SeqCst)
    }

    /// Whether an invariant is broken. If so, the daemon issues nothing more, although the daemon still serves calls.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Stops all tasks, and waits for them.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Does work, and keeps the guard until then.
async fn guarded<T>(work: Pin<Box<dyn Future<Output = T> + Send>>, _guard: StopOnPanic) -> T {
    work.await
}

/// Hides the type of a task. Otherwise, the compiler would create tokio's code for tasks again for each task that is
/// spawned, which was 5 % of the code of this crate.
fn boxed<T>(task: impl Future<Output = T> + Send + 'static) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(task)
}

/// The nice value of the threads that run calls. If grants need the same processor, these threads get a tenth of the
/// processor time.
const LOW_PRIORITY: i32 = 10;

fn lower_priority() {
    // OK because this fails only where changing priorities is not permitted; then all threads have the same priority.
    let _ = setpriority_process(None, LOW_PRIORITY);
}

/// Gives the thread the idle policy. A thread with a high nice value is preempted only after its time slice of up to 3
/// ms; a thread with the idle policy is preempted as soon as another thread wakes.
fn run_when_idle() {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    // OK because this fails only where changing priorities is not permitted; then all threads have the same priority.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
}

/// The runtimes for calls, handshakes and busy work. Dropping the runtimes does not wait: their work has ended by then,
/// or is abandoned.
#[derive(Debug)]
pub struct Calls {
    calls: Background,
    handshakes: Background,
    busy: Background,
}

impl Calls {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn start(threads: usize) -> io::Result<Self> {
        let calls = Background::start("calls", threads, lower_priority)?;
        let handshakes = Background::start("handshakes", (threads / 2).max(1), lower_priority)?;
        Ok(Self { calls, handshakes, busy: Background::start("busy", 1, run_when_idle)? })
    }
}

/// A runtime that is dropped without waiting for its tasks.
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

/// Stops the daemon when it is dropped during a panic.
struct StopOnPanic(CancellationToken);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            error!("background work of the daemon panicked; stopping");
            self.0.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn err_work_that_panics_stops_the_daemon() {
        let tasks = Tasks::on_this_runtime();
        tasks.spawn_work_local(async {}).await.expect("it ended");
        assert!(!tasks.failed().is_cancelled());
        tasks.spawn_work_local(async { panic!("of the test") }).await.expect_err("it panicked");
        assert!(tasks.failed().is_cancelled());
    }

    #[tokio::test]
    async fn ok_calls_do_not_delay_the_daemons_own_tasks() {
        let calls = Calls::start(1).expect("threads");
        let tasks = Tasks::with_calls(&calls);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let call = tasks.spawn_call(async move {
            begin.send(()).expect("the receiver is waiting");
            held.recv()
        });
        begun.await.expect("the only thread of calls is held");
        let (kept, keeps) = tokio::sync::oneshot::channel();
        tasks.stopping().cancel();
        tasks.spawn("keeper", async { kept.send(()).expect("the receiver is waiting") });
        keeps.await.expect("it runs");
        drop(release);
        call.await.expect("it ended").expect_err("released");
    }
}
