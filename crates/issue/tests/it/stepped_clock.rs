//! The pace clock when the wall clock is stepped back repeatedly.

use std::{num::NonZeroU64, time::Duration};

use kent_ids::UnixNanos;
use kent_issue::{Lapse, PaceClock, affordable, pay};
use kent_regions::Pace;

const SECOND: i128 = 1_000_000_000;
const START: i128 = 1_800_000_000 * SECOND;

fn pace(count: u64) -> Pace {
    Pace::per_second(NonZeroU64::new(count).expect("a pace"))
}

/// A host whose oscillator is 111 ppm fast. Every hour its wall clock is 0.4 s ahead and is stepped back to true time,
/// so it is never more than 0.4 s ahead. The time since boot is not stepped.
struct Stepped {
    clock: PaceClock,
    /// True time in nanoseconds.
    truth: i128,
    steady: Duration,
}

impl Stepped {
    fn up_for(hours: u32) -> Self {
        let mut host = Self { clock: PaceClock::default(), truth: START, steady: Duration::ZERO };
        host.clock.read(Some(UnixNanos::new(host.truth)), host.steady);
        for _ in 0..hours {
            host.truth += 3600 * SECOND;
            host.steady += Duration::from_millis(3_600_400);
            host.clock.read(Some(UnixNanos::new(host.truth + SECOND * 4 / 10)), host.steady);
            host.clock.read(Some(UnixNanos::new(host.truth)), host.steady);
        }
        host
    }

    /// Returns the time of the pace clock.
    fn pace_time(&mut self) -> UnixNanos {
        self.clock.read(Some(UnixNanos::new(self.truth)), self.steady)
    }

    fn pass(&mut self, seconds: u32) {
        self.truth += i128::from(seconds) * SECOND;
        self.steady += Duration::from_secs(seconds.into());
    }
}

/// Returns how many numbers a lost store reserved after its backup, and how many numbers a restore skips one minute
/// after the loss.
fn reserved_and_skipped(up_for_hours: u32, busy_seconds: u32, clock_error: Duration) -> (u128, u128) {
    let mut host = Stepped::up_for(up_for_hours);
    // The counter is in use when the backup is made.
    let paid = pay(pace(1000), UnixNanos::new(0), host.pace_time(), 1).expect("one number");
    let taken = UnixNanos::new(host.truth);
    let (mut paid_later, mut reserved) = (paid, 0);
    for _ in 0..busy_seconds {
        host.pass(1);
        let now = host.pace_time();
        let count = affordable(pace(1000), paid_later, now);
        paid_later = pay(pace(1000), paid_later, now, count).expect("affordable");
        reserved += count;
    }
    // The clock of the restoring host is right.
    let restored = UnixNanos::new(host.truth + 60 * SECOND);
    let lapse = Lapse::since_backup(taken, paid, restored, clock_error).expect("a clock that is right");
    (reserved, lapse.skip(pace(1000), paid).0)
}

#[test]
fn ok_the_pace_clock_is_never_ahead_of_every_wall_clock() {
    for hours in [24, 240, 720, 9000] {
        let mut host = Stepped::up_for(hours);
        let ahead = host.pace_time().get() - host.truth;
        assert!(
            ahead <= SECOND,
            "up for {hours} h: the pace clock is ahead by {} ms, but the wall clock was never ahead by more than 400 ms",
            ahead / 1_000_000
        );
    }
}

#[test]
fn ok_a_restore_skips_what_a_host_with_a_stepped_wall_clock_reserved() {
    // docs/restore.md: "If NTP keeps all clocks right, `--clock-error 1s` is enough."
    let (reserved, skipped) = reserved_and_skipped(720, 60, Duration::from_secs(1));
    assert!(skipped >= reserved, "up for 30 days, --clock-error 1s: {reserved} reserved, {skipped} skipped");
}

#[test]
fn ok_a_restore_by_the_default_skips_what_a_host_with_a_stepped_wall_clock_reserved() {
    let (reserved, skipped) = reserved_and_skipped(10_000, 3600, Duration::from_secs(3600));
    assert!(skipped >= reserved, "up for 417 days, --clock-error 1h: {reserved} reserved, {skipped} skipped");
}
