//! Finds the format, the value and the time of an identifier, without an explanation: for programs that read millions.
//!
//! [`Detector`] uses the rules of [`inspect`](crate::inspect()); a test compares the two.

use kent_ids::{
    Codec, CodecError, ErrorCode, Family, NoInputs, Uid11, UnixNanos, Uuid, dce, extuuid,
    layout::{Layout, Preset, Spelling},
};
use sha2::{Digest, Sha256};

use crate::error::VerbError;
use crate::foreign::{self, Foreign};
use crate::inspect::{self, Form, SHOWN_PROFILE};

/// The format that stands for integers.
const INTEGER: &str = "integer";
/// The format of a UUID whose version has no format.
const PLAIN_UUID: &str = "uuid";
/// The namespace of all uid11s.
const UID11: &str = "uid11";
/// The format of identifiers of a custom layout.
const LAYOUT: &str = "layout";
/// The format whose identifiers have a type besides the value.
const TYPEID: &str = "typeid";
const NANOID: &str = "nanoid";
const BASE_64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The format, as in [`Inspection::format`](crate::Inspection::format); `layout` for a custom layout.
    pub format: &'static str,
    /// The formats in which the same value is the same identifier: `uuid` for all UUIDs, `uid11` for all uid11s, and
    /// otherwise the format.
    pub namespace: &'static str,
    /// The value. For a KSUID and a TypeID, whose identity has more than 128 bits: 128 bits of its SHA-256.
    pub value: u128,
    /// The time in the identifier.
    pub time: Option<UnixNanos>,
    /// Whether the text shows the format. A uid11 does not contain its profile.
    pub is_certain: bool,
}

/// Reads texts in one format, or guesses the format of each.
#[derive(Clone, Debug)]
pub struct Detector(Rule);

#[derive(Clone, Debug)]
enum Rule {
    Guess,
    Foreign(&'static str),
    Layout { format: &'static str, layout: Box<Layout>, spelling: Spelling },
    Codec(Codec),
}

/// Returns the names of the formats that [`Detector::named`] accepts.
pub fn formats() -> impl Iterator<Item = &'static str> {
    inspect::tokens()
}

/// Returns the text of a value in a namespace, or `None` if the value is a digest.
pub fn canonical(namespace: &str, value: u128) -> Option<String> {
    match namespace {
        PLAIN_UUID => Some(Uuid::from_u128(value).to_string()),
        UID11 => Some(Uid11::new(u64::try_from(value).ok()?).to_string()),
        INTEGER => Some(value.to_string()),
        NANOID => {
            (0..21).rev().map(|at| BASE_64.get((value >> (6 * at)) as usize & 63).copied().map(char::from)).collect()
        }
        TYPEID => None,
        token => match Preset::by_name(token) {
            Ok(preset) => Some(preset.spelling().ok()?.text(value, preset.layout(None).ok()?.bits())),
            Err(_) => token.starts_with("snowflake-").then(|| value.to_string()),
        },
    }
}

impl Detector {
    /// Returns the detector that guesses the format of each text.
    pub fn guess() -> Self {
        Self(Rule::Guess)
    }

    /// Returns the detector that reads every text in the format with this name.
    ///
    /// # Errors
    ///
    /// Fails with `bad-format` for an unknown format, and for one that needs more than its name.
    pub fn named(token: &str) -> Result<Self, VerbError> {
        if token == "uuidv8-draft01" {
            let message = "uuidv8-draft01 does not say the width of its time: use uuidv8-draft01-32, -48, -60 or -64";
            return Err(CodecError::new(ErrorCode::BadFormat, message).into());
        }
        if let Some(token) = foreign::tokens().find(|known| *known == token) {
            return Ok(Self(Rule::Foreign(token)));
        }
        if let Ok(preset) = Preset::by_name(token)
            && let (Ok(layout), Ok(spelling)) = (preset.layout(None), preset.spelling())
        {
            return Ok(Self(Rule::Layout { format: preset.name, layout: Box::new(layout), spelling }));
        }
        Ok(Self(Rule::Codec(Codec::by_token(token).ok_or_else(|| inspect::unknown(token))?)))
    }

    /// Returns the detector that reads every text in a custom layout.
    pub fn of_layout(layout: Layout, spelling: Spelling) -> Self {
        Self(Rule::Layout { format: LAYOUT, layout: Box::new(layout), spelling })
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// Fails with the same error as [`inspect`](crate::inspect()).
    pub fn detect(&self, text: &str) -> Result<Detected, VerbError> {
        Ok(match &self.0 {
            Rule::Guess => guess(text)?,
            Rule::Foreign(token) => match foreign::read_as(token, text) {
                Some(found) => of_foreign(text, &found?),
                None => return Err(inspect::unknown(token).into()),
            },
            Rule::Layout { format, layout, spelling } => {
                let value = spelling.parse(text, layout.bits())?;
                if !layout.fits(value) {
                    layout.read(value)?; // says which field has a wrong value
                }
                plain(format, format, value, layout.time_of(value))
            }
            Rule::Codec(codec) => of_codec(text, *codec)?,
        })
    }
}

fn plain(format: &'static str, namespace: &'static str, value: u128, time: Option<UnixNanos>) -> Detected {
    Detected { format, namespace, value, time, is_certain: true }
}

fn guess(text: &str) -> Result<Detected, CodecError> {
    Ok(match Form::of(text)? {
        Form::Ext(ext) => plain("extuuid", PLAIN_UUID, ext.to_uuid().as_u128(), None),
        Form::Uuid(uuid) => {
            let codec = dce::version(uuid).and_then(Codec::by_version);
            let time = codec.and_then(|codec| codec.time(uuid.as_u128()));
            plain(codec.map_or(PLAIN_UUID, |codec| codec.token()), PLAIN_UUID, uuid.as_u128(), time)
        }
        Form::Integer { value, .. } => plain(INTEGER, INTEGER, value, None),
        Form::Uid11(uid11) => {
            let (value, codec) = (uid11.get().into(), Codec::by_profile(SHOWN_PROFILE));
            let time = codec.and_then(|codec| codec.time(value));
            Detected { is_certain: false, ..plain(codec.map_or(UID11, |codec| codec.token()), UID11, value, time) }
        }
        Form::Foreign(found) => of_foreign(text, &found),
        Form::Preset(fit) => plain(fit.preset, fit.preset, fit.value, Some(fit.time)),
    })
}

fn of_foreign(text: &str, found: &Foreign) -> Detected {
    let value = match found.token {
        NANOID => text.bytes().fold(0, |value, symbol| {
            // OK because the text was read with this alphabet.
            value << 6 | BASE_64.iter().position(|known| *known == symbol).unwrap_or_default() as u128
        }),
        // The value of a TypeID does not include its type, and the bits of a KSUID do not fit.
        token if token == TYPEID || found.bytes.len() > 16 => Sha256::digest(found.canonical.as_bytes())
            .iter()
            .take(16)
            .fold(0, |value, byte| value << 8 | u128::from(*byte)),
        _ => found.bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)),
    };
    plain(found.token, found.token, value, found.time)
}

fn of_codec(text: &str, codec: Codec) -> Result<Detected, CodecError> {
    let (namespace, value) = match codec.family() {
        Family::Uuid { .. } if codec.token() == "extuuid" && !inspect::has_uuid_form(text) => {
            (PLAIN_UUID, extuuid::parse(text)?.to_uuid().as_u128())
        }
        Family::Uuid { version, default } => {
            let uuid = dce::parse_lenient(text)?;
            // The fields of a default format are only bits, so only the version can be wrong.
            if !default || dce::version(uuid) != Some(version) {
                codec.read(uuid.as_u128(), &NoInputs)?;
            }
            (PLAIN_UUID, uuid.as_u128())
        }
        Family::Uid11 { .. } => {
            let value = Uid11::parse(text)?.get().into();
            codec.read(value, &NoInputs)?;
            (UID11, value)
        }
    };
    Ok(plain(codec.token(), namespace, value, codec.time(value)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Reading, inspect};

    /// Compares a detector with `inspect`.
    #[track_caller]
    fn check(text: &str, token: Option<&str>) {
        let detector = token.map_or(Ok(Detector::guess()), Detector::named).expect("a format");
        let inspected = inspect(text, &Reading { format: token.map(str::to_owned), ..Reading::default() });
        match (detector.detect(text), inspected) {
            (Ok(found), Ok(inspected)) => {
                assert_eq!(found.format, inspected.format, "{text}");
                let time = found.time.and_then(|time| time.rfc3339(9));
                let shown = inspected.time.as_deref().map(|time| time.trim_end_matches('Z'));
                assert_eq!(time.is_some(), shown.is_some(), "{text}: {time:?}, {shown:?}");
                assert!(time.iter().zip(shown).all(|(time, shown)| time.starts_with(shown)), "{text}: {time:?}");
                let hex = u128::from_str_radix(&inspected.hex, 16);
                if ![TYPEID, "ksuid", NANOID].contains(&found.format) {
                    assert_eq!(hex, Ok(found.value), "{text}");
                }
                if let Some(canonical) = canonical(found.namespace, found.value) {
                    let again = detector.detect(&canonical).expect("the canonical text");
                    assert_eq!((again.value, again.namespace), (found.value, found.namespace), "{text}: {canonical}");
                }
            }
            (found, inspected) => assert_eq!(found.map(drop), inspected.map(drop), "{text} as {token:?}"),
        }
    }

    /// Texts of all forms, and some that are nearly one.
    const TEXTS: [&str; 36] = [
        "",
        "hello",
        "42",
        "0x2a",
        "0x",
        "0xg",
        "00042",
        "340282366920938463463374607431768211455",
        "340282366920938463463374607431768211456",
        "1.29704E+19",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        "017f22e279b07cc398c4dc0c0c07398f",
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
        "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "c232ab00-9414-11ec-b3c8-9f6bdeced846",
        "1ec9414c-232a-6b00-b3c8-9f6bdeced846",
        "000003e8-9414-21ec-b300-9f6bdeced846",
        "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0",
        "919108f7-52d1-4320-9bac-f847db4148a8",
        "5Jxqwr73FDS",
        "zzzzzzzzzzz",
        "11111111112",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "01arz3ndektsv4rrffq69g5fav",
        "prefix_01h455vb4pex5vsknk084sn02q",
        "0ujtsYcgvSTl8PAuAdqWYSMnLOv",
        "9m4e2mr0ui3e8a215n4g",
        "507f1f77bcf86cd799439011",
        "V1StGXR8_Z5jdHi6B-myT",
        "0DXZC34A7C2CD",
        "extuuid:GBP#1",
        "175928847299117063",
    ];

    #[test]
    fn ok_a_detector_agrees_with_inspect() {
        for text in TEXTS {
            check(text, None);
            for token in formats().filter(|token| *token != "uuidv8-draft01") {
                check(text, Some(token));
            }
        }
    }

    #[test]
    fn ok_texts_of_one_identifier_have_one_value() {
        for (one, other, same) in [
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "{017F22E279B07CC398C4DC0C0C07398F}", true),
            ("42", "0x2A", true),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav", true),
            ("5Jxqwr73FDS", "1856638566845336473", false),
            ("user_01h455vb4pex5vsknk084sn02q", "order_01h455vb4pex5vsknk084sn02q", false),
        ] {
            let key = |text| Detector::guess().detect(text).map(|found| (found.namespace, found.value)).expect(text);
            assert_eq!(key(one) == key(other), same, "{one} and {other}");
        }
    }

    #[test]
    fn err_formats() {
        for token in ["nonsense", "uuidv8-draft01", ""] {
            assert_eq!(Detector::named(token).expect_err(token).code, "bad-format");
        }
    }

    proptest! {
        #[test]
        fn ok_a_detector_agrees_with_inspect_on_any_text(text in "[0-9a-zA-Z_{}-]{0,40}", bits: u128) {
            check(&text, None);
            check(&Uuid::from_u128(bits).to_string(), None);
            check(&Uid11::new(bits as u64).to_string(), None);
            check(&bits.to_string(), None);
        }
    }
}
