//! The rule for the names of regions in a table.

/// Returns whether a name is not empty and has no `/`, because `/` separates the names in the path of a local table.
/// The daemon's rule is stricter.
pub(crate) fn is_table_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}
