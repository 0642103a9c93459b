//! Starts the threads that serve connections, and chooses their processors.

use std::{io, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tracing::warn;

/// The threads that serve the connections of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// The number of threads. At least one is started.
    pub count: usize,
    /// Whether each thread always runs on the same processor.
    ///
    /// Otherwise, Linux may leave two of them on one processor for tens of milliseconds, while a thread of low priority
    /// has the other processor (docs/performance.md).
    pub is_pinned: bool,
}

impl Threads {
    /// Starts the threads, named `name` and their number. `work` returns the function that the next thread runs.
    ///
    /// # Errors
    ///
    /// If `work` fails, the processors cannot be read, or a thread cannot be started.
    pub(super) fn start<W: FnOnce() + Send + 'static>(
        self,
        name: &str,
        mut work: impl FnMut() -> io::Result<W>,
    ) -> io::Result<()> {
        let mut processors = if self.is_pinned { processors()? } else { Vec::new() }.into_iter().cycle();
        for number in 0..self.count.max(1) {
            let (work, processor) = (work()?, processors.next());
            thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                if let Some(processor) = processor
                    && let Err(error) = sched_setaffinity(None, &only(processor))
                {
                    warn!(%error, processor, "cannot pin a thread to its processor");
                }
                work();
            })?;
        }
        Ok(())
    }
}

/// Returns the processors that this process may use.
fn processors() -> io::Result<Vec<usize>> {
    let usable = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| usable.is_set(*processor)).collect())
}

fn only(processor: usize) -> CpuSet {
    let mut one = CpuSet::new();
    one.set(processor);
    one
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Starts threads, and returns the processors that each of them may use.
    fn started(threads: Threads) -> Vec<Vec<usize>> {
        let (found, finds) = mpsc::channel();
        let work = || {
            let found = found.clone();
            Ok(move || found.send(processors().expect("known")).expect("the test is waiting"))
        };
        threads.start("test", work).expect("started");
        drop(found);
        let mut all: Vec<_> = finds.iter().collect();
        all.sort();
        all
    }

    #[test]
    fn ok_pinned_threads_share_the_processors_evenly() {
        let usable = processors().expect("known");
        let count = 2 * usable.len();
        let mut expected: Vec<_> = usable.iter().chain(&usable).map(|processor| Vec::from([*processor])).collect();
        expected.sort();
        assert_eq!(started(Threads { count, is_pinned: true }), expected);
        assert_eq!(started(Threads { count: 3, is_pinned: false }), [(); 3].map(|()| usable.clone()));
    }

    #[test]
    fn err_work_that_cannot_be_prepared() {
        let work = || Err::<fn(), _>(io::ErrorKind::OutOfMemory.into());
        let failed = Threads { count: 1, is_pinned: false }.start("test", work);
        assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::OutOfMemory));
    }
}
