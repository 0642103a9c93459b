//! Load on a server of `Allocator`: calls, streams and large replies, for a while.

use std::time::Duration;

use anyhow::{Context, bail};
use kent_client::proto::{
    AllocateRequest, Encoding, allocate_response::Identifiers, allocate_stream_response::Outcome,
    allocator_client::AllocatorClient,
};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::figures::now;

/// What a slice of load came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    /// Answers.
    pub(crate) answers: u64,
    /// Octets of packed identifiers.
    pub(crate) octets: u64,
    pub(crate) took: Duration,
    /// How long each call took, in microseconds; of streams, none.
    pub(crate) micros: Vec<u32>,
}

/// A kind of load.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// So many unary calls at once, on one connection, of a lease of 1000 uuidv7.
    Unary { in_flight: usize },
    /// Streams on connections of their own, with so many requests on the way on each.
    Stream { connections: usize, depth: usize },
    /// One stream of packed replies of 2 MiB, with so many requests on the way.
    Packed { source: &'static str, count: u64, depth: usize },
}

/// Large replies need large windows and frames on the client's side.
const WINDOW_BYTES: u32 = 16 << 20;
const FRAME_BYTES: u32 = 1 << 20;

async fn connect(address: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .tcp_nodelay(true)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .max_frame_size(Some(FRAME_BYTES));
    endpoint.connect().await.context("no connection")
}

fn lease() -> AllocateRequest {
    let (source, encoding) = ("uuidv7".to_owned(), Encoding::Lease.into());
    AllocateRequest { source, count: 1000, encoding, ..AllocateRequest::default() }
}

/// Puts load on a server for a while.
pub(crate) async fn run(load: Load, address: &str, length: Duration) -> anyhow::Result<Slice> {
    let mut tasks = JoinSet::new();
    let began = now();
    match load {
        Load::Unary { in_flight } => {
            let channel = connect(address).await?;
            (0..in_flight).for_each(|_| drop(tasks.spawn(call(channel.clone(), length))));
        }
        Load::Stream { connections, depth } => {
            for _ in 0..connections {
                tasks.spawn(stream(connect(address).await?, lease(), depth, length));
            }
        }
        Load::Packed { source, count, depth } => {
            let (source, encoding) = (source.to_owned(), Encoding::Packed.into());
            let packed = AllocateRequest { source, count, encoding, ..AllocateRequest::default() };
            tasks.spawn(stream(connect(address).await?, packed, depth, length));
        }
    }
    let mut sum = Slice::default();
    while let Some(slice) = tasks.join_next().await {
        let slice = slice??;
        sum.answers += slice.answers;
        sum.octets += slice.octets;
        sum.micros.extend(slice.micros);
    }
    sum.took = began.elapsed();
    Ok(sum)
}

/// One call after the other.
async fn call(channel: Channel, length: Duration) -> anyhow::Result<Slice> {
    let mut client = AllocatorClient::new(channel);
    let (began, mut slice) = (now(), Slice::default());
    while began.elapsed() < length {
        let asked = now();
        client.allocate(lease()).await?;
        slice.micros.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
        slice.answers += 1;
    }
    Ok(slice)
}

/// A stream with so many requests on the way.
async fn stream(channel: Channel, ask: AllocateRequest, depth: usize, length: Duration) -> anyhow::Result<Slice> {
    let mut client = AllocatorClient::new(channel).max_decoding_message_size(usize::MAX);
    let (requests, outgoing) = tokio::sync::mpsc::channel(depth);
    for _ in 0..depth {
        requests.try_send(ask.clone()).context("the channel has room")?;
    }
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
    let mut replies = client.allocate_stream(outgoing).await?.into_inner();
    let (began, mut slice) = (now(), Slice::default());
    while began.elapsed() < length {
        let Some(reply) = replies.message().await? else { bail!("the stream ended") };
        match reply.outcome {
            Some(Outcome::Granted(granted)) => {
                slice.answers += 1;
                if let Some(Identifiers::Packed(packed)) = granted.identifiers {
                    slice.octets += packed.data.len() as u64; // OK because a usize has 64 bits at most
                }
            }
            Some(Outcome::Refused(status)) => bail!("refused: {}", status.message),
            None => bail!("an empty answer"),
        }
        requests.send(ask.clone()).await.ok().context("the stream takes no more")?;
    }
    Ok(slice)
}
