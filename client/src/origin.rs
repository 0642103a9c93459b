//! Forks: a child has a copy of all that its parent has in hand, and must not give it out.

use crate::error::Error;

/// The process in which something was made.
///
/// The C library counts forks in the child (`pthread_atfork`): a look costs a load, where a look at the process's number is a
/// system call. A child that is made past the C library, by `clone` or `_Fork`, is not noticed.
#[derive(Clone, Debug)]
pub(crate) struct Origin(forkguard::Guard);

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        Self(forkguard::new())
    }

    /// Whether this is a child of the process in which that was made, or a child's child.
    #[inline]
    pub(crate) fn is_elsewhere(&self) -> bool {
        // Of a copy, which forgets nothing: a guard says it only once.
        self.0.clone().detected_fork()
    }

    /// # Errors
    ///
    /// [`Error::Forked`] in a child. Ask before any lock is taken: in a child, a thread that is not there may hold it for ever.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_elsewhere() { Err(Error::Forked) } else { Ok(()) }
    }
}
