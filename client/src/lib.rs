//! The Kent client: identifiers at hand, without a call for each.
//!
//! A [`Handle`] keeps a block of identifiers in hand and fetches the next one before it is needed. Taking an identifier is a
//! local operation most of the time; the daemon may restart meanwhile without the caller noticing.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kent_client::{Client, Error};
//!
//! let client = Client::new("127.0.0.1:7600")?;     // or Client::builder(), for several endpoints and other settings
//! let ids = client.uuid_v7();
//! let id: uuid::Uuid = ids.next().await?;          // from the block in hand, or from the daemon if there is none
//! let more = ids.take(10_000).await?;              // as many as asked for, distinct and ascending
//!
//! let orders = client.region("orders");
//! let order: u128 = orders.next().await?;
//!
//! // A strict region has no gaps, and grants each request_id once: to ask again gives the same block.
//! let invoices = client.region("invoices");
//! for invoice in invoices.fetch_block(3).request_id(id.to_string()).await? {
//!     println!("{invoice}");
//! }
//!
//! match orders.next().await {
//!     Err(Error::Refused { reason, message, .. }) => println!("{reason}: {message}"), // asking again does not help
//!     Err(error) if error.is_retryable() => println!("later: {error}"),
//!     other => println!("{}", other?),
//! }
//!
//! let table = client.table("default").await?;      // a copy that follows the daemon's
//! let region = table.read(|table| Some(table.classify(order)?.path.last()?.name.clone()));
//!
//! let mut regions = client.connect().await?.regions(); // all else goes through the raw stubs of a daemon
//! # Ok(())
//! # }
//! ```
//!
//! Promises:
//!
//! - An identifier leaves a client at most once, however many clones of a handle and tasks there are. A lost reply is a gap,
//!   never a duplicate: a retry takes the next block.
//! - A block is refused if its fencing token is older than one already seen for the same slot or region.
//! - A time-based identifier is at most [`Builder::max_age`] older than the moment at which it is taken, also when the process was
//!   stopped or the machine slept. Identifiers that a thread takes faster than four million a second share a moment, 128 at most.
//! - A forked child gets nothing that its parent has in hand: there, all handles say [`Error::Forked`]. Make a new client in the
//!   child, on a runtime of its own (neither a runtime nor a [`TableCopy`] goes on in a child). What the parent took before the
//!   fork is in both. A child that is made past the C library, by a bare `clone` or `_Fork`, is not noticed.
//! - Nothing connects before the first identifier is asked for. A client needs a tokio runtime only then.
//!
//! What stays in hand when a handle is dropped, or the process ends, is a gap.

mod age;
mod block;
mod clock;
mod config;
mod connection;
mod daemon;
mod error;
mod fence;
mod handle;
mod identifier;
mod lot;
mod origin;
mod stock;
mod table;
mod tasks;

use std::sync::Arc;

pub use block::{Block, FetchBlock, Ids};
pub use config::{Builder, ConfigError};
pub use daemon::Daemon;
pub use error::{Error, Tried};
pub use handle::Handle;
pub use identifier::Identifier;
pub use kent_ids::{Id, IdKind, Uid11};
/// Messages and raw stubs of the protocol.
pub use kent_proto::v1 as proto;
/// Regions, prefixes and classification, as [`TableCopy`] shows them.
pub use kent_regions as regions;
pub use stock::Stats;
pub use table::TableCopy;
/// gRPC, of the version that is seen in [`Error`] and the raw stubs.
pub use tonic;
use tonic::{Status, transport::Endpoint};
use uuid::Uuid;

use crate::{config::Settings, connection::Connection, fence::Fences, handle::Shared};

/// A connection to one or several daemons of one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Arc<Connection>,
    fences: Arc<Fences>,
}

impl Client {
    /// A client of one daemon, such as `http://127.0.0.1:7600`, with default settings.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the address is none.
    pub fn new(endpoint: impl Into<String>) -> Result<Self, ConfigError> {
        Self::builder().endpoint(endpoint).build()
    }

    /// A client with settings of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn with(endpoints: Vec<Endpoint>, settings: Settings) -> Self {
        Self { connection: Arc::new(Connection::new(endpoints, settings)), fences: Arc::default() }
    }

    /// UUIDs of version 7: milliseconds first, so that they sort by time.
    pub fn uuid_v7(&self) -> Handle<Uuid> {
        self.handle("uuidv7".to_owned())
    }

    /// UUIDs of version 6: 100 ns ticks first.
    pub fn uuid_v6(&self) -> Handle<Uuid> {
        self.handle("uuidv6".to_owned())
    }

    /// xids: 64 bits, 11 symbols of text, milliseconds first.
    pub fn xid(&self) -> Handle<Uid11> {
        self.handle("xid".to_owned())
    }

    /// The identifiers of a region: `NAME` in the space `default`, or `NAME@SPACE`.
    pub fn region(&self, region: &str) -> Handle<u128> {
        self.handle(format!("region:{region}"))
    }

    /// The identifiers of any source, by its name.
    pub fn source(&self, source: &str) -> Handle<Id> {
        self.handle(source.to_owned())
    }

    fn handle<T: Identifier>(&self, source: String) -> Handle<T> {
        Handle::new(Shared::new(source, self.connection.clone(), self.fences.clone()))
    }

    /// A copy of the table of a space, kept up to date: which region an identifier is of is answered without a call.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if there is no such space, [`Error::Unavailable`] if no endpoint answers within the time for a
    /// request, [`Error::NoRuntime`] outside of a tokio runtime.
    pub async fn table(&self, space: &str) -> Result<TableCopy, Error> {
        TableCopy::follow(self.connection.clone(), space).await
    }

    /// Connects to the first endpoint that accepts a connection, beginning with the one in use: to know that a daemon is there
    /// before identifiers are needed, and to call what handles do not.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if none does, at once.
    pub async fn connect(&self) -> Result<Daemon, Error> {
        Ok(Daemon::new(self.connection.clone(), self.connection.connect().await?))
    }

    /// Makes a call until it is answered, as handles do: at one endpoint after the other, with growing pauses, until
    /// [`Builder::request_timeout`] is over. Only for what may happen twice: an edit without a request_id may not.
    ///
    /// ```no_run
    /// # async fn example(client: kent_client::Client) -> Result<(), kent_client::Error> {
    /// use kent_client::proto::GetStatusRequest;
    ///
    /// let status = client.retry(async |daemon| daemon.admin().get_status(GetStatusRequest {}).await).await?.into_inner();
    /// println!("version {}", status.version);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with what a daemon said, [`Error::Unavailable`] when the time is over.
    pub async fn retry<T, F>(&self, mut call: impl FnMut(Daemon) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let call = |endpoint, channel, _| call(Daemon::new(self.connection.clone(), (endpoint, channel)));
        self.connection.retry(call).await
    }
}
