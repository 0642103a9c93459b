//! The thread that appends to the archive while the store's own thread appends to the journal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How a frame is made durable: the seam at which tests let it fail.
pub(in crate::sled) trait Ship: Send {
    /// Writes a frame, and returns when it survives power loss.
    fn append(&mut self, file: &File, frame: &[u8], at: u64) -> io::Result<()>;
}

/// The real one.
pub(in crate::sled) struct WriteAndSync;

impl Ship for WriteAndSync {
    fn append(&mut self, file: &File, frame: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(frame, at)?;
        file.sync_data()
    }
}

/// A frame, and where it goes.
pub(super) struct Job {
    pub(super) file: Arc<File>,
    pub(super) frame: Arc<Vec<u8>>,
    pub(super) at: u64,
}

/// The thread, which ends when this is dropped.
pub(in crate::sled) struct Appender {
    jobs: Sender<Job>,
    done: Receiver<io::Result<()>>,
}

impl Appender {
    pub(in crate::sled) fn start(mut ship: Box<dyn Ship>) -> io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let (sender, done) = channel();
        std::thread::Builder::new().name("kent-archive".into()).spawn(move || {
            for Job { file, frame, at } in queue {
                if sender.send(ship.append(&file, &frame, at)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, done })
    }

    /// Begins to append. [`Appender::end`] has to follow.
    pub(super) fn begin(&self, job: Job) {
        // An error means that the thread has ended, which `end` says.
        let _ended = self.jobs.send(job);
    }

    /// Returns when what was begun is durable. Says `late` where that takes long: a share that hangs looks like a store that does.
    pub(super) fn end(&self, late: impl FnOnce()) -> io::Result<()> {
        let answer = match self.done.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => {
                late();
                self.done.recv().ok()
            }
            answer => answer.ok(),
        };
        answer.unwrap_or_else(|| Err(io::Error::other("the thread of the archive has ended")))
    }
}

/// Less than callers wait for the store, so that the log says first whose fault it is.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Takes a while.
    struct Slow(Duration);

    impl Ship for Slow {
        fn append(&mut self, _file: &File, _frame: &[u8], _at: u64) -> io::Result<()> {
            std::thread::sleep(self.0);
            Ok(())
        }
    }

    #[test]
    fn ok_an_archive_that_hangs_is_named() {
        for (takes, is_late) in [(Duration::ZERO, false), (PATIENCE + Duration::from_millis(300), true)] {
            let appender = Appender::start(Box::new(Slow(takes))).unwrap();
            let (file, told) = (Arc::new(tempfile::tempfile().unwrap()), Cell::new(false));
            appender.begin(Job { file, frame: Arc::default(), at: 0 });
            appender.end(|| told.set(true)).unwrap();
            assert_eq!(told.get(), is_late, "{takes:?}");
        }
    }
}
