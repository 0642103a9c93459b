//! `kent adopt`: makes sources continue above the identifiers of another generator.
//!
//! All floors are checked before the first is raised. A floor never lowers a source, so that an interrupted run is
//! continued by repeating it.

use std::io::{self, Read};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kent_client::Daemon;
use kent_ids::Source;
use kent_proto::v1::{RaiseFloorsRequest, raise_floors_request};
use serde_json::json;
use tokio::time::sleep;

use crate::args::AdoptArgs;
use crate::confirm;
use crate::connect::request;
use crate::failure::Failure;
use crate::floors::{self, Floor};
use crate::notice;
use crate::number;
use crate::output::Out;
use crate::table::{Cell, Table};

/// The maximum number of floors that the daemon raises in one commit. A floor of a region counts as
/// [`REGION_FLOORS`].
const BATCH: usize = 60;
const REGION_FLOORS: usize = 4;

pub(crate) async fn run(args: &AdoptArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    if args.file == STANDARD_INPUT && !args.yes && !args.dry_run {
        return Err(unconfirmed());
    }
    let name = if args.file == STANDARD_INPUT { "standard input" } else { &args.file };
    let bad = |problem: String| Failure::Usage(format!("{name}: {problem}"));
    let floors = floors::parse(&text(&args.file)?).map_err(|error| bad(error.to_string()))?;
    let adoption = Adoption { daemon, reason: &args.reason };
    let (planned, _) = adoption.raise(&floors, true, &ProgressBar::hidden()).await?;
    if !out.is_json() {
        let text = table(&planned).render(out.palette());
        out.text(&text)?;
        out.flush()?;
    }
    warn_of_full(&planned, out.is_json());
    let changing = planned.iter().filter(|raised| raised.changed).count();
    if args.dry_run {
        return conclude(&planned, true, out);
    }
    if changing > 0 && !args.yes {
        ask(changing)?;
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} floors, {eta} left");
    // Drawn only if standard error is a terminal.
    let bar = ProgressBar::new(floors.len() as u64); // OK because a usize has at most 64 bits
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    // Raises the floors even if none seems to change: a replica may hold numbers that this daemon does not know of.
    let raised = adoption.raise(&floors, false, &bar).await;
    let done = bar.position();
    bar.finish_and_clear();
    let (raised, within) = raised.inspect_err(|_| {
        let all = number::counted(floors.len(), "floor");
        let done = format!("{done} of {all} handled before the failure; repeat the command to continue");
        notice::warn(&done, out.is_json());
    })?;
    if !within.is_zero() {
        let seconds = within.as_secs() + 1;
        let wait = format!("the floors take effect within {seconds} s; waiting until no replica issues below them");
        notice::warn(&wait, out.is_json());
        sleep(within).await;
    }
    conclude(&raised, false, out)
}

/// Warns of sources that can issue nothing after their floors are raised: such a floor is probably wrong, for example a
/// time instead of a number.
fn warn_of_full(planned: &[Raised], is_json: bool) {
    for raised in planned.iter().filter(|raised| raised.changed && raised.left == Some(0)) {
        notice::warn(&format!("{} can issue nothing above this floor as it is", raised.source), is_json);
    }
}

/// The name of standard input as a file.
const STANDARD_INPUT: &str = "-";

fn text(file: &str) -> Result<String, Failure> {
    match file {
        STANDARD_INPUT => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text).map_err(Failure::Input)
        }
        path => std::fs::read_to_string(path).map_err(|error| {
            Failure::Usage(format!("cannot read {path}: {error}; docs/migrating.md shows how to write it"))
        }),
    }
}

fn ask(changing: usize) -> Result<(), Failure> {
    if !confirm::is_possible() {
        return Err(unconfirmed());
    }
    match confirm::ask(&format!("Floors cannot be lowered again. Raise {}?", number::counted(changing, "source")))? {
        true => Ok(()),
        false => Err(Failure::NotConfirmed),
    }
}

fn unconfirmed() -> Failure {
    Failure::Usage("add --yes to raise the floors, or --dry-run to see what they would skip".to_owned())
}

/// What a floor changes.
#[derive(Debug)]
struct Raised {
    source: String,
    floor: String,
    /// The number at which a counter continued before. `None` for a time-based source.
    before: Option<u128>,
    /// The number at which a counter continues, or the time before which nothing more is issued.
    after: String,
    /// Whether the source was below the floor.
    changed: bool,
    /// How many numbers a counter can issue from now on. `None` for a time-based source.
    left: Option<u128>,
}

impl Raised {
    /// Whether the source is a series of which no number was ever issued. It may be a typing error, because a series need
    /// not be created.
    fn is_new(&self) -> bool {
        self.before.is_some_and(|before| before <= 1) && matches!(self.source.parse(), Ok(Source::Series(_)))
    }

    /// The number of identifiers that are skipped; `None` for a time-based source.
    fn skipped(&self) -> Option<u128> {
        self.after.parse::<u128>().ok().zip(self.before).map(|(after, before)| after.saturating_sub(before))
    }
}

/// Raises floors through a daemon.
struct Adoption<'d> {
    daemon: &'d Daemon,
    reason: &'d str,
}

impl Adoption<'_> {
    /// Raises the floors, or only checks them. Returns the results in the same order, and the time after which all
    /// replicas respect them.
    async fn raise(
        &self,
        floors: &[Floor],
        dry_run: bool,
        bar: &ProgressBar,
    ) -> Result<(Vec<Raised>, Duration), Failure> {
        let mut within = Duration::ZERO;
        let mut raised = Vec::new();
        for batch in batches(floors) {
            let message = |floor: &Floor| raise_floors_request::Floor {
                source: floor.source.to_string(),
                floor: floor.text.clone(),
            };
            let message = RaiseFloorsRequest {
                floors: batch.iter().map(message).collect(),
                validate_only: dry_run,
                reason: self.reason.to_owned(),
            };
            let answer = self.daemon.admin().raise_floors(request(message)).await?.into_inner();
            within = within.max(Duration::from_millis(answer.effective_within_ms));
            if answer.floors.len() != batch.len() {
                return Err(Failure::Answer("the daemon left out a floor".to_owned()));
            }
            for (floor, answer) in batch.iter().zip(answer.floors) {
                let (before, text) = (answer.before.parse().ok(), floor.text.clone());
                let (source, after, changed) = (answer.source, answer.after, answer.changed);
                raised.push(Raised { source, floor: text, before, after, changed, left: answer.left.parse().ok() });
                bar.inc(1);
            }
        }
        Ok((raised, within))
    }
}

/// Divides floors, in their order, into parts that fit one commit.
fn batches(floors: &[Floor]) -> Vec<&[Floor]> {
    let weight = |floor: &Floor| if matches!(floor.source, Source::Region { .. }) { REGION_FLOORS } else { 1 };
    let (mut batches, mut begin, mut total) = (Vec::new(), 0, 0);
    for (at, floor) in floors.iter().enumerate() {
        total += weight(floor);
        if total > BATCH {
            batches.push(&floors[begin..at]);
            (begin, total) = (at, weight(floor));
        }
    }
    batches.push(&floors[begin..]);
    batches
}

fn table(all: &[Raised]) -> Table {
    let mut table = Table::new(["SOURCE", ">FLOOR", ">BEFORE", ">AFTER", ">SKIPPED"]);
    for raised in all {
        let skipped = match raised.skipped() {
            Some(0) => "none".to_owned(),
            Some(skipped) => number::grouped(skipped),
            None => "-".to_owned(),
        };
        let before = match raised.before {
            Some(_) if raised.is_new() => "new".to_owned(),
            Some(before) => number::grouped(before),
            None => "-".to_owned(),
        };
        let after = match raised.before {
            Some(_) => number::grouped(&raised.after),
            None => raised.after.clone(),
        };
        table.row([
            Cell::from(&raised.source),
            raised.floor.as_str().into(),
            before.into(),
            after.into(),
            skipped.into(),
        ]);
    }
    table
}

fn conclude(all: &[Raised], dry_run: bool, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return all.iter().try_for_each(|raised| {
            out.json(&json!({
                "source": raised.source,
                "floor": raised.floor,
                "before": raised.before.map(|before| before.to_string()),
                "after": raised.after,
                "changed": raised.changed,
                "skipped": raised.skipped().map(|skipped| skipped.to_string()),
                "left": raised.left.map(|left| left.to_string()),
                "dry_run": dry_run,
            }))
        });
    }
    let changing = all.iter().filter(|raised| raised.changed).count();
    out.text(&match (dry_run, changing) {
        (_, 0) => "all sources are above their floors already\n".to_owned(),
        (true, _) => "dry run: nothing was changed\n".to_owned(),
        (false, _) => format!("raised {}\n", number::counted(changing, "source")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    #[test]
    fn ok_a_series_without_numbers_is_marked_as_new() {
        let raised = |source: &str, before| Raised {
            source: source.to_owned(),
            floor: "5".to_owned(),
            before,
            after: "6".to_owned(),
            changed: true,
            left: Some(9),
        };
        let all = [raised("serial:GBP", Some(1)), raised("serial:EUR", Some(2)), raised("region:a", Some(0))];
        assert_eq!(
            table(&all).render(Palette::PLAIN),
            "SOURCE      FLOOR  BEFORE  AFTER  SKIPPED\n\
             serial:GBP      5     new      6        5\n\
             serial:EUR      5       2      6        4\n\
             region:a        5       0      6        6\n"
        );
    }

    #[test]
    fn ok_each_batch_fits_one_commit_and_none_is_lost() {
        for (floors, expected) in [
            (vec!["serial:A"; 60], vec![60]),
            (vec!["serial:A"; 61], vec![60, 1]),
            (vec!["region:a"; 16], vec![15, 1]),
            ([vec!["region:a"; 14], vec!["serial:A"; 5], vec!["region:a"; 1]].concat(), vec![18, 2]),
            (vec!["uuidv7"], vec![1]),
        ] {
            let floor =
                |source: &&str| Floor { line: 1, source: source.parse().expect("a source"), text: String::new() };
            let floors: Vec<_> = floors.iter().map(floor).collect();
            let sizes: Vec<_> = batches(&floors).iter().map(|batch| batch.len()).collect();
            assert_eq!(sizes, expected);
        }
    }
}
