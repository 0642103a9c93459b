//! The Redis port of the Kent daemon: sequences for tools that know Redis but neither gRPC nor HTTP.
//!
//! `INCR` issues the next identifier of a region in counted order. The services answer within the process, so
//! permissions, limits, budgets, the audit log and the metrics are those of the gRPC port. The port is closed unless a
//! setting opens it.
//!
//! This crate is a part of the daemon, not a library: its interface changes with the daemon.

mod command;
mod connection;
mod failure;
mod issued;
mod reply;
mod request;
mod services;
mod session;

use std::sync::Arc;

use kent_transport::{
    accept::{Serving, accept},
    handshake::Handshakes,
    lanes::Lanes,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use crate::session::Session;

pub use services::Services;

/// Serves until `stop` is canceled, and returns when the commands in progress have been answered.
pub fn serve(
    sockets: TcpListener,
    handshakes: Handshakes,
    services: Arc<Services>,
    lanes: Arc<Lanes>,
    stop: CancellationToken,
) -> Serving {
    accept(sockets, handshakes, lanes, stop.clone(), move |connection| {
        let session = Session::new(services.clone(), connection.connect_info());
        connection::serve(connection, session, stop.clone())
    })
}
