//! Decides whether to trust the wall clock, by comparing it with a steady clock and with the times in the store.
//!
//! A clock that jumps forward would raise the stored ceilings far into the future. A reading that is implausibly far
//! ahead is therefore rejected. A running issuer then continues from the steady clock. An issuer that has just started
//! grants nothing until the clock is plausible or agrees with other daemons, or an operator vouches for it. Readings
//! that go back are trusted, because they cost at most a change of the slot.

use core::time::Duration;

use kent_ids::UnixNanos;

/// The limits beyond which a wall clock is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustPolicy {
    /// The largest plausible jump ahead of the steady clock while the daemon runs.
    pub jump_max: Duration,
    /// The longest plausible time between the latest time in the store and the start of a daemon.
    pub absence_max: Duration,
}

impl Default for TrustPolicy {
    /// Returns the default policy: a jump of up to an hour, and an absence of up to 31 days.
    fn default() -> Self {
        Self { jump_max: Duration::from_secs(3600), absence_max: Duration::from_secs(31 * 86_400) }
    }
}

/// Simultaneous readings of the wall clock, and of a steady clock that also counts while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock.
    pub wall: UnixNanos,
    /// The time since a fixed moment in the past, by the steady clock.
    pub steady: Duration,
}

/// The state of a wall clock that is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The time by which the clock is ahead of the latest plausible time.
    pub ahead: Duration,
    /// The time to use in identifiers meanwhile, from the steady clock; `None` if no reading has been trusted since the
    /// start.
    pub instead: Option<UnixNanos>,
}

/// A wall clock whose readings are checked for plausibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedClock {
    policy: TrustPolicy,
    /// The lead of the wall clock over the steady clock in nanoseconds, at the last trusted reading.
    offset: Option<i128>,
    /// The largest offset that was trusted or that the recorded times suggest. A clock that was set back may return to
    /// this offset.
    largest: i128,
    quarantine: Option<Quarantine>,
}

impl TrustedClock {
    /// Creates a clock without any reading.
    pub const fn new(policy: TrustPolicy) -> Self {
        Self { policy, offset: None, largest: i128::MIN, quarantine: None }
    }

    /// Returns whether [`start`](Self::start) or [`vouch`](Self::vouch) has been called, so that readings can be
    /// checked.
    pub const fn has_started(&self) -> bool {
        self.offset.is_some() || self.quarantine.is_some()
    }

    /// Checks the clock at a start. `recorded` is the latest time in the store (`None` for a new store), and `others`
    /// is the latest time of other live daemons on the store (`None` if there are none). Returns the time to use in
    /// identifiers, or `None` if the clock is not trusted. May be called again if other daemons are later found to
    /// agree with the clock.
    pub fn start(
        &mut self,
        reading: Reading,
        recorded: Option<UnixNanos>,
        others: Option<UnixNanos>,
    ) -> Option<UnixNanos> {
        // While other daemons are alive, the store's times are recent.
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
        // A clock that starts behind the recorded times may be corrected later.
        let credible = allowed.map_or(offset, |allowed| allowed.get() - nanos(self.policy.jump_max) - steady(reading));
        self.trust(reading);
        self.largest = self.largest.max(credible);
        Some(reading.wall)
    }

    /// Returns the time to use in identifiers, given a reading, or `None` if the reading is not trusted and no other
    /// time is known. Before the first call of [`start`](Self::start) or [`vouch`](Self::vouch), accepts every reading
    /// and remembers none.
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
        self.trust(reading);
        Some(reading.wall)
    }

    /// Trusts a reading because an operator vouches for it.
    pub fn vouch(&mut self, reading: Reading) {
        self.trust(reading);
    }

    /// Returns the quarantine as of the last reading, if the clock is not trusted.
    pub const fn quarantine(&self) -> Option<Quarantine> {
        self.quarantine
    }

    fn trust(&mut self, reading: Reading) {
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

/// Returns the duration in nanoseconds. The result is less than 2^94.
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

    /// Checks the time that is issued for each of `readings`, which are one second apart by the steady clock. All times
    /// are in seconds from `NOW`.
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
    fn ok_an_ordinary_clock_is_trusted_for_any_recorded_time() {
        for recorded in [None, Some(-20 * DAY), Some(-1), Some(60), Some(YEARS)] {
            check(recorded, (0, Some(0)), &[(1, Some(1)), (2, Some(2)), (HOUR, Some(HOUR)), (4, Some(4))]);
        }
    }

    #[test]
    fn ok_steps_back_and_the_return_are_trusted() {
        check(None, (0, Some(0)), &[(-DAY, Some(-DAY)), (-DAY + 1, Some(-DAY + 1)), (3, Some(3)), (4, Some(4))]);
    }

    #[test]
    fn ok_a_clock_that_starts_behind_the_recorded_time_may_be_corrected() {
        let explained = 10 * DAY + 31 * DAY;
        let readings = [(explained + 2, Some(1)), (explained + 2, Some(explained + 2))];
        check(Some(10 * DAY), (0, Some(0)), &readings);
    }

    #[test]
    fn err_after_a_jump_of_more_than_an_hour_the_steady_clock_continues() {
        check(None, (0, Some(0)), &[(1, Some(1)), (YEARS, Some(2)), (YEARS + 1, Some(3)), (4, Some(4)), (5, Some(5))]);
        check(None, (0, Some(0)), &[(HOUR + 1, Some(HOUR + 1)), (2 * HOUR + 10, Some(HOUR + 2)), (3, Some(3))]);
    }

    #[test]
    fn err_a_start_far_ahead_of_the_recorded_time_issues_nothing() {
        check(
            Some(-YEARS),
            (0, None),
            &[(1, None), (YEARS, None), (-YEARS, Some(-YEARS)), (-YEARS + 1, Some(-YEARS + 1))],
        );
        check(Some(-31 * DAY - 1), (0, None), &[(1, None)]);
        check(Some(-31 * DAY), (0, Some(0)), &[(1, Some(1))]);
        // A clock is credible up to 31 days after the recorded time, plus the time counted by the steady clock: 1 s at
        // the first reading, and 2 s at the second.
        let explained = -YEARS + 31 * DAY;
        check(Some(-YEARS), (0, None), &[(explained + 2, None), (explained + 2, Some(explained + 2))]);
    }

    #[test]
    fn err_a_quarantine_has_the_distance_and_the_time_issued_instead() {
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
    fn ok_a_clock_that_starts_in_1970_may_be_corrected() {
        check(Some(-DAY), (-NOW, Some(-NOW)), &[(-NOW + 1, Some(-NOW + 1)), (2, Some(2)), (3, Some(3))]);
        check(Some(-DAY), (-NOW, Some(-NOW)), &[(YEARS, Some(-NOW + 1)), (2, Some(2))]);
    }

    #[test]
    fn ok_a_reading_before_the_start_is_not_remembered() {
        let mut clock = TrustedClock::new(TrustPolicy::default());
        let at = |wall| Reading { wall: seconds(wall), steady: Duration::from_secs(1) };
        assert_eq!(clock.read(at(NOW)), Some(seconds(NOW)));
        assert!(!clock.has_started());
        assert_eq!(clock.start(at(NOW), Some(seconds(NOW - YEARS)), None), None);
    }

    #[test]
    fn ok_a_clock_must_agree_with_other_live_daemons() {
        let judge = |recorded, others: Option<i128>| {
            let mut clock = TrustedClock::new(TrustPolicy::default());
            let reading = Reading { wall: seconds(NOW), steady: Duration::from_secs(100) };
            clock.start(reading, Some(seconds(NOW + recorded)), others.map(|others| seconds(NOW + others))).is_some()
        };
        assert!(judge(-2 * HOUR, None), "two hours after the recorded time, without other daemons");
        assert!(!judge(-2 * HOUR, Some(-2 * HOUR)), "two hours ahead of other daemons");
        assert!(judge(-2 * HOUR, Some(-HOUR + 1)), "less than an hour ahead of other daemons");
        assert!(judge(-YEARS, Some(3)), "all daemons were stopped for years, and agree now");
        assert!(judge(-1, Some(-YEARS)), "the clocks of other daemons are behind the recorded time");
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
