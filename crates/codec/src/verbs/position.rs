//! `position.*`: converts instants to positions, and positions to identifiers.

use kent_ids::{
    ClockSeq, ClusterKey, CodecError, ErrorCode, Format, Inputs, Node, Position, Series, Slot, SlotConstants,
    SlotEpoch, UnixNanos,
};
use serde_json::{Value, json};

use super::{Verb, id_out};
use crate::{error::VerbError, input::Input};

pub(super) const VERBS: &[(&str, Verb)] = &[("position.floor", floor), ("position.encode", encode)];

/// Returns the first position of the tick that contains an instant.
fn floor(input: &Input<'_>) -> Result<Value, VerbError> {
    let format = format(input)?;
    let at = UnixNanos::new(input.signed("unix_ns")?);
    let position = format
        .line()
        .floor(at)
        .ok_or_else(|| CodecError::new(ErrorCode::Range, format!("{format} has no identifiers for this instant")))?;
    Ok(json!({"position": position.to_string()}))
}

/// Encodes a position as an identifier. For a time-based format, the inputs include the constants of a slot and the
/// tail; for a series, at most the key.
fn encode(input: &Input<'_>) -> Result<Value, VerbError> {
    if let Ok(series) = input.text("format")?.parse::<Series>() {
        let position = Position::new(input.wide("position", u128::BITS)?);
        let key = if series.uses_key() { input.key()? } else { ClusterKey::new([0; 16]) };
        return Ok(id_out(series.encode(&key, position)?));
    }
    let format = format(input)?;
    let position = Position::new(input.wide("position", u128::BITS)?);
    let constants = constants(format, input)?;
    let tail_bits = format.tail_bits();
    let tail = if tail_bits == 0 { 0 } else { input.uint("tail", tail_bits)? };
    Ok(id_out(format.encode(&constants, position, tail)?))
}

/// Returns the slot's constants. Inputs that the format does not use may be missing.
fn constants(format: Format, input: &Input<'_>) -> Result<SlotConstants, CodecError> {
    let slot = input.uint("slot", Slot::BITS)? as u8; // OK because the slot has 6 bits
    let (node, clock_seq) = match format.uses_node() {
        // OK because six bytes are 48 bits.
        true => (input.hex("node", 6)? as u64, input.uint("clock_seq", ClockSeq::BITS)?),
        false => (0, 0),
    };
    Ok(SlotConstants {
        slot: Slot::new(slot)?,
        epoch: SlotEpoch::new(0), // the epoch is not part of any identifier
        node: Node::new(node)?,
        clock_seq: ClockSeq::from_random(clock_seq),
        key: if format.uses_key() { input.key()? } else { ClusterKey::new([0; 16]) },
    })
}

fn format(input: &Input<'_>) -> Result<Format, CodecError> {
    input.text("format")?.parse()
}
