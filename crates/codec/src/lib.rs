//! What an identifier is, offline: the verbs of `kent codec` and the answers of `kent inspect` (formats.md, section 13).
//!
//! Everything here is a pure function from text to text. It reads no clock, needs no daemon, and is the same code whether the
//! question comes through a pipe, a command line or a request.
//!
//! | to | use |
//! |---|---|
//! | answer one line of the line protocol | [`answer_line`], [`answer_into`] |
//! | answer one verb, given its input as JSON | [`answer`] |
//! | guess what a text is, and show what it holds | [`inspect`] |
//! | make an identifier from its fields | [`encode`] |
//!
//! A verb is a function in a file below `verbs` and one line of the table there.

mod encode;
mod error;
mod input;
mod inspect;
mod line;
mod verbs;

pub use encode::{Encoded, encode};
pub use error::VerbError;
pub use inspect::{BitRange, Field, Inspection, Reading, inspect};
pub use line::{answer, answer_into, answer_line};

/// The names of all verbs.
pub fn verbs() -> impl Iterator<Item = &'static str> {
    verbs::names()
}
