//! Parsing and formatting numbers for people.

use kent_codec::parse_id_in;
pub(crate) use kent_codec::parse_number as parse;
use kent_ids::{Uid11, layout::Spelling};
pub(crate) use kent_ids::{counted, grouped};
use kent_proto::v1::space::TextForm;

/// The text form of the identifiers of a space or a custom layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Decimal,
    /// Hexadecimal, with this number of digits.
    Hex(usize),
    Uid11,
    /// The text form of a custom layout, and the width of its identifiers in bits.
    Layout(Spelling, u8),
}

impl Form {
    /// Converts the text form of a space whose identifiers have this number of bits.
    pub(crate) fn of(form: TextForm, bits: u32) -> Self {
        match form {
            TextForm::Unspecified | TextForm::Decimal => Self::Decimal,
            TextForm::Hex => Self::Hex(bits.div_ceil(4).try_into().unwrap_or(32)),
            TextForm::Uid11 => Self::Uid11,
        }
    }

    pub(crate) fn text(&self, value: u128) -> String {
        match (self, u64::try_from(value)) {
            (Self::Uid11, Ok(value)) => Uid11::new(value).to_string(),
            (Self::Hex(digits), _) => format!("0x{value:0digits$x}"),
            (Self::Layout(spelling, bits), _) => spelling.text(value, *bits),
            (Self::Decimal | Self::Uid11, _) => value.to_string(),
        }
    }
}

impl Form {
    /// Reads an identifier of a space that has this text form.
    pub(crate) fn value(&self, text: &str, space: &str, bits: u32) -> Result<u128, String> {
        parse_id_in(text, space, bits, *self == Self::Uid11)
    }
}

/// Returns the ratio of `part` to `whole`, from 0 to 1, and 1 only if they are equal. Returns `None` if `whole` is 0.
/// Both are decimal numbers up to 2^128.
pub(crate) fn share(part: &str, whole: &str) -> Option<f64> {
    let most = if part == whole { 1.0 } else { 1.0_f64.next_down() };
    // An f64 is precise enough because a share is shown with two decimal places.
    let (part, whole) = (part.parse::<f64>().ok()?, whole.parse::<f64>().ok()?);
    (whole > 0.0).then(|| (part / whole).clamp(0.0, most))
}

/// Formats a share as a percentage. Only exactly 0 and 1 are shown as 0 % and 100 %.
pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share <= 0.0 => "0 %".to_owned(),
        share if share < 0.0001 => "<0.01 %".to_owned(),
        share if share >= 1.0 => "100 %".to_owned(),
        share if share > 0.9999 => ">99.99 %".to_owned(),
        share => format!("{:.2} %", share * 100.0),
    }
}

/// Formats a number of bytes in the largest unit that fits into it.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Formats milliseconds with three digits or more.
pub(crate) fn millis(millis: f64) -> String {
    let digits = match millis {
        many if many >= 100.0 => 0,
        some if some >= 10.0 => 1,
        _ => 2,
    };
    format!("{millis:.digits$} ms")
}

/// Writes a decimal number that is a power of two as "2^40", and any other number with grouped digits.
pub(crate) fn power_of_two(decimal: &str) -> String {
    const TWO_TO_128: &str = "340282366920938463463374607431768211456";
    match decimal.parse::<u128>() {
        Ok(number) if number.is_power_of_two() => format!("2^{}", number.trailing_zeros()),
        Err(_) if decimal == TWO_TO_128 => "2^128".to_owned(),
        _ => grouped(decimal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_sizes_and_times_for_people() {
        for (size, shown) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (3 << 19, "1.5 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(bytes(size), shown);
        }
        for (time, shown) in [(0.0, "0.00 ms"), (0.256, "0.26 ms"), (12.34, "12.3 ms"), (2000.0, "2000 ms")] {
            assert_eq!(millis(time), shown);
        }
    }

    #[test]
    fn ok_text_of_every_form_parses_to_the_same_number() {
        for (form, bits, expected) in [
            (TextForm::Decimal, 64, "1856638566845336473"),
            (TextForm::Hex, 64, "0x19c41af08d1b4b99"),
            (TextForm::Hex, 66, "0x019c41af08d1b4b99"),
            (TextForm::Uid11, 64, "5Jxqwr73FDS"),
        ] {
            let text = Form::of(form, bits).text(1_856_638_566_845_336_473);
            let read = kent_codec::parse_id(&text).map(|id| id.value);
            assert_eq!((text.as_str(), read), (expected, Ok(1_856_638_566_845_336_473)));
        }
    }

    #[test]
    fn ok_percentages_do_not_round_to_0_or_100() {
        for (part, whole, expected) in [
            ("0", "16", "0 %"),
            ("1", "340282366920938463463374607431768211456", "<0.01 %"),
            ("1", "3", "33.33 %"),
            ("65535", "65536", ">99.99 %"),
            ("340282366920938463463374607431768211455", "340282366920938463463374607431768211456", ">99.99 %"),
            ("16", "16", "100 %"),
        ] {
            assert_eq!(share(part, whole).map(percent).as_deref(), Some(expected), "{part} of {whole}");
        }
        assert_eq!(share("0", "0"), None);
    }

    #[test]
    fn ok_numbers_for_people() {
        for (decimal, groups, power) in [
            ("0", "0", "0"),
            ("1", "1", "2^0"),
            ("100", "100", "100"),
            ("1023", "1_023", "1_023"),
            ("1024", "1_024", "2^10"),
            ("340282366920938463463374607431768211456", "340_282_366_920_938_463_463_374_607_431_768_211_456", "2^128"),
        ] {
            assert_eq!((grouped(decimal).as_str(), power_of_two(decimal).as_str()), (groups, power), "{decimal}");
        }
    }
}
