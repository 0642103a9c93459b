//! Identifiers as text, for the answers to `Allocate` on the HTTP port. The text is written directly from the block,
//! because encoding and decoding a message would take longer than the grant.

use kent_proto::model::{fence, for_each_spelled, for_each_text};
use kent_transport::issued::{Form, Issued};

/// The memory to reserve for an identifier with its separators, in bytes; it suffices for a UUID, the longest common
/// identifier.
const TEXT_BYTES: usize = 39;

/// The identifiers, one per line.
pub(super) fn lines(issued: &Issued) -> String {
    let mut lines = with_capacity(issued);
    for_each(issued, |id| {
        lines.push_str(id);
        lines.push('\n');
    });
    lines
}

/// `AllocateResponse` as JSON. Fields with default values are left out, and the others are ordered by name, as in all
/// answers.
pub(super) fn response(issued: &Issued) -> String {
    let mut json = with_capacity(issued);
    json.push('{');
    push_number(&mut json, "clockEpoch", issued.clock_epoch);
    json.push_str("\"text\":");
    push_identifiers(&mut json, issued);
    json.push('}');
    json
}

/// `TextIdentifiers` as JSON.
pub(super) fn identifiers(issued: &Issued) -> String {
    let mut json = with_capacity(issued);
    push_identifiers(&mut json, issued);
    json
}

/// Calls `take` with the text of each identifier.
fn for_each(issued: &Issued, take: impl FnMut(&str)) {
    match &issued.form {
        Form::Space(form) => for_each_text(&issued.block, *form, take),
        Form::Layout(spelling) => for_each_spelled(&issued.block, spelling, take),
    }
}

fn with_capacity(issued: &Issued) -> String {
    // OK because a block in text has at most 10,000 identifiers.
    String::with_capacity(128 + issued.block.count() as usize * TEXT_BYTES)
}

fn push_identifiers(json: &mut String, issued: &Issued) {
    let (subject, token) = fence(&issued.block);
    json.push('{');
    push_number(json, "fenceSubject", subject);
    push_number(json, "fenceToken", token);
    json.push_str("\"ids\":[");
    let mut separator = "";
    for_each(issued, |id| {
        json.push_str(separator);
        // No escapes are needed, because the text of an identifier has only letters, digits and the characters - _ . :
        json.push('"');
        json.push_str(id);
        json.push('"');
        separator = ",";
    });
    json.push_str("]}");
}

/// Appends a 64-bit number and a comma, unless the number is the default.
fn push_number(json: &mut String, name: &str, number: u64) {
    if number != 0 {
        json.push('"');
        json.push_str(name);
        json.push_str("\":\"");
        json.push_str(&number.to_string());
        json.push_str("\",");
    }
}

#[cfg(test)]
mod tests {
    use kent_ids::{Block, ClusterKey, Position, RegionConstants, Series, Suffixes};
    use kent_proto::{
        model::texts,
        stored::TextForm,
        v1::{AllocateResponse, allocate_response::Identifiers},
    };
    use prost::Message;
    use prost_reflect::{DescriptorPool, DynamicMessage};

    use super::*;
    use crate::gateway::json;

    fn reflected(name: &str, message: &impl Message) -> String {
        let pool = DescriptorPool::decode(kent_proto::DESCRIPTORS).expect("valid");
        let descriptor = pool.get_message_by_name(name).expect("a message");
        let message = DynamicMessage::decode(descriptor, &*message.encode_to_vec()).expect("a message");
        json::value(&message).expect("JSON").to_string()
    }

    #[test]
    fn ok_the_json_is_that_of_reflection_and_the_lines_have_the_same_identifiers() {
        let region = |number, revision, count| {
            let constants = RegionConstants {
                base: 0xb4 << 12,
                bits: 20,
                suffix_bits: 12,
                number,
                revision,
                suffixes: Suffixes::EVERY,
            };
            Block::region(constants, Position::new(5), count).expect("a block")
        };
        // The identifiers of these blocks have no random bits.
        for (block, form, clock_epoch) in [
            (region(3, 8, 1), TextForm::Decimal, 0),
            (region(0, 0, 3), TextForm::Hex, 1),
            (region(7, u64::MAX, 2), TextForm::Uid11, u64::MAX),
        ] {
            let issued = Issued { block: block.clone(), form: Form::Space(form), clock_epoch };
            let text = texts(&block, form);
            assert_eq!(lines(&issued), text.ids.join("\n") + "\n");
            assert_eq!(identifiers(&issued), reflected("kent.v1.TextIdentifiers", &text));
            let message = AllocateResponse { identifiers: Some(Identifiers::Text(text)), clock_epoch };
            assert_eq!(response(&issued), reflected("kent.v1.AllocateResponse", &message));
        }
    }

    #[test]
    fn ok_random_identifiers_are_valid_json() {
        let series = Series::FullRand;
        let block = Block::series(series, ClusterKey::new([7; 16]), Position::new(0), 100).expect("a block");
        let issued = Issued { block, form: Form::Space(TextForm::Decimal), clock_epoch: 1 };
        let parsed: serde_json::Value = serde_json::from_str(&response(&issued)).expect("JSON");
        assert_eq!(parsed["text"]["ids"].as_array().map(Vec::len), Some(100));
    }
}
