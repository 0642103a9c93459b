//! JSON Schemas for the JSON form of the protocol's messages and enums.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use serde_json::{Map, Value, json};

use super::comments::{Comments, describe};
use crate::gateway::wide::WIDE;

/// The schemas of all messages and enums that were requested, and of the messages and enums that they contain.
pub(super) struct Schemas<'c> {
    comments: &'c Comments<'c>,
    made: Map<String, Value>,
}

impl<'c> Schemas<'c> {
    pub(super) fn new(comments: &'c Comments<'c>) -> Self {
        Self { comments, made: Map::new() }
    }

    /// Returns the schemas, keyed by name.
    pub(super) fn finish(self) -> Map<String, Value> {
        self.made
    }

    /// The schema of a message. For most messages, the schema is a reference.
    pub(super) fn message(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.full_name();
        match name {
            WIDE => return decimal(38, false),
            "google.protobuf.FieldMask" => {
                return json!({"type": "string", "description": "Names of fields in camel case, separated by commas."});
            }
            "google.protobuf.Any" => {
                return json!({"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]});
            }
            _ => {}
        }
        if !self.made.contains_key(name) {
            // Reserve the name before building the schema, because messages may be recursive.
            self.made.insert(name.to_owned(), Value::Null);
            let schema = self.object(message);
            self.made.insert(name.to_owned(), schema);
        }
        reference(name)
    }

    fn object(&mut self, message: &MessageDescriptor) -> Value {
        let fields = message.fields().map(|field| (field.json_name().to_owned(), self.field(&field)));
        let properties: Map<String, Value> = fields.collect();
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        let mut oneofs = message.oneofs().filter(|oneof| !oneof.is_synthetic()).map(|oneof| at_most_one(&oneof));
        match (oneofs.next(), oneofs.next()) {
            (None, _) => {}
            (Some(only), None) => schema["oneOf"] = only,
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(oneofs).map(|one| json!({"oneOf": one}));
                schema["allOf"] = all.collect();
            }
        }
        describe(&mut schema, self.comments.at(&message.parent_file(), message.path()));
        schema
    }

    /// The schema of a field: a list, a map or one value.
    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let value = match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let values = self.value(&entry.map_entry_value_field());
                json!({"type": "object", "additionalProperties": values})
            }
            _ => self.value(field),
        };
        let mut schema = if field.is_list() { json!({"type": "array", "items": value}) } else { value };
        if let (false, false, Some(default)) =
            (field.supports_presence(), field.is_list() || field.is_map(), default(field))
        {
            schema["default"] = default;
        }
        let comment = self.comments.at(&field.parent_message().parent_file(), field.path());
        describe(&mut schema, comment);
        schema
    }

    fn value(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Bool => json!({"type": "boolean"}),
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::Double | Kind::Float => {
                json!({"oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]})
            }
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                json!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX})
            }
            Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => decimal(18, true),
            Kind::Uint64 | Kind::Fixed64 => decimal(19, false),
            Kind::Message(message) => self.message(&message),
            Kind::Enum(names) => self.names(&names),
        }
    }

    /// The schema of an enum, as a reference.
    fn names(&mut self, names: &EnumDescriptor) -> Value {
        if !self.made.contains_key(names.full_name()) {
            let file = names.parent_file();
            let mut described = self.comments.at(&file, names.path());
            let values: Vec<String> = names.values().map(|value| value.name().to_owned()).collect();
            for value in names.values() {
                let comment = self.comments.at(&file, value.path()).replace('\n', " ");
                if !comment.is_empty() {
                    described += &format!("\n- `{}`: {comment}", value.name());
                }
            }
            let mut schema = json!({"type": "string", "enum": values});
            describe(&mut schema, described.trim_start());
            self.made.insert(names.full_name().to_owned(), schema);
        }
        reference(names.full_name())
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The schema of a decimal number in a string, with up to `more` digits after the first.
fn decimal(more: u32, is_signed: bool) -> Value {
    let sign = if is_signed { "-?" } else { "" };
    json!({"type": "string", "pattern": format!("^(0|{sign}[1-9][0-9]{{0,{more}}})$")})
}

/// The fields of a oneof exclude each other, and may all be absent.
fn at_most_one(oneof: &OneofDescriptor) -> Value {
    let each: Vec<Value> = oneof.fields().map(|field| json!({"required": [field.json_name()]})).collect();
    let none = json!({"not": {"anyOf": each.clone()}});
    each.into_iter().chain([none]).collect()
}

/// The value of a field that is absent.
fn default(field: &FieldDescriptor) -> Option<Value> {
    Some(match field.kind() {
        Kind::Bool => json!(false),
        Kind::String | Kind::Bytes => json!(""),
        Kind::Double | Kind::Float => json!(0.0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32 => json!(0),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => json!("0"),
        Kind::Enum(names) => json!(names.default_value().name()),
        Kind::Message(_) => return None,
    })
}
