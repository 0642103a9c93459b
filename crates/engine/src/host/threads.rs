//! Two computations at the same time.

use std::{panic::resume_unwind, thread};

use kent_regions::{InTurn, Join};

/// The work for fewer items takes some milliseconds, and is not worth another thread.
const ITEMS_MIN: usize = 10_000;

/// Runs one of two functions on another thread, if they have enough work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// The number of items, such as regions, that the functions work on.
    pub(crate) items: usize,
}

impl Join for Threads {
    fn join<A: Send, B: Send>(&self, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
        if self.items < ITEMS_MIN {
            return InTurn.join(one, other);
        }
        thread::scope(|scope| {
            let one = scope.spawn(one);
            let other = other();
            (one.join().unwrap_or_else(|panic| resume_unwind(panic)), other)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::catch_unwind, thread::current};

    use super::*;

    #[test]
    fn two_functions_run_on_two_threads_if_there_is_enough_work() {
        for (items, is_other) in [(0, false), (ITEMS_MIN - 1, false), (ITEMS_MIN, true)] {
            let (one, other) = Threads { items }.join(|| current().id(), || (current().id(), items));
            assert_eq!(other, (current().id(), items));
            assert_eq!(one != other.0, is_other, "{items} items");
            catch_unwind(|| Threads { items }.join(|| panic!("of the test"), || 1).1).expect_err("it panicked");
        }
    }
}
