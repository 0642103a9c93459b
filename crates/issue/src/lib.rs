//! What may be issued next: sequences, slots, windows and chunks.
//!
//! Everything Kent issues is a run of positions below a durable ceiling. This crate decides which run, and what must be
//! committed before the ceiling may rise. It is pure: it reads no clock, draws no randomness, does no I/O and knows no
//! async. The caller brings instants, random bits and the store's answers, in this order:
//!
//! 1. a `plan_*` function says what to commit, and under which version;
//! 2. the caller commits it, and waits until it is durable;
//! 3. an `on_*` function takes the plan back, together with the version that the store answered, and only then does a
//!    ceiling move;
//! 4. `grant` cuts runs below the ceiling, without any I/O.
//!
//! A plan that is dropped, or whose outcome is unknown, is a gap at worst, never a duplicate.
#![no_std]

extern crate alloc;

mod counter;
mod pace;
mod retention;
mod sequence;
mod slot;
mod strict;
mod time;
mod trust;

pub use counter::{Bound, Chunk, Counter, CounterPlan, CounterRefusal, Reserved};
pub use pace::{BURST, Lapse, PaceClock, TooFast, affordable, pay, series_pace};
pub use retention::{DatedRequest, Forgotten, REQUEST_AHEAD_MAX, RequestPolicy, RequestRefusal};
pub use sequence::{Exhausted, Sequence};
pub use slot::{AllSlotsReserved, BadHolder, HolderId, SlotPlan, SlotRecord, choose_slot};
pub use strict::{RequestRules, Run, StrictId, StrictOutcome, StrictPlan, StrictRefusal, StrictRequest, StrictState};
pub use time::{Clock, ClockPolicy, Extended, Refusal, TimeGrant, TimeIssuer};
pub use trust::{Quarantine, Reading, TrustPolicy, TrustedClock};

/// What the store said of a key: its value, and the version that a commit must compare.
///
/// A version is the store's number for the write that left this value; 0 says that the key has never been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored<T> {
    /// The version to compare.
    pub version: u64,
    /// The value at that version.
    pub value: T,
}
