//! Parsing and formatting numbers for people.

use kent_ids::{Uid11, Uuid, dce, nearly_uuid};
pub(crate) use kent_ids::{counted, grouped};
use kent_proto::v1::space::TextForm;

/// Reads a number below 2^128: decimal or, after `0x`, hexadecimal; underscores between digits are skipped.
pub(crate) fn parse(text: &str) -> Result<u128, String> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain: String = digits.chars().filter(|&digit| digit != '_').collect();
    if plain.is_empty() || digits.starts_with('_') || digits.ends_with('_') {
        return Err("expected a number such as 42, 1_000_000 or 0x2a".to_owned());
    }
    if let Some(invalid) = plain.chars().find(|digit| !digit.is_digit(radix)) {
        return Err(format!("{invalid:?} is not a digit; expected a number such as 42, 1_000_000 or 0x2a"));
    }
    u128::from_str_radix(&plain, radix).map_err(|_| "the maximum is 2^128 - 1".to_owned())
}

/// An identifier of a space, and the form in which the user wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypedId {
    pub(crate) value: u128,
    /// The user wrote it as a UUID, with all 128 bits.
    pub(crate) is_uuid: bool,
}

impl TypedId {
    /// The identifier, if the identifiers of the space have enough bits.
    pub(crate) fn within(self, space: &str, bits: u32) -> Result<u128, String> {
        let has = format!("an identifier of space {space} has {}", counted(bits, "bit"));
        let needed = 128 - self.value.leading_zeros();
        match self {
            Self { is_uuid: true, value } if bits != 128 => Err(format!(
                "a UUID has 128 bits, but {has} (`kent space ls` shows the width of each space, and `kent inspect {}` explains the UUID)",
                Uuid::from_u128(value)
            )),
            Self { value, .. } if needed > bits => Err(format!("{value} has {}, but {has}", counted(needed, "bit"))),
            Self { value, .. } => Ok(value),
        }
    }
}

/// Reads an identifier of a space: a number, a UUID, or the 11 characters of a uid11 of which at least one is not a digit.
pub(crate) fn parse_id(text: &str) -> Result<TypedId, String> {
    // Without hyphens, 32 digits could be a number.
    if text.contains('-')
        && let Ok(uuid) = dce::parse_lenient(text)
    {
        return Ok(TypedId { value: uuid.as_u128(), is_uuid: true });
    }
    parse_number_or_uid11(text).map(|value| TypedId { value, is_uuid: false })
}

fn parse_number_or_uid11(text: &str) -> Result<u128, String> {
    let is_uid11 =
        text.len() == 11 && !text.starts_with("0x") && !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if is_uid11 {
        return match Uid11::parse(text) {
            Ok(uid11) => Ok(uid11.get().into()),
            Err(error) => Err(format!("{text:?} is neither a number nor a uid11: {error}")),
        };
    }
    parse(text).map_err(|error| {
        if let Some(problem) = nearly_uuid(text) {
            return format!("{text:?} is not a valid identifier: {problem}");
        }
        if let Ok(uuid) = dce::parse_lenient(text) {
            return format!(
                "{text:?} is not a number: write a UUID with its hyphens, {uuid}, and other digits after 0x"
            );
        }
        format!("{text:?} is not a valid identifier: {error} (a UUID and the 11 characters of a uid11 are valid, too)")
    })
}

/// The text form of the identifiers of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Decimal,
    /// A number with this number of digits.
    Hex(usize),
    Uid11,
}

impl Form {
    /// The default text form of a space whose identifiers have this number of bits.
    pub(crate) fn of(form: TextForm, bits: u32) -> Self {
        match form {
            TextForm::Unspecified | TextForm::Decimal => Self::Decimal,
            TextForm::Hex => Self::Hex(bits.div_ceil(4).try_into().unwrap_or(32)),
            TextForm::Uid11 => Self::Uid11,
        }
    }

    pub(crate) fn text(self, value: u128) -> String {
        match (self, u64::try_from(value)) {
            (Self::Uid11, Ok(value)) => Uid11::new(value).to_string(),
            (Self::Hex(digits), _) => format!("0x{value:0digits$x}"),
            (Self::Decimal | Self::Uid11, _) => value.to_string(),
        }
    }
}

/// The ratio of `part` to `whole`, from 0 to 1, and 1 only if they are equal. Both are decimal numbers up to 2^128.
pub(crate) fn share(part: &str, whole: &str) -> Option<f64> {
    let most = if part == whole { 1.0 } else { 1.0_f64.next_down() };
    // An f64 is precise enough because a share is shown with two decimal places.
    let (part, whole) = (part.parse::<f64>().ok()?, whole.parse::<f64>().ok()?);
    (whole > 0.0).then(|| (part / whole).clamp(0.0, most))
}

/// A share as a percentage. Only exactly 0 and 1 are shown as 0 % and 100 %.
pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share <= 0.0 => "0 %".to_owned(),
        share if share < 0.0001 => "<0.01 %".to_owned(),
        share if share >= 1.0 => "100 %".to_owned(),
        share if share > 0.9999 => ">99.99 %".to_owned(),
        share => format!("{:.2} %", share * 100.0),
    }
}

/// A number of bytes in the largest unit that fits into it.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Milliseconds with three digits or more.
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
    fn ok_numbers() {
        for (text, expected) in [
            ("0", 0),
            ("42", 42),
            ("1_000_000", 1_000_000),
            ("0x2a", 42),
            ("0XB400_0000", 0xb400_0000),
            ("340282366920938463463374607431768211455", u128::MAX),
            ("0xffffffffffffffffffffffffffffffff", u128::MAX),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn err_numbers() {
        for text in
            ["", "_", "_1", "1_", "0x", "-1", "+1", "1e6", "0b1", "1 2", "٣", "340282366920938463463374607431768211456"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ok_identifiers() {
        for (text, expected) in [
            ("7", 7),
            ("0x8f", 0x8f),
            ("11111111112", 11_111_111_112),
            ("5Jxqwr73FDS", 1_856_638_566_845_336_473),
            ("0x123456789", 0x1_2345_6789),
        ] {
            assert_eq!(parse_id(text), Ok(TypedId { value: expected, is_uuid: false }), "{text}");
        }
        let value = 0x019a_a2be_bb3b_7000_8050_c000_0000_0009;
        for text in ["019aa2be-bb3b-7000-8050-c00000000009", "{019AA2BE-BB3B-7000-8050-C00000000009}"] {
            assert_eq!(parse_id(text), Ok(TypedId { value, is_uuid: true }), "{text}");
        }
    }

    #[test]
    fn ok_and_err_identifiers_of_a_space() {
        for (text, bits, expected) in [
            ("255", 8, Ok(255)),
            ("256", 8, Err("256 has 9 bits, but an identifier of space s has 8 bits")),
            ("2", 1, Err("2 has 2 bits, but an identifier of space s has 1 bit")),
            ("00000000-0000-0000-0000-000000000005", 128, Ok(5)),
            (
                "00000000-0000-0000-0000-000000000005",
                64,
                Err(
                    "a UUID has 128 bits, but an identifier of space s has 64 bits (`kent space ls` shows the width of each space, and \
                     `kent inspect 00000000-0000-0000-0000-000000000005` explains the UUID)",
                ),
            ),
            ("0", 1, Ok(0)),
            ("0xffffffffffffffffffffffffffffffff", 128, Ok(u128::MAX)),
        ] {
            let id = parse_id(text).expect(text);
            assert_eq!(id.within("s", bits), expected.map_err(str::to_owned), "{text}");
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
            let read = parse_id(&text).map(|id| id.value);
            assert_eq!((text.as_str(), read), (expected, Ok(1_856_638_566_845_336_473)));
        }
    }

    #[test]
    fn err_identifiers() {
        for text in ["", "x", "5Jxqwr73FD0", "zzzzzzzzzzz", "5Jxqwr73FDSS"] {
            assert!(parse_id(text).is_err(), "{text}");
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
