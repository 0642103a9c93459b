//! Resource names of the API, and the short names that people type.

pub(crate) use kent_proto::model::{
    region_name as region, region_words, short_name as short, space_name as space, space_option,
};

/// Converts the resource name of a region to the words of a suggested command: `NAME --space SPACE`.
pub(crate) fn words(resource: &str) -> String {
    match resource.strip_prefix("spaces/").and_then(|rest| rest.rsplit_once("/regions/")) {
        Some((space, region)) => region_words(region, space),
        None => resource.to_owned(),
    }
}

/// Returns the name of a region's space, from the region's resource name.
pub(crate) fn space_of(region: &str) -> &str {
    let space = region.strip_prefix("spaces/").unwrap_or(region);
    space.rsplit_once("/regions/").map_or(space, |(space, _)| space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_words_of_a_region_name_its_space() {
        for (resource, expected) in [
            ("spaces/default/regions/r1", "r1 --space default"),
            ("spaces/parts/regions/r1", "r1 --space parts"),
            ("spaces/default/emea/regions/r1", "r1 --space default/emea"),
        ] {
            assert_eq!(words(resource), expected);
        }
    }
}
