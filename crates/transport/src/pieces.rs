//! Large answers, which are created piece by piece as the caller reads them.
//!
//! A connection holds a limited number of pieces in memory, so callers that do not read their answers cost little.
//! Between two pieces, the thread serves its other connections.

use std::{
    convert::Infallible,
    iter::{self, Chain, Once},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes};
use http_body::Frame;
use kent_proto::pieces::Pieces;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{HeaderMap, HeaderValue, Response},
};

/// A response extension with the message that replaces the response's body.
#[derive(Clone, Debug)]
pub struct Large {
    pieces: Pieces,
    permits: Option<Arc<Semaphore>>,
}

impl Large {
    /// `permits` limits the pieces that the connection holds in memory. `None` means no limit.
    pub fn new(pieces: Pieces, permits: Option<Arc<Semaphore>>) -> Self {
        Self { pieces, permits }
    }
}

/// Gives a response the body that its extension [`Large`] describes.
pub(super) fn replace(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<Large>() {
        None => response,
        Some(large) => response.map(|_| large_body(large)),
    }
}

/// Returns the body of a response with one large message.
pub(super) fn large_body(large: Large) -> Body {
    Body::new(Pieced::new(large))
}

/// The answer to a unary call, in which a large message is created piece by piece.
#[derive(Debug)]
pub struct Answer<F>(pub(super) F);

impl<F: Future<Output = Result<Response<Body>, Infallible>> + Unpin> Future for Answer<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.0).poll(cx).map_ok(replace)
    }
}

/// A body with one message.
struct Pieced {
    /// The prefix of the message (gRPC over HTTP/2, "Length-Prefixed-Message") and its pieces. `None` after the end.
    rest: Option<Chain<Once<Vec<u8>>, Pieces>>,
    permits: Option<PollSemaphore>,
    is_others_turn: bool,
}

impl Pieced {
    fn new(Large { pieces, permits }: Large) -> Self {
        let mut prefix = vec![0];
        prefix.put_u32(pieces.encoded_len() as u32); // OK because `--packed-bytes` is at most 1 GiB
        let rest = iter::once(prefix).chain(pieces);
        Self { rest: Some(rest), permits: permits.map(PollSemaphore::new), is_others_turn: false }
    }
}

impl http_body::Body for Pieced {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        if mem::take(&mut this.is_others_turn) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let permit = match &mut this.permits {
            Some(permits) => ready!(permits.poll_acquire(cx)),
            None => None,
        };
        // The piece is created only now, so that no piece is in memory without a permit.
        let Some(data) = rest.next() else {
            this.rest = None;
            let status = HeaderValue::from(Code::Ok as i32);
            return Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::from_iter([(Status::GRPC_STATUS, status)])))));
        };
        this.is_others_turn = true;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(Piece { data, _permit: permit })))))
    }
}

/// A piece that holds its permit until it is written to the socket.
struct Piece {
    data: Vec<u8>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}
