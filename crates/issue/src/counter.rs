//! Counters: issuing a region's suffixes from chunks that were reserved beforehand.
//!
//! The durable record of a counter says how many suffixes are reserved. A daemon moves it up by a chunk, and then grants
//! from the chunk without any I/O. What is left of a chunk when the daemon crashes is a gap.

use core::time::Duration;

use kent_ids::{Position, UnixNanos};
use kent_regions::Pace;
use thiserror::Error;

use crate::{Exhausted, Sequence, Stored, TooFast, affordable, pay};

/// How many positions to reserve at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The size to begin with, and the smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl Default for Chunk {
    /// 1,024 to 1,048,576: a crash skips little in a quiet region, and a busy one commits about once a second.
    fn default() -> Self {
        Self { min: 1 << 10, max: 1 << 20 }
    }
}

/// What a counter's record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reserved {
    /// Positions below this are issued, or in somebody's chunk.
    pub below: Position,
    /// Until when they are paid for.
    pub paid: UnixNanos,
}

/// What bounds a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// One past the last position that there is.
    pub capacity: Position,
    /// How fast the counter may move.
    pub pace: Pace,
    /// The time by which it is paid.
    pub time: UnixNanos,
}

/// A write to a counter's record, to be committed under the version that was read.
#[must_use = "a counter's record must be committed before anything is issued from it"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterPlan {
    guard: u64,
    base: Position,
    reserved: Reserved,
}

impl CounterPlan {
    /// The version that the record must still have; 0 if it must not exist.
    pub const fn guard(&self) -> u64 {
        self.guard
    }

    /// What to write.
    pub const fn reserved(&self) -> Reserved {
        self.reserved
    }
}

/// Nothing can be reserved. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CounterRefusal {
    /// Fewer positions are left than were asked for.
    #[error("{reserved} of {capacity} suffixes are issued or reserved")]
    Full {
        /// How many suffixes there are.
        capacity: Position,
        /// How many of them are issued or reserved.
        reserved: Position,
    },
    /// The pace does not allow it yet.
    #[error(transparent)]
    TooFast(#[from] TooFast),
}

/// Grants the suffixes of one region below the ceiling of the chunk that is held.
///
/// Order of calls: [`grant`](Self::grant); if the chunk does not hold enough, read the record,
/// [`plan_chunk`](Self::plan_chunk), commit, [`on_committed`](Self::on_committed), and grant again. If the outcome of the
/// commit is a conflict or unknown, read again and plan anew: whatever the lost commit reserved is a gap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    policy: Chunk,
    sequence: Sequence,
    /// The version that our last commit gave the record; 0 before the first.
    version: u64,
    /// Until when our last commit paid.
    paid: UnixNanos,
    size: u64,
    /// How many the last chunk held, which may be more or less than wanted.
    last: u128,
    reserved_at: Option<Duration>,
    /// Whether the chunk before the last one did not last.
    is_busy: bool,
    /// Chunks that were committed before this version are dropped.
    dropped: u64,
}

impl Counter {
    /// A counter that holds no chunk yet.
    pub const fn new(policy: Chunk) -> Self {
        let sequence = Sequence::new(Position::ZERO, Position::ZERO);
        let paid = UnixNanos::new(0);
        Self {
            policy,
            sequence,
            version: 0,
            paid,
            size: policy.min,
            last: 0,
            reserved_at: None,
            is_busy: false,
            dropped: 0,
        }
    }

    /// Cuts `count` suffixes off the chunk and returns the first.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] if the chunk does not hold as many; nothing has changed then.
    pub fn grant(&mut self, count: u64) -> Result<Position, Exhausted> {
        self.sequence.grant(Position::ZERO, count)
    }

    /// Plans to reserve a chunk from which `count` can be granted, given what the record says and what bounds it. `now` is any
    /// steady clock: a counter that used its last chunk up within a second reserves twice as much.
    ///
    /// # Errors
    ///
    /// [`CounterRefusal`] if fewer are left, or the pace does not allow it.
    pub fn plan_chunk(
        &mut self,
        read: Stored<Reserved>,
        count: u64,
        bound: &Bound,
        now: Duration,
    ) -> Result<CounterPlan, CounterRefusal> {
        let (base, capacity) = (read.value.below, bound.capacity);
        // If nobody else has reserved since, what is left of our chunk continues in the next one.
        let in_hand = if base == self.sequence.ceiling() { self.sequence.left() } else { 0 };
        let missing = u128::from(count).saturating_sub(in_hand);
        let left = capacity.since(base);
        if missing > left {
            return Err(CounterRefusal::Full { capacity, reserved: base });
        }
        let most = affordable(bound.pace, read.value.paid, bound.time);
        let least = pay(bound.pace, read.value.paid, bound.time, missing)?;
        self.resize(now);
        let fair = (left / FAIR).max(1).min(most);
        let chunk = missing.max(fair.min(self.size.into())).min(left);
        let paid = pay(bound.pace, read.value.paid, bound.time, chunk).unwrap_or(least);
        // OK because the sum is at most the capacity.
        let reserved = Reserved { below: Position::new(base.get() + chunk), paid };
        Ok(CounterPlan { guard: read.version, base, reserved })
    }

    /// Plans to reserve the chunk after the one in hand, if that is low; not where somebody else has reserved since, since what
    /// is in hand would be lost then.
    pub fn plan_ahead(&mut self, read: Stored<Reserved>, bound: &Bound, now: Duration) -> Option<CounterPlan> {
        let is_ours = read.version == self.version && read.value.below == self.sequence.ceiling();
        let can_grow = affordable(bound.pace, read.value.paid, bound.time) > 0;
        if !is_ours || !self.is_low() || !can_grow || bound.capacity.since(read.value.below) == 0 {
            return None;
        }
        self.plan_chunk(read, 1, bound, now).ok()
    }

    /// Takes back a plan that is durable at `version`: only now does the ceiling move.
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

    /// How many positions would be reserved if the rest of the chunk were given back, given what the record says.
    pub const fn rest_of(&self, read: Stored<Position>) -> Position {
        let is_ours = read.version == self.version && read.value.get() == self.sequence.ceiling().get();
        if is_ours { self.sequence.next() } else { read.value }
    }

    /// Gives the rest of the chunk back, if nobody has reserved since. From here on nothing is granted before the next
    /// chunk, whatever the store answers.
    pub fn plan_give_back(&mut self) -> Option<CounterPlan> {
        let (next, ceiling) = (self.sequence.next(), self.sequence.ceiling());
        self.sequence.close();
        // What was paid stays paid: a copy of the record from before must allow for what was granted meanwhile.
        let reserved = Reserved { below: next, paid: self.paid };
        (next < ceiling).then_some(CounterPlan { guard: self.version, base: next, reserved })
    }

    /// Drops what was reserved before this version, also by a commit whose answer is still on its way: it is a gap.
    pub fn drop_before(&mut self, version: u64) {
        self.dropped = self.dropped.max(version);
        if self.version < version {
            self.sequence.close();
        }
    }

    /// Reserves by another policy from now on.
    pub const fn set_policy(&mut self, policy: Chunk) {
        self.policy = policy;
    }

    /// The version that our last commit gave the record; 0 before the first.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// How many suffixes are left of the chunk.
    pub const fn left(&self) -> u128 {
        self.sequence.left()
    }

    /// Whether the next chunk should be reserved before this one is used up, so that nobody waits for the store: at the present
    /// rate that will be soon, and half of it is gone. Not where more is asked for at once than a chunk holds.
    pub fn is_low(&self) -> bool {
        self.is_busy && self.last <= self.size.into() && self.left() < self.last / 2
    }

    /// A chunk should last about a second at the present rate, between the policy's bounds.
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

/// A chunk takes at most this part of what is left, unless more is asked for at once: others draw from the region as well, and
/// what a crash may skip is a part of it only.
const FAIR: u128 = 16;
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
        Bound { capacity: at(capacity), pace: Pace::for_bits(0), time: UnixNanos::new(1_800_000_000_000_000_000) }
    }

    fn counter() -> Counter {
        Counter::new(Chunk { min: 10, max: 40 })
    }

    #[test]
    fn ok_nothing_is_granted_before_a_chunk_is_durable() {
        let mut counter = counter();
        assert!(counter.grant(1).is_err());
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("room");
        assert_eq!((plan.guard(), plan.reserved().below), (0, at(10)));
        assert!(counter.grant(1).is_err());
        counter.on_committed(plan, 7);
        assert_eq!(counter.grant(10), Ok(at(0)));
        assert!(counter.grant(1).is_err());
    }

    #[test]
    fn ok_a_chunk_that_follows_ours_continues_it() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("room");
        counter.on_committed(plan, 1);
        assert_eq!(counter.grant(4), Ok(at(0)));
        let plan = counter.plan_chunk(stored(1, 10), 30, &below(1000), SECOND * 3).expect("room");
        assert_eq!(plan.reserved().below, at(34), "6 in hand, 24 missing");
        counter.on_committed(plan, 2);
        assert_eq!(counter.grant(30), Ok(at(4)));
    }

    #[test]
    fn ok_what_was_reserved_before_numbers_were_declared_is_dropped_whenever_its_commit_is_answered() {
        for is_answered in [false, true] {
            let mut counter = counter();
            let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("room");
            if is_answered {
                counter.on_committed(plan.clone(), 1);
            }
            counter.drop_before(2);
            if !is_answered {
                counter.on_committed(plan, 1);
            }
            assert!(counter.grant(1).is_err(), "{is_answered}");
            let plan = counter.plan_chunk(stored(2, 50), 4, &below(1000), SECOND * 3).expect("room");
            counter.on_committed(plan, 3);
            // What is heard of late does not take a newer chunk away.
            counter.drop_before(2);
            assert_eq!(counter.grant(4), Ok(at(50)), "{is_answered}");
        }
    }

    #[test]
    fn ok_a_chunk_of_the_very_version_from_which_on_they_count_is_kept() {
        for is_answered in [false, true] {
            let mut counter = counter();
            let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("room");
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
    fn ok_a_chunk_after_somebody_elses_leaves_a_gap() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 4, &below(1000), SECOND).expect("room");
        counter.on_committed(plan, 1);
        let plan = counter.plan_chunk(stored(2, 50), 12, &below(1000), SECOND * 3).expect("room");
        assert_eq!((plan.guard(), plan.reserved().below), (2, at(62)));
        counter.on_committed(plan, 3);
        assert_eq!(counter.grant(12), Ok(at(50)));
    }

    #[test]
    fn err_a_region_without_room_says_how_much_there_is() {
        let mut counter = counter();
        let refusal = counter.plan_chunk(stored(3, 95), 6, &below(100), SECOND).expect_err("only 5 are left");
        assert_eq!(refusal, CounterRefusal::Full { capacity: at(100), reserved: at(95) });
        let plan = counter.plan_chunk(stored(3, 95), 5, &below(100), SECOND).expect("5 are left");
        assert_eq!(plan.reserved().below, at(100), "a chunk never reaches beyond the capacity");
    }

    #[test]
    fn ok_what_is_given_back_is_not_granted_again_by_us() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("room");
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
            let plan = counter.plan_chunk(stored(version, reserved), 1, &below(1000), now).expect("room");
            counter.on_committed(plan, version + 1);
        };
        reserve(&mut counter, 0, 0, SECOND);
        counter.grant(10).expect("in hand");
        assert!(!counter.is_low(), "nobody knows yet how long it lasts");
        reserve(&mut counter, 1, 10, SECOND + SECOND / 2);
        counter.grant(10).expect("in hand");
        assert!(!counter.is_low(), "10 of 20 are left");
        assert_eq!(counter.plan_ahead(stored(2, 30), &below(1000), SECOND * 2), None);
        counter.grant(1).expect("in hand");
        assert!(counter.is_low());
        assert_eq!(counter.plan_ahead(stored(3, 60), &below(1000), SECOND * 2), None, "somebody else has reserved");
        for read in [stored(3, 30), stored(2, 60)] {
            assert_eq!(counter.plan_ahead(read, &below(1000), SECOND * 2), None, "the record is not as we left it");
        }
        let paid = below(1000).time.offset(crate::BURST.as_nanos() as i128);
        let spent = Stored { version: 2, value: Reserved { below: at(30), paid } };
        assert_eq!(counter.plan_ahead(spent, &below(1000), SECOND * 2), None, "the pace allows nothing");
        assert_eq!(counter.plan_ahead(stored(2, 30), &below(30), SECOND * 2), None, "there is no more");
        let plan = counter.plan_ahead(stored(2, 30), &below(1000), SECOND * 2).expect("room");
        assert_eq!((plan.guard(), plan.reserved().below), (2, at(70)), "a chunk twice as large");
        // What is in hand is granted meanwhile, and then without a gap what was reserved.
        assert_eq!(counter.grant(4), Ok(at(21)));
        counter.on_committed(plan, 3);
        assert_eq!(counter.grant(45), Ok(at(25)));
        reserve(&mut counter, 3, 70, SECOND * 9);
        counter.grant(15).expect("in hand");
        assert!(!counter.is_low(), "it is quiet again");
    }

    #[test]
    fn ok_a_chunk_that_lasts_a_second_is_not_followed_ahead() {
        for (lasted, is_low) in [(SECOND, false), (SECOND - Duration::from_nanos(1), true)] {
            let mut counter = counter();
            for (version, reserved, now) in [(0, 0, SECOND), (1, 10, SECOND + lasted)] {
                let plan = counter.plan_chunk(stored(version, reserved), 1, &below(1000), now).expect("room");
                counter.on_committed(plan, version + 1);
                // More than half of a chunk of 10, or of one twice as large.
                counter
                    .grant(match (version, is_low) {
                        (0, _) => 10,
                        (_, true) => 11,
                        (_, false) => 6,
                    })
                    .expect("in hand");
            }
            assert_eq!(counter.is_low(), is_low, "it lasted {lasted:?}");
        }
    }

    #[test]
    fn ok_more_at_once_than_a_chunk_holds_is_no_reason_to_reserve_ahead() {
        let mut counter = counter();
        for (version, reserved, count, now) in [(0, 0, 1, 0), (1, 10, 50, 500)] {
            let now = Duration::from_millis(now);
            let plan = counter.plan_chunk(stored(version, reserved), count, &below(1000), now).expect("room");
            counter.on_committed(plan, version + 1);
        }
        counter.grant(49).expect("in hand");
        assert_eq!((counter.left(), counter.is_low()), (1, false));
    }

    #[test]
    fn ok_the_rest_of_a_chunk_is_what_nobody_else_has_reserved_after() {
        let mut counter = counter();
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("room");
        counter.on_committed(plan, 5);
        counter.grant(3).expect("in hand");
        assert_eq!((counter.version(), counter.left()), (5, 7));
        for (version, reserved, rest) in [(5, 10, 3), (6, 10, 10), (5, 20, 20), (6, 20, 20)] {
            let read = Stored { version, value: at(reserved) };
            assert_eq!(counter.rest_of(read), at(rest), "version {version}, {reserved} reserved");
        }
    }

    #[test]
    fn ok_another_policy_bounds_the_next_chunk() {
        let mut counter = counter();
        counter.set_policy(Chunk { min: 20, max: 20 });
        let plan = counter.plan_chunk(stored(0, 0), 1, &below(1000), SECOND).expect("room");
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
                let plan = counter.plan_chunk(read, 1, &bound, now).expect("room");
                read = commit(&mut counter, plan);
                counter.grant(1).expect("in hand");
            }
            if let Some(plan) = counter.plan_ahead(read, &bound, now) {
                read = commit(&mut counter, plan);
            }
        }
        assert!(reserved < 800 && version < 10, "{reserved} reserved in {version} commits for 300");
    }

    #[test]
    fn ok_a_chunk_leaves_most_of_a_small_region_to_others() {
        for (left, count, expected) in [(160, 1, 10), (64, 1, 4), (64, 30, 30), (16, 1, 1), (3, 1, 1), (3, 3, 3)] {
            let plan = counter().plan_chunk(stored(0, 0), count, &below(left), SECOND).expect("room");
            assert_eq!(plan.reserved().below, at(expected), "{count} of {left}");
        }
    }

    #[test]
    fn ok_chunks_follow_the_rate_between_their_bounds() {
        let mut counter = counter();
        let mut reserved = 0;
        // A second and four are neither short nor long.
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
            let plan =
                counter.plan_chunk(stored(1, reserved), 1, &below(10_000), Duration::from_millis(at_ms)).expect("room");
            assert_eq!(plan.reserved().below.get() - reserved, expected, "at {at_ms} ms");
            reserved = plan.reserved().below.get();
        }
    }
}
