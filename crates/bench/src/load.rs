//! Load on an `Allocator` server: unary calls, streams and large responses.
//!
//! Connections are opened before the measured time. The load generator shares the machine with the server, and is the
//! same for all servers.

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

use crate::{
    contest::Slice,
    figures::now,
    lean::{Caller, Lean},
};

/// A kind of load.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// Unary calls, with `in_flight` calls in flight in total. Each task uses its connections in turn.
    Unary { request: AllocateRequest, connections: usize, in_flight: usize },
    /// Unary calls at this rate in total, whether or not earlier ones are answered.
    Paced { request: AllocateRequest, connections: usize, per_second: f64 },
    /// One stream per connection, with `depth` requests in flight on each.
    Stream { request: AllocateRequest, connections: usize, depth: usize },
    /// One stream with `depth` requests in flight. Counts the bytes of packed identifiers, and stops after `most` bytes.
    Packed { request: AllocateRequest, depth: usize, most: u64 },
}

/// The sizes of the client's windows and frames, large enough for large responses.
const WINDOW_BYTES: u32 = 16 << 20;
const FRAME_BYTES: u32 = 1 << 20;

/// The time allowed for connections to close: a constant, plus a part for each connection.
const SETTLE: Duration = Duration::from_millis(3);
const SETTLE_EACH: Duration = Duration::from_micros(100);

/// Connects to a gRPC server.
pub(crate) async fn connect(address: &str) -> anyhow::Result<Channel> {
    let endpoint = with_windows(Endpoint::from_shared(format!("http://{address}"))?);
    endpoint.connect().await.context("cannot connect")
}

/// Returns an endpoint with windows for large responses.
pub(crate) fn with_windows(endpoint: Endpoint) -> Endpoint {
    endpoint
        .tcp_nodelay(true)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .max_frame_size(Some(FRAME_BYTES))
}

/// Returns a request for a lease, which the client expands.
pub(crate) fn lease(source: &str, count: u64) -> AllocateRequest {
    AllocateRequest { source: source.to_owned(), count, encoding: Encoding::Lease.into(), ..AllocateRequest::default() }
}

/// Returns a request for packed identifiers.
pub(crate) fn packed(source: &str, count: u64) -> AllocateRequest {
    AllocateRequest { encoding: Encoding::Packed.into(), ..lease(source, count) }
}

/// Puts load on a server for the length of a slice.
pub(crate) async fn run(load: &Load, address: &str, length: Duration) -> anyhow::Result<Slice> {
    run_as(load, address, &Caller::default(), length).await
}

/// Like [`run`], but as a caller with TLS or a token. Only unary calls use TLS and the token.
pub(crate) async fn run_as(load: &Load, address: &str, caller: &Caller, length: Duration) -> anyhow::Result<Slice> {
    let mut tasks = JoinSet::new();
    let (began, connections) = match load {
        Load::Unary { request, connections, in_flight } => {
            let callers = (*connections).min(*in_flight);
            let mut own: Vec<Vec<Lean>> = (0..callers).map(|_| Vec::new()).collect();
            for number in 0..*connections {
                own[number % callers].push(Lean::connect(address, caller, request).await?);
            }
            let began = now();
            for (number, own) in own.into_iter().enumerate() {
                let depth = in_flight / callers + usize::from(number < in_flight % callers);
                tasks.spawn(call(own, depth, began + length));
            }
            (began, *connections)
        }
        Load::Paced { request, connections, per_second } => {
            let mut own = Vec::new();
            for _ in 0..*connections {
                own.push(Lean::connect(address, caller, request).await?);
            }
            let (began, rate) = (now(), per_second / *connections as f64); // OK because connections are few
            for mut lean in own {
                tasks.spawn(async move { lean.paced(rate, began + length).await });
            }
            (began, *connections)
        }
        Load::Stream { request, connections, depth } => {
            let channels = connect_all(address, *connections).await?;
            let began = now();
            for channel in channels {
                tasks.spawn(stream(channel, request.clone(), *depth, began + length, None));
            }
            (began, *connections)
        }
        Load::Packed { request, depth, most } => {
            let channel = connect(address).await?;
            let began = now();
            tasks.spawn(stream(channel, request.clone(), *depth, began + length, Some(*most)));
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

/// Waits until the tasks that close connections have ended, in this process and in the server, so that they do not slow
/// down the next contender.
pub(crate) async fn settle(connections: usize) {
    sleep(SETTLE + SETTLE_EACH * u32::try_from(connections).unwrap_or(u32::MAX)).await;
}

/// Returns the sum of the slices of all tasks, with the time until the last task ends.
pub(crate) async fn gather(mut tasks: JoinSet<anyhow::Result<Slice>>, began: Instant) -> anyhow::Result<Slice> {
    let mut sum = Slice::default();
    while let Some(slice) = tasks.join_next().await {
        sum.add(slice??);
    }
    sum.took = began.elapsed();
    Ok(sum)
}

/// Makes calls on one connection with `depth` calls in flight, or on several connections in turn, one call at a time.
async fn call(mut own: Vec<Lean>, depth: usize, end: Instant) -> anyhow::Result<Slice> {
    if own.len() == 1
        && let Some(mut only) = own.pop()
    {
        return only.run(depth, end).await;
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

/// Runs a stream with `depth` requests in flight. Counts responses or, if `bytes` is set, bytes up to that limit.
async fn stream(
    channel: Channel,
    request: AllocateRequest,
    depth: usize,
    end: Instant,
    bytes: Option<u64>,
) -> anyhow::Result<Slice> {
    let mut client = AllocatorClient::new(channel).max_decoding_message_size(usize::MAX);
    let (requests, outgoing) = tokio::sync::mpsc::channel(depth);
    let (mut slice, mut sent) = (Slice::default(), VecDeque::new());
    for _ in 0..depth {
        requests.try_send(request.clone()).context("the channel is full")?;
        sent.push_back(now());
    }
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
    let mut replies = client.allocate_stream(outgoing).await?.into_inner();
    loop {
        let Some(reply) = replies.message().await? else { bail!("the stream ended") };
        let answered = now();
        if let Some(sent) = sent.pop_front() {
            slice.call(answered - sent);
        }
        slice.count += match (reply.outcome, bytes) {
            (Some(Outcome::Granted(granted)), Some(_)) => match granted.identifiers {
                Some(Identifiers::Packed(packed)) => packed.data.len() as u64, // OK because a usize has at most 64 bits
                _ => bail!("expected packed identifiers, got a lease"),
            },
            (Some(Outcome::Granted(_)), None) => 1,
            (Some(Outcome::Refused(status)), _) => bail!("refused: {}", status.message),
            (None, _) => bail!("empty response"),
        };
        if answered >= end || bytes.is_some_and(|most| slice.count >= most) {
            return Ok(slice);
        }
        requests.send(request.clone()).await.ok().context("the stream is closed")?;
        sent.push_back(answered);
    }
}
