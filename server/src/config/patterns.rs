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

impl FromStr for RegionPatterns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| match Pattern::new(text) {
            Ok(pattern) if !text.is_empty() => Ok(pattern),
            Ok(_) => Err("a pattern is empty: write * for all names, such as *@parts".to_owned()),
            Err(error) => Err(format!("{text:?} is not a pattern ({error}): use *, ? and [...], such as orders-*")),
        };
        let pattern = |text: &str| {
            let (region, space) = text.split_once('@').map_or((text, None), |(region, space)| (region, Some(space)));
            Ok(RegionPattern { region: parse(region)?, space: space.map(parse).transpose()? })
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
        for (text, expected) in
            [("a[", "\"a[\" is not a pattern"), ("a,,b", "a pattern is empty"), ("a@", "a pattern is empty")]
        {
            let error = text.parse::<RegionPatterns>().expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
