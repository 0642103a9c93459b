//! The text form of ticks (`10ms`) and epochs (`2015-01-01` or `2010-11-04T01:42:54.657Z`) in layouts.

use core::fmt;

use crate::{
    civil,
    time::{NANOS_PER_SECOND, UnixNanos},
};

/// The units of ticks in nanoseconds, the largest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("min", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const SECOND: u64 = 1_000_000_000;
/// The longest tick: 1 day.
pub(super) const MAX_TICK_NANOS: u64 = 86_400 * SECOND;

/// A tick, printed in the largest unit that divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tick(pub(super) u64);

impl Tick {
    /// Reads a tick such as `10ms`; returns `None` unless it is from 1 ns to 1 day.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let nanos = number.parse::<u64>().ok()?.checked_mul(*nanos)?;
        (1..=MAX_TICK_NANOS).contains(&nanos).then_some(Self(nanos))
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, nanos) = UNITS.iter().find(|(_, nanos)| self.0.is_multiple_of(*nanos)).unwrap_or(&("ns", 1));
        write!(f, "{}{unit}", self.0 / nanos)
    }
}

/// An instant. Midnight is printed as a date, and any other instant as a date and a time with no more decimals than
/// needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(pub(super) UnixNanos);

impl Epoch {
    /// Reads a date, or a date and a time in UTC; returns `None` for any other string and for a date that does not
    /// exist.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
        let [year, month, day] = numbers(date, "-", [4, 2, 2])?;
        let days = civil::days(year, month, day);
        // A date that does not exist, such as February 30, is converted back to another date.
        if year < 1 || !(1..=12).contains(&month) || civil::date(days) != (year, month, day) {
            return None;
        }
        let nanos = time.map_or(Some(0), nanos_of_day)?;
        Some(Self(UnixNanos::new(days * i128::from(MAX_TICK_NANOS) + nanos)))
    }
}

/// Reads a time of the form `hh:mm:ss[.fraction]Z`, in nanoseconds since midnight.
fn nanos_of_day(text: &str) -> Option<i128> {
    let text = text.strip_suffix('Z')?;
    let (time, fraction) = text.split_once('.').map_or((text, None), |(time, fraction)| (time, Some(fraction)));
    let [hour, minute, second] = numbers(time, ":", [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = match fraction {
        None => 0,
        Some(digits) if (1..=9).contains(&digits.len()) => {
            number(digits)? * 10_i128.pow(9 - digits.len() as u32) // OK because there are at most 9 digits
        }
        Some(_) => return None,
    };
    Some((hour * 3_600 + minute * 60 + second) * NANOS_PER_SECOND + nanos)
}

/// Reads three numbers, each with the given number of digits.
fn numbers(text: &str, separator: &str, digits: [usize; 3]) -> Option<[i128; 3]> {
    let mut parts = text.split(separator);
    let mut next = |digits| parts.next().filter(|part| part.len() == digits).and_then(number);
    let found = [next(digits[0])?, next(digits[1])?, next(digits[2])?];
    parts.next().is_none().then_some(found)
}

fn number(digits: &str) -> Option<i128> {
    // `parse` alone would accept a sign.
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.get();
        let digits = match () {
            () if nanos % NANOS_PER_SECOND == 0 => 0,
            () if nanos % 1_000_000 == 0 => 3,
            () if nanos % 1_000 == 0 => 6,
            () => 9,
        };
        match self.0.rfc3339(digits) {
            Some(text) => f.write_str(text.strip_suffix("T00:00:00Z").unwrap_or(&text)),
            None => write!(f, "{nanos}ns"), // OK because a layout's epoch is in the years 1 to 9999
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn ok_ticks_round_trip() {
        for (text, nanos) in [
            ("1ns", 1),
            ("100ns", 100),
            ("1us", 1_000),
            ("1ms", 1_000_000),
            ("10ms", 10_000_000),
            ("1s", SECOND),
            ("90s", 90 * SECOND),
            ("1min", 60 * SECOND),
            ("1h", 3_600 * SECOND),
            ("1d", MAX_TICK_NANOS),
        ] {
            assert_eq!(Tick::parse(text), Some(Tick(nanos)));
            assert_eq!(Tick(nanos).to_string(), text);
        }
        assert_eq!(Tick::parse("1000us"), Some(Tick(1_000_000)));
    }

    #[test]
    fn err_texts_that_are_not_ticks() {
        for text in
            ["", "1", "ms", "0ms", "-1ms", "+1ms", "1.5ms", "1 ms", "1MS", "1m", "2d", "25h", "99999999999999999999s"]
        {
            assert_eq!(Tick::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ok_epochs_round_trip() {
        for (text, nanos) in [
            ("1970-01-01", 0),
            ("2015-01-01", 1_420_070_400 * NANOS_PER_SECOND),
            ("2010-11-04T01:42:54.657Z", 1_288_834_974_657_000_000),
            ("2014-05-13T16:53:20Z", 1_400_000_000 * NANOS_PER_SECOND),
            ("1969-12-31T23:59:59.999999999Z", -1),
            ("2000-02-29T00:00:00.000001Z", 951_782_400_000_001_000),
        ] {
            assert_eq!(Epoch::parse(text), Some(Epoch(UnixNanos::new(nanos))), "{text}");
            assert_eq!(Epoch(UnixNanos::new(nanos)).to_string(), text);
        }
        assert_eq!(Epoch::parse("1970-01-01T00:00:00.0Z"), Epoch::parse("1970-01-01"));
    }

    #[test]
    fn err_texts_that_are_not_epochs() {
        for text in [
            "",
            "2015",
            "2015-1-1",
            "2015-02-29",
            "2015-13-01",
            "2015-00-01",
            "0000-01-01",
            "2015-01-01-01",
            "+015-01-01",
            "2015-01-01T00:00:00",
            "2015-01-01T24:00:00Z",
            "2015-01-01T00:00:60Z",
            "2015-01-01T00:00Z",
            "2015-01-01T00:00:00.Z",
            "2015-01-01T00:00:00.1234567890Z",
            "2015-01-01T00:00:00+01:00",
            "2015-01-01 ",
        ] {
            assert_eq!(Epoch::parse(text), None, "{text}");
        }
    }
}
