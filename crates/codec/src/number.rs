//! Reads identifiers of a space as people write them: numbers, UUIDs and uid11s.

use std::borrow::Cow;

use kent_ids::{
    Uid11, Uuid, counted, dce,
    extuuid::{self, Ext, Serials, Value},
    nearly_uuid,
};

/// The maximum number of characters of an invalid string that an error message quotes.
const SHOWN_MAX: usize = 100;

/// Shortens a string for an error message: replaces the end of a long string with `...`.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.into(),
        Some((end, _)) => format!("{}...", &text[..end]).into(),
    }
}

/// Reads a number below 2^128: decimal or, after `0x`, hexadecimal; underscores between digits are skipped.
///
/// # Errors
///
/// Fails with a message that says which numbers are valid.
pub fn parse_number(text: &str) -> Result<u128, String> {
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

/// Reads the number of an identifier of a series, in one of its forms: `4711`, `GBP:4711`, or the UUID.
///
/// # Errors
///
/// Fails with a message that shows the valid forms.
pub fn parse_serial(text: &str, serials: &Serials) -> Result<u128, String> {
    let number = parse_number(text).ok().or_else(|| {
        let ext = match dce::parse_lenient(text) {
            Ok(uuid) => Ext::from_uuid(uuid, false).ok()?,
            Err(_) => extuuid::parse(text).ok()?,
        };
        match ext.value() {
            Value::Serial { number, .. } if serials.ext(number) == Some(ext) => Some(number),
            _ => None,
        }
    });
    number.ok_or_else(|| format!("expected a number such as 42, {}:42, or a UUID of this series", serials.name()))
}

/// An identifier of a space, and the form in which the user wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedId {
    /// The number.
    pub value: u128,
    /// Whether the user wrote the identifier as a UUID, with all 128 bits.
    pub is_uuid: bool,
}

impl TypedId {
    /// Returns the identifier if it fits the width of the space.
    ///
    /// # Errors
    ///
    /// Fails with a message that states both widths in bits.
    pub fn within(self, space: &str, bits: u32) -> Result<u128, String> {
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

/// Reads an identifier of a space: a number, a UUID, or a uid11. Eleven digits are read as a number, not as a uid11.
///
/// # Errors
///
/// Fails with a message that states the problem and the valid forms.
pub fn parse_id(text: &str) -> Result<TypedId, String> {
    // Without hyphens, 32 digits could be a number.
    if text.contains('-')
        && let Ok(uuid) = dce::parse_lenient(text)
    {
        return Ok(TypedId { value: uuid.as_u128(), is_uuid: true });
    }
    parse_number_or_uid11(text).map(|value| TypedId { value, is_uuid: false })
}

/// Reads an identifier of this space, of `bits` bits. In a space that writes its identifiers as uid11s, 11 characters are
/// a uid11, even if all are digits.
///
/// # Errors
///
/// Fails with a message that states the problem and the valid forms.
pub fn parse_id_in(text: &str, space: &str, bits: u32, is_uid11: bool) -> Result<u128, String> {
    match text.parse::<Uid11>() {
        Ok(uid11) if is_uid11 => Ok(uid11.get().into()),
        _ => parse_id(text)?.within(space, bits),
    }
}

/// Returns the problem of a number as a spreadsheet shows a long one: 1.29704E+19.
pub(crate) fn rounded(text: &str) -> Option<String> {
    let (digits, exponent) = text.split_once(['e', 'E'])?;
    let is_rounded = digits.contains(['.', ','])
        && digits.replacen(',', ".", 1).parse::<f64>().is_ok()
        && exponent.parse::<u8>().is_ok();
    is_rounded.then(|| {
        format!(
            "{text:?} is a rounded number, so its last digits are lost: expected all digits (a spreadsheet keeps them in columns with \
             the format text)"
        )
    })
}

fn parse_number_or_uid11(text: &str) -> Result<u128, String> {
    if let Some(problem) = rounded(text) {
        return Err(problem);
    }
    let is_uid11 =
        text.len() == 11 && !text.starts_with("0x") && !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if is_uid11 {
        return match Uid11::parse(text) {
            Ok(uid11) => Ok(uid11.get().into()),
            Err(error) => Err(format!("{text:?} is neither a number, such as 42 or 0x2a, nor a uid11: {error}")),
        };
    }
    parse_number(text).map_err(|error| {
        let shown = shortened(text);
        if let Some(problem) = nearly_uuid(text) {
            return format!("{text:?} is not a valid identifier: {problem}");
        }
        if let Ok(uuid) = dce::parse_lenient(text) {
            return format!(
                "{text:?} is not a number: write a UUID with its hyphens, {uuid}, and other digits after 0x"
            );
        }
        format!("{shown:?} is not a valid identifier: {error} (a UUID and the 11 characters of a uid11 are also valid)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_long_text_is_shortened_in_messages() {
        for (text, expected) in [
            ("", String::new()),
            ("é", "é".to_owned()),
            (&"é".repeat(100), "é".repeat(100)),
            (&"é".repeat(101), "é".repeat(100) + "..."),
        ] {
            assert_eq!(shortened(text), expected);
        }
        assert!(parse_id(&"a".repeat(60_000)).is_err_and(|error| error.len() < 300));
    }

    #[test]
    fn ok_the_number_of_a_series_has_three_forms() {
        let serials = Serials::new("GBP", None).expect("a symbol");
        let uuid = |number| serials.ext(number).map(|ext| ext.to_uuid().to_string()).expect("a number");
        for text in ["2001", "2_001", "GBP:2001", &uuid(2001), &uuid(2001).to_uppercase()] {
            assert_eq!(parse_serial(text, &serials), Ok(2001), "{text}");
        }
        let eur = Serials::new("EUR", None).expect("a symbol").ext(2001).map(|ext| ext.to_uuid().to_string());
        for text in ["EUR:2001", "GBP", "GBP:", "x", "-1", &eur.expect("a number"), &Uuid::nil().to_string()] {
            let expected = "expected a number such as 42, GBP:42, or a UUID of this series";
            assert_eq!(parse_serial(text, &serials), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn err_a_rounded_number_has_lost_digits() {
        for text in ["1.29704E+19", "1.2970366E+19", "4.5e7", "1,29704E+19"] {
            let read = parse_id(text).expect_err("rounded");
            let inspected = crate::inspect(text, &crate::Reading::default()).expect_err("rounded").message;
            for error in [read, inspected] {
                assert!(error.contains("its last digits are lost"), "{error}");
            }
        }
        assert!(
            parse_id("1.2970E.+19").is_err_and(|error| error.contains("is neither a number, such as 42 or 0x2a, nor"))
        );
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
            assert_eq!(parse_number(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn err_numbers() {
        for text in
            ["", "_", "_1", "1_", "0x", "-1", "+1", "1e6", "0b1", "1 2", "٣", "340282366920938463463374607431768211456"]
        {
            assert!(parse_number(text).is_err(), "{text}");
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
    fn err_identifiers() {
        for text in ["", "x", "5Jxqwr73FD0", "zzzzzzzzzzz", "5Jxqwr73FDSS"] {
            assert!(parse_id(text).is_err(), "{text}");
        }
    }
}
