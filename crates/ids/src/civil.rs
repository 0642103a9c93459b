//! Prints instants in the RFC 3339 form, in exact integer arithmetic.

use alloc::{format, string::String};

use crate::time::{NANOS_PER_SECOND, UnixNanos};

const SECONDS_PER_DAY: i128 = 86_400;
/// 0001-01-01T00:00:00Z and 10000-01-01T00:00:00Z: the range that RFC 3339 can express, without year 0.
const FIRST: UnixNanos = UnixNanos::new(-62_135_596_800 * NANOS_PER_SECOND);
const END: UnixNanos = UnixNanos::new(253_402_300_800 * NANOS_PER_SECOND);
/// The number of days from 0000-03-01 to 1970-01-01.
const DAYS_TO_MARCH_OF_YEAR_0: i128 = 719_468;
const DAYS_PER_ERA: i128 = 146_097;
/// The maximum number of decimal places of a second.
const NANO_DIGITS: u32 = 9;

impl UnixNanos {
    /// Returns the instant in RFC 3339 form, such as `2022-02-22T19:22:22.000Z`, rounded down to `digits` decimal
    /// places of a second (at most 9), or `None` outside the years 1 to 9999.
    pub fn rfc3339(self, digits: u32) -> Option<String> {
        if !(FIRST..END).contains(&self) {
            return None;
        }
        let seconds = self.get().div_euclid(NANOS_PER_SECOND);
        let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        Some(match digits.min(NANO_DIGITS) {
            0 => format!("{text}Z"),
            digits => {
                let unit = 10_i128.pow(NANO_DIGITS - digits);
                let fraction = self.get().rem_euclid(NANOS_PER_SECOND) / unit;
                format!("{text}.{fraction:0width$}Z", width = digits as usize)
            }
        })
    }

    /// Returns the year of the Gregorian calendar.
    pub fn year(self) -> i128 {
        date(self.get().div_euclid(NANOS_PER_SECOND * SECONDS_PER_DAY)).0
    }
}

/// Converts a number of days from 1970-01-01 to a year, month and day of the Gregorian calendar.
///
/// The calculation starts years in March, so that the leap day is the last day of a year. Any 400 consecutive years
/// have 146,097 days.
pub(crate) fn date(days: i128) -> (i128, i128, i128) {
    let days = days + DAYS_TO_MARCH_OF_YEAR_0;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    // Subtracts the leap days, so that every year has 365 days.
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // The five months from March have 153 days, as do the next five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i128::from(month <= 2);
    (year, month, day)
}

/// Returns the number of days from 1970-01-01 to a date. [`date`] is the inverse, for dates that exist.
pub(crate) const fn days(year: i128, month: i128, day: i128) -> i128 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = if month <= 2 { month + 9 } else { month - 3 };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_MARCH_OF_YEAR_0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(nanos: i128, digits: u32, text: Option<&str>) {
        assert_eq!(UnixNanos::new(nanos).rfc3339(digits).as_deref(), text);
    }

    #[test]
    fn ok_years_of_any_instant() {
        for (nanos, year) in [(0, 1970), (-1, 1969), (END.get() - 1, 9999), (END.get(), 10_000)] {
            assert_eq!(UnixNanos::new(nanos).year(), year, "{nanos}");
        }
        assert_eq!(UnixNanos::new(281_474_976_710 * NANOS_PER_SECOND).year(), 10_889);
    }

    #[test]
    fn ok_instants_and_their_texts() {
        check(0, 0, Some("1970-01-01T00:00:00Z"));
        check(-1, 9, Some("1969-12-31T23:59:59.999999999Z"));
        check(-1, 3, Some("1969-12-31T23:59:59.999Z"));
        check(1_645_557_742_000_000_000, 3, Some("2022-02-22T19:22:22.000Z"));
        check(951_782_400_000_000_000, 0, Some("2000-02-29T00:00:00Z"));
        check(-12_219_292_800_000_000_000, 7, Some("1582-10-15T00:00:00.0000000Z"));
        check(FIRST.get(), 0, Some("0001-01-01T00:00:00Z"));
        check(FIRST.get() - 1, 0, None);
        check(END.get() - 1, 9, Some("9999-12-31T23:59:59.999999999Z"));
        check(END.get(), 0, None);
    }

    #[test]
    fn ok_consecutive_days_have_consecutive_dates() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date(days), (year, month, day), "day {days}");
            let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
            let last = match month {
                2 => 28 + i128::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                _ if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn ok_days_invert_dates() {
        for number in (-800_000..3_700_000).step_by(17) {
            let (year, month, day) = date(number);
            assert_eq!(days(year, month, day), number);
        }
    }
}
