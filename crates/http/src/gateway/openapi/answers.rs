//! The answers of operations: the message of a successful answer, and the forms of the errors.

use kent_proto::model::code_name;
use serde_json::{Map, Value, json};

use crate::gateway::failure::{self, connect_code};

/// The form of the errors of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON, as Connect defines it.
    Connect,
    /// AIP-193, or text.
    Short,
}

impl Form {
    const ALL: [Self; 2] = [Self::Connect, Self::Short];

    /// The name of the component for the answers with this status.
    fn component(self, status: u16) -> String {
        format!("{}{status}", if self == Self::Connect { "Connect" } else { "Short" })
    }
}

/// The statuses of refusals that the port sends as plain text before it looks up the method. They are 401 without a
/// client certificate, and 403 for requests from pages of other origins.
const AS_TEXT: [u16; 2] = [401, 403];

/// The status of a call whose content type is not supported.
const UNSUPPORTED: &str = "415";

/// The answers of an operation. `schema` is the schema of a successful answer.
pub(super) fn responses(form: Form, schema: &Value) -> Value {
    let mut responses = Map::new();
    let mut content = json!({"application/json": {"schema": schema}});
    if form == Form::Short {
        content["text/plain"] = text();
    }
    responses.insert("200".to_owned(), json!({"description": "The answer.", "content": content}));
    let statuses = failure::statuses();
    responses.extend(statuses.keys().map(|status| (status.to_string(), component(&form.component(*status)))));
    if form == Form::Connect {
        responses.insert(UNSUPPORTED.to_owned(), component(UNSUPPORTED));
    }
    Value::Object(responses)
}

/// The error answers, to which operations refer.
pub(super) fn components() -> Map<String, Value> {
    let mut components = Map::new();
    for (status, codes) in failure::statuses() {
        for form in Form::ALL {
            let schema = if form == Form::Connect { "ConnectError" } else { "Error" };
            let mut content =
                json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}});
            if form == Form::Short || AS_TEXT.contains(&status) {
                content["text/plain"] = text();
            }
            let mut answer = json!({"description": codes.iter().map(|code| code_name(*code)).collect::<Vec<_>>().join(", "), "content": content});
            if let Some(headers) = headers(status) {
                answer["headers"] = headers;
            }
            components.insert(form.component(status), answer);
        }
    }
    let unsupported =
        json!({"description": "The content type is not application/json.", "content": {"text/plain": text()}});
    components.insert(UNSUPPORTED.to_owned(), unsupported);
    components
}

/// The headers of the answers with this status.
fn headers(status: u16) -> Option<Value> {
    match status {
        401 => Some(json!({
            "www-authenticate": {"description": "The kind of credential.", "schema": {"type": "string"}},
        })),
        429 | 503 => Some(json!({
            "retry-after": {
                "description": "When to call again, in seconds, if the daemon knows. The call had no effect.",
                "schema": {"type": "integer", "minimum": 0},
            },
        })),
        _ => None,
    }
}

/// The schemas of errors.
pub(super) fn schemas() -> Map<String, Value> {
    let names: Vec<&str> = failure::statuses().into_values().flatten().map(code_name).collect();
    let codes: Vec<String> = failure::statuses().into_values().flatten().map(connect_code).collect();
    let message = json!({"type": "string", "description": "What was wrong, and what is allowed."});
    let debug = json!({"type": "object", "description": "The fields of the message."});
    let detail = json!({
        "type": "object",
        "required": ["type", "value"],
        "properties": {
            "type": {"type": "string", "description": "The name of a Protobuf message, such as google.rpc.ErrorInfo."},
            "value": {"type": "string", "contentEncoding": "base64", "description": "The message, without padding."},
            "debug": debug,
        },
    });
    let connect = json!({
        "type": "object",
        "description": "An error, as the Connect protocol defines it.",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "enum": codes},
            "message": message,
            "details": {"type": "array", "items": detail},
        },
        "additionalProperties": false,
    });
    let any = json!({"type": "object", "required": ["@type"], "properties": {"@type": {"type": "string"}}});
    let error = json!({
        "type": "object",
        "description": "An error in the form of https://google.aip.dev/193.",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "status", "message"],
                "properties": {
                    "code": {"type": "integer", "description": "The HTTP status."},
                    "status": {"type": "string", "enum": names, "description": "The gRPC code."},
                    "message": message,
                    "details": {"type": "array", "items": any},
                },
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    });
    Map::from_iter([("ConnectError".to_owned(), connect), ("Error".to_owned(), error)])
}

fn component(name: &str) -> Value {
    json!({"$ref": format!("#/components/responses/{name}")})
}

fn text() -> Value {
    json!({"schema": {"type": "string"}})
}
