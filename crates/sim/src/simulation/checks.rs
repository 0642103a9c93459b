//! The checks after the quiet phase: owners, histories, edits, and the numbers of strict regions.

use std::{pin::pin, sync::Arc};

use futures_util::StreamExt;
use kent_proto::{
    model::{apply_change, table_of},
    v1::{
        HistoryEntry, ListHistoryRequest, ListSpacesRequest, WatchTableRequest, regions_server::Regions,
        watch_table_response::Event,
    },
};
use kent_regions::{Rare, Region, RegionNumber, Revision, Table};
use tonic::Request;

use super::{
    places::{STRICT, STRICT_SPACE},
    run::Run,
};

/// Checks all spaces as seen by a freshly started daemon.
pub(crate) async fn check_spaces(run: &Arc<Run>) -> Result<(), String> {
    run.stop(0).await;
    run.start(0).await;
    let life = run.life(0).ok_or("P7: a daemon does not start although there are no faults")?;
    let regions = life.node.regions();
    for space in spaces(&regions).await? {
        if let Err(violation) = check_space(run, &regions, &space).await {
            run.violation(format!("{space}: {violation}"));
        }
    }
    Ok(())
}

/// Returns the names of all spaces.
async fn spaces(regions: &impl Regions) -> Result<Vec<String>, String> {
    let all = ListSpacesRequest { page_size: 1000, ..ListSpacesRequest::default() };
    let spaces = regions.list_spaces(Request::new(all)).await.map_err(|status| status.to_string())?.into_inner().spaces;
    Ok(spaces.iter().map(|space| space.name.trim_start_matches("spaces/").to_owned()).collect())
}

/// Tables with the names of their spaces.
pub(crate) type Tables = Vec<(String, Table)>;

/// Returns all tables. A space comes before the spaces inside it.
pub(crate) async fn tables(regions: &impl Regions) -> Result<Tables, String> {
    let mut tables = Vec::new();
    let mut names = spaces(regions).await?;
    names.sort_by_key(|name| (name.matches('/').count(), name.clone()));
    for space in names {
        let table = table(regions, &space).await?;
        tables.push((space, table));
    }
    Ok(tables)
}

/// Checks owners, history, edits, and the numbers of strict regions.
async fn check_space(run: &Arc<Run>, regions: &impl Regions, space: &str) -> Result<(), String> {
    let parent = format!("spaces/{space}");
    let table = table(regions, space).await?;
    let (history, forgotten) = history(regions, &parent).await?;
    check_history(&table, history.clone(), forgotten)?;
    let origin = run.places.origin(space);
    run.with_ledger(|ledger| {
        ledger.digest(table.revision().0);
        ledger.check_owners(&origin, &table)
    })?;
    for region in table.iter() {
        let inner = run.places.origin(&format!("{space}/{}", region.name));
        run.with_ledger(|ledger| ledger.check_inside(&origin, &inner, region.prefix.base(table.bits())))?;
    }
    for (request_id, revision) in run.edits(&origin) {
        let made: Vec<u64> =
            history.iter().filter(|entry| entry.request_id == request_id).map(|entry| entry.revision).collect();
        if made != [revision] {
            return Err(format!("P5: the edit {request_id} was acknowledged in {revision}, the history has {made:?}"));
        }
    }
    let strict = if space == STRICT_SPACE { &STRICT[..] } else { &[] };
    strict.iter().try_for_each(|region| {
        let region = table.named(region).map_err(|refusal| refusal.to_string())?;
        run.with_ledger(|ledger| ledger.check_strict(region))
    })
}

/// Returns the whole table of a space.
pub(crate) async fn table(regions: &impl Regions, space: &str) -> Result<Table, String> {
    let watch = WatchTableRequest { parent: format!("spaces/{space}"), after_revision: 0 };
    let stream = regions.watch_table(Request::new(watch)).await.map_err(|status| status.to_string())?.into_inner();
    let mut stream = pin!(stream);
    let mut parts = Vec::new();
    while let Some(Ok(message)) = stream.next().await {
        let Some(Event::Snapshot(part)) = message.event else { break };
        let last = part.last;
        parts.push(part);
        if last {
            break;
        }
    }
    table_of(parts).map_err(|bad| bad.to_string())
}

/// Returns the edits of a space, oldest first, and the revision up to which edits are forgotten.
async fn history(regions: &impl Regions, parent: &str) -> Result<(Vec<HistoryEntry>, Revision), String> {
    let (mut entries, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListHistoryRequest { parent: parent.to_owned(), page_size: 1000, page_token };
        let page = regions.list_history(Request::new(request)).await.map_err(|status| status.to_string())?.into_inner();
        entries.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            entries.reverse();
            return Ok((entries, Revision(page.forgotten_through)));
        }
    }
}

/// Checks that replaying the whole history from an empty table yields the table, without gaps in revisions. The
/// revisions up to `forgotten` belong to a deleted space, and the new space continues after them.
fn check_history(table: &Table, history: Vec<HistoryEntry>, forgotten: Revision) -> Result<(), String> {
    let copy = Table::restore(table.bits(), forgotten, RegionNumber(1), Vec::<Region>::new());
    let mut copy = copy.map_err(|damage| damage.to_string())?;
    for entry in history {
        let revision = entry.revision;
        if entry.principal.starts_with("kentd ") && revision > copy.revision().0 {
            // A restore or a move skips revisions that the old table may have had.
            let regions: Vec<Region> = copy.iter().cloned().collect();
            copy = Table::restore(copy.bits(), Revision(revision - 1), copy.next_number(), regions)
                .map_err(|damage| damage.to_string())?;
        }
        apply_change(&mut copy, entry).map_err(|bad| format!("P5: revision {revision} of the history: {bad}"))?;
    }
    let places = |table: &Table| {
        let place = |region: &Region| Region { issued: Rare::default(), ..region.clone() };
        table.iter().map(place).collect::<Vec<_>>()
    };
    match copy.revision() == table.revision() && places(&copy) == places(table) {
        true => table.check().map_err(|damage| damage.to_string()),
        false => Err("P5: the history does not yield the table".to_owned()),
    }
}
