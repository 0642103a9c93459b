//! The keys of all records, and the records that several modules read.

pub mod counters;
pub mod failure;
pub mod founding;
pub mod keys;
pub mod schema;
