//! Two computations at the same time, for programs that have threads. This crate has none.

/// A way to run two functions.
pub trait Join {
    /// Runs both functions, and returns their results.
    fn join<A: Send, B: Send>(&self, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B);
}

/// Runs one function after the other.
#[derive(Clone, Copy, Debug)]
pub struct InTurn;

impl Join for InTurn {
    fn join<A: Send, B: Send>(&self, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
        (one(), other())
    }
}
