//! Exports of tables, with the identifiers that their spaces had issued before the export.

use kent_proto::v1::{GetSpaceRequest, ListRegionsRequest, Region, regions_server::Regions};
use tokio::time;
use tonic::{Request, Status};

use super::super::{
    ledger::Issued,
    mutant::Mutant,
    run::{REPLICAS, Run},
};

/// A table, as `kent table export` writes it.
pub(super) struct Export {
    pub(super) space: String,
    pub(super) bits: u32,
    pub(super) regions: Vec<Region>,
    /// The identifiers issued before the export was requested.
    pub(super) issued: Issued,
}

impl Export {
    pub(super) fn has_delegated(&self) -> bool {
        self.regions.iter().any(|region| !region.delegated_space.is_empty())
    }
}

/// The number of attempts to read a table.
const READS: usize = 20;

/// Exports the tables of a space and of the spaces inside it, outer spaces first. A space without regions has no
/// export.
pub(super) async fn exports(run: &Run, space: &str) -> Option<Vec<Export>> {
    let mut exports = vec![export(run, space).await?];
    let mut next = 0;
    while let Some(outer) = exports.get(next) {
        let delegated = outer.regions.iter().filter(|region| !region.delegated_space.is_empty());
        let inner: Vec<String> = delegated.map(|region| format!("{}/{}", outer.space, id_of(region))).collect();
        for space in inner {
            exports.extend(export(run, &space).await);
        }
        next += 1;
    }
    Some(exports)
}

async fn export(run: &Run, space: &str) -> Option<Export> {
    for _ in 0..READS {
        let gate = run.gate.read().await;
        if let Some(life) = run.life(run.dice.between(0, REPLICAS as u64 - 1) as usize) {
            let origin = run.places.origin(space);
            let is_exact = run.backend().mutant != Some(Mutant::StaleExport);
            let issued = run.with_ledger(|ledger| ledger.issued_from(&origin));
            if let Ok((bits, regions)) = read(run, &life.node.regions(), space, is_exact).await {
                let space = space.to_owned();
                return (!regions.is_empty()).then_some(Export { space, bits, regions, issued });
            }
        }
        drop(gate);
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// Returns the regions of a space with their current counters.
pub(super) async fn listing(run: &Run, space: &str) -> Option<Vec<Region>> {
    for _ in 0..READS {
        if let Some(life) = run.life(run.dice.between(0, REPLICAS as u64 - 1) as usize)
            && let Ok((_, regions)) = read(run, &life.node.regions(), space, true).await
        {
            return Some(regions);
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// Reads all pages of one revision, and the width of the space.
async fn read(
    run: &Run,
    regions: &impl Regions,
    space: &str,
    exact_counters: bool,
) -> Result<(u32, Vec<Region>), Status> {
    let name = format!("spaces/{space}");
    let bits = regions.get_space(Request::new(GetSpaceRequest { name: name.clone() })).await?.into_inner().bits;
    let page_size = if run.dice.per_mille(300) { 4 } else { 1000 };
    let mut list = ListRegionsRequest { parent: name, page_size, exact_counters, ..ListRegionsRequest::default() };
    let (mut all, mut revision) = (Vec::new(), None);
    loop {
        let page = regions.list_regions(Request::new(list.clone())).await?.into_inner();
        if *revision.get_or_insert(page.revision) != page.revision {
            return Err(Status::aborted("the table was edited between two pages"));
        }
        all.extend(page.regions);
        list.page_token = page.next_page_token;
        if list.page_token.is_empty() {
            return Ok((bits, all));
        }
    }
}

/// Returns the last part of a region's resource name.
pub(super) fn id_of(region: &Region) -> &str {
    region.name.rsplit('/').next().unwrap_or_default()
}
