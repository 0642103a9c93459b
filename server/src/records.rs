//! The keys of all records, and the records that several modules read.

pub(crate) mod counters;
pub(crate) mod failure;
pub(crate) mod founding;
pub(crate) mod keys;
pub(crate) mod schema;
