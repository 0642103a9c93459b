//! A minimal gRPC client for unary calls. Like the Redis client of this crate, it writes prepared bytes and only scans
//! the responses, so that the server is the bottleneck.
//!
//! It implements the subset of HTTP/2 (RFC 9113) that one method needs. It sends the header fields of a call in full
//! once per connection, and then as table indices (RFC 7541, 2.3), like other clients. It checks that each response has
//! a message and ends. A refusal has no message.

use std::{
    collections::VecDeque,
    iter, mem,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    select,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::ClientConfig};
use tokio_util::either::Either;

use crate::{contest::Slice, figures::now};

/// The TLS settings and the credential of a caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The TLS configuration. Without a configuration, the connection is not encrypted.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) token: Option<Token>,
}

/// A token, and how the caller sends it.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) secret: String,
    /// Whether the caller sends the token in full only once per connection, and then as a table index, as the gRPC
    /// client of Go does. Clients on h2, such as tonic, send it in full with each call.
    pub(crate) is_indexed: bool,
}

/// A connection and its calls in flight.
pub(crate) struct Lean {
    stream: Either<TcpStream, TlsStream<TcpStream>>,
    /// The header fields of the first call, and those of each later one.
    fields: [Vec<u8>; 2],
    /// Whether a refusal counts as an answer.
    is_refusable: bool,
    received: Vec<u8>,
    /// The bytes to send next.
    out: Vec<u8>,
    /// The message that every call sends, with its gRPC prefix.
    message: Vec<u8>,
    /// The identifier of the next stream.
    next: u32,
    /// The server's limit on concurrent calls.
    most: usize,
    in_flight: VecDeque<Call>,
}

/// A call in flight.
struct Call {
    stream: u32,
    sent: Instant,
    /// Whether the message of the response has arrived.
    is_answered: bool,
}

/// The frame types and flags in use (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const HEAD_BYTES: usize = 9;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];
/// The increment of the connection's flow-control window. The responses of a whole run do not fill the window.
const WINDOW: u32 = (1 << 31) - 1 - 65_535;

/// `:method: POST`, and `:scheme: http` or `https`, which are in the static table.
const PLAIN: [u8; 2] = [0x83, 0x86];
const SECURE: [u8; 2] = [0x83, 0x87];
/// The index of the newest field of the dynamic table (RFC 7541, 2.3.3).
const NEWEST: u8 = 0x80 | 62;
/// The name `authorization` of a literal without indexing (RFC 7541, 6.2.2). tonic's client sends the value
/// Huffman-coded (5.2), which takes a server on h2 about as long to read.
const AUTHORIZATION: &[u8] = &[0x0f, 23 - 15];
/// The same name of a literal that the server adds to its table (RFC 7541, 6.2.1).
const ADDED_AUTHORIZATION: &[u8] = &[0x40 | 23];
const PATH: &str = "/kent.v1.Allocator/Allocate";

/// The interval at which calls at a given rate are sent.
const TICK: Duration = Duration::from_millis(1);

/// The maximum size of one read in bytes, enough for the responses to more than a hundred calls.
const READ_BYTES: usize = 16 * 1024;

impl Lean {
    /// Opens a connection for a caller that sends `message` in every call.
    pub(crate) async fn connect(address: &str, caller: &Caller, message: &impl Message) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (stream, common) = match &caller.tls {
            None => (Either::Left(stream), PLAIN),
            Some(config) => {
                let name = stream.peer_addr()?.ip().into();
                (Either::Right(TlsConnector::from(config.clone()).connect(name, stream).await?), SECURE)
            }
        };
        let body = message.encode_to_vec();
        // OK because a request has a few dozen bytes.
        let prefixed = [&[0][..], &(body.len() as u32).to_be_bytes(), &body].concat();
        let mut out = PREFACE.to_vec();
        frame(&mut out, SETTINGS, 0, 0, &[]);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        let mut lean = Self {
            stream,
            fields: fields(common, caller.token.as_ref()),
            is_refusable: false,
            received: Vec::new(),
            out,
            message: prefixed,
            next: 1,
            most: usize::MAX,
            in_flight: VecDeque::new(),
        };
        lean.send().await?;
        // Wait for the settings, which the server sends first.
        while lean.out.is_empty() {
            lean.receive(&mut Slice::default()).await?;
        }
        Ok(lean)
    }

    /// Returns the same connection, which now counts a refusal as an answer.
    pub(crate) fn refusable(self) -> Self {
        Self { is_refusable: true, ..self }
    }

    /// Repeats the call until `end`, with `depth` calls in flight.
    pub(crate) async fn run(&mut self, depth: usize, end: Instant) -> anyhow::Result<Slice> {
        let (mut slice, depth) = (Slice::default(), depth.min(self.most));
        while now() < end {
            let before = slice.count;
            self.calls(iter::repeat_n(now(), depth - self.in_flight.len())).await?;
            while slice.count == before {
                self.receive(&mut slice).await?;
            }
        }
        while !self.in_flight.is_empty() {
            self.receive(&mut slice).await?;
        }
        Ok(slice)
    }

    /// Makes `per_second` calls per second until `end`, whether or not earlier ones are answered.
    ///
    /// The latency of a call begins when the call is due. If the server's limit on concurrent calls holds a call back,
    /// this wait is part of the latency.
    pub(crate) async fn paced(&mut self, per_second: f64, end: Instant) -> anyhow::Result<Slice> {
        let (mut slice, mut due, began, mut made) = (Slice::default(), VecDeque::new(), now(), 0_u64);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while now() < end || !due.is_empty() || !self.in_flight.is_empty() {
            // Both are safe to cancel: a tick, and `receive`, which awaits nothing after its read.
            select! {
                _ = ticks.tick() => {
                    // OK because a run makes far fewer than 2^53 calls.
                    let total = (now().min(end).saturating_duration_since(began).as_secs_f64() * per_second) as u64;
                    due.extend(iter::repeat_n(now(), (total - made) as usize));
                    made = total;
                }
                received = self.receive(&mut slice) => received?,
            }
            let free = self.most - self.in_flight.len();
            let sent: Vec<Instant> = due.drain(..due.len().min(free)).collect();
            if !sent.is_empty() {
                self.calls(sent).await?;
            }
        }
        Ok(slice)
    }

    /// Makes one call, and waits until it ends.
    pub(crate) async fn call(&mut self, slice: &mut Slice) -> anyhow::Result<()> {
        self.calls([now()]).await?;
        while !self.in_flight.is_empty() {
            self.receive(slice).await?;
        }
        Ok(())
    }

    /// Makes a call for each of these times, from which the latency counts.
    async fn calls(&mut self, times: impl IntoIterator<Item = Instant>) -> anyhow::Result<()> {
        for sent in times {
            let [first, later] = &self.fields;
            let fields = if self.next == 1 { first } else { later };
            frame(&mut self.out, HEADERS, END_HEADERS, self.next, fields);
            frame(&mut self.out, DATA, END_STREAM, self.next, &self.message);
            self.in_flight.push_back(Call { stream: self.next, sent, is_answered: false });
            self.next += 2;
        }
        self.send().await
    }

    async fn send(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.out).await?;
        // The TLS layer may buffer some bytes.
        self.stream.flush().await?;
        self.out.clear();
        Ok(())
    }

    /// Reads bytes, and counts the calls whose responses are complete.
    async fn receive(&mut self, slice: &mut Slice) -> anyhow::Result<()> {
        read(&mut self.stream, &mut self.received).await?;
        let received = mem::take(&mut self.received);
        let (mut rest, answered) = (&*received, now());
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let [a, b, c, kind, flags, stream @ ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize; // OK because a usize has at least 32 bits
            let Some((payload, after)) = after.split_at_checked(length) else { break };
            rest = after;
            self.take(kind, flags, u32::from_be_bytes(stream), payload, answered, slice)?;
        }
        let taken = received.len() - rest.len();
        self.received = received;
        self.received.drain(..taken);
        Ok(())
    }

    fn take(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        answered: Instant,
        slice: &mut Slice,
    ) -> anyhow::Result<()> {
        match kind {
            DATA | HEADERS => {
                let place = self
                    .in_flight
                    .iter()
                    .position(|call| call.stream == stream)
                    .context("received a response without a call")?;
                let call = &mut self.in_flight[place];
                call.is_answered |= kind == DATA && !payload.is_empty();
                if flags & END_STREAM != 0 {
                    ensure!(call.is_answered || self.is_refusable, "a call was refused");
                    slice.call(answered - call.sent);
                    slice.count += 1;
                    self.in_flight.remove(place);
                }
            }
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    if let Some(value) = setting.strip_prefix(&MAX_CONCURRENT_STREAMS) {
                        self.most = value.iter().fold(0, |value, byte| value << 8 | usize::from(*byte));
                    }
                }
                frame(&mut self.out, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut self.out, PING, ACK, 0, payload),
            RST_STREAM | GOAWAY => bail!("the server reset the stream or the connection"),
            _ => {}
        }
        Ok(())
    }
}

/// Reads the available bytes into a large buffer. By default, `read_buf` reserves less than the size of one response.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin), received: &mut Vec<u8>) -> anyhow::Result<()> {
    received.reserve(READ_BYTES);
    ensure!(stream.read_buf(received).await? > 0, "the server closed the connection");
    Ok(())
}

/// Returns the fields that all calls share, as literals that the server adds to its table.
fn literal_fields() -> Vec<u8> {
    let mut fields = Vec::new();
    // All names but the last are in the static table (RFC 7541, A).
    for (name, value) in [(&[0x40 | 4][..], PATH), (&[0x40 | 1], "kent"), (&[0x40 | 31], "application/grpc")] {
        fields.extend(name);
        fields.push(value.len() as u8); // OK because a value has fewer than 127 bytes
        fields.extend(value.as_bytes());
    }
    fields.extend(b"\x40\x02te\x08trailers");
    fields
}

/// Returns the header fields of the first call on a connection, and those of each later one.
fn fields(common: [u8; 2], token: Option<&Token>) -> [Vec<u8>; 2] {
    // `literal_fields` adds four fields to the table, and the token can be a fifth, newer one.
    let shared = |fifth: u8| [3, 2, 1, 0].map(|newer| NEWEST + newer + fifth);
    let (first, later, shared) = match token {
        None => (Vec::new(), Vec::new(), shared(0)),
        Some(Token { secret, is_indexed: false }) => {
            let field = authorization(AUTHORIZATION, secret);
            (field.clone(), field, shared(0))
        }
        Some(Token { secret, is_indexed: true }) => {
            (authorization(ADDED_AUTHORIZATION, secret), vec![NEWEST], shared(1))
        }
    };
    [[&common[..], &literal_fields(), &first].concat(), [&common[..], &shared, &later].concat()]
}

/// Returns the field `authorization` with a token.
fn authorization(name: &[u8], token: &str) -> Vec<u8> {
    let value = format!("Bearer {token}");
    // OK because a token has 82 bytes, and a length below 127 has one byte.
    [name, &[value.len() as u8], value.as_bytes()].concat()
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes(); // OK because a payload has a few hundred bytes
    out.extend(length);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}
