//! Resource names of the API, and the short names that people type.

pub(crate) use kent_proto::model::{region_name as region, space_name as space};

/// The short name of a resource: a region's name within its space, or a space's name, which may be a path.
pub(crate) fn short(resource: &str) -> &str {
    match resource.rsplit_once("/regions/") {
        Some((_, region)) => region,
        None => resource.strip_prefix("spaces/").unwrap_or(resource),
    }
}

/// The name of a region's space, from the region's resource name.
pub(crate) fn space_of(region: &str) -> &str {
    let space = region.strip_prefix("spaces/").unwrap_or(region);
    space.rsplit_once("/regions/").map_or(space, |(space, _)| space)
}
