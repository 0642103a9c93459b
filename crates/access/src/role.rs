//! Roles: named sets of rights, which callers have through their tokens or certificates.

use alloc::{
    borrow::ToOwned,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use thiserror::Error;

use crate::{limits::Limits, right::Right};

/// A named set of rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// What its holders may do.
    pub rights: Vec<Right>,
    /// The names of the certificates whose callers have the role.
    pub certificates: Vec<NamePattern>,
    /// The limits of its holders. For a holder of several roles, the greatest limit of each kind applies.
    pub limits: Limits,
}

/// A pattern for the names in callers' certificates: one name, or all names with the same beginning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamePattern {
    text: String,
    is_prefix: bool,
}

/// A name that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadName(String);

/// The maximum length of the name of a role, in characters.
const ROLE_MAX: usize = 63;
/// The maximum length of the name of a token, in characters.
const TOKEN_MAX: usize = 100;
/// The maximum length of the name in a certificate, in bytes.
const CERTIFICATE_MAX: usize = 1000;

/// Checks the name of a role: 1 to 63 of `a-z 0-9 - _`.
///
/// # Errors
///
/// [`BadName`].
pub fn check_role_name(name: &str) -> Result<(), BadName> {
    let is_allowed = |symbol: char| symbol.is_ascii_lowercase() || symbol.is_ascii_digit() || "-_".contains(symbol);
    match !name.is_empty() && name.len() <= ROLE_MAX && name.chars().all(is_allowed) {
        true => Ok(()),
        false => {
            let shown: String = name.chars().take(ROLE_MAX + 1).collect();
            Err(BadName(format!("{shown:?} is not a valid role name: use 1 to {ROLE_MAX} of a-z, 0-9, - and _")))
        }
    }
}

/// Checks the name of a token: 1 to 100 printable characters.
///
/// # Errors
///
/// [`BadName`].
pub fn check_token_name(name: &str) -> Result<(), BadName> {
    let len = name.chars().count();
    match (1..=TOKEN_MAX).contains(&len) && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(BadName(format!("a token's name has 1 to {TOKEN_MAX} printable characters, such as \"orders\""))),
    }
}

impl Role {
    /// Whether callers with a certificate of this name have the role.
    pub fn has_certificate(&self, name: &str) -> bool {
        self.certificates.iter().any(|pattern| pattern.matches(name))
    }
}

impl NamePattern {
    /// Whether the pattern matches this name.
    pub fn matches(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.text) } else { name == self.text }
    }

    /// Parses the name of a certificate for a role that an operator sets. Rejects a string that can be neither a URI
    /// nor a DNS name, because no certificate would match it. In contrast, [`from_str`](Self::from_str), which reads
    /// stored roles, accepts such strings.
    ///
    /// # Errors
    ///
    /// [`BadName`].
    pub fn of_certificate(text: &str) -> Result<Self, BadName> {
        let pattern: Self = text.parse()?;
        if pattern.is_uri() || pattern.is_dns_name() {
            return Ok(pattern);
        }
        let shown: String = text.chars().take(SHOWN_MAX).collect();
        Err(BadName(format!(
            "{shown:?} is neither a URI nor a DNS name, and other names in a certificate do not count, such as its common name: use \
             a name such as spiffe://example/orders or orders.example"
        )))
    }

    /// Whether certificates with a matching URI can exist.
    fn is_uri(&self) -> bool {
        let Some((scheme, rest)) = self.text.split_once(':') else { return false };
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|symbol| symbol.is_ascii_alphanumeric() || "+-.".contains(symbol));
        // A SPIFFE ID begins with `spiffe://`, but a pattern for several names may be shorter, such as `spiffe:*`.
        let path = if scheme == "spiffe" { rest.strip_prefix(SLASHES) } else { Some(rest) };
        let is_begun = self.is_prefix && (path.is_some() || SLASHES.starts_with(rest));
        is_scheme && (is_begun || path.is_some_and(|path| !path.is_empty()))
    }

    /// Whether certificates with a matching DNS name can exist.
    fn is_dns_name(&self) -> bool {
        self.text.chars().all(|symbol| symbol.is_ascii_alphanumeric() || "-_.".contains(symbol))
    }
}

/// What follows the scheme of a SPIFFE ID.
const SLASHES: &str = "//";

impl FromStr for NamePattern {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let (plain, is_prefix) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        let is_name = (is_prefix || !plain.is_empty()) && plain.len() < CERTIFICATE_MAX;
        match is_name && plain.chars().all(|symbol| symbol.is_ascii_graphic() && symbol != '*') {
            true => Ok(Self { text: plain.to_owned(), is_prefix }),
            false => {
                let shown: String = text.chars().take(SHOWN_MAX).collect();
                Err(BadName(format!(
                    "{shown:?} is not a name in a certificate, such as spiffe://example/orders or orders.example, or \
                     spiffe://example/team-a/* for all names that begin with spiffe://example/team-a/"
                )))
            }
        }
    }
}

/// Errors quote at most this many characters of an input.
const SHOWN_MAX: usize = 80;

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}

impl From<&NamePattern> for String {
    fn from(pattern: &NamePattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_names_of_certificates() {
        let cases = [
            ("spiffe://example/orders", "spiffe://example/orders", true),
            ("spiffe://example/orders", "spiffe://example/orders2", false),
            ("spiffe://example/team-a/*", "spiffe://example/team-a/x", true),
            ("spiffe://example/team-a/*", "spiffe://example/team-b/x", false),
            ("orders.example", "orders.example", true),
            ("*", "anything", true),
        ];
        for (pattern, name, matches) in cases {
            let parsed: NamePattern = pattern.parse().expect("a pattern");
            assert_eq!(parsed.to_string(), pattern);
            assert_eq!(parsed.matches(name), matches, "{pattern} {name}");
        }
        for bad in ["", "a b", "a*b", "*.example*", "\u{e9}", &"x".repeat(2000)] {
            assert!(bad.parse::<NamePattern>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn err_a_name_that_no_certificate_can_have() {
        let good = [
            "spiffe://example/orders",
            "spiffe://*",
            "spiffe:*",
            "spi*",
            "*",
            "orders.example",
            "urn:uuid:1",
            "orders*",
        ];
        for name in good {
            assert!(NamePattern::of_certificate(name).is_ok(), "{name}");
        }
        let bad = [
            "CN=ann",
            "CN=*",
            "spiffe:/orders",
            "spiffe:/o*",
            "spiffe://",
            "ann@example.com",
            "urn:",
            "1a:b",
            "a/b",
            "",
        ];
        for name in bad {
            assert!(NamePattern::of_certificate(name).is_err(), "{name}");
        }
        let refused = NamePattern::of_certificate("CN=ann").expect_err("a common name").to_string();
        assert!(refused.starts_with("\"CN=ann\" is neither a URI nor a DNS name, and other names"), "{refused}");
        // A stored role was accepted once, and must not keep a daemon from starting.
        assert!("CN=ann".parse::<NamePattern>().is_ok());
    }

    #[test]
    fn ok_names_of_roles_and_tokens() {
        for (name, is_role, is_token) in [
            ("ops", true, true),
            ("team-a_2", true, true),
            ("", false, false),
            ("Ops", false, true),
            ("Bestellungen für alle", false, true),
            ("a\nb", false, false),
            (&"x".repeat(63), true, true),
            (&"x".repeat(64), false, true),
            (&"x".repeat(101), false, false),
        ] {
            assert_eq!(check_role_name(name).is_ok(), is_role, "{name:?}");
            assert_eq!(check_token_name(name).is_ok(), is_token, "{name:?}");
        }
    }
}
