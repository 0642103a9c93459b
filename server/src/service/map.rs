//! Maps of a table: at one revision, and only of the regions that the caller may read.

use std::{sync::Arc, time::Duration};

use kent_access::{Action, Target};
use kent_engine::{
    auth::Caller,
    engine::Engine,
    host::computing::yielding,
    status,
    tables::{past::Earlier, permitted::is_readable, space::Space},
};
use kent_proto::{
    model::{self, Invalid, MapInput, Usage},
    v1::MapRegionsResponse,
};
use kent_regions::{Chart, Map, Mapping, Region, RegionNumber, Revision, Table};
use tonic::Status;

/// The number of cells to divide under one lock. Dividing them takes about a tenth of a millisecond.
const PART: usize = 64;
/// The number of attempts to draw a map while the table changes. After these attempts, the table is locked for the
/// whole map, or copied for a map of an earlier revision.
const ATTEMPTS: usize = 3;
/// The number of regions to process before yielding.
const REGIONS_PART: u32 = 64;

/// Draws a map for a caller that may read some of the regions of the space.
pub(super) async fn map(
    engine: &Engine,
    caller: &Caller,
    space: Arc<Space>,
    input: MapInput,
) -> Result<MapRegionsResponse, Status> {
    let bits = space.read(Table::bits);
    if input.under.len() > bits {
        let problem = format!("has {} bits, but the identifiers of the space have {bits}", input.under.len());
        return Err(status::from_invalid(&Invalid::new("prefix", problem).because("BAD_PREFIX")));
    }
    let name = space.name();
    let MapInput { under, cells_max, revision, .. } = input;
    let now = engine.clock().steady();
    let (revision, partial, mut response) = match revision {
        Some(revision) => {
            let map = earlier(engine, &space, &input, revision).await?;
            let drawn = move || (revision, false, model::map(&name, &map, None));
            engine.computing().run(drawn).await.map_err(|busy| status::busy(&busy))?
        }
        None if caller.may(Action::Read, Target::Table { space: space.key() }) => {
            let drawn = move || {
                let (map, revision) = of_table(&space, &input);
                (revision, false, with_counters(&space, &name, &map, now))
            };
            engine.computing().run_locking(drawn).await.map_err(|busy| status::busy(&busy))?
        }
        None => {
            let (regions, revision) = space.listing().await;
            let caller = caller.clone();
            let drawn = move || {
                let is_readable = |region: &Arc<Region>| is_readable(&space, &caller, region);
                let readable = yielding(regions.into_iter(), REGIONS_PART).filter(is_readable);
                let map = Chart::new(bits, readable).map(under, cells_max);
                (revision, true, with_counters(&space, &name, &map, now))
            };
            engine.computing().run_locking(drawn).await.map_err(|busy| status::busy(&busy))?
        }
    };
    (response.revision, response.partial, response.bits) = (revision.0, partial, bits.into());
    Ok(response)
}

/// Draws a map of a table in parts, so that grants can take the lock in between.
fn of_table(space: &Space, input: &MapInput) -> (Map, Revision) {
    for _ in 0..ATTEMPTS {
        let (mut mapping, revision) =
            space.read(|table| (Mapping::of(table, input.under, input.cells_max), table.revision()));
        loop {
            match space.read(|table| mapping.divide(table, PART)) {
                Some(true) => {}
                Some(false) => return (mapping.finish(), revision),
                None => break,
            }
        }
    }
    space.read(|table| (table.map(input.under, input.cells_max), table.revision()))
}

/// Draws a map of a table at an earlier revision.
async fn earlier(engine: &Engine, space: &Arc<Space>, input: &MapInput, revision: Revision) -> Result<Map, Status> {
    let (past, store, computing) = (engine.past(), engine.store(), engine.computing());
    for _ in 0..ATTEMPTS {
        let earlier = past.earlier(store, space, revision).await.map_err(|none| status::from_history(&none))?;
        let (space, input) = (space.clone(), input.clone());
        let drawn = computing.run_locking(move || of_earlier(&space, &input, &earlier)).await;
        if let Some(map) = drawn.map_err(|busy| status::busy(&busy))? {
            return Ok(map);
        }
    }
    // The table changes too often, so copy it.
    let table = past.table(store, computing, space, revision).await.map_err(|none| status::from_past(&none))?;
    let (bits, input) = (space.read(Table::bits), input.clone());
    let drawn = move || {
        let (regions, _) = table.page(None, usize::MAX);
        Chart::new(bits, yielding(regions.iter().cloned(), REGIONS_PART)).map(input.under, input.cells_max)
    };
    computing.run(drawn).await.map_err(|busy| status::busy(&busy))
}

/// Draws a map of an earlier revision in parts, so that grants can take the lock in between. Returns `None` if the table
/// has been edited.
fn of_earlier(space: &Space, input: &MapInput, earlier: &Earlier) -> Option<Map> {
    let rewind = earlier.rewind(space);
    let mut mapping = space.read(|table| Mapping::of_earlier(table, rewind, input.under, input.cells_max))?;
    while space.read(|table| mapping.divide_earlier(table, rewind, PART))? {}
    Some(mapping.finish())
}

fn with_counters(space: &Space, name: &str, map: &Map, now: Duration) -> MapRegionsResponse {
    let usage = |number: RegionNumber| -> Usage { space.usage(number, now) };
    model::map(name, map, Some(&usage))
}
