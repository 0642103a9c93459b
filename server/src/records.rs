//! What is stored: the keys of all records, and how those are read that more than one part of the daemon needs.

pub(crate) mod counters;
pub(crate) mod failure;
pub(crate) mod founding;
pub(crate) mod keys;
pub(crate) mod schema;
