//! `uuidv3` and `uuidv5`: a hash of a namespace and a name (RFC 9562, sections 5.3 and 5.5).
//!
//! The same namespace and name always give the same UUID, so Kent does not issue these formats.

use alloc::{format, vec::Vec};

use uuid::Uuid;

use super::{Family, Layout};
use crate::{
    dce,
    error::CodecError,
    field::{BitRange, Field, Inputs},
    id::Id,
};

/// Version 3, whose hash is MD5.
pub(crate) struct UuidV3Format;

/// Version 5, whose hash is SHA-1.
pub(crate) struct UuidV5Format;

static BITS: [BitRange; 5] = [
    BitRange::new(0, 47, "hash"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "hash"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "hash"),
];

impl Layout for UuidV3Format {
    fn token(&self) -> &'static str {
        "uuidv3"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 3, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        dce::expect_version(Uuid::from_u128(value), &[3]).map(|_| Vec::new())
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let namespace = namespace(inputs)?;
        Ok(Id::Uuid(Uuid::new_v3(&namespace, inputs.text("name")?.as_bytes())))
    }
}

impl Layout for UuidV5Format {
    fn token(&self) -> &'static str {
        "uuidv5"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 5, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        dce::expect_version(Uuid::from_u128(value), &[5]).map(|_| Vec::new())
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let namespace = namespace(inputs)?;
        Ok(Id::Uuid(Uuid::new_v5(&namespace, inputs.text("name")?.as_bytes())))
    }
}

/// Reads a namespace: the name of one of the four namespaces in RFC 9562, section 6.6, or any UUID.
fn namespace(inputs: &dyn Inputs) -> Result<Uuid, CodecError> {
    let explained = |error: CodecError| {
        CodecError::new(error.code(), format!("{error}; a namespace is dns, url, oid, x500 or a UUID"))
    };
    match inputs.text("namespace").map_err(explained)? {
        "dns" => Ok(Uuid::NAMESPACE_DNS),
        "url" => Ok(Uuid::NAMESPACE_URL),
        "oid" => Ok(Uuid::NAMESPACE_OID),
        "x500" => Ok(Uuid::NAMESPACE_X500),
        other => dce::parse(other).map_err(explained),
    }
}
