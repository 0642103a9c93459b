//! The deadline of a request.

use std::time::Duration;

use tonic::codegen::http::HeaderMap;

/// How long a request may wait for the wall clock, a window, a chunk or a commit. The times are on the steady clock.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimit {
    began: Duration,
    until: Duration,
}

/// The longest wait of a request without a deadline, or with a distant one.
///
/// The maximum equals `max_ahead`, because a grant that is possible at all never has to wait longer for the clock.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The time reserved for sending the answer, so that the answer arrives before the deadline. If half of the remaining
/// time is shorter, that half is reserved instead.
const RESERVE: Duration = Duration::from_millis(5);

impl WaitLimit {
    /// Limits how long a request may wait from `now`, according to its timeout.
    pub fn new(now: Duration, deadline: Option<Duration>) -> Self {
        let wait = deadline.map_or(WAIT_MAX, |deadline| (deadline - RESERVE.min(deadline / 2)).min(WAIT_MAX));
        Self { began: now, until: now + wait }
    }

    /// When the request arrived.
    pub(crate) const fn began(self) -> Duration {
        self.began
    }

    /// The time left at `now`.
    pub(crate) fn left(self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }
}

/// Parses the caller's timeout in the header `grpc-timeout`: up to eight digits and a unit. The timeout begins when the
/// request arrives.
pub fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
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
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", header.parse().expect("ASCII"));
        assert_eq!(deadline(&headers), expected, "{header:?}");
    }

    #[test]
    fn ok_every_unit_is_understood() {
        check("2S", Some(Duration::from_secs(2)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        check("250m", Some(Duration::from_millis(250)));
        check("7u", Some(Duration::from_micros(7)));
        check("1n", Some(Duration::from_nanos(1)));
    }

    #[test]
    fn err_a_malformed_timeout_is_ignored() {
        for header in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S"] {
            check(header, None);
        }
    }

    #[test]
    fn ok_a_wait_is_bounded_by_the_timeout_and_by_a_second() {
        let now = Duration::from_secs(10);
        let left = |deadline| WaitLimit::new(now, deadline).left(now);
        assert_eq!(left(None), Duration::from_secs(1));
        assert_eq!(left(Some(Duration::from_secs(60))), Duration::from_secs(1));
        assert_eq!(left(Some(Duration::from_millis(105))), Duration::from_millis(100));
        assert_eq!(left(Some(Duration::from_millis(1))), Duration::from_micros(500));
        assert_eq!(left(Some(Duration::ZERO)), Duration::ZERO);
    }
}
