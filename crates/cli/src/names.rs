//! Resource names as the API spells them, and the short names that people type.

pub(crate) use kent_proto::model::{region_name as region, space_name as space};

/// The last part of a resource name: what people call the thing.
pub(crate) fn short(resource: &str) -> &str {
    resource.rsplit('/').next().unwrap_or(resource)
}
