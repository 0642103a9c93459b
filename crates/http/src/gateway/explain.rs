//! Explains what is wrong with a JSON request: which field is wrong, and what its value must be.

use kent_proto::model::range;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_path_to_error::{Path, Segment};

use super::wide::WIDE;

/// The maximum number of characters that a message quotes from an unknown name.
const SHOWN_MAX: usize = 80;

/// The message about a value of the wrong type at `path` in a request. `error` is the parser's message.
pub(super) fn wrong_value(message: &MessageDescriptor, path: &Path, error: &str) -> String {
    let field = find(message, path);
    if let Some((_, rest)) = error.split_once("unrecognized field name '") {
        let name = rest.split('\'').next().unwrap_or_default();
        let around = match field.as_ref().map(FieldDescriptor::kind) {
            Some(Kind::Message(inner)) => inner,
            _ => message.clone(),
        };
        return unknown_field(&around, name);
    }
    match field {
        None => format!("it must be {}", object(message)),
        Some(field) => format!("{path}: must be {}", wanted(&field, path)),
    }
}

/// Finds the last field of a path that the message types define.
fn find(message: &MessageDescriptor, path: &Path) -> Option<FieldDescriptor> {
    let (mut outer, mut field) = (message.clone(), None::<FieldDescriptor>);
    for segment in path {
        let Segment::Map { key } = segment else { continue };
        if let Some(Kind::Message(inner)) = field.as_ref().map(FieldDescriptor::kind) {
            outer = inner;
        }
        match outer.get_field_by_json_name(key).or_else(|| outer.get_field_by_name(key)) {
            Some(next) => field = Some(next),
            // The key of a map, or an unknown field.
            None => break,
        }
    }
    field
}

/// The message about a field that does not exist.
fn unknown_field(message: &MessageDescriptor, name: &str) -> String {
    let names: Vec<String> = message.fields().map(|field| field.json_name().to_owned()).collect();
    let distance = |known: &&String| strsim::damerau_levenshtein(known, name);
    let near = names.iter().min_by_key(distance).filter(|near| distance(near) * 3 <= near.chars().count());
    let meant = near.map(|near| format!("did you mean {near:?}? Otherwise ")).unwrap_or_default();
    let name: String = name.chars().take(SHOWN_MAX).collect();
    format!("there is no field {name:?}: {meant}the fields are {}", names.join(", "))
}

/// What the value of a field must be. The path ends with an index if the value is an element of a list.
fn wanted(field: &FieldDescriptor, path: &Path) -> String {
    let is_element = matches!(path.iter().next_back(), Some(Segment::Seq { .. }));
    if field.is_list() && !is_element {
        return "a list in brackets, such as [...]".to_owned();
    }
    match field.kind() {
        Kind::Uint32 | Kind::Fixed32 => {
            let range = range(field.name());
            format!("a whole number from {} to {}, such as 20", range.start(), range.end().min(&u32::MAX.into()))
        }
        Kind::Uint64 | Kind::Fixed64 => match range(field.name()).into_inner() {
            (min, u64::MAX) => {
                format!(
                    "a whole number from {min} to 2^64 - 1, such as 20 or \"20\"; a number above 2^53 must be a string"
                )
            }
            (min, max) => format!("a whole number from {min} to {max}, such as 20 or \"20\""),
        },
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "a whole number, such as 20".to_owned(),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "a whole number, such as 20 or \"20\"".to_owned(),
        Kind::Double | Kind::Float => "a number, such as 0.5".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::String => "a string".to_owned(),
        Kind::Bytes => "a string with the bytes in base64".to_owned(),
        // The first value of each enum means "not given".
        Kind::Enum(values) => {
            let names: Vec<_> = values.values().skip(1).map(|value| format!("{:?}", value.name())).collect();
            names.join(" or ")
        }
        Kind::Message(message) if message.full_name() == WIDE => {
            "a whole number from 0 to 2^128 - 1 as a string, such as \"1234\"".to_owned()
        }
        Kind::Message(message) if message.full_name() == "google.protobuf.FieldMask" => {
            "a string with names of fields, separated by commas".to_owned()
        }
        Kind::Message(message) => object(&message),
    }
}

/// Describes the JSON form of a message, with a field as an example.
fn object(message: &MessageDescriptor) -> String {
    match message.fields().next() {
        Some(field) => format!("an object, such as {{\"{}\": ...}}", field.json_name()),
        None => "an empty object: {}".to_owned(),
    }
}
