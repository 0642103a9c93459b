//! Decides which positions Kent may issue next: sequences, slots, windows and chunks.
//!
//! Kent issues runs of positions below a durable ceiling. This crate decides which run comes next, and which record
//! must be committed before the ceiling may rise. It is pure: it reads no clock, has no random source, does no I/O and
//! has no async code. The caller supplies times, random bits and the store's answers. The order of calls is:
//!
//! 1. a `plan_*` function returns the record to commit, and the version that the commit must compare;
//! 2. the caller commits it and waits until it is durable;
//! 3. an `on_*` function takes the plan and the version that the store returned, and only then raises a ceiling;
//! 4. `grant` returns runs below the ceiling, without any I/O.
//!
//! A plan that is dropped, or whose outcome is unknown, can cause a gap but never a duplicate.
#![no_std]

extern crate alloc;

mod counter;
mod floor;
mod pace;
mod retention;
mod sequence;
mod slot;
mod strict;
mod time;
mod trust;
mod turns;

pub use counter::{Bound, Chunk, Counter, CounterPlan, CounterRefusal, NotPlanned, Reserved, RolledBack};
pub use floor::{BadFloor, counter_above, slots_above};
pub use pace::{BURST, Lapse, PaceClock, TooFast, affordable, pay, series_pace};
pub use retention::{DatedRequest, Forgotten, REQUEST_AHEAD_MAX, RequestPolicy, RequestRefusal};
pub use sequence::{Exhausted, Sequence};
pub use slot::{AllSlotsReserved, BadHolder, HolderId, SlotPlan, SlotRecord, choose_slot};
pub use strict::{
    Earlier, RequestRules, Run, StrictId, StrictOutcome, StrictPlan, StrictRefusal, StrictRequest, StrictState,
};
pub use time::{Clock, ClockPolicy, Extended, Refusal, TimeGrant, TimeIssuer, TimedLayout};
pub use trust::{Quarantine, Reading, TrustPolicy, TrustedClock};
pub use turns::{OVERTAKEN_MAX, TURN_MAX, TurnEnd, TurnStep, Turns};

/// A value read from the store, with the version that a commit must compare.
///
/// The store numbers its writes. A version is the number of the write that stored the value, or 0 if the key has never
/// been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored<T> {
    /// The version to compare.
    pub version: u64,
    /// The value at that version.
    pub value: T,
}
