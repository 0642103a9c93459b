//! Parts of the `kent` commands that messages suggest.
//!
//! A suggested command always names the space, even the default one, because the reader's KENT_SPACE or context may
//! select another space.

/// Returns the option that names a space, with a leading blank.
pub fn space_option(space: &str) -> String {
    format!(" --space {space}")
}

/// Returns a region as arguments: `REGION --space SPACE`.
pub fn region_words(region: &str, space: &str) -> String {
    format!("{region}{}", space_option(space))
}

/// Returns a region as the source of `kent alloc`.
pub fn region_source(region: &str, space: &str) -> String {
    format!("region:{region}@{space}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_command_names_every_space() {
        for (space, words, source) in [
            ("default", "r --space default", "region:r@default"),
            ("default/emea", "r --space default/emea", "region:r@default/emea"),
        ] {
            assert_eq!((region_words("r", space).as_str(), region_source("r", space).as_str()), (words, source));
        }
    }
}
