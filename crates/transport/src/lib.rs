//! The connections of the Kent daemon, and the dispatch of calls to services. Benchmarks justify the code that replaces
//! parts of tonic.
//!
//! This crate is a part of the daemon, not a library: its interface changes with the daemon.

pub mod accept;
pub mod admission;
pub mod allocator;
pub mod callers;
pub mod calls;
pub mod connection;
mod direct;
mod expiry;
pub mod handshake;
pub mod http2;
pub mod issued;
pub mod lanes;
pub mod listen;
pub mod meters;
pub mod methods;
pub mod offload;
pub mod peer;
pub mod pieces;
pub mod port;
mod preface;
pub mod probe;
mod revocation;
pub mod threads;
pub mod tls;
mod traced;
mod turns;
mod waiting;
pub mod workers;
