//! `uid11.*`: the text form of 64-bit values, the ranges of prefixes, and the fields of the profiles.

use kent_ids::{
    Codec, CodecError, ErrorCode, Family, Uid11, Xid,
    uid11::{PrefixRange, prefix_range},
};
use serde_json::{Value, json};

use super::{Verb, fields_out, id_out};
use crate::{error::VerbError, input::Input};

pub(super) const VERBS: &[(&str, Verb)] = &[
    ("uid11.encode", encode),
    ("uid11.decode", decode),
    ("uid11.range", range),
    ("uid11.pack", pack),
    ("uid11.unpack", unpack),
];

/// Encodes a value as text.
fn encode(input: &Input<'_>) -> Result<Value, VerbError> {
    let value = input.wide("value", u64::BITS)? as u64; // OK because the value has 64 bits
    Ok(id_out(Uid11::new(value).into()))
}

/// Decodes a value from text.
fn decode(input: &Input<'_>) -> Result<Value, VerbError> {
    Ok(id_out(Uid11::parse(input.text("text")?)?.into()))
}

/// Returns the range of values whose text begins with a prefix, and the ranges of their fields as xids.
fn range(input: &Input<'_>) -> Result<Value, VerbError> {
    let range = prefix_range(input.text("prefix")?)?;
    let [lo, hi] = [range.lo, range.hi].map(Uid11::new);
    Ok(json!({
        "lo": lo.get().to_string(),
        "lo_text": lo.to_string(),
        "hi": hi.get().to_string(),
        "hi_text": hi.to_string(),
        "clamped": range.clamped,
        "xid": xid_range(range),
    }))
}

fn xid_range(range: PrefixRange) -> Value {
    let [lo, hi] = [range.lo, range.hi].map(|value| Xid::from(Uid11::new(value)));
    json!({
        "ts_lo": lo.ts().to_string(),
        "ts_hi": hi.ts().to_string(),
        "unix_ms_lo": lo.unix_ms().to_string(),
        "unix_ms_hi": hi.unix_ms().to_string(),
        "rand_lo": lo.rand(),
        "rand_hi": hi.rand(),
        "rand_is_range": lo.ts() == hi.ts(),
    })
}

/// Makes the uid11 with these fields.
fn pack(input: &Input<'_>) -> Result<Value, VerbError> {
    Ok(id_out(profile(input)?.make(&input.object("fields")?)?))
}

/// Reads the fields of a uid11.
fn unpack(input: &Input<'_>) -> Result<Value, VerbError> {
    let codec = profile(input)?;
    let uid11 = Uid11::parse(input.text("text")?)?;
    let mut out = id_out(uid11.into());
    out["fields"] = fields_out(codec.read(uid11.get().into(), input)?);
    Ok(out)
}

fn profile(input: &Input<'_>) -> Result<Codec, CodecError> {
    let name = input.text("profile")?;
    Codec::by_profile(name).ok_or_else(|| {
        let known: Vec<_> = Codec::all().filter_map(|codec| profile_of(&codec)).collect();
        let message = format!("there is no profile {name:?}: use one of {}", known.join(", "));
        CodecError::new(ErrorCode::BadProfile, message)
    })
}

fn profile_of(codec: &Codec) -> Option<&'static str> {
    match codec.family() {
        Family::Uid11 { profile } => Some(profile),
        Family::Uuid { .. } => None,
    }
}
