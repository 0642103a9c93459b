//! Another caller, which makes calls while a slice runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use anyhow::anyhow;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::runtime;

use crate::contest::Slice;

/// Runs a slice while a separate thread makes calls. When the slice ends, sets the flag that stops the calls.
pub(crate) fn during(
    slice: impl FnOnce() -> anyhow::Result<Slice>,
    calls: impl AsyncFnOnce(&AtomicBool) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<Slice> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let other = thread::spawn(move || {
        // In practice, the other caller is on another machine, so this thread must not take processor time from the
        // daemon. OK because this call fails only if the system forbids changing priorities.
        let _ = set_thread_priority_and_policy(
            thread_native_id(),
            ThreadPriority::Min,
            ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle),
        );
        runtime::Builder::new_current_thread().enable_all().build()?.block_on(calls(&stopped))
    });
    let slice = slice();
    stop.store(true, Relaxed);
    other.join().map_err(|_| anyhow!("the other caller panicked"))??;
    slice
}
