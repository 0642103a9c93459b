//! Resource names of the API, and the short names that people type.

pub(crate) use kent_proto::model::{region_name as region, space_name as space};

/// The short name of a resource: a region's name within its space, or a space's name, which may be a path.
pub(crate) fn short(resource: &str) -> &str {
    match resource.rsplit_once("/regions/") {
        Some((_, region)) => region,
        None => resource.strip_prefix("spaces/").unwrap_or(resource),
    }
}

/// The option of a suggested command that names this space, with a space before it. Empty for the default space.
pub(crate) fn space_option(space: &str) -> String {
    match space {
        kent_ids::DEFAULT_SPACE => String::new(),
        space => format!(" --space {space}"),
    }
}
