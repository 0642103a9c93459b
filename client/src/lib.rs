//! The Kent client: takes identifiers from prefetched blocks, without a call for each identifier.
//!
//! A [`Handle`] holds a block of identifiers and prefetches the next one. Taking an identifier is usually a local
//! operation, which works even while the daemon restarts.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kent_client::{Client, Error};
//!
//! let client = Client::new("127.0.0.1:7600")?;     // Client::builder() has more settings
//! let ids = client.uuid_v7();
//! let id: uuid::Uuid = ids.next().await?;          // from the current block, or from the daemon if it is empty
//! let more = ids.take(10_000).await?;              // distinct, in ascending blocks
//!
//! let orders = client.region("orders");
//! let order: u128 = orders.next().await?;
//!
//! // A strict region has no gaps and grants once per request ID: a retry returns the same block.
//! let invoices = client.region("invoices");
//! for invoice in invoices.fetch_block(3).request_id(id.to_string()).await? {
//!     println!("{invoice}");
//! }
//!
//! match orders.next().await {
//!     Err(Error::Refused { reason, message, .. }) => println!("{reason}: {message}"), // a retry would not help
//!     Err(error) if error.is_retryable() => println!("later: {error}"),
//!     other => println!("{}", other?),
//! }
//!
//! let table = client.table("default").await?;      // a local copy that follows every edit
//! let region = table.read(|table| Some(table.classify(order)?.path.last()?.name.clone()));
//!
//! let mut regions = client.connect().await?.regions(); // generated stubs for all other calls
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees:
//!
//! - A client returns each identifier at most once: no two tasks or clones of a handle get the same identifier. A lost
//!   reply leaves a gap, never a duplicate: a retry gets the next block.
//! - The client rejects a block if its fencing token is lower than one already seen for the same slot or region. A
//!   block that was fetched with a request ID is not rejected, because a retry returns the block of the first grant.
//! - A time-based identifier is at most [`Builder::max_age`] old when the client returns it, even if the process was
//!   stopped or the machine slept. When a thread takes more than four million identifiers per second, the client checks
//!   the age once for up to 128 of them.
//! - A forked child gets no identifiers that its parent prefetched: in the child, all handles fail with
//!   [`Error::Forked`]. Create a new client there, on a new runtime. A [`TableCopy`] does not work in a child either.
//!   Identifiers that the parent took before the fork exist in both processes. The client does not detect a child that
//!   was created by a bare `clone` or `_Fork`, because neither runs the fork handlers of the C library.
//! - A client connects when the first identifier is requested, and needs a tokio runtime only from then on.
//!
//! With the feature `opentelemetry`, calls carry the current OpenTelemetry context in the header `traceparent`, so that
//! their spans in the daemon belong to the caller's trace. Blocks that a handle prefetches belong to no trace.
//!
//! Identifiers that are left when a handle is dropped or the process exits are never used: they leave a gap.

mod age;
mod block;
mod clock;
mod config;
mod connection;
mod credentials;
mod daemon;
mod error;
mod fence;
mod handle;
mod identifier;
mod lot;
mod origin;
mod source;
mod stock;
mod table;
mod tasks;
#[cfg(feature = "opentelemetry")]
mod trace;

use std::sync::Arc;

pub use block::{Block, FetchBlock, Ids};
pub use config::{Builder, ConfigError};
pub use credentials::Credentials;
pub use daemon::Daemon;
pub use error::{Error, Tried};
pub use handle::Handle;
pub use identifier::Identifier;
pub use kent_ids::{Id, IdKind, Uid11};
/// The generated messages and stubs of the protocol.
pub use kent_proto::v1 as proto;
/// The types of regions, prefixes and classifications that [`TableCopy`] returns.
pub use kent_regions as regions;
use kent_tls::{Certificates, Target};
pub use stock::Stats;
pub use table::TableCopy;
/// The version of tonic that [`Error`] and the stubs use.
pub use tonic;
use tonic::{Status, service::interceptor::InterceptedService, transport};
use uuid::Uuid;

/// A connection to a daemon that sends the client's token with each call.
pub type Channel = InterceptedService<transport::Channel, Credentials>;

use crate::{config::Settings, connection::Connection, fence::Fences, handle::Shared};

/// A client of one or more daemons on the same store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Arc<Connection>,
    fences: Arc<Fences>,
}

impl Client {
    /// Creates a client of one daemon, such as `http://127.0.0.1:7600`, with default settings.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the address is not valid.
    pub fn new(endpoint: impl Into<String>) -> Result<Self, ConfigError> {
        Self::builder().endpoint(endpoint).build()
    }

    /// Returns a builder, to change the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn with(
        endpoints: Vec<Target>,
        tls: Option<Certificates>,
        credentials: Credentials,
        settings: Settings,
    ) -> Self {
        let connection = Connection::new(endpoints, tls, credentials, settings);
        Self { connection: Arc::new(connection), fences: Arc::default() }
    }

    /// Returns a handle for UUIDs of version 7, which start with milliseconds and sort by time.
    pub fn uuid_v7(&self) -> Handle<Uuid> {
        self.handle("uuidv7".to_owned())
    }

    /// Returns a handle for UUIDs of version 6, which start with ticks of 100 ns and sort by time.
    pub fn uuid_v6(&self) -> Handle<Uuid> {
        self.handle("uuidv6".to_owned())
    }

    /// Returns a handle for xids: 64-bit identifiers that start with milliseconds and sort by time.
    pub fn xid(&self) -> Handle<Uid11> {
        self.handle("xid".to_owned())
    }

    /// Returns a handle for the identifiers of a region: `NAME` in the space `default`, or `NAME@SPACE`.
    pub fn region(&self, region: &str) -> Handle<u128> {
        self.handle(format!("region:{region}"))
    }

    /// Returns a handle for the identifiers of any source, such as `uid11-fullrand`.
    pub fn source(&self, source: &str) -> Handle<Id> {
        self.handle(source.to_owned())
    }

    fn handle<T: Identifier>(&self, source: String) -> Handle<T> {
        Handle::new(Shared::new(&source, self.connection.clone(), self.fences.clone()))
    }

    /// Fetches a copy of the table of a space and keeps it up to date. The copy finds the region of an identifier
    /// without a call.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if there is no such space, [`Error::Unavailable`] if no endpoint answers within the request
    /// timeout, [`Error::NoRuntime`] outside of a tokio runtime, [`Error::Forked`] in a forked child.
    pub async fn table(&self, space: &str) -> Result<TableCopy, Error> {
        TableCopy::follow(self.connection.clone(), space).await
    }

    /// Connects to the first endpoint that accepts a connection, starting with the current one. If there are several
    /// endpoints, it prefers one that also answers a call. Use the connection to check that a daemon is reachable, or
    /// to make calls that handles do not make.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if no endpoint accepts a connection, [`Error::NoRuntime`] outside of a tokio runtime,
    /// [`Error::Forked`] in a forked child. There are no retries.
    pub async fn connect(&self) -> Result<Daemon, Error> {
        Ok(Daemon::new(self.connection.clone(), self.connection.connect().await?))
    }

    /// Returns the endpoint of the next call, such as `http://127.0.0.1:7600/`, to be shown in messages.
    pub fn endpoint(&self) -> String {
        self.connection.endpoint()
    }

    /// Retries a call until it succeeds, as handles do: on one endpoint after another, with exponential backoff, for up
    /// to [`Builder::request_timeout`]. Do not use this method for calls that must not take effect twice, such as an
    /// edit without a request ID.
    ///
    /// ```no_run
    /// # async fn example(client: kent_client::Client) -> Result<(), kent_client::Error> {
    /// use kent_client::proto::GetStatusRequest;
    ///
    /// let status = client.retry(async |daemon| daemon.admin().get_status(GetStatusRequest
    /// {}).await).await?.into_inner(); println!("version {}", status.version);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if a daemon refuses the call, [`Error::Limited`] if the caller must wait for one of its
    /// limits for longer than the timeout, [`Error::Unavailable`] after the timeout, [`Error::NoRuntime`] outside of a
    /// tokio runtime, [`Error::Forked`] in a forked child.
    pub async fn retry<T, F>(&self, mut call: impl FnMut(Daemon) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let call = |endpoint, channel, _| call(Daemon::new(self.connection.clone(), (endpoint, channel)));
        self.connection.retry(call).await
    }
}
