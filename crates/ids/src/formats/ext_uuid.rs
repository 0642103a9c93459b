//! `extuuid`: a value in the 122 free bits of a UUID of version 8 (EXTUUID 2012); see [`crate::extuuid`].
//!
//! Kent issues serial numbers of a symbol, as a [`Series`](crate::Series). Other values encode the caller's data, so
//! Kent only converts them.

use alloc::{string::ToString, vec::Vec};

use uuid::Uuid;

use super::{Family, Layout};
use crate::{
    error::CodecError,
    extuuid::{Ext, Value, parse},
    field::{BitRange, Field, Inputs},
    id::Id,
};

pub(crate) struct ExtUuidFormat;

static BITS: [BitRange; 6] = [
    BitRange::new(0, 1, "type"),
    BitRange::new(2, 47, "rest"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "rest"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "rest"),
];

impl Layout for ExtUuidFormat {
    fn token(&self) -> &'static str {
        "extuuid"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 8, default: false }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn bits_of(&self, value: u128) -> Vec<BitRange> {
        match Ext::from_uuid(Uuid::from_u128(value), false) {
            Ok(ext) => ext.layout(),
            Err(_) => BITS.to_vec(),
        }
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let ext = Ext::from_uuid(Uuid::from_u128(value), false)?;
        let value = ext.value();
        let mut fields = Vec::from([
            Field::text("kind", value.kind().to_string(), "the kind of value"),
            Field::text("text", ext.to_string(), "the canonical text"),
            Field::text("ext", ext.hex(), "the 122 bits"),
        ]);
        if let Value::Raw(reason) = value {
            fields.push(Field::text("reason", reason.as_str().to_string(), "why the bits have no typed form"));
        }
        Ok(fields)
    }

    /// Makes the UUID from `ext` (31 hexadecimal digits), or from `text` (anything that the smart parser accepts).
    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let ext = if inputs.has("ext") { Ext::from_hex(inputs.text("ext")?)? } else { parse(inputs.text("text")?)? };
        Ok(Id::Uuid(ext.to_uuid()))
    }
}
