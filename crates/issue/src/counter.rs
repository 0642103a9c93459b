//! Counters issue the suffixes of a region from chunks that were reserved in advance.
//!
//! The durable record of a counter says how many suffixes are reserved. A daemon raises this number by a chunk, then
//! grants from the chunk without any I/O. If the daemon crashes, the rest of its chunk becomes a gap.

use core::time::Duration;

use kent_ids::{Position, Stride, UnixNanos};
use kent_regions::Pace;
use thiserror::Error;

use crate::{Exhausted, Sequence, Stored, TooFast, affordable, pay};

/// The bounds on the number of identifiers for which one commit reserves positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The initial size, which is also the smallest.
    pub min: u64,
    /// The largest size.
    pub max: u64,
}

impl Default for Chunk {
    /// Returns the default policy, with chunks of 1024 to 1,048,576 positions. A crash skips few suffixes of a quiet
    /// region, and a busy region commits about once per second.
    fn default() -> Self {
        Self { min: 1 << 10, max: 1 << 20 }
    }
}

/// The durable record of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reserved {
    /// Positions below this one are issued, or reserved in a daemon's chunk.
    pub below: Position,
    /// The time until which the counter is paid (see the pace rules in `pace.rs`).
    pub paid: UnixNanos,
}

/// The bounds of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// One past the last position of the region.
    pub capacity: Position,
    /// The maximum average rate at which the counter may advance.
    pub pace: Pace,
    /// The current time, by the pace clock.
    pub time: UnixNanos,
    /// Which positions are issued: a request takes [`Stride::span`] positions.
    pub stride: Stride,
}

/// A write to a counter's record. The commit must compare the version that was read.
#[must_use = "a counter's record must be committed before anything is issued from it"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterPlan {
    guard: u64,
    base: Position,
    reserved: Reserved,
}

impl CounterPlan {
    /// Returns the version that the record must have when the plan is committed; 0 if the record must not exist.
    pub const fn guard(&self) -> u64 {
        self.guard
    }

    /// Returns the record to write.
    pub const fn reserved(&self) -> Reserved {
        self.reserved
    }
}

/// The reason why a reservation is refused. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CounterRefusal {
    /// Fewer positions are left than were requested.
    #[error("{reserved} of {capacity} suffixes are issued or reserved")]
    Full {
        /// The number of suffixes of the region.
        capacity: Position,
        /// The number of suffixes that are issued or reserved.
        reserved: Position,
    },
    /// The pace does not allow the reservation yet.
    #[error(transparent)]
    TooFast(#[from] TooFast),
}

/// The error for a record that is below what this counter has granted or reserved: the store was rolled back or
/// replaced. Nothing more may be issued from the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the next suffix in the store is {reserved}, but this daemon has granted or reserved all suffixes below {known}"
)]
pub struct RolledBack {
    /// The value of the record.
    pub reserved: Position,
    /// The suffix after the last suffix that was granted or reserved.
    pub known: Position,
}

/// An error from planning a reservation. The counter is then unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotPlanned {
    /// The reservation is refused.
    #[error(transparent)]
    Refused(#[from] CounterRefusal),
    /// The record was rolled back.
    #[error(transparent)]
    RolledBack(#[from] RolledBack),
}

/// Grants the suffixes of one region from the current chunk.
///
/// Call [`grant`](Self::grant). If the chunk has too few suffixes left, read the record, call
/// [`plan_chunk`](Self::plan_chunk), commit the plan, call [`on_committed`](Self::on_committed), and grant again. After
/// a conflict or an unknown outcome, read and plan again: any positions that the lost commit reserved become a gap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    policy: Chunk,
    sequence: Sequence,
    /// The version of the record after our last commit; 0 before the first.
    version: u64,
    /// The `paid` time of our last commit.
    paid: UnixNanos,
    /// The number of identifiers in a chunk.
    size: u64,
    /// The number of positions of a chunk of that size.
    most: u128,
    /// The size of the last chunk in positions, which may be above or below `most`.
    last: u128,
    reserved_at: Option<Duration>,
    /// Whether the chunk before the last one lasted less than `TOO_SHORT`.
    is_busy: bool,
    /// Chunks committed before this version must not be used.
    dropped: u64,
}

impl Counter {
    /// Creates a counter without a chunk.
    pub const fn new(policy: Chunk) -> Self {
        let sequence = Sequence::new(Position::ZERO, Position::ZERO);
        let paid = UnixNanos::new(0);
        Self {
            policy,
            sequence,
            version: 0,
            paid,
            size: policy.min,
            most: 0,
            last: 0,
            reserved_at: None,
            is_busy: false,
            dropped: 0,
        }
    }

    /// Takes `count` suffixes from the chunk and returns the first.
    ///
    /// # Errors
    ///
    /// Fails with [`Exhausted`] if the chunk has fewer suffixes left; the counter is then unchanged.
    pub fn grant(&mut self, count: u128) -> Result<Position, Exhausted> {
        self.sequence.grant(Position::ZERO, count)
    }

    /// Takes suffixes like [`grant`](Self::grant), but only below `limit`, which an edit may have lowered since the
    /// chunk was reserved.
    ///
    /// # Errors
    ///
    /// Fails with [`Exhausted`] if the chunk has fewer suffixes left below the limit; the counter is then unchanged.
    pub fn grant_below(&mut self, limit: Position, count: u128) -> Result<Position, Exhausted> {
        let left = limit.since(self.sequence.next());
        if count > left { Err(Exhausted { left }) } else { self.grant(count) }
    }

    /// Plans to reserve a chunk from which `count` identifiers can be granted, given the record and its bounds. `now` is
    /// the time of any steady clock. The chunk size depends on how long the last chunk lasted: after less than a
    /// second, the size doubles.
    ///
    /// # Errors
    ///
    /// Fails with [`NotPlanned`] if fewer suffixes are left, if the pace does not allow the reservation, or if the
    /// record was rolled back.
    pub fn plan_chunk(
        &mut self,
        read: Stored<Reserved>,
        count: u64,
        bound: &Bound,
        now: Duration,
    ) -> Result<CounterPlan, NotPlanned> {
        let (base, capacity) = (read.value.below, bound.capacity);
        self.check(base)?;
        // If no other daemon has reserved suffixes since our last commit, the next chunk directly follows our current
        // chunk.
        let in_hand = if base == self.sequence.ceiling() { self.sequence.left() } else { 0 };
        let missing = bound.stride.span(count).saturating_sub(in_hand);
        let left = capacity.since(base);
        if missing > left {
            return Err(CounterRefusal::Full { capacity, reserved: base }.into());
        }
        let most = affordable(bound.pace, read.value.paid, bound.time);
        let least = pay(bound.pace, read.value.paid, bound.time, missing).map_err(CounterRefusal::from)?;
        self.resize(now);
        self.most = bound.stride.span(self.size);
        let share = (left / SHARE_DIVISOR).max(1).min(most);
        let chunk = missing.max(share.min(bound.stride.span(self.size))).min(left);
        let paid = pay(bound.pace, read.value.paid, bound.time, chunk).unwrap_or(least);
        // OK because the sum is at most the capacity.
        let reserved = Reserved { below: Position::new(base.get() + chunk), paid };
        Ok(CounterPlan { guard: read.version, base, reserved })
    }

    /// Plans to reserve the next chunk ahead of time if the current one is low. Returns `None` if it is not, if the
    /// pace or the capacity allows no more suffixes, or if another daemon has reserved suffixes since our last commit,
    /// because then the rest of the current chunk would be lost.
    pub fn plan_ahead(&mut self, read: Stored<Reserved>, bound: &Bound, now: Duration) -> Option<CounterPlan> {
        let is_ours = read.version == self.version && read.value.below == self.sequence.ceiling();
        let can_grow = affordable(bound.pace, read.value.paid, bound.time) > 0;
        if !is_ours || !self.is_low() || !can_grow || bound.capacity.since(read.value.below) == 0 {
            return None;
        }
        self.plan_chunk(read, 1, bound, now).ok()
    }

    /// Applies a plan that is durable at `version`. Only this call raises the ceiling.
    pub fn on_committed(&mut self, plan: CounterPlan, version: u64) {
        if version < self.dropped {
            return;
        }
        (self.version, self.paid) = (version, plan.reserved.paid);
        self.last = plan.reserved.below.since(plan.base);
        if plan.base == self.sequence.ceiling() {
            self.sequence.raise(Position::ZERO, plan.reserved.below);
        } else {
            self.sequence = Sequence::new(plan.base, plan.reserved.below);
        }
    }

    /// Checks that a record was not rolled back. Must be called before a plan is based on the record. Only a rollback
    /// leaves the record below the end of our chunk: when this counter gives back the rest of its chunk, the chunk ends
    /// at the new record.
    ///
    /// # Errors
    ///
    /// Fails with [`RolledBack`] if the record is below the end of our chunk.
    pub fn check(&self, reserved: Position) -> Result<(), RolledBack> {
        let known = self.sequence.ceiling();
        if reserved < known { Err(RolledBack { reserved, known }) } else { Ok(()) }
    }

    /// Records strict grants that end before the suffix `below` and are durable at `version`. The counter then has no
    /// chunk.
    pub const fn on_strict(&mut self, below: Position, version: u64) {
        (self.version, self.last) = (version, 0);
        self.sequence = Sequence::new(below, below);
    }

    /// Returns the value of the record, reduced by the unused rest of our chunk if no other daemon has reserved
    /// suffixes since our last commit.
    pub const fn rest_of(&self, read: Stored<Position>) -> Position {
        let is_ours = read.version == self.version && read.value.get() == self.sequence.ceiling().get();
        if is_ours { self.sequence.next() } else { read.value }
    }

    /// Plans to give back the rest of the chunk, if there is one; the commit fails if another daemon has reserved
    /// suffixes since our last commit. After this call, the counter grants nothing until its next chunk, even if the
    /// commit fails.
    pub fn plan_give_back(&mut self) -> Option<CounterPlan> {
        let (next, ceiling) = (self.sequence.next(), self.sequence.ceiling());
        self.sequence.close();
        // Giving suffixes back does not reduce `paid`: a restore of an older record must allow for the suffixes that
        // were granted after that record.
        let reserved = Reserved { below: next, paid: self.paid };
        (next < ceiling).then_some(CounterPlan { guard: self.version, base: next, reserved })
    }

    /// Drops chunks that were reserved before this version, including a chunk whose commit is not answered yet. Their
    /// suffixes become gaps.
    pub fn drop_before(&mut self, version: u64) {
        self.dropped = self.dropped.max(version);
        if self.version < version {
            self.sequence.close();
        }
    }

    /// Changes the policy for future chunks.
    pub const fn set_policy(&mut self, policy: Chunk) {
        self.policy = policy;
    }

    /// Returns the version of the record after our last commit; 0 before the first.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the position after the last suffix of the chunk.
    pub const fn ceiling(&self) -> Position {
        self.sequence.ceiling()
    }

    /// Returns the number of suffixes left in the chunk.
    pub const fn left(&self) -> u128 {
        self.sequence.left()
    }

    /// Returns whether to reserve the next chunk now, so that no request waits for the store: the counter is busy, and
    /// more than half of the chunk is used. Returns false if one request takes more than a chunk.
    pub fn is_low(&self) -> bool {
        self.is_busy && self.last <= self.most && self.left() < self.last / 2
    }

    /// Adapts the size so that a chunk lasts about a second at the current rate, within the policy's bounds.
    fn resize(&mut self, now: Duration) {
        let lasted = self.reserved_at.map(|at| now.saturating_sub(at));
        self.is_busy = lasted.is_some_and(|lasted| lasted < TOO_SHORT);
        self.size = match lasted {
            Some(lasted) if lasted < TOO_SHORT => self.size.saturating_mul(2),
            Some(lasted) if lasted > TOO_LONG => self.size / 2,
            _ => self.size,
        };
        self.size = self.size.clamp(self.policy.min, self.policy.max);
        self.reserved_at = Some(now);
    }
}

/// A chunk takes at most 1/16 of the suffixes left, unless one request needs more. This leaves suffixes for other
/// daemons, and bounds the gap after a crash.
const SHARE_DIVISOR: u128 = 16;
const TOO_SHORT: Duration = Duration::from_secs(1);
const TOO_LONG: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(number: u128) -> Position {
        Position::new(number)
    }

    fn stored(version: u64, reserved: u128) -> Stored<Reserved> {
        Stored { version, value: Reserved { below: at(reserved), paid: UnixNanos::new(0) } }
    }

    fn below(capacity: u128) -> Bound {
        let time = UnixNanos::new(1_800_000_000_000_000_000);
        Bound { capacity: at(capacity), pace: Pace::for_bits(0), time, stride: Stride::EVERY }
    }

    fn counter() -> Counter {
        Counter::new(Chunk { min: 10, max: 40 })
    }

    #[test]
    fn ok_nothing_is_granted_before_a_chunk_is_durable() {
        let mut counter = counter();
        assert!(counter.grant(1).is_err());
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("enough suffixes are left");
        assert_eq!((plan.guard(), plan.reserved().below), (0, at(10)));
        assert!(counter.grant(1).is_err());
        counter.on_committed(plan, 7);
        assert_eq!(counter.grant(10), Ok(at(0)));
        assert!(counter.grant(1).is_err());
    }

    #[test]
    fn ok_a_chunk_has_positions_for_as_many_identifiers_whatever_the_stride() {
        let stride = Stride::new(3, 1).expect("a stride");
        let mut counter = counter();
        let bound = |capacity| Bound { stride, ..below(capacity) };
        let plan = counter.plan_chunk(stored(0, 0), 1, &bound(1000), SECOND).expect("enough suffixes are left");
        assert_eq!(plan.reserved().below, at(30), "ten identifiers");
        counter.on_committed(plan, 1);
        assert_eq!(counter.grant(stride.span(9)), Ok(at(0)));
        let plan = counter.plan_chunk(stored(1, 30), 50, &bound(1000), SECOND * 3).expect("enough suffixes are left");
        assert_eq!(plan.reserved().below, at(177), "150 positions, of which 3 are in hand");
        let refused = counter.plan_chunk(stored(1, 30), 50, &bound(176), SECOND * 5).expect_err("one is missing");
        assert_eq!(refused, CounterRefusal::Full { capacity: at(176), reserved: at(30) }.into());
    }

    #[test]
    fn err_a_lowered_limit_binds_the_chunk_in_hand() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("enough suffixes are left");
        counter.on_committed(plan, 1);
        assert_eq!(counter.grant_below(at(1000), 3), Ok(at(0)));
        assert_eq!(counter.grant_below(at(5), 3), Err(Exhausted { left: 2 }));
        assert_eq!(counter.grant_below(at(5), 2), Ok(at(3)));
        assert_eq!(counter.grant_below(at(5), 1), Err(Exhausted { left: 0 }));
        assert_eq!(counter.grant_below(at(2), 1), Err(Exhausted { left: 0 }), "below what is issued");
        assert_eq!(counter.grant_below(at(1000), 6), Err(Exhausted { left: 5 }), "the chunk ends at 10");
        assert_eq!((counter.grant_below(at(1000), 5), counter.ceiling()), (Ok(at(5)), at(10)));
    }

    #[test]
    fn ok_an_adjacent_chunk_continues_ours() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("enough suffixes are left");
        counter.on_committed(plan, 1);
        assert_eq!(counter.grant(4), Ok(at(0)));
        let plan = counter.plan_chunk(stored(1, 10), 30, &below(1000), SECOND * 3).expect("enough suffixes are left");
        assert_eq!(plan.reserved().below, at(34), "6 are left in the chunk, 24 are missing");
        counter.on_committed(plan, 2);
        assert_eq!(counter.grant(30), Ok(at(4)));
    }

    #[test]
    fn ok_a_chunk_from_before_a_declaration_is_dropped_even_if_its_answer_is_late() {
        for is_answered in [false, true] {
            let mut counter = counter();
            let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("enough suffixes are left");
            if is_answered {
                counter.on_committed(plan.clone(), 1);
            }
            counter.drop_before(2);
            if !is_answered {
                counter.on_committed(plan, 1);
            }
            assert!(counter.grant(1).is_err(), "{is_answered}");
            let plan =
                counter.plan_chunk(stored(2, 50), 4, &below(1000), SECOND * 3).expect("enough suffixes are left");
            counter.on_committed(plan, 3);
            // A late call does not drop a newer chunk.
            counter.drop_before(2);
            assert_eq!(counter.grant(4), Ok(at(50)), "{is_answered}");
        }
    }

    #[test]
    fn ok_a_chunk_of_exactly_the_dropping_version_is_kept() {
        for is_answered in [false, true] {
            let mut counter = counter();
            let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("space is left");
            if is_answered {
                counter.on_committed(plan.clone(), 2);
            }
            counter.drop_before(2);
            if !is_answered {
                counter.on_committed(plan, 2);
            }
            assert_eq!(counter.grant(4), Ok(at(0)), "{is_answered}");
        }
    }

    #[test]
    fn ok_a_chunk_after_another_daemons_leaves_a_gap() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("enough suffixes are left");
        counter.on_committed(plan, 1);
        let plan = counter.plan_chunk(stored(2, 50), 12, &below(1000), SECOND * 3).expect("enough suffixes are left");
        assert_eq!((plan.guard(), plan.reserved().below), (2, at(62)));
        counter.on_committed(plan, 3);
        assert_eq!(counter.grant(12), Ok(at(50)));
    }

    #[test]
    fn err_a_full_region_reports_its_capacity() {
        let mut counter = counter();
        let refusal = counter.plan_chunk(stored(3, 95), 6, &below(100), SECOND).expect_err("only 5 are left");
        assert_eq!(refusal, CounterRefusal::Full { capacity: at(100), reserved: at(95) }.into());
        let plan = counter.plan_chunk(stored(3, 95), 5, &below(100), SECOND).expect("5 are left");
        assert_eq!(plan.reserved().below, at(100), "a chunk never exceeds the capacity");
    }

    #[test]
    fn err_a_record_below_what_was_granted_or_reserved_was_rolled_back() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("enough suffixes are left");
        counter.on_committed(plan, 1);
        let rolled_back = |reserved, known| Err(RolledBack { reserved: at(reserved), known: at(known) });
        assert_eq!([9, 10, 11].map(|reserved| counter.check(at(reserved))), [rolled_back(9, 10), Ok(()), Ok(())]);
        let planned = counter.plan_chunk(stored(1, 9), 20, &below(1000), SECOND);
        assert_eq!(planned, Err(RolledBack { reserved: at(9), known: at(10) }.into()));
        counter.grant(4).expect("in hand");
        assert!(counter.plan_give_back().is_some());
        assert_eq!([3, 4].map(|reserved| counter.check(at(reserved))), [rolled_back(3, 4), Ok(())]);
        counter.on_strict(at(7), 3);
        assert_eq!([6, 7].map(|reserved| counter.check(at(reserved))), [rolled_back(6, 7), Ok(())]);
        assert!(counter.grant(1).is_err() && counter.plan_give_back().is_none(), "there is no chunk");
        let plan = counter.plan_chunk(stored(3, 7), 4, &below(1000), SECOND * 3).expect("enough suffixes are left");
        counter.on_committed(plan, 4);
        assert_eq!(counter.grant(4), Ok(at(7)));
    }

    #[test]
    fn ok_a_counter_grants_nothing_that_it_gave_back() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("enough suffixes are left");
        counter.on_committed(plan, 5);
        assert_eq!(counter.grant(3), Ok(at(0)));
        let back = counter.plan_give_back().expect("7 are left");
        assert_eq!((back.guard(), back.reserved().below), (5, at(3)));
        assert!(counter.grant(1).is_err());
        assert!(counter.plan_give_back().is_none());
    }

    #[test]
    fn ok_a_busy_counter_reserves_ahead_when_half_of_its_chunk_is_gone() {
        let mut counter = counter();
        let reserve = |counter: &mut Counter, version, reserved, now| {
            let plan =
                counter.plan_chunk(stored(version, reserved), 1, &below(1000), now).expect("enough suffixes are left");
            counter.on_committed(plan, version + 1);
        };
        reserve(&mut counter, 0, 0, SECOND);
        counter.grant(10).expect("in hand");
        assert!(!counter.is_low(), "the duration of a chunk is not known yet");
        reserve(&mut counter, 1, 10, SECOND + SECOND / 2);
        counter.grant(10).expect("in hand");
        assert!(!counter.is_low(), "10 of 20 are left");
        assert_eq!(counter.plan_ahead(stored(2, 30), &below(1000), SECOND * 2), None);
        counter.grant(1).expect("in hand");
        assert!(counter.is_low());
        assert_eq!(
            counter.plan_ahead(stored(3, 60), &below(1000), SECOND * 2),
            None,
            "another daemon has reserved suffixes"
        );
        for read in [stored(3, 30), stored(2, 60)] {
            assert_eq!(counter.plan_ahead(read, &below(1000), SECOND * 2), None, "the record has changed");
        }
        let paid = below(1000).time.offset(crate::BURST.as_nanos() as i128);
        let spent = Stored { version: 2, value: Reserved { below: at(30), paid } };
        assert_eq!(counter.plan_ahead(spent, &below(1000), SECOND * 2), None, "the pace allows nothing");
        assert_eq!(counter.plan_ahead(stored(2, 30), &below(30), SECOND * 2), None, "no suffixes are left");
        let plan = counter.plan_ahead(stored(2, 30), &below(1000), SECOND * 2).expect("enough suffixes are left");
        assert_eq!((plan.guard(), plan.reserved().below), (2, at(70)), "a chunk twice as large");
        // Until the commit, the rest of the chunk is granted. The new chunk follows without a gap.
        assert_eq!(counter.grant(4), Ok(at(21)));
        counter.on_committed(plan, 3);
        assert_eq!(counter.grant(45), Ok(at(25)));
        reserve(&mut counter, 3, 70, SECOND * 9);
        counter.grant(15).expect("in hand");
        assert!(!counter.is_low(), "the counter is quiet again");
    }

    #[test]
    fn ok_after_a_chunk_that_lasts_a_second_none_is_reserved_ahead() {
        for (lasted, is_low) in [(SECOND, false), (SECOND - Duration::from_nanos(1), true)] {
            let mut counter = counter();
            for (version, reserved, now) in [(0, 0, SECOND), (1, 10, SECOND + lasted)] {
                let plan = counter
                    .plan_chunk(stored(version, reserved), 1, &below(1000), now)
                    .expect("enough suffixes are left");
                counter.on_committed(plan, version + 1);
                // Each grant takes more than half of the chunk, which has 10 suffixes, or 20 after a short chunk.
                counter
                    .grant(match (version, is_low) {
                        (0, _) => 10,
                        (_, true) => 11,
                        (_, false) => 6,
                    })
                    .expect("in hand");
            }
            assert_eq!(counter.is_low(), is_low, "the chunk lasted {lasted:?}");
        }
    }

    #[test]
    fn ok_a_request_larger_than_a_chunk_does_not_reserve_ahead() {
        let mut counter = counter();
        for (version, reserved, count, now) in [(0, 0, 1, 0), (1, 10, 50, 500)] {
            let now = Duration::from_millis(now);
            let plan = counter
                .plan_chunk(stored(version, reserved), count, &below(1000), now)
                .expect("enough suffixes are left");
            counter.on_committed(plan, version + 1);
        }
        counter.grant(49).expect("in hand");
        assert_eq!((counter.left(), counter.is_low()), (1, false));
    }

    #[test]
    fn ok_the_rest_of_a_chunk_counts_only_if_no_other_daemon_has_reserved() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("enough suffixes are left");
        counter.on_committed(plan, 5);
        counter.grant(3).expect("in hand");
        assert_eq!((counter.version(), counter.left()), (5, 7));
        for (version, reserved, rest) in [(5, 10, 3), (6, 10, 10), (5, 20, 20), (6, 20, 20)] {
            let read = Stored { version, value: at(reserved) };
            assert_eq!(counter.rest_of(read), at(rest), "version {version}, {reserved} reserved");
        }
    }

    #[test]
    fn ok_a_new_policy_applies_to_the_next_chunk() {
        let mut counter = counter();
        counter.set_policy(Chunk { min: 20, max: 20 });
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("enough suffixes are left");
        assert_eq!(plan.reserved().below, at(20));
    }

    #[test]
    fn ok_a_small_region_is_not_reserved_ahead_of_its_use() {
        let (mut counter, bound) = (Counter::new(Chunk::default()), below(1 << 12));
        let (mut version, mut reserved, mut read, mut now) = (0, 0, stored(0, 0), SECOND);
        for _ in 0..300 {
            now += Duration::from_millis(1);
            let mut commit = |counter: &mut Counter, plan: CounterPlan| {
                (version, reserved) = (version + 1, plan.reserved().below.get());
                counter.on_committed(plan, version);
                stored(version, reserved)
            };
            if counter.grant(1).is_err() {
                let plan = counter.plan_chunk(read, 1, &bound, now).expect("enough suffixes are left");
                read = commit(&mut counter, plan);
                counter.grant(1).expect("in hand");
            }
            if let Some(plan) = counter.plan_ahead(read, &bound, now) {
                read = commit(&mut counter, plan);
            }
        }
        assert!(reserved < 800 && version < 10, "{reserved} reserved in {version} commits to grant 300");
    }

    #[test]
    fn ok_a_chunk_leaves_most_of_a_small_region_to_others() {
        for (left, count, expected) in [(160, 1, 10), (64, 1, 4), (64, 30, 30), (16, 1, 1), (3, 1, 1), (3, 3, 3)] {
            let plan =
                counter().plan_chunk(stored(0, 0), count, &below(left), SECOND).expect("enough suffixes are left");
            assert_eq!(plan.reserved().below, at(expected), "{count} of {left}");
        }
    }

    #[test]
    fn ok_chunks_follow_the_rate_between_their_bounds() {
        let mut counter = counter();
        let mut reserved = 0;
        // Chunks that last from one to four seconds keep their size.
        for (at_ms, expected) in [
            (0, 10),
            (999, 20),
            (1999, 20),
            (2499, 40),
            (2999, 40),
            (6999, 40),
            (11_000, 20),
            (20_000, 10),
            (30_000, 10),
        ] {
            let plan = counter
                .plan_chunk(stored(1, reserved), 1, &below(10_000), Duration::from_millis(at_ms))
                .expect("enough suffixes are left");
            assert_eq!(plan.reserved().below.get() - reserved, expected, "at {at_ms} ms");
            reserved = plan.reserved().below.get();
        }
    }
}
