//! Reads identifiers in formats that Kent does not issue: ULID, TypeID, KSUID, rs/xid, ObjectId, NanoID and Snowflake.
//!
//! Each format is recognized by its text form and decoded by its published layout. A string may fit several formats.

use kent_ids::{CodecError, ErrorCode, UnixNanos, Uuid};

/// An identifier in one of the formats of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// The format's token.
    pub(crate) token: &'static str,
    /// The reason why the string was read in this format.
    pub(crate) because: &'static str,
    /// The identifier in the canonical spelling of its format.
    pub(crate) canonical: String,
    /// The value, most significant byte first.
    pub(crate) bytes: Vec<u8>,
    /// The time in the identifier.
    pub(crate) time: Option<UnixNanos>,
    /// The number of decimal places of the time's seconds.
    pub(crate) digits: u32,
    /// The name, value and meaning of each field.
    pub(crate) fields: Vec<(&'static str, String, &'static str)>,
    /// The last bit and the name of each bit range.
    pub(crate) layout: Vec<(u32, &'static str)>,
}

impl Foreign {
    /// Returns the time in RFC 3339 form.
    pub(crate) fn instant(&self) -> Option<String> {
        self.time?.rfc3339(self.digits)
    }

    /// Describes this reading for [`Inspection::also`](super::Inspection::also): its format, and its time if it has
    /// one.
    pub(crate) fn as_alternative(&self) -> String {
        let of = self.instant().map(|time| format!(" of {time}")).unwrap_or_default();
        format!("{0}{of} (--as {0})", self.token)
    }
}

/// A format of this module.
struct Kind {
    token: &'static str,
    /// A description of the format's text form, for errors.
    shape: &'static str,
    read: fn(&str) -> Option<Foreign>,
}

const KINDS: [Kind; 10] = [
    Kind { token: "ulid", shape: "26 characters of Crockford's base 32, of which the first is 0 to 7", read: ulid },
    Kind { token: "typeid", shape: "a type of a to z, an underscore, and 26 base-32 characters", read: typeid },
    Kind { token: "ksuid", shape: "27 base-62 characters", read: ksuid },
    Kind { token: "rs-xid", shape: "20 characters of 0 to 9 and a to v", read: rs_xid },
    Kind { token: "objectid", shape: "24 hexadecimal digits", read: object_id },
    Kind { token: "nanoid", shape: "21 characters of A to Z, a to z, 0 to 9, _ and -", read: nano_id },
    Kind { token: "snowflake-twitter", shape: SNOWFLAKE_SHAPE, read: |text| snowflake(text, &TWITTER) },
    Kind { token: "snowflake-discord", shape: SNOWFLAKE_SHAPE, read: |text| snowflake(text, &DISCORD) },
    Kind { token: "snowflake-instagram", shape: SNOWFLAKE_SHAPE, read: |text| snowflake(text, &INSTAGRAM) },
    Kind { token: "snowflake-sonyflake", shape: SNOWFLAKE_SHAPE, read: |text| snowflake(text, &SONYFLAKE) },
];

const SNOWFLAKE_SHAPE: &str = "a decimal number of at most 63 bits";

/// Returns the tokens of the formats of this module.
pub(crate) fn tokens() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.token)
}

/// Reads a string in the format with this token; returns `None` if this module has no such format.
///
/// # Errors
///
/// Fails with `bad-syntax` if the string is not in this format.
pub(crate) fn read_as(token: &str, text: &str) -> Option<Result<Foreign, CodecError>> {
    let kind = KINDS.iter().find(|kind| kind.token == token)?;
    let refusal = || {
        let problem = nearly_ulid(text).filter(|_| token == "ulid").map(|problem| format!(": {problem}"));
        let problem = problem.unwrap_or_default();
        CodecError::new(ErrorCode::BadSyntax, format!("not a {token}, which is {}{problem}", kind.shape))
    };
    Some((kind.read)(text).ok_or_else(refusal))
}

/// Explains what is wrong with a string that has the length of a ULID or of a TypeID, but a character that they cannot
/// have there.
pub(crate) fn nearly_ulid(text: &str) -> Option<String> {
    let (what, symbols) =
        text.rsplit_once('_').map_or(("a ULID", text), |(_, suffix)| ("the suffix of a TypeID", suffix));
    if symbols.len() != ULID_SYMBOLS || !symbols.bytes().all(|symbol| symbol.is_ascii_alphanumeric()) {
        return None;
    }
    if !symbols.starts_with(|first| matches!(first, '0'..='7')) {
        return Some(format!("the first character of {what} is 0 to 7, not {:?}", symbols.chars().next()?));
    }
    let at = symbols.chars().position(|symbol| symbol.eq_ignore_ascii_case(&'u'))?;
    Some(format!("{what} has no U, but the character {} is one", text.len() - symbols.len() + at + 1))
}

/// Reads the string in every format that it fits, the most likely format first.
pub(crate) fn guesses(text: &str) -> impl Iterator<Item = Foreign> {
    KINDS.iter().filter_map(|kind| (kind.read)(text))
}

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BASE_32_HEX: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the number that the characters represent, in `N` bytes. Returns `None` if the number needs more bytes, or if
/// a character is not in the alphabet.
fn decode<const N: usize>(symbols: impl Iterator<Item = u8>, alphabet: &[u8]) -> Option<[u8; N]> {
    let mut number = [0; N];
    for symbol in symbols {
        let mut carry = alphabet.iter().position(|known| *known == symbol)?;
        for byte in number.iter_mut().rev() {
            carry += usize::from(*byte) * alphabet.len();
            *byte = (carry & 0xff) as u8; // OK because of the mask
            carry >>= 8;
        }
        if carry != 0 {
            return None;
        }
    }
    Some(number)
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_millis(millis: u128) -> Option<UnixNanos> {
    Some(UnixNanos::new(i128::try_from(millis).ok()?.checked_mul(1_000_000)?))
}

fn from_seconds(seconds: u128) -> Option<UnixNanos> {
    from_millis(seconds.checked_mul(1000)?)
}

/// The number of characters of a ULID.
const ULID_SYMBOLS: usize = 26;

/// Reads a ULID: 48 bits of milliseconds and 80 random bits.
fn ulid(text: &str) -> Option<Foreign> {
    if text.len() != ULID_SYMBOLS {
        return None;
    }
    // Crockford's base 32 reads I and L as 1, and O as 0.
    let symbols = text.bytes().map(|symbol| match symbol.to_ascii_uppercase() {
        b'I' | b'L' => b'1',
        b'O' => b'0',
        symbol => symbol,
    });
    let canonical = String::from_utf8(symbols.clone().collect()).ok()?;
    let bytes: [u8; 16] = decode(symbols, CROCKFORD)?;
    let (time, random) = bytes.split_at(6);
    Some(Foreign {
        token: "ulid",
        because: "26 characters of Crockford's base 32 are a ULID",
        canonical,
        time: from_millis(number(time)),
        digits: 3,
        fields: vec![
            ("unix_ms", number(time).to_string(), "milliseconds since 1970-01-01T00:00:00Z"),
            ("random", hex(random), "80 random bits"),
            ("uuid", Uuid::from_bytes(bytes).to_string(), "the same 128 bits written as a UUID"),
        ],
        layout: vec![(47, "unix_ms"), (127, "random")],
        bytes: bytes.to_vec(),
    })
}

/// Reads a TypeID: a type, and a UUID in lower-case base 32.
fn typeid(text: &str) -> Option<Foreign> {
    let (kind, suffix) = text.rsplit_once('_')?;
    let is_type = kind.len() <= 63
        && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && !kind.is_empty()
        && !kind.starts_with('_')
        && !kind.ends_with('_');
    if !is_type || suffix.len() != 26 || suffix.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let bytes: [u8; 16] = decode(suffix.bytes().map(|symbol| symbol.to_ascii_uppercase()), CROCKFORD)?;
    let uuid = Uuid::from_bytes(bytes);
    let time = (uuid.get_version_num() == 7).then(|| from_millis(number(bytes.get(..6)?))).flatten();
    Some(Foreign {
        token: "typeid",
        because: "a type, an underscore and 26 base-32 characters are a TypeID",
        canonical: text.to_owned(),
        time,
        digits: 3,
        fields: vec![
            ("type", kind.to_owned(), "the type of the identified object"),
            (
                "uuid",
                uuid.to_string(),
                "the UUID in the suffix, usually of version 7 (inspect the UUID to see its fields)",
            ),
        ],
        layout: vec![(127, "uuid")],
        bytes: bytes.to_vec(),
    })
}

/// The epoch of KSUIDs, 2014-05-13T16:53:20Z, in seconds since 1970.
const KSUID_EPOCH: u128 = 1_400_000_000;

/// Reads a Segment KSUID: 32 bits of seconds and 128 random bits.
fn ksuid(text: &str) -> Option<Foreign> {
    if text.len() != 27 {
        return None;
    }
    let bytes: [u8; 20] = decode(text.bytes(), BASE_62)?;
    let (time, random) = bytes.split_at(4);
    Some(Foreign {
        token: "ksuid",
        because: "27 base-62 characters are a KSUID",
        canonical: text.to_owned(),
        time: from_seconds(number(time) + KSUID_EPOCH),
        digits: 0,
        fields: vec![
            ("timestamp", number(time).to_string(), "seconds since 2014-05-13T16:53:20Z"),
            ("payload", hex(random), "128 random bits"),
        ],
        layout: vec![(31, "timestamp"), (159, "payload")],
        bytes: bytes.to_vec(),
    })
}

/// Reads an identifier of the Go library rs/xid: 12 bytes in the layout of an ObjectId, written in base 32. Kent's own
/// xid is a different format.
fn rs_xid(text: &str) -> Option<Foreign> {
    if text.len() != 20 {
        return None;
    }
    // The characters encode 100 bits, of which the last four are padding.
    let padded: [u8; 13] = decode(text.bytes(), BASE_32_HEX)?;
    let value = number(&padded);
    if value & 0xf != 0 {
        return None;
    }
    let bytes = (value >> 4).to_be_bytes().get(4..)?.to_vec();
    Some(Foreign {
        token: "rs-xid",
        because: "20 characters of 0 to 9 and a to v are an rs/xid identifier",
        canonical: text.to_owned(),
        time: from_seconds(number(bytes.get(..4)?)),
        digits: 0,
        fields: vec![
            ("unix_s", number(bytes.get(..4)?).to_string(), "seconds since 1970-01-01T00:00:00Z"),
            ("machine", hex(bytes.get(4..7)?), "part of a hash of the machine's name or ID"),
            ("pid", number(bytes.get(7..9)?).to_string(), "the process ID, or a value derived from it"),
            ("counter", number(bytes.get(9..)?).to_string(), "counts up from a random number"),
        ],
        layout: vec![(31, "unix_s"), (55, "machine"), (71, "pid"), (95, "counter")],
        bytes,
    })
}

/// Reads a MongoDB ObjectId: 32 bits of seconds, 40 bits that are random per process, and a counter of 24 bits.
fn object_id(text: &str) -> Option<Foreign> {
    if text.len() != 24 {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let bytes: [u8; 12] = decode(lower.bytes(), b"0123456789abcdef")?;
    let (time, rest) = bytes.split_at(4);
    let (process, counter) = rest.split_at(5);
    Some(Foreign {
        token: "objectid",
        because: "24 hexadecimal digits are a MongoDB ObjectId",
        canonical: lower,
        time: from_seconds(number(time)),
        digits: 0,
        fields: vec![
            ("unix_s", number(time).to_string(), "seconds since 1970-01-01T00:00:00Z"),
            ("process", hex(process), "random per process; in old ObjectIds, the machine and the process"),
            ("counter", number(counter).to_string(), "counts up from a random number"),
        ],
        layout: vec![(31, "unix_s"), (71, "process"), (95, "counter")],
        bytes: bytes.to_vec(),
    })
}

/// Reads a NanoID of the default length and alphabet: 126 random bits.
fn nano_id(text: &str) -> Option<Foreign> {
    if text.len() != 21 || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return None;
    }
    Some(Foreign {
        token: "nanoid",
        because: "21 base-64 characters look like a NanoID, which is random and has no fields",
        canonical: text.to_owned(),
        time: None,
        digits: 0,
        fields: Vec::new(),
        layout: Vec::new(),
        bytes: Vec::new(),
    })
}

/// A variant of the Snowflake layout: ticks since an epoch, followed by parts of fixed widths.
struct Snowflake {
    token: &'static str,
    because: &'static str,
    /// The epoch in milliseconds since 1970.
    epoch_ms: u128,
    /// The length of a tick in milliseconds.
    tick_ms: u128,
    /// The parts after the time, most significant first: width in bits, name and meaning.
    parts: &'static [(u32, &'static str, &'static str)],
}

const TWITTER: Snowflake = Snowflake {
    token: "snowflake-twitter",
    because: "read as a Twitter Snowflake",
    epoch_ms: 1_288_834_974_657,
    tick_ms: 1,
    parts: &[(10, "machine", "data center and worker"), (12, "sequence", "a counter within the millisecond")],
};

const DISCORD: Snowflake = Snowflake {
    token: "snowflake-discord",
    because: "read as a Discord Snowflake",
    epoch_ms: 1_420_070_400_000,
    tick_ms: 1,
    parts: &[
        (5, "worker", "the worker that created it"),
        (5, "process", "the process of that worker"),
        (12, "increment", "a counter of the identifiers that the process created"),
    ],
};

const INSTAGRAM: Snowflake = Snowflake {
    token: "snowflake-instagram",
    because: "read as an Instagram identifier",
    epoch_ms: 1_314_220_021_721,
    tick_ms: 1,
    parts: &[(13, "shard", "the logical shard"), (10, "sequence", "the shard's sequence, modulo 1024")],
};

const SONYFLAKE: Snowflake = Snowflake {
    token: "snowflake-sonyflake",
    because: "read as a Sonyflake with the default settings",
    epoch_ms: 1_409_529_600_000,
    tick_ms: 10,
    parts: &[(8, "sequence", "a counter within the tick of 10 ms"), (16, "machine", "the machine that created it")],
};

/// A number is read as a Snowflake only if its time is at least a day after the epoch and not after 2100-01-01.
const SNOWFLAKE_AGE_MS: u128 = 86_400_000;
const SNOWFLAKE_END_MS: u128 = 4_102_444_800_000;

fn snowflake(text: &str, kind: &Snowflake) -> Option<Foreign> {
    if text.starts_with('+') {
        return None;
    }
    let value = u128::from(text.parse::<u64>().ok().filter(|value| *value >> 63 == 0)?);
    let below: u32 = kind.parts.iter().map(|(bits, ..)| bits).sum();
    let since = (value >> below) * kind.tick_ms;
    let unix_ms = since + kind.epoch_ms;
    if since < SNOWFLAKE_AGE_MS || unix_ms > SNOWFLAKE_END_MS {
        return None;
    }
    let (mut fields, mut layout) = (Vec::new(), vec![(0, "zero"), (63 - below, "ticks")]);
    fields.push(("ticks", (value >> below).to_string(), "ticks since the epoch of this format"));
    let mut low = below;
    for (bits, name, meaning) in kind.parts {
        low -= bits;
        fields.push((name, (value >> low & ((1 << bits) - 1)).to_string(), meaning));
        layout.push((63 - low, name));
    }
    Some(Foreign {
        token: kind.token,
        because: kind.because,
        canonical: value.to_string(),
        bytes: (value as u64).to_be_bytes().to_vec(), // OK because the value has 63 bits
        time: from_millis(unix_ms),
        digits: if kind.tick_ms == 1 { 3 } else { 2 },
        fields,
        layout,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ok_published_examples() {
        for (token, text, time, field) in [
            // This example is in the ULID specification.
            ("ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "2016-07-30T23:54:10.259Z", ("random", "d6764c61efb99302bd5b")),
            // These examples are in valid.yml of the TypeID specification.
            (
                "typeid",
                "prefix_01h455vb4pex5vsknk084sn02q",
                "2023-06-30T03:34:18.518Z",
                ("uuid", "01890a5d-ac96-774b-bcce-b302099a8057"),
            ),
            // This example is in the README of segmentio/ksuid.
            (
                "ksuid",
                "0ujtsYcgvSTl8PAuAdqWYSMnLOv",
                "2017-10-10T04:00:47Z",
                ("payload", "b5a1cd34b5f99d1154fb6853345c9735"),
            ),
            // This example is in the tests of rs/xid.
            ("rs-xid", "9m4e2mr0ui3e8a215n4g", "2011-03-22T17:50:19Z", ("counter", "4271561")),
            // This example is in the MongoDB manual.
            ("objectid", "507f1f77bcf86cd799439011", "2012-10-17T21:13:27Z", ("counter", "4427793")),
            ("snowflake-twitter", "1541815603606036480", "2022-06-28T16:07:40.105Z", ("machine", "378")),
            // This example is in Discord's documentation.
            ("snowflake-discord", "175928847299117063", "2016-04-30T11:18:25.796Z", ("increment", "7")),
        ] {
            let found = read_as(token, text).expect("a known token").expect(text);
            let written = found.time.and_then(|time| time.rfc3339(found.digits));
            assert_eq!(written.as_deref(), Some(time), "{text}");
            let value = found.fields.iter().find(|(name, ..)| *name == field.0).map(|(_, value, _)| value.as_str());
            assert_eq!(value, Some(field.1), "{text}");
            assert!(guesses(text).any(|guess| guess == found), "{text}");
        }
    }

    #[test]
    fn err_texts_that_are_nearly_one() {
        for (token, text) in [
            ("ulid", "81ARZ3NDEKTSV4RRFFQ69G5FAV"),
            ("ulid", "01ARZ3NDEKTSV4RRFFQ69G5FA"),
            ("ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAU"),
            ("typeid", "_01h455vb4pex5vsknk084sn02q"),
            ("typeid", "Prefix_01h455vb4pex5vsknk084sn02q"),
            ("typeid", "prefix_01h455vb4pex5vsknk084sn02Q"),
            // One more than the largest KSUID, aWgEPTl1tmebfsQzFP4bxwgy80V.
            ("ksuid", "aWgEPTl1tmebfsQzFP4bxwgy80W"),
            ("rs-xid", "9m4e2mr0ui3e8a215n4h"),
            ("rs-xid", "9m4e2mr0ui3e8a215n4w"),
            ("objectid", "507f1f77bcf86cd79943901g"),
            ("nanoid", "V1StGXR8_Z5jdHi6B-my"),
            ("snowflake-twitter", "17"),
            ("snowflake-twitter", "9223372036854775808"),
        ] {
            let refused = read_as(token, text).expect("a known token").expect_err(text);
            assert_eq!(refused.code(), ErrorCode::BadSyntax, "{text}");
        }
        assert_eq!(read_as("uuidv7", "x"), None);
        for (text, expected) in [
            ("81ARZ3NDEKTSV4RRFFQ69G5FAV", Some("the first character of a ULID is 0 to 7, not '8'")),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAU", Some("a ULID has no U, but the character 26 is one")),
            ("user_01fwhe4ydgfk1shh6w1g60eecu", Some("the suffix of a TypeID has no U, but the character 31 is one")),
            ("01ARZ3NDEKTSV4RRFFQ69G5FA", None),
            ("01ARZ3NDEKTSV4RRFFQ69G5FA-", None),
        ] {
            assert_eq!(nearly_ulid(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ok_a_text_may_have_several_shapes() {
        let tokens = |text| guesses(text).map(|guess| guess.token).collect::<Vec<_>>();
        assert_eq!(tokens("V1StGXR8_Z5jdHi6B-myT"), ["nanoid"]);
        assert_eq!(
            tokens("175928847299117063"),
            ["snowflake-twitter", "snowflake-discord", "snowflake-instagram", "snowflake-sonyflake"]
        );
        assert_eq!(tokens("orders"), [""; 0]);
    }

    proptest! {
        #[test]
        fn ok_layouts_cover_all_bits(text in "[0-9a-zA-Z_]{18,30}") {
            for found in guesses(&text) {
                let last = found.layout.last().map_or(0, |(last, _)| last + 1);
                prop_assert_eq!(last as usize, 8 * found.bytes.len());
                prop_assert!(found.layout.is_sorted_by(|one, next| one.0 < next.0));
            }
        }
    }
}
