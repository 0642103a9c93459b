//! The state that changes when identifiers are issued, and its records in the store. The logic is in `kent-issue`,
//! which does no I/O. This module does not know who requests identifiers.

pub mod cell;
pub mod pacing;
pub mod queue;
mod rate;
pub mod record;
pub mod requests;
pub mod slots;
pub mod strict;
pub mod timed;
pub(crate) mod turns;
