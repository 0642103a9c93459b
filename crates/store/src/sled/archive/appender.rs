//! The thread that appends to the archive while the store thread appends to the journal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Makes frames durable. Tests replace it to inject failures.
pub(in crate::sled) trait FrameWriter: Send {
    /// Writes a frame so that it survives power loss.
    fn append(&mut self, file: &File, frame: &[u8], at: u64) -> io::Result<()>;
}

/// The implementation outside of tests.
pub(in crate::sled) struct WriteAndSync;

impl FrameWriter for WriteAndSync {
    fn append(&mut self, file: &File, frame: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(frame, at)?;
        file.sync_data()
    }
}

/// A frame and its position.
pub(super) struct Job {
    pub(super) file: Arc<File>,
    pub(super) frame: Arc<Vec<u8>>,
    pub(super) at: u64,
}

/// The appending thread. It ends when this value is dropped.
pub(in crate::sled) struct Appender {
    jobs: Sender<Job>,
    done: Receiver<io::Result<()>>,
}

impl Appender {
    pub(in crate::sled) fn start(mut writer: Box<dyn FrameWriter>) -> io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let (sender, done) = channel();
        std::thread::Builder::new().name("kent-archive".into()).spawn(move || {
            for Job { file, frame, at } in queue {
                if sender.send(writer.append(&file, &frame, at)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, done })
    }

    /// Starts to append a frame. The caller must call [`Appender::end`] next.
    pub(super) fn begin(&self, job: Job) {
        // An error means that the thread has ended, which `end` reports.
        let _ended = self.jobs.send(job);
    }

    /// Waits until the frame is durable. Calls `late` if this takes long, so that the log explains why the store hangs.
    pub(super) fn end(&self, late: impl FnOnce()) -> io::Result<()> {
        let answer = match self.done.recv_timeout(LATE_AFTER) {
            Err(RecvTimeoutError::Timeout) => {
                late();
                self.done.recv().ok()
            }
            answer => answer.ok(),
        };
        answer.unwrap_or_else(|| Err(io::Error::other("the archive thread has ended")))
    }
}

/// The wait before `late` is called. It is shorter than the timeout of callers, so that the log names the archive
/// before they time out.
const LATE_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A writer that takes this long for every frame.
    struct Slow(Duration);

    impl FrameWriter for Slow {
        fn append(&mut self, _file: &File, _frame: &[u8], _at: u64) -> io::Result<()> {
            std::thread::sleep(self.0);
            Ok(())
        }
    }

    #[test]
    fn ok_a_slow_archive_is_reported() {
        for (takes, is_late) in [(Duration::ZERO, false), (LATE_AFTER + Duration::from_millis(300), true)] {
            let appender = Appender::start(Box::new(Slow(takes))).unwrap();
            let (file, reported) = (Arc::new(tempfile::tempfile().unwrap()), Cell::new(false));
            appender.begin(Job { file, frame: Arc::default(), at: 0 });
            appender.end(|| reported.set(true)).unwrap();
            assert_eq!(reported.get(), is_late, "{takes:?}");
        }
    }
}
