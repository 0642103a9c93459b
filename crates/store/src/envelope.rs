//! The envelope around every stored value: a mark, a schema version, the payload and a checksum.
//!
//! ```text
//! offset  bytes  contents
//! 0       1      0x4B ('K'), the mark
//! 1       2      schema of the payload, big-endian
//! 3       n      payload
//! 3+n     4      CRC-32 (IEEE), big-endian, of: length of the key (2 bytes, big-endian), key, and all bytes before
//! ```
//!
//! This layout is the same for every schema, so that an old program can distinguish a newer value from a damaged one.
//! The checksum covers the key, so that a valid value under the wrong key counts as damaged. A CRC-32 detects every
//! change of one or two bits at the sizes that [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) allows, and every burst of
//! up to 32 bits.

use crate::error::{Corrupt, Damage, NewerSchema, ReadError};
use crate::key::Key;

/// The newest schema of payloads that this program reads and writes.
///
/// Increase it when a record changes in a way that an older Kent would misread. The older Kent then refuses to start.
pub const SCHEMA: u16 = 1;

const MARK: u8 = b'K';
const HEADER_BYTES: usize = 1 + 2;
const CHECKSUM_BYTES: usize = 4;

/// The number of bytes that an envelope adds to its payload.
pub(crate) const OVERHEAD_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;

/// Wraps `payload` for storing under `key`.
pub(crate) fn seal(key: &Key, payload: &[u8]) -> Vec<u8> {
    seal_as(SCHEMA, key, payload)
}

/// Checks the envelope that is stored under `key` and returns its payload.
pub(crate) fn open<'a>(key: &Key, sealed: &'a [u8]) -> Result<&'a [u8], ReadError> {
    open_as(SCHEMA, key, sealed)
}

/// Checks an envelope like [`open`], for a program whose newest schema is `known`.
pub(crate) fn open_as<'a>(known: u16, key: &Key, sealed: &'a [u8]) -> Result<&'a [u8], ReadError> {
    let payload = check(key, sealed).map_err(|damage| Corrupt { key: key.clone(), damage })?;
    // OK because `check` has checked that the header is complete.
    let found = u16::from_be_bytes([sealed[1], sealed[2]]);
    if found > known {
        return Err(NewerSchema { key: key.clone(), found, known }.into());
    }
    Ok(payload)
}

/// Wraps a payload like [`seal`], but with another schema.
pub(crate) fn seal_as(schema: u16, key: &Key, payload: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(OVERHEAD_BYTES + payload.len());
    sealed.push(MARK);
    sealed.extend(schema.to_be_bytes());
    sealed.extend(payload);
    let checksum = checksum(key, &sealed);
    sealed.extend(checksum.to_be_bytes());
    sealed
}

fn check<'a>(key: &Key, sealed: &'a [u8]) -> Result<&'a [u8], Damage> {
    let too_short = Damage::TooShort { bytes: sealed.len() };
    let (contents, stored) = sealed.split_last_chunk::<CHECKSUM_BYTES>().ok_or(too_short)?;
    let (header, payload) = contents.split_first_chunk::<HEADER_BYTES>().ok_or(too_short)?;
    if header[0] != MARK {
        return Err(Damage::Foreign { found: header[0] });
    }
    let (stored, computed) = (u32::from_be_bytes(*stored), checksum(key, contents));
    if stored == computed { Ok(payload) } else { Err(Damage::Checksum { stored, computed }) }
}

fn checksum(key: &Key, contents: &[u8]) -> u32 {
    let key = key.as_str().as_bytes();
    // OK because the length of a key is at most KEY_BYTES_MAX, which fits in two bytes.
    let key_bytes = key.len() as u16;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&key_bytes.to_be_bytes());
    hasher.update(key);
    hasher.update(contents);
    hasher.finalize()
}

const _: () = assert!(crate::key::KEY_BYTES_MAX <= u16::MAX as usize, "the length of a key fits into two bytes");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Key = Key::from_static("slot/07");

    /// Checks that the format never changes, because stored values must stay readable.
    #[test]
    fn golden_schema_1() {
        let golden: &[u8] = b"K\x00\x01until 1700000000\xE0RZp";
        assert_eq!(seal(&KEY, b"until 1700000000"), golden);
        assert_eq!(open(&KEY, golden).unwrap(), b"until 1700000000");
    }

    #[test]
    fn golden_empty_payload() {
        let golden: &[u8] = b"K\x00\x01\xD5\xC4D\"";
        assert_eq!(seal(&KEY, b""), golden);
        assert_eq!(open(&KEY, golden).unwrap(), b"");
    }

    #[test]
    fn err_any_bit_flipped() {
        let sealed = seal(&KEY, b"until 1700000000");
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(open(&KEY, &damaged), Err(ReadError::Corrupt(_))), "bit {bit}");
        }
    }

    #[test]
    fn err_cut_short() {
        let sealed = seal(&KEY, b"until 1700000000");
        for bytes in 0..sealed.len() {
            assert!(matches!(open(&KEY, &sealed[..bytes]), Err(ReadError::Corrupt(_))), "{bytes} bytes");
        }
        assert_eq!(check(&KEY, &sealed[..6]), Err(Damage::TooShort { bytes: 6 }));
    }

    #[test]
    fn err_extended() {
        let mut sealed = seal(&KEY, b"until 1700000000");
        sealed.push(0);
        assert!(matches!(open(&KEY, &sealed), Err(ReadError::Corrupt(_))));
    }

    #[test]
    fn err_moved_to_another_key() {
        let sealed = seal(&KEY, b"until 1700000000");
        let error = open(&Key::from_static("slot/08"), &sealed).unwrap_err();
        assert!(error.to_string().starts_with("the stored value of slot/08 is damaged (its checksum is "), "{error}");
    }

    #[test]
    fn err_key_and_contents_are_separated_in_the_checksum() {
        // The concatenation of key and contents is the same for both keys.
        let longer = Key::from_static("slot/07K");
        assert_ne!(checksum(&KEY, b"Kx"), checksum(&longer, b"x"));
    }

    #[test]
    fn err_foreign() {
        assert_eq!(check(&KEY, b"{\"json\":1}"), Err(Damage::Foreign { found: b'{' }));
    }

    #[test]
    fn err_newer_schema() {
        let sealed = seal_as(SCHEMA + 1, &KEY, b"unknown");
        let error = open(&KEY, &sealed).unwrap_err();
        assert!(matches!(error, ReadError::NewerSchema(NewerSchema { found: 2, known: 1, .. })), "{error}");
    }

    proptest! {
        #[test]
        fn sealed_values_can_be_opened(path in "[a-z/0-9]{1,255}", payload: Vec<u8>) {
            let key = Key::new(path).unwrap();
            let sealed = seal(&key, &payload);
            prop_assert_eq!(sealed.len(), payload.len() + OVERHEAD_BYTES);
            prop_assert_eq!(open(&key, &sealed).unwrap(), &payload[..]);
        }

        #[test]
        fn never_panics(contents: Vec<u8>) {
            let _ = open(&KEY, &contents);
        }

        #[test]
        fn detects_every_changed_byte(payload: Vec<u8>, at: prop::sample::Index, other: u8) {
            let mut sealed = seal(&KEY, &payload);
            let at = at.index(sealed.len());
            prop_assume!(sealed[at] != other);
            sealed[at] = other;
            prop_assert!(open(&KEY, &sealed).is_err());
        }
    }
}
