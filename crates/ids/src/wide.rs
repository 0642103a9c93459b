//! Compiles loops over many identifiers for the widest vector registers of the processor.
//!
//! By default, the compiler uses only the instructions that every processor of the target architecture has. In this
//! module, the compiler compiles each loop once per instruction set, and the program picks a version at run time. All
//! versions compute exactly the same results.

use pulp::Arch;

/// Runs `work` with the vector instructions of this processor. Only code that is inlined into `work` uses them, so
/// `work` and every closure in it must be `#[inline(always)]`.
#[inline]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
}
