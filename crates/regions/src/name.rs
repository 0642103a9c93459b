//! Names of regions, as far as the table itself cares.

/// The pure table's rule: not empty, and no `/`, which separates the tables of delegated regions. Services are stricter.
pub(crate) fn is_table_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}
