//! The daemon's interface to its host: clocks, random bits, tasks and threads.

use std::sync::Arc;

use kent_store::Store;

pub(crate) mod address;
pub(crate) mod call;
pub mod clock;
pub(crate) mod computing;
pub(crate) mod deadline;
pub mod entropy;
pub(crate) mod flight;
pub(crate) mod latency;
pub(crate) mod process;
pub(crate) mod tasks;
pub(crate) mod touch;
pub(crate) mod trace;
pub(crate) mod watched;

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
