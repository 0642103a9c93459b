//! Limits of a principal: how fast it may take identifiers and make calls, and how much it may have open at once.

use alloc::{format, string::String};
use core::{fmt, num::NonZeroU64, str::FromStr};

use kent_ids::grouped;
use thiserror::Error;

/// The kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKind {
    /// Identifiers per second.
    Ids,
    /// Calls per second. Each message of an `AllocateStream` call counts as a call too.
    Calls,
    /// Open `AllocateStream` calls.
    Streams,
    /// Open connections.
    Connections,
}

/// The limits of a principal. A kind without a limit is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits([Option<NonZeroU64>; LimitKind::ALL.len()]);

/// A string that is not a limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadLimit(String);

/// The largest limit.
pub const LIMIT_MAX: u64 = 1_000_000_000_000;

impl LimitKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Ids, Self::Calls, Self::Streams, Self::Connections];

    /// The name of the kind, such as `ids`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Calls => "calls",
            Self::Streams => "streams",
            Self::Connections => "connections",
        }
    }

    /// Whether the limit is a number per second.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Ids | Self::Calls)
    }
}

impl Limits {
    /// The limit of this kind.
    #[inline]
    pub const fn get(&self, kind: LimitKind) -> Option<NonZeroU64> {
        self.0[kind as usize]
    }

    /// The same limits, with `limit` for this kind.
    #[must_use]
    pub const fn with(mut self, kind: LimitKind, limit: Option<NonZeroU64>) -> Self {
        self.0[kind as usize] = limit;
        self
    }

    /// These limits, plus those of `other` for the kinds that have no limit here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(core::array::from_fn(|kind| self.0[kind].or(other.0[kind])))
    }

    /// The greater limit of each kind. If only one of the two is limited, its limit applies.
    #[must_use]
    pub fn greatest(self, other: Self) -> Self {
        Self(core::array::from_fn(|kind| self.0[kind].max(other.0[kind])))
    }

    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Parses a limit such as `ids=10k/s`, and returns these limits with that limit added.
    ///
    /// # Errors
    ///
    /// [`BadLimit`].
    pub fn and(self, text: &str) -> Result<Self, BadLimit> {
        let shown = || text.chars().take(SHOWN_MAX).collect::<String>();
        let bad = || {
            BadLimit(format!(
                "{:?} is not a limit: use ids=10k/s, calls=500/s, streams=10 or connections=20, with a number from 1 to {} (k, M and G \
                 stand for thousands, millions and billions)",
                shown(),
                grouped(LIMIT_MAX)
            ))
        };
        let (name, number) = text.split_once('=').ok_or_else(bad)?;
        let kind = LimitKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(bad)?;
        let number = match kind.is_rate() {
            true => number.strip_suffix("/s").ok_or_else(bad)?,
            false => number,
        };
        let limit = parse_number(number).filter(|limit| limit.get() <= LIMIT_MAX).ok_or_else(bad)?;
        match self.get(kind) {
            None => Ok(self.with(kind, Some(limit))),
            Some(_) => {
                let shown = shown();
                Err(BadLimit(format!(
                    "{name} is limited twice: {shown:?} is the second limit; give it once, such as {shown}"
                )))
            }
        }
    }
}

/// Reads `500`, `10_000` or `10k`.
fn parse_number(text: &str) -> Option<NonZeroU64> {
    const UNITS: [(char, u64); 3] = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let with_unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (digits, factor) = with_unit.unwrap_or((text, 1));
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit()) && !digits.ends_with('_');
    let plain: String = digits.chars().filter(|digit| *digit != '_').collect();
    let number: u64 = plain.parse().ok().filter(|_| is_number)?;
    NonZeroU64::new(number.checked_mul(factor)?)
}

/// Errors quote at most this many characters of an input.
const SHOWN_MAX: usize = 80;

/// `ids=10_000/s, streams=10`.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = LimitKind::ALL.into_iter().filter_map(|kind| Some((kind, self.get(kind)?)));
        for (at, (kind, limit)) in limits.enumerate() {
            let (before, per) = (if at == 0 { "" } else { ", " }, if kind.is_rate() { "/s" } else { "" });
            write!(f, "{before}{}={}{per}", kind.name(), grouped(limit))?;
        }
        Ok(())
    }
}

/// Parses limits separated by commas; an empty string sets no limits.
impl FromStr for Limits {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let limits = text.split(',').map(str::trim);
        let none = text.trim().is_empty();
        limits.filter(|_| !none).try_fold(Self::default(), Self::and)
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn limits(text: &str) -> Limits {
        text.parse().expect("limits")
    }

    #[test]
    fn ok_limits_are_read_and_written() {
        for (text, written) in [
            ("", ""),
            ("ids=10k/s", "ids=10_000/s"),
            ("streams=10,ids=1M/s", "ids=1_000_000/s, streams=10"),
            (
                "ids=1_000G/s, calls=1/s, streams=10, connections=1k",
                "ids=1_000_000_000_000/s, calls=1/s, streams=10, connections=1_000",
            ),
        ] {
            assert_eq!(limits(text).to_string(), written);
            assert_eq!(limits(written), limits(text));
        }
    }

    #[test]
    fn err_other_texts() {
        for text in [
            "ids",
            "ids=",
            "ids=10",
            "ids=0/s",
            "ids=/s",
            "ids=k/s",
            "ids=-1/s",
            "ids=+1/s",
            "ids=1.5/s",
            "ids=10/m",
            "ids=10 /s",
            "ids=1_/s",
            "ids=_1/s",
            "ids=1001G/s",
            "ids=99999999999999999999/s",
            "streams=1/s",
            "streams=0",
            "id=1/s",
            "IDS=1/s",
            "ids=1/s,",
            ",",
        ] {
            let error = text.parse::<Limits>().expect_err(text).to_string();
            assert!(error.contains("use ids=10k/s, calls=500/s"), "{text}: {error}");
        }
        let twice = "ids=1/s,ids=2/s".parse::<Limits>().expect_err("twice").to_string();
        assert_eq!(twice, "ids is limited twice: \"ids=2/s\" is the second limit; give it once, such as ids=2/s");
    }

    #[test]
    fn ok_limits_are_combined_by_their_kinds() {
        let (own, roles) = (limits("ids=5/s,streams=1"), limits("ids=9/s,calls=3/s"));
        assert_eq!(own.or(roles), limits("ids=5/s,calls=3/s,streams=1"));
        assert_eq!(own.greatest(roles), limits("ids=9/s,calls=3/s,streams=1"));
        assert!(Limits::default().is_empty() && !own.is_empty());
    }
}
