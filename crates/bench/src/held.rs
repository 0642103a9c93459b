//! How long the hypervisor holds this machine's processors. It tells a stall of the machine from a stall of a server.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow};

use crate::{contest::Slice, process::TICKS};

/// The pause between two looks: one tick, which is the resolution of `/proc/stat`.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a slice, and adds the longest time for which the hypervisor held a processor.
///
/// Linux counts the time at the end of each hold, so the largest step from one look to the next is about the longest
/// hold. A machine that is not virtual has none.
pub(crate) fn measured(slice: impl FnOnce() -> anyhow::Result<Slice>) -> anyhow::Result<Slice> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| longest(&stop));
        let slice = slice();
        stop.store(true, Relaxed);
        let held = watch.join().map_err(|_| anyhow!("the thread that reads /proc/stat panicked"))??;
        Ok(Slice { held: Some(held), ..slice? })
    })
}

fn longest(stop: &AtomicBool) -> anyhow::Result<Duration> {
    let (mut longest, mut last) = (0, look()?);
    while !stop.load(Relaxed) {
        thread::sleep(PAUSE);
        let next = look()?;
        let steps = next.iter().zip(&last).map(|(next, last)| next.saturating_sub(*last));
        longest = steps.fold(longest, u32::max);
        last = next;
    }
    Ok(Duration::from_secs(1) / TICKS * longest)
}

fn look() -> anyhow::Result<Vec<u32>> {
    held(&fs::read_to_string("/proc/stat")?)
}

/// Returns the ticks for which each processor was held so far, from `/proc/stat`.
fn held(stat: &str) -> anyhow::Result<Vec<u32>> {
    let processors = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    // "cpu0 user nice system idle iowait irq softirq steal ...".
    let steal = |line: &str| line.split_whitespace().nth(8)?.parse().ok();
    processors.map(|line| steal(line).context("/proc/stat has no steal times")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_and_err_each_processor_has_its_time() {
        let stat = "cpu  9 9 9 9 9 9 9 12 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 4 0 0\nintr 77\n";
        assert_eq!(held(stat).expect("well-formed"), [8, 4]);
        assert!(held("cpu0 1 2 3 4 5 6 7\n").is_err());
    }
}
