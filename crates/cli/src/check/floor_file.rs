//! Reads the file of floors.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use kent_codec::{Detector, parse_serial};
use kent_ids::{Format, Series, Source, UnixNanos};

use super::floors::Floors;
use super::identify::Reading;
use crate::failure::Failure;
use crate::floors::{self, Floor};

/// The content of the file.
#[derive(Debug, Default)]
pub(super) struct FloorFile {
    pub(super) floors: Floors,
    /// The sources whose identifiers the check cannot recognize, with the reason.
    pub(super) skipped: Vec<String>,
}

impl FloorFile {
    /// Reads a file.
    pub(super) fn load(path: &Path, reading: &Reading) -> Result<Self, Failure> {
        let bad = |fault: String| Failure::Usage(format!("{}: {fault}", path.display()));
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text, reading).map_err(bad)
    }

    fn parse(text: &str, reading: &Reading) -> Result<Self, String> {
        let mut file = Self::default();
        for floor in floors::parse(text).map_err(|bad| bad.to_string())? {
            let line = floor.line;
            file.add(floor, reading).map_err(|fault| format!("line {line}: {fault}"))?;
        }
        Ok(file)
    }

    fn add(&mut self, Floor { source, text, .. }: Floor, reading: &Reading) -> Result<(), String> {
        let name = source.to_string();
        let named = format!("{text} of {name}");
        let needs = match (&source, reading) {
            (Source::Format(format), Reading::Guess(_) | Reading::Named(_)) => {
                self.floors.times.insert(format.token().to_owned(), (time_of(&text, *format)?, named));
                return Ok(());
            }
            (Source::Layout(_), Reading::Layout { name: layout, detector, .. }) if *layout == name => {
                let time = match parse_time(&text) {
                    Some(time) => time,
                    None => read_time(&text, detector)?,
                };
                self.floors.times.insert(name, (time, named));
                return Ok(());
            }
            (Source::Series(Series::Serial(_)), Reading::Series { series, serials, .. }) if *series == name => {
                self.floors.values.insert(name, (parse_serial(&text, serials)?, named));
                return Ok(());
            }
            (Source::Region { name: region, space }, Reading::Space { name: other, form, bits, .. })
                if space == other =>
            {
                self.floors.values.insert(region.clone(), (form.value(&text, space, *bits)?, named));
                return Ok(());
            }
            (Source::Series(Series::FullRand), _) => return Err(format!("{name} has no order, so it has no floor")),
            (Source::Region { space, .. }, _) => format!("--space {space}"),
            (Source::Layout(_) | Source::Series(_), _) => format!("--as {name}"),
            (Source::Format(_), _) => format!("no --space and no other --as than {name}"),
        };
        self.skipped.push(format!("the floor of {name} is not checked, which needs {needs}"));
        Ok(())
    }
}

/// Reads the floor of a format: a time, or an identifier with a time.
fn time_of(floor: &str, format: Format) -> Result<UnixNanos, String> {
    if let Some(time) = parse_time(floor) {
        return Ok(time);
    }
    let detector = Detector::named(format.token()).map_err(|error| error.message)?;
    read_time(floor, &detector)
}

fn read_time(floor: &str, detector: &Detector) -> Result<UnixNanos, String> {
    let expected = "expected an identifier, or a time in UTC such as 2026-01-01T00:00:00Z";
    let found =
        detector.detect(floor).map_err(|error| format!("the floor {floor:?}: {}; {expected}", error.message))?;
    found.time.ok_or_else(|| format!("the floor {floor:?} has no time that kent can read; {expected}"))
}

fn parse_time(text: &str) -> Option<UnixNanos> {
    let time = humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i128::try_from(time.as_nanos()).ok().map(UnixNanos::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess() -> Reading {
        Reading::Guess(Detector::guess())
    }

    #[test]
    fn ok_a_floor_is_a_time_or_an_identifier() {
        for floor in ["2026-01-01T00:00:00Z", "019b76da-a800-7000-8000-000000000000"] {
            let text = format!("\n{{\"source\": \"uuidv7\", \"floor\": \"{floor}\"}}\n");
            let floors = FloorFile::parse(&text, &guess()).expect(floor).floors;
            let at = 1_767_225_600_000_000_000;
            for (nanos, is_below) in [(at - 1, true), (at, true), (at + 1_000_000, false)] {
                assert_eq!(floors.of_time("uuidv7", UnixNanos::new(nanos)).is_some(), is_below, "{floor}: {nanos}");
            }
            assert_eq!(floors.of_time("uuidv1", UnixNanos::new(0)), None);
        }
    }

    #[test]
    fn ok_sources_that_the_check_does_not_read_are_named() {
        let text = "{\"source\": \"region:orders\", \"floor\": 4711}\n{\"source\": \"serial:GBP\", \"floor\": \"9\"}";
        let file = FloorFile::parse(text, &guess()).expect("two floors");
        assert_eq!(
            file.skipped,
            [
                "the floor of region:orders is not checked, which needs --space default",
                "the floor of serial:GBP is not checked, which needs --as serial:GBP",
            ]
        );
    }

    #[test]
    fn err_lines() {
        for (text, fault) in [
            ("{}", "missing field `source`"),
            ("uuidv7", "not a JSON object"),
            (r#"{"source": "nonsense", "floor": "1"}"#, "there is no source"),
            (r#"{"source": "uuidv7", "floor": true}"#, "must be a whole number from 0 on, or a string"),
            (r#"{"source": "uuidv7", "floor": "1"}"#, "expected an identifier, or a time"),
            (r#"{"source": "uuidv7", "floor": "2026-01-01"}"#, "expected an identifier, or a time"),
            (r#"{"source": "uid11-fullrand", "floor": "1"}"#, "has no order"),
            (r#"{"source": "uuidv8-draft01-48", "floor": "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0"}"#, "has no time"),
        ] {
            let error = FloorFile::parse(text, &guess()).map(drop).expect_err(text);
            assert!(error.starts_with("line 1: ") && error.contains(fault), "{text}: {error}");
        }
    }
}
