//! What a check found: counts, and the first examples of each problem; as text or as one JSON object.

use std::collections::{BinaryHeap, HashMap};

use serde_json::{Value, json};

use super::sort::{Place, Record};
use crate::failure::Failure;
use crate::number::{counted, grouped, percent};
use crate::output::{Out, Palette, Role};
use crate::table::{Table, facts};

/// The number of examples of each problem.
const EXAMPLES: usize = 10;
/// The number of formats or regions to print for people.
const LABELS: usize = 30;

/// A problem of single lines: the number of lines, and the first of them.
#[derive(Debug, Default)]
pub(super) struct Problem {
    count: u64,
    first: Vec<Example>,
}

#[derive(Debug)]
struct Example {
    place: Place,
    text: String,
    reason: String,
}

impl Problem {
    /// Counts a line, whose text is needed only for the first ones.
    pub(super) fn add(&mut self, place: Place, text: &str, reason: String) {
        self.count += 1;
        if self.first.len() < EXAMPLES {
            self.first.push(Example { place, text: kent_codec::shortened(text).into_owned(), reason });
        }
    }
}

/// Identifiers that occur more than once. Receives the records in order.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// The number of different identifiers.
    distinct: u64,
    /// The number of identifiers that occur more than once.
    repeated: u64,
    /// The number of lines that repeat an identifier.
    lines: u64,
    current: Option<Group>,
    /// The identifiers that are repeated first; the last of them on top.
    first: BinaryHeap<Group>,
}

/// The records of one identifier. Ordered by the line that repeats it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    second: Place,
    first: Record,
    times: u64,
}

impl Duplicates {
    pub(super) fn add(&mut self, record: &Record) {
        match &mut self.current {
            Some(group) if group.first.is_same(record) => {
                if group.times == 1 {
                    group.second = record.place();
                }
                group.times += 1;
            }
            _ => {
                self.end_group();
                self.current = Some(Group { second: record.place(), first: *record, times: 1 });
            }
        }
    }

    fn end_group(&mut self) {
        let Some(group) = self.current.take() else { return };
        self.distinct += 1;
        if group.times == 1 {
            return;
        }
        self.repeated += 1;
        self.lines += group.times - 1;
        if self.first.len() < EXAMPLES || self.first.peek().is_some_and(|last| group < *last) {
            self.first.push(group);
        }
        if self.first.len() > EXAMPLES {
            self.first.pop();
        }
    }

    /// Returns the numbers of different identifiers, of repeated identifiers and of lines that repeat one.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (self.distinct, self.repeated, self.lines)
    }

    /// Returns the first two lines of the identifiers that are repeated first, and how often each occurs.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<(u64, u64, u64)> {
        let groups = self.first.clone().into_sorted_vec();
        groups.iter().map(|group| (group.first.place().line, group.second.line, group.times)).collect()
    }

    /// Ends the last group.
    pub(super) fn finish(mut self) -> Self {
        self.end_group();
        self
    }
}

/// How many identifiers are different.
#[derive(Debug)]
pub(super) enum Distinct {
    Exactly(Duplicates),
    /// An estimate, and its relative standard error.
    About(u64, f64),
}

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The number of identifiers.
    pub(super) read: u64,
    /// The number of identifiers of each format or region.
    pub(super) labels: HashMap<String, u64>,
    pub(super) invalid: Problem,
    pub(super) never_issued: Problem,
    pub(super) below: Problem,
    pub(super) distinct: Option<Distinct>,
    /// Whether floors were given.
    pub(super) has_floors: bool,
    /// The names of the files, by their index in places.
    pub(super) files: Vec<String>,
    /// The heading of the labels.
    pub(super) heading: &'static str,
}

/// Returns the text of a record's identifier, if its value determines it.
pub(super) type TextOf<'a> = &'a dyn Fn(&Record) -> Option<String>;

impl Report {
    pub(super) fn count(&mut self, label: &str) {
        self.read += 1;
        match self.labels.get_mut(label) {
            Some(count) => *count += 1,
            None => {
                self.labels.insert(label.to_owned(), 1);
            }
        }
    }

    /// Returns whether the files have no lines.
    pub(super) fn is_empty(&self) -> bool {
        self.read == 0 && self.invalid.count == 0
    }

    /// Returns whether nothing is wrong.
    pub(super) fn is_ok(&self) -> bool {
        let repeated = match &self.distinct {
            Some(Distinct::Exactly(duplicates)) => duplicates.repeated,
            Some(Distinct::About(..)) | None => 0,
        };
        repeated + self.invalid.count + self.never_issued.count + self.below.count == 0
    }

    pub(super) fn print(mut self, text: TextOf<'_>, out: &mut Out) -> Result<(), Failure> {
        let mut labels: Vec<_> = std::mem::take(&mut self.labels).into_iter().collect();
        labels.sort_by(|(one, count), (other, more)| more.cmp(count).then_with(|| one.cmp(other)));
        let groups = self.take_groups();
        if out.is_json() {
            return out.json(&self.to_json(&labels, &groups, text));
        }
        let shown = self.render(&labels, &groups, text, out.palette());
        out.text(&shown)
    }

    /// Returns the identifiers that are repeated first, in the order of the lines that repeat them.
    fn take_groups(&mut self) -> Vec<Group> {
        match &mut self.distinct {
            Some(Distinct::Exactly(duplicates)) => std::mem::take(&mut duplicates.first).into_sorted_vec(),
            Some(Distinct::About(..)) | None => Vec::new(),
        }
    }

    fn at(&self, place: Place) -> String {
        format!("{}:{}", self.name(place), place.line)
    }

    fn name(&self, place: Place) -> &str {
        self.files.get(place.file as usize).map_or("", String::as_str)
    }

    fn render(&self, labels: &[(String, u64)], groups: &[Group], text: TextOf<'_>, palette: Palette) -> String {
        let paint = |is_wrong: bool, text: String| match is_wrong {
            true => palette.paint(Role::Bad, &text),
            false => text,
        };
        let problem = |problem: &Problem, what| {
            let count = if problem.count == 0 { "none".to_owned() } else { counted(problem.count, what) };
            paint(problem.count > 0, count)
        };
        let distinct = match &self.distinct {
            Some(Distinct::Exactly(found)) if found.repeated == 0 => "none".to_owned(),
            Some(Distinct::Exactly(found)) => {
                let (ids, lines) = (counted(found.repeated, "identifier"), counted(found.lines, "extra line"));
                paint(true, format!("{ids} more than once: {lines}"))
            }
            Some(Distinct::About(..)) | None => "not checked (--quick)".to_owned(),
        };
        let mut rows = vec![("read", counted(self.read, "identifier"))];
        if let Some(Distinct::About(estimate, error)) = self.distinct {
            rows.push((
                "different",
                format!("about {}, with a standard error of {}", grouped(estimate), percent(error)),
            ));
        }
        rows.extend([
            ("not identifiers", problem(&self.invalid, "line")),
            ("duplicates", distinct),
            ("never issued", problem(&self.never_issued, "identifier")),
        ]);
        if self.has_floors {
            rows.push(("below a floor", problem(&self.below, "identifier")));
        }
        let mut shown = facts(&rows, palette);
        if !labels.is_empty() {
            let mut table = Table::new([self.heading, ">IDENTIFIERS"]);
            labels.iter().take(LABELS).for_each(|(label, count)| table.row([label.into(), grouped(count).into()]));
            shown.push('\n');
            shown.push_str(&table.render(palette));
            if labels.len() > LABELS {
                shown.push_str(&format!("and {} more, which --json shows\n", grouped(labels.len() - LABELS)));
            }
        }
        let lines = |problem: &Problem, is_quoted: bool| -> Vec<String> {
            let line = |Example { place, text, reason }: &Example| match (is_quoted, text.is_empty()) {
                (_, true) => format!("{}: {reason}", self.at(*place)),
                (true, false) => format!("{}: {text:?}: {reason}", self.at(*place)),
                (false, false) => format!("{}: {text}: {reason}", self.at(*place)),
            };
            problem.first.iter().map(line).collect()
        };
        let repeated = groups.iter().map(|group| {
            let text = text(&group.first).map(|text| format!(" {text}:")).unwrap_or_default();
            let more = if group.times > 2 { format!(", {} times in all", grouped(group.times)) } else { String::new() };
            format!("{}:{text} the same as {}{more}", self.at(group.second), self.at(group.first.place()))
        });
        let all = match &self.distinct {
            Some(Distinct::Exactly(found)) => found.repeated,
            Some(Distinct::About(..)) | None => 0,
        };
        for (title, count, lines) in [
            ("not identifiers", self.invalid.count, lines(&self.invalid, true)),
            ("duplicates", all, repeated.collect()),
            ("never issued", self.never_issued.count, lines(&self.never_issued, false)),
            ("below a floor", self.below.count, lines(&self.below, false)),
        ] {
            if lines.is_empty() {
                continue;
            }
            let part = match lines.len() as u64 == count {
                true => title.to_owned(),
                false => format!("{title}, the first {} of {}", lines.len(), grouped(count)),
            };
            shown.push_str(&format!("\n{}\n", palette.paint(Role::Heading, &part)));
            lines.iter().for_each(|line| shown.push_str(&format!("  {line}\n")));
        }
        shown
    }

    fn to_json(&self, labels: &[(String, u64)], groups: &[Group], text: TextOf<'_>) -> Value {
        let place = |place: Place| json!({"file": self.name(place), "line": place.line});
        let problem = |problem: &Problem| {
            let first = problem.first.iter().map(
                |it| json!({"file": self.name(it.place), "line": it.place.line, "text": it.text, "reason": it.reason}),
            );
            json!({"count": problem.count, "first": first.collect::<Value>()})
        };
        let (distinct, duplicates) = match &self.distinct {
            Some(Distinct::Exactly(found)) => {
                let first = groups.iter().map(|group| {
                    let places = [place(group.first.place()), place(group.second)];
                    json!({"id": text(&group.first), "times": group.times, "places": places})
                });
                let first: Value = first.collect();
                let repeated = json!({"identifiers": found.repeated, "extra_lines": found.lines, "first": first});
                (json!({"count": found.distinct, "standard_error": 0.0}), repeated)
            }
            Some(Distinct::About(estimate, error)) => {
                (json!({"count": estimate, "standard_error": error}), Value::Null)
            }
            None => (Value::Null, Value::Null),
        };
        let label = self.heading.to_lowercase();
        let labels = labels.iter().map(|(name, count)| json!({&label: name, "identifiers": count}));
        json!({
            "ok": self.is_ok(),
            "identifiers": self.read,
            "distinct": distinct,
            format!("{label}s"): labels.collect::<Value>(),
            "not_identifiers": problem(&self.invalid),
            "duplicates": duplicates,
            "never_issued": problem(&self.never_issued),
            "below_floor": if self.has_floors { problem(&self.below) } else { Value::Null },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Report {
        let mut report = Report { files: vec!["a.txt".to_owned()], heading: "FORMAT", ..Report::default() };
        for label in ["uuidv7", "xid", "uuidv7", "uuidv7"] {
            report.count(label);
        }
        let mut duplicates = Duplicates::default();
        for (value, line) in [(1, 1), (1, 5), (2, 2), (3, 3), (3, 4), (3, 6)] {
            duplicates.add(&Record::new(value, 0, Place { file: 0, line }));
        }
        report.distinct = Some(Distinct::Exactly(duplicates.finish()));
        report.invalid.add(Place { file: 0, line: 7 }, "hello", "it is a word".to_owned());
        report
    }

    #[test]
    fn ok_a_report_for_people() {
        let mut report = example();
        let labels = [("uuidv7".to_owned(), 3), ("xid".to_owned(), 1)];
        let groups = report.take_groups();
        let shown = report.render(&labels, &groups, &|record| Some(record.value().to_string()), Palette::PLAIN);
        assert_eq!(
            shown,
            "\
read             4 identifiers
not identifiers  1 line
duplicates       2 identifiers more than once: 3 extra lines
never issued     none

FORMAT  IDENTIFIERS
uuidv7            3
xid               1

not identifiers
  a.txt:7: \"hello\": it is a word

duplicates
  a.txt:4: 3: the same as a.txt:3, 3 times in all
  a.txt:5: 1: the same as a.txt:1
"
        );
    }

    #[test]
    fn ok_a_report_for_programs() {
        let mut report = example();
        let groups = report.take_groups();
        assert_eq!(
            report.to_json(&[("xid".to_owned(), 1)], &groups[..1], &|_| None),
            json!({
                "ok": false, "identifiers": 4, "distinct": {"count": 3, "standard_error": 0.0},
                "formats": [{"format": "xid", "identifiers": 1}],
                "not_identifiers": {"count": 1, "first": [{"file": "a.txt", "line": 7, "text": "hello", "reason": "it is a word"}]},
                "duplicates": {"identifiers": 2, "extra_lines": 3, "first": [
                    {"id": null, "times": 3, "places": [{"file": "a.txt", "line": 3}, {"file": "a.txt", "line": 4}]},
                ]},
                "never_issued": {"count": 0, "first": []},
                "below_floor": null,
            })
        );
    }

    #[test]
    fn ok_only_the_first_examples_are_kept() {
        let mut duplicates = Duplicates::default();
        for value in 0..100_u32 {
            for line in [1000 - u64::from(value), 2000 - u64::from(value)] {
                duplicates.add(&Record::new(value.into(), 0, Place { file: 0, line }));
            }
        }
        let duplicates = duplicates.finish();
        let first: Vec<_> = duplicates.first.into_sorted_vec().iter().map(|group| group.second.line).collect();
        assert_eq!(first, (1901..=1910).collect::<Vec<_>>());
    }
}
