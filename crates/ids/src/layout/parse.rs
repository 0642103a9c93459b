//! Reads the text of a layout: fields separated by spaces, each `KIND:BITS` or `KIND:BITS:DETAIL`.

use alloc::{string::String, vec::Vec};
use core::str::FromStr;

use super::{
    Layout, LayoutError,
    field::{FieldKind, LayoutField},
    instant::{Epoch, Tick},
};
use crate::time::UnixNanos;

/// Errors quote at most this many characters of an input.
const SHOWN_MAX: usize = 80;
/// The tick and the epoch of a field `time` that does not state them.
const DEFAULT_TIME: FieldKind = FieldKind::Time { tick_nanos: 1_000_000, epoch: UnixNanos::new(0) };

impl FromStr for Layout {
    type Err = LayoutError;

    /// Reads the fields of a layout, most significant first, such as `zero:1 time:41:1ms@2015-01-01 slot:10
    /// counter:12`. The default epoch is 1970-01-01.
    ///
    /// # Errors
    ///
    /// Fails with the [`LayoutError`] of the first word that is not a field, and otherwise like [`Layout::new`].
    fn from_str(text: &str) -> Result<Self, LayoutError> {
        Self::new(text.split_ascii_whitespace().map(field).collect::<Result<Vec<_>, _>>()?)
    }
}

impl FromStr for LayoutField {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        field(text)
    }
}

fn field(text: &str) -> Result<LayoutField, LayoutError> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let kind = match name {
        "zero" => FieldKind::Zero,
        "const" => FieldKind::Const { value: 0 },
        "time" => DEFAULT_TIME,
        "slot" => FieldKind::Slot { base: 0 },
        "counter" => FieldKind::Counter,
        "random" => FieldKind::Random,
        "permuted" => FieldKind::Permuted,
        "shard" => FieldKind::Shard,
        "tag" => FieldKind::Tag,
        _ => return Err(LayoutError::UnknownKind { name: shown(name) }),
    };
    let bad = || LayoutError::BadField { text: shown(text), kind };
    let (bits, detail) =
        rest.ok_or_else(bad)?.split_once(':').map_or((rest, None), |(bits, rest)| (Some(bits), Some(rest)));
    let bits = bits.ok_or_else(bad)?;
    if let (FieldKind::Const { .. }, None) = (kind, detail) {
        let (value, bits) = spelled_out(bits).ok_or_else(bad)?;
        return Ok(LayoutField { kind: FieldKind::Const { value }, bits });
    }
    let bits: u32 = decimal(bits).ok_or_else(bad)?;
    let kind = match (kind, detail) {
        (FieldKind::Const { .. }, Some(value)) => FieldKind::Const { value: value_of(value).ok_or_else(bad)? },
        (FieldKind::Time { .. }, Some(detail)) => time(detail)?,
        (FieldKind::Time { .. }, None) => return Err(bad()),
        (FieldKind::Slot { .. }, Some(base)) => FieldKind::Slot { base: decimal(base).ok_or_else(bad)? },
        (_, Some(_)) => return Err(bad()),
        (kind, None) => kind,
    };
    let width = LayoutError::FieldWidth { kind, bits };
    match u8::try_from(bits) {
        Ok(bits) if (1..=kind.max_bits()).contains(&bits) => Ok(LayoutField { kind, bits }),
        _ => Err(width),
    }
}

/// Reads the tick and the epoch of a time.
fn time(detail: &str) -> Result<FieldKind, LayoutError> {
    let (tick, epoch) = detail.split_once('@').map_or((detail, None), |(tick, epoch)| (tick, Some(epoch)));
    let tick = Tick::parse(tick).ok_or_else(|| LayoutError::BadTick { text: shown(tick) })?;
    let epoch = match epoch {
        None => Epoch(UnixNanos::new(0)),
        Some(text) => Epoch::parse(text).ok_or_else(|| LayoutError::BadEpoch { text: shown(text) })?,
    };
    Ok(FieldKind::Time { tick_nanos: tick.0, epoch: epoch.0 })
}

/// Reads a constant of the form `0b0111` or `0x7`, whose digits give its width.
fn spelled_out(text: &str) -> Option<(u128, u8)> {
    let digits = text.get(2..)?.len();
    let bits = if text.starts_with("0x") { digits.checked_mul(4)? } else { digits };
    let bits = u8::try_from(bits).ok().filter(|bits| (1..=super::MAX_LAYOUT_BITS).contains(bits))?;
    let is_spelled_out = text.starts_with("0x") || text.starts_with("0b");
    is_spelled_out.then(|| Some((value_of(text)?, bits)))?
}

/// Reads a number in decimal, in hexadecimal after `0x`, or in binary after `0b`.
fn value_of(text: &str) -> Option<u128> {
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0b") => (&text[2..], 2),
        _ => return decimal(text),
    };
    // `from_str_radix` alone would accept a sign.
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u128::from_str_radix(digits, radix).ok())?
}

fn decimal<T: FromStr>(text: &str) -> Option<T> {
    // `parse` alone would accept a sign.
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the part of an input that an error quotes, so that messages stay short.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}
