//! The unary part of the Connect protocol: `POST /kent.v1.SERVICE/METHOD` with one message as JSON or Protobuf.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, Method as Verb, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use kent_engine::status;
use tonic::Status;

use super::{
    call::{ALLOCATE, Answered, Calls, From},
    failure::{self, Form},
    json,
    methods::{Method, Methods, Unary},
    requests, texts,
};

/// The encoding of a call's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Json,
    Proto,
}

/// The version of the protocol.
const VERSION: &str = "1";

/// The header with the time for which a client waits, in milliseconds: at most ten digits.
const TIMEOUT: &str = "connect-timeout-ms";
const TIMEOUT_DIGITS_MAX: usize = 10;

/// Answers a call.
pub(super) async fn answer(calls: &Calls, methods: &Methods, codec: Codec, request: Request) -> Response {
    match call(calls, methods, codec, request).await {
        Ok(answer) => {
            let kind = match codec {
                Codec::Json => "application/json",
                Codec::Proto => "application/proto",
            };
            ([(header::CONTENT_TYPE, kind)], answer).into_response()
        }
        Err(Failed::NotPost) => not_post(),
        Err(Failed::Status(status)) => failure::answer(&status, Form::Connect, methods.pool()),
    }
}

/// The answer to a request whose content type is not supported.
pub(super) fn refuse_type(methods: &Methods, request: &Request) -> Response {
    match find(methods, request) {
        Ok(_) => {
            let hint = "send the message as JSON, with the header content-type: application/json\n";
            let mut response = (StatusCode::UNSUPPORTED_MEDIA_TYPE, hint).into_response();
            let accepted = HeaderValue::from_static("application/json, application/proto, application/grpc-web");
            response.headers_mut().insert("accept-post", accepted);
            response
        }
        Err(Failed::NotPost) => not_post(),
        Err(Failed::Status(status)) => failure::answer(&status, Form::Text, methods.pool()),
    }
}

fn not_post() -> Response {
    let hint = "call methods with POST, and send the message as JSON\n";
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")], hint).into_response()
}

/// Why a call has no answer.
enum Failed {
    /// The request does not use POST.
    NotPost,
    Status(Status),
}

impl std::convert::From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// Finds the method that a request names.
fn find<'m>(methods: &'m Methods, request: &Request) -> Result<&'m Unary, Failed> {
    let path = request.uri().path();
    match methods.get(path) {
        None => Err(status::no_such_path(path).into()),
        Some(_) if request.method() != Verb::POST => Err(Failed::NotPost),
        Some(Method::Streaming) => Err(status::stream_over_json(path).into()),
        Some(Method::Unary(unary)) => Ok(unary),
    }
}

async fn call(calls: &Calls, methods: &Methods, codec: Codec, request: Request) -> Result<Bytes, Failed> {
    let unary = find(methods, &request)?;
    let timeout = check(request.headers())?;
    let from = From::new(&request, timeout);
    let _permit = calls.begin()?;
    let body = calls.read(&unary.path, &from, request.into_body()).await?;
    if codec == Codec::Proto {
        return Ok(calls.unary(unary.path.clone(), from, body).await?);
    }
    let answered = match requests::usual(&body).filter(|_| unary.path == ALLOCATE) {
        Some(ask) => calls.allocate(from, ask).await?,
        None => {
            let message = json::encode(&body, &unary.descriptor.input(), unary.has_wide.0);
            calls.issue(unary.path.clone(), from, message.map_err(|problem| status::bad_json(&problem))?).await?
        }
    };
    match answered {
        Answered::Issued(issued) => Ok(texts::response(&issued).into()),
        Answered::Message(answer) => json::decode(answer, &unary.descriptor.output(), unary.has_wide.1)
            .map(Bytes::from)
            .ok_or_else(|| status::broken_answer().into()),
    }
}

/// Checks the headers of the protocol, and returns the time for which the client waits, in milliseconds.
fn check(headers: &HeaderMap) -> Result<Option<u64>, Status> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    if text("connect-protocol-version").is_some_and(|version| version != VERSION) {
        return Err(status::bad_header("connect-protocol-version", "must be 1"));
    }
    if text("content-encoding").is_some_and(|encoding| encoding != "identity") {
        return Err(status::compressed());
    }
    match text(TIMEOUT) {
        None => Ok(None),
        Some(millis) if millis.len() <= TIMEOUT_DIGITS_MAX && millis.bytes().all(|digit| digit.is_ascii_digit()) => {
            Ok(millis.parse().ok())
        }
        Some(_) => Err(status::bad_header(
            TIMEOUT,
            "must be a whole number of milliseconds of at most 10 digits, such as 2000",
        )),
    }
}
