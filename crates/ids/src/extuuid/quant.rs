//! The units of quantities: exponents of the seven base units, as text and as bits ("xponents" in EXTUUID 2012).

use alloc::{format, string::String};

use super::{
    bits::{Reader, Writer},
    real::digits,
    reason::Reason,
    text::Piece,
    value::Units,
};
use crate::error::{CodecError, ErrorCode};

/// The base units, in the order of their exponents.
const NAMES: [&str; 7] = ["m", "kg", "s", "A", "K", "cd", "mol"];
/// The largest numerator or denominator of an exponent.
const LARGEST: i64 = 7;
/// The width in bits of an exponent's numerator, and of its denominator.
const DIGIT_BITS: u32 = 3;

impl Units {
    /// The exponents of a number without units.
    pub const NONE: Self = Self([(0, 1); 7]);

    /// Returns the exponents of m, kg, s, A, K, cd and mol, as numerators and denominators.
    pub const fn exponents(&self) -> &[(i8, u8); 7] {
        &self.0
    }

    pub(super) fn decode(reader: &mut Reader) -> Result<Self, Reason> {
        let mut units = Self::NONE;
        for (exponent, name) in units.0.iter_mut().zip(NAMES) {
            let negative = reader.take_flag(name);
            let (over, under) = (reader.take_u8(DIGIT_BITS, name), reader.take_u8(DIGIT_BITS, name));
            *exponent = match (negative, over, under) {
                (false, 0, 0) => (0, 1),
                (_, 1.., 1..) if gcd(over.into(), under.into()) == 1 => {
                    let over = over as i8; // OK because the numerator has three bits
                    (if negative { -over } else { over }, under)
                }
                _ => return Err(Reason::NonCanonicalXponent),
            };
        }
        Ok(units)
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        for (over, under) in self.0 {
            let under = if over == 0 { 0 } else { under };
            writer.put(1, over < 0).put(DIGIT_BITS, over.unsigned_abs()).put(DIGIT_BITS, under);
        }
    }

    /// Returns the canonical text: the units with an exponent other than zero, in the order of [`NAMES`].
    pub(super) fn text(&self) -> String {
        let unit = |((over, under), name): (&(i8, u8), &str)| {
            let sign = if *over < 0 { '/' } else { '*' };
            match (over.unsigned_abs(), under) {
                (0, _) => String::new(),
                (1, 1) => format!("{sign}{name}"),
                (over, 1) => format!("{sign}{name}{over}"),
                (over, under) => format!("{sign}{name}{over}/{under}"),
            }
        };
        self.0.iter().zip(NAMES).map(unit).collect()
    }

    /// Returns whether a piece begins with `*` or `/` and the name of a unit.
    pub(super) fn begins(piece: Piece<'_>) -> bool {
        matches!(piece.split_first(), Some((b'*' | b'/', rest)) if name(rest).is_some())
    }

    /// Reads a piece that consists of units, in any order. The exponents of a repeated unit add up.
    pub(super) fn parse(piece: Piece<'_>) -> Result<Self, CodecError> {
        let mut sums = [(0_i64, 1_i64); 7];
        let mut rest = piece;
        while !rest.bytes().is_empty() {
            let at = rest;
            let (sign, after) = match rest.split_first() {
                Some((b'*', after)) => (1, after),
                Some((b'/', after)) => (-1, after),
                _ => return Err(bad_quant(at)),
            };
            let (index, after) = name(after).ok_or_else(|| bad_quant(at))?;
            let ((over, under), after) = power(after)?;
            let (sum_over, sum_under) = sums[index];
            let added = sum_over.checked_mul(under).zip(over.checked_mul(sum_under));
            let over = added.and_then(|(a, b)| a.checked_add(sign * b));
            sums[index] = over.zip(sum_under.checked_mul(under)).map(reduced).ok_or_else(|| exponent_range(at))?;
            rest = after;
        }
        let mut units = Self::NONE;
        for (unit, (over, under)) in units.0.iter_mut().zip(sums) {
            if over.abs() > LARGEST || under > LARGEST {
                return Err(exponent_range(piece));
            }
            *unit = (over as i8, under as u8); // OK because both are at most 7
        }
        Ok(units)
    }
}

/// Returns the unit at the front of a piece (the longest name that matches), and the rest.
fn name(piece: Piece<'_>) -> Option<(usize, Piece<'_>)> {
    let found = NAMES.iter().enumerate().filter_map(|(index, name)| Some((index, name, piece.strip_prefix(name)?)));
    found.max_by_key(|(_, name, _)| name.len()).map(|(index, _, rest)| (index, rest))
}

/// Returns the exponent at the front of a piece (1 if there is none), and the rest. A `/` followed by a digit makes the
/// exponent a fraction.
fn power(piece: Piece<'_>) -> Result<((i64, i64), Piece<'_>), CodecError> {
    let (over, rest) = digits(piece);
    if over.is_empty() {
        return Ok(((1, 1), rest));
    }
    let over = digit(over, piece)?;
    match rest.split_first() {
        Some((b'/', after)) => match digits(after) {
            ([], _) => Ok(((over, 1), rest)),
            (under, after) => Ok(((over, digit(under, piece)?), after)),
        },
        _ => Ok(((over, 1), rest)),
    }
}

/// Reads the numerator or denominator of an exponent: from 1 to a million.
fn digit(digits: &[u8], piece: Piece<'_>) -> Result<i64, CodecError> {
    const LARGEST_READ: i64 = 1_000_000;
    let add = |number: i64, digit: &u8| Some(number * 10 + i64::from(digit - b'0')).filter(|it| *it <= LARGEST_READ);
    digits.iter().try_fold(0, add).filter(|number| *number != 0).ok_or_else(|| exponent_range(piece))
}

fn reduced((over, under): (i64, i64)) -> (i64, i64) {
    let divisor = gcd(over.unsigned_abs(), under.unsigned_abs()).max(1);
    let divisor = i64::try_from(divisor).unwrap_or(1);
    (over / divisor, under / divisor)
}

const fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

pub(super) fn bad_quant(piece: Piece<'_>) -> CodecError {
    let message = "a unit consists of * or /, one of m kg s A K cd mol, and an optional exponent such as 2 or 1/2";
    piece.refuse(ErrorCode::BadQuant, message)
}

fn exponent_range(piece: Piece<'_>) -> CodecError {
    let message = "the exponent of a unit must be a fraction with numerator and denominator from 1 to 7";
    piece.refuse(ErrorCode::ExponentRange, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, canonical: &str) {
        let units = Units::parse(Piece::new(text.as_bytes())).expect(text);
        assert_eq!(units.text(), canonical, "{text}");
    }

    #[test]
    fn ok_units_in_any_order() {
        check("", "");
        check("*kg/s2*m2", "*m2*kg/s2");
        check("*m*mol*m", "*m2*mol");
        check("*m2/m", "*m");
        check("*m/m", "");
        check("/m1/2", "/m1/2");
        check("*m2/4", "*m1/2");
        check("*m1/s", "*m/s");
        check("*m14/2", "*m7");
        check("*m1/2*m1/2", "*m");
        check("*cd/A*K3", "/A*K3*cd");
    }

    #[test]
    fn err_units() {
        for (text, code) in [
            ("m", ErrorCode::BadQuant),
            ("*x", ErrorCode::BadQuant),
            ("*m*", ErrorCode::BadQuant),
            ("*m 2", ErrorCode::BadQuant),
            ("*m-2", ErrorCode::BadQuant),
            ("*m8", ErrorCode::ExponentRange),
            ("*m0", ErrorCode::ExponentRange),
            ("*m1/0", ErrorCode::ExponentRange),
            ("*m1/8", ErrorCode::ExponentRange),
            ("*m7*m", ErrorCode::ExponentRange),
            ("*m99999999999999999999", ErrorCode::ExponentRange),
            ("*m1/999983*m1/999979*m1/999961*m1/999959", ErrorCode::ExponentRange),
        ] {
            let error = Units::parse(Piece::new(text.as_bytes())).expect_err(text);
            assert_eq!(error.code(), code, "{text}");
        }
    }
}
