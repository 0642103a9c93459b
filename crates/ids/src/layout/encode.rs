//! Turns positions into identifiers, and identifiers back into positions.

use alloc::{
    format,
    string::{String, ToString},
};

use super::{
    Layout,
    plan::{Plan, Time},
};
use crate::{
    error::{CodecError, ErrorCode},
    formats::{Scratch, each_tick},
    line::Position,
    permute::Permutation,
    slot::{ClusterKey, Slot, SlotConstants},
    time::UnixNanos,
};

/// The label of the permutations of layouts.
const LABEL: &[u8; 8] = b"layout01";

/// The constants of a block whose positions belong to a layout.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayoutConstants {
    /// The layout.
    pub layout: Layout,
    /// What grants the positions.
    pub granted: Granted,
    /// The value that the request supplies: 0 if the layout has no field for it.
    pub tag: u64,
}

/// What grants the positions of a layout: a slot or a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granted {
    /// A slot, for a layout with a time.
    Slot(SlotConstants),
    /// A durable counter, for a layout without a time. The key is used only if [`Layout::uses_key`] returns true.
    Counter(ClusterKey),
}

/// The values from which an identifier was made, if Kent issued it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Issued {
    /// The position.
    pub position: Position,
    /// The slot, for a layout with a time.
    pub slot: Option<Slot>,
    /// The value that the request supplied: 0 if the layout has no field for it.
    pub tag: u64,
    /// The random bits: 0 if the layout has none.
    pub tail: u64,
}

impl Granted {
    /// Returns the key of the permutations.
    pub const fn key(&self) -> &ClusterKey {
        match self {
            Self::Slot(constants) => &constants.key,
            Self::Counter(key) => key,
        }
    }

    /// Returns the slot, if a slot grants the positions.
    pub const fn slot(&self) -> Option<Slot> {
        match self {
            Self::Slot(constants) => Some(constants.slot),
            Self::Counter(_) => None,
        }
    }
}

impl LayoutConstants {
    /// Checks that positions of the layout can be issued with these constants: a layout with a time needs a slot that
    /// fits it, and any other layout needs a counter. The value that the request supplies must fit, too.
    ///
    /// # Errors
    ///
    /// Fails with `range`; the message states the reason.
    pub fn check(&self) -> Result<(), CodecError> {
        let Self { layout, granted, tag } = self;
        let slots = layout.slots();
        let problem = match granted {
            Granted::Slot(_) if slots == 0 => {
                format!("{:?} has no time, so a counter grants its identifiers, not a slot", shown(layout))
            }
            Granted::Counter(_) if slots > 0 => {
                format!("{:?} has a time, so a slot grants its identifiers, not a counter", shown(layout))
            }
            Granted::Slot(SlotConstants { slot, .. }) if slot.get() >= slots => {
                format!("the slot is {slot}, but {:?} can hold only the slots below {slots}", shown(layout))
            }
            _ => match layout.plan.tag {
                Some(place) if *tag > place.max() => {
                    format!(
                        "the value is {tag}, but must be from 0 to {} to fit the {} bits of the layout",
                        place.max(),
                        place.bits
                    )
                }
                None if *tag != 0 => format!("the value is {tag}, but {:?} has no field shard or tag", shown(layout)),
                _ => return Ok(()),
            },
        };
        Err(CodecError::new(ErrorCode::Range, problem))
    }

    /// Turns a run of positions into identifiers. On entry, `values[i]` is the random tail of position `first + i`; on
    /// return, it is the identifier. All positions must be below [`Layout::end`], and [`check`](Self::check) must
    /// succeed.
    pub(crate) fn fill(&self, first: Position, scratch: &mut Scratch, values: &mut [u128]) {
        let plan = &self.layout.plan;
        match plan.time {
            Some(time) => each_tick(first, plan.low_bits, values, |line_tick, low, values| {
                let (tick, counter) = time.split(line_tick, low, plan.low_bits);
                self.fill_tick(tick, counter, scratch, values);
            }),
            // OK because the positions of a layout without a time have at most 64 bits.
            None => self.fill_tick(0, first.get() as u64, scratch, values),
        }
    }

    /// Makes the identifiers of consecutive counters of one tick, starting at `counter`.
    fn fill_tick(&self, tick: u64, counter: u64, scratch: &mut Scratch, values: &mut [u128]) {
        let plan = &self.layout.plan;
        let slot = self.granted.slot().map_or(0, |slot| slot.get().into());
        let same = plan.fixed
            | plan.time.map_or(0, |time| time.place.put(tick))
            | plan.slot.map_or(0, |place| place.put(plan.slot_base.wrapping_add(slot))) // OK because the sum fits the field
            | plan.tag.map_or(0, |place| place.put(self.tag));
        let tail_shift = plan.random.map_or(0, |place| place.shift);
        match (plan.counter, plan.permuted) {
            (_, Some(place)) => {
                let permutation = scratch.permutation(tick, || plan.permutation(self.granted.key(), tick).narrow());
                let first = plan.permuted_index(slot, counter);
                for (value, offset) in values.iter_mut().zip(0..) {
                    *value = same | place.put(permutation.apply(first + offset)) | *value << tail_shift;
                }
            }
            (Some(place), None) => {
                let first = same | place.put(counter);
                for (value, offset) in values.iter_mut().zip(0..) {
                    // OK because all counters of one part of a tick fit in the field, so the sum does not carry.
                    *value = (first + place.put(offset)) | *value << tail_shift;
                }
            }
            (None, None) => values.iter_mut().for_each(|value| *value = same | *value << tail_shift),
        }
    }
}

/// Returns the text of a layout, for errors.
fn shown(layout: &Layout) -> String {
    layout.to_string()
}

impl Time {
    /// Converts a tick of the line and the low bits of a position into the tick and the counter of the layout.
    const fn split(&self, line_tick: u128, low: u64, low_bits: u32) -> (u64, u64) {
        // OK because a layout has at most 2^64 ticks, and their parts fit in the upper bits of the counter.
        match self.parts {
            0 | 1 => (line_tick as u64, low),
            parts => {
                let (tick, part) = (line_tick / parts as u128, line_tick % parts as u128);
                (tick as u64, (part as u64) << low_bits | low)
            }
        }
    }
}

impl Plan {
    /// Combines a tick and a counter into a position; returns `None` if the counter is not within a part of the tick.
    fn join(&self, tick: u64, counter: u64) -> Option<Position> {
        let parts = self.time.map_or(1, |time| time.parts);
        let part = u128::from(counter) >> self.low_bits;
        let low = u128::from(counter) & ((1 << self.low_bits) - 1);
        let line_tick = u128::from(tick) * u128::from(parts) + part;
        (part < u128::from(parts)).then(|| Position::new(line_tick << self.low_bits | low))
    }

    /// Returns the permutation of the permuted field in a tick.
    fn permutation(&self, key: &ClusterKey, tick: u64) -> Permutation {
        Permutation::new(key, LABEL, tick, self.permuted.map_or(0, |place| place.bits.into()))
    }

    /// Returns the number that is permuted: the counter, preceded by the slot if the layout has no field for the slot.
    const fn permuted_index(&self, slot: u64, counter: u64) -> u64 {
        match self.permutes_slot() {
            true => slot << self.counter_bits | counter,
            false => counter,
        }
    }
}

impl Layout {
    /// Returns one more than the last position.
    pub fn end(&self) -> Position {
        let counters = 1 << self.plan.low_bits; // OK because a counter has at most 64 bits
        self.line().map_or(Position::new(counters), |line| line.end())
    }

    /// Returns the instant at which the position's tick begins, or `None` if the layout has no time.
    pub fn instant(&self, position: Position) -> Option<UnixNanos> {
        let time = self.plan.time?;
        let (tick, _) = time.split(position.get() >> self.plan.low_bits, 0, self.plan.low_bits);
        Some(time.epoch.offset(i128::from(tick) * i128::from(time.tick_nanos)))
    }

    /// Makes the identifier of one position, with these constants and this random tail.
    ///
    /// # Errors
    ///
    /// Fails with `range` for constants that do not fit the layout, for a position past its end, and for a tail wider
    /// than [`tail_bits`](Self::tail_bits).
    pub fn encode(constants: &LayoutConstants, position: Position, tail: u64) -> Result<u128, CodecError> {
        constants.check()?;
        let layout = &constants.layout;
        if position >= layout.end() {
            let message = format!(
                "position {position} is past the end of the layout, whose positions are below {}",
                layout.end()
            );
            return Err(CodecError::new(ErrorCode::Range, message));
        }
        let tail_bits = layout.tail_bits();
        if tail.checked_shr(tail_bits).unwrap_or(0) != 0 {
            let message = format!("the tail is {tail}, but must fit the {tail_bits} random bits of the layout");
            return Err(CodecError::new(ErrorCode::Range, message));
        }
        let mut values = [u128::from(tail)];
        constants.fill(position, &mut Scratch::default(), &mut values);
        Ok(values[0])
    }

    /// Returns the values from which an identifier was made, or `None` if Kent cannot have issued it: it is wider than
    /// the layout, the fixed bits have other values, the slot's number is outside the range of Kent's slots, or the
    /// counter is outside every part of its tick. The bits do not prove that Kent issued the identifier. `key` is used
    /// only if [`uses_key`](Self::uses_key) returns true.
    pub fn issued(&self, id: u128, key: &ClusterKey) -> Option<Issued> {
        let plan = &self.plan;
        if !self.fits(id) {
            return None;
        }
        let tick = plan.time.map_or(0, |time| time.place.get(id));
        let mut slot = plan.slot.map_or(Some(0), |place| place.get(id).checked_sub(plan.slot_base))?;
        let counter = match (plan.counter, plan.permuted) {
            (_, Some(place)) => {
                let index = plan.permutation(key, tick).invert(place.get(id).into()) as u64; // OK because a field has at most 64 bits
                if plan.permutes_slot() {
                    slot = index >> plan.counter_bits;
                }
                index & (u64::MAX.checked_shr(u64::BITS - plan.counter_bits).unwrap_or(0))
            }
            (Some(place), None) => place.get(id),
            (None, None) => 0,
        };
        let slot = u8::try_from(slot).ok().and_then(|slot| Slot::new(slot).ok())?;
        Some(Issued {
            position: plan.join(tick, counter)?,
            slot: plan.time.map(|_| slot),
            tag: plan.tag.map_or(0, |place| place.get(id)),
            tail: plan.random.map_or(0, |place| place.get(id)),
        })
    }

    /// Returns whether a value fits the width of the layout and has its fixed bits.
    pub fn fits(&self, id: u128) -> bool {
        let unused = !(u128::MAX >> (super::MAX_LAYOUT_BITS - self.bits));
        id & (unused | self.plan.fixed_mask) == self.plan.fixed
    }
}
