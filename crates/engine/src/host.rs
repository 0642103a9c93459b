//! The daemon's interface to its host: clocks, random bits, tasks and threads.

use std::sync::Arc;

use kent_store::Store;

pub mod address;
pub mod arrivals;
pub mod call;
pub mod clock;
pub mod computing;
pub mod deadline;
pub mod entropy;
pub mod flight;
pub mod latency;
pub mod process;
pub mod tasks;
pub(crate) mod threads;
pub mod touch;
pub mod trace;
pub mod watched;

/// The store, the clock and the random bits that a daemon uses; the simulator supplies its own implementations.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The store that holds the daemon's state.
    pub store: Arc<dyn Store>,
    /// The daemon's clocks.
    pub clock: Arc<dyn clock::Clock>,
    /// The daemon's source of random bits.
    pub entropy: Arc<dyn entropy::Entropy>,
}
