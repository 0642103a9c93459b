//! The sources of identifiers, and the constants that the blocks of a region share.

use alloc::{
    borrow::ToOwned,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use thiserror::Error;

use crate::{
    error::{CodecError, ErrorCode},
    formats::Format,
    series::Series,
    slot::ClusterKey,
    stride::Stride,
};

/// The constants of a block that holds suffixes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionConstants {
    /// The prefix followed by zeros, as a number of `bits` bits: identifier = base + suffix.
    pub base: u128,
    /// The width n of the space's identifiers: 1 to 128.
    pub bits: u8,
    /// The width s of the suffix: 0 to `bits`.
    pub suffix_bits: u8,
    /// The region's stable number in its space.
    pub number: u64,
    /// The revision of the table under which the block was granted: the fencing token.
    pub revision: u64,
    /// Which suffix each position of the block has.
    pub suffixes: Suffixes,
}

/// Which suffix of a region a position has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffixes {
    /// The suffix is the number of the stride whose index is the position. If the stride is [`Stride::EVERY`], suffix =
    /// position.
    Counted(Stride),
    /// The suffix is a permutation of the position with this key.
    Scrambled(ClusterKey),
}

impl Suffixes {
    /// Each position is a suffix.
    pub const EVERY: Self = Self::Counted(Stride::EVERY);

    /// Returns which values of the region's counter are positions; in a scrambled order, all are.
    pub const fn stride(self) -> Stride {
        match self {
            Self::Counted(stride) => stride,
            Self::Scrambled(_) => Stride::EVERY,
        }
    }
}

/// The space of a region whose source does not name a space.
pub const DEFAULT_SPACE: &str = "default";
const REGION_SCHEME: &str = "region:";
const LAYOUT_SCHEME: &str = "layout:";

/// A source of identifiers: a format, a series, a region of a space's prefix table, or a custom layout. Its text is the
/// token of the format or series, `region:NAME`, `region:NAME@SPACE`, or `layout:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A format whose identifiers hold the time.
    Format(Format),
    /// Identifiers made from a durable counter.
    Series(Series),
    /// A region.
    Region {
        /// The region's name.
        name: String,
        /// The name of the region's space.
        space: String,
    },
    /// A custom layout with this name: see [`layout`](crate::layout).
    Layout(String),
}

/// An error from parsing a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    /// No format or series has this token.
    #[error(
        "there is no source {token:?}: {}use {}, serial:SYMBOL, region:NAME, region:NAME@SPACE or layout:NAME",
        hint(token),
        known_tokens()
    )]
    Unknown {
        /// The token.
        token: String,
    },
    /// The symbol cannot have serial numbers.
    #[error("{token:?}: {error}")]
    BadSymbol {
        /// The token.
        token: String,
        /// The reason.
        error: CodecError,
    },
    /// The name of the region, the space or the layout is invalid.
    #[error(
        "{what} {name:?}: {fault}; a name has 1 to {MAX_NAME_LEN} of a-z A-Z 0-9 - _ . and begins with a letter or a digit, as in {}:orders",
        if *what == "layout" { "layout" } else { "region" }
    )]
    BadName {
        /// `region`, `space` or `layout`.
        what: &'static str,
        /// The name.
        name: String,
        /// The fault in the name.
        fault: NameFault,
    },
    /// The space comes before the name of the region. Permissions have this form, but sources do not.
    #[error(
        "write a region of another space as region:NAME@SPACE, here {REGION_SCHEME}{name}@{space}{}",
        if_delegated(name, space)
    )]
    SpaceFirst {
        /// The name of the region.
        name: String,
        /// The space.
        space: String,
    },
}

/// A fault in the name of a region, a space or a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameFault {
    /// The name is empty.
    #[error("the name is empty")]
    Empty,
    /// The name is too long.
    #[error("a name has at most {MAX_NAME_LEN} characters, but this one has {len}")]
    TooLong {
        /// The length of the name in bytes.
        len: usize,
    },
    /// The first character is not a letter or a digit.
    #[error("a name must begin with one of a-z A-Z 0-9")]
    BadStart,
    /// A character is not allowed in a name.
    #[error("{symbol:?} is not one of a-z A-Z 0-9 - _ .")]
    BadSymbol {
        /// The first character that is not allowed.
        symbol: char,
    },
}

/// The maximum length of the name of a region, a space or a layout, in characters.
pub const MAX_NAME_LEN: usize = 63;

/// Checks the name of a region, a space or a layout: 1 to 63 characters from `a-z A-Z 0-9 - _ .`, of which the first is a letter
/// or a digit.
///
/// # Errors
///
/// Returns the first fault, in the order of [`NameFault`].
pub fn check_name(name: &str) -> Result<(), NameFault> {
    let first = name.chars().next().ok_or(NameFault::Empty)?;
    if name.len() > MAX_NAME_LEN {
        return Err(NameFault::TooLong { len: name.len() });
    }
    if matches!(first, '-' | '_' | '.') {
        return Err(NameFault::BadStart);
    }
    let allowed = |symbol: &char| symbol.is_ascii_alphanumeric() || matches!(symbol, '-' | '_' | '.');
    name.chars().find(|symbol| !allowed(symbol)).map_or(Ok(()), |symbol| Err(NameFault::BadSymbol { symbol }))
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if let Some(name) = text.strip_prefix(LAYOUT_SCHEME) {
            let bad = |fault| SourceError::BadName { what: "layout", name: shown(name), fault };
            return check_name(name).map(|()| Self::Layout(name.to_owned())).map_err(bad);
        }
        match text.strip_prefix(REGION_SCHEME) {
            Some(region) => parse_region(region),
            None => match Format::by_token(text) {
                Some(format) => Ok(Self::Format(format)),
                None => text.parse().map(Self::Series).map_err(|error: CodecError| match error.code() {
                    ErrorCode::BadFormat => SourceError::Unknown { token: shown(text) },
                    _ => SourceError::BadSymbol { token: shown(text), error },
                }),
            },
        }
    }
}

/// Returns how to write a region of the space of a delegated region, if `space` may be the name of that region.
fn if_delegated(name: &str, space: &str) -> String {
    if space.split('/').next() == Some(DEFAULT_SPACE) {
        return String::new();
    }
    format!(", or {REGION_SCHEME}{name}@{DEFAULT_SPACE}/{space} if {space} is a delegated region")
}

fn parse_region(text: &str) -> Result<Source, SourceError> {
    if let Some((space, name)) = text.rsplit_once('/')
        && space.split('/').chain([name]).all(|name| check_name(name).is_ok())
    {
        return Err(SourceError::SpaceFirst { name: shown(name), space: shown(space) });
    }
    let (name, space) = text.split_once('@').unwrap_or((text, DEFAULT_SPACE));
    // The name of a delegated region's space is a path.
    for (what, name) in [("region", name)].into_iter().chain(space.split('/').map(|part| ("space", part))) {
        check_name(name).map_err(|fault| SourceError::BadName { what, name: shown(name), fault })?;
    }
    Ok(Source::Region { name: name.to_owned(), space: space.to_owned() })
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(format) => format.fmt(f),
            Self::Series(series) => series.fmt(f),
            Self::Region { name, space } if space == DEFAULT_SPACE => write!(f, "{REGION_SCHEME}{name}"),
            Self::Region { name, space } => write!(f, "{REGION_SCHEME}{name}@{space}"),
            Self::Layout(name) => write!(f, "{LAYOUT_SCHEME}{name}"),
        }
    }
}

impl From<Format> for Source {
    fn from(format: Format) -> Self {
        Self::Format(format)
    }
}

/// Returns the part of an input that an error quotes, so that messages stay short.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// Errors quote at most this many characters of an input: slightly more than the longest name.
const SHOWN_MAX: usize = 80;

/// Returns a hint about an unknown token, to print before the list of sources, or an empty string.
fn hint(token: &str) -> String {
    let spelled = normal(token);
    let known = || Format::all().map(|format| format.token()).chain(["uid11-fullrand"]);
    if let Some(known) = known().find(|known| normal(known) == spelled) {
        return format!("did you mean {known}? Otherwise ");
    }
    // A token such as uid11, with which the names of several formats begin, is more likely to mean these formats than a
    // region.
    let family: Vec<_> =
        known().filter(|known| known.split('-').next().map(normal).as_ref() == Some(&spelled)).collect();
    if let [several @ .., last] = &family[..]
        && !several.is_empty()
    {
        return format!("did you mean {} or {last}? Otherwise ", several.join(", "));
    }
    let wanted = match spelled.as_str() {
        "uuid4" | "uuid" | "random" | "nanoid" => {
            "random identifiers need no service: make them in your process (UUIDv4). Otherwise "
        }
        "uuid3" | "uuid5" => {
            "identifiers derived from names need no service: make them in your process or with `kent codec`. Otherwise "
        }
        "ulid" | "ksuid" => "did you mean uuidv7, which is also ordered by time? Otherwise ",
        "snowflake" => "did you mean uid11-snowish? Otherwise ",
        "serial" | "series" => "a series needs a symbol: serial:SYMBOL, such as serial:INVOICE. Otherwise ",
        "region" | "regions" => "a region needs a name: region:NAME, such as region:orders. Otherwise ",
        "layout" | "layouts" => "a layout needs a name: layout:NAME, such as layout:orders. Otherwise ",
        _ if check_name(token).is_ok() && !spelled.starts_with("uuid") => {
            return format!("did you mean region:{token}? Otherwise ");
        }
        _ => match token.split_once(':') {
            Some((scheme, name)) if matches!(normal(scheme).as_str(), "region" | "regions") => {
                return format!("did you mean region:{name}? Otherwise ");
            }
            Some((scheme, name)) if matches!(normal(scheme).as_str(), "layout" | "layouts") => {
                return format!("did you mean layout:{name}? Otherwise ");
            }
            Some((scheme, symbol)) if matches!(normal(scheme).as_str(), "series" | "serial" | "serials") => {
                return format!("did you mean serial:{symbol}? Otherwise ");
            }
            _ => "",
        },
    };
    wanted.to_string()
}

/// Normalizes a token: removes case, punctuation and the `v` of a version. Both `UUID-v7` and `v7` become `uuid7`.
fn normal(token: &str) -> String {
    let plain: String =
        token.chars().filter(char::is_ascii_alphanumeric).map(|symbol| symbol.to_ascii_lowercase()).collect();
    match plain.strip_prefix("uuidv").or_else(|| plain.strip_prefix('v')) {
        Some(version) if version.starts_with(|symbol: char| symbol.is_ascii_digit()) => format!("uuid{version}"),
        _ => plain,
    }
}

fn known_tokens() -> String {
    let formats = Format::all().map(|format| format.token().to_string());
    formats.chain([Series::FullRand.token()]).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, printed: &str) {
        let source: Source = text.parse().expect("a source");
        assert_eq!(source.to_string(), printed);
        assert_eq!(printed.parse(), Ok(source));
    }

    #[track_caller]
    fn check_err(text: &str, message: &str) {
        assert_eq!(text.parse::<Source>().expect_err("not a source").to_string(), message);
    }

    #[test]
    fn ok_sources_round_trip() {
        for format in Format::all() {
            check(format.token(), format.token());
        }
        check("region:orders", "region:orders");
        check("region:orders@default", "region:orders");
        check("region:0.a-B_c@Shop.1", "region:0.a-B_c@Shop.1");
        check("region:x@default/D/e", "region:x@default/D/e");
        check("layout:Orders.1", "layout:Orders.1");
        check(&"region:x@".replace('x', &"n".repeat(63)).replace('@', ""), &["region:", &"n".repeat(63)].concat());
    }

    #[test]
    fn err_names_the_fault() {
        let known =
            ["use ", &known_tokens(), ", serial:SYMBOL, region:NAME, region:NAME@SPACE or layout:NAME"].concat();
        let known = known.as_str();
        check_err("uuidv9", &["there is no source \"uuidv9\": ", known].concat());
        check_err("", &["there is no source \"\": ", known].concat());
        for (token, hint) in [
            ("uuid7", "did you mean uuidv7? Otherwise "),
            ("UUIDv7", "did you mean uuidv7? Otherwise "),
            ("uuid-v6", "did you mean uuidv6? Otherwise "),
            ("v7", "did you mean uuidv7? Otherwise "),
            ("uuidv8_draft01_60", "did you mean uuidv8-draft01-60? Otherwise "),
            ("fullrand", "did you mean region:fullrand? Otherwise "),
            ("UID11 fullrand", "did you mean uid11-fullrand? Otherwise "),
            ("uid11", "did you mean uid11-snowish, uid11-ts-seq-rand or uid11-fullrand? Otherwise "),
            (
                "uuidv8",
                "did you mean uuidv8-draft01-32, uuidv8-draft01-48, uuidv8-draft01-60 or uuidv8-draft01-64? Otherwise ",
            ),
            ("uuidv4", "random identifiers need no service: make them in your process (UUIDv4). Otherwise "),
            ("snowflake", "did you mean uid11-snowish? Otherwise "),
            ("orders", "did you mean region:orders? Otherwise "),
            ("Region:a", "did you mean region:a? Otherwise "),
            ("regions:a", "did you mean region:a? Otherwise "),
            ("series:A", "did you mean serial:A? Otherwise "),
            ("serial", "a series needs a symbol: serial:SYMBOL, such as serial:INVOICE. Otherwise "),
            ("region", "a region needs a name: region:NAME, such as region:orders. Otherwise "),
            ("layout", "a layout needs a name: layout:NAME, such as layout:orders. Otherwise "),
            ("Layouts:a", "did you mean layout:a? Otherwise "),
        ] {
            check_err(token, &["there is no source \"", token, "\": ", hint, known].concat());
        }
        check_err(
            "region:b/a",
            "write a region of another space as region:NAME@SPACE, here region:a@b, or region:a@default/b if b is a delegated region",
        );
        let delegated = "here region:sub@emea, or region:sub@default/emea if emea is a delegated region";
        check_err("region:emea/sub", &format!("write a region of another space as region:NAME@SPACE, {delegated}"));
        check_err(
            "region:default/c/a",
            "write a region of another space as region:NAME@SPACE, here region:a@default/c",
        );
        let check_err = |text: &str, message: &str| {
            let rule =
                "; a name has 1 to 63 of a-z A-Z 0-9 - _ . and begins with a letter or a digit, as in region:orders";
            check_err(text, &[message, rule].concat());
        };
        check_err("region:", "region \"\": the name is empty");
        check_err("region:a@", "space \"\": the name is empty");
        check_err("region:-a", "region \"-a\": a name must begin with one of a-z A-Z 0-9");
        check_err("region:a b", "region \"a b\": ' ' is not one of a-z A-Z 0-9 - _ .");
        check_err("region:b/a@c", "region \"b/a\": '/' is not one of a-z A-Z 0-9 - _ .");
        check_err("region:a@b@c", "space \"b@c\": '@' is not one of a-z A-Z 0-9 - _ .");
        check_err("region:é", "region \"é\": 'é' is not one of a-z A-Z 0-9 - _ .");
        let long = "n".repeat(64);
        let message = ["region \"", &long, "\": a name has at most 63 characters, but this one has 64"].concat();
        check_err(&["region:", &long].concat(), &message);
    }

    #[test]
    fn err_a_layout_has_a_name_of_its_own() {
        let rule = "a name has 1 to 63 of a-z A-Z 0-9 - _ . and begins with a letter or a digit, as in layout:orders";
        check_err("layout:", &format!("layout \"\": the name is empty; {rule}"));
        check_err("layout:a@b", &format!("layout \"a@b\": '@' is not one of a-z A-Z 0-9 - _ .; {rule}"));
    }
}
