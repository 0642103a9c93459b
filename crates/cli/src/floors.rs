//! Files of floors: for each source, the greatest identifier that another generator may have issued.
//!
//! Each line is a JSON object: `{"source": "region:orders", "floor": 4711}`. Empty lines are ignored.

use std::collections::BTreeMap;

use kent_ids::{Source, SourceError};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// One line of a file of floors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// The number of the line, from 1.
    pub(crate) line: usize,
    pub(crate) source: Source,
    /// The greatest identifier in use or, for a time-based source, also a time.
    pub(crate) text: String,
}

/// Why a file of floors cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum BadFloors {
    #[error("line {line}: {problem}; a line has the form {{\"source\": \"region:orders\", \"floor\": 4711}}")]
    Malformed { line: usize, problem: String },
    #[error("line {line}: the floor of {name} is a JSON number; write it as a string, in quotation marks")]
    NotText { line: usize, name: String },
    #[error("line {line}: {error}")]
    BadSource { line: usize, error: SourceError },
    #[error("lines {first} and {second} both have a floor for {name}")]
    Twice { first: usize, second: usize, name: String },
    #[error("there is no floor in it")]
    Empty,
}

/// The maximum length of a line in bytes.
const LINE_BYTES_MAX: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    source: String,
    floor: Value,
}

/// Parses a file of floors.
pub(crate) fn parse(text: &str) -> Result<Vec<Floor>, BadFloors> {
    let (mut floors, mut lines) = (Vec::new(), BTreeMap::new());
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let malformed = |problem: String| BadFloors::Malformed { line: number, problem };
        if line.len() > LINE_BYTES_MAX {
            return Err(malformed(format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        if !line.trim_start().starts_with('{') {
            return Err(malformed("the line is not a JSON object".to_owned()));
        }
        let Line { source, floor } = serde_json::from_str(line).map_err(|error| malformed(problem_of(&error)))?;
        let source: Source = source.parse().map_err(|error| BadFloors::BadSource { line: number, error })?;
        if floor.is_number() && matches!(source, Source::Format(_) | Source::Layout(_)) {
            return Err(BadFloors::NotText { line: number, name: source.to_string() });
        }
        let text = match floor {
            Value::String(text) => text,
            // Numbers keep all their digits, because serde_json does not convert them.
            Value::Number(number) if number.as_str().bytes().all(|digit| digit.is_ascii_digit()) => number.to_string(),
            other => {
                return Err(malformed(format!(
                    "the floor is {other}, but must be a whole number from 0 on, or a string"
                )));
            }
        };
        if let Some(first) = lines.insert(source.to_string(), number) {
            return Err(BadFloors::Twice { first, second: number, name: source.to_string() });
        }
        floors.push(Floor { line: number, source, text });
    }
    if floors.is_empty() { Err(BadFloors::Empty) } else { Ok(floors) }
}

/// Describes an error of JSON by its column only, because the caller names the line.
fn problem_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&end) {
        Some(problem) => format!("column {}: {problem}", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_floors_are_numbers_or_strings() {
        let file = "{\"source\": \"region:orders\", \"floor\": 340282366920938463463374607431768211455}\n\n\
                    {\"source\": \"serial:GBP\", \"floor\": \"12\"}\n";
        let floors = parse(file).expect("a file");
        let shown: Vec<_> = floors.iter().map(|floor| (floor.source.to_string(), floor.text.as_str())).collect();
        let max = "340282366920938463463374607431768211455";
        assert_eq!(shown, [("region:orders".to_owned(), max), ("serial:GBP".to_owned(), "12")]);
    }

    #[test]
    fn err_the_line_is_named() {
        for (file, expected) in [
            ("", "there is no floor in it"),
            ("\n\n", "there is no floor in it"),
            (
                "[\"serial:GBP\", 77]",
                "line 1: the line is not a JSON object; a line has the form {\"source\": \"region:orders\", \"floor\": 4711}",
            ),
            (
                "\u{feff}{\"source\": \"xid\", \"floor\": 15}",
                "line 1: the floor of xid is a JSON number; write it as a string, in quotation marks",
            ),
            (
                "{\"source\": \"serial:GBP\", \"floor\": 1.5}",
                "line 1: the floor is 1.5, but must be a whole number from 0 on, or a string; a line has the form {\"source\": \
                 \"region:orders\", \"floor\": 4711}",
            ),
            (
                "{\"source\": \"region:a\", \"floor\": -1}",
                "line 1: the floor is -1, but must be a whole number from 0 on, or a string; a line has the form {\"source\": \
                 \"region:orders\", \"floor\": 4711}",
            ),
            (
                "{\"source\": \"region:a\", \"floor\": 1}\n\n{\"source\": \"region:a@default\", \"floor\": 2}",
                "lines 1 and 3 both have a floor for region:a",
            ),
        ] {
            assert_eq!(parse(file).expect_err(file).to_string(), expected);
        }
        let unknown = parse("{\"source\": \"nosuch\", \"floor\": 1}").expect_err("an unknown source");
        assert!(unknown.to_string().starts_with("line 1: there is no source \"nosuch\""), "{unknown}");
        let other = parse("{\"source\": \"xid\", \"flor\": 1}").expect_err("an unknown field");
        assert!(other.to_string().starts_with("line 1: column 24: unknown field `flor`"), "{other}");
        let missing = parse("{\"source\": \"xid\", \"floor\": }").expect_err("a missing value");
        assert!(missing.to_string().starts_with("line 1: column 28: expected value; a line has"), "{missing}");
    }
}
