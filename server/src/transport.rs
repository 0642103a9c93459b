//! Connections, and what happens to a call on its way to a service. What is here is here because it was measured.

pub(crate) mod offload;
pub(crate) mod port;
pub mod workers;
