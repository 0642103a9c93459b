//! The answer of `Allocate` with identifiers as text, as JSON. It is the most frequent answer, and reflection would allocate
//! a value for each identifier.

use kent_proto::v1::{AllocateResponse, TextIdentifiers, allocate_response::Identifiers};
use prost::Message;
use serde::Serialize;

/// The message whose encoding [`to_json`] reads.
pub(super) const MESSAGE: &str = "kent.v1.AllocateResponse";

/// `AllocateResponse`. Fields with default values are left out, and the others are in the order of their names, as in all answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_epoch: Option<String>,
    text: Texts<'a>,
}

/// `TextIdentifiers`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Texts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    fence_subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence_token: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ids: &'a [String],
}

/// An encoded answer as JSON, or `None` if it has no identifiers as text.
pub(super) fn to_json(bytes: &[u8]) -> Option<Vec<u8>> {
    let AllocateResponse { identifiers: Some(Identifiers::Text(text)), clock_epoch } =
        AllocateResponse::decode(bytes).ok()?
    else {
        return None;
    };
    let number = |number: u64| (number != 0).then(|| number.to_string());
    let TextIdentifiers { ids, fence_subject, fence_token } = &text;
    let texts = Texts { fence_subject: number(*fence_subject), fence_token: number(*fence_token), ids };
    serde_json::to_vec(&Answer { clock_epoch: number(clock_epoch), text: texts }).ok()
}

#[cfg(test)]
mod tests {
    use prost_reflect::{DescriptorPool, DynamicMessage};

    use super::*;
    use crate::gateway::json;

    #[test]
    fn ok_the_json_is_that_of_reflection() {
        let pool = DescriptorPool::decode(kent_proto::DESCRIPTORS).expect("valid");
        let descriptor = pool.get_message_by_name(MESSAGE).expect("a message");
        let text = |ids: &[&str], fence_subject, fence_token| {
            let ids = ids.iter().map(|id| (*id).to_owned()).collect();
            Some(Identifiers::Text(TextIdentifiers { ids, fence_subject, fence_token }))
        };
        for (identifiers, clock_epoch) in
            [(text(&["1", "\"\\\u{e9}"], 7, 1), 1), (text(&[], 0, u64::MAX), 0), (text(&["x"], 0, 0), u64::MAX)]
        {
            let bytes = AllocateResponse { identifiers, clock_epoch }.encode_to_vec();
            let reflected = DynamicMessage::decode(descriptor.clone(), &*bytes).expect("a message");
            let expected = json::value(&reflected).expect("JSON").to_string();
            assert_eq!(String::from_utf8(to_json(&bytes).expect("text")).expect("UTF-8"), expected);
        }
        assert_eq!(to_json(&AllocateResponse { identifiers: None, clock_epoch: 1 }.encode_to_vec()), None);
    }
}
