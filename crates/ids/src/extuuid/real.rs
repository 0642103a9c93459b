//! Converts binary floating-point numbers of any format to decimal text, and back without loss.
//!
//! Printing gives the shortest digits that read back as the same number (`shortest.rs`). Reading rounds to the nearest
//! number, ties to even. All arithmetic uses integers.

use alloc::{format, string::String, vec::Vec};
use core::cmp::Ordering;

use num_bigint::BigUint;

use super::{
    bits::mask,
    reason::Reason,
    shortest::{power_of_ten, shortest},
    text::Piece,
};
use crate::error::{CodecError, ErrorCode};

/// A floating-point format: the numbers `m * 2^s` with `m < 2^precision` and a scale `s` within bounds. `m`
/// is at least `2^(precision - 1)`, unless the scale is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binary {
    precision: u32,
    exponent_bits: u32,
    least_scale: i32,
    greatest_scale: i32,
    /// Whether the leading bit of a normal number is not stored.
    hidden_bit: bool,
}

/// A finite number of a format: `mantissa * 2^scale` and a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Real {
    negative: bool,
    mantissa: u128,
    scale: i32,
}

impl Binary {
    /// IEEE 754 binary16.
    pub const B16: Self = Self::interchange(11, 5);
    /// IEEE 754 binary32.
    pub const B32: Self = Self::interchange(24, 8);
    /// IEEE 754 binary64.
    pub const B64: Self = Self::interchange(53, 11);
    /// The 80-bit format of the x87, which stores the leading bit.
    pub const X87: Self = Self { hidden_bit: false, ..Self::interchange(64, 15) };
    /// The float of EXTUUID 2012 that fills a whole EXTUUID.
    pub const WHOLE: Self = Self::plain(100, 16);

    const fn interchange(precision: u32, exponent_bits: u32) -> Self {
        let bias = (1 << (exponent_bits - 1)) - 1;
        let least_scale = 2 - bias - precision as i32; // OK because formats are constants with narrow fields
        let greatest_scale = least_scale + (1 << exponent_bits) - 3;
        Self { precision, exponent_bits, least_scale, greatest_scale, hidden_bit: true }
    }

    /// Returns a format of EXTUUID 2012: `M * 2^(E - B - m)`, where `m` is the width of `M` (1 to 100 bits), `E` has at
    /// most 16 bits, and `B` is half the range of `E`. The top bit of `M` is set unless `E` is 0.
    pub(super) const fn plain(precision: u32, exponent_bits: u32) -> Self {
        let bias = if exponent_bits == 0 { 0 } else { 1 << (exponent_bits - 1) };
        let least_scale = -bias - precision as i32; // OK because both are small
        let greatest_scale = least_scale + (1 << exponent_bits) - 1;
        Self { precision, exponent_bits, least_scale, greatest_scale, hidden_bit: false }
    }

    /// Returns the format of a vector's floats: `width` bits, of which one is for the sign and `exponent` are for the
    /// exponent.
    pub const fn of_width(width: u8, exponent: u8) -> Self {
        let precision = width.saturating_sub(exponent).saturating_sub(1);
        Self::plain(if precision == 0 { 1 } else { precision as u32 }, exponent as u32)
    }

    /// Returns whether [`plain`](Self::plain) made this format.
    const fn is_plain(self) -> bool {
        self.greatest_scale - self.least_scale == (1 << self.exponent_bits) - 1
    }

    /// Returns the number with these stored fields.
    pub(super) fn decode(self, negative: bool, mantissa: u128, exponent: u32) -> Result<Real, Reason> {
        let top = 1 << (self.precision - 1);
        let real = |mantissa, steps: u32| Real { negative, mantissa, scale: self.least_scale + steps as i32 }; // OK because exponents have 16 bits
        if self.is_plain() {
            return match exponent > 0 && mantissa & top == 0 {
                true => Err(Reason::NonCanonicalFloat),
                false => Ok(real(mantissa, exponent)),
            };
        }
        if u128::from(exponent) == mask(self.exponent_bits) {
            return Err(Reason::NonFinite);
        }
        match (self.hidden_bit, exponent) {
            (true, 0) => Ok(real(mantissa, 0)),
            (true, _) => Ok(real(mantissa | top, exponent - 1)),
            (false, 0) if mantissa & top == 0 => Ok(real(mantissa, 0)),
            (false, _) if exponent > 0 && mantissa & top != 0 => Ok(real(mantissa, exponent - 1)),
            (false, _) => Err(Reason::NonCanonicalFloat),
        }
    }

    /// Returns the stored mantissa and exponent of a number of this format: the inverse of [`decode`](Self::decode).
    pub(super) const fn encode(self, real: Real) -> (u128, u32) {
        let top = 1 << (self.precision - 1);
        let steps = (real.scale - self.least_scale) as u32; // OK because the number has this format
        match (self.is_plain(), real.mantissa & top == 0) {
            (true, _) => (real.mantissa, steps),
            (false, true) => (real.mantissa, 0),
            (false, false) if self.hidden_bit => (real.mantissa & !top, steps + 1),
            (false, false) => (real.mantissa, steps + 1),
        }
    }

    /// Returns the number of bits of the stored mantissa.
    pub(super) const fn mantissa_bits(self) -> u32 {
        if self.hidden_bit { self.precision - 1 } else { self.precision }
    }

    pub(super) const fn exponent_bits(self) -> u32 {
        self.exponent_bits
    }

    /// Rounds a decimal number to the nearest number of this format; ties go to the even mantissa. Returns `None` if
    /// the number is too large, or is not zero but would round to zero.
    pub(super) fn round(self, decimal: &Decimal) -> Option<Real> {
        let negative = decimal.negative;
        if decimal.is_zero() {
            return Some(Real { negative, mantissa: 0, scale: self.least_scale });
        }
        let (number, unit) = decimal.fraction();
        // OK because a decimal has at most 1024 digits, and an exponent of at most five digits.
        let length = number.bits() as i64 - unit.bits() as i64;
        let first = i32::try_from(length).unwrap_or(i32::MAX).saturating_sub(self.precision as i32 + 1);
        let mut scale = first.max(self.least_scale);
        loop {
            let (whole, rest, divisor) = divide(&number, &unit, scale);
            if whole.bits() > u64::from(self.precision) {
                scale += 1;
                continue;
            }
            let mut mantissa = u128::try_from(whole).ok()?;
            let above = match (rest * 2_u8).cmp(&divisor) {
                Ordering::Greater => true,
                Ordering::Equal => mantissa & 1 == 1,
                Ordering::Less => false,
            };
            mantissa += u128::from(above);
            if mantissa >> self.precision != 0 {
                mantissa >>= 1; // OK because the mantissa is a power of two
                scale += 1;
            }
            let fits = scale <= self.greatest_scale && mantissa != 0;
            return fits.then_some(Real { negative, mantissa, scale });
        }
    }

    /// Returns the shortest decimal text that reads back as this number. The number must have this format.
    pub fn text(self, real: Real) -> String {
        self.shortest(real).text()
    }

    /// Returns the shortest decimal number that reads back as this number. The number must have this format.
    pub(super) fn shortest(self, real: Real) -> Decimal {
        let Real { negative, mantissa, scale } = real;
        if mantissa == 0 {
            return Decimal { negative, digits: Vec::new(), point: 0 };
        }
        let closer_below = mantissa == 1 << (self.precision - 1) && scale > self.least_scale;
        let (digits, point) = shortest(mantissa, scale, closer_below);
        Decimal { negative, digits, point }
    }
}

impl Real {
    /// Returns whether the number is negative, or a negative zero.
    pub const fn is_negative(self) -> bool {
        self.negative
    }

    /// Returns the mantissa and the scale: the absolute value is `mantissa * 2^scale`.
    pub const fn parts(self) -> (u128, i32) {
        (self.mantissa, self.scale)
    }
}

/// Divides `number` by `unit * 2^scale`. Returns the quotient, the remainder, and the divisor in the same scale as the
/// remainder.
fn divide(number: &BigUint, unit: &BigUint, scale: i32) -> (BigUint, BigUint, BigUint) {
    let (number, unit) = match u32::try_from(scale) {
        Ok(up) => (number.clone(), unit << up),
        Err(_) => (number << scale.unsigned_abs(), unit.clone()),
    };
    let whole = &number / &unit;
    let rest = number - &whole * &unit;
    (whole, rest, unit)
}

/// A decimal number: `0.d1 d2 d3... * 10^point`, without leading or trailing zeros. Zero has no digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    digits: Vec<u8>,
    point: i32,
}

/// The largest absolute value of an exponent.
const EXPONENT_MAX: i32 = 20_000;

impl Decimal {
    /// Reads a decimal number at the front of a piece: an optional sign, digits, an optional point with digits on both
    /// sides, and an optional exponent. Also returns the rest of the piece. Returns `None` if the piece does not begin
    /// with a number.
    pub(super) fn read(piece: Piece<'_>) -> Option<(Self, Piece<'_>)> {
        let (negative, rest) = sign(piece);
        let (whole, mut rest) = digits(rest);
        if whole.is_empty() {
            return None;
        }
        let mut fraction: &[u8] = &[];
        if let Some((b'.', after)) = rest.split_first() {
            let (found, after) = digits(after);
            if found.is_empty() {
                return None;
            }
            (fraction, rest) = (found, after);
        }
        let mut exponent = 0;
        if let Some((b'e' | b'E', after)) = rest.split_first() {
            let (down, after) = sign(after);
            let (found, after) = digits(after);
            exponent = number_below(found, EXPONENT_MAX)?;
            exponent = if down { -exponent } else { exponent };
            rest = after;
        }
        // OK because the text has at most 1024 bytes.
        let mut point = whole.len() as i32 + exponent;
        let mut all: Vec<u8> = whole.iter().chain(fraction).map(|digit| digit - b'0').collect();
        let zeros = all.iter().take_while(|digit| **digit == 0).count();
        all.drain(..zeros);
        point -= zeros as i32; // OK because the text has at most 1024 bytes
        while all.last() == Some(&0) {
            all.pop();
        }
        point = if all.is_empty() { 0 } else { point };
        Some((Self { negative, digits: all, point }, rest))
    }

    /// Reads a piece that consists of one decimal number.
    pub(super) fn parse(piece: Piece<'_>) -> Option<Self> {
        Self::read(piece).filter(|(_, rest)| rest.bytes().is_empty()).map(|(number, _)| number)
    }

    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Returns the absolute value as a numerator and a denominator.
    fn fraction(&self) -> (BigUint, BigUint) {
        let digits = BigUint::from_radix_be(&self.digits, 10).unwrap_or_default();
        // OK because there are at most 1024 digits.
        let exponent = self.point - self.digits.len() as i32;
        match u32::try_from(exponent) {
            Ok(up) => (digits * power_of_ten(up), BigUint::from(1_u8)),
            Err(_) => (digits, power_of_ten(exponent.unsigned_abs())),
        }
    }

    /// Returns the canonical text. Numbers from 10^-6 to below 10^21 have no exponent, and others have one digit before
    /// the point and an exponent.
    fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        // OK because there are at most 1024 digits.
        let (count, first) = (digits.len() as i32, self.point - 1);
        let zeros = |count: i32| "0".repeat(count.unsigned_abs() as usize);
        match first {
            _ if self.is_zero() => format!("{sign}0"),
            -6..0 => format!("{sign}0.{}{digits}", zeros(self.point)),
            0..=20 if self.point >= count => format!("{sign}{digits}{}", zeros(self.point - count)),
            0..=20 => {
                let (whole, fraction) = digits.split_at(self.point.unsigned_abs() as usize);
                format!("{sign}{whole}.{fraction}")
            }
            _ if count == 1 => format!("{sign}{digits}e{first}"),
            _ => {
                let (whole, fraction) = digits.split_at(1);
                format!("{sign}{whole}.{fraction}e{first}")
            }
        }
    }
}

/// Splits off an optional sign. Returns whether the sign is a minus, and the rest of the piece.
pub(super) fn sign(piece: Piece<'_>) -> (bool, Piece<'_>) {
    match piece.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, piece),
    }
}

/// Splits off the digits at the front of a piece.
pub(super) fn digits(piece: Piece<'_>) -> (&[u8], Piece<'_>) {
    let count = piece.bytes().iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, rest) = piece.split_at(count);
    (head.bytes(), rest)
}

/// Reads digits as a number. Returns `None` if there are no digits or the number is above `max`.
fn number_below(digits: &[u8], max: i32) -> Option<i32> {
    let add = |number: i32, digit: &u8| Some(number * 10 + i32::from(digit - b'0')).filter(|number| *number <= max);
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// Reads a piece as a number of the format.
pub(super) fn parse_real(binary: Binary, piece: Piece<'_>) -> Result<Real, CodecError> {
    let decimal = Decimal::parse(piece).ok_or_else(|| bad_number(piece))?;
    binary.round(&decimal).ok_or_else(|| float_range(piece))
}

pub(super) fn bad_number(piece: Piece<'_>) -> CodecError {
    let message = "not a decimal number: write digits, an optional point between digits, and an optional exponent from -20000 to 20000";
    piece.refuse(ErrorCode::BadNumber, message)
}

pub(super) fn float_range(piece: Piece<'_>) -> CodecError {
    piece.refuse(
        ErrorCode::FloatRange,
        "the number is too large for its floating-point format, or so small that it would become zero",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(binary: Binary, text: &str, printed: &str) {
        let real = parse_real(binary, Piece::new(text.as_bytes())).expect(text);
        assert_eq!(binary.text(real), printed, "{text}");
    }

    #[test]
    fn ok_numbers_are_printed_with_the_fewest_digits() {
        for (text, printed) in [
            ("0", "0"),
            ("-0.000", "-0"),
            ("0.1", "0.1"),
            ("1e23", "1e23"),
            ("123456789012345678901", "123456789012345680000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e21"),
            ("0.000001", "0.000001"),
            ("0.00000123", "0.00000123"),
            ("0.0000001", "1e-7"),
            ("5e-324", "5e-324"),
            ("2.4703282292062328e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e308"),
            ("9007199254740993", "9007199254740992"),
            ("9007199254740995", "9007199254740996"),
            ("2.2250738585072011e-308", "2.225073858507201e-308"),
            ("4.35", "4.35"),
        ] {
            check(Binary::B64, text, printed);
        }
        check(Binary::B16, "0.1", "0.1");
        check(Binary::B16, "65504", "65500");
        check(Binary::B16, "65519", "65500");
        check(Binary::B16, "5.960464477539063e-8", "6e-8");
        check(Binary::X87, "0.1", "0.1");
        check(Binary::WHOLE, "22.4", "22.4");
        check(Binary::WHOLE, "1e9860", "1e9860");
        check(Binary::plain(3, 0), "0.5", "0.5");
        // Both 9 and 10 have one digit and read back as this number; 9 is nearer.
        check(Binary::plain(2, 13), "9e-126", "9e-126");
        check(Binary::B64, "9.5367431640625e-7", "9.5367431640625e-7");
    }

    #[test]
    fn err_numbers_out_of_range() {
        for (binary, text) in [
            (Binary::B16, "65520"),
            (Binary::B16, "2.9e-8"),
            (Binary::B64, "1.7976931348623159e308"),
            (Binary::B64, "2.4703282292062327e-324"),
            (Binary::B64, "1e-20000"),
            (Binary::plain(3, 0), "1"),
            (Binary::plain(3, 0), "0.0625"),
        ] {
            let error = parse_real(binary, Piece::new(text.as_bytes())).expect_err(text);
            assert_eq!(error.code(), ErrorCode::FloatRange, "{text}");
        }
        for text in ["", ".5", "1.", "1e", "1e20001", "1e-20001", "0x1", "--1", "1 ", "1_0", "inf", "nan"] {
            let error = parse_real(Binary::B64, Piece::new(text.as_bytes())).expect_err(text);
            assert_eq!(error.code(), ErrorCode::BadNumber, "{text}");
        }
    }

    proptest! {
        #[test]
        fn ok_doubles_are_printed_and_read_as_the_standard_library_does(bits: u64) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            let mantissa = u128::from(bits & ((1 << 52) - 1));
            let real = Binary::B64.decode(bits >> 63 == 1, mantissa, (bits >> 52 & 0x7ff) as u32).expect("finite");
            let printed = Binary::B64.text(real);
            prop_assert_eq!(printed.parse::<f64>().map(f64::to_bits), Ok(bits));
            // The standard library prints as few digits as possible, so both must have the same number of digits.
            let digits = |text: &str| {
                let mantissa = text.split('e').next().unwrap_or_default().replace(['-', '.'], "");
                mantissa.trim_matches('0').len()
            };
            prop_assert_eq!(digits(&printed), digits(&format!("{double:e}")));
            prop_assert_eq!(parse_real(Binary::B64, Piece::new(printed.as_bytes())), Ok(real));
        }

        #[test]
        fn ok_any_decimal_is_rounded_as_the_standard_library_does(text in "-?[0-9]{1,25}(\\.[0-9]{1,25})?(e-?[0-9]{1,3})?") {
            let expected: f64 = text.parse().expect("a number");
            let is_zero = text.split('e').next().unwrap_or_default().bytes().all(|byte| !(b'1'..=b'9').contains(&byte));
            match parse_real(Binary::B64, Piece::new(text.as_bytes())) {
                Ok(real) => prop_assert_eq!(Binary::B64.text(real).parse::<f64>().map(f64::to_bits), Ok(expected.to_bits())),
                Err(_) => prop_assert!(expected.is_infinite() || expected == 0.0 && !is_zero),
            }
        }

        #[test]
        fn ok_every_number_of_every_format_reads_back(
            precision in 1..100_u32, exponent_bits in 0..12_u32, mantissa: u128, exponent: u32, negative: bool,
        ) {
            let binary = Binary::plain(precision, exponent_bits);
            let exponent = exponent & ((1 << exponent_bits) - 1);
            let top = if exponent > 0 { 1 << (precision - 1) } else { 0 };
            let real = binary.decode(negative, mantissa & mask(precision) | top, exponent).expect("normal");
            let printed = binary.text(real);
            prop_assert_eq!(parse_real(binary, Piece::new(printed.as_bytes())), Ok(real), "{}", printed);
        }
    }
}
