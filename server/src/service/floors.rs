//! The messages of `RaiseFloors`.

use std::collections::BTreeSet;

use kent_engine::grant::floors::{FLOORS_MAX, NamedFloor, Raised};
use kent_ids::{Source, SourceError, UnixNanos};
use kent_proto::{
    model::Invalid,
    v1::{RaisedFloor, raise_floors_request::Floor},
};

/// Reads the floors of a request.
pub(super) fn parse(floors: &[Floor]) -> Result<Vec<NamedFloor>, Invalid> {
    if floors.is_empty() || floors.len() > FLOORS_MAX {
        return Err(Invalid::new("floors", format!("must have 1 to {FLOORS_MAX} elements, but has {}", floors.len())));
    }
    let mut seen = BTreeSet::new();
    let named = |Floor { source, floor }: &Floor| {
        let parsed: Source = source.parse().map_err(|error: SourceError| Invalid::new("source", error))?;
        match seen.insert(parsed.to_string()) {
            true => Ok(NamedFloor { source: parsed, text: floor.clone() }),
            false => Err(Invalid::new("floors", format!("names {source} twice"))),
        }
    };
    floors.iter().map(named).collect()
}

pub(super) fn message(source: String, raised: Raised) -> RaisedFloor {
    match raised {
        Raised::Series { before, after, is_change } => {
            RaisedFloor { source, before: before.to_string(), after: after.to_string(), changed: is_change }
        }
        Raised::Time { before: at, is_change } => {
            RaisedFloor { source, before: String::new(), after: text(at), changed: is_change }
        }
    }
}

/// Writes a time in RFC 3339 form, with as few decimal places as it needs.
fn text(at: UnixNanos) -> String {
    let places = [0, 3, 6].into_iter().find(|places| at.get() % 10_i128.pow(9 - places) == 0).unwrap_or(9);
    at.rfc3339(places).unwrap_or_default()
}
