//! The Kent client: identifiers at hand, without a call for each.
//!
//! A [`Handle`] keeps a block of identifiers in hand and fetches the next one before it is needed. Taking an identifier is a
//! local operation most of the time; the daemon may restart meanwhile without the caller noticing.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kent_client::Client;
//!
//! let client = Client::new("http://127.0.0.1:7600")?;
//! let ids = client.uuid_v7();
//! let id: uuid::Uuid = ids.next().await?;          // from the block in hand, or from the daemon if there is none
//! let more = ids.take(10_000).await?;              // as many as asked for, distinct and ascending
//!
//! let orders = client.region("orders");
//! let order: u128 = orders.next().await?;
//!
//! let table = client.table("default").await?;      // a copy that follows the daemon's
//! let region = table.read(|table| Some(table.classify(order)?.path.last()?.name.clone()));
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
mod clock;
mod config;
mod connection;
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

pub use config::{Builder, ConfigError};
pub use error::Error;
pub use handle::Handle;
pub use identifier::Identifier;
pub use kent_ids::{Id, IdKind, Uid11};
/// Messages and raw stubs of the protocol.
pub use kent_proto::v1 as proto;
use kent_proto::v1::{
    admin_client::AdminClient, allocator_client::AllocatorClient, codec_client::CodecClient,
    regions_client::RegionsClient,
};
/// Regions, prefixes and classification, as [`TableCopy`] shows them.
pub use kent_regions as regions;
pub use stock::Stats;
pub use table::TableCopy;
use tonic::transport::{Channel, Endpoint};
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

    /// The raw stub of `Allocator`, on the endpoint in use. Call it inside a tokio runtime.
    pub fn allocator(&self) -> AllocatorClient<Channel> {
        AllocatorClient::new(self.connection.channel())
    }

    /// The raw stub of `Regions`, on the endpoint in use. Call it inside a tokio runtime.
    pub fn regions(&self) -> RegionsClient<Channel> {
        RegionsClient::new(self.connection.channel())
    }

    /// The raw stub of `Codec`, on the endpoint in use. Call it inside a tokio runtime.
    pub fn codec(&self) -> CodecClient<Channel> {
        CodecClient::new(self.connection.channel())
    }

    /// The raw stub of `Admin`, on the endpoint in use. Call it inside a tokio runtime.
    pub fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.connection.channel())
    }
}
