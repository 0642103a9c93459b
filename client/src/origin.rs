//! Detects forks. A child has a copy of its parent's prefetched identifiers and must not use them.

use crate::error::Error;

/// The process that created a value.
///
/// A handler of the C library counts forks in the child (`pthread_atfork`), so a check costs one load, whereas reading
/// the process ID is a system call. A child made by a bare `clone` or by `_Fork` is not detected, because neither runs
/// the handler.
#[derive(Clone, Debug)]
pub(crate) struct Origin(forkguard::Guard);

impl Origin {
    /// Returns the current process.
    pub(crate) fn here() -> Self {
        Self(forkguard::new())
    }

    /// Returns true in a forked child of that process, or in a descendant of such a child.
    #[inline]
    pub(crate) fn is_elsewhere(&self) -> bool {
        // A guard reports a fork only once, so the check uses a copy.
        self.0.clone().detected_fork()
    }

    /// Checks that this process is not a forked child.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] in a child. Call this before taking a lock, because in a child, the lock may be held forever
    /// by a thread that no longer exists.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_elsewhere() { Err(Error::Forked) } else { Ok(()) }
    }
}
