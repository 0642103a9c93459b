//! Images: copies of what a program has computed from the records, so that its next start is faster.
//!
//! An image is not a record, and nothing may depend on it: it can be missing, damaged or older than the records. A reader
//! must check whether an image fits the records, and must work without it if it does not.

use std::fmt;
use std::io;

/// A place for images.
pub trait Images: Send + Sync + fmt::Debug + 'static {
    /// Returns the smallest number of records that is worth an image.
    fn records_min(&self) -> usize;

    /// Opens the image with this name, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be opened. Its parts fail if they cannot be read or are not what was written; an image
    /// that was cut off fails at its end.
    fn open(&self, name: &str) -> io::Result<Option<Parts>>;

    /// Replaces the image with this name by these parts. Each part has 1 to [`PART_BYTES_MAX`] bytes. Blocks the calling
    /// thread.
    ///
    /// # Errors
    ///
    /// Fails if a part is an error, or if the image cannot be written, for example because it would take too much of
    /// the space that is left on the disk. The earlier image then stays.
    fn replace(&self, name: &str, parts: &mut dyn Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<()>;

    /// Removes the image with this name, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// The parts of an image, in order. After an error, there are no more parts.
pub type Parts = Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send>;

/// The maximum size of a part in bytes: 1 MiB.
pub const PART_BYTES_MAX: usize = 1 << 20;
