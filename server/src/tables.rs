//! Spaces and their tables: what is in memory of them, edits, and what is kept of the past.

pub(crate) mod directory;
pub(crate) mod edits;
mod follow;
pub(crate) mod history;
pub(crate) mod past;
pub(crate) mod retention;
pub(crate) mod space;

#[cfg(test)]
mod tests;
