//! Loops over many identifiers, compiled for the widest registers that the processor has.
//!
//! A program for all processors of a kind may use the instructions only that the oldest of them has. Here the compiler makes a loop
//! several times, and which one runs is seen from the processor. The results are the same, to the bit.

use pulp::Arch;

/// Runs `work` with the vector instructions that this processor has. Only what is inlined into it uses them: closures within it
/// must be `#[inline(always)]`, as must be `work` itself.
#[inline]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
}
