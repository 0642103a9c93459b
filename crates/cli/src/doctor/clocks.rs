//! The offset between this machine's clock and the daemon's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kent_client::Daemon;
use kent_proto::v1::GetStatusRequest;

use crate::connect::request;
use crate::failure::Failure;

/// How far the daemon's clock is ahead of this machine's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offset {
    pub(crate) millis: f64,
    /// Half the duration of the call: the true offset differs by at most this much.
    pub(crate) error_millis: f64,
}

/// The number of calls. The fastest call gives the most exact offset.
const CALLS: usize = 3;

/// Compares the clocks, as NTP does: the daemon reads its clock between the request and the answer.
pub(super) async fn measure(daemon: &Daemon) -> Result<Offset, Failure> {
    let mut best: Option<Offset> = None;
    for _ in 0..CALLS {
        let sent = now();
        let status = daemon.admin().get_status(request(GetStatusRequest {})).await?.into_inner();
        let arrived = now();
        let clock = status.clock.ok_or_else(|| Failure::Answer("the status lacks the clock".to_owned()))?;
        let offset = between(sent, clock.unix_nanos, arrived);
        if best.is_none_or(|best| offset.error_millis < best.error_millis) {
            best = Some(offset);
        }
    }
    best.ok_or_else(|| Failure::Answer("the clock was not read".to_owned()))
}

/// Returns the offset of a clock that showed `theirs`, in nanoseconds, when this machine's clock was between `sent` and
/// `arrived`.
fn between(sent: Duration, theirs: i64, arrived: Duration) -> Offset {
    // OK because a float is exact to half a microsecond until the year 2100, which is enough.
    let nanos = |ours: Duration| ours.as_nanos() as f64;
    Offset {
        millis: (theirs as f64 - f64::midpoint(nanos(sent), nanos(arrived))) / 1e6,
        error_millis: (nanos(arrived) - nanos(sent)).max(0.0) / 2e6,
    }
}

#[expect(clippy::disallowed_methods, reason = "the offset is that of this machine's clock")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_an_offset_is_exact_to_half_the_time_of_the_call() {
        let at = Duration::from_millis;
        assert_eq!(between(at(1000), 1_010_000_000, at(1020)), Offset { millis: 0.0, error_millis: 10.0 });
        assert_eq!(between(at(1000), 3_001_000_000, at(1002)), Offset { millis: 2000.0, error_millis: 1.0 });
        assert_eq!(between(at(1000), 500_000_000, at(1000)), Offset { millis: -500.0, error_millis: 0.0 });
    }
}
