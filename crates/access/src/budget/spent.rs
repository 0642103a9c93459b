//! The store's record of how much of a budget is used.

/// How much of a budget is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The number of identifiers that daemons have granted or may still grant.
    pub used: u64,
    /// Two earlier states, the older one first, from which the current rate is computed.
    pub marks: [Option<Mark>; 2],
    /// When the store was restored from a backup, in milliseconds since 1970. Identifiers used between the backup and
    /// the restore are not counted.
    pub restored: Option<i64>,
}

/// The number of identifiers used at an earlier time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The time, in milliseconds since 1970.
    pub at: i64,
    /// The value of `used` at that time.
    pub used: u64,
}

/// A daemon's request for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The number of identifiers that the daemon returns in the same commit.
    pub returned: u64,
    /// The minimum number of identifiers that the daemon needs.
    pub need: u64,
    /// The number of identifiers that the daemon would like to hold.
    pub wish: u64,
    /// The time, in milliseconds since 1970.
    pub now: i64,
}

/// The error for a budget with fewer identifiers left than the daemon needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// The number of identifiers left.
    pub left: u64,
}

/// How much of a budget was used in about the last hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lately {
    /// The number of identifiers that were used.
    pub count: u64,
    /// The time in which the identifiers were used, in milliseconds; never 0.
    pub millis: u64,
}

/// Unless the daemon needs more, a share is at most an eighth of what is left, so that other daemons can reserve too.
const PARTS: u64 = 8;
/// The minimum time between two marks, in milliseconds. A rate covers up to three times this period.
const MARK_EVERY: i64 = 30 * 60 * 1000;
/// The minimum period over which a rate is computed, in milliseconds.
const SPAN_MIN: i64 = 1000;
const DAY: f64 = 86_400_000.0;

impl Spent {
    /// The number of identifiers that are left of a total.
    pub fn left(&self, total: u64) -> u64 {
        total.saturating_sub(self.used)
    }

    /// Reserves a share of at least the number that the daemon needs. If the share is larger than that, it is at most
    /// an eighth of what is left. Returns the state to commit, and the size of the share.
    ///
    /// # Errors
    ///
    /// [`Short`] if fewer identifiers are left than the daemon needs.
    pub fn reserve(self, total: u64, ask: Reservation) -> Result<(Self, u64), Short> {
        let before = self.give_back(ask.returned);
        let left = before.left(total);
        if ask.need > left {
            return Err(Short { left });
        }
        let share = ask.wish.min(left / PARTS).max(ask.need);
        // OK because the share is at most what is left.
        Ok((Self { used: before.used + share, ..before.marked(ask.now) }, share))
    }

    /// Subtracts identifiers that a daemon returns because it has not granted them.
    pub fn give_back(self, returned: u64) -> Self {
        Self { used: self.used.saturating_sub(returned), ..self }
    }

    /// Saves the current state as a mark, if the last mark is old enough.
    fn marked(self, now: i64) -> Self {
        let mark = Some(Mark { at: now, used: self.used });
        let marks = match self.marks {
            [older, None] => [older, mark],
            [_, Some(newer)] if now.saturating_sub(newer.at) >= MARK_EVERY => [Some(newer), mark],
            marks => marks,
        };
        Self { marks, ..self }
    }

    /// How much was used in about the last hour, or since the first use if that is later. `None` if nothing was used.
    pub fn lately(&self, now: i64) -> Option<Lately> {
        // A mark is set at most every half hour, so the mark to count from may be up to an hour and a half old.
        let is_recent = |mark: &Mark| now.saturating_sub(mark.at) <= 3 * MARK_EVERY;
        let since = self.marks.into_iter().flatten().find(is_recent)?;
        let count = self.used.saturating_sub(since.used);
        let millis = now.saturating_sub(since.at).max(SPAN_MIN).unsigned_abs();
        (count > 0).then_some(Lately { count, millis })
    }
}

impl Lately {
    /// The number of identifiers used per day, at the same rate.
    pub fn per_day(&self) -> f64 {
        self.count as f64 * DAY / self.millis as f64
    }

    /// The number of days for which `left` identifiers last, at the same rate.
    pub fn days(&self, left: u64) -> f64 {
        left as f64 / self.per_day()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::budget::Share;

    fn ask(need: u64, wish: u64) -> Reservation {
        Reservation { returned: 0, need, wish, now: 0 }
    }

    #[test]
    fn ok_a_share_is_at_most_a_part_of_what_is_left_and_at_least_what_is_needed() {
        let spent = |used| Spent { used, ..Spent::default() };
        for (used, need, wish, share) in [
            (0, 1, 0, Ok(1)),
            (0, 1, 50, Ok(50)),
            (0, 1, 5000, Ok(125)),
            (0, 1000, 0, Ok(1000)),
            (990, 1, 100, Ok(1)),
            (990, 10, 100, Ok(10)),
            (990, 11, 100, Err(Short { left: 10 })),
            (1000, 1, 0, Err(Short { left: 0 })),
            // The total was lowered.
            (1001, 1, 0, Err(Short { left: 0 })),
        ] {
            let reserved = spent(used).reserve(1000, ask(need, wish));
            assert_eq!(
                reserved.map(|(after, share)| (after.used - used, share)),
                share.map(|it| (it, it)),
                "{used} {need}"
            );
        }
        let (after, share) = spent(1000)
            .reserve(1000, Reservation { returned: 30, ..ask(10, 0) })
            .expect("the returned identifiers are left");
        assert_eq!((after.used, share), (980, 10));
    }

    #[test]
    fn ok_the_rate_is_that_of_about_the_last_hour() {
        const MINUTE: i64 = 60_000;
        let mut spent = Spent::default();
        assert_eq!(spent.lately(0), None);
        // The daemon takes ten identifiers a minute for a day.
        for minute in 0..1440 {
            spent = spent.reserve(u64::MAX, Reservation { now: minute * MINUTE, ..ask(10, 0) }).expect("left").0;
            let lately = spent.lately((minute + 1) * MINUTE).expect("used");
            assert_eq!(lately.per_day().round(), 14_400.0, "{minute}");
            assert!(lately.millis <= (90 * MINUTE).unsigned_abs(), "{lately:?}");
        }
        let lately = spent.lately(1440 * MINUTE).expect("used");
        assert_eq!(lately.days(28_800).round(), 2.0);
        // The budget is not used for two hours.
        assert_eq!(spent.lately(1560 * MINUTE), None);
        // The budget is used again. The time without use does not count.
        let now = 3000 * MINUTE;
        spent = spent.reserve(u64::MAX, Reservation { now, ..ask(10, 0) }).expect("left").0;
        assert_eq!(spent.lately(now + MINUTE).map(|lately| lately.count), Some(10));
        // The clock went back, and a daemon returned a share.
        assert_eq!(spent.lately(0).map(|lately| lately.millis), Some(SPAN_MIN.unsigned_abs()));
        assert_eq!(spent.give_back(u64::MAX).lately(now), None);
    }

    /// A daemon in the random test.
    #[derive(Default)]
    struct Daemon {
        share: Share,
        /// The commit in flight: the version that it compares, the state that it writes, and what it reserves and
        /// returns.
        pending: Option<(u64, Spent, u64, u64)>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Takes identifiers, and puts some back because the grant is refused later.
        Grant {
            daemon: usize,
            count: u64,
            is_refused: bool,
        },
        /// Reads the record, and sends a commit.
        Begin {
            daemon: usize,
            need: u64,
            wish: u64,
        },
        /// The commit arrives or is lost. The daemon learns whether the commit was made, or gets no answer.
        End {
            daemon: usize,
            is_made: bool,
            is_answered: bool,
        },
        Recall {
            daemon: usize,
        },
        Crash {
            daemon: usize,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let daemon = 0..3_usize;
        prop_oneof![
            4 => (daemon.clone(), 1..60_u64, any::<bool>())
                .prop_map(|(daemon, count, is_refused)| Step::Grant { daemon, count, is_refused }),
            4 => (daemon.clone(), 0..80_u64, 0..200_u64).prop_map(|(daemon, need, wish)| Step::Begin { daemon, need, wish }),
            4 => (daemon.clone(), any::<bool>(), any::<bool>())
                .prop_map(|(daemon, is_made, is_answered)| Step::End { daemon, is_made, is_answered }),
            1 => daemon.clone().prop_map(|daemon| Step::Recall { daemon }),
            1 => daemon.prop_map(|daemon| Step::Crash { daemon }),
        ]
    }

    proptest! {
        #[test]
        fn ok_a_reservation_stays_within_the_total(used: u64, total: u64, returned: u64, need: u64, wish: u64, now: i64) {
            let before = Spent { used, ..Spent::default() };
            let left = total.saturating_sub(used.saturating_sub(returned));
            match before.reserve(total, Reservation { returned, need, wish, now }) {
                Ok((after, share)) => {
                    prop_assert!(need <= share && share <= left);
                    prop_assert!(after.used <= total || share == 0);
                    prop_assert!(share <= need.max(left / PARTS).min(left));
                }
                Err(Short { left: said }) => prop_assert!(said == left && need > left),
            }
        }

        /// Several daemons never grant more than the total, even if they crash and their commits conflict, are lost or
        /// get no answer.
        #[test]
        fn ok_daemons_together_never_grant_more_than_the_total(
            total in 0..2000_u64,
            steps in prop::collection::vec(step(), 0..400),
        ) {
            let (mut record, mut version, mut granted) = (Spent::default(), 0, 0);
            let mut daemons: Vec<Daemon> = (0..3).map(|_| Daemon::default()).collect();
            for step in steps {
                match step {
                    Step::Grant { daemon, count, is_refused } => {
                        let share = &daemons[daemon].share;
                        match share.take(count) {
                            true if is_refused => share.put(count),
                            true => granted += count,
                            false => {}
                        }
                    }
                    Step::Begin { daemon, need, wish } => {
                        let Daemon { share, pending } = &mut daemons[daemon];
                        if pending.is_none() {
                            let returned = share.take_recalled();
                            match record.reserve(total, Reservation { returned, ..ask(need, wish) }) {
                                Ok((after, size)) => *pending = Some((version, after, size, returned)),
                                Err(Short { .. }) => share.keep_recalled(returned),
                            }
                        }
                    }
                    Step::End { daemon, is_made, is_answered } => {
                        let Daemon { share, pending } = &mut daemons[daemon];
                        if let Some((expected, after, size, returned)) = pending.take() {
                            let is_made = is_made && expected == version;
                            if is_made {
                                (record, version) = (after, version + 1);
                            }
                            match (is_answered, is_made) {
                                (true, true) => share.put(size),
                                (true, false) => share.keep_recalled(returned),
                                // Without an answer, the daemon grants neither the new share nor the returned
                                // identifiers.
                                (false, _) => {}
                            }
                        }
                    }
                    Step::Recall { daemon } => daemons[daemon].share.recall(),
                    // The record still counts the share as used. The commit in flight is lost. If it arrived, the
                    // record would count even more as used.
                    Step::Crash { daemon } => daemons[daemon] = Daemon::default(),
                }
                let held: u64 = daemons.iter().map(|daemon| daemon.share.left()).sum();
                prop_assert!(granted + held <= record.used && record.used <= total, "{granted} {held} {record:?}");
            }
        }
    }
}
