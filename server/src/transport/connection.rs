//! A connection of either port: plain TCP, or TLS after its handshake.

use std::{
    fmt,
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::peer::Peer;

/// A connection that is ready for requests.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    stream: Stream,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
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
    pub(crate) fn plain(stream: TcpStream, peer: Peer) -> Self {
        Self { peer, stream: Stream::Plain(stream) }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, peer: Peer, ended: Option<Ended>) -> Self {
        Self { peer, stream: Stream::Tls(Box::new(Secured { stream, ended })) }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
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
    /// Fails once the caller's certificate has expired or is no longer accepted. A server always reads, so this also ends a
    /// connection in the middle of an answer.
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(secured) => match secured.ended.as_mut().map(|ended| ended.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Some(Poll::Pending) | None => Pin::new(&mut secured.stream).poll_read(cx, buf),
            },
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(secured) => secured.stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(secured) => Pin::new(&mut secured.stream).poll_shutdown(cx),
        }
    }
}
