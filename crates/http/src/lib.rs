//! The HTTP port of the Kent daemon.
//!
//! `serve` accepts the connections, and answers `/livez`, `/readyz` and `/metrics` from the start of the daemon. When the
//! daemon serves, `gateway` answers the API as JSON and gRPC-Web, and the console.
//!
//! This crate is a part of the daemon, not a library: its interface changes with the daemon.

mod gateway;
mod origins;
mod serve;

pub use gateway::{Gateway, Options};
pub use origins::Origins;
pub use serve::{Stage, serve};
