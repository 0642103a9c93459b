//! Resource names of the API, and the short names that people type.

pub(crate) use kent_proto::model::{region_name as region, space_name as space};

/// A region by its resource name, as the words of a suggested command: `NAME`, or `NAME --space SPACE`.
pub(crate) fn words(resource: &str) -> String {
    match resource.strip_prefix("spaces/").and_then(|rest| rest.rsplit_once("/regions/")) {
        Some((space, region)) => format!("{region}{}", space_option(space)),
        None => resource.to_owned(),
    }
}

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

/// The option of a suggested command that names this space, with a space before it. Empty for the default space.
pub(crate) fn space_option(space: &str) -> String {
    match space {
        kent_ids::DEFAULT_SPACE => String::new(),
        space => format!(" --space {space}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_words_of_a_region_name_its_space_unless_it_is_the_default_one() {
        for (resource, expected) in [
            ("spaces/default/regions/r1", "r1"),
            ("spaces/parts/regions/r1", "r1 --space parts"),
            ("spaces/default/emea/regions/r1", "r1 --space default/emea"),
        ] {
            assert_eq!(words(resource), expected);
        }
    }
}
