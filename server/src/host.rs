//! What the daemon takes from the machine under it: clocks, chance, tasks and their threads.

use std::sync::Arc;

use kent_store::Store;

pub mod clock;
pub(crate) mod computing;
pub(crate) mod deadline;
pub mod entropy;
pub(crate) mod tasks;

/// What a daemon takes from the world around it.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Where its state is kept.
    pub store: Arc<dyn Store>,
    /// Where it gets the time from.
    pub clock: Arc<dyn clock::Clock>,
    /// Where it gets random bits from.
    pub entropy: Arc<dyn entropy::Entropy>,
}
