//! Maps of a space.

use kent_regions::{CELLS_MAX, Cell, ChunkPolicy, Content, Count, Map, Prefix, Region, RegionNumber, Revision};

use super::{
    Invalid,
    names::{SpaceName, region_name},
    regions::{Usage, bits, kind},
};
use crate::v1;

/// A validated request for a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapInput {
    /// The name of the space.
    pub space: String,
    /// The prefix to draw.
    pub under: Prefix,
    /// The maximum number of cells.
    pub cells_max: usize,
    /// The revision to draw; `None` for the current one.
    pub revision: Option<Revision>,
}

/// The number of cells if the request does not set it.
const CELLS_DEFAULT: usize = 1024;

impl TryFrom<v1::MapRegionsRequest> for MapInput {
    type Error = Invalid;

    fn try_from(request: v1::MapRegionsRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let under = bits("prefix", &request.prefix)?;
        let cells_max = match request.max_cells as usize {
            0 => CELLS_DEFAULT,
            most @ ..=CELLS_MAX => most,
            most => return Err(Invalid::new("max_cells", format!("is {most}, but must be at most {CELLS_MAX}"))),
        };
        let revision = (request.at_revision != 0).then_some(Revision(request.at_revision));
        Ok(Self { space, under, cells_max, revision })
    }
}

/// A validated request for the fullest regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullestInput {
    /// The name of the space.
    pub space: String,
    /// The maximum number of regions.
    pub most: usize,
}

/// The maximum number of the fullest regions, and the number if the request does not set it.
const FULLEST_MAX: usize = 100;
const FULLEST_DEFAULT: usize = 10;

impl TryFrom<v1::ListFullestRegionsRequest> for FullestInput {
    type Error = Invalid;

    fn try_from(request: v1::ListFullestRegionsRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let most = match request.max_regions as usize {
            0 => FULLEST_DEFAULT,
            most @ ..=FULLEST_MAX => most,
            most => return Err(Invalid::new("max_regions", format!("is {most}, but must be at most {FULLEST_MAX}"))),
        };
        Ok(Self { space, most })
    }
}

/// Converts a map. `usage` returns the daemon's use of a region. It is `None` for a map of the past, which has no
/// counters.
pub fn map(space: &str, map: &Map, usage: Option<&dyn Fn(RegionNumber) -> Usage>) -> v1::MapRegionsResponse {
    let cell = |cell: &Cell| {
        let region = cell.region();
        let used = region.zip(usage).map(|(region, usage)| usage(region.number)).unwrap_or_default();
        // The exact number is known only for a single region. Sums over regions count reserved suffixes as issued.
        let issued = if region.is_some() { used.issued(cell.issued()) } else { cell.issued() };
        let (capacity, issued) = (cell.capacity(), usage.map(|_| issued));
        let fill = issued.filter(|_| capacity != Count::ZERO).map(|issued| issued.to_f64() / capacity.to_f64());
        v1::MapCell {
            prefix: cell.prefix.to_string(),
            region_count: cell.regions().into(),
            capacity: capacity.to_string(),
            issued: issued.map(|issued| issued.to_string()).unwrap_or_default(),
            fill,
            kinds: cell.contents().map(|content| content_kind(content).into()).collect(),
            free_share: cell.free_share(),
            region: region.map(|region| map_region(space, region, used)),
            inside: cell.around().map(|around| region_name(space, &around.name)).unwrap_or_default(),
        }
    };
    v1::MapRegionsResponse {
        cells: map.cells.iter().map(cell).collect(),
        around: map.around.iter().map(|region| map_region(space, region, Usage::default())).collect(),
        ..v1::MapRegionsResponse::default()
    }
}

fn map_region(space: &str, region: &Region, usage: Usage) -> v1::MapRegion {
    v1::MapRegion {
        name: region_name(space, &region.name),
        number: region.number.0,
        prefix: region.prefix.to_string(),
        zone_bits: region.zone.into(),
        suffix_bits: region.suffix.into(),
        kind: kind(region.kind).into(),
        sealed: region.sealed,
        delegated: region.delegated,
        strict: region.policy().chunk == ChunkPolicy::Strict,
        subregion_bits: region.sub_bits.into(),
        rate: usage.rate,
        full_in_seconds: region.full_in(usage.issued(*region.issued), usage.rate),
    }
}

const fn content_kind(content: Content) -> v1::map_cell::Kind {
    match content {
        Content::Region => v1::map_cell::Kind::Region,
        Content::Free => v1::map_cell::Kind::Free,
        Content::Zone => v1::map_cell::Kind::Zone,
        Content::Subregions => v1::map_cell::Kind::Subregions,
        Content::Delegated => v1::map_cell::Kind::Delegated,
        Content::Sealed => v1::map_cell::Kind::Sealed,
        Content::Closed => v1::map_cell::Kind::Closed,
        Content::Strict => v1::map_cell::Kind::Strict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prefix: &str, max_cells: u32, at_revision: u64) -> v1::MapRegionsRequest {
        v1::MapRegionsRequest { parent: "spaces/default".into(), prefix: prefix.into(), max_cells, at_revision }
    }

    #[test]
    fn ok_requests_are_read() {
        for (prefix, max_cells, at, expected) in
            [("", 0, 0, (1024, None)), ("101", 1, 3, (1, Some(Revision(3)))), ("0", 4096, 0, (4096, None))]
        {
            let input = MapInput::try_from(request(prefix, max_cells, at)).expect("valid");
            assert_eq!((input.cells_max, input.revision), expected);
            assert_eq!((input.space.as_str(), input.under.to_string().as_str()), ("default", prefix));
        }
    }

    #[test]
    fn err_each_bad_field_is_named() {
        let other = v1::MapRegionsRequest { parent: "default".into(), ..request("", 0, 0) };
        for (request, field, reason) in [
            (request("012", 0, 0), "prefix", "BAD_PREFIX"),
            (request(&"0".repeat(129), 0, 0), "prefix", "BAD_PREFIX"),
            (request("", 4097, 0), "max_cells", "BAD_INPUT"),
            (request("", u32::MAX, 0), "max_cells", "BAD_INPUT"),
            (other, "parent", "BAD_INPUT"),
        ] {
            let invalid = MapInput::try_from(request).expect_err("not valid");
            assert_eq!((invalid.field, invalid.reason), (field, reason));
        }
    }
}
