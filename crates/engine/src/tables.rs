//! Spaces and their tables in memory, edits, and the history of tables.

pub mod asks;
mod counted;
pub mod directory;
pub mod edits;
pub(crate) mod floors;
mod follow;
pub mod history;
pub(crate) mod imaging;
pub mod past;
pub mod permitted;
mod removal;
pub mod retention;
pub mod space;
pub mod undo;
mod vacant;
