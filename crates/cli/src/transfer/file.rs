//! The file of `kent table export`: a header, then one region per line, outer regions before inner ones.
//!
//! The parser rejects everything it does not know, because a region whose counter is mistaken for 0 would issue the
//! same identifiers again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    str::FromStr,
};

use kent_proto::v1::{self, Region, Space, region, space};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
};
use thiserror::Error;

use crate::names;
use crate::number::counted;

/// The version of the format that this program writes and reads.
const VERSION: u32 = 1;

/// A parsed file. All checks that do not need the table have passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) header: Header,
    pub(crate) regions: Vec<Entry>,
}

/// The first line, which identifies the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    format: Format,
    version: u32,
    pub(crate) space: String,
    /// The width of the identifiers. In a space of another width, the same prefix yields other identifiers.
    pub(crate) bits: u32,
    pub(crate) text_form: TextForm,
    pub(crate) revision: u64,
    /// The number of regions in the file. A truncated file is rejected, because its missing regions would leave their
    /// prefixes free for others.
    pub(crate) regions: usize,
}

/// The text form of a space's identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TextForm {
    Decimal,
    Hex,
    Uid11,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Format {
    #[serde(rename = "kent-table")]
    Table,
}

/// A region and its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) zone_bits: u32,
    pub(crate) suffix_bits: u32,
    pub(crate) kind: Kind,
    pub(crate) subregion_bits: u32,
    #[serde(deserialize_with = "present")]
    pub(crate) parent: Option<String>,
    pub(crate) order: Order,
    pub(crate) delegated: bool,
    /// Suffixes below this number are issued or reserved. `null` in a file from an earlier revision, which lacks the
    /// counters.
    #[serde(deserialize_with = "present")]
    pub(crate) reserved: Option<Decimal<u128>>,
    /// Whether suffixes from `reserved` on may have been issued, because the store was restored from a backup.
    pub(crate) needs_floor: bool,
    /// Identifiers per second.
    pub(crate) pace: Decimal<u64>,
    pub(crate) sealed: bool,
    pub(crate) owner: String,
    pub(crate) description: String,
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "present")]
    pub(crate) policy: Option<Policy>,
    pub(crate) former_prefixes: Vec<FormerPrefix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Open,
    Partial,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    Sequential,
    Scrambled,
    External,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    #[serde(deserialize_with = "present")]
    auto_expand: Option<AutoExpand>,
    #[serde(deserialize_with = "present")]
    cap: Option<Decimal<u128>>,
    min_chunk: Decimal<u64>,
    max_chunk: Decimal<u64>,
    strict: bool,
    #[serde(deserialize_with = "present")]
    stride: Option<Stride>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stride {
    step: u32,
    offset: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AutoExpand {
    at_percent: u32,
    by_bits: u32,
    max_suffix_bits: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FormerPrefix {
    prefix: String,
    from_revision: u64,
    to_revision: u64,
    reserved: Decimal<u128>,
}

/// A number that may exceed 2^53, written as a string of decimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal<T>(pub(crate) T);

impl<T: Display> Serialize for Decimal<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Decimal<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map(Self)
            .map_err(|_| D::Error::custom(format!("{text:?} is not a decimal number, such as \"1024\"")))
    }
}

/// Deserializes an optional value whose key must be present, possibly with the value `null`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// Reasons why a file cannot be imported.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum BadFile {
    #[error("the file is empty; expected a header, as `kent table export` writes it")]
    Empty,
    #[error(
        "line 1: expected a header with format \"kent-table\" and version {VERSION}, as `kent table export` writes it: {0}"
    )]
    Header(String),
    #[error(
        "line 1: the format version is {found}, but this kent supports only version {VERSION}; import with a newer kent"
    )]
    Newer { found: u64 },
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: String },
    #[error(
        "line 1 announces {}, but the file has {found}: it was cut short, or lines were removed. Export the table again, or correct \
         \"regions\" in line 1 if that is intended",
        counted(announced, "region")
    )]
    Count { announced: usize, found: usize },
}

impl File {
    /// Parses a whole file.
    ///
    /// # Errors
    ///
    /// [`BadFile`] if any line is incomplete or has unknown fields.
    pub(crate) fn parse(text: &str) -> Result<Self, BadFile> {
        // Some editors write a byte order mark.
        let text = text.trim_start_matches('\u{feff}');
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
        let (_, first) = lines.next().ok_or(BadFile::Empty)?;
        let header = header(first, lines.peek().is_none())?;
        let (mut regions, mut names) = (Vec::new(), BTreeSet::new());
        while let Some((index, line)) = lines.next() {
            let bad = |problem| BadFile::Line { line: index + 1, problem };
            let entry: Entry = read(line, lines.peek().is_none()).map_err(bad)?;
            entry.check(header.bits).map_err(bad)?;
            if !names.insert(entry.name.clone()) {
                return Err(bad(format!("duplicate region {:?}", entry.name)));
            }
            regions.push(entry);
        }
        if regions.len() != header.regions {
            return Err(BadFile::Count { announced: header.regions, found: regions.len() });
        }
        Ok(Self { header, regions })
    }
}

/// Reads a line. An error names the field.
fn read<T: DeserializeOwned>(line: &str, is_last: bool) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_str(line);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        match error.inner().is_data() && path.starts_with(|first: char| first.is_alphabetic()) {
            true => format!("{path}: {}", problem(error.inner())),
            false => problem(error.inner()) + ended(error.inner(), line, is_last),
        }
    })?;
    json.end().map_err(|error| problem(&error))?;
    Ok(read)
}

/// Returns the probable reason if a line ends within its JSON object, or an empty string for another error.
fn ended(error: &serde_json::Error, line: &str, is_last: bool) -> &'static str {
    match (error.is_eof(), is_last, line.starts_with('[')) {
        (false, ..) => "",
        (true, true, _) => ": the file was cut short; export the table again",
        (true, false, false) => ": the header and each region must be one line, as `jq -c . FILE` writes them",
        (true, false, true) => ": the header and each region must be one line, as `jq -c '.[]' FILE` writes them",
    }
}

/// For each type name in serde's errors, what the field must be.
const WANTED: [(&str, &str); 4] = [
    // Every `u32` of a region in the file is a number of bits or a percentage.
    ("expected u32", "expected a whole number from 0 to 128, without quotes"),
    ("expected a boolean", "expected true or false"),
    ("expected a map", "expected an object in braces"),
    ("expected a sequence", "expected a list in brackets"),
];

/// Returns the problem of a line, without the line number. serde_json parses each line separately, so its line number
/// is always 1.
fn problem(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let wanted = WANTED.iter().find(|(expected, _)| text.contains(&format!("{expected}{place}")));
    let mut text = wanted.map_or(text, |(_, wanted)| format!("{wanted}{place}"));
    if error.is_eof() {
        // serde_json sees only one line, so what it calls the end of the file is the end of the line.
        text = text.replace("EOF while parsing", "it ends within");
    }
    match text.strip_suffix(&place) {
        Some(problem) if error.column() > 0 => format!("{problem} at column {}", error.column()),
        Some(problem) => problem.to_owned(),
        None => text,
    }
}

fn header(line: &str, is_last: bool) -> Result<Header, BadFile> {
    // Check the version first, because a newer header may have fields that this program does not know.
    let value: serde_json::Value = read(line, is_last).map_err(BadFile::Header)?;
    match value["version"].as_u64() {
        Some(found) if found > VERSION.into() => Err(BadFile::Newer { found }),
        _ => read(line, is_last).map_err(BadFile::Header),
    }
}

impl Header {
    pub(crate) fn new(space: &Space, revision: u64, regions: usize) -> Self {
        Self {
            format: Format::Table,
            version: VERSION,
            space: names::short(&space.name).to_owned(),
            bits: space.bits,
            text_form: TextForm::of(space),
            revision,
            regions,
        }
    }
}

impl TextForm {
    pub(crate) fn of(space: &Space) -> Self {
        match space.text_form() {
            space::TextForm::Unspecified | space::TextForm::Decimal => Self::Decimal,
            space::TextForm::Hex => Self::Hex,
            space::TextForm::Uid11 => Self::Uid11,
        }
    }

    /// Returns the option of `kent space create` preceded by a space character, or an empty string for the default.
    pub(crate) fn option(self) -> String {
        match self {
            Self::Decimal => String::new(),
            other => format!(" --text {}", other.name()),
        }
    }

    /// Returns the value of `kent space create --text`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Decimal => "decimal",
            Self::Hex => "hex",
            Self::Uid11 => "uid11",
        }
    }
}

impl Entry {
    /// Converts a region. A region that was listed at an earlier revision of its table has no `reserved`.
    ///
    /// # Errors
    ///
    /// Returns a message that names the invalid field of the daemon's response.
    pub(crate) fn of(region: &Region) -> Result<Self, String> {
        let parent = (!region.parent.is_empty()).then(|| names::short(&region.parent).to_owned());
        Ok(Self {
            name: names::short(&region.name).to_owned(),
            prefix: region.prefix.clone(),
            zone_bits: region.zone_bits,
            suffix_bits: region.suffix_bits,
            kind: match region.kind() {
                region::Kind::Open => Kind::Open,
                region::Kind::Partial => Kind::Partial,
                region::Kind::Closed => Kind::Closed,
                region::Kind::Unspecified => return Err(format!("{} has no kind", region.name)),
            },
            subregion_bits: region.subregion_bits,
            parent,
            order: match region.order() {
                region::Order::Sequential | region::Order::Unspecified => Order::Sequential,
                region::Order::Scrambled => Order::Scrambled,
                region::Order::External => Order::External,
            },
            delegated: !region.delegated_space.is_empty(),
            reserved: optional(&region.reserved)?,
            needs_floor: region.needs_floor,
            pace: Decimal(region.pace),
            sealed: region.sealed,
            owner: region.owner.clone(),
            description: region.description.clone(),
            labels: region.labels.clone().into_iter().collect(),
            policy: region.policy.as_ref().map(Policy::of).transpose()?,
            former_prefixes: region.former_prefixes.iter().map(FormerPrefix::of).collect::<Result<_, _>>()?,
        })
    }

    /// Returns whether the region issues identifiers itself, so that its counter matters.
    pub(crate) fn issues(&self) -> bool {
        self.kind != Kind::Closed && !self.delegated && self.order != Order::External
    }

    /// Converts the entry to the region for an import into a space.
    pub(crate) fn message(&self, space: &str) -> Region {
        let kind = match self.kind {
            Kind::Open => region::Kind::Open,
            Kind::Partial => region::Kind::Partial,
            Kind::Closed => region::Kind::Closed,
        };
        let order = match self.order {
            Order::Sequential => region::Order::Sequential,
            Order::Scrambled => region::Order::Scrambled,
            Order::External => region::Order::External,
        };
        let name = names::region(space, &self.name);
        Region {
            prefix: self.prefix.clone(),
            zone_bits: self.zone_bits,
            suffix_bits: self.suffix_bits,
            kind: kind.into(),
            subregion_bits: self.subregion_bits,
            parent: self.parent.as_deref().map(|parent| names::region(space, parent)).unwrap_or_default(),
            order: order.into(),
            delegated_space: if self.delegated { name.clone() } else { String::new() },
            reserved: self.reserved.map(|reserved| reserved.0.to_string()).unwrap_or_default(),
            needs_floor: self.needs_floor,
            pace: self.pace.0,
            sealed: self.sealed,
            owner: self.owner.clone(),
            description: self.description.clone(),
            labels: self.labels.clone(),
            policy: self.policy.as_ref().map(Into::into),
            former_prefixes: self.former_prefixes.iter().map(Into::into).collect(),
            name,
            ..Region::default()
        }
    }

    fn check(&self, bits: u32) -> Result<(), String> {
        if self.name.is_empty() || !self.prefix.bytes().all(|bit| matches!(bit, b'0' | b'1')) {
            return Err(format!(
                "expected a name, and a prefix of zeros and ones; found name {:?} and prefix {:?}",
                self.name, self.prefix
            ));
        }
        let width = self.prefix.len() as u64 + u64::from(self.zone_bits) + u64::from(self.suffix_bits);
        if self.kind != Kind::Closed && width != u64::from(bits) {
            return Err(format!("prefix, zone and suffix have {width} bits in total, but the space has {bits}"));
        }
        if self.pace.0 == 0 {
            return Err("the pace is 0; it must be at least 1".to_owned());
        }
        Ok(())
    }
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Partial => "partial",
            Self::Closed => "closed",
        }
    }
}

impl Policy {
    fn of(policy: &v1::Policy) -> Result<Self, String> {
        let auto_expand = policy.auto_expand.as_ref().map(|auto| AutoExpand {
            at_percent: auto.at_percent,
            by_bits: auto.by_bits,
            max_suffix_bits: auto.max_suffix_bits,
        });
        Ok(Self {
            auto_expand,
            cap: optional(&policy.cap)?,
            min_chunk: Decimal(policy.min_chunk),
            max_chunk: Decimal(policy.max_chunk),
            strict: policy.strict,
            stride: policy.stride.map(|v1::Stride { step, offset }| Stride { step, offset }),
        })
    }
}

impl Policy {
    /// Returns whether the region expands automatically.
    pub(crate) const fn expands(&self) -> bool {
        self.auto_expand.is_some()
    }
}

impl From<&Policy> for v1::Policy {
    fn from(policy: &Policy) -> Self {
        Self {
            auto_expand: policy.auto_expand.map(|auto| v1::AutoExpand {
                at_percent: auto.at_percent,
                by_bits: auto.by_bits,
                max_suffix_bits: auto.max_suffix_bits,
            }),
            cap: policy.cap.map(|cap| cap.0.to_string()).unwrap_or_default(),
            min_chunk: policy.min_chunk.0,
            max_chunk: policy.max_chunk.0,
            strict: policy.strict,
            stride: policy.stride.map(|Stride { step, offset }| v1::Stride { step, offset }),
        }
    }
}

impl FormerPrefix {
    fn of(former: &v1::FormerPrefix) -> Result<Self, String> {
        let v1::FormerPrefix { prefix, from_revision, to_revision, reserved } = former.clone();
        Ok(Self { prefix, from_revision, to_revision, reserved: number(&reserved)? })
    }
}

impl From<&FormerPrefix> for v1::FormerPrefix {
    fn from(former: &FormerPrefix) -> Self {
        let FormerPrefix { prefix, from_revision, to_revision, reserved } = former.clone();
        Self { prefix, from_revision, to_revision, reserved: reserved.0.to_string() }
    }
}

fn optional(digits: &str) -> Result<Option<Decimal<u128>>, String> {
    (!digits.is_empty()).then(|| number(digits)).transpose()
}

fn number(digits: &str) -> Result<Decimal<u128>, String> {
    digits.parse().map(Decimal).map_err(|_| format!("{digits:?} is not a number below 2^128"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::describe::samples::region;

    fn line() -> Value {
        let entry = Entry::of(&region("orders", "", "01", 4, region::Kind::Open)).expect("an open region");
        serde_json::to_value(entry).expect("all maps have strings as keys")
    }

    fn file(lines: &[Value]) -> String {
        let space = Space { name: "spaces/default".to_owned(), bits: 16, ..Space::default() };
        let header = serde_json::to_value(Header::new(&space, 7, lines.len())).expect("as above");
        [&[header], lines].concat().iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn ok_a_written_file_is_read_back() {
        let read = File::parse(&file(&[line()])).expect("a valid file");
        assert_eq!((read.header.bits, read.header.revision, read.header.space.as_str()), (16, 7, "default"));
        assert_eq!(read.regions[0].reserved, Some(Decimal(512)));
        assert_eq!(serde_json::to_value(&read.regions[0]).expect("as above"), line());
    }

    #[test]
    fn ok_a_region_survives_writing_and_reading() {
        let former = v1::FormerPrefix { prefix: "0".into(), from_revision: 3, to_revision: 5, reserved: "9".into() };
        let auto_expand = Some(v1::AutoExpand { at_percent: 80, by_bits: 1, max_suffix_bits: 12 });
        let (cap, stride) = ("77".to_owned(), Some(v1::Stride { step: 3, offset: 2 }));
        let policy = v1::Policy { auto_expand, cap, min_chunk: 1, max_chunk: 5, strict: false, stride };
        let sent = Region {
            former_prefixes: vec![former],
            policy: Some(policy),
            order: region::Order::Scrambled.into(),
            sealed: true,
            needs_floor: true,
            owner: "ops".to_owned(),
            description: "d".to_owned(),
            labels: [("tier".to_owned(), "gold".to_owned())].into(),
            ..region("orders", "all", "01", 4, region::Kind::Partial)
        };
        let entry = Entry::of(&sent).expect("a region");
        let line = serde_json::to_value(&entry).expect("as above");
        let read = File::parse(&file(&[line])).expect("a valid file").regions.remove(0);
        // What the table computes itself is not in the file.
        let ignored = Region { number: 0, issued: String::new(), ..sent };
        let ignored = Region { capacity: String::new(), ultimate_capacity: String::new(), ..ignored };
        assert_eq!(read.message("default"), ignored);
        let copy = Entry::of(&read.message("staging")).expect("a region");
        assert_eq!((copy, read.message("staging").parent), (entry, "spaces/staging/regions/all".to_owned()));
    }

    #[test]
    fn err_a_file_that_was_cut_short_is_rejected() {
        let whole = file(&[line()]);
        let cut = whole.lines().next().expect("a header");
        let error = File::parse(cut).expect_err("rejected").to_string();
        assert!(error.starts_with("line 1 announces 1 region, but the file has 0"), "{error}");
        let torn = File::parse(&whole[..whole.len() - 9]).expect_err("rejected").to_string();
        assert!(torn.starts_with("line 2: it ends within") && torn.matches("line").count() == 1, "{torn}");
    }

    #[test]
    fn err_a_file_with_objects_over_several_lines_was_not_cut_short() {
        let lines: Vec<Value> =
            file(&[line()]).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let pretty = |value: &Value| serde_json::to_string_pretty(value).expect("strings as keys");
        let (header, region) = (&lines[0], &lines[1]);
        for (text, begin, command) in [
            (format!("{}\n{}\n", pretty(header), pretty(region)), "line 1: ", "`jq -c . FILE`"),
            (format!("{header}\n{}\n", pretty(region)), "line 2: ", "`jq -c . FILE`"),
            (pretty(&json!(lines)), "line 1: ", "`jq -c '.[]' FILE`"),
        ] {
            let error = File::parse(&text).expect_err("rejected").to_string();
            assert!(error.starts_with(begin) && error.contains(command) && !error.contains("cut short"), "{error}");
        }
    }

    #[test]
    fn err_unknown_and_missing_fields_are_rejected() {
        let with = |key: &str, value: Value| {
            let mut line = line();
            line[key] = value;
            line
        };
        let without = |key: &str| {
            let mut line = line();
            line.as_object_mut().expect("an object").remove(key);
            line
        };
        let cases = [
            (without("reserved"), "missing field `reserved`"),
            (with("reserved", json!("many")), "\"many\" is not a decimal number"),
            (with("reserved", json!("-1")), "not a decimal number"),
            (with("reserved", json!(5)), "reserved: invalid type: integer `5`, expected a string at column"),
            (
                with("suffix_bits", json!(-1)),
                "suffix_bits: expected a whole number from 0 to 128, without quotes at column",
            ),
            (with("sealed", json!("no")), "sealed: expected true or false at column"),
            (with("labels", json!([])), "labels: expected an object in braces at column"),
            (with("order", json!("random")), "unknown variant `random`"),
            (without("order"), "missing field `order`"),
            (without("policy"), "missing field `policy`"),
            (without("parent"), "missing field `parent`"),
            (with("color", json!("red")), "unknown field `color`"),
            (with("kind", json!("shut")), "unknown variant `shut`"),
            (with("prefix", json!("012")), "a prefix of zeros and ones"),
            (with("suffix_bits", json!(11)), "17 bits in total"),
            (with("pace", json!("0")), "the pace is 0"),
            (with("policy", json!({"strict": true})), "missing field `auto_expand`"),
        ];
        for (line, problem) in cases {
            let error = File::parse(&file(std::slice::from_ref(&line))).expect_err("rejected").to_string();
            assert!(error.starts_with("line 2: ") && error.contains(problem), "{line}: {error}");
        }
        let error = File::parse(&file(&[line(), line()])).expect_err("rejected").to_string();
        assert_eq!(error, "line 3: duplicate region \"orders\"");
    }

    #[test]
    fn err_a_header_of_another_format_is_rejected() {
        assert_eq!(File::parse("\n"), Err(BadFile::Empty));
        let newer = json!({"format": "kent-table", "version": 2, "width": 64}).to_string();
        assert_eq!(File::parse(&newer), Err(BadFile::Newer { found: 2 }));
        for first in [line().to_string(), "{}".to_owned(), "name,prefix".to_owned()] {
            assert!(matches!(File::parse(&first), Err(BadFile::Header(_))), "{first}");
        }
    }
}
