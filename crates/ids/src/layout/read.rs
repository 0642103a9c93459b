//! Reads the fields of an identifier, and lists their bit ranges.

use alloc::{format, vec::Vec};

use super::{
    Layout, MAX_LAYOUT_BITS,
    field::{FieldKind, LayoutField},
};
use crate::{
    error::{CodecError, ErrorCode},
    field::{BitRange, Field},
    slot::Slot,
    time::UnixNanos,
};

impl Layout {
    /// Returns the fields as bit ranges, most significant first, without gaps. Bit 0 is the most significant bit of the
    /// identifier.
    pub fn bit_ranges(&self) -> Vec<BitRange> {
        let mut first = 0;
        let range = |field: &LayoutField| {
            let range = BitRange::new(first, first + (field.bits - 1), field.kind.name());
            first = first.saturating_add(field.bits);
            range
        };
        self.fields.iter().map(range).collect()
    }

    /// Returns the fields of an identifier: the time, if it holds one, and then each field with its value. Also reads
    /// identifiers that another generator made with the same layout.
    ///
    /// # Errors
    ///
    /// Fails with `range` for a value wider than the layout, and with `reserved-bits` if a field `zero` or `const` does
    /// not have its fixed value.
    pub fn read(&self, id: u128) -> Result<Vec<Field>, CodecError> {
        let mut left = u32::from(self.bits);
        if id.checked_shr(left).unwrap_or(0) != 0 {
            let message = format!("the value is {id}, but the layout has only {left} bits");
            return Err(CodecError::new(ErrorCode::Range, message));
        }
        let mut fields: Vec<Field> = self.time_of(id).map(|at| self.time_field(at)).into_iter().collect();
        for LayoutField { kind, bits } in self.fields.iter().copied() {
            left -= u32::from(bits);
            let value = id >> left & (u128::MAX >> (MAX_LAYOUT_BITS - bits));
            fields.extend(number(kind, value)?);
        }
        Ok(fields)
    }

    /// Returns the extra fields that an identifier of this layout has *if* Kent issued it: the slot, if a field shows
    /// it. The bits do not prove that Kent issued the identifier. The result is empty if its fixed bits or the number
    /// of the slot prove that Kent did not issue it.
    pub fn issued_fields(&self, id: u128) -> Vec<Field> {
        let slot = self.plan.slot.and_then(|place| place.get(id).checked_sub(self.plan.slot_base));
        match slot.and_then(|slot| u8::try_from(slot).ok()).filter(|slot| *slot < Slot::COUNT && self.fits(id)) {
            Some(slot) => Vec::from([Field::small("kent_slot", slot, "if Kent issued it: its slot")]),
            None => Vec::new(),
        }
    }

    /// Returns the time in an identifier, or `None` if the layout has no time.
    pub fn time_of(&self, id: u128) -> Option<UnixNanos> {
        let time = self.plan.time?;
        let ticks = i128::from(time.place.get(id));
        Some(time.epoch.offset(ticks * i128::from(time.tick_nanos))) // OK because 2^64 days are far below 2^127 nanoseconds
    }

    /// Returns the number of decimal places of a second that the time of an identifier needs: 0 to 9.
    pub fn time_digits(&self) -> u32 {
        let tick_nanos = self.line().map_or(1, |line| line.tick_nanos());
        (0..9).find(|digits| tick_nanos.is_multiple_of(10_u64.pow(9 - digits))).unwrap_or(9)
    }

    fn time_field(&self, at: UnixNanos) -> Field {
        Field::time(at, self.time_digits(), "creation time, by the clock of its generator")
    }
}

/// Returns one field of an identifier, or `None` for bits that are always zero.
fn number(kind: FieldKind, value: u128) -> Result<Option<Field>, CodecError> {
    let meaning = match kind {
        FieldKind::Zero if value == 0 => return Ok(None),
        FieldKind::Zero => return Err(reserved("zero", 0, value)),
        FieldKind::Const { value: expected } if value != expected => return Err(reserved("const", expected, value)),
        FieldKind::Const { .. } => "bits with a fixed value",
        FieldKind::Time { .. } => "ticks since the epoch of the layout",
        FieldKind::Slot { .. } => "the generator; in Kent, the slot",
        FieldKind::Counter => "a counter",
        FieldKind::Random => "random bits",
        FieldKind::Permuted => "bits that look random; in Kent, a permutation of a counter",
        FieldKind::Shard => "the shard that the request supplied",
        FieldKind::Tag => "the tag that the request supplied",
    };
    let name = if let FieldKind::Time { .. } = kind { "ticks" } else { kind.name() };
    // A constant may have up to 128 bits, but the field's number has at most 127, so a larger value becomes a string.
    Ok(Some(match i128::try_from(value) {
        Ok(value) => Field::large(name, value, meaning),
        Err(_) => Field::text(name, format!("{value}"), meaning),
    }))
}

fn reserved(name: &str, expected: u128, value: u128) -> CodecError {
    let message = format!("the bits of {name} are {value}, but the layout requires {expected}");
    CodecError::new(ErrorCode::ReservedBits, message)
}
