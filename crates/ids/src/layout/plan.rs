//! Checks the fields of a layout, and derives the place of each field and the split of positions into fields.

use super::{
    LayoutError, MAX_LAYOUT_BITS,
    field::{FieldKind, LayoutField},
    instant::MAX_TICK_NANOS,
};
use crate::{line::Line, slot::Slot, time::UnixNanos};

/// The largest counter of a layout with a time, in bits: together with 64 bits of ticks, it fits in the 127 bits of a
/// line.
const MAX_COUNTER_BITS_WITH_TIME: u32 = 62;
const SECOND_NANOS: u64 = 1_000_000_000;

/// The place of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The number of bits below the field: 0 to 127.
    pub(super) shift: u8,
    /// The width of the field: 1 to 64 bits.
    pub(super) bits: u8,
}

impl Place {
    /// Moves a value that fits the field into its place.
    #[inline]
    pub(super) const fn put(self, value: u64) -> u128 {
        (value as u128) << self.shift
    }

    /// Returns the value of the field in an identifier.
    pub(super) const fn get(self, id: u128) -> u64 {
        (id >> self.shift) as u64 & self.max() // OK because the mask keeps at most 64 bits
    }

    /// Returns the largest value of the field.
    pub(super) const fn max(self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits as u32)
    }
}

/// The time of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Time {
    pub(super) place: Place,
    pub(super) tick_nanos: u64,
    pub(super) epoch: UnixNanos,
    /// The number of the line's ticks in one tick of the layout.
    pub(super) parts: u64,
}

/// The places of the fields, and the split of a position into fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    /// The bits that are the same in every identifier, and their values.
    pub(super) fixed_mask: u128,
    pub(super) fixed: u128,
    pub(super) time: Option<Time>,
    pub(super) slot: Option<Place>,
    pub(super) slot_base: u64,
    pub(super) counter: Option<Place>,
    pub(super) permuted: Option<Place>,
    pub(super) random: Option<Place>,
    pub(super) tag: Option<Place>,
    /// The width of the counter, which is in `counter` or in `permuted`: 0 to 64.
    pub(super) counter_bits: u32,
    /// The number of low bits of a position. These bits count the identifiers in one of the line's ticks. The upper
    /// bits of the counter are the number of the part within the layout's tick.
    pub(super) low_bits: u32,
    pub(super) line: Option<Line>,
}

impl Plan {
    pub(super) fn new(fields: &[LayoutField]) -> Result<Self, LayoutError> {
        check_each(fields)?;
        let mut plan = Self::placed(fields);
        if plan.counter.is_some() && plan.permuted.is_some() {
            return Err(LayoutError::TwoCounters);
        }
        plan.counter_bits = plan.counter_bits()?;
        plan.low_bits = plan.counter_bits;
        match plan.time {
            Some(time) => plan.split_ticks(time)?,
            None if plan.slot.is_some() => return Err(LayoutError::SlotWithoutTime),
            None if plan.counter_bits == 0 => return Err(LayoutError::NothingCounts),
            None => {}
        }
        Ok(plan)
    }

    /// Finds the places of the fields.
    fn placed(fields: &[LayoutField]) -> Self {
        let mut plan = Self {
            fixed_mask: 0,
            fixed: 0,
            time: None,
            slot: None,
            slot_base: 0,
            counter: None,
            permuted: None,
            random: None,
            tag: None,
            counter_bits: 0,
            low_bits: 0,
            line: None,
        };
        let mut shift = 0;
        for field in fields.iter().rev() {
            let place = Place { shift, bits: field.bits };
            let mask = u128::MAX >> (MAX_LAYOUT_BITS - field.bits) << shift;
            match field.kind {
                FieldKind::Zero => plan.fixed_mask |= mask,
                FieldKind::Const { value } => {
                    plan.fixed_mask |= mask;
                    plan.fixed |= value << shift;
                }
                FieldKind::Time { tick_nanos, epoch } => {
                    let parts = tick_nanos / divisor(tick_nanos, SECOND_NANOS);
                    plan.time = Some(Time { place, tick_nanos, epoch, parts });
                }
                FieldKind::Slot { base } => {
                    plan.slot = Some(place);
                    plan.slot_base = base;
                }
                FieldKind::Counter => plan.counter = Some(place),
                FieldKind::Random => plan.random = Some(place),
                FieldKind::Permuted => plan.permuted = Some(place),
                FieldKind::Shard | FieldKind::Tag => plan.tag = Some(place),
            }
            shift = shift.saturating_add(field.bits);
        }
        plan
    }

    /// Returns whether the slot is a part of the permuted field.
    pub(super) const fn permutes_slot(&self) -> bool {
        self.permuted.is_some() && self.slot.is_none() && self.time.is_some()
    }

    fn counter_bits(&self) -> Result<u32, LayoutError> {
        let bits = match (self.counter, self.permuted) {
            (Some(place), _) => place.bits.into(),
            (None, Some(place)) if self.permutes_slot() => u32::from(place.bits)
                .checked_sub(Slot::BITS)
                .ok_or(LayoutError::PermutedTooNarrow { bits: place.bits })?,
            (None, Some(place)) => place.bits.into(),
            (None, None) => 0,
        };
        match bits > MAX_COUNTER_BITS_WITH_TIME && self.time.is_some() {
            true => Err(LayoutError::CounterTooWide { bits, max: MAX_COUNTER_BITS_WITH_TIME }),
            false => Ok(bits),
        }
    }

    /// Divides each tick into parts that divide a second, and makes the line of these parts.
    fn split_ticks(&mut self, time: Time) -> Result<(), LayoutError> {
        let Time { place, tick_nanos, epoch, parts } = time;
        let step_nanos = tick_nanos / parts;
        if epoch.rfc3339(0).is_none() {
            return Err(LayoutError::EpochRange);
        }
        if epoch.get() % i128::from(step_nanos) != 0 {
            return Err(LayoutError::EpochNotWhole { epoch, step_nanos });
        }
        let needed = parts.next_power_of_two().ilog2(); // OK because a tick has at most 86,400,000,000,000 parts
        let too_narrow = LayoutError::CounterTooNarrow { tick_nanos, parts, needed };
        self.low_bits = self.counter_bits.checked_sub(needed).ok_or(too_narrow)?;
        // OK because there are at most 2^64 ticks of at most 2^47 parts, and the parts take their bits from the counter,
        // which has at most 62 bits: the line has at most 126 bits. The step divides a second and the epoch.
        let ticks = u128::from(parts) << place.bits;
        self.line = Some(Line::of_ticks(step_nanos, epoch, ticks, self.low_bits));
        Ok(())
    }

    /// Returns the number of slots that fit the layout.
    pub(super) fn slots(&self) -> u8 {
        match (self.time, self.slot) {
            (None, _) => 0,
            (Some(_), Some(place)) => {
                let last = place.max() - self.slot_base; // OK because the base fits the field
                u8::try_from(last.min(u64::from(Slot::COUNT) - 1) + 1).unwrap_or(Slot::COUNT)
            }
            (Some(_), None) if self.permutes_slot() => Slot::COUNT,
            (Some(_), None) => 1,
        }
    }
}

/// Checks each field, and that no kind occurs twice.
fn check_each(fields: &[LayoutField]) -> Result<(), LayoutError> {
    if fields.is_empty() {
        return Err(LayoutError::Empty);
    }
    for (index, field) in fields.iter().enumerate() {
        let LayoutField { kind, bits } = *field;
        if !(1..=kind.max_bits()).contains(&bits) {
            return Err(LayoutError::FieldWidth { kind, bits: bits.into() });
        }
        // OK because a field has 1 to 128 bits, and a field for the slot has at most 64.
        let max = u128::MAX >> (MAX_LAYOUT_BITS - bits);
        match kind {
            FieldKind::Const { value } if value > max => return Err(LayoutError::ConstTooLarge { value, bits }),
            FieldKind::Slot { base } if u128::from(base) > max => return Err(LayoutError::BaseTooLarge { base, bits }),
            FieldKind::Time { tick_nanos, .. } if !(1..=MAX_TICK_NANOS).contains(&tick_nanos) => {
                return Err(LayoutError::TickRange { tick_nanos });
            }
            _ => {}
        }
        let is_same = |other: &LayoutField| same(other.kind, kind);
        if !kind.may_repeat() && fields.iter().take(index).any(is_same) {
            return Err(LayoutError::Twice { name: kind.name() });
        }
    }
    let bits = fields.iter().fold(0_u32, |bits, field| bits.saturating_add(field.bits.into()));
    match bits > u32::from(MAX_LAYOUT_BITS) {
        true => Err(LayoutError::TooWide { bits }),
        false => Ok(()),
    }
}

/// Returns whether two fields are of the same kind. A shard and a tag count as the same kind.
fn same(one: FieldKind, other: FieldKind) -> bool {
    let is_tag = |kind| matches!(kind, FieldKind::Shard | FieldKind::Tag);
    one.name() == other.name() || is_tag(one) && is_tag(other)
}

/// Returns the greatest common divisor.
const fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
