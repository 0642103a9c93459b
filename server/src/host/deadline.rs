//! How long a caller is willing to wait.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// Until when a request may wait for the clock, a window or a chunk, on the daemon's steady clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    until: Duration,
}

/// A caller that names no deadline, or a distant one, is kept waiting no longer than this.
///
/// One second is `max_ahead`: whatever the clock allows at all, it allows within that.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// Left for the answer's way back, so that it arrives before the caller gives up; or half of the time that there is.
const RESERVE: Duration = Duration::from_millis(5);

impl Patience {
    /// The patience, counted from `now`, of a caller with this deadline.
    pub(crate) fn new(now: Duration, deadline: Option<Duration>) -> Self {
        let wait = deadline.map_or(PATIENCE_MAX, |deadline| (deadline - RESERVE.min(deadline / 2)).min(PATIENCE_MAX));
        Self { until: now + wait }
    }

    /// How much is left at `now`.
    pub(crate) fn left(self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }
}

/// The deadline that the caller sent, counted from the arrival of the request (the header `grpc-timeout`: up to eight digits
/// and a unit).
pub(crate) fn deadline(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = (digits.len() <= 8).then(|| digits.parse().ok())??;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: Option<Duration>) {
        let mut metadata = MetadataMap::new();
        metadata.insert("grpc-timeout", header.parse().expect("ASCII"));
        assert_eq!(deadline(&metadata), expected, "{header:?}");
    }

    #[test]
    fn ok_deadlines_have_units() {
        check("2S", Some(Duration::from_secs(2)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        check("250m", Some(Duration::from_millis(250)));
        check("7u", Some(Duration::from_micros(7)));
        check("1n", Some(Duration::from_nanos(1)));
    }

    #[test]
    fn err_anything_else_is_no_deadline() {
        for header in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S"] {
            check(header, None);
        }
    }

    #[test]
    fn ok_patience_is_bounded_by_the_deadline_and_by_a_second() {
        let now = Duration::from_secs(10);
        let left = |deadline| Patience::new(now, deadline).left(now);
        assert_eq!(left(None), Duration::from_secs(1));
        assert_eq!(left(Some(Duration::from_secs(60))), Duration::from_secs(1));
        assert_eq!(left(Some(Duration::from_millis(105))), Duration::from_millis(100));
        assert_eq!(left(Some(Duration::from_millis(1))), Duration::from_micros(500));
        assert_eq!(left(Some(Duration::ZERO)), Duration::ZERO);
    }
}
