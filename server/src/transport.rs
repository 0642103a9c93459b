//! Connections, and the dispatch of calls to services. Each part exists because a benchmark showed a gain.

pub(crate) mod offload;
pub(crate) mod port;
pub mod workers;
