//! Checks that a layout can be issued safely, and computes how fast and for how long.
//!
//! By construction, a layout makes each identifier at most once. The checks here keep an operator from creating a
//! layout that would soon fail in use, such as one that cannot hold every slot or whose time ends soon.

use alloc::{format, string::String};
use core::fmt;

use thiserror::Error;

use super::{Layout, plan::Time};
use crate::{
    time::{NANOS_PER_SECOND, UnixNanos},
    words::counted,
};

/// The shortest time that a new layout must last: 365 days, in nanoseconds.
const MIN_LIFE_NANOS: i128 = 365 * 86_400 * NANOS_PER_SECOND;
/// The minimum number of ticks per second of a layout without a counter.
const MIN_TICKS_A_SECOND: u128 = 1_000;

/// What a safe layout can issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safe {
    /// The layout has a time.
    Timed {
        /// The number of identifiers that one slot can issue in a second.
        per_second: u128,
        /// The number of slots that fit the layout.
        slots: u8,
        /// The end of the last tick.
        end: UnixNanos,
        /// The order of a block's identifiers.
        order: Ascends,
    },
    /// The layout has no time: one durable counter counts its identifiers.
    Counted {
        /// The total number of identifiers that the layout can issue.
        total: u128,
        /// The order of a block's identifiers.
        order: Ascends,
    },
}

/// The numerical order of a block's identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ascends {
    /// Each identifier is larger than the previous one.
    Always,
    /// The identifiers of a later tick are larger; those of one tick have no order.
    ByTick,
    /// The identifiers have no order.
    Never,
}

/// Reasons why a layout is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsafe {
    /// The layout cannot hold the slots in use.
    #[error(
        "the layout can hold only {}, but {in_use} can be in use: make the field slot wider, as in slot:10, or its base smaller",
        counted(slots, "slot")
    )]
    TooFewSlots {
        /// The number of slots that fit the layout.
        slots: u8,
        /// The number of slots that can be in use.
        in_use: u8,
    },
    /// The layout has neither a counter nor short ticks.
    #[error(
        "without a counter, a slot issues one identifier a tick, which makes only {}: add a counter, as in counter:12, or use ticks of at most 1ms",
        counted_a_second(*per_second)
    )]
    TooSlow {
        /// The number of identifiers that one slot can issue in a second.
        per_second: u128,
    },
    /// The time of the layout has not begun.
    #[error("the epoch of the layout is {}, which is in the future: use an epoch in the past", shown(*epoch))]
    NotBegun {
        /// The instant at which tick 0 begins.
        epoch: UnixNanos,
    },
    /// The time of the layout ends too soon.
    #[error(
        "the time of the layout ends at {}, but must last for at least another year: widen the field time, or use a later epoch or longer ticks",
        shown(*end)
    )]
    EndsTooSoon {
        /// The end of the last tick.
        end: UnixNanos,
    },
}

fn counted_a_second(per_second: u128) -> String {
    format!("{} a second", counted(per_second, "identifier"))
}

impl fmt::Display for Safe {
    /// Describes for people what the layout can issue, and until when.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timed { per_second, slots, end, order } => write!(
                f,
                "each of up to {} issues up to {}, until {}; {order}",
                counted(slots, "slot"),
                counted_a_second(*per_second),
                shown(*end)
            ),
            Self::Counted { total, order } => write!(f, "up to {} in all; {order}", counted(total, "identifier")),
        }
    }
}

impl fmt::Display for Ascends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "the identifiers of a block ascend",
            Self::ByTick => "the identifiers of a block ascend from tick to tick",
            Self::Never => "the identifiers of a block do not ascend",
        })
    }
}

fn shown(at: UnixNanos) -> String {
    at.rfc3339(0).unwrap_or_else(|| format!("the year {}", at.year()))
}

impl Layout {
    /// Checks that the layout can be issued safely from `now` on, through the slots below `in_use`.
    ///
    /// # Errors
    ///
    /// Fails with the first reason of [`Unsafe`] that applies.
    pub fn check(&self, in_use: u8, now: UnixNanos) -> Result<Safe, Unsafe> {
        let order = self.ascends();
        let Some((time, line)) = self.plan.time.zip(self.line()) else {
            return Ok(Safe::Counted { total: self.end().get(), order });
        };
        let slots = self.slots();
        if slots < in_use {
            return Err(Unsafe::TooFewSlots { slots, in_use });
        }
        let ticks_a_second = NANOS_PER_SECOND as u128 / u128::from(line.tick_nanos()); // OK because the constant is positive
        let per_second = ticks_a_second << line.counter_bits();
        if self.plan.counter_bits == 0 && ticks_a_second < MIN_TICKS_A_SECOND {
            return Err(Unsafe::TooSlow { per_second });
        }
        if now < time.epoch {
            return Err(Unsafe::NotBegun { epoch: time.epoch });
        }
        let end = time.end();
        match end < now.offset(MIN_LIFE_NANOS) {
            true => Err(Unsafe::EndsTooSoon { end }),
            false => Ok(Safe::Timed { per_second, slots, end, order }),
        }
    }

    /// Returns the numerical order of a block's identifiers.
    pub fn ascends(&self) -> Ascends {
        let plan = &self.plan;
        let shift = |place: super::plan::Place| place.shift;
        let (random, permuted) = (plan.random.map(shift), plan.permuted.map(shift));
        let (time, counter) = (plan.time.map(|time| time.place.shift), plan.counter.map(shift));
        // A field with a larger shift is more significant. A missing field counts as the least significant.
        let noise = random.max(permuted);
        match (time, counter) {
            (Some(time), Some(counter)) if time < counter => Ascends::Never,
            (Some(time), _) if noise > Some(time) => Ascends::Never,
            (Some(_), Some(counter)) if noise > Some(counter) => Ascends::ByTick,
            (Some(_), None) if permuted.is_some() => Ascends::ByTick,
            (None, Some(counter)) if noise > Some(counter) => Ascends::Never,
            (None, None) => Ascends::Never,
            _ => Ascends::Always,
        }
    }

    /// Returns the end of the last tick, or `None` if the layout has no time.
    pub fn ends(&self) -> Option<UnixNanos> {
        self.plan.time.map(Time::end)
    }
}

impl Time {
    /// Returns the end of the last tick.
    fn end(self) -> UnixNanos {
        // OK because 2^64 days are far below 2^127 nanoseconds.
        self.epoch.offset((i128::from(self.tick_nanos)) << self.place.bits)
    }
}
