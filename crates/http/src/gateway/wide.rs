//! 128-bit numbers in JSON: decimal strings, like 64-bit numbers, instead of two halves.

use std::collections::HashSet;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use thiserror::Error;

/// The message that represents a 128-bit number.
pub(super) const WIDE: &str = "kent.v1.Uint128";

/// The depth to which messages are searched for 128-bit numbers. The JSON parser accepts at most 128 levels.
const DEPTH_MAX: usize = 64;

/// A value that is not a 128-bit number.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{field}: expected a whole number from 0 to 2^128 - 1 as a string, such as \"1234\"")]
pub(super) struct BadNumber {
    field: String,
}

/// Whether a message may contain a 128-bit number.
pub(super) fn has_wide(message: &MessageDescriptor) -> bool {
    fn search(message: &MessageDescriptor, seen: &mut HashSet<String>) -> bool {
        seen.insert(message.full_name().to_owned())
            && message.fields().any(|field| match inner(&field) {
                Some(inner) => inner.full_name() == WIDE || search(&inner, seen),
                None => false,
            })
    }
    search(message, &mut HashSet::new())
}

/// Splits each 128-bit number in a request into its halves.
///
/// # Errors
///
/// [`BadNumber`].
pub(super) fn split(value: &mut Value, message: &MessageDescriptor) -> Result<(), BadNumber> {
    visit(value, message, DEPTH_MAX, &mut |name, value| {
        let number = match &*value {
            Value::String(text) => text.parse::<u128>().ok(),
            Value::Number(number) => number.as_u64().map(u128::from),
            _ => None,
        };
        let Some(number) = number else { return Err(BadNumber { field: name.to_owned() }) };
        // OK because the conversion keeps the low half.
        *value = json!({"high": ((number >> 64) as u64).to_string(), "low": (number as u64).to_string()});
        Ok(())
    })
}

/// Replaces the halves of each number in an answer with the number.
pub(super) fn join(value: &mut Value, message: &MessageDescriptor) {
    let joined = visit(value, message, DEPTH_MAX, &mut |_, value| {
        let half = |name| value.get(name).and_then(Value::as_str).and_then(|text| text.parse::<u128>().ok());
        let number = half("high").unwrap_or(0) << 64 | half("low").unwrap_or(0);
        *value = Value::String(number.to_string());
        Ok::<_, std::convert::Infallible>(())
    });
    match joined {
        Ok(()) => {}
        Err(never) => match never {},
    }
}

/// Calls `change` with each 128-bit number in a message.
fn visit<E>(
    value: &mut Value,
    message: &MessageDescriptor,
    depth: usize,
    change: &mut impl FnMut(&str, &mut Value) -> Result<(), E>,
) -> Result<(), E> {
    let (Value::Object(object), Some(depth)) = (value, depth.checked_sub(1)) else { return Ok(()) };
    for (name, value) in present(object) {
        let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
        let Some(inner) = field.as_ref().and_then(inner) else { continue };
        let mut visit_one = |value: &mut Value| match inner.full_name() == WIDE {
            true => change(name, value),
            false => visit(value, &inner, depth, change),
        };
        match value {
            Value::Array(values) => values.iter_mut().try_for_each(&mut visit_one)?,
            value => visit_one(value)?,
        }
    }
    Ok(())
}

/// Returns the non-null fields of an object.
fn present(object: &mut Map<String, Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    object.iter_mut().filter(|(_, value)| !value.is_null())
}

/// The type of the message in a field. No field of the API is a map of messages.
fn inner(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(message) if !message.is_map_entry() => Some(message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    fn message(name: &str) -> MessageDescriptor {
        let pool = DescriptorPool::decode(kent_proto::DESCRIPTORS).expect("valid");
        pool.get_message_by_name(name).expect("a message")
    }

    #[test]
    fn ok_numbers_are_split_and_joined() {
        let descriptor = message("kent.v1.ClassifyRequest");
        let numbers =
            json!({"parent": "spaces/default", "identifiers": ["0", 7, "340282366920938463463374607431768211455"]});
        let mut value = numbers.clone();
        split(&mut value, &descriptor).expect("numbers");
        assert_eq!(value["identifiers"][1], json!({"high": "0", "low": "7"}));
        assert_eq!(value["identifiers"][2]["high"], "18446744073709551615");
        join(&mut value, &descriptor);
        assert_eq!(value["identifiers"], json!(["0", "7", "340282366920938463463374607431768211455"]));
    }

    #[test]
    fn ok_numbers_in_inner_messages() {
        let descriptor = message("kent.v1.ClassifyResponse");
        assert!(has_wide(&descriptor) && !has_wide(&message("kent.v1.InspectRequest")));
        let half = json!({"low": "5"});
        let mut value = json!({"classifications": [{"identifier": half, "local": {"suffix": half}, "suffix": null}]});
        join(&mut value, &descriptor);
        assert_eq!(value, json!({"classifications": [{"identifier": "5", "local": {"suffix": "5"}, "suffix": null}]}));
    }

    #[test]
    fn err_other_values() {
        let descriptor = message("kent.v1.ClassifyRequest");
        for bad in
            [json!("-1"), json!("x"), json!(1.5), json!({"low": "1"}), json!("340282366920938463463374607431768211456")]
        {
            let mut value = json!({"identifiers": [bad]});
            assert_eq!(split(&mut value, &descriptor), Err(BadNumber { field: "identifiers".to_owned() }), "{bad}");
        }
    }
}
