//! An operator who exports tables and later imports them into new spaces. A new space continues the counters, so it
//! issues nothing that the exported space had issued before the export.

mod export;

use std::{collections::HashMap, sync::Arc};

use kent_proto::{
    model::ImportInput,
    v1::{
        CreateSpaceRequest, GetSpaceRequest, ImportTableRequest, Region, UpdateRegionRequest, region,
        regions_server::Regions,
    },
};
use kent_regions::{Count, Edit as TableEdit, Kind, Region as TableRegion};
use tokio::time::{self, Instant};
use tonic::{Code, Request};

use self::export::{Export, exports, id_of, listing};
use super::{
    edits::{Edit, EditKind, answer, is_unknown, send_until_answered},
    mutant::Mutant,
    places::SPACES,
    run::{REPLICAS, Run, TRIES},
};

/// An acknowledged import, which the operator may send again.
struct Made {
    edit: Edit,
    revision: u64,
    restores: u64,
}

/// A space into which only the operator has imported regions, so that the import can be repeated if the space is lost.
struct Copied {
    space: String,
    /// The index of the export.
    kept: usize,
    restores: u64,
}

/// Exports and imports tables until the run ends.
pub(crate) async fn importer(run: Arc<Run>) {
    let (mut number, mut kept, mut copied, mut made) = (0, Vec::new(), Vec::new(), Vec::new());
    while !run.is_ending() {
        run.step();
        time::sleep(run.dice.millis(1000, 12_000)).await;
        if let Some(made) = run.dice.pick(&made).filter(|_| run.dice.per_mille(500)) {
            repeat(&run, made).await;
        }
        for copied in &mut copied {
            import_lost(&run, &kept, copied).await;
        }
        if kept.is_empty() || run.dice.per_mille(700) {
            kept.extend(exports(&run, &run.places.space(&run.dice)).await);
        }
        // The exported spaces continue to issue, and the store may be lost meanwhile.
        time::sleep(run.dice.millis(0, 15_000)).await;
        let Some(last) = kept.len().checked_sub(1) else { continue };
        let of = run.dice.between(0, last as u64) as usize;
        number += 1;
        let (space, restores, is_edited) = (format!("copy{number}"), run.restores(), run.dice.per_mille(600));
        let edits = copy(&run, &kept[of], &space, is_edited).await;
        if !is_edited && !edits.is_empty() && !kept[of][0].has_delegated() {
            copied.push(Copied { space, kept: of, restores });
        }
        made.extend(edits);
    }
}

/// Imports a table again if the store was restored from a backup without the space. The new space must issue nothing
/// that the lost space had issued.
async fn import_lost(run: &Run, kept: &[Vec<Export>], copied: &mut Copied) {
    let (restores, space) = (run.restores(), &copied.space);
    if restores != copied.restores && is_lost(run, space).await == Some(true) {
        if import(run, &kept[copied.kept][0], space, restores).await.is_none() {
            return;
        }
        run.faults.reimports.count();
    }
    copied.restores = restores;
}

/// Returns whether a space is missing, or `None` if no daemon answers.
pub(crate) async fn is_lost(run: &Run, space: &str) -> Option<bool> {
    let get = GetSpaceRequest { name: format!("spaces/{space}") };
    for _ in 0..TRIES {
        if let Some(life) = run.life(0) {
            match life.node.regions().get_space(Request::new(get.clone())).await {
                Ok(_) => return Some(false),
                Err(status) if status.code() == Code::NotFound => return Some(true),
                Err(_) => {}
            }
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// Imports the tables of a space and of the spaces inside it into a new space, for other actors to use. Returns the
/// edits.
async fn copy(run: &Run, exports: &[Export], copy: &str, is_edited: bool) -> Vec<Made> {
    let restores = run.restores();
    // After a restore, a delegated region may already have issued its numbers, so its import is refused.
    if restores > 0 && exports.iter().any(Export::has_delegated) {
        return Vec::new();
    }
    let (mut made, mut known) = (Vec::new(), Vec::new());
    for export in exports {
        let into = format!("{copy}{}", &export.space[exports[0].space.len()..]);
        let Some(parts) = import(run, export, &into, restores).await else { break };
        made.extend(parts);
        known.push((export, into));
    }
    for (export, into) in &known {
        run.faults.imports.count();
        if is_edited {
            run.places.add_space(into);
        }
        for region in &export.regions {
            let id = id_of(region);
            if run.is_suspect(&export.space, id) {
                run.suspect(into, id);
            }
            if region.delegated_space.is_empty() || known.iter().any(|(_, known)| *known == format!("{into}/{id}")) {
                run.places.add(into, id);
            }
        }
    }
    made
}

/// Resends an import that was applied earlier. The import must not be applied a second time.
async fn repeat(run: &Run, made: &Made) {
    let _gate = run.gate.read().await;
    if run.restores() != made.restores || run.edits_are_paused() {
        return;
    }
    match answer(run, &made.edit).await {
        Some(Ok(again)) if again.revision != made.revision => run.violation(format!(
            "P5: the import {} was made in {} and again in {}",
            made.edit.request_id, made.revision, again.revision
        )),
        Some(Err(status)) => {
            run.violation(format!("P5: the import {}, which was made, is refused: {status}", made.edit.request_id));
        }
        _ => {}
    }
}

/// Imports a table, with retries, into an empty space that no other actor uses. Returns the edits, or `None` if the
/// import is refused, or if the run ends or edits are lost before the import is applied.
async fn import(run: &Run, export: &Export, into: &str, restores: u64) -> Option<Vec<Made>> {
    let edits = edits(run, export, into, restores);
    while !run.is_ending() {
        let gate = run.gate.read().await;
        if run.restores() != restores {
            return None;
        }
        if !run.edits_are_paused()
            && let Ok(revisions) = attempt(run, export, into, &edits).await
        {
            let made = |(edit, revision)| Made { edit, revision, restores };
            return Some(edits.into_iter().zip(revisions?).map(made).collect());
        }
        // Meanwhile, the store may be moved or restored from its archive.
        drop(gate);
        time::sleep(run.dice.millis(50, 2000)).await;
    }
    None
}

/// The error when no daemon gives an answer.
struct NoAnswer;

/// Imports a table and checks the result. Returns the revisions of the edits, or `None` if one is refused.
async fn attempt(run: &Run, export: &Export, into: &str, edits: &[Edit]) -> Result<Option<Vec<u64>>, NoAnswer> {
    if !into.contains('/') {
        create(run, into, export.bits).await?;
    }
    let mut revisions = Vec::new();
    for edit in edits {
        match answer(run, edit).await.ok_or(NoAnswer)? {
            Ok(answer) => revisions.push(answer.revision),
            Err(status) => {
                run.violation(format!("the table of {} cannot be imported: {status}", export.space));
                return Ok(None);
            }
        }
    }
    let copied = listing(run, into).await.ok_or(NoAnswer)?;
    compare(run, edits, &copied, into);
    let new: HashMap<&str, u64> = copied.iter().map(|region| (id_of(region), region.number)).collect();
    let numbers = export.regions.iter().filter_map(|region| Some((region.number, *new.get(id_of(region))?))).collect();
    let origin = run.places.origin(into);
    if let Err(missing) = run.with_ledger(|ledger| ledger.inherit(&origin, &export.issued, &numbers)) {
        run.violation(format!("the export of {}: {missing}", export.space));
    }
    for region in copied.iter().filter(|region| region.sealed) {
        run.sealed(into, region.number, Instant::now());
    }
    misfit(run, export, into).await;
    name_floors(run, export, &copied, into).await;
    Ok(Some(revisions))
}

/// Creates a space if it does not exist.
async fn create(run: &Run, space: &str, bits: u32) -> Result<(), NoAnswer> {
    let create = CreateSpaceRequest { space_id: space.to_owned(), bits, ..CreateSpaceRequest::default() };
    for _ in 0..TRIES {
        if let Some(life) = run.life(run.dice.between(0, REPLICAS as u64 - 1) as usize) {
            match life.node.regions().create_space(Request::new(create.clone())).await {
                Err(status) if is_unknown(status.code()) => {}
                Err(status) if status.code() != Code::AlreadyExists => {
                    run.violation(format!("cannot create {space}: {status}"));
                }
                _ => return Ok(()),
            }
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    Err(NoAnswer)
}

/// Returns the edits that import a table. Each edit is one commit, and can end after any region without subregions.
fn edits(run: &Run, export: &Export, into: &str, restores: u64) -> Vec<Edit> {
    let drops_counters = run.backend().mutant == Some(Mutant::ImportedCounters);
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    for region in &export.regions {
        let message = message(region, into);
        let reserved = if drops_counters { "0".to_owned() } else { message.reserved.clone() };
        part.push(Region { reserved, ..message });
        if region.kind() == region::Kind::Open && (part.len() >= 40 || run.dice.per_mille(100)) {
            parts.push(std::mem::take(&mut part));
        }
    }
    parts.extend((!part.is_empty()).then_some(part));
    let edit = |(number, regions)| import_of(export.bits, into, regions, format!("{into}-{restores}-{number}"));
    parts.into_iter().enumerate().map(edit).collect()
}

fn import_of(bits: u32, into: &str, regions: Vec<Region>, request_id: String) -> Edit {
    let parent = format!("spaces/{into}");
    let import =
        ImportTableRequest { parent, bits, regions, request_id: request_id.clone(), ..ImportTableRequest::default() };
    Edit { space: into.to_owned(), request_id, region: None, made: Vec::new(), what: EditKind::Import(import) }
}

/// Returns a region as `kent table import` sends it.
fn message(region: &Region, into: &str) -> Region {
    let name = |region: &str| format!("spaces/{into}/regions/{region}");
    let named = |text: &str, name: String| if text.is_empty() { String::new() } else { name };
    let parent = region.parent.rsplit('/').next().unwrap_or_default();
    Region {
        name: name(id_of(region)),
        parent: named(parent, name(parent)),
        delegated_space: named(&region.delegated_space, name(id_of(region))),
        number: 0,
        parent_number: 0,
        key_number: 0,
        prefix_since: 0,
        issued: String::new(),
        capacity: String::new(),
        ultimate_capacity: String::new(),
        sealed_by: String::new(),
        rate: 0.0,
        full_in_seconds: None,
        ..region.clone()
    }
}

/// Checks that a space has exactly the imported regions.
fn compare(run: &Run, edits: &[Edit], copied: &[Region], into: &str) {
    let parts = edits.iter().filter_map(|edit| match &edit.what {
        EditKind::Import(import) => Some(&import.regions),
        _ => None,
    });
    let sent: Vec<&Region> = parts.flatten().collect();
    let differing = sent.iter().zip(copied).find(|(sent, copied)| !is_same(sent, &message(copied, into)));
    if let Some((sent, copied)) = differing {
        run.violation(format!("the import into {into} turned {sent:?} into {:?}", message(copied, into)));
    }
    if sent.len() != copied.len() {
        run.violation(format!("{} regions imported, but {into} has {}", sent.len(), copied.len()));
    }
}

/// Returns whether a region was imported with all its attributes. Two differences are allowed: the counter of a
/// scrambled region moves to the end of an octave, and after a restore, a region may need a floor.
fn is_same(sent: &Region, copied: &Region) -> bool {
    let counter = |region: &Region| region.reserved.parse::<Count>().ok();
    let place = |region: &Region| Region { reserved: String::new(), needs_floor: false, ..region.clone() };
    place(sent) == place(copied)
        && sent.needs_floor <= copied.needs_floor
        && match sent.order() {
            region::Order::Scrambled => counter(sent) <= counter(copied),
            _ => counter(sent) == counter(copied),
        }
}

/// Tries an import that must be refused: a second import into the same space, or one into a space of another width.
async fn misfit(run: &Run, export: &Export, into: &str) {
    let into = match run.dice.between(0, 3) {
        0 => into,
        1 if export.bits == 64 => SPACES[1],
        1 => SPACES[0],
        _ => return,
    };
    let regions = export.regions.iter().take(40).map(|region| message(region, into)).collect();
    let edit = import_of(export.bits, into, regions, format!("{into}-misfit-{}", run.dice.between(0, u64::MAX)));
    match answer(run, &edit).await {
        Some(Ok(_)) => run.violation(format!("the table of {} was imported into {into}", export.space)),
        Some(Err(_)) => run.faults.misfits.count(),
        None => {}
    }
}

/// Sets floors above all numbers in use, so that regions that need a floor issue again.
async fn name_floors(run: &Run, export: &Export, copied: &[Region], into: &str) {
    let unsure = copied.iter().filter(|region| region.needs_floor);
    let regions: Vec<Region> = unsure.map(|region| message(region, into)).collect();
    if regions.is_empty() {
        return;
    }
    let request = ImportTableRequest {
        parent: format!("spaces/{into}"),
        bits: export.bits,
        regions,
        ..ImportTableRequest::default()
    };
    let Ok(ImportInput { edit, bits }) = ImportInput::try_from(request) else { return };
    let TableEdit::Import { regions } = edit.edit else { return };
    for region in regions.into_iter().map(|imported| imported.region) {
        // The region may have been larger, so its numbers may reach into its zone.
        let zone = if region.kind == Kind::Partial { region.zone.saturating_sub(region.sub_bits) } else { region.zone };
        let whole = TableRegion { suffix: region.suffix + zone, ..region.clone() };
        let Some(floor) = run.floor(into, bits, &whole).filter(|_| run.dice.per_mille(700)) else { continue };
        let name = format!("spaces/{into}/regions/{}", region.name);
        let request_id = format!("{into}-{}-floor-{}", run.restores(), region.name);
        let next = Some(floor.into());
        let update = UpdateRegionRequest { name, next, request_id: request_id.clone(), ..Default::default() };
        send_until_answered(run, into, request_id, EditKind::Update(update)).await;
    }
}
