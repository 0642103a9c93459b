//! The short paths, with the comments of the methods and fields that they map to.

use prost_reflect::DescriptorPool;
use serde_json::{Map, Value, json};

use super::{
    answers::{self, Form},
    comments::{self, Comments, describe},
    schemas::Schemas,
};

/// A short path, and the method that it calls.
struct Short {
    verb: &'static str,
    path: &'static str,
    name: &'static str,
    service: &'static str,
    method: &'static str,
    /// The message type of the answer.
    answer: &'static str,
    parameters: &'static [Parameter],
}

/// A parameter of a short path, and the field that it sets in the method's request.
struct Parameter {
    name: &'static str,
    place: Place,
    field: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Path,
    Query,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// The number of identifiers.
    Count,
    /// The name of a space without `spaces/`.
    Space,
}

const SHORT: [Short; 3] = [
    Short {
        verb: "post",
        path: "/v1/alloc/{source}",
        name: "alloc",
        service: "kent.v1.Allocator",
        method: "Allocate",
        answer: "kent.v1.TextIdentifiers",
        parameters: &[
            Parameter { name: "source", place: Place::Path, field: "source", kind: Kind::Text },
            Parameter { name: "n", place: Place::Query, field: "count", kind: Kind::Count },
            Parameter { name: "request_id", place: Place::Query, field: "request_id", kind: Kind::Text },
        ],
    },
    Short {
        verb: "get",
        path: "/v1/inspect/{id}",
        name: "inspect",
        service: "kent.v1.Codec",
        method: "Inspect",
        answer: "kent.v1.Inspection",
        parameters: &[
            Parameter { name: "id", place: Place::Path, field: "texts", kind: Kind::Text },
            Parameter { name: "format", place: Place::Query, field: "format", kind: Kind::Text },
        ],
    },
    Short {
        verb: "get",
        path: "/v1/classify/{id}",
        name: "classify",
        service: "kent.v1.Regions",
        method: "Classify",
        answer: "kent.v1.Classification",
        parameters: &[
            Parameter { name: "id", place: Place::Path, field: "identifiers", kind: Kind::Text },
            Parameter { name: "space", place: Place::Query, field: "parent", kind: Kind::Space },
        ],
    },
];

/// Returns the short paths and their operations.
pub(super) fn paths(pool: &DescriptorPool, comments: &Comments<'_>, schemas: &mut Schemas<'_>) -> Map<String, Value> {
    let paths = SHORT.iter().filter_map(|short| {
        let operation = operation(short, pool, comments, schemas)?;
        Some((short.path.to_owned(), json!({short.verb: operation})))
    });
    paths.collect()
}

fn operation(
    short: &Short,
    pool: &DescriptorPool,
    comments: &Comments<'_>,
    schemas: &mut Schemas<'_>,
) -> Option<Value> {
    let service = pool.get_service_by_name(short.service)?;
    let method = service.methods().find(|method| method.name() == short.method)?;
    let answer = schemas.message(&pool.get_message_by_name(short.answer)?);
    let input = method.input();
    let parameters = short.parameters.iter().map(|parameter| {
        let field = input.get_field_by_name(parameter.field);
        let comment = field.map(|field| comments.at(&input.parent_file(), field.path())).unwrap_or_default();
        shown(parameter, comment)
    });
    let mut parameters: Vec<Value> = parameters.collect();
    parameters.push(json!({"$ref": "#/components/parameters/principal"}));
    let comment = comments.at(&method.parent_file(), method.path());
    let mut operation = json!({
        "operationId": short.name,
        "tags": ["short paths"],
        "summary": comments::first_sentence(&comment),
        "parameters": parameters,
        "responses": answers::responses(Form::Short, &answer),
    });
    describe(&mut operation, comment);
    Some(operation)
}

fn shown(parameter: &Parameter, comment: String) -> Value {
    let (schema, comment) = match parameter.kind {
        // A path with an empty segment is a different path.
        Kind::Text if parameter.place == Place::Path => (json!({"type": "string", "minLength": 1}), comment),
        Kind::Text => (json!({"type": "string"}), comment),
        Kind::Count => (json!({"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1}), comment),
        Kind::Space => (json!({"type": "string", "default": "default"}), "The name of the space.".to_owned()),
    };
    let place = if parameter.place == Place::Path { "path" } else { "query" };
    let mut shown = json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.place == Place::Path,
        "schema": schema,
    });
    describe(&mut shown, comment);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::methods::Methods;

    #[test]
    fn ok_every_short_path_names_a_method_and_its_fields() {
        let methods = Methods::of_api().expect("valid descriptors");
        let pool = methods.pool();
        for short in &SHORT {
            let service = pool.get_service_by_name(short.service).expect("a service");
            let method = service.methods().find(|method| method.name() == short.method).expect("a method");
            assert!(pool.get_message_by_name(short.answer).is_some(), "{}", short.answer);
            for parameter in short.parameters {
                assert!(method.input().get_field_by_name(parameter.field).is_some(), "{}", parameter.field);
            }
        }
    }
}
