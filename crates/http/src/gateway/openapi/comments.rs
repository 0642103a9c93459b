//! The comments of the .proto files, as descriptions.

use std::collections::HashMap;

use prost_reflect::{DescriptorPool, FileDescriptor};
use serde_json::Value;

/// The comments of all files.
pub(super) struct Comments<'p> {
    /// Each key is the name of a file and a path within the file.
    by_place: HashMap<(&'p str, &'p [i32]), &'p str>,
}

impl<'p> Comments<'p> {
    pub(super) fn of(pool: &'p DescriptorPool) -> Self {
        let files = pool.file_descriptor_protos();
        let places = files.flat_map(|file| {
            let locations = file.source_code_info.iter().flat_map(|info| &info.location);
            locations.map(|location| ((file.name(), &*location.path), location.leading_comments()))
        });
        Self { by_place: places.filter(|(_, comment)| !comment.is_empty()).collect() }
    }

    /// The comment above an item; empty if the item has none.
    pub(super) fn at(&self, file: &FileDescriptor, path: &[i32]) -> String {
        let comment = self.by_place.get(&(file.name(), path)).copied().unwrap_or_default();
        let lines: Vec<&str> = comment.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        lines.join("\n").trim().to_owned()
    }
}

/// The first sentence of a comment.
pub(super) fn first_sentence(comment: &str) -> &str {
    comment.find(". ").or_else(|| comment.find(".\n")).map_or(comment, |end| &comment[..=end])
}

/// Adds a description to an object, unless the description is empty.
pub(super) fn describe(object: &mut Value, description: impl Into<String>) {
    let description = description.into();
    if !description.is_empty() {
        object["description"] = Value::String(description);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_first_sentence_ends_at_a_period() {
        for (comment, expected) in [
            ("One. Two.", "One."),
            ("One of a, b.\nTwo", "One of a, b."),
            ("Version 1.5 of it", "Version 1.5 of it"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(comment), expected);
        }
    }
}
