//! Converts messages from and to JSON, as ProtoJSON defines it, but with 128-bit numbers as decimal strings.

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage, SerializeOptions};
use serde::Deserialize;
use serde_json::{Deserializer, Serializer, Value, error::Category};

use super::{explain, wide};

/// Converts JSON to an encoded message. Empty text means the empty message.
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
        true => Value::deserialize(&mut json).map_err(|error| syntax(&error)).and_then(|mut value| {
            end(&mut json)?;
            wide::split(&mut value, message).map_err(|bad| bad.to_string())?;
            parse(message, value)
        }),
    };
    parsed.map(|message| message.encode_to_vec().into())
}

/// Parses a message. An error names the field and what its value must be.
fn parse<'de, D>(message: &MessageDescriptor, json: D) -> Result<DynamicMessage, String>
where
    D: serde::Deserializer<'de, Error = serde_json::Error>,
{
    let mut track = serde_path_to_error::Track::new();
    let json = serde_path_to_error::Deserializer::new(json, &mut track);
    DynamicMessage::deserialize(message.clone(), json).map_err(|error| match error.classify() {
        Category::Data => explain::wrong_value(message, &track.path(), &error.to_string()),
        Category::Syntax | Category::Eof | Category::Io => syntax(&error),
    })
}

fn end(json: &mut Deserializer<serde_json::de::SliceRead<'_>>) -> Result<(), String> {
    json.end().map_err(|error| syntax(&error))
}

/// Describes the syntax error in text that is not valid JSON.
fn syntax(error: &serde_json::Error) -> String {
    error.to_string().replace("EOF while parsing", "the text ends within")
}

/// Converts an encoded message to JSON. Returns `None` if the bytes are not a message of this type.
pub(super) fn decode(bytes: Bytes, message: &MessageDescriptor, has_wide: bool) -> Option<Vec<u8>> {
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
    fn err_a_value_of_the_wrong_type_is_named_with_what_is_allowed() {
        const COUNT: &str = "count: must be a whole number from 0 to 2^64 - 1, such as 20";
        let (allocate, create) = ("kent.v1.AllocateRequest", "kent.v1.CreateRegionRequest");
        let pool = DescriptorPool::decode(kent_proto::DESCRIPTORS).expect("valid");
        for (message, has_wide, text, expected) in [
            (allocate, false, r#"{"source": 7}"#, "source: must be a string"),
            (allocate, false, r#"{"source": "xid", "count": true}"#, COUNT),
            (allocate, false, r#"{"source": "xid", "count": -1}"#, COUNT),
            (allocate, false, r#"{"source": "xid", "count": "x"}"#, COUNT),
            (allocate, false, r#"{"source": "xid", "count": 1.5}"#, COUNT),
            (allocate, false, r#"{"source": "xid", "count": 99999999999999999999999}"#, COUNT),
            (
                allocate,
                false,
                r#"{"encoding": "TEXT"}"#,
                r#"encoding: must be "ENCODING_LEASE" or "ENCODING_PACKED" or "ENCODING_TEXT""#,
            ),
            (
                allocate,
                false,
                r#"{"sorce": "xid"}"#,
                r#"there is no field "sorce": did you mean "source"? Otherwise the"#,
            ),
            (allocate, false, r#"{"x": "xid"}"#, r#"there is no field "x": the fields are source, count, "#),
            (allocate, false, r#"{"source": "xid",}"#, "trailing comma at line 1 column 18"),
            (allocate, false, "[1", r#"it must be an object, such as {"source": ...}"#),
            (allocate, false, "null", r#"it must be an object, such as {"source": ...}"#),
            (create, true, r#"{"regionId": ["r"]}"#, "regionId: must be a string"),
            (create, true, r#"{"suffixBits": -1}"#, "suffixBits: must be a whole number from 0 to 128, such as 20"),
            (create, true, r#"{"zoneBits": "forty"}"#, "zoneBits: must be a whole number from 0 to 128, such as 20"),
            ("kent.v1.CreateSpaceRequest", true, r#"{"bits": "x"}"#, "bits: must be a whole number from 1 to 128"),
            (
                "kent.v1.ListTokensRequest",
                false,
                r#"{"pageSize": -1}"#,
                "pageSize: must be a whole number from 0 to 4294967295",
            ),
            (
                "kent.v1.CreateTokenRequest",
                false,
                r#"{"limits": {"streams": -1}}"#,
                "limits.streams: must be a whole number from 0 to 1000000000000, such",
            ),
            (create, true, r#"{"policy": 5}"#, r#"policy: must be an object, such as {"#),
            (
                create,
                true,
                r#"{"policy": {"autoExpand": {"atPercent": "x"}}}"#,
                "policy.autoExpand.atPercent: must be a",
            ),
            (
                create,
                true,
                r#"{"policy": {"autoExpnd": {}}}"#,
                r#"there is no field "autoExpnd": did you mean "autoExpand"?"#,
            ),
            ("kent.v1.InspectRequest", false, r#"{"texts": "x"}"#, "texts: must be a list in brackets, such as [...]"),
            ("kent.v1.InspectRequest", false, r#"{"texts": ["x", 5]}"#, "texts[1]: must be a string"),
        ] {
            let descriptor = pool.get_message_by_name(message).expect("a message");
            let refused = encode(text.as_bytes(), &descriptor, has_wide).expect_err(text);
            assert!(refused.starts_with(expected), "{text}: {refused}");
        }
    }
}
