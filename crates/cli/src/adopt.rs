//! `kent adopt`: makes sources continue above the identifiers of another generator.
//!
//! All floors are checked before the first is raised. A floor never lowers a source, so that an interrupted run is
//! continued by repeating it.

use std::io::{self, Read};

use indicatif::{ProgressBar, ProgressStyle};
use kent_client::Daemon;
use kent_codec::parse_id;
use kent_ids::Source;
use kent_proto::v1::{
    EditResponse, GetRegionRequest, RaiseFloorsRequest, Region, UpdateRegionRequest, raise_floors_request,
    region::{Kind, Order},
};
use serde_json::json;

use crate::args::AdoptArgs;
use crate::confirm;
use crate::connect::request;
use crate::failure::{Failure, Refusal};
use crate::floors::{self, Floor};
use crate::names;
use crate::notice;
use crate::number;
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
    let planned = adoption.raise(&floors, true, &ProgressBar::hidden()).await?;
    if !out.is_json() {
        let text = table(&planned).render(out.palette());
        out.text(&text)?;
        out.flush()?;
    }
    let changing = planned.iter().filter(|raised| raised.changed).count();
    if args.dry_run || changing == 0 {
        return conclude(&planned, args.dry_run, out);
    }
    if !args.yes {
        ask(changing)?;
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} floors, {eta} left");
    // Drawn only if standard error is a terminal.
    let bar = ProgressBar::new(floors.len() as u64); // OK because a usize has at most 64 bits
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let raised = adoption.raise(&floors, false, &bar).await;
    bar.finish_and_clear();
    let raised = raised.inspect_err(|_| {
        let done = format!(
            "kent: {} of {} handled before the failure; repeat the command to continue\n",
            bar.position(),
            number::counted(floors.len(), "floor")
        );
        notice::write(&done, false);
    })?;
    for (source, unconfirmed) in raised.iter().filter_map(|raised| Some((&raised.source, raised.unconfirmed.as_ref()?)))
    {
        notice::write(&format!("kent: {source}: {unconfirmed}\n"), false);
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
    /// The replicas that have not confirmed the floor of a region yet.
    unconfirmed: Option<String>,
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
    /// Raises the floors, or only checks them. Returns the results in the same order.
    async fn raise(&self, floors: &[Floor], dry_run: bool, bar: &ProgressBar) -> Result<Vec<Raised>, Failure> {
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
            for (at, floor) in batch.iter().zip(answer.floors) {
                let (before, text) = (floor.before.parse().ok(), floors[*at].text.clone());
                let (source, after, changed, unconfirmed) = (floor.source, floor.after, floor.changed, None);
                raised[*at] = Some(Raised { source, floor: text, before, after, changed, unconfirmed });
                bar.inc(1);
            }
        }
        for (floor, raised) in floors.iter().zip(&mut raised) {
            if let Source::Region { name, space } = &floor.source {
                *raised = Some(self.raise_region(floor, names::region(space, name), space, dry_run).await?);
                bar.inc(1);
            }
        }
        raised
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| Failure::Answer("the daemon left out a floor".to_owned()))
    }

    async fn raise_region(
        &self,
        Floor { source, text, .. }: &Floor,
        name: String,
        space: &str,
        dry_run: bool,
    ) -> Result<Raised, Failure> {
        let get = GetRegionRequest { name: name.clone() };
        let region = self.daemon.regions().get_region(request(get)).await?.into_inner();
        let refused = |problem: String| Failure::Usage(format!("{source}: {problem}"));
        let next = next(&region, text, space).map_err(refused)?;
        let issued: u128 = region.issued.parse().unwrap_or(u128::MAX);
        let raised = |before: u128, after: u128, unconfirmed| Raised {
            source: source.to_string(),
            floor: text.clone(),
            before: Some(before),
            after: after.to_string(),
            changed: before != after,
            unconfirmed,
        };
        let Some(mut next) = next else { return Ok(raised(issued, issued, None)) };
        for _ in 0..ATTEMPTS {
            let message = UpdateRegionRequest {
                name: name.clone(),
                next: Some(next.into()),
                validate_only: dry_run,
                reason: self.reason.to_owned(),
                ..UpdateRegionRequest::default()
            };
            let status = match self.daemon.regions().update_region(request(message)).await {
                Ok(response) => {
                    let response = response.into_inner();
                    let before = before(&response).unwrap_or(next);
                    return Ok(raised(before, next.max(before), unconfirmed(&response)));
                }
                Err(status) => status,
            };
            // The counter is above the floor. On a cluster, another replica may still hold numbers below the floor, so
            // the counter is declared as it is.
            let refusal = Refusal::new(&status);
            let counter = refusal.facts.iter().find(|(name, _)| name == "next").and_then(|(_, next)| next.parse().ok());
            match counter.filter(|_| refusal.reason.as_deref() == Some("NEXT_TOO_LOW")) {
                Some(counter) => next = counter,
                None => return Err(status.into()),
            }
        }
        Err(refused("the counter moved during every attempt; try again".to_owned()))
    }
}

/// Returns the number at which a region continues above a floor; `None` if all its identifiers are above the floor.
fn next(region: &Region, floor: &str, space: &str) -> Result<Option<u128>, String> {
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
    let bits = prefix_bits.saturating_add(region.zone_bits).saturating_add(region.suffix_bits);
    let value = parse_id(floor)?.within(space, bits)?;
    let base = u128::from_str_radix(&region.prefix, 2).unwrap_or(0).checked_shl(bits - prefix_bits).unwrap_or(0);
    let Some(suffix) = value.checked_sub(base) else { return Ok(None) };
    match suffix.checked_shr(region.suffix_bits).unwrap_or(0) {
        0 => suffix.checked_add(1).map(Some).ok_or_else(|| "no number is left above the floor".to_owned()),
        _ => {
            let last = base + (u128::MAX.checked_shr(128 - region.suffix_bits).unwrap_or(0));
            Err(format!("the floor {floor} is above the last identifier of the region, which is {last}"))
        }
    }
}

/// Returns the counter before an edit; `None` if the edit changed nothing.
fn before(response: &EditResponse) -> Option<u128> {
    response.changes.iter().find_map(|change| change.before.as_ref())?.issued.parse().ok()
}

fn unconfirmed(response: &EditResponse) -> Option<String> {
    let within = response.effective_within_ms.div_ceil(1000);
    let replicas = response.unconfirmed.join(", ");
    (!response.unconfirmed.is_empty())
        .then(|| format!("{replicas} may issue numbers below the floor for up to {within} s more"))
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
