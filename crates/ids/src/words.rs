//! Numbers in messages for people: digits in groups, and nouns in the singular or the plural.

use alloc::{
    format,
    string::{String, ToString},
};

/// Formats a decimal number with its digits in groups of three, in a form that `kent` can read: 1_099_511_627_776.
pub fn grouped(number: impl ToString) -> String {
    let decimal = number.to_string();
    let first = match decimal.len() % 3 {
        0 => 3,
        rest => rest,
    };
    let mut grouped = String::with_capacity(decimal.len() * 4 / 3);
    for (index, digit) in decimal.chars().enumerate() {
        if index >= first && (index - first) % 3 == 0 {
            grouped.push('_');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a count and its noun in the singular or plural: "1 region", "1_024 regions".
pub fn counted(count: impl ToString, noun: &str) -> String {
    let ending = if noun.ends_with("sh") || noun.ends_with('x') { "es" } else { "s" };
    match count.to_string().as_str() {
        "1" => format!("1 {noun}"),
        count => format!("{} {noun}{ending}", grouped(count)),
    }
}

/// Formats a count, its noun, and "is" or "are": "1 suffix is", "0 suffixes are".
pub fn counted_be(count: impl ToString, noun: &str) -> String {
    let count = count.to_string();
    format!("{} {}", counted(&count, noun), if count == "1" { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_digits_are_grouped() {
        for (number, expected) in [(0, "0"), (100, "100"), (1023, "1_023"), (1_000_000, "1_000_000")] {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn ok_nouns_are_singular_or_plural() {
        for (count, expected) in [(0, "0 regions"), (1, "1 region"), (2, "2 regions"), (1_000_000, "1_000_000 regions")]
        {
            assert_eq!(counted(count, "region"), expected);
        }
        for (noun, expected) in [("flush", "2 flushes"), ("suffix", "2 suffixes")] {
            assert_eq!(counted(2, noun), expected);
        }
        assert_eq!(
            (counted_be(1, "suffix").as_str(), counted_be(0, "suffix").as_str()),
            ("1 suffix is", "0 suffixes are")
        );
    }
}
