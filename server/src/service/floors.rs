//! The messages of `RaiseFloors`.

use std::collections::BTreeSet;

use kent_engine::grant::floors::{NamedFloor, RECORDS_MAX, Raised};
use kent_ids::{Source, SourceError, UnixNanos};
use kent_proto::{
    model::Invalid,
    v1::{RaisedFloor, raise_floors_request::Floor},
};

/// Reads the floors of a request.
pub(super) fn parse(floors: &[Floor]) -> Result<Vec<NamedFloor>, Invalid> {
    let too_many = |count: usize| {
        let limit =
            format!("must have 1 to {RECORDS_MAX} elements, and a region counts as four: these count as {count}");
        Invalid::new("floors", limit)
    };
    if floors.is_empty() || floors.len() > RECORDS_MAX {
        return Err(too_many(floors.len()));
    }
    let mut seen = BTreeSet::new();
    let named = |Floor { source, floor }: &Floor| {
        let parsed: Source = source.parse().map_err(|error: SourceError| Invalid::new("source", error))?;
        match seen.insert(parsed.to_string()) {
            true => Ok(NamedFloor { source: parsed, text: floor.clone() }),
            false => Err(Invalid::new("floors", format!("names {source} twice"))),
        }
    };
    let named: Vec<_> = floors.iter().map(named).collect::<Result<_, _>>()?;
    match named.iter().map(NamedFloor::records).sum::<usize>() {
        records if records > RECORDS_MAX => Err(too_many(records)),
        _ => Ok(named),
    }
}

/// Whether all floors are those of regions, so that raising them is only an edit of tables.
pub(super) fn are_of_regions(floors: &[Floor]) -> bool {
    !floors.is_empty() && floors.iter().all(|floor| floor.source.starts_with(REGION))
}

/// The beginning of the source of a region.
pub(super) const REGION: &str = "region:";

pub(super) fn message(source: String, raised: Raised) -> RaisedFloor {
    match raised {
        Raised::Counter { before, after, end, is_change: changed } => {
            let (before, left, after) = (before.to_string(), end.saturating_sub(after).to_string(), after.to_string());
            RaisedFloor { source, before, after, changed, left }
        }
        Raised::Time { before: at, is_change: changed } => {
            RaisedFloor { source, after: text(at), changed, ..RaisedFloor::default() }
        }
    }
}

/// Writes a time in RFC 3339 form, with as few decimal places as it needs.
fn text(at: UnixNanos) -> String {
    let places = [0, 3, 6].into_iter().find(|places| at.get() % 10_i128.pow(9 - places) == 0).unwrap_or(9);
    at.rfc3339(places).unwrap_or_default()
}
