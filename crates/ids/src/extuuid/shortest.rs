//! Finds the shortest decimal digits that read back as a given binary floating-point number. Of several equally short
//! results, chooses the nearest, and of two equally near results, the even one (Steele and White 1990, in integers).
//!
//! Exact integers grow with the exponent, up to 33,000 bits. For large exponents, a few hundred leading bits with a
//! bound on their error are enough: the digits are the same unless a comparison is closer than that bound. For these
//! exponents, two compared numbers are never equal, because a power of five would have to divide a mantissa that is
//! smaller than this power. If a comparison is too close, the exact integers decide. So the cost rarely depends on the
//! exponent.

use alloc::vec::Vec;
use core::cmp::Ordering;

use num_bigint::BigUint;

use super::bits::bit_length;

/// For scales of at most this absolute value, exact integers are short enough.
const SHORT_SCALE: u32 = 512;

/// The number of leading bits to keep of each power of five. A mantissa, its error and 32 digits need about 230
/// bits.
const KEPT_BITS: u64 = 320;

/// A power of five or its reciprocal is off by at most 2^20 units of the last bit kept, in either direction. Up to
/// 5^10000, there are 14 products and 14 squarings, and each squaring doubles the error and adds one.
const ERROR_BITS: u64 = 20;

/// Returns the digits and the point of `mantissa * 2^scale`, as `0.d1 d2 d3... * 10^point`. The mantissa must not be
/// zero. `closer_below` means that the next number below is half as far away as the next number above.
pub(super) fn shortest(mantissa: u128, scale: i32, closer_below: bool) -> (Vec<u8>, i32) {
    if scale.unsigned_abs() > SHORT_SCALE
        && let Some(found) = Parts::nearly(mantissa, scale, closer_below).digits()
    {
        return found;
    }
    exact(mantissa, scale, closer_below)
}

fn exact(mantissa: u128, scale: i32, closer_below: bool) -> (Vec<u8>, i32) {
    // OK because with exact integers no comparison is too close.
    Parts::exactly(mantissa, scale, closer_below).digits().unwrap_or_default()
}

/// A number and half the distances to its neighbors, as fractions of a unit.
struct Parts {
    rest: BigUint,
    above: BigUint,
    below: BigUint,
    unit: BigUint,
    /// The true `rest`, `above` and `below` may each be larger by up to this amount.
    error: BigUint,
    /// Whether a decimal exactly halfway to a neighbor reads back as this number.
    takes_ends: bool,
    /// The unit is worth `10^point`.
    point: i32,
}

impl Parts {
    fn exactly(mantissa: u128, scale: i32, closer_below: bool) -> Self {
        let mut unit = BigUint::from(1_u8);
        let mut step = BigUint::from(1_u8);
        match u32::try_from(scale) {
            Ok(up) => step <<= up,
            Err(_) => unit <<= scale.unsigned_abs(),
        }
        let point = estimate(mantissa, scale);
        match u32::try_from(point) {
            Ok(up) => unit *= power_of_ten(up),
            Err(_) => step *= power_of_ten(point.unsigned_abs()),
        }
        Self::new(mantissa, closer_below, &step, unit, &BigUint::ZERO, point)
    }

    /// Approximates the number: the unit is a power of two, and the step comes from the leading bits of a power of
    /// five.
    fn nearly(mantissa: u128, scale: i32, closer_below: bool) -> Self {
        let point = estimate(mantissa, scale);
        let (five, exponent) = power_of_five(point.unsigned_abs());
        // The number's last place is worth `step * 2^exponent` units.
        let (step, exponent) = match point {
            ..=0 => (five, i64::from(scale) - i64::from(point) + exponent),
            _ => {
                let bits = 2 * KEPT_BITS;
                let reciprocal = (BigUint::from(1_u8) << bits) / five;
                (reciprocal, i64::from(scale) - i64::from(point) - exponent - bits as i64) // OK because `bits` is small
            }
        };
        let error = BigUint::from(1_u8) << ERROR_BITS;
        // The exponent is negative, because `mantissa * step * 2^exponent` is about 1, and `step` has at least
        // KEPT_BITS bits.
        let unit = BigUint::from(1_u8) << exponent.unsigned_abs();
        Self::new(mantissa, closer_below, &(step - &error), unit, &(error << 1), point)
    }

    /// Creates the number whose last place is worth from `step` to `step + error`.
    fn new(mantissa: u128, closer_below: bool, step: &BigUint, unit: BigUint, error: &BigUint, point: i32) -> Self {
        // Counts in halves of the last place, or in quarters if the neighbor below is closer.
        let shift = 1 + u32::from(closer_below);
        let number = BigUint::from(mantissa) << shift;
        Self {
            rest: &number * step,
            above: step * shift,
            below: step.clone(),
            unit: unit << shift,
            error: number * error,
            takes_ends: mantissa & 1 == 0,
            point,
        }
    }

    /// Returns the digits and the point, or `None` if a comparison is closer than the error.
    fn digits(mut self) -> Option<(Vec<u8>, i32)> {
        while self.compare(&self.rest, &self.unit)? != Ordering::Less {
            self.unit *= 10_u8;
            self.point += 1;
        }
        while self.compare(&(&self.rest * 10_u8), &self.unit)? == Ordering::Less {
            self.grow();
            self.point -= 1;
        }
        let mut digits = Vec::new();
        loop {
            self.grow();
            let digit = &self.rest / &self.unit;
            self.rest -= &digit * &self.unit;
            if &self.rest + &self.error >= self.unit {
                return None;
            }
            let digit = u8::try_from(digit).unwrap_or(9); // OK because the rest was below the unit
            let down = self.is_within(self.compare(&self.rest, &self.below)?);
            let up = self.is_within(self.compare(&self.unit, &(&self.rest + &self.above))?);
            let last = match (down, up) {
                (false, false) => {
                    digits.push(digit);
                    continue;
                }
                (true, false) => digit,
                (false, true) => digit + 1,
                (true, true) => match self.compare(&(&self.rest * 2_u8), &self.unit)? {
                    Ordering::Less => digit,
                    Ordering::Greater => digit + 1,
                    Ordering::Equal => digit + (digit & 1),
                },
            };
            // Only the first digit can round up to ten: if a later digit did, fewer digits would have been enough.
            let (last, point) = if last == 10 { (1, self.point + 1) } else { (last, self.point) };
            digits.push(last);
            return Some((digits, point));
        }
    }

    /// Multiplies everything except the unit by ten.
    fn grow(&mut self) {
        for number in [&mut self.rest, &mut self.above, &mut self.below, &mut self.error] {
            *number *= 10_u8;
        }
    }

    /// Returns whether a value is within an interval, given its comparison with the end of the interval.
    fn is_within(&self, end: Ordering) -> bool {
        end == Ordering::Less || self.takes_ends && end == Ordering::Equal
    }

    /// Compares two numbers, each the sum of at most two inexact terms. Returns `None` if the errors are too large to
    /// decide.
    fn compare(&self, a: &BigUint, b: &BigUint) -> Option<Ordering> {
        if self.error == BigUint::ZERO {
            return Some(a.cmp(b));
        }
        // Ten times the error, because some callers compare `10 * rest` before the error has grown.
        let slack = &self.error * 10_u8;
        match (a + &slack < *b, b + &slack < *a) {
            (true, _) => Some(Ordering::Less),
            (_, true) => Some(Ordering::Greater),
            _ => None,
        }
    }
}

/// Estimates the number of digits before the point of `mantissa * 2^scale`: never too many, and at most two too few.
const fn estimate(mantissa: u128, scale: i32) -> i32 {
    let length = bit_length(mantissa) as i64 + scale as i64; // OK because a u128 has 128 bits
    // 0.30103 is a little more than the decimal logarithm of 2. OK because exponents have 16 bits.
    ((length - 1) * 30_103).div_euclid(100_000) as i32
}

pub(super) fn power_of_ten(exponent: u32) -> BigUint {
    BigUint::from(10_u8).pow(exponent)
}

/// Returns the leading `KEPT_BITS` bits of a power of five, and the exponent of the power of two by which to multiply
/// them.
fn power_of_five(exponent: u32) -> (BigUint, i64) {
    let mut power = leading(BigUint::from(1_u8), 0);
    for bit in (0..u32::BITS - exponent.leading_zeros()).rev() {
        power = leading(&power.0 * &power.0, power.1 * 2);
        if exponent >> bit & 1 == 1 {
            power = leading(power.0 * 5_u8, power.1);
        }
    }
    power
}

fn leading(number: BigUint, exponent: i64) -> (BigUint, i64) {
    let (bits, kept) = (number.bits(), KEPT_BITS);
    let more = bits as i64 - kept as i64; // OK because both are small
    let number = if bits > kept { number >> (bits - kept) } else { number << (kept - bits) };
    (number, exponent + more)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The scales of a float with a mantissa of 100 bits and an exponent of 16 bits.
    const SCALES: core::ops::RangeInclusive<i32> = -32_868..=32_667;

    #[track_caller]
    fn check(mantissa: u128, scale: i32, closer_below: bool) {
        let nearly = Parts::nearly(mantissa, scale, closer_below).digits();
        assert_eq!(nearly, Some(exact(mantissa, scale, closer_below)), "{mantissa} * 2^{scale}");
    }

    #[test]
    fn ok_a_power_of_five_is_within_its_error_bound() {
        for exponent in (0..300).chain((300..10_000).step_by(97)).chain([9_899, 9_900, 9_999, 10_000]) {
            let (power, shift) = power_of_five(exponent);
            let exact = BigUint::from(5_u8).pow(exponent);
            let (low, high) = (power.clone(), power + (BigUint::from(1_u8) << (ERROR_BITS - 2)));
            let scaled = |number: BigUint| if shift < 0 { number } else { number << shift };
            let exact = if shift < 0 { exact << shift.unsigned_abs() } else { exact };
            assert!(scaled(low) <= exact && exact <= scaled(high), "5^{exponent}");
        }
    }

    #[test]
    fn ok_extreme_numbers_are_printed_exactly() {
        let mantissas = [1, 2, 3, (1 << 24) - 1, 1 << 52, (1 << 53) - 1, 1 << 99, (1 << 99) + 1, (1 << 100) - 1];
        let scales = [-32_868, -32_867, -16_445, -1_074, -513, 513, 971, 16_320, 32_666, 32_667];
        for (mantissa, scale) in mantissas.iter().flat_map(|mantissa| scales.map(|scale| (*mantissa, scale))) {
            check(mantissa, scale, false);
            check(mantissa, scale, mantissa.is_power_of_two());
        }
    }

    #[test]
    fn ok_no_scale_needs_the_exact_integers() {
        for scale in SCALES.filter(|scale| scale.unsigned_abs() > SHORT_SCALE) {
            for mantissa in [1, 0x0009_e377_9b97_f4a7_c15f_39cc_0605, (1 << 100) - 1] {
                assert!(Parts::nearly(mantissa, scale, false).digits().is_some(), "{mantissa} * 2^{scale}");
            }
        }
    }

    proptest! {
        #[test]
        fn ok_the_leading_bits_give_the_digits_of_the_exact_integers(
            mantissa in 1..1_u128 << 100, narrower in 0..100_u32, scale in SCALES, closer_below: bool,
        ) {
            let mantissa = (mantissa >> narrower).max(1);
            prop_assume!(scale.unsigned_abs() > SHORT_SCALE);
            prop_assert_eq!(
                Parts::nearly(mantissa, scale, closer_below).digits(),
                Some(exact(mantissa, scale, closer_below))
            );
        }
    }
}
