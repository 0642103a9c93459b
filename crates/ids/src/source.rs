//! Sources: what identifiers are asked from, by the name that people and programs use.

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use thiserror::Error;

use crate::format::Format;

/// A format, or a region of a space.
///
/// As text: the format's token (`uuidv7`), or `region:NAME` for the space `default`, or `region:NAME@SPACE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A format that can be minted.
    Format(Format),
    /// A region's suffixes.
    Region {
        /// The region's name.
        name: String,
        /// The space's name.
        space: String,
    },
}

/// The space of a region that names none.
pub const DEFAULT_SPACE: &str = "default";

/// A text that names no source.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    /// Neither a format nor a region.
    #[error("{token:?} is no source; sources are {} and region:NAME[@SPACE]", tokens())]
    Unknown {
        /// What was given.
        token: String,
    },
    /// The name of a region or space is none.
    #[error("the {what} {name:?} is no name: a name is 1 to 63 of a-z A-Z 0-9 - _ . and begins with a letter or digit")]
    BadName {
        /// "region" or "space".
        what: &'static str,
        /// What was given.
        name: String,
    },
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(token: &str) -> Result<Self, SourceError> {
        if let Some(format) = Format::by_token(token) {
            return Ok(Self::Format(format));
        }
        let Some(region) = token.strip_prefix("region:") else {
            return Err(SourceError::Unknown { token: token.chars().take(SHOWN_MAX).collect() });
        };
        let (name, space) = region.split_once('@').unwrap_or((region, DEFAULT_SPACE));
        Ok(Self::Region { name: check_name("region", name)?, space: check_name("space", space)? })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(format) => f.write_str(format.token()),
            Self::Region { name, space } if space == DEFAULT_SPACE => write!(f, "region:{name}"),
            Self::Region { name, space } => write!(f, "region:{name}@{space}"),
        }
    }
}

/// How much of a wrong name an error repeats, in characters.
const SHOWN_MAX: usize = 64;

fn check_name(what: &'static str, name: &str) -> Result<String, SourceError> {
    let mut octets = name.bytes();
    let starts = octets.next().is_some_and(|first| first.is_ascii_alphanumeric());
    if starts && name.len() <= 63 && octets.all(|octet| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet)) {
        return Ok(name.to_owned());
    }
    Err(SourceError::BadName { what, name: name.chars().take(SHOWN_MAX).collect() })
}

fn tokens() -> String {
    Format::all().map(|format| format.token().to_string()).collect::<Vec<_>>().join(", ")
}
