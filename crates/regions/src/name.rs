//! Names of spaces and regions.

use alloc::string::String;

use thiserror::Error;

/// The longest name, in octets.
pub const NAME_BYTES_MAX: usize = 63;

/// A text that is no name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{shown:?} is no name: a name is 1 to 63 of a-z A-Z 0-9 - _ . and begins with a letter or digit")]
pub struct BadName {
    shown: String,
}

/// Checks a name: 1 to 63 of `a-z A-Z 0-9 - _ .`, beginning with a letter or digit.
///
/// # Errors
///
/// [`BadName`], which shows the beginning of what was given.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let starts = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let fits = name.len() <= NAME_BYTES_MAX;
    if starts && fits && name.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet)) {
        return Ok(());
    }
    Err(BadName { shown: name.chars().take(NAME_BYTES_MAX + 1).collect() })
}

/// The pure table's looser rule: not empty, and no `/`, which separates the tables of delegated regions.
pub(crate) fn is_table_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_and_err_names() {
        for name in ["a", "7", "orders", "A-b_c.9", &"n".repeat(63)] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
        for name in ["", "-a", ".a", "a b", "a/b", "a\u{7}", "ä", &"n".repeat(64)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
