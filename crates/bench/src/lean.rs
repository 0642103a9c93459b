//! Unary calls for the price of writing and reading bytes, as the load on Redis is made: what takes part in the measurement is the
//! server, and of the client as little as there can be.
//!
//! As much of HTTP/2 (RFC 9113) as one method needs: the fields of a call are told once for each connection and then by their
//! numbers (RFC 7541, 2.3), as clients do; of an answer it is seen that it has a message and comes to its end. A refusal has none.

use std::{collections::VecDeque, mem, time::Instant};

use anyhow::{Context, bail, ensure};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{contest::Slice, figures::now};

/// A connection, and the calls that are on the way.
pub(crate) struct Lean {
    stream: TcpStream,
    came: Vec<u8>,
    /// What goes out next.
    out: Vec<u8>,
    /// The message of every call, in its frame.
    message: Vec<u8>,
    next: u32,
    /// How many calls the server takes at once.
    most: usize,
    on_the_way: VecDeque<OnTheWay>,
}

/// A call that was asked.
struct OnTheWay {
    stream: u32,
    asked: Instant,
    /// Whether its message has come.
    is_answered: bool,
}

/// What a frame is of, as far as it matters (RFC 9113, 6).
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
/// Added to the window of the connection: replies of a whole run never fill it.
const WINDOW: u32 = (1 << 31) - 1 - 65_535;

/// `:method: POST`, `:scheme: http`, and then, added to the table in this order, `:path`, `:authority`, `content-type`, `te`.
const METHOD_AND_SCHEME: [u8; 2] = [0x83, 0x86];
/// The four by their numbers in the table.
const AS_BEFORE: [u8; 4] = [0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62];
const PATH: &str = "/kent.v1.Allocator/Allocate";

/// Bytes that are read at a time: the answers to some hundred calls.
const READ_BYTES: usize = 16 * 1024;

impl Lean {
    /// A connection whose calls all have this message.
    pub(crate) async fn connect(address: &str, message: &impl Message) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("no connection")?;
        stream.set_nodelay(true)?;
        let body = message.encode_to_vec();
        // OK because a request has some dozens of bytes.
        let prefixed = [&[0][..], &(body.len() as u32).to_be_bytes(), &body].concat();
        let mut out = PREFACE.to_vec();
        frame(&mut out, SETTINGS, 0, 0, &[]);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        let (came, on_the_way) = <(Vec<u8>, VecDeque<OnTheWay>)>::default();
        let mut lean = Self { stream, came, out, message: prefixed, next: 1, most: usize::MAX, on_the_way };
        lean.send().await?;
        // The server's settings come first.
        while lean.out.is_empty() {
            lean.receive(&mut Slice::default()).await?;
        }
        Ok(lean)
    }

    /// Calls until `end`, so many at once.
    pub(crate) async fn run(mut self, at_once: usize, end: Instant) -> anyhow::Result<Slice> {
        let (mut slice, at_once) = (Slice::default(), at_once.min(self.most));
        while now() < end {
            let before = slice.count;
            self.calls(at_once - self.on_the_way.len()).await?;
            while slice.count == before {
                self.receive(&mut slice).await?;
            }
        }
        while !self.on_the_way.is_empty() {
            self.receive(&mut slice).await?;
        }
        Ok(slice)
    }

    /// One call, from the beginning to the end.
    pub(crate) async fn call(&mut self, slice: &mut Slice) -> anyhow::Result<()> {
        self.calls(1).await?;
        while !self.on_the_way.is_empty() {
            self.receive(slice).await?;
        }
        Ok(())
    }

    async fn calls(&mut self, count: usize) -> anyhow::Result<()> {
        let asked = now();
        for _ in 0..count {
            let mut fields = METHOD_AND_SCHEME.to_vec();
            match self.next {
                1 => fields.extend(told_once()),
                _ => fields.extend(AS_BEFORE),
            }
            frame(&mut self.out, HEADERS, END_HEADERS, self.next, &fields);
            frame(&mut self.out, DATA, END_STREAM, self.next, &self.message);
            self.on_the_way.push_back(OnTheWay { stream: self.next, asked, is_answered: false });
            self.next += 2;
        }
        self.send().await
    }

    async fn send(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    /// Waits for bytes, and counts the calls that they end.
    async fn receive(&mut self, slice: &mut Slice) -> anyhow::Result<()> {
        read(&mut self.stream, &mut self.came).await?;
        let came = mem::take(&mut self.came);
        let (mut rest, answered) = (&*came, now());
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let [a, b, c, kind, flags, stream @ ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize; // OK because a usize has 32 bits at least
            let Some((payload, after)) = after.split_at_checked(length) else { break };
            rest = after;
            self.take(kind, flags, u32::from_be_bytes(stream), payload, answered, slice)?;
        }
        let taken = came.len() - rest.len();
        self.came = came;
        self.came.drain(..taken);
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
                let place =
                    self.on_the_way.iter().position(|call| call.stream == stream).context("an answer to nothing")?;
                let call = &mut self.on_the_way[place];
                call.is_answered |= kind == DATA && !payload.is_empty();
                if flags & END_STREAM != 0 {
                    ensure!(call.is_answered, "a call was refused");
                    slice.call(answered - call.asked);
                    slice.count += 1;
                    self.on_the_way.remove(place);
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
            RST_STREAM | GOAWAY => bail!("the server gave up"),
            _ => {}
        }
        Ok(())
    }
}

/// Reads what has come, as much of it as there may be: a vector by itself has room for less than an answer.
pub(crate) async fn read(stream: &mut TcpStream, came: &mut Vec<u8>) -> anyhow::Result<()> {
    came.reserve(READ_BYTES);
    ensure!(stream.read_buf(came).await? > 0, "the server ended the connection");
    Ok(())
}

/// The fields that are the same for all calls, to be added to the table.
fn told_once() -> Vec<u8> {
    let mut fields = Vec::new();
    // The names are in the static table (RFC 7541, A), but for the last.
    for (name, value) in [(&[0x40 | 4][..], PATH), (&[0x40 | 1], "kent"), (&[0x40 | 31], "application/grpc")] {
        fields.extend(name);
        fields.push(value.len() as u8); // OK because it has less than 127 bytes
        fields.extend(value.as_bytes());
    }
    fields.extend(b"\x40\x02te\x08trailers");
    fields
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes(); // OK because it has some hundred bytes
    out.extend(length);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}
