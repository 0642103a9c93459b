//! The raw keys and values of records in sled.
//!
//! Layout 2 has a journal in addition to the database. A version of Kent that knows only layout 1 would ignore the
//! journal, so it must not open the database.
//!
//! | raw key | raw value |
//! |---|---|
//! | a [`Key`]'s bytes | envelope of: revision of the last write (8 bytes, big-endian), payload |
//! | `0x00` and `meta/layout` | envelope of: layout of the database, [`LAYOUT`] (4 bytes, big-endian) |
//! | `0x00` and `meta/id` | envelope of: the store's identity (16 bytes) |
//! | `0x00` and `meta/revision` | envelope of: the store's revision (8 bytes, big-endian); written by every checkpoint |
//! | `0x00` and `meta/opened` | envelope of: the number of times that the database was opened (8 bytes, big-endian) |
//! | `0x00` and `meta/archive` | envelope of: [`Mark`] of the archive, if the store is archived (protobuf) |
//!
//! No [`Key`] has a zero byte, so the two kinds of raw keys do not overlap, and scans start after the raw keys that begin
//! with `0x00`. The revision of a value is inside its envelope, so the checksum covers it.

use prost::Message;

use crate::envelope;
use crate::error::{Corrupt, Damage, ReadError};
use crate::key::Key;
use crate::txn::{Version, Versioned};

/// The layout of the database that this program reads and writes. An older program refuses a newer layout.
pub(super) const LAYOUT: u32 = 2;

/// The lowest possible raw key of a [`Key`].
pub(super) const FIRST_KEY: &[u8] = &[1];

/// One of the store's own records, which describe the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    Layout,
    Id,
    Revision,
    Opened,
    Archive,
}

impl Meta {
    /// Returns the raw key of the record.
    pub(super) fn raw_key(self) -> Vec<u8> {
        let mut raw = vec![0];
        raw.extend(self.key().as_str().as_bytes());
        raw
    }

    pub(super) fn seal<const N: usize>(self, payload: [u8; N]) -> Vec<u8> {
        envelope::seal(&self.key(), &payload)
    }

    /// Encodes a message as a raw value.
    pub(super) fn seal_message(self, message: &impl Message) -> Vec<u8> {
        envelope::seal(&self.key(), &message.encode_to_vec())
    }

    /// Decodes the message of a raw value.
    pub(super) fn open_message<M: Message + Default>(self, sealed: &[u8]) -> Result<M, ReadError> {
        let key = self.key();
        let payload = envelope::open(&key, sealed)?;
        M::decode(payload).map_err(|_| Corrupt { key, damage: Damage::TooShort { bytes: payload.len() } }.into())
    }

    pub(super) fn open<const N: usize>(self, sealed: &[u8]) -> Result<[u8; N], ReadError> {
        let key = self.key();
        let payload = envelope::open(&key, sealed)?;
        payload.try_into().map_err(|_| Corrupt { key, damage: Damage::TooShort { bytes: payload.len() } }.into())
    }

    /// Returns the key for error messages and for the checksum.
    pub(super) const fn key(self) -> Key {
        match self {
            Self::Layout => Key::from_static("meta/layout"),
            Self::Id => Key::from_static("meta/id"),
            Self::Revision => Key::from_static("meta/revision"),
            Self::Opened => Key::from_static("meta/opened"),
            Self::Archive => Key::from_static("meta/archive"),
        }
    }
}

/// The mark in the store that names its archive.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Mark {
    /// The archive's generation.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) generation: Vec<u8>,
    /// Whether the archive has ever been complete.
    #[prost(bool, tag = "2")]
    pub(super) begun: bool,
    /// The directory given with `--archive`.
    #[prost(string, tag = "3")]
    pub(super) dir: String,
}

/// Encodes `payload`, written under `key` at `version`, as a raw value.
pub(super) fn seal(key: &Key, version: Version, payload: &[u8]) -> Vec<u8> {
    let mut contents = Vec::with_capacity(size_of::<u64>() + payload.len());
    contents.extend(version.get().to_be_bytes());
    contents.extend(payload);
    envelope::seal(key, &contents)
}

/// Decodes the version and payload of a raw value.
pub(super) fn open(key: &Key, sealed: &[u8]) -> Result<Versioned, ReadError> {
    let contents = envelope::open(key, sealed)?;
    let too_short = || Corrupt { key: key.clone(), damage: Damage::TooShort { bytes: sealed.len() } };
    let (revision, payload) = contents.split_first_chunk::<8>().ok_or_else(too_short)?;
    Ok(Versioned { version: Version::new(u64::from_be_bytes(*revision)), value: payload.to_vec() })
}

/// Decodes a raw key. Fails only if another program wrote it.
pub(super) fn key(raw: &[u8]) -> Result<Key, ReadError> {
    let text = String::from_utf8_lossy(raw);
    let known = (text.as_bytes() == raw).then(|| Key::new(text.as_ref()).ok()).flatten();
    known.ok_or_else(|| Corrupt { key: Key::ROOT, damage: Damage::ForeignKey { bytes: raw.len() } }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::from_static("slot/07");

    /// Checks that the format never changes, because stored values must stay readable.
    #[test]
    fn golden_value() {
        let golden: &[u8] = b"K\x00\x01\x00\x00\x00\x00\x00\x00\x01\x02until 1700000000\xD0\x1B\xB5\x1B";
        assert_eq!(seal(&KEY, Version::new(0x102), b"until 1700000000"), golden);
        let versioned = Versioned { version: Version::new(0x102), value: b"until 1700000000".to_vec() };
        assert_eq!(open(&KEY, golden).unwrap(), versioned);
    }

    #[test]
    fn golden_layout() {
        let golden: &[u8] = b"K\x00\x01\x00\x00\x00\x02\xD8\x1A\x11\x85";
        assert_eq!(Meta::Layout.raw_key(), b"\0meta/layout");
        assert_eq!(Meta::Layout.seal(LAYOUT.to_be_bytes()), golden);
        assert_eq!(Meta::Layout.open(golden).unwrap(), LAYOUT.to_be_bytes());
    }

    #[test]
    fn err_without_revision() {
        let sealed = envelope::seal(&KEY, &[1, 2, 3]);
        let damage = Damage::TooShort { bytes: sealed.len() };
        assert!(matches!(open(&KEY, &sealed), Err(ReadError::Corrupt(corrupt)) if corrupt.damage == damage));
    }

    #[test]
    fn err_meta_of_another_width() {
        let sealed = Meta::Id.seal([0; 8]);
        assert!(matches!(Meta::Id.open::<16>(&sealed), Err(ReadError::Corrupt(_))));
    }

    #[test]
    fn err_meta_under_another_name() {
        let sealed = Meta::Opened.seal([0; 8]);
        assert!(matches!(Meta::Revision.open::<8>(&sealed), Err(ReadError::Corrupt(_))));
    }

    #[test]
    fn keys_from_raw_bytes() {
        assert_eq!(key(b"slot/07").unwrap(), KEY);
        for raw in [&b"\xFF"[..], b"a\nb", b""] {
            assert!(matches!(key(raw), Err(ReadError::Corrupt(_))), "{raw:?}");
        }
    }
}
