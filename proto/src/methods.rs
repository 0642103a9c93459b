//! Calls the methods of a service by name, with encoded messages.
//!
//! tonic's server compiles the code of a call for each method. Through [`Methods`], one copy of this code serves all
//! methods. The implementations are generated (`cargo xtask generate`).

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use prost::Message;
use tonic::{
    Request, Response, Status,
    codegen::{
        BoxStream,
        tokio_stream::{self, Stream, StreamExt},
    },
};

use crate::codec::bad_message;

/// A call in progress. The answer of a method without a stream is a stream of one message.
pub type Call = Pin<Box<dyn Future<Output = Result<Response<BoxStream<Bytes>>, Status>> + Send>>;

/// The methods of a service.
pub trait Methods: Send + Sync + 'static {
    /// The full name of the service, such as `kent.v1.Regions`.
    fn service(&self) -> &'static str;

    /// Calls a method. Returns `None` if the service has no method of this name.
    fn call(&self, name: &str, request: Request<Bytes>) -> Option<Call>;
}

/// Decodes the message of a request.
pub(crate) fn decode<M: Message + Default>(request: Request<Bytes>) -> Result<Request<M>, Status> {
    let (metadata, extensions, bytes) = request.into_parts();
    let message = M::decode(bytes).map_err(|problem| bad_message(&problem))?;
    Ok(Request::from_parts(metadata, extensions, message))
}

/// Encodes an answer.
pub(crate) fn message<M: Message>(answer: Response<M>) -> Result<Response<BoxStream<Bytes>>, Status> {
    let one = |message: M| -> BoxStream<Bytes> { Box::pin(tokio_stream::once(Ok(message.encode_to_vec().into()))) };
    Ok(answer.map(one))
}

/// Encodes an answer of several messages.
pub(crate) fn messages<M, S>(answer: Response<S>) -> Result<Response<BoxStream<Bytes>>, Status>
where
    M: Message + 'static,
    S: Stream<Item = Result<M, Status>> + Send + 'static,
{
    let each = |messages: S| -> BoxStream<Bytes> {
        Box::pin(messages.map(|message| message.map(|message| message.encode_to_vec().into())))
    };
    Ok(answer.map(each))
}
