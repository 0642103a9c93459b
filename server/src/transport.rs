//! Connections, and the dispatch of calls to services. Benchmarks justify the code that replaces parts of tonic.

pub(crate) mod admission;
pub(crate) mod calls;
pub(crate) mod connection;
mod expiry;
pub mod handshake;
pub(crate) mod issued;
pub(crate) mod lanes;
pub(crate) mod listen;
pub(crate) mod meters;
pub(crate) mod methods;
pub(crate) mod offload;
pub(crate) mod peer;
pub(crate) mod pieces;
pub(crate) mod port;
mod preface;
mod revocation;
pub(crate) mod tls;
mod traced;
mod turns;
pub mod workers;
