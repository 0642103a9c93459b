//! A connection of either port: a TCP or Unix socket, or TLS after its handshake.

use std::{
    fmt,
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::{admission::Seat, listen::Socket, peer::Peer};

/// A connection that is ready for requests.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    stream: Stream,
    /// The wait for the first bytes, until they have arrived.
    beginning: Option<Box<Beginning>>,
    _seat: Seat,
}

/// The deadline for the first bytes of a connection.
#[derive(Debug)]
struct Beginning {
    bytes_left: usize,
    timeout: Pin<Box<Sleep>>,
}

/// The length of the HTTP/2 connection preface.
const PREFACE_BYTES: usize = 24;

/// The time within which the preface must arrive.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

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
        Self { peer, stream, beginning: None, _seat: seat }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, peer: Peer, ended: Option<Ended>, seat: Seat) -> Self {
        let stream = Stream::Tls(Box::new(Secured { stream, ended }));
        Self { peer, stream, beginning: None, _seat: seat }
    }

    /// Makes the connection fail if its first bytes, which tell the version of HTTP, do not arrive in time. Call it within a
    /// runtime.
    pub(crate) fn expecting_http(mut self) -> Self {
        let timeout = Box::pin(sleep(PREFACE_TIMEOUT));
        self.beginning = Some(Box::new(Beginning { bytes_left: PREFACE_BYTES, timeout }));
        self
    }

    fn poll_beginning(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.stream.poll_read(cx, buf);
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
}

impl Stream {
    /// Fails once the caller's certificate has expired or is no longer accepted. A server always reads, so this also ends a
    /// connection in the middle of an answer.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(secured) => match secured.ended.as_mut().map(|ended| ended.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Some(Poll::Pending) | None => Pin::new(&mut secured.stream).poll_read(cx, buf),
            },
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
            false => self.stream.poll_read(cx, buf),
            true => self.poll_beginning(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tls(secured) => secured.stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_shutdown(cx),
        }
    }
}
