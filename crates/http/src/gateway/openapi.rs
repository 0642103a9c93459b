//! The OpenAPI document of the HTTP port, generated from the protocol's descriptors and their comments.
//!
//! The document is built from serde_json values: most of it is JSON Schema, and the OpenAPI crates support only a part
//! of JSON Schema. Schemathesis checks the document against a running daemon (`server/tests/it/openapi.rs`).

mod answers;
mod comments;
mod schemas;
mod short;

use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde_json::{Map, Value, json};

use self::{answers::Form, comments::Comments, schemas::Schemas};

/// The version of the specification that the document follows.
const SPECIFICATION: &str = "3.1.1";

/// The text at the top of the document.
const ABOUT: &str = "\
Kent issues identifiers, and never issues one twice.

Messages have Protobuf's JSON form. Fields with default values are left out of answers. Integers of 64 and 128 bits are \
strings; in requests, numbers are accepted as well. Names of fields may also be written as in the .proto files. The paths \
of methods also take and answer `application/proto`, by the Connect protocol, and gRPC-Web; methods with streams have \
gRPC-Web only and are not in this document.";

/// Makes the document.
pub(super) fn document(pool: &DescriptorPool) -> Value {
    let comments = Comments::of(pool);
    let mut schemas = Schemas::new(&comments);
    let (mut paths, mut tags) = (Map::new(), Vec::new());
    for service in pool.services() {
        tags.push(json!({"name": service.name()}));
        let unary = service.methods().filter(|method| !method.is_client_streaming() && !method.is_server_streaming());
        for method in unary {
            let path = format!("/{}/{}", service.full_name(), method.name());
            paths.insert(path, json!({"post": operation(&method, &comments, &mut schemas)}));
        }
    }
    paths.extend(short::paths(pool, &comments, &mut schemas));
    let mut schemas = schemas.finish();
    schemas.extend(answers::schemas());
    json!({
        "openapi": SPECIFICATION,
        "info": {
            "title": "Kent",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": env!("CARGO_PKG_LICENSE")},
        },
        "tags": tags,
        "paths": paths,
        // A daemon without --auth required takes calls without a token.
        "security": [{}, {"token": []}],
        "components": {
            "schemas": schemas,
            "responses": answers::components(),
            "parameters": parameters(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token, such as `kent token create ci --allow allocate:uuidv7` makes."},
            },
        },
    })
}

/// Returns the OpenAPI operation for a method.
fn operation(method: &MethodDescriptor, comments: &Comments<'_>, schemas: &mut Schemas<'_>) -> Value {
    let service = method.parent_service();
    let comment = comments.at(&method.parent_file(), method.path());
    let mut operation = json!({
        "operationId": format!("{}_{}", service.name(), method.name()),
        "tags": [service.name()],
        "summary": if comment.is_empty() { method.name() } else { comments::first_sentence(&comment) },
        "parameters": [
            {"$ref": "#/components/parameters/timeout"},
            {"$ref": "#/components/parameters/version"},
            {"$ref": "#/components/parameters/principal"},
        ],
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": schemas.message(&method.input())}},
        },
        "responses": answers::responses(Form::Connect, &schemas.message(&method.output())),
    });
    comments::describe(&mut operation, comment);
    operation
}

/// The headers that calls may have.
fn parameters() -> Value {
    json!({
        "timeout": {
            "name": "connect-timeout-ms",
            "in": "header",
            "description": "How long the call may wait, in milliseconds.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,10}$"},
        },
        "version": {
            "name": "connect-protocol-version",
            "in": "header",
            "description": "The version of the Connect protocol.",
            "schema": {"const": "1"},
        },
        "principal": {
            "name": "kent-principal",
            "in": "header",
            "description": "The user on whose behalf the call is made, for the history and the audit log: at most 100 characters are kept.",
            "schema": {"type": "string"},
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gateway::methods::Methods;

    fn made() -> Value {
        document(Methods::of_api().expect("valid descriptors").pool())
    }

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn ok_every_reference_has_its_component_and_every_component_is_used() {
        let document = made();
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let components = document["components"].as_object().expect("components");
        let kinds = components.iter().filter(|(kind, _)| *kind != "securitySchemes");
        let there: BTreeSet<String> = kinds
            .flat_map(|(kind, all)| {
                all.as_object().into_iter().flat_map(Map::keys).map(move |name| format!("#/components/{kind}/{name}"))
            })
            .collect();
        assert_eq!(used, there);
    }

    #[test]
    fn ok_types_comments_and_paths_are_those_of_the_protocol() {
        let document = made();
        let schema = |name: &str| document["components"]["schemas"][name].clone();
        let allocate = schema("kent.v1.AllocateRequest");
        assert_eq!(allocate["properties"]["count"]["pattern"], "^(0|[1-9][0-9]{0,19})$");
        assert_eq!(allocate["properties"]["encoding"]["$ref"], "#/components/schemas/kent.v1.Encoding");
        let source = allocate["properties"]["source"]["description"].as_str().expect("a comment");
        assert!(source.starts_with("The source to allocate from. One of:\n- a format: \"uuidv1\""), "{source}");
        assert_eq!(schema("kent.v1.Encoding")["enum"][3], "ENCODING_TEXT");
        let classification = schema("kent.v1.Classification");
        assert_eq!(classification["properties"]["identifier"]["pattern"], "^(0|[1-9][0-9]{0,38})$");
        assert_eq!(classification["properties"]["local"]["$ref"], "#/components/schemas/kent.v1.Classification");
        assert_eq!(classification["properties"]["issuedPrefix"]["type"], "string");
        // A field with explicit presence has no default.
        assert_eq!(classification["properties"]["issuedPrefix"].get("default"), None);
        assert_eq!(classification["properties"]["text"]["default"], "");
        let answer = schema("kent.v1.AllocateResponse");
        assert_eq!(answer["oneOf"][0]["required"], json!(["lease"]));
        assert_eq!(schema("kent.v1.Region")["properties"]["labels"]["additionalProperties"]["type"], "string");
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.contains_key("/v1/alloc/{source}") && paths.contains_key("/kent.v1.Regions/Classify"));
        assert!(!paths.contains_key("/kent.v1.Regions/WatchTable"));
        let allocate = &paths["/kent.v1.Allocator/Allocate"]["post"];
        assert_eq!(allocate["summary"], "Grants one block.");
        let answers: Vec<&String> = allocate["responses"].as_object().expect("answers").keys().collect();
        let expected = ["200", "400", "401", "403", "404", "409", "415", "429", "499", "500", "501", "503", "504"];
        assert_eq!(answers, expected);
    }
}
