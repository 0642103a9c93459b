//! Formats errors as answers of the HTTP port: in the format of Connect or AIP-193, or as text.

use std::collections::BTreeMap;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use kent_proto::model::code_name;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{StatusExt, pb};

use super::json;

/// The form of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `{"code": "not_found", "message": ..., "details": [...]}`
    Connect,
    /// `{"error": {"code": 404, "status": "NOT_FOUND", "message": ..., "details": [...]}}`
    Aip193,
    /// The message alone.
    Text,
}

/// The answer to a call that failed.
pub(super) fn answer(status: &Status, form: Form, pool: &DescriptorPool) -> Response {
    let code = http_code(status.code());
    let details = pb::Status::decode(status.details()).unwrap_or_default().details;
    let json = |value: Value| ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response();
    let mut response = match form {
        Form::Connect => {
            let details = details.iter().map(|detail| {
                let kind = detail.type_url.rsplit('/').next().unwrap_or_default();
                let value = STANDARD_NO_PAD.encode(&detail.value);
                json!({"type": kind, "value": value, "debug": fields(detail, pool)})
            });
            let details = details.collect::<Vec<_>>();
            json(json!({"code": connect_code(status.code()), "message": status.message(), "details": details}))
        }
        Form::Aip193 => {
            let details = details.iter().map(|detail| {
                let mut fields = fields(detail, pool).unwrap_or_else(|| json!({}));
                fields["@type"] = Value::String(detail.type_url.clone());
                fields
            });
            let details = details.collect::<Vec<_>>();
            let (number, name) = (code.as_u16(), code_name(status.code()));
            json(json!({"error": {"code": number, "status": name, "message": status.message(), "details": details}}))
        }
        Form::Text => format!("{}\n", status.message()).into_response(),
    };
    *response.status_mut() = code;
    if status.code() == Code::Unauthenticated {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(delay) = status.get_details_retry_info().and_then(|info| info.retry_delay) {
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The fields of a message from an error's details.
fn fields(detail: &prost_types::Any, pool: &DescriptorPool) -> Option<Value> {
    let descriptor = pool.get_message_by_name(detail.type_url.rsplit('/').next()?)?;
    json::value(&DynamicMessage::decode(descriptor, &*detail.value).ok()?)
}

/// The HTTP status code for a gRPC code, as defined by Connect.
fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        // 499 is nginx's code for a client that has disconnected.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The HTTP status codes of errors, each with the gRPC codes that map to it.
pub(super) fn statuses() -> BTreeMap<u16, Vec<Code>> {
    let mut statuses = BTreeMap::<_, Vec<_>>::new();
    // The codes range from 0, which is OK, to 16.
    for code in (1..=16).map(Code::from_i32) {
        statuses.entry(http_code(code).as_u16()).or_default().push(code);
    }
    statuses
}

/// The name that Connect gives a code: in lower case, and with one l in "canceled".
pub(super) fn connect_code(code: Code) -> String {
    match code {
        Code::Cancelled => "canceled".to_owned(),
        code => code_name(code).to_ascii_lowercase(),
    }
}
