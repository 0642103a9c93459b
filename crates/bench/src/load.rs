//! Load on a server of `Allocator`: calls, streams and large replies, for a while.
//!
//! Connections are made before the clock runs. The load shares the machine with the server, and is the same for all servers.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use kent_client::proto::{
    AllocateRequest, Encoding, allocate_response::Identifiers, allocate_stream_response::Outcome,
    allocator_client::AllocatorClient,
};
use tokio::{task::JoinSet, time::sleep};
use tonic::transport::{Channel, Endpoint};

use crate::{contest::Slice, figures::now, lean::Lean};

/// A kind of load.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// Unary calls, so many at once in all. A caller goes from one of its connections to the next.
    Unary { ask: AllocateRequest, connections: usize, in_flight: usize },
    /// Streams on connections of their own, with so many requests on the way on each.
    Stream { ask: AllocateRequest, connections: usize, depth: usize },
    /// One stream, of which the bytes of packed identifiers are counted; at most so many.
    Packed { ask: AllocateRequest, depth: usize, most: u64 },
}

/// Large replies need large windows and frames on the client's side.
const WINDOW_BYTES: u32 = 16 << 20;
const FRAME_BYTES: u32 = 1 << 20;

/// How long connections have to close: so long, and as much for each.
const SETTLE: Duration = Duration::from_millis(3);
const SETTLE_EACH: Duration = Duration::from_micros(100);

/// A connection to a server of gRPC.
pub(crate) async fn connect(address: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .tcp_nodelay(true)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .max_frame_size(Some(FRAME_BYTES));
    endpoint.connect().await.context("no connection")
}

/// A request for a block, to be expanded by the client.
pub(crate) fn lease(source: &str, count: u64) -> AllocateRequest {
    AllocateRequest { source: source.to_owned(), count, encoding: Encoding::Lease.into(), ..AllocateRequest::default() }
}

/// A request for finished identifiers.
pub(crate) fn packed(source: &str, count: u64) -> AllocateRequest {
    AllocateRequest { encoding: Encoding::Packed.into(), ..lease(source, count) }
}

/// Puts load on a server for a while.
pub(crate) async fn run(load: &Load, address: &str, length: Duration) -> anyhow::Result<Slice> {
    let mut tasks = JoinSet::new();
    let (began, connections) = match load {
        Load::Unary { ask, connections, in_flight } => {
            let callers = (*connections).min(*in_flight);
            let mut own: Vec<Vec<Lean>> = (0..callers).map(|_| Vec::new()).collect();
            for number in 0..*connections {
                own[number % callers].push(Lean::connect(address, ask).await?);
            }
            let began = now();
            for (number, own) in own.into_iter().enumerate() {
                let at_once = in_flight / callers + usize::from(number < in_flight % callers);
                tasks.spawn(call(own, at_once, began + length));
            }
            (began, *connections)
        }
        Load::Stream { ask, connections, depth } => {
            let channels = connect_all(address, *connections).await?;
            let began = now();
            for channel in channels {
                tasks.spawn(stream(channel, ask.clone(), *depth, began + length, None));
            }
            (began, *connections)
        }
        Load::Packed { ask, depth, most } => {
            let channel = connect(address).await?;
            let began = now();
            tasks.spawn(stream(channel, ask.clone(), *depth, began + length, Some(*most)));
            (began, 1)
        }
    };
    let slice = gather(tasks, began).await;
    settle(connections).await;
    slice
}

async fn connect_all(address: &str, count: usize) -> anyhow::Result<Vec<Channel>> {
    let mut channels = Vec::new();
    for _ in 0..count {
        channels.push(connect(address).await?);
    }
    Ok(channels)
}

/// Lets the tasks end, here and in the server, that close connections. They must not run at the cost of the next contender.
pub(crate) async fn settle(connections: usize) {
    sleep(SETTLE + SETTLE_EACH * u32::try_from(connections).unwrap_or(u32::MAX)).await;
}

/// What all tasks did together, from their beginning to the end of the last one.
pub(crate) async fn gather(mut tasks: JoinSet<anyhow::Result<Slice>>, began: Instant) -> anyhow::Result<Slice> {
    let mut sum = Slice::default();
    while let Some(slice) = tasks.join_next().await {
        sum.add(slice??);
    }
    sum.took = began.elapsed();
    Ok(sum)
}

/// Calls on a connection, so many at once; on several, one call after the other on each in turn.
async fn call(mut own: Vec<Lean>, at_once: usize, end: Instant) -> anyhow::Result<Slice> {
    if own.len() == 1
        && let Some(only) = own.pop()
    {
        return only.run(at_once, end).await;
    }
    let mut slice = Slice::default();
    loop {
        for lean in &mut own {
            lean.call(&mut slice).await?;
            if now() >= end {
                return Ok(slice);
            }
        }
    }
}

/// A stream with so many requests on the way. It counts answers, or else bytes up to a number.
async fn stream(
    channel: Channel,
    ask: AllocateRequest,
    depth: usize,
    end: Instant,
    bytes: Option<u64>,
) -> anyhow::Result<Slice> {
    let mut client = AllocatorClient::new(channel).max_decoding_message_size(usize::MAX);
    let (requests, outgoing) = tokio::sync::mpsc::channel(depth);
    let (mut slice, mut asked) = (Slice::default(), VecDeque::new());
    for _ in 0..depth {
        requests.try_send(ask.clone()).context("the channel has room")?;
        asked.push_back(now());
    }
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
    let mut replies = client.allocate_stream(outgoing).await?.into_inner();
    loop {
        let Some(reply) = replies.message().await? else { bail!("the stream ended") };
        let answered = now();
        if let Some(asked) = asked.pop_front() {
            slice.call(answered - asked);
        }
        slice.count += match (reply.outcome, bytes) {
            (Some(Outcome::Granted(granted)), Some(_)) => match granted.identifiers {
                Some(Identifiers::Packed(packed)) => packed.data.len() as u64, // OK because a usize has 64 bits at most
                _ => bail!("a lease instead of identifiers"),
            },
            (Some(Outcome::Granted(_)), None) => 1,
            (Some(Outcome::Refused(status)), _) => bail!("refused: {}", status.message),
            (None, _) => bail!("an empty answer"),
        };
        if answered >= end || bytes.is_some_and(|most| slice.count >= most) {
            return Ok(slice);
        }
        requests.send(ask.clone()).await.ok().context("the stream takes no more")?;
        asked.push_back(answered);
    }
}
