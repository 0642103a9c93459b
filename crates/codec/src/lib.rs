//! Inspects and makes identifiers without a daemon: the verbs of `kent codec` and the answers of `kent inspect`.
//!
//! All functions here are pure: they map text to text. `kent codec`, `kent inspect` and the daemon use the same code.
//!
//! | to | use |
//! |---|---|
//! | answer one line of the line protocol | [`answer_line`], [`answer_into`] |
//! | answer one verb, given its input as JSON | [`answer`] |
//! | guess the format of a string, and show its fields | [`inspect`] |
//! | find only the format and the value, of millions of strings | [`Detector`] |
//! | show the fields of an identifier of a custom layout | [`inspect_layout`] |
//! | make an identifier from its fields | [`encode`] |
//! | read an identifier of a space | [`parse_id`] |
//!
//! Each verb is a function in a submodule of `verbs`, with an entry in the submodule's table `VERBS`.

mod detect;
mod encode;
mod error;
mod foreign;
mod input;
mod inspect;
mod line;
mod number;
mod verbs;

pub use detect::{Detected, Detector, canonical, formats};
pub use encode::{Encoded, encode};
pub use error::VerbError;
pub use inspect::{BitRange, Field, Inspection, NO_FORMAT, Reading, inspect, inspect_layout};
pub use line::{answer, answer_into, answer_line};
pub use number::{TypedId, parse_id, parse_id_in, parse_number, parse_serial, shortened};

/// Returns the names of all verbs.
pub fn verbs() -> impl Iterator<Item = &'static str> {
    verbs::names()
}
