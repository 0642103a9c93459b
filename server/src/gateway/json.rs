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
        false => {
            let parsed = DynamicMessage::deserialize(message.clone(), &mut json);
            parsed.map_err(|error| error.to_string()).and_then(|parsed| end(&mut json).map(|()| parsed))
        }
        true => Value::deserialize(&mut json).map_err(|error| error.to_string()).and_then(|mut value| {
            end(&mut json)?;
            wide::split(&mut value, message).map_err(|bad| bad.to_string())?;
            DynamicMessage::deserialize(message.clone(), value).map_err(|error| error.to_string())
        }),
    };
    parsed.map(|message| message.encode_to_vec().into())
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
