//! Patterns that select regions by their names.

use std::{fmt, str::FromStr};

use glob::Pattern;
use kent_ids::DEFAULT_SPACE;
use serde::{Deserialize, Serialize};

/// Patterns separated by commas: `NAME` for regions of the default space, or `NAME@SPACE`, with `*`, `?` and `[...]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct RegionPatterns(Vec<RegionPattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct RegionPattern {
    region: Pattern,
    space: Option<Pattern>,
}

impl RegionPatterns {
    /// The patterns for the names of regions of this space.
    pub(crate) fn in_space(&self, space: &str) -> Vec<&Pattern> {
        let selects = |pattern: &&RegionPattern| match &pattern.space {
            Some(pattern) => pattern.matches(space),
            None => space == DEFAULT_SPACE,
        };
        self.0.iter().filter(selects).map(|pattern| &pattern.region).collect()
    }
}

/// The characters of a pattern for the names of regions, other than letters and digits.
const REGION_SYMBOLS: &str = "-_.*?[]!";
/// Like [`REGION_SYMBOLS`], for the names of spaces: `/` is allowed, because the name of a delegated region's space is
/// a path.
const SPACE_SYMBOLS: &str = "-_./*?[]!";

/// Checks the characters of a pattern. `text` is the setting with all patterns.
fn check_symbols(pattern: &str, symbols: &str, text: &str) -> Result<(), String> {
    let is_allowed = |symbol: &char| symbol.is_ascii_alphanumeric() || symbols.contains(*symbol);
    let Some(other) = pattern.chars().find(|symbol| !is_allowed(symbol)) else { return Ok(()) };
    let allowed: Vec<_> = symbols.chars().map(String::from).collect();
    // The likeliest mistake is a separator other than a comma.
    let listed = text.split([';', '|', ' ', ',']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
    let is_meant = listed != text && listed.parse::<RegionPatterns>().is_ok();
    let example = if is_meant { listed.as_str() } else { "orders-*,*@parts" };
    Err(format!(
        "{pattern:?} is not a pattern of names: {other:?} is not one of a-z A-Z 0-9 {}; write patterns with commas between them, such \
         as {example}",
        allowed.join(" ")
    ))
}

impl FromStr for RegionPatterns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |pattern: &str, symbols: &str| match Pattern::new(pattern) {
            _ if pattern.is_empty() => Err("a pattern is empty: write * for all names, such as *@parts".to_owned()),
            Ok(parsed) => check_symbols(pattern, symbols, text).map(|()| parsed),
            Err(error) => Err(format!("{pattern:?} is not a pattern ({error}): use *, ? and [...], such as orders-*")),
        };
        let pattern = |text: &str| {
            let (region, space) = text.split_once('@').map_or((text, None), |(region, space)| (region, Some(space)));
            let space = space.map(|space| parse(space, SPACE_SYMBOLS)).transpose()?;
            Ok(RegionPattern { region: parse(region, REGION_SYMBOLS)?, space })
        };
        let patterns = text.split(',').map(str::trim).map(pattern);
        if text.is_empty() { Ok(Self::default()) } else { patterns.collect::<Result<_, _>>().map(Self) }
    }
}

impl fmt::Display for RegionPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, RegionPattern { region, space }) in self.0.iter().enumerate() {
            write!(f, "{}{region}", if at == 0 { "" } else { "," })?;
            space.iter().try_for_each(|space| write!(f, "@{space}"))?;
        }
        Ok(())
    }
}

impl TryFrom<String> for RegionPatterns {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RegionPatterns> for String {
    fn from(patterns: RegionPatterns) -> Self {
        patterns.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_regions_match_by_name_and_space() {
        for (patterns, selected, others) in [
            ("", &[][..], &["a@default"][..]),
            ("*", &["a@default"], &["a@parts", "a@default/d"]),
            ("orders-?", &["orders-1@default"], &["orders-@default", "orders-12@default"]),
            ("a, b@parts", &["a@default", "b@parts"], &["b@default", "a@parts"]),
            ("*@*", &["a@default", "b@parts", "c@default/d/e"], &[]),
            ("*@default/*", &["a@default/d"], &["a@default"]),
            ("[a-c]x@[!p]*", &["bx@default"], &["bx@parts", "dx@default"]),
        ] {
            let parsed: RegionPatterns = patterns.parse().expect(patterns);
            assert_eq!(parsed.to_string(), patterns.replace(", ", ","));
            let matches = |source: &&&str| {
                let (region, space) = source.split_once('@').expect("NAME@SPACE");
                parsed.in_space(space).iter().any(|pattern| pattern.matches(region))
            };
            assert_eq!(selected.iter().find(|source| !matches(source)), None, "{patterns:?} selects");
            assert_eq!(others.iter().find(matches), None, "{patterns:?} leaves out");
        }
    }

    #[test]
    fn err_an_invalid_pattern_is_quoted() {
        for (text, expected) in [
            ("a[", "\"a[\" is not a pattern"),
            ("a,,b", "a pattern is empty"),
            ("a@", "a pattern is empty"),
            (
                "a,orders; parts",
                "\"orders; parts\" is not a pattern of names: ';' is not one of a-z A-Z 0-9 - _ . * ? [ ] !; write patterns with commas between them, such as a,orders,parts",
            ),
            (
                "region:orders",
                "':' is not one of a-z A-Z 0-9 - _ . * ? [ ] !; write patterns with commas between them, such as orders-*,*@parts",
            ),
            (
                "a@b|c",
                "'|' is not one of a-z A-Z 0-9 - _ . / * ? [ ] !; write patterns with commas between them, such as a@b,c",
            ),
            ("d/a", "'/' is not one of"),
            ("[;]", "commas between them, such as orders-*,*@parts"),
        ] {
            let error = text.parse::<RegionPatterns>().expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
