//! Ends the span of a traced call with the status of its answer.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use kent_engine::host::trace::Trace;
use tonic::{Code, Status, body::Body, codegen::http::Response};

/// Ends the span of a call together with the answer to the call. The span ends when the status is sent, after the last
/// message.
pub(super) async fn traced(
    trace: Trace,
    answer: impl Future<Output = Result<Response<Body>, Infallible>>,
) -> Result<Response<Body>, Infallible> {
    let response = answer.await?;
    if let Some(status) = Status::from_header_map(response.headers()) {
        trace.end(status.code());
        return Ok(response);
    }
    Ok(response.map(|body| Body::new(TracedBody { body, trace })))
}

/// The body of an answer to a traced call.
struct TracedBody {
    body: Body,
    trace: Trace,
}

impl http_body::Body for TracedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    self.trace.end(status.code());
                }
            }
            Some(Err(status)) => self.trace.end(status.code()),
            None => self.trace.end(Code::Ok),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
