//! Connections, and the dispatch of calls to services. Each part exists because a benchmark showed a gain.

pub(crate) mod admission;
pub(crate) mod calls;
pub(crate) mod connection;
mod expiry;
pub mod handshake;
pub(crate) mod listen;
pub(crate) mod meters;
pub(crate) mod methods;
pub(crate) mod offload;
pub(crate) mod peer;
pub(crate) mod port;
pub(crate) mod tls;
pub mod workers;
