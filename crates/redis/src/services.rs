//! The services behind the port.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use kent_engine::engine::Engine;
use kent_transport::{allocator::AllocatorService, port::InnerPort};

/// The services behind the port.
pub struct Services {
    pub(crate) engine: Arc<Engine>,
    /// Answers all calls except those for identifiers.
    pub(crate) port: InnerPort,
    /// Issues runs of integers.
    pub(crate) integers: AllocatorService,
    /// The number of the last connection.
    connections: AtomicI64,
}

impl Services {
    /// `port` answers the calls that read regions.
    pub fn new(engine: Arc<Engine>, port: InnerPort) -> Self {
        let integers = AllocatorService::of_integers(engine.clone());
        Self { engine, port, integers, connections: AtomicI64::new(0) }
    }

    /// A number for a new connection.
    pub(crate) fn number(&self) -> i64 {
        self.connections.fetch_add(1, Relaxed).wrapping_add(1)
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Services")
    }
}
