//! Keys: short, human-readable paths such as `slot/07`.
//!
//! Operators read keys in error messages and type them into tools, so a key is printable text. Scans return keys in the
//! byte order of their UTF-8 form.

use std::borrow::Cow;
use std::fmt;

/// The maximum length of a key in bytes.
///
/// Kent's longest keys, those of request IDs in deeply delegated spaces, have at most 236 bytes. The limit exists
/// because sled keeps whole keys in its index nodes, and etcd keeps them in memory.
pub const KEY_BYTES_MAX: usize = 255;

/// The name of one stored value: 1 to [`KEY_BYTES_MAX`] bytes of UTF-8 without control characters.
///
/// ```
/// use kent_store::Key;
///
/// const SLOTS: Key = Key::from_static("slot/");
/// let slot = Key::new(format!("slot/{:02}", 7))?;
/// assert!(slot.starts_with(&SLOTS));
/// assert_eq!(slot.to_string(), "slot/07");
/// # Ok::<(), kent_store::InvalidKey>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Cow<'static, str>);

impl Key {
    /// The empty path, which is a prefix of every key. Use it only with [`Store::scan`](crate::Store::scan): no value
    /// can be stored under it.
    pub const ROOT: Key = Key(Cow::Borrowed(""));

    /// Creates a key from a string that is computed at run time.
    ///
    /// # Errors
    ///
    /// Fails if the string is empty, is longer than [`KEY_BYTES_MAX`] bytes, or has a control character.
    pub fn new(path: impl Into<String>) -> Result<Self, InvalidKey> {
        let path = path.into();
        check(&path)?;
        Ok(Self(Cow::Owned(path)))
    }

    /// Creates a key from a string that is known at compile time.
    ///
    /// # Panics
    ///
    /// Panics if the string is not a valid key (see [`Key::new`]) or not printable ASCII. In a `const`, this is a
    /// compile-time error.
    #[must_use]
    pub const fn from_static(path: &'static str) -> Self {
        let bytes = path.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= KEY_BYTES_MAX, "a key is 1 to KEY_BYTES_MAX bytes long");
        let mut at = 0;
        while at < bytes.len() {
            assert!(bytes[at] >= b' ' && bytes[at] <= b'~', "a static key is printable ASCII");
            at += 1;
        }
        Self(Cow::Borrowed(path))
    }

    /// Returns the path as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if this key starts with `prefix`, byte for byte. End a prefix with `/`, because `slot/1` is a
    /// prefix of `slot/12`.
    #[must_use]
    pub fn starts_with(&self, prefix: &Key) -> bool {
        self.0.starts_with(prefix.as_str())
    }

    /// Returns true for [`Key::ROOT`].
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.0)
    }
}

impl TryFrom<&str> for Key {
    type Error = InvalidKey;

    fn try_from(path: &str) -> Result<Self, InvalidKey> {
        Self::new(path)
    }
}

/// Reasons that a string is not a valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The string is empty.
    #[error("a key must have at least one byte")]
    Empty,
    /// The string is too long.
    #[error("a key must have at most {KEY_BYTES_MAX} bytes, but this one has {bytes}")]
    TooLong {
        /// The length of the string in bytes.
        bytes: usize,
    },
    /// The string has a control character.
    #[error("a key must not have control characters, but this one has {character:?} at byte {at}")]
    Control {
        /// The first control character.
        character: char,
        /// The offset of the character in bytes.
        at: usize,
    },
}

fn check(path: &str) -> Result<(), InvalidKey> {
    if path.is_empty() {
        return Err(InvalidKey::Empty);
    }
    if path.len() > KEY_BYTES_MAX {
        return Err(InvalidKey::TooLong { bytes: path.len() });
    }
    match path.char_indices().find(|(_, character)| character.is_control()) {
        Some((at, character)) => Err(InvalidKey::Control { character, at }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_keys() {
        let longest = "k".repeat(KEY_BYTES_MAX);
        for path in ["a", "slot/07", "space/default/region/Köln", " ", longest.as_str()] {
            assert_eq!(Key::new(path).map(|key| key.to_string()), Ok(path.to_owned()));
        }
    }

    #[test]
    fn err_keys() {
        #[track_caller]
        fn check(path: &str, expected: InvalidKey) {
            assert_eq!(Key::new(path), Err(expected));
        }
        check("", InvalidKey::Empty);
        check(&"k".repeat(KEY_BYTES_MAX + 1), InvalidKey::TooLong { bytes: KEY_BYTES_MAX + 1 });
        check("slot/\n7", InvalidKey::Control { character: '\n', at: 5 });
        check("\0", InvalidKey::Control { character: '\0', at: 0 });
        check("ä\u{85}", InvalidKey::Control { character: '\u{85}', at: 2 });
    }

    #[test]
    fn static_keys_equal_other_keys() {
        const KEY: Key = Key::from_static("meta/layout");
        assert_eq!(Key::new("meta/layout"), Ok(KEY));
        assert!(KEY.starts_with(&Key::ROOT) && !KEY.is_root() && Key::ROOT.is_root());
    }

    #[test]
    #[should_panic = "printable ASCII"]
    fn err_static_control() {
        let _ = Key::from_static("a\tb");
    }
}
