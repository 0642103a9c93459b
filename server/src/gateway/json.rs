//! Messages as JSON, by the mapping of Protobuf (ProtoJSON), with 128-bit numbers as decimal strings.

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage, SerializeOptions};
use serde::Deserialize;
use serde_json::{Deserializer, Serializer, Value};

use super::{texts, wide};

/// Converts JSON to an encoded message. An empty text stands for the empty message.
///
/// # Errors
///
/// The problem with the text.
pub(super) fn encode(text: &[u8], message: &MessageDescriptor, has_wide: bool) -> Result<Bytes, String> {
    if text.is_empty() {
        return Ok(Bytes::new());
    }
    let mut json = Deserializer::from_slice(text);
    let parsed = match has_wide {
        false => parse(message, &mut json).and_then(|parsed| end(&mut json).map(|()| parsed)),
        true => Value::deserialize(&mut json).map_err(|error| error.to_string()).and_then(|mut value| {
            end(&mut json)?;
            wide::split(&mut value, message).map_err(|bad| bad.to_string())?;
            parse(message, value)
        }),
    };
    parsed.map(|message| message.encode_to_vec().into())
}

/// Parses a message. An error names the field.
fn parse<'de>(message: &MessageDescriptor, json: impl serde::Deserializer<'de>) -> Result<DynamicMessage, String> {
    let mut track = serde_path_to_error::Track::new();
    let json = serde_path_to_error::Deserializer::new(json, &mut track);
    DynamicMessage::deserialize(message.clone(), json).map_err(|error| match track.path().to_string() {
        // Without a field, as in a text that ends too early.
        path if path == "." || path == "?" => error.to_string(),
        path => format!("{path}: {error}"),
    })
}

fn end(json: &mut Deserializer<serde_json::de::SliceRead<'_>>) -> Result<(), String> {
    json.end().map_err(|error| error.to_string())
}

/// Converts an encoded message to JSON. Returns `None` if the bytes are not a message of this type.
pub(super) fn decode(bytes: Bytes, message: &MessageDescriptor, has_wide: bool) -> Option<Vec<u8>> {
    if message.full_name() == texts::MESSAGE
        && let Some(text) = texts::to_json(&bytes)
    {
        return Some(text);
    }
    let message = DynamicMessage::decode(message.clone(), bytes).ok()?;
    match has_wide {
        true => serde_json::to_vec(&value(&message)?).ok(),
        false => {
            let mut text = Vec::new();
            message.serialize_with_options(&mut Serializer::new(&mut text), &SerializeOptions::new()).ok()?;
            Some(text)
        }
    }
}

/// A message as a JSON value.
pub(super) fn value(message: &DynamicMessage) -> Option<Value> {
    let mut value = serde_json::to_value(message).ok()?;
    wide::join(&mut value, &message.descriptor());
    Some(value)
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    #[test]
    fn err_a_value_of_the_wrong_type_is_named_by_its_field() {
        let pool = DescriptorPool::decode(kent_proto::DESCRIPTORS).expect("valid");
        for (message, has_wide, text, expected) in [
            ("kent.v1.AllocateRequest", false, r#"{"source": 7}"#, "source: "),
            ("kent.v1.AllocateRequest", false, r#"{"source": "xid", "count": true}"#, "count: "),
            ("kent.v1.CreateRegionRequest", true, r#"{"regionId": ["r"]}"#, "regionId: "),
            ("kent.v1.AllocateRequest", false, "[1", "invalid type: sequence"),
        ] {
            let descriptor = pool.get_message_by_name(message).expect("a message");
            let refused = encode(text.as_bytes(), &descriptor, has_wide).expect_err(text);
            assert!(refused.starts_with(expected), "{text}: {refused}");
        }
    }
}
