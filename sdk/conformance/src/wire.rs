//! Connections that a daemon can break at any time.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// A connection, plain or with TLS.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    cut: Cut,
    /// Wakes the reader when the connection is broken.
    is_cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Breaks the connection of a call.
#[derive(Clone, Debug)]
pub(crate) struct Cut(CancellationToken);

impl Cut {
    pub(crate) fn now(&self) {
        self.0.cancel();
    }
}

impl Wire {
    /// Wraps a connection so that it breaks when `alive` is canceled.
    pub(crate) fn new(stream: Stream, alive: &CancellationToken) -> Self {
        let token = alive.child_token();
        Self { stream, is_cut: Box::pin(token.clone().cancelled_owned()), cut: Cut(token) }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.0.is_cancelled() || self.is_cut.as_mut().poll(cx).is_ready() {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

impl Connected for Wire {
    type ConnectInfo = Cut;

    fn connect_info(&self) -> Cut {
        self.cut.clone()
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
