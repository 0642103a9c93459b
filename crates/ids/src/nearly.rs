//! Explains what is wrong with a string that is nearly a UUID: digits are missing, extra or mistyped, hyphens are
//! misplaced, or other characters surround it.

use alloc::{format, string::String};

use crate::dce;

/// The number of digits in each group of a UUID.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
const DIGITS: usize = 32;
/// A string with fewer digits is not treated as a mistyped UUID.
const LEAST_DIGITS: usize = 24;
/// A string with more bytes is not treated as a mistyped UUID.
const MOST_BYTES: usize = 80;

/// Explains why a string that looks like a UUID is not valid, such as a wrong length or an invalid character. Returns
/// `None` if the string is a UUID, or does not look like one.
pub fn nearly_uuid(text: &str) -> Option<String> {
    const FORM: &str = "a UUID is 32 hexadecimal digits (0-9 a-f), such as 017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    if text.len() > MOST_BYTES || dce::parse_lenient(text).is_ok() {
        return None;
    }
    let is_mark = |mark: char| !mark.is_alphanumeric() && mark != '-';
    let bare = text.trim_matches(is_mark);
    let bare = bare.strip_prefix("uuid:").unwrap_or(bare);
    if bare.len() < text.len() && dce::parse_lenient(bare).is_ok() {
        return Some(format!("other characters surround the UUID: write {bare}"));
    }
    let inner = match bare.get(..9) {
        Some(head) if head.eq_ignore_ascii_case("urn:uuid:") => &bare[9..],
        _ => bare,
    };
    let digits = inner.chars().filter(char::is_ascii_hexdigit).count();
    let hyphens = inner.chars().filter(|mark| *mark == '-').count();
    let others = inner.chars().count() - digits - hyphens;
    if let Some(written) = with_hyphens(inner) {
        return Some(written);
    }
    // Without hyphens, the string could be any hexadecimal number, so its length must be almost right.
    let is_near = match hyphens {
        0 => digits.abs_diff(DIGITS) <= 2 && others <= 1 && inner.len() > DIGITS - 2,
        _ => digits >= LEAST_DIGITS && others <= 4,
    };
    if !is_near {
        return None;
    }
    if let Some((at, mark)) = inner.chars().enumerate().find(|(_, mark)| !mark.is_ascii_hexdigit() && *mark != '-') {
        let meant = match mark {
            'l' | 'I' | 'i' => "; is it a 1?",
            'o' | 'O' => "; is it a 0?",
            '\u{2010}'..='\u{2015}' | '\u{2212}' => "; write the hyphen -",
            _ => "",
        };
        return Some(format!("{mark:?}, its character {}, is not a hexadecimal digit{meant} ({FORM})", at + 1));
    }
    if digits != DIGITS {
        let (count, less) = (digits.abs_diff(DIGITS), if digits < DIGITS { "few" } else { "many" });
        let groups = inner.split('-').map(str::len);
        let wrong = groups.clone().zip(GROUPS).enumerate().find(|(_, (found, wanted))| found != wanted);
        let place = match wrong {
            Some((index, (found, wanted))) if hyphens == 4 => {
                format!(": group {} has {found} instead of {wanted}", index + 1)
            }
            _ => String::new(),
        };
        return Some(format!("it has {digits} hexadecimal digits, {count} too {less}{place} ({FORM})"));
    }
    Some(format!("its hyphens are not after the digits 8, 12, 16 and 20 ({FORM})"))
}

/// Describes the problem with a UUID that has other marks in place of hyphens, such as the dashes of a word processor.
fn with_hyphens(text: &str) -> Option<String> {
    let is_dash = |mark: char| matches!(mark, '_' | '\u{2010}'..='\u{2015}' | '\u{2212}');
    let (at, mark) = text.chars().enumerate().find(|(_, mark)| is_dash(*mark))?;
    let written: String = text.chars().map(|mark| if is_dash(mark) { '-' } else { mark }).collect();
    dce::parse_lenient(&written)
        .is_ok()
        .then(|| format!("{mark:?}, its character {}, is not the hyphen of a UUID: write {written}", at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_a_text_that_is_nearly_a_uuid_is_explained() {
        for (text, expected) in [
            (
                "01a1fb46-21bf-7000-8000-3cf49345d9a",
                "it has 31 hexadecimal digits, 1 too few: group 5 has 11 instead of 12",
            ),
            (
                "01a1fb46-21bf-7000-8000-3cf49345d9a8a",
                "it has 33 hexadecimal digits, 1 too many: group 5 has 13 instead",
            ),
            ("01a1fb46-21b-7000-8000-3cf49345d9a8", "1 too few: group 2 has 3 instead of 4"),
            ("0la1fb46-21bf-7000-8000-3cf49345d9a8", "'l', its character 2, is not a hexadecimal digit; is it a 1?"),
            ("01a1fb46-21bf-7OOO-8000-3cf49345d9a8", "'O', its character 16, is not a hexadecimal digit; is it a 0?"),
            ("01a1fb46-21bf-7000-8000-3cf49345d9ag", "'g', its character 36, is not a hexadecimal digit (a UUID is"),
            ("01a1fb4621bf700080003cf49345d9a", "it has 31 hexadecimal digits, 1 too few (a UUID is"),
            ("01a1fb46-21bf-7000-80003cf49345d9a8", "its hyphens are not after the digits 8, 12, 16 and 20"),
            (
                "01a1fb46\u{2013}21bf\u{2013}7000\u{2013}8000-3cf49345d9a8",
                "its character 9, is not the hyphen of a UUID: write 01a1fb46-21bf-7000-8000-3cf49345d9a8",
            ),
            (
                "01a1fb46_21bf_7000_8000_3cf49345d9a8",
                "'_', its character 9, is not the hyphen of a UUID: write 01a1fb46-",
            ),
            (
                "01a1fb46\u{2013}21bf\u{2013}7000\u{2013}8000\u{2013}3cf49345d9a8",
                "'\u{2013}', its character 9, is not the",
            ),
            ("01a1fb46-21bf-7000-8000-3cf49345d9a8,", "write 01a1fb46-21bf-7000-8000-3cf49345d9a8"),
            ("\"01a1fb46-21bf-7000-8000-3cf49345d9a8\"", "write 01a1fb46-21bf-7000-8000-3cf49345d9a8"),
            ("{01a1fb46-21bf-7000-8000-3cf49345d9a8", "write 01a1fb46-21bf-7000-8000-3cf49345d9a8"),
            ("uuid:01a1fb46-21bf-7000-8000-3cf49345d9a8", "write 01a1fb46-21bf-7000-8000-3cf49345d9a8"),
            ("{01a1fb46-21bf-7000-8000-3cf49345d9a}", "it has 31 hexadecimal digits, 1 too few"),
            ("urn:uuid:01a1fb46-21bf-7000-8000-3cf49345d9a", "it has 31 hexadecimal digits, 1 too few"),
        ] {
            let said = nearly_uuid(text);
            assert!(said.as_ref().is_some_and(|said| said.contains(expected)), "{text}: {said:?}");
        }
    }

    #[test]
    fn ok_other_texts_are_left_alone() {
        for text in [
            "",
            "-",
            "42",
            "xyz",
            "5Jxqwr73FDS",
            "01a1fb46-21bf-7000-8000-3cf49345d9a8",
            "{01a1fb46-21bf-7000-8000-3cf49345d9a8}",
            "01a1fb4621bf700080003cf49345d9a8",
            "507f1f77bcf86cd799439011",
            "340282366920938463463374607431768211456",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "\u{661}\u{662}",
        ] {
            assert_eq!(nearly_uuid(text), None, "{text}");
        }
    }
}
