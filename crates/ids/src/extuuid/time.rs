//! Times: seconds since 1582-10-15T00:00:00Z with a binary fraction, read and printed as dates.
//!
//! The calendar is the proleptic Gregorian calendar, with days of 86,400 seconds.

use alloc::{format, string::String};

use num_bigint::BigUint;

use super::{bits::mask, real::digits, text::Piece, value::Time};
use crate::{
    civil::{date, days},
    error::{CodecError, ErrorCode},
};

/// The number of bits of the seconds and their fraction, without the sign.
pub(super) const TIME_BITS: u32 = 109;
const SECONDS_PER_DAY: i128 = 86_400;
/// 1582-10-15, in days since 1970-01-01.
const EPOCH_DAY: i128 = -141_427;
/// The first year with more than four digits.
const YEAR_END: i128 = 10_000;

impl Time {
    /// Returns the canonical text: a date from 1582-10-15 to the end of 9999, and otherwise signed seconds.
    pub(super) fn text(self) -> String {
        let Self { fraction_bits, scaled } = self;
        let magnitude = scaled.unsigned_abs();
        let seconds = (magnitude >> fraction_bits) as i128; // OK because there are 109 bits
        let fraction = fraction_text(magnitude & mask(fraction_bits.into()), fraction_bits.into());
        let (year, month, day) = date(EPOCH_DAY + seconds / SECONDS_PER_DAY);
        if scaled < 0 || year >= YEAR_END {
            let sign = if scaled < 0 { "-" } else { "" };
            return format!("t/{fraction_bits}:{sign}{seconds}{fraction}");
        }
        let second = seconds % SECONDS_PER_DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("t/{fraction_bits}:{year:04}-{month:02}-{day:02};{hour:02}:{minute:02}:{second:02}{fraction}")
    }
}

/// Returns the point and all decimals of a binary fraction of `bits` bits, or an empty string for zero.
fn fraction_text(fraction: u128, bits: u32) -> String {
    let mut text = String::new();
    let mut rest = fraction;
    while rest != 0 {
        if text.is_empty() {
            text.push('.');
        }
        rest *= 10; // OK because a fraction has 109 bits
        text.push(char::from(b'0' + (rest >> bits) as u8)); // OK because the fraction was below one
        rest &= mask(bits);
    }
    text
}

/// Returns whether a piece has the form of a date with at least a year and a month.
pub(super) fn is_date(piece: Piece<'_>) -> bool {
    split_date(piece).is_some()
}

/// Reads the text after `t:` or, if the number of fraction bits is given, after `t/l:`.
pub(super) fn parse(piece: Piece<'_>, fraction_bits: Option<u8>) -> Result<Time, CodecError> {
    let (negative, seconds, fraction) = match split_date(piece) {
        Some(fields) => (false, BigUint::from(date_seconds(piece, &fields)?), fields.fraction),
        None => seconds(piece)?,
    };
    let bits = match fraction_bits {
        Some(bits) => u32::from(bits),
        // Uses the fewest bits that are at least as precise as the given decimals.
        None => (0..=TIME_BITS)
            .find(|bits| BigUint::from(1_u8) << *bits >= power_of_ten(fraction.len()))
            .ok_or_else(|| time_range(piece))?,
    };
    let unit = power_of_ten(fraction.len());
    let part = BigUint::from_radix_be(&fraction.iter().map(|digit| digit - b'0').collect::<alloc::vec::Vec<_>>(), 10);
    let number = (seconds * &unit + part.unwrap_or_default()) << bits;
    // Rounds to the nearest number; halves are rounded away from zero.
    let scaled = (number * 2_u8 + &unit) / (unit * 2_u8);
    let scaled = u128::try_from(scaled).ok().filter(|scaled| scaled >> TIME_BITS == 0);
    let scaled = scaled.ok_or_else(|| time_range(piece))? as i128; // OK because the number has 109 bits
    // OK because `bits` is at most 109.
    Ok(Time { fraction_bits: bits as u8, scaled: if negative { -scaled } else { scaled } })
}

/// Reads seconds: an optional minus, digits, and an optional point with digits on both sides.
fn seconds(piece: Piece<'_>) -> Result<(bool, BigUint, &[u8]), CodecError> {
    let (negative, rest) = match piece.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, piece),
    };
    let (whole, rest) = digits(rest);
    let (fraction, rest) = fraction(rest).ok_or_else(|| bad_time(piece))?;
    if whole.is_empty() || !rest.bytes().is_empty() {
        return Err(bad_time(piece));
    }
    Ok((negative, BigUint::parse_bytes(whole, 10).unwrap_or_default(), fraction))
}

/// Reads an optional point with digits after it. Returns `None` for a point without digits.
fn fraction(piece: Piece<'_>) -> Option<(&[u8], Piece<'_>)> {
    match piece.split_first() {
        Some((b'.', rest)) => {
            let (found, rest) = digits(rest);
            (!found.is_empty()).then_some((found, rest))
        }
        _ => Some((&[], piece)),
    }
}

/// The fields of a date.
struct Fields<'a> {
    year: i128,
    month: i128,
    day: i128,
    hour: i128,
    minute: i128,
    second: i128,
    fraction: &'a [u8],
}

/// Splits a date of the form `yyyy-MM[-dd[;hh[:mm[:ss[.f]]]]]`, with `-` or `/` as the separator of the date. Does not
/// check the values.
fn split_date(piece: Piece<'_>) -> Option<Fields<'_>> {
    let mut fields = Fields { year: 0, month: 0, day: 1, hour: 0, minute: 0, second: 0, fraction: &[] };
    let (year, rest) = exactly(piece, 4)?;
    let (separator, rest) = rest.split_first().filter(|(separator, _)| matches!(separator, b'-' | b'/'))?;
    let (month, mut rest) = exactly(rest, 2)?;
    (fields.year, fields.month) = (year, month);
    let later = [
        (separator, &mut fields.day),
        (b';', &mut fields.hour),
        (b':', &mut fields.minute),
        (b':', &mut fields.second),
    ];
    let mut read = 0;
    for (before, field) in later {
        match rest.split_first() {
            Some((found, after)) if found == before => (*field, rest) = exactly(after, 2)?,
            _ => break,
        }
        read += 1;
    }
    if read == 4 {
        (fields.fraction, rest) = fraction(rest)?;
    }
    rest.bytes().is_empty().then_some(fields)
}

/// Reads a number of exactly `count` digits. Also returns the rest.
fn exactly(piece: Piece<'_>, count: usize) -> Option<(i128, Piece<'_>)> {
    let (head, rest) = piece.split_at(count);
    let all = head.bytes().len() == count && head.bytes().iter().all(u8::is_ascii_digit);
    all.then(|| (head.bytes().iter().fold(0, |number, digit| number * 10 + i128::from(digit - b'0')), rest))
}

/// Returns the whole seconds of a date.
fn date_seconds(piece: Piece<'_>, fields: &Fields<'_>) -> Result<u128, CodecError> {
    let Fields { year, month, day, hour, minute, second, .. } = *fields;
    if !(1..=12).contains(&month) || day < 1 || hour > 23 || minute > 59 || second > 59 {
        return Err(bad_time(piece));
    }
    let number = days(year, month, day);
    if date(number) != (year, month, day) {
        return Err(bad_time(piece));
    }
    let seconds = (number - EPOCH_DAY) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    u128::try_from(seconds).map_err(|_| {
        let message = "the date is before 1582-10-15: write such a time as negative seconds";
        piece.refuse(ErrorCode::DateBeforeEpoch, message)
    })
}

fn power_of_ten(exponent: usize) -> BigUint {
    // OK because the text has at most 1024 bytes.
    BigUint::from(10_u8).pow(exponent as u32)
}

fn bad_time(piece: Piece<'_>) -> CodecError {
    let message = "not a time: write seconds, or an existing date such as 2012-10-18;12:30:00.5";
    piece.refuse(ErrorCode::BadTime, message)
}

fn time_range(piece: Piece<'_>) -> CodecError {
    piece.refuse(
        ErrorCode::TimeRange,
        "the time is too large: seconds and their fraction together have at most 109 bits",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, bits: Option<u8>, canonical: &str) {
        assert_eq!(parse(Piece::new(text.as_bytes()), bits).expect(text).text(), canonical);
    }

    #[test]
    fn ok_times() {
        check("1582-10-15", None, "t/0:1582-10-15;00:00:00");
        check("2012/10", None, "t/0:2012-10-01;00:00:00");
        check("2012-02-29;23", None, "t/0:2012-02-29;23:00:00");
        check("2012-02-29;23:59", None, "t/0:2012-02-29;23:59:00");
        check("9999-12-31;23:59:59.9", Some(1), "t/1:265621593600");
        check("9999-12-31;23:59:59.4", Some(1), "t/1:9999-12-31;23:59:59.5");
        check("2012", None, "t/0:1582-10-15;00:33:32");
        check("-1.5", Some(1), "t/1:-1.5");
        check("-0.2", Some(0), "t/0:1582-10-15;00:00:00");
        check("0.5", Some(0), "t/0:1582-10-15;00:00:01");
        check("-0.5", Some(0), "t/0:-1");
        check("0.123", None, "t/10:1582-10-15;00:00:00.123046875");
        check("324518553658426726783156020576255", Some(1), "t/1:324518553658426726783156020576255");
    }

    #[test]
    fn err_times() {
        for (text, code) in [
            ("", ErrorCode::BadTime),
            ("+1", ErrorCode::BadTime),
            ("1.", ErrorCode::BadTime),
            ("1e3", ErrorCode::BadTime),
            ("2012-13", ErrorCode::BadTime),
            ("2012-00", ErrorCode::BadTime),
            ("2013-02-29", ErrorCode::BadTime),
            ("1900-02-29", ErrorCode::BadTime),
            ("2012-10-00", ErrorCode::BadTime),
            ("2012-10/18", ErrorCode::BadTime),
            ("2012-1-1", ErrorCode::BadTime),
            ("2012-10-18;24", ErrorCode::BadTime),
            ("2012-10-18;12:60", ErrorCode::BadTime),
            ("2012-10-18;12:00:60", ErrorCode::BadTime),
            ("2012-10-18;12:00:00.", ErrorCode::BadTime),
            ("2012-10-18;12.5", ErrorCode::BadTime),
            ("1582-10-14;23:59:59", ErrorCode::DateBeforeEpoch),
            ("0000-01-01", ErrorCode::DateBeforeEpoch),
            ("649037107316853453566312041152512", ErrorCode::TimeRange),
        ] {
            assert_eq!(parse(Piece::new(text.as_bytes()), None).expect_err(text).code(), code, "{text}");
        }
        assert_eq!(parse(Piece::new(b"1"), Some(109)).expect_err("110 bits").code(), ErrorCode::TimeRange);
    }
}
