//! Properties that UUIDs of every version share: text, variant, version, special values and the GUID byte order (DCE
//! 1.1; RFC 9562, sections 4 and 5).
//!
//! UUIDs are ordered by the `Ord` of [`Uuid`]: unsigned, byte by byte, most significant first. Comparing them field by
//! field, as DCE 1.1 does, gives the same order, and so does comparing them as lower-case strings.

use alloc::format;

use uuid::Uuid;

use crate::error::{Byte, CodecError, ErrorCode};

/// The family of layouts that a UUID belongs to, as given by its bits 64 to 66.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// `0xx`: the Network Computing System, before DCE. The nil UUID has these bits.
    Ncs,
    /// `10x`: DCE 1.1 and RFC 9562. Only this variant has versions.
    Dce,
    /// `110`: early Microsoft GUIDs.
    Microsoft,
    /// `111`: reserved. The max UUID has these bits.
    Reserved,
}

impl Variant {
    /// Returns the variant's name in the line protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ncs => "ncs",
            Self::Dce => "dce",
            Self::Microsoft => "microsoft",
            Self::Reserved => "reserved",
        }
    }
}

/// The two UUIDs that are not identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// The nil UUID, whose bits are all zero.
    Nil,
    /// The max UUID, whose bits are all one (RFC 9562, section 5.10).
    Max,
}

impl Special {
    /// Returns the value's name in the line protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Max => "max",
        }
    }
}

/// Returns the variant of a UUID.
pub const fn variant(uuid: Uuid) -> Variant {
    match uuid.as_bytes()[8] >> 5 {
        0b000..=0b011 => Variant::Ncs,
        0b100..=0b101 => Variant::Dce,
        0b110 => Variant::Microsoft,
        _ => Variant::Reserved,
    }
}

/// Returns the version of a UUID (0 to 15), or `None` for variants other than DCE, which have no versions.
pub const fn version(uuid: Uuid) -> Option<u8> {
    match variant(uuid) {
        Variant::Dce => Some(uuid.as_bytes()[6] >> 4),
        Variant::Ncs | Variant::Microsoft | Variant::Reserved => None,
    }
}

/// Returns which special value the UUID is, or `None` if it is an identifier.
pub const fn special(uuid: Uuid) -> Option<Special> {
    match uuid.as_u128() {
        0 => Some(Special::Nil),
        u128::MAX => Some(Special::Max),
        _ => None,
    }
}

/// Returns the version of a UUID, or an error if it is not one of `versions`.
///
/// # Errors
/// Fails with the first of these codes that applies: `wrong-variant`, `wrong-version`.
pub(crate) fn expect_version(uuid: Uuid, versions: &[u8]) -> Result<u8, CodecError> {
    let Some(version) = version(uuid) else {
        let message = format!("{uuid} has the {} variant: only the dce variant has versions", variant(uuid).as_str());
        return Err(CodecError::new(ErrorCode::WrongVariant, message));
    };
    match versions.contains(&version) {
        true => Ok(version),
        false => Err(wrong_version(uuid, version, versions)),
    }
}

fn wrong_version(uuid: Uuid, version: u8, versions: &[u8]) -> CodecError {
    let message = match versions {
        [wanted] => format!("{uuid} has version {version}, not {wanted}"),
        _ => format!("{uuid} has version {version}, not one of {versions:?}"),
    };
    CodecError::new(ErrorCode::WrongVersion, message)
}

/// The length of the canonical text in bytes: 32 digits and 4 hyphens.
const TEXT_LEN: usize = 36;
const BARE_LEN: usize = 32;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Reads the canonical text: 8-4-4-4-12 hexadecimal digits of either case, and nothing else.
///
/// # Errors
///
/// Fails with the first of these codes that applies: `bad-length` unless there are 36 bytes, `bad-hyphen`, `bad-hex`.
pub fn parse(text: impl AsRef<[u8]>) -> Result<Uuid, CodecError> {
    let text = text.as_ref();
    if text.len() != TEXT_LEN {
        let message = format!("a UUID has {TEXT_LEN} characters, but this text has {} bytes", text.len());
        return Err(CodecError::new(ErrorCode::BadLength, message));
    }
    if let Some(offset) = HYPHENS.into_iter().find(|offset| text[*offset] != b'-') {
        let message = format!("expected a hyphen, found {}", Byte(text[offset]));
        return Err(CodecError::new(ErrorCode::BadHyphen, message).at(offset));
    }
    let digits = text.iter().enumerate().filter(|(offset, _)| !HYPHENS.contains(offset));
    read_hex(digits.map(|(offset, digit)| (offset, *digit))).map(Uuid::from_u128)
}

/// Reads the canonical text or 32 digits without hyphens; either may follow `urn:uuid:` or be in braces.
///
/// # Errors
/// Fails with the same errors as [`parse`].
pub fn parse_lenient(text: impl AsRef<[u8]>) -> Result<Uuid, CodecError> {
    let text = text.as_ref();
    let (offset, inner) = strip(text);
    let parsed = match inner.len() {
        BARE_LEN => read_hex(inner.iter().copied().enumerate()).map(Uuid::from_u128),
        _ => parse(inner),
    };
    parsed.map_err(|error| error.shifted(offset))
}

/// Removes `urn:uuid:` or a pair of braces. Also returns the number of bytes removed at the front.
fn strip(text: &[u8]) -> (usize, &[u8]) {
    const URN: &[u8] = b"urn:uuid:";
    match text {
        [b'{', inner @ .., b'}'] => (1, inner),
        _ if text.len() >= URN.len() && text[..URN.len()].eq_ignore_ascii_case(URN) => (URN.len(), &text[URN.len()..]),
        _ => (0, text),
    }
}

/// Reads up to 32 hexadecimal digits, each given with its offset, as a number.
fn read_hex(digits: impl Iterator<Item = (usize, u8)>) -> Result<u128, CodecError> {
    let mut value = 0;
    for (offset, byte) in digits {
        let Some(digit) = char::from(byte).to_digit(16) else {
            let message = format!("{} is not a hexadecimal digit", Byte(byte));
            return Err(CodecError::new(ErrorCode::BadHex, message).at(offset));
        };
        value = value << 4 | u128::from(digit);
    }
    Ok(value)
}

/// Reads exactly `2 * bytes` hexadecimal digits of either case as a number; `bytes` is at most 16.
///
/// # Errors
///
/// Fails with the first of these codes that applies: `bad-length`, `bad-hex`.
pub fn parse_hex(text: impl AsRef<[u8]>, bytes: usize) -> Result<u128, CodecError> {
    let text = text.as_ref();
    let bytes = bytes.min(16);
    if text.len() != 2 * bytes {
        let message = format!("{} hexadecimal digits are required, but this text has {} bytes", 2 * bytes, text.len());
        return Err(CodecError::new(ErrorCode::BadLength, message));
    }
    read_hex(text.iter().copied().enumerate())
}

/// Returns the bytes in GUID order: bytes 0-3, 4-5 and 6-7 each reversed, 8-15 unchanged.
///
/// The bytes do not show their order, so this library converts only on request and never guesses.
pub const fn to_guid(uuid: Uuid) -> [u8; 16] {
    uuid.to_bytes_le()
}

/// Reads a UUID from its bytes in GUID order.
pub const fn from_guid(bytes: [u8; 16]) -> Uuid {
    Uuid::from_bytes_le(bytes)
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "2fac1234-31f8-11b4-a222-08002b34c003";

    #[track_caller]
    fn check(text: &str) {
        assert_eq!(parse_lenient(text).map(|uuid| uuid.to_string()), Ok(TEXT.to_string()));
    }

    #[track_caller]
    fn check_err(text: &str, code: ErrorCode, at: Option<usize>) {
        let error = parse_lenient(text).expect_err("not a UUID");
        assert_eq!((error.code(), error.position()), (code, at), "{error}");
    }

    #[test]
    fn ok_lenient_spellings() {
        check(TEXT);
        check("2FAC1234-31F8-11B4-A222-08002B34C003");
        check("urn:uuid:2fac1234-31f8-11b4-a222-08002b34c003");
        check("URN:UUID:2fac123431f811b4a22208002b34c003");
        check("{2fac1234-31f8-11b4-a222-08002b34c003}");
        check("{2fac123431f811b4a22208002b34c003}");
        check("2fac123431f811b4a22208002b34c003");
    }

    #[test]
    fn err_reports_the_first_fault_in_order() {
        check_err("", ErrorCode::BadLength, None);
        check_err("{urn:uuid:2fac1234-31f8-11b4-a222-08002b34c003}", ErrorCode::BadLength, None);
        check_err("{{2fac1234-31f8-11b4-a222-08002b34c003}}", ErrorCode::BadLength, None);
        check_err(" 2fac1234-31f8-11b4-a222-08002b34c003", ErrorCode::BadLength, None);
        check_err("2fac1234-31f8-11b4-a2220-8002b34c00g", ErrorCode::BadHyphen, Some(23));
        check_err("{2fac1234-31f8-11b4-a222-08002b34c00g}", ErrorCode::BadHex, Some(36));
        check_err("2fac123431f811b4a22208002b34c0-3", ErrorCode::BadHex, Some(30));
    }

    #[test]
    fn ok_variant_and_version_by_bits() {
        for (byte, expected) in [
            (0x00, Variant::Ncs),
            (0x7f, Variant::Ncs),
            (0x80, Variant::Dce),
            (0xbf, Variant::Dce),
            (0xc0, Variant::Microsoft),
            (0xdf, Variant::Microsoft),
            (0xe0, Variant::Reserved),
            (0xff, Variant::Reserved),
        ] {
            let uuid = Uuid::from_u128(0x4 << 76 | byte << 56);
            assert_eq!(variant(uuid), expected, "{byte:02x}");
            assert_eq!(version(uuid), (expected == Variant::Dce).then_some(4));
        }
        assert_eq!(special(Uuid::nil()), Some(Special::Nil));
        assert_eq!(special(Uuid::max()), Some(Special::Max));
    }

    proptest! {
        #[test]
        fn ok_parsing_inverts_printing(value: u128, upper: bool) {
            let uuid = Uuid::from_u128(value);
            let text = uuid.to_string();
            let text = if upper { text.to_uppercase() } else { text };
            prop_assert_eq!(parse(&text), Ok(uuid));
            prop_assert_eq!(parse_lenient(uuid.simple().to_string()), Ok(uuid));
            prop_assert_eq!(from_guid(to_guid(uuid)), uuid);
        }

        #[test]
        fn ok_the_order_of_texts_is_the_order_of_values(a: u128, b: u128) {
            let (a, b) = (Uuid::from_u128(a), Uuid::from_u128(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }

        #[test]
        fn ok_no_input_panics(bytes: alloc::vec::Vec<u8>, text: String, near in "[{u]?[0-9a-f-]{30,38}[}g]?") {
            for text in [&bytes[..], text.as_bytes(), near.as_bytes()] {
                let _ = (parse(text), parse_lenient(text), parse_hex(text, 6));
            }
        }
    }
}
