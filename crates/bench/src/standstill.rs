//! How long the machine, or its hypervisor, stops this process. It tells a stall of the machine from a stall of a server.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use anyhow::anyhow;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

use crate::{contest::Slice, figures::now};

/// The time from one look at the clock to the next.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs a slice, and adds how late a thread was at most that wakes every millisecond.
///
/// The thread has the highest priority that the system allows, and hardly uses the processor. So it is late when the
/// machine stands still, and not when the processors are busy.
pub(crate) fn measured(slice: impl FnOnce() -> anyhow::Result<Slice>) -> anyhow::Result<Slice> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| latest(&stop));
        let slice = slice();
        stop.store(true, Relaxed);
        let standstill = watch.join().map_err(|_| anyhow!("the thread that looks at the clock panicked"))?;
        Ok(Slice { standstill: Some(standstill), ..slice? })
    })
}

fn latest(stop: &AtomicBool) -> Duration {
    // OK because this call fails only without the privilege. Then busy processors make the thread late, too.
    let _ = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Max,
        ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other),
    );
    let (mut latest, mut last) = (Duration::ZERO, now());
    while !stop.load(Relaxed) {
        thread::sleep(PAUSE);
        let next = now();
        latest = latest.max((next - last).saturating_sub(PAUSE));
        last = next;
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_slice_has_its_longest_standstill() {
        let slice = measured(|| {
            thread::sleep(5 * PAUSE);
            Ok(Slice { count: 7, ..Slice::default() })
        });
        let slice = slice.expect("measured");
        assert_eq!(slice.count, 7);
        assert!(slice.standstill.is_some_and(|longest| longest > Duration::ZERO), "a sleep takes a little longer");
    }
}
