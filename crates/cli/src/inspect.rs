//! `kent inspect`: what identifiers are, for people drawn bit by bit.

use kent_codec::{Inspection, Reading};
use kent_proto::v1::Classification;

use crate::args::InspectArgs;
use crate::bits::{self, Run};
use crate::classify;
use crate::connect::Endpoints;
use crate::failure::{Failure, NoIdentifier};
use crate::number;
use crate::output::{Out, Palette, Role};
use crate::table::{Cell, Table, facts};

/// To which regions of a space the identifiers belong that may be such.
pub(crate) async fn regions_of(
    args: &InspectArgs,
    space: &str,
    endpoints: &Endpoints,
) -> Result<Vec<Option<Classification>>, Failure> {
    let ids: Vec<Option<u128>> = args.ids.iter().map(|text| number::parse_id(text).ok()).collect();
    let asked = ids.iter().flatten().copied().collect();
    let mut answers = classify::ask(asked, space, &endpoints.connect().await?).await?.into_iter();
    Ok(ids.iter().map(|id| id.and_then(|_| answers.next())).collect())
}

/// Shows every identifier, and where it belongs if that is known, and afterwards tells which of the texts are none.
pub(crate) fn run(args: &InspectArgs, places: &[Option<Classification>], out: &mut Out) -> Result<(), Failure> {
    let reading = args.reading();
    let mut strangers = Vec::new();
    for (index, (text, place)) in args.ids.iter().zip(places).enumerate() {
        match kent_codec::inspect(text, &reading) {
            Ok(inspection) => show(&inspection, place.as_ref(), index == 0, out)?,
            Err(error) => strangers.push(NoIdentifier { text: text.clone(), code: error.code, message: error.message }),
        }
    }
    if strangers.is_empty() { Ok(()) } else { Err(Failure::NoIdentifiers(strangers)) }
}

impl InspectArgs {
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

fn show(inspection: &Inspection, place: Option<&Classification>, first: bool, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        let mut json = inspection.to_json();
        if let (Some(place), Some(object)) = (place, json.as_object_mut()) {
            object.insert("classification".to_owned(), classify::to_json(place));
        }
        return out.json(&json);
    }
    if !first {
        out.text("\n")?;
    }
    let mut text = render(inspection, out.palette());
    if let Some(place) = place {
        text.push('\n');
        text.push_str(&facts(&classify::rows(place), out.palette()));
    }
    out.text(&text)
}

/// The identifier, what it is and why, its bits, its fields.
fn render(inspection: &Inspection, palette: Palette) -> String {
    let mut rows = vec![
        ("id", palette.paint(Role::Heading, &inspection.canonical)),
        ("format", format!("{}: {}", inspection.format, inspection.because)),
        ("hex", inspection.hex.clone()),
    ];
    rows.extend(inspection.time.clone().map(|time| ("time", time)));
    let runs: Vec<_> = inspection.layout.iter().map(|run| Run { label: &run.label, bits: &run.bits }).collect();
    let mut text = facts(&rows, palette);
    text.push('\n');
    text.push_str(&bits::draw(&runs, palette));
    let fields = fields(inspection);
    if !fields.is_empty() {
        text.push('\n');
        text.push_str(&fields.render(palette));
    }
    text
}

fn fields(inspection: &Inspection) -> Table {
    let mut table = Table::new(["FIELD", "VALUE", "BITS", "MEANING"]);
    // The time stands above already.
    for field in inspection.fields.iter().filter(|field| field.name != "time") {
        let meaning = Cell::new(Role::Faint, field.meaning.as_str());
        table.row([Cell::from(&field.name), Cell::from(&field.value), places(inspection, &field.name).into(), meaning]);
    }
    table
}

/// Which bits of the drawing carry this label: "0-31, 52-63".
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
