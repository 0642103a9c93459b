//! The generated stubs of one daemon, for calls that handles do not make.

use std::{fmt, sync::Arc};

use kent_proto::v1::{
    access_client::AccessClient, admin_client::AdminClient, allocator_client::AllocatorClient,
    codec_client::CodecClient, layouts_client::LayoutsClient, regions_client::RegionsClient,
};

use crate::{Channel, connection::Connection};

/// A connection to one daemon, with the generated stubs of its services: for edits, status, history and so on.
///
/// Each call is made once, to this daemon. A call has no timeout unless the request sets one.
/// [`Client::retry`](crate::Client::retry) retries a call.
///
/// ```no_run
/// # async fn example(client: kent_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use kent_client::{proto::CreateRegionRequest, tonic::Request};
///
/// let daemon = client.connect().await?;
/// let mut create = Request::new(CreateRegionRequest {
///     parent: "spaces/default".to_owned(),
///     region_id: "orders".to_owned(),
///     suffix_bits: Some(40),
///     ..CreateRegionRequest::default()
/// });
/// create.set_timeout(std::time::Duration::from_secs(10));
/// let region = daemon.regions().create_region(create).await?.into_inner();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Daemon {
    connection: Arc<Connection>,
    endpoint: usize,
    channel: Channel,
}

/// The maximum size of a message: a part of a snapshot has several hundred regions, each with up to several thousand
/// bytes of text.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

impl Daemon {
    pub(crate) fn new(connection: Arc<Connection>, (endpoint, channel): (usize, Channel)) -> Self {
        Self { connection, endpoint, channel }
    }

    /// Returns the generated stub of `Allocator`.
    pub fn allocator(&self) -> AllocatorClient<Channel> {
        AllocatorClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Returns the generated stub of `Regions`.
    pub fn regions(&self) -> RegionsClient<Channel> {
        RegionsClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Returns the generated stub of `Codec`.
    pub fn codec(&self) -> CodecClient<Channel> {
        CodecClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Returns the generated stub of `Layouts`.
    pub fn layouts(&self) -> LayoutsClient<Channel> {
        LayoutsClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Returns the generated stub of `Admin`.
    pub fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Returns the generated stub of `Access`.
    pub fn access(&self) -> AccessClient<Channel> {
        AccessClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Stops using this daemon: the client continues with the next endpoint.
    pub fn leave(self) {
        self.connection.leave(self.endpoint);
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
