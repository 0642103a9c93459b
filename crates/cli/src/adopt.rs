//! `kent adopt`: makes sources continue above the identifiers of another generator.
//!
//! All floors are checked before the first is raised. A floor never lowers a source, so that an interrupted run is
//! continued by repeating it.

use std::io::{self, Read};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kent_client::Daemon;
use kent_ids::Source;
use kent_proto::v1::{
    GetRegionRequest, GetSpaceRequest, RaiseFloorsRequest, Region, UpdateRegionRequest, raise_floors_request,
    region::{Kind, Order},
};
use serde_json::json;
use tokio::time::sleep;

use crate::args::AdoptArgs;
use crate::confirm;
use crate::connect::request;
use crate::failure::{Failure, Refusal};
use crate::floors::{self, Floor};
use crate::names;
use crate::notice;
use crate::number::{self, Form};
use crate::output::Out;
use crate::table::{Cell, Table};

/// The maximum number of floors that the daemon raises in one commit.
const BATCH: usize = 50;

/// The number of attempts at a region whose counter moves at the same time.
const ATTEMPTS: u32 = 8;

pub(crate) async fn run(args: &AdoptArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let bad = |problem: String| Failure::Usage(format!("{}: {problem}", args.file));
    let floors = floors::parse(&text(&args.file)?).map_err(|error| bad(error.to_string()))?;
    let adoption = Adoption { daemon, reason: &args.reason };
    let (planned, _) = adoption.raise(&floors, true, &ProgressBar::hidden()).await?;
    if !out.is_json() {
        let text = table(&planned).render(out.palette());
        out.text(&text)?;
        out.flush()?;
    }
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

fn text(file: &str) -> Result<String, Failure> {
    match file {
        "-" => {
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
        return Err(Failure::Usage(
            "add --yes to raise the floors, or --dry-run to see what they would skip".to_owned(),
        ));
    }
    match confirm::ask(&format!("Floors cannot be lowered again. Raise {}?", number::counted(changing, "source")))? {
        true => Ok(()),
        false => Err(Failure::NotConfirmed),
    }
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
}

impl Raised {
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
        let mut raised: Vec<Option<Raised>> = floors.iter().map(|_| None).collect();
        let is_region = |floor: &Floor| matches!(floor.source, Source::Region { .. });
        let others: Vec<usize> = (0..floors.len()).filter(|at| !is_region(&floors[*at])).collect();
        for batch in others.chunks(BATCH) {
            let message = |at: &usize| raise_floors_request::Floor {
                source: floors[*at].source.to_string(),
                floor: floors[*at].text.clone(),
            };
            let message = RaiseFloorsRequest { floors: batch.iter().map(message).collect(), validate_only: dry_run };
            let answer = self.daemon.admin().raise_floors(request(message)).await?.into_inner();
            within = within.max(Duration::from_millis(answer.effective_within_ms));
            for (at, floor) in batch.iter().zip(answer.floors) {
                let (before, text) = (floor.before.parse().ok(), floors[*at].text.clone());
                let (source, after, changed) = (floor.source, floor.after, floor.changed);
                raised[*at] = Some(Raised { source, floor: text, before, after, changed });
                bar.inc(1);
            }
        }
        for (floor, raised) in floors.iter().zip(&mut raised) {
            if let Source::Region { name, space } = &floor.source {
                let (region, effective) = self.raise_region(floor, names::region(space, name), space, dry_run).await?;
                within = within.max(effective);
                *raised = Some(region);
                bar.inc(1);
            }
        }
        let raised: Option<Vec<Raised>> = raised.into_iter().collect();
        raised.map(|raised| (raised, within)).ok_or_else(|| Failure::Answer("the daemon left out a floor".to_owned()))
    }

    async fn raise_region(
        &self,
        Floor { source, text, .. }: &Floor,
        name: String,
        space: &str,
        dry_run: bool,
    ) -> Result<(Raised, Duration), Failure> {
        let mut regions = self.daemon.regions();
        let get = GetSpaceRequest { name: names::space(space) };
        let found = regions.get_space(request(get)).await?.into_inner();
        let get = GetRegionRequest { name: name.clone() };
        let region = regions.get_region(request(get)).await?.into_inner();
        let floor = Form::of(found.text_form(), found.bits).value(text, space, found.bits);
        let next = floor.and_then(|floor| next(&region, floor, found.bits));
        let next = next.map_err(|problem| Failure::Usage(format!("{source}: {problem}")))?;
        let raised = |before: u128, after: u128, changed| {
            let (before, after) = (Some(before), after.to_string());
            Raised { source: source.to_string(), floor: text.clone(), before, after, changed }
        };
        let Some(mut next) = next else {
            let issued: u128 = region.issued.parse().unwrap_or(u128::MAX);
            return Ok((raised(issued, issued, false), Duration::ZERO));
        };
        let mut attempt = 0;
        loop {
            let message = UpdateRegionRequest {
                name: name.clone(),
                next: Some(next.into()),
                validate_only: dry_run,
                reason: self.reason.to_owned(),
                ..UpdateRegionRequest::default()
            };
            let status = match regions.update_region(request(message)).await {
                Ok(response) => {
                    let response = response.into_inner();
                    let change = response.changes.iter().find_map(|change| change.before.as_ref());
                    let before = change.and_then(|before| before.issued.parse().ok()).unwrap_or(next);
                    let is_confirmed = response.unconfirmed.is_empty();
                    let within = if is_confirmed { 0 } else { response.effective_within_ms };
                    return Ok((raised(before, next.max(before), change.is_some()), Duration::from_millis(within)));
                }
                Err(status) => status,
            };
            let refusal = Refusal::new(&status);
            let fact = |wanted: &str| refusal.facts.iter().find_map(|(name, value)| (name == wanted).then_some(value));
            let counter = fact("next").and_then(|next| next.parse::<u128>().ok());
            match counter.filter(|_| refusal.reason.as_deref() == Some("NEXT_TOO_LOW") && attempt < ATTEMPTS) {
                // The only daemon has passed the floor already.
                Some(counter) if fact("shared").is_some_and(|shared| shared == "false") => {
                    return Ok((raised(counter, counter, false), Duration::ZERO));
                }
                // Another replica may still hold numbers below the floor, so the counter is declared as it is. If it
                // keeps moving, some numbers are skipped.
                Some(counter) => next = counter.saturating_add(if attempt == 0 { 0 } else { 1 << (9 + attempt) }),
                None => return Err(status.into()),
            }
            attempt += 1;
        }
    }
}

/// Returns the number at which a region continues above a floor; `None` if all its identifiers are above the floor.
fn next(region: &Region, floor: u128, bits: u32) -> Result<Option<u128>, String> {
    match (region.order(), region.kind()) {
        (_, Kind::Closed) => return Err("the region is closed, so it issues nothing".to_owned()),
        (Order::Scrambled, _) => {
            return Err(
                "the region issues its numbers in a scrambled order, so it cannot continue above an identifier; \
                        choose a region whose prefix no identifier in use has"
                    .to_owned(),
            );
        }
        (Order::External, _) => return Err("Kent does not issue the numbers of this region".to_owned()),
        _ => {}
    }
    let prefix_bits = u32::try_from(region.prefix.len()).unwrap_or(u32::MAX);
    let base =
        u128::from_str_radix(&region.prefix, 2).unwrap_or(0).checked_shl(bits.saturating_sub(prefix_bits)).unwrap_or(0);
    let Some(suffix) = floor.checked_sub(base) else { return Ok(None) };
    match suffix.checked_shr(region.suffix_bits).unwrap_or(0) {
        0 => suffix.checked_add(1).map(Some).ok_or_else(|| "no number is left above the floor".to_owned()),
        _ => {
            let last = base + (u128::MAX.checked_shr(128 - region.suffix_bits).unwrap_or(0));
            Err(format!("the floor {floor} is above the last identifier of the region, which is {last}"))
        }
    }
}

fn table(all: &[Raised]) -> Table {
    let mut table = Table::new(["SOURCE", ">FLOOR", ">BEFORE", ">AFTER", ">SKIPPED"]);
    for raised in all {
        let skipped = match raised.skipped() {
            Some(0) => "none".to_owned(),
            Some(skipped) => number::grouped(skipped),
            None => "-".to_owned(),
        };
        let before = raised.before.map_or_else(|| "-".to_owned(), number::grouped);
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
