//! `kent inspect`: explains identifiers, as JSON or with a drawing of their bits.

use std::mem;

use kent_client::Client;
use kent_codec::{Inspection, Reading, VerbError};
use kent_proto::{model::Classified, v1::Classification};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::args::InspectArgs;
use crate::bits::{self, Run};
use crate::classify;
use crate::failure::{Failure, InvalidId};
use crate::known_layout::Known;
use crate::lines::{InvalidLines, Lines};
use crate::number;
use crate::output::{Out, Palette, Role};
use crate::table::{Cell, Table, facts};

/// The number of identifiers in one request to the daemon.
const BATCH: usize = 1000;

/// The argument that means standard input.
const STDIN: &str = "-";

/// Shows every valid identifier, with its region if requested. Fails if there are invalid arguments or lines. Invalid
/// lines of standard input are reported as they are read.
/// `layout` is the custom layout in which to read the identifiers.
pub(crate) fn run(
    args: &InspectArgs,
    regions: Option<&Regions<'_>>,
    layout: Option<&Known>,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut shower = Shower { reading: args.reading(), regions, layout, shown: false, out };
    let (mut invalid, mut invalid_lines) = (Vec::new(), InvalidLines::default());
    // Consecutive arguments other than `-` are shown in batches.
    for ids in args.ids.chunk_by(|id, next| id != STDIN && next != STDIN) {
        if ids != [STDIN] {
            for batch in ids.chunks(BATCH) {
                invalid.extend(shower.show(batch)?.into_iter().map(|(_, id)| id));
            }
            continue;
        }
        let mut lines = Lines::of_stdin();
        loop {
            let (numbers, batch): (Vec<u64>, Vec<String>) =
                lines.next_batch(BATCH)?.into_iter().map(|line| (line.number, line.text)).unzip();
            if batch.is_empty() {
                break;
            }
            let mut refused = shower.show(&batch)?;
            refused.iter_mut().for_each(|(at, id)| id.line = numbers.get(*at).copied());
            shower.out.flush()?;
            let json = shower.out.is_json();
            refused.iter().for_each(|(_, id)| invalid_lines.report(&id.text, &id.render(json), json));
        }
    }
    if invalid.is_empty() { invalid_lines.finish() } else { Err(Failure::InvalidIds(invalid)) }
}

/// Shows identifiers in batches.
struct Shower<'a> {
    reading: Reading,
    regions: Option<&'a Regions<'a>>,
    layout: Option<&'a Known>,
    /// Whether an identifier has been shown.
    shown: bool,
    out: &'a mut Out,
}

impl Shower<'_> {
    /// Shows the valid identifiers, and returns the invalid ones with their positions in the list.
    fn show(&mut self, texts: &[String]) -> Result<Vec<(usize, InvalidId)>, Failure> {
        // Run in parallel, because the answers are independent and CPU-bound.
        let (reading, layout) = (&self.reading, self.layout);
        let inspect = |text: &String| match layout {
            Some(known) => known.inspect(text),
            None => kent_codec::inspect(text, reading),
        };
        let inspected: Vec<_> = texts.par_iter().map(inspect).collect();
        let places = match self.regions {
            Some(regions) => regions.of(&inspected)?,
            None => Vec::new(),
        };
        let (json, palette) = (self.out.is_json(), self.out.palette());
        let show = |(index, inspected): (usize, Result<Inspection, VerbError>)| {
            inspected.map(|inspection| show(&inspection, places.get(index).and_then(Option::as_ref), json, palette))
        };
        let answers: Vec<_> = inspected.into_par_iter().enumerate().map(show).collect();
        let mut invalid = Vec::new();
        for (at, (text, answer)) in texts.iter().zip(answers).enumerate() {
            match answer {
                Ok(answer) => {
                    if mem::replace(&mut self.shown, true) && !json {
                        self.out.text("\n")?;
                    }
                    self.out.text(&answer)?;
                }
                Err(error) => {
                    let (text, line) = (text.clone(), None);
                    invalid.push((at, InvalidId { text, line, code: error.code, message: error.message }));
                }
            }
        }
        Ok(invalid)
    }
}

/// The regions of an identifier in a space, or why it cannot be in the space.
type Place = Result<Classification, String>;

/// Classifies identifiers within a space by requests to a daemon.
pub(crate) struct Regions<'a> {
    space: &'a str,
    /// The width of the space's identifiers in bits.
    bits: u32,
    client: &'a Client,
    runtime: Runtime,
}

impl<'a> Regions<'a> {
    pub(crate) fn new(space: &'a str, client: &'a Client, runtime: Runtime) -> Result<Self, Failure> {
        let bits = runtime.block_on(async { classify::width(space, &client.connect().await?).await })?;
        Ok(Self { space, bits, client, runtime })
    }

    /// Returns the place of each valid identifier, and `None` for each invalid one.
    fn of(&self, inspected: &[Result<Inspection, VerbError>]) -> Result<Vec<Option<Place>>, Failure> {
        let ids: Vec<_> = inspected.iter().map(|it| it.as_ref().ok().map(|inspection| self.id(inspection))).collect();
        let valid = ids.iter().flatten().filter_map(|id| id.as_ref().ok().copied()).collect();
        let answers =
            self.runtime.block_on(async { classify::classify(valid, self.space, &self.client.connect().await?).await });
        let mut answers = answers?.into_iter();
        let missing = || "the daemon has not classified it".to_owned();
        Ok(ids.into_iter().map(|id| id.map(|id| id.and_then(|_| answers.next().ok_or_else(missing)))).collect())
    }

    /// Returns the identifier as a number, or the reason why it cannot be in the space.
    fn id(&self, inspection: &Inspection) -> Result<u128, String> {
        if let Some(id) = kent_codec::parse_id(&inspection.text).ok().filter(|id| !id.is_uuid) {
            return id.within(self.space, self.bits);
        }
        let Inspection { format, hex, .. } = inspection;
        let digits = hex.trim_start_matches("0x");
        match u128::from_str_radix(digits, 16) {
            Ok(value) if digits.len() * 4 == self.bits as usize => Ok(value), // OK because a usize has at least 32 bits
            _ => {
                let has = number::counted(digits.len() * 4, "bit");
                Err(format!(
                    "a {format} has {has}, but an identifier of space {} has {} (`kent space ls` shows the width of each space)",
                    self.space, self.bits
                ))
            }
        }
    }
}

impl InspectArgs {
    /// Returns the name of the custom layout in which to read the identifiers.
    pub(crate) fn layout_name(&self) -> Option<&str> {
        self.format.as_deref()?.strip_prefix("layout:")
    }

    fn reading(&self) -> Reading {
        Reading {
            format: self.format.clone(),
            guid: self.guid,
            prefix: self.prefix,
            layout: self.layout.clone(),
            precision: self.precision.clone(),
            width: self.width,
        }
    }
}

/// The explanation of an identifier, with its classification if requested.
#[derive(Serialize)]
struct Explanation<'a> {
    #[serde(flatten)]
    inspection: &'a Inspection,
    #[serde(skip_serializing_if = "Option::is_none")]
    classification: Option<Value>,
    /// Why the identifier cannot be in the space.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_in_space: Option<&'a str>,
}

/// Returns the output for an identifier: a line of JSON, or text with a drawing.
fn show(inspection: &Inspection, place: Option<&Place>, is_json: bool, palette: Palette) -> String {
    if is_json {
        let classification = place.and_then(|place| place.as_ref().ok()).map(classify::to_json);
        let not_in_space = place.and_then(|place| place.as_ref().err()).map(String::as_str);
        let line = serde_json::to_string(&Explanation { inspection, classification, not_in_space });
        return line.unwrap_or_default() + "\n"; // OK because strings and numbers always serialize
    }
    let mut text = render(inspection, palette);
    if let Some(place) = place {
        text.push('\n');
        let rows = match place {
            Ok(place) => Classified(place).rows(|prefix| palette.prefixes.text(prefix)),
            Err(reason) => vec![("status", format!("not in the space: {reason}"))],
        };
        text.push_str(&facts(&rows, palette));
    }
    text
}

/// Renders the identifier, its format and how the format was found, its bits, and its fields.
pub(crate) fn render(inspection: &Inspection, palette: Palette) -> String {
    let mut rows = vec![
        ("id", palette.paint(Role::Heading, &inspection.canonical)),
        ("format", format!("{}: {}", inspection.format, inspection.because)),
        ("hex", inspection.hex.clone()),
    ];
    rows.extend(inspection.time.clone().map(|time| ("time", time)));
    rows.extend(inspection.also.iter().map(|other| ("or", other.clone())));
    let runs: Vec<_> = inspection.layout.iter().map(|run| Run { label: &run.label, bits: &run.bits }).collect();
    let mut text = facts(&rows, palette);
    if !runs.is_empty() {
        text.push('\n');
        text.push_str(&bits::draw(&runs, palette));
    }
    let fields = fields(inspection);
    if !fields.is_empty() {
        text.push('\n');
        text.push_str(&fields.render(palette));
    }
    text
}

fn fields(inspection: &Inspection) -> Table {
    let mut table = Table::new(["FIELD", "VALUE", "BITS", "MEANING"]);
    // The time is printed above the drawing.
    for field in inspection.fields.iter().filter(|field| field.name != "time") {
        let meaning = Cell::new(Role::Faint, field.meaning.as_str());
        table.row([Cell::from(&field.name), Cell::from(&field.value), places(inspection, &field.name).into(), meaning]);
    }
    table
}

/// Returns the bits of the drawing with this label, such as "0-31, 52-63".
fn places(inspection: &Inspection, label: &str) -> String {
    let runs = inspection.layout.iter().filter(|run| run.label == label);
    let places: Vec<_> = runs
        .map(|run| match run.first == run.last {
            true => run.first.to_string(),
            false => format!("{}-{}", run.first, run.last),
        })
        .collect();
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_uuid_is_drawn_in_four_rows_and_a_uid11_in_two() {
        for (text, rows) in [("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 4), ("5Jxqwr73FDS", 2), ("42", 2)] {
            let inspection = kent_codec::inspect(text, &Reading::default()).expect(text);
            let drawn = render(&inspection, Palette::PLAIN);
            let bits = drawn.lines().filter(|line| line.contains('│') && !line.starts_with("     ")).count();
            assert_eq!(bits, rows, "{drawn}");
        }
    }
}
