//! Resource names as the API spells them, and the short names that people type.

/// "spaces/SPACE".
pub(crate) fn space(space: &str) -> String {
    format!("spaces/{space}")
}

/// "spaces/SPACE/regions/REGION".
pub(crate) fn region(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}

/// The last part of a resource name: what people call the thing.
pub(crate) fn short(resource: &str) -> &str {
    resource.rsplit('/').next().unwrap_or(resource)
}
