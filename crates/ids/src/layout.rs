//! Custom layouts: identifiers of up to 128 bits whose fields are given as data, in any order.
//!
//! A [`Layout`] is read from a string such as `zero:1 time:41:1ms@2015-01-01 slot:10 counter:12`, most significant
//! field first. Its positions lie on a [`Line`] like those of the built-in formats, so the same windows and ceilings
//! make its identifiers unique:
//!
//! - A layout with a time has the positions `tick * 2^C + counter`. When the counters of a tick are used up, the
//!   positions run into the next tick. Identifiers of two slots differ in the bits of the slot.
//! - A window of a slot consists of whole seconds. If the tick of the layout does not divide a second, each tick is
//!   split into equal *parts* that divide a second, and each part has its own counters. The ticks of the line are these
//!   parts, so every tick of the line belongs to one window.
//! - A layout without a time has the positions of one durable counter, like a [`Series`](crate::Series).
//!
//! Uniqueness never depends on random bits or on the value that a request supplies.

mod encode;
mod error;
mod field;
mod instant;
mod parse;
mod plan;
mod preset;
mod read;
mod safe;
mod text;

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

use self::plan::Plan;
pub use self::{
    encode::{Granted, Issued, LayoutConstants},
    error::LayoutError,
    field::{FieldKind, LayoutField},
    preset::{Fit, Preset, PresetError, Presets},
    safe::{Ascends, Safe, Unsafe},
    text::{Digits, MAX_PREFIX_LEN, Spelling, SpellingError, Width},
};
use crate::line::Line;

/// The largest width of an identifier in bits.
pub const MAX_LAYOUT_BITS: u8 = 128;

/// The layout of an identifier: valid fields, most significant first. Cloning a layout is cheap.
///
/// The text form of a layout, which [`FromStr`](core::str::FromStr) reads and [`Display`](fmt::Display) writes, lists
/// its fields, separated by spaces: see [`LayoutField`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    fields: Arc<[LayoutField]>,
    bits: u8,
    plan: Plan,
}

impl Layout {
    /// Creates a layout with these fields, most significant first.
    ///
    /// # Errors
    ///
    /// Fails with a [`LayoutError`] if the fields do not form a valid layout.
    pub fn new(fields: impl Into<Vec<LayoutField>>) -> Result<Self, LayoutError> {
        let fields = fields.into();
        let plan = Plan::new(&fields)?;
        // OK because the plan has checked that the fields have at most 128 bits in total.
        let bits = fields.iter().map(|field| field.bits).sum();
        Ok(Self { fields: fields.into(), bits, plan })
    }

    /// Returns the fields, most significant first.
    pub fn fields(&self) -> &[LayoutField] {
        &self.fields
    }

    /// Returns the width of an identifier in bits: 1 to 128.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// Checks that identifiers have exactly `bits` bits.
    ///
    /// # Errors
    ///
    /// Fails with [`LayoutError::WrongBits`] if they have another width.
    pub fn check_bits(&self, bits: u32) -> Result<(), LayoutError> {
        match u32::from(self.bits) == bits {
            true => Ok(()),
            false => Err(LayoutError::WrongBits { bits: self.bits.into(), wanted: bits }),
        }
    }

    /// Returns the positions of a layout with a time, or `None` if the layout has no time. A tick of the line is a part
    /// of the layout's tick: see the module's documentation.
    pub const fn line(&self) -> Option<&Line> {
        self.plan.line.as_ref()
    }

    /// Returns the number of slots whose numbers fit the layout: 1 to 64 for a layout with a time, and 0 for a layout
    /// without a time, which is issued from a durable counter. Only the slots below this number can issue identifiers.
    pub fn slots(&self) -> u8 {
        self.plan.slots()
    }

    /// Returns the width in bits of the value that a request supplies, or `None` if the layout has no field for it.
    pub fn tag_bits(&self) -> Option<u8> {
        self.plan.tag.map(|place| place.bits)
    }

    /// Returns the number of random bits of each identifier: 0 to 64.
    pub fn tail_bits(&self) -> u32 {
        self.plan.random.map_or(0, |place| place.bits.into())
    }

    /// Returns whether the identifiers depend on a key.
    pub const fn uses_key(&self) -> bool {
        self.plan.permuted.is_some()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.fields.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            field.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
