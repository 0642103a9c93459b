//! The names of regions in a table.

/// The name of a region. A name of up to 15 bytes needs no memory of its own.
pub type Name = ecow::EcoString;

/// Returns whether a name is not empty and has no `/`, because `/` separates the names in the path of a local table.
/// The daemon's rule is stricter.
pub(crate) fn is_table_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}
