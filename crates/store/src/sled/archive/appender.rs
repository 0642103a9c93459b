//! The thread that appends to the archive while the store's own thread appends to the journal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

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
        let (tell, done) = channel();
        std::thread::Builder::new().name("kent-archive".into()).spawn(move || {
            for Job { file, frame, at } in queue {
                if tell.send(ship.append(&file, &frame, at)).is_err() {
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

    /// Returns when what was begun is durable.
    pub(super) fn end(&self) -> io::Result<()> {
        self.done.recv().unwrap_or_else(|_ended| Err(io::Error::other("the thread of the archive has ended")))
    }
}
