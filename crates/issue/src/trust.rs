//! How far a wall clock is believed: what it says is compared with a steady clock and with what the store has recorded.
//!
//! A clock that jumps forward poisons every allocator that writes down what it saw. A reading that is further ahead than a wrong
//! setting or a long absence explains is therefore not taken: the issuer goes on from the steady clock, or, where it has just
//! started and has nothing to go on from, grants nothing until an operator vouches for the clock. Readings that go back are
//! believed: they cost a slot at most.

use core::time::Duration;

use kent_ids::UnixNanos;

/// What a wall clock may do before it is not believed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustPolicy {
    /// A jump ahead of the steady clock by more than this, while running, is not believed.
    pub jump_max: Duration,
    /// A start later than everything recorded by more than this is not believed.
    pub absence_max: Duration,
}

impl Default for TrustPolicy {
    /// A jump of an hour; an absence of 31 days.
    fn default() -> Self {
        Self { jump_max: Duration::from_secs(3600), absence_max: Duration::from_secs(31 * 86_400) }
    }
}

/// Readings of the wall clock and of a steady one that also counts while the machine sleeps, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock.
    pub wall: UnixNanos,
    /// The steady clock, since any moment in the past.
    pub steady: Duration,
}

/// The wall clock is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// By how much it is ahead of what could be believed at the most.
    pub ahead: Duration,
    /// The time that is issued meanwhile, from the steady clock; `None` right after a start, when nothing is known.
    pub instead: Option<UnixNanos>,
}

/// A wall clock, as far as it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedClock {
    policy: TrustPolicy,
    /// What the wall clock is ahead of the steady one, as of the last reading that was believed.
    offset: Option<i128>,
    /// The same, the largest that has been believed or is recorded: a clock that was set back may return.
    largest: i128,
    quarantine: Option<Quarantine>,
}

impl TrustedClock {
    /// A clock of which nothing is known yet.
    pub const fn new(policy: TrustPolicy) -> Self {
        Self { policy, offset: None, largest: i128::MIN, quarantine: None }
    }

    /// Whether anything is known of the clock, so that a reading can be judged.
    pub const fn has_started(&self) -> bool {
        self.offset.is_some() || self.quarantine.is_some()
    }

    /// Judges the clock at a start, given the latest time that the store has recorded (none, if it is new), and the latest that
    /// is the time for others on the store right now (none, if there are no others); returns the time to issue. It may be
    /// judged again, when others are heard of that agree with it.
    pub fn start(
        &mut self,
        reading: Reading,
        recorded: Option<UnixNanos>,
        others: Option<UnixNanos>,
    ) -> Option<UnixNanos> {
        // Where others are, nobody was absent for long.
        let later = if others.is_some() { self.policy.jump_max } else { self.policy.absence_max };
        let allowed = recorded.max(others).map(|latest| latest.offset(nanos(later)));
        let offset = offset(reading);
        if let Some(allowed) = allowed
            && reading.wall > allowed
        {
            let ahead = reading.wall.get() - allowed.get();
            self.quarantine = Some(Quarantine { ahead: duration(ahead), instead: None });
            self.largest = offset - ahead - nanos(self.policy.jump_max);
            return None;
        }
        // A clock that starts behind what is recorded may be put right later.
        let credible = allowed.map_or(offset, |allowed| allowed.get() - nanos(self.policy.jump_max) - steady(reading));
        self.believe(reading);
        self.largest = self.largest.max(credible);
        Some(reading.wall)
    }

    /// The time to issue, given a reading; `None` if there is none to go on from. Before the start every reading is taken, and
    /// none is remembered.
    pub fn read(&mut self, reading: Reading) -> Option<UnixNanos> {
        if !self.has_started() {
            return Some(reading.wall);
        }
        let ahead = offset(reading).saturating_sub(self.largest.saturating_add(nanos(self.policy.jump_max)));
        if ahead > 0 {
            let instead = self.offset.map(|offset| UnixNanos::new(steady(reading) + offset));
            self.quarantine = Some(Quarantine { ahead: duration(ahead), instead });
            return instead;
        }
        self.believe(reading);
        Some(reading.wall)
    }

    /// Takes an operator's word for a reading.
    pub fn vouch(&mut self, reading: Reading) {
        self.believe(reading);
    }

    /// Why the clock is not believed now, as of the last reading.
    pub const fn quarantine(&self) -> Option<Quarantine> {
        self.quarantine
    }

    fn believe(&mut self, reading: Reading) {
        let offset = offset(reading);
        self.offset = Some(offset);
        self.largest = self.largest.max(offset);
        self.quarantine = None;
    }
}

fn offset(reading: Reading) -> i128 {
    reading.wall.get() - steady(reading)
}

fn steady(reading: Reading) -> i128 {
    nanos(reading.steady)
}

/// Nanoseconds; a duration has fewer than 2^94 of them.
fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i128 = 3600;
    const DAY: i128 = 24 * HOUR;
    const YEARS: i128 = 3650 * DAY;
    const NOW: i128 = 1_800_000_000;

    fn seconds(seconds: i128) -> UnixNanos {
        UnixNanos::new(seconds * 1_000_000_000)
    }

    /// Readings while the steady clock goes on by a second each, as seconds from `NOW`, and what is issued for each.
    #[track_caller]
    fn check(recorded: Option<i128>, start: (i128, Option<i128>), readings: &[(i128, Option<i128>)]) {
        let mut clock = TrustedClock::new(TrustPolicy::default());
        let at = |wall, steady| Reading { wall: seconds(NOW + wall), steady: Duration::from_secs(steady) };
        let issued = clock.start(at(start.0, 100), recorded.map(|recorded| seconds(NOW + recorded)), None);
        assert_eq!(issued, start.1.map(|expected| seconds(NOW + expected)), "at the start");
        for ((wall, expected), steady) in readings.iter().zip(101..) {
            let issued = clock.read(at(*wall, steady));
            assert_eq!(issued, expected.map(|expected| seconds(NOW + expected)), "{wall} s");
            assert_eq!(clock.quarantine().is_none(), issued == Some(seconds(NOW + wall)));
        }
    }

    #[test]
    fn ok_an_ordinary_clock_is_believed_whatever_was_recorded() {
        for recorded in [None, Some(-20 * DAY), Some(-1), Some(60), Some(YEARS)] {
            check(recorded, (0, Some(0)), &[(1, Some(1)), (2, Some(2)), (HOUR, Some(HOUR)), (4, Some(4))]);
        }
    }

    #[test]
    fn ok_steps_back_are_believed_and_so_is_the_way_back() {
        check(None, (0, Some(0)), &[(-DAY, Some(-DAY)), (-DAY + 1, Some(-DAY + 1)), (3, Some(3)), (4, Some(4))]);
    }

    #[test]
    fn ok_a_clock_that_starts_behind_what_is_recorded_may_be_put_right_by_as_much_as_that_explains() {
        let explained = 10 * DAY + 31 * DAY;
        let readings = [(explained + 2, Some(1)), (explained + 2, Some(explained + 2))];
        check(Some(10 * DAY), (0, Some(0)), &readings);
    }

    #[test]
    fn err_a_jump_of_more_than_an_hour_is_not_and_the_steady_clock_goes_on() {
        check(None, (0, Some(0)), &[(1, Some(1)), (YEARS, Some(2)), (YEARS + 1, Some(3)), (4, Some(4)), (5, Some(5))]);
        check(None, (0, Some(0)), &[(HOUR + 1, Some(HOUR + 1)), (2 * HOUR + 10, Some(HOUR + 2)), (3, Some(3))]);
    }

    #[test]
    fn err_a_start_far_ahead_of_what_is_recorded_has_nothing_to_go_on_from() {
        check(
            Some(-YEARS),
            (0, None),
            &[(1, None), (YEARS, None), (-YEARS, Some(-YEARS)), (-YEARS + 1, Some(-YEARS + 1))],
        );
        check(Some(-31 * DAY - 1), (0, None), &[(1, None)]);
        check(Some(-31 * DAY), (0, Some(0)), &[(1, Some(1))]);
        // What is recorded explains 31 days; the second reading is a second later by the steady clock.
        let explained = -YEARS + 31 * DAY;
        check(Some(-YEARS), (0, None), &[(explained + 2, None), (explained + 2, Some(explained + 2))]);
    }

    #[test]
    fn err_a_quarantine_says_by_how_much_the_clock_is_ahead_and_what_is_issued_instead() {
        let mut clock = TrustedClock::new(TrustPolicy::default());
        let at = |wall, steady| Reading { wall: seconds(NOW + wall), steady: Duration::from_secs(steady) };
        let quarantine = |ahead, instead: Option<i128>| {
            let instead = instead.map(|instead| seconds(NOW + instead));
            Some(Quarantine { ahead: Duration::from_secs(ahead), instead })
        };
        assert_eq!(clock.start(at(0, 100), Some(seconds(NOW - 31 * DAY - 7)), None), None);
        assert_eq!((clock.quarantine(), clock.has_started()), (quarantine(7, None), true));
        let mut clock = TrustedClock::new(TrustPolicy::default());
        clock.start(at(0, 100), None, None);
        assert_eq!((clock.quarantine(), clock.has_started()), (None, true));
        clock.read(at(HOUR + 15, 105));
        assert_eq!(clock.quarantine(), quarantine(10, Some(5)));
    }

    #[test]
    fn ok_a_clock_that_starts_in_1970_may_be_put_right() {
        check(Some(-DAY), (-NOW, Some(-NOW)), &[(-NOW + 1, Some(-NOW + 1)), (2, Some(2)), (3, Some(3))]);
        check(Some(-DAY), (-NOW, Some(-NOW)), &[(YEARS, Some(-NOW + 1)), (2, Some(2))]);
    }

    #[test]
    fn ok_a_reading_before_the_start_says_nothing() {
        let mut clock = TrustedClock::new(TrustPolicy::default());
        let at = |wall| Reading { wall: seconds(wall), steady: Duration::from_secs(1) };
        assert_eq!(clock.read(at(NOW)), Some(seconds(NOW)));
        assert!(!clock.has_started());
        assert_eq!(clock.start(at(NOW), Some(seconds(NOW - YEARS)), None), None);
    }

    #[test]
    fn ok_others_are_believed_and_who_is_far_from_them_is_not() {
        let judge = |recorded, others: Option<i128>| {
            let mut clock = TrustedClock::new(TrustPolicy::default());
            let reading = Reading { wall: seconds(NOW), steady: Duration::from_secs(100) };
            clock.start(reading, Some(seconds(NOW + recorded)), others.map(|others| seconds(NOW + others))).is_some()
        };
        assert!(judge(-2 * HOUR, None), "after two hours alone");
        assert!(!judge(-2 * HOUR, Some(-2 * HOUR)), "two hours ahead of others");
        assert!(judge(-2 * HOUR, Some(-HOUR + 1)), "less than an hour ahead of them");
        assert!(judge(-YEARS, Some(3)), "all were away for years, and agree now");
        assert!(judge(-1, Some(-YEARS)), "others' clocks are behind what is recorded");
    }

    #[test]
    fn ok_an_operator_can_vouch_for_a_clock() {
        let mut clock = TrustedClock::new(TrustPolicy::default());
        let at = |wall, steady| Reading { wall: seconds(wall), steady: Duration::from_secs(steady) };
        assert_eq!(clock.start(at(NOW, 1), Some(seconds(NOW - YEARS)), None), None);
        clock.vouch(at(NOW + 1, 2));
        assert_eq!((clock.read(at(NOW + 2, 3)), clock.quarantine()), (Some(seconds(NOW + 2)), None));
    }
}
