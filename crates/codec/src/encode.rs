//! Makes an identifier of any format from its fields.

use kent_ids::{Codec, CodecError, ErrorCode, Id};
use serde_json::{Map, Value};

use crate::{error::VerbError, input::Input};

/// An identifier made by [`encode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The canonical text.
    pub text: String,
    /// The bytes, most significant first.
    pub bytes: Vec<u8>,
}

/// Makes an identifier of this format from its fields. The fields have the same names as the inputs of the verbs
/// `uuid.make` and `uid11.pack`; integers are decimal.
///
/// # Errors
/// Fails with `bad-format` for an unknown format, with `bad-input` for a missing field, with `range` for a field that
/// does not fit, and with a more specific code for another field that is not valid.
pub fn encode<'f>(format: &str, fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> Result<Encoded, VerbError> {
    let codec = Codec::by_token(format).ok_or_else(|| {
        let known: Vec<_> = Codec::all().map(|codec| codec.token()).collect();
        let message = format!("there is no format {format:?}: use one of {}", known.join(", "));
        CodecError::new(ErrorCode::BadFormat, message)
    })?;
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    let id = codec.make(&Input::new(&Map::from_iter(fields)))?;
    let mut bytes = vec![0; id.width_bytes()];
    Id::write_be(&id, &mut bytes);
    Ok(Encoded { text: id.to_string(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_fields_make_an_identifier() {
        let made =
            encode("uuidv7", [("unix_ms", "1645557742000"), ("rand_a", "3267"), ("rand_b", "1784793296645077391")]);
        assert_eq!(made.expect("it fits").text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
        let made = encode("xid", [("ts", "86400000"), ("rand", "0")]).expect("it fits");
        assert_eq!((made.text.as_str(), made.bytes), ("113q8KFkAEs", vec![0, 1, 0x49, 0x97, 0, 0, 0, 0]));
    }

    #[test]
    fn err_unknown_formats_and_bad_fields() {
        assert_eq!(encode("uuidv9", []).expect_err("unknown format").code, "bad-format");
        assert_eq!(encode("xid", [("ts", "1")]).expect_err("no rand").code, "bad-input");
        assert_eq!(encode("xid", [("ts", "1"), ("rand", "4194304")]).expect_err("too wide").code, "range");
        for fields in [&[("name", "x")][..], &[("name", "x"), ("namespace", "DNS")]] {
            let error = encode("uuidv5", fields.iter().copied()).expect_err("no namespace");
            assert!(error.message.ends_with("; a namespace is dns, url, oid, x500 or a UUID"), "{error}");
        }
    }
}
