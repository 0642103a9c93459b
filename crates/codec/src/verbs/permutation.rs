//! `permute` and `unpermute`, and their two uses: the tails of xids and the scrambled order of regions.

use kent_ids::{CodecError, ErrorCode, MAX_BITS, Permutation, Xid, scramble, unscramble};
use serde_json::{Value, json};

use super::Verb;
use crate::{error::VerbError, input::Input};

pub(super) const VERBS: &[(&str, Verb)] = &[
    ("permute", permute),
    ("unpermute", unpermute),
    ("xid.perm", xid_perm),
    ("xid.unperm", xid_unperm),
    ("scramble", scramble_counter),
    ("unscramble", unscramble_suffix),
];

fn permute(input: &Input<'_>) -> Result<Value, VerbError> {
    let (permutation, bits) = permutation(input)?;
    let value = permutation.apply(input.wide("index", bits)?);
    Ok(json!({"value": value.to_string()}))
}

fn unpermute(input: &Input<'_>) -> Result<Value, VerbError> {
    let (permutation, bits) = permutation(input)?;
    let index = permutation.invert(input.wide("value", bits)?);
    Ok(json!({"index": index.to_string()}))
}

/// Returns the permutation that the input describes, and its width in bits.
fn permutation(input: &Input<'_>) -> Result<(Permutation, u32), CodecError> {
    let label = input.text("label")?;
    let label: &[u8; 8] =
        label.as_bytes().try_into().ok().filter(|label: &&[u8; 8]| label.is_ascii()).ok_or_else(|| {
            CodecError::new(ErrorCode::BadInput, format!("the label must be 8 ASCII characters, not {label:?}"))
        })?;
    let param = input.wide("param", u64::BITS)? as u64; // OK because the parameter has 64 bits
    let bits = input.wide("bits", u128::BITS)?;
    let bits = u32::try_from(bits).ok().filter(|bits| *bits <= MAX_BITS).ok_or_else(|| {
        CodecError::new(ErrorCode::Range, format!("bits is {bits}, but must be from 0 to {MAX_BITS}"))
    })?;
    Ok((Permutation::new(&input.key()?, label, param, bits), bits))
}

fn xid_perm(input: &Input<'_>) -> Result<Value, VerbError> {
    let tail = xid_tails(input)?.apply(input.wide("index", Xid::RAND_BITS)?);
    Ok(json!({"tail": small(tail)}))
}

fn xid_unperm(input: &Input<'_>) -> Result<Value, VerbError> {
    let index = xid_tails(input)?.invert(input.wide("tail", Xid::RAND_BITS)?);
    Ok(json!({"index": small(index)}))
}

fn xid_tails(input: &Input<'_>) -> Result<Permutation, CodecError> {
    let ts = input.wide("delta_ms", Xid::TIME_BITS)? as u64; // OK because the time has 42 bits
    Ok(Xid::tails(&input.key()?, ts))
}

/// Converts a number below 2^22 to a `u32`.
const fn small(value: u128) -> u32 {
    value as u32 // OK because the permutation is on 22 bits
}

fn scramble_counter(input: &Input<'_>) -> Result<Value, VerbError> {
    let suffix = scramble(&input.key()?, input.wide("counter", MAX_BITS)?);
    Ok(json!({"suffix": suffix.to_string()}))
}

fn unscramble_suffix(input: &Input<'_>) -> Result<Value, VerbError> {
    let counter = unscramble(&input.key()?, input.wide("suffix", MAX_BITS)?);
    Ok(json!({"counter": counter.to_string()}))
}
