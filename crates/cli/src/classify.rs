//! `kent classify`: shows which regions identifiers belong to.

use std::path::Path;

use kent_client::Daemon;
use kent_codec::{TypedId, parse_id};
use kent_ids::Uuid;
use kent_proto::model::Classified;
use kent_proto::v1::{Classification, ClassifyRequest, FormerPrefix, GetSpaceRequest, classification::Status};
use serde_json::{Value, json};

use crate::args::ClassifyArgs;
use crate::connect::request;
use crate::failure::Failure;
use crate::lines::{InvalidLines, Line, Lines};
use crate::names;
use crate::output::{Out, Role};
use crate::prefix::PrefixFormat;
use crate::table::{Cell, Table};

/// The number of identifiers per request; the daemon accepts ten times as many.
const BATCH: usize = 1000;

/// The argument that means standard input.
const STDIN: &str = "-";

/// Parses all arguments, so that the command fails before the first request if one of them is invalid.
pub(crate) fn parse(args: &ClassifyArgs) -> Result<Vec<Operand>, Failure> {
    args.ids.iter().map(|text| Operand::parse(text)).collect()
}

/// An argument: an identifier, or standard input.
pub(crate) enum Operand {
    Id(TypedId),
    Stdin,
}

impl Operand {
    fn parse(text: &str) -> Result<Self, Failure> {
        if text == STDIN {
            return Ok(Self::Stdin);
        }
        let explained = |error| match Path::new(text).is_file() {
            true => format!("{text} is a file; for the identifiers in its lines: kent classify - < {text}"),
            false => error,
        };
        parse_id(text).map(Self::Id).map_err(|error| Failure::Usage(explained(error)))
    }
}

/// Returns the width in bits of the identifiers of a space.
pub(crate) async fn width(space: &str, daemon: &Daemon) -> Result<u32, Failure> {
    let message = GetSpaceRequest { name: names::space(space) };
    Ok(daemon.regions().get_space(request(message)).await?.into_inner().bits)
}

/// Classifies identifiers within a space. The results are in the order of the identifiers.
pub(crate) async fn classify(ids: Vec<u128>, space: &str, daemon: &Daemon) -> Result<Vec<Classification>, Failure> {
    let identifiers = ids.into_iter().map(Into::into).collect();
    let message = ClassifyRequest { parent: names::space(space), identifiers };
    Ok(daemon.regions().classify(request(message)).await?.into_inner().classifications)
}

pub(crate) async fn run(operands: &[Operand], space: &str, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let bits = width(space, daemon).await?;
    // If an identifier cannot be in the space, fail before anything is printed.
    for operand in operands {
        if let Operand::Id(id) = operand {
            id.within(space, bits).map_err(Failure::Usage)?;
        }
    }
    let mut batches =
        Batches { space, bits, ids: Vec::new(), invalid: InvalidLines::default(), headed: false, daemon, out };
    for operand in operands {
        match operand {
            Operand::Id(id) => batches.push(*id).await?,
            Operand::Stdin => batches.push_lines().await?,
        }
    }
    batches.send().await?;
    batches.invalid.finish()
}

/// Collects identifiers, classifies them in batches, and prints the results in order.
struct Batches<'a> {
    space: &'a str,
    bits: u32,
    ids: Vec<TypedId>,
    /// The lines that were not valid.
    invalid: InvalidLines,
    /// Whether the headings of the table have been printed.
    headed: bool,
    daemon: &'a Daemon,
    out: &'a mut Out,
}

impl Batches<'_> {
    /// Classifies the lines of standard input as they arrive. Reports invalid lines, and classifies the others.
    async fn push_lines(&mut self) -> Result<(), Failure> {
        let mut lines = Lines::of_stdin();
        loop {
            let batch = lines.next_batch(BATCH)?;
            if batch.is_empty() {
                return Ok(());
            }
            for Line { number, text } in batch {
                let id = parse_id(&text).and_then(|id| id.within(self.space, self.bits).map(|_| id));
                match id {
                    Ok(id) => self.push(id).await?,
                    Err(error) => {
                        self.send().await?;
                        let failure = Failure::Usage(format!("standard input, line {number}: {error}"));
                        let json = self.out.is_json();
                        self.invalid.report(&text, &failure.render(json).unwrap_or_default(), json);
                    }
                }
            }
            self.send().await?;
        }
    }

    async fn push(&mut self, id: TypedId) -> Result<(), Failure> {
        self.ids.push(id);
        if self.ids.len() < BATCH { Ok(()) } else { self.send().await }
    }

    async fn send(&mut self) -> Result<(), Failure> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let typed = std::mem::take(&mut self.ids);
        let ids = typed.iter().map(|id| id.value).collect();
        let mut classifications = classify(ids, self.space, self.daemon).await?;
        // A UUID argument is shown as a UUID, regardless of the text form of the space.
        for (classification, id) in classifications.iter_mut().zip(&typed).filter(|(_, id)| id.is_uuid) {
            classification.text = Uuid::from_u128(id.value).to_string();
        }
        self.write(&classifications)
    }

    fn write(&mut self, classifications: &[Classification]) -> Result<(), Failure> {
        if self.out.is_json() {
            classifications.iter().try_for_each(|classification| self.out.json(&to_json(classification)))?;
        } else {
            let palette = self.out.palette();
            let text = table(classifications, palette.prefixes).render(palette);
            // Only the first batch prints the headings.
            let start = if self.headed { text.find('\n').map_or(0, |end| end + 1) } else { 0 };
            self.out.text(&text[start..])?;
            self.headed = true;
        }
        self.out.flush()
    }
}

fn table(classifications: &[Classification], prefixes: PrefixFormat) -> Table {
    let mut table = Table::new([">IDENTIFIER", "STATUS", "PATH", ">SUFFIX", "ISSUED"]);
    for classification in classifications {
        let place = Classified(classification);
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row([
            place.text().into(),
            Cell::new(role(classification.status()), place.status()),
            place.path().into(),
            or_dash(place.suffix()).into(),
            or_dash(place.issued(|prefix| prefixes.text(prefix))).into(),
        ]);
    }
    table
}

fn role(status: Status) -> Role {
    match status {
        Status::Member => Role::Good,
        Status::Reserved | Status::Unassigned => Role::Warning,
        Status::Free | Status::Unspecified => Role::Faint,
    }
}

fn identifier(classification: &Classification) -> u128 {
    classification.identifier.map(u128::from).unwrap_or_default()
}

pub(crate) fn to_json(classification: &Classification) -> Value {
    let (place, id) = (Classified(classification), identifier(classification));
    let former = |former: &FormerPrefix| {
        json!({
            "prefix": former.prefix,
            "from_revision": former.from_revision,
            "to_revision": former.to_revision,
            "reserved": former.reserved,
        })
    };
    json!({
        "former_prefixes": classification.former_prefixes.iter().map(former).collect::<Value>(),
        "local": classification.local.as_deref().map(to_json),
        "id": id.to_string(),
        "hex": format!("{id:#x}"),
        "text": place.text(),
        "status": place.status(),
        "region": classification.path.last().map(|name| names::short(name)),
        "path": classification.path.iter().map(|name| names::short(name)).collect::<Vec<_>>(),
        "suffix": place.suffix(),
        "issued": (classification.status() == Status::Member && !classification.others).then_some(classification.issued),
        "issued_prefix": classification.issued_prefix,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    fn examples() -> [Classification; 2] {
        let path = ["orders", "eu"].map(|name| names::region("default", name)).into();
        [
            Classification {
                identifier: Some(1029.into()),
                status: Status::Member.into(),
                path,
                suffix: Some(5.into()),
                issued: true,
                issued_prefix: Some("1".to_owned()),
                ..Classification::default()
            },
            Classification {
                identifier: Some(0x8f.into()),
                status: Status::Free.into(),
                path: Vec::new(),
                suffix: None,
                issued: false,
                ..Classification::default()
            },
        ]
    }

    #[test]
    fn ok_classifications_for_people() {
        assert_eq!(
            table(&examples(), PrefixFormat::Bits).render(Palette::PLAIN),
            "\
IDENTIFIER  STATUS  PATH         SUFFIX  ISSUED
      1029  member  orders > eu       5  yes, when the prefix was 1
       143  free    -                 -  -
"
        );
    }

    #[test]
    fn ok_classifications_for_programs() {
        let [member, free] = examples();
        assert_eq!(
            to_json(&member),
            json!({
                "id": "1029", "hex": "0x405", "text": "1029", "status": "member", "region": "eu", "path": ["orders", "eu"],
                "suffix": "5", "issued": true, "issued_prefix": "1", "former_prefixes": [], "local": null,
            })
        );
        assert_eq!(
            to_json(&free),
            json!({
                "id": "143", "hex": "0x8f", "text": "143", "status": "free", "region": null, "path": [],
                "suffix": null, "issued": null, "issued_prefix": null, "former_prefixes": [], "local": null,
            })
        );
    }
}
