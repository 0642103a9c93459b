//! Parses JSON requests for identifiers, in the spelling that clients usually send. The requests are parsed without
//! descriptors, because reflection takes longer than the grant.

use kent_proto::v1::{AllocateRequest, Encoding};
use serde::Deserialize;

/// The maximum length of a request in its usual spelling, in bytes. The service refuses messages that are much larger.
const BYTES_MAX: usize = 1024;

/// The fields of [`AllocateRequest`], without the rarer spellings of ProtoJSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Usual<'t> {
    source: &'t str,
    #[serde(default)]
    count: u64,
    encoding: Option<&'t str>,
    #[serde(default)]
    request_id: &'t str,
}

/// Parses a request in its usual spelling. Returns `None` for other spellings and for invalid requests; reflection then
/// parses the request or explains the problem.
pub(super) fn usual(text: &[u8]) -> Option<AllocateRequest> {
    if text.len() > BYTES_MAX {
        return None;
    }
    let Usual { source, count, encoding, request_id } = serde_json::from_slice(text).ok()?;
    let encoding = encoding.map_or(Some(Encoding::default()), Encoding::from_str_name)?;
    Some(AllocateRequest {
        source: source.to_owned(),
        count,
        encoding: encoding.into(),
        request_id: request_id.to_owned(),
        ..AllocateRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;
    use prost_reflect::DescriptorPool;

    use super::*;
    use crate::gateway::json;

    /// Encodes JSON by reflection.
    fn reflected(text: &str) -> Option<Bytes> {
        let pool = DescriptorPool::decode(kent_proto::DESCRIPTORS).expect("valid");
        let message = pool.get_message_by_name("kent.v1.AllocateRequest").expect("a message");
        json::encode(text.as_bytes(), &message, false).ok()
    }

    #[test]
    fn ok_the_usual_spelling_is_the_same_request_as_by_reflection() {
        for text in [
            r#"{"source":"uuidv7","count":100,"encoding":"ENCODING_TEXT"}"#,
            r#" { "encoding": "ENCODING_PACKED", "requestId": "a", "source": "region:é", "count": 18446744073709551615 } "#,
            r#"{"source":""}"#,
        ] {
            let usual = usual(text.as_bytes()).map(|request| Bytes::from(request.encode_to_vec()));
            assert!(usual.is_some() && usual == reflected(text), "{text}: {usual:?}");
        }
    }

    #[test]
    fn ok_other_spellings_and_invalid_requests_are_left_to_reflection() {
        for (text, is_valid) in [
            (r#"{"source":"xid","count":"100"}"#, true),
            (r#"{"source":"xid","count":1e2}"#, false),
            (r#"{"source":"\u0078id"}"#, true),
            (r#"{"source":"xid","request_id":"a"}"#, true),
            (r#"{"source":"xid","encoding":2}"#, true),
            (r#"{"source":"xid","needed":"5"}"#, true),
            (r#"{"source":null}"#, true),
            ("{}", true),
            ("", true),
            (r#"{"source":"xid","encoding":"TEXT"}"#, false),
            (r#"{"source":"xid","encoding":""}"#, false),
            (r#"{"source":"xid","count":-1}"#, false),
            (r#"{"source":"xid","count":1,"count":2}"#, true),
            (r#"{"source":"xid"}}"#, false),
            (r#"{"source":"xid""#, false),
        ] {
            assert_eq!((usual(text.as_bytes()), reflected(text).is_some()), (None, is_valid), "{text}");
        }
    }
}
