//! A connection of any port: a TCP or Unix socket, or TLS after its handshake.

use std::{
    fmt,
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take},
    net::{TcpStream, UnixStream},
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::{
    admission::Seat,
    listen::Socket,
    peer::Peer,
    turns::{Turn, Turns},
};

/// A connection that is ready for requests.
#[derive(Debug)]
pub struct Connection {
    peer: Peer,
    /// The limit of `Take` is the number of bytes that may be read in this turn.
    stream: Take<Stream>,
    /// Set on a thread that serves several connections.
    turn: Option<Turn>,
    /// The wait for the first bytes; `None` once they have arrived.
    beginning: Option<Box<Beginning>>,
    _seat: Seat,
}

/// The deadline for the first bytes of a connection.
#[derive(Debug)]
struct Beginning {
    /// Bytes that were already read, and that the connection's server reads again.
    again: Bytes,
    bytes_left: usize,
    timeout: Pin<Box<Sleep>>,
}

/// The length of the HTTP/2 connection preface.
const PREFACE_BYTES: usize = 24;

/// The time within which the preface must arrive.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the wait for the preface. Must be called within a runtime.
pub(super) fn preface_timeout() -> Pin<Box<Sleep>> {
    Box::pin(sleep(PREFACE_TIMEOUT))
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Secured>),
}

/// A connection under TLS.
struct Secured {
    stream: TlsStream<TcpStream>,
    /// Ready when the caller's certificate has expired or is no longer accepted.
    ended: Option<Ended>,
}

/// Ready when a connection must end.
pub(crate) type Ended = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

impl Connection {
    pub(crate) fn plain(socket: Socket, peer: Peer, seat: Seat) -> Self {
        let stream = match socket {
            Socket::Tcp(stream) => Stream::Tcp(stream),
            Socket::Unix(stream) => Stream::Unix(stream),
        };
        Self::new(stream, peer, seat)
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, peer: Peer, ended: Option<Ended>, seat: Seat) -> Self {
        Self::new(Stream::Tls(Box::new(Secured { stream, ended })), peer, seat)
    }

    fn new(stream: Stream, peer: Peer, seat: Seat) -> Self {
        Self { peer, stream: stream.take(u64::MAX), turn: None, beginning: None, _seat: seat }
    }

    /// Makes the connection read and write in turn with the other connections of its thread.
    pub(super) fn in_turn(mut self, turns: &Arc<Turns>) -> Self {
        self.turn = Some(turns.join());
        self
    }

    /// Makes the connection fail if its first bytes, which show the version of HTTP, do not arrive in time. Must be
    /// called within a runtime.
    pub fn expecting_http(self) -> Self {
        self.beginning(Bytes::new(), preface_timeout())
    }

    /// Makes the connection read these bytes again, and fail if the rest of the preface does not arrive in time.
    pub(super) fn beginning(mut self, again: Bytes, timeout: Pin<Box<Sleep>>) -> Self {
        self.beginning = Some(Box::new(Beginning { again, bytes_left: PREFACE_BYTES, timeout }));
        self
    }

    fn poll_beginning(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(beginning) = &mut self.beginning
            && !beginning.again.is_empty()
        {
            let again = beginning.again.split_to(beginning.again.len().min(buf.remaining()));
            buf.put_slice(&again);
            beginning.bytes_left = beginning.bytes_left.saturating_sub(again.len());
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = self.poll_in_turn(cx, buf);
        let Some(beginning) = &mut self.beginning else { return read };
        let arrived = buf.filled().len().saturating_sub(before);
        beginning.bytes_left = beginning.bytes_left.saturating_sub(arrived);
        if beginning.bytes_left == 0 {
            self.beginning = None;
        } else if read.is_pending() && beginning.timeout.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }

    fn poll_in_turn(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(turn) = &mut self.turn else { return Pin::new(&mut self.stream).poll_read(cx, buf) };
        let (limit, before) = (ready!(turn.poll_read(cx)), buf.filled().len());
        self.stream.set_limit(limit as u64); // OK because a usize has at most 64 bits
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        turn.has_read(buf.filled().len() - before);
        read
    }
}

impl AsyncRead for Stream {
    /// Fails once the caller's certificate has expired or is no longer accepted. A server also reads while it answers,
    /// so the failure ends the connection even in the middle of an answer.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(secured) => match secured.ended.as_mut().map(|ended| ended.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Some(Poll::Pending) | None => Pin::new(&mut secured.stream).poll_read(cx, buf),
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(secured) => Pin::new(&mut secured.stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(secured) => Pin::new(&mut secured.stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(secured) => secured.stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(secured) => Pin::new(&mut secured.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(secured) => Pin::new(&mut secured.stream).poll_shutdown(cx),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").finish_non_exhaustive()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.beginning.is_some() {
            false => self.poll_in_turn(cx, buf),
            true => self.poll_beginning(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let stream = Pin::new(this.stream.get_mut());
        let Some(turn) = &mut this.turn else { return stream.poll_write(cx, buf) };
        let limit = ready!(turn.poll_write(cx));
        let written = stream.poll_write(cx, &buf[..buf.len().min(limit)]);
        turn.has_written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let stream = Pin::new(this.stream.get_mut());
        let Some(turn) = &mut this.turn else { return stream.poll_write_vectored(cx, bufs) };
        let limit = ready!(turn.poll_write(cx));
        let written = match bufs.iter().map(|buf| buf.len()).sum::<usize>() <= limit {
            true => stream.poll_write_vectored(cx, bufs),
            false => {
                let first = bufs.iter().find(|buf| !buf.is_empty()).map_or(&[][..], |buf| buf);
                stream.poll_write(cx, &first[..first.len().min(limit)])
            }
        };
        turn.has_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(cx)
    }
}
