//! Spaces and their tables in memory, edits, and the history of tables.

pub(crate) mod asks;
mod counted;
pub(crate) mod directory;
pub(crate) mod edits;
mod follow;
pub(crate) mod history;
pub(crate) mod past;
pub(crate) mod permitted;
mod removal;
pub(crate) mod retention;
pub(crate) mod space;
pub(crate) mod undo;
mod vacant;

#[cfg(test)]
mod tests;
