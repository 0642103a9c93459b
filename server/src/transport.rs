//! Connections, and the dispatch of calls to services. Each part exists because a benchmark showed a gain.

pub mod connection;
pub mod handshake;
pub(crate) mod offload;
pub mod peer;
pub(crate) mod port;
pub mod tls;
pub mod workers;
