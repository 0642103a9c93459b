//! The state that changes when identifiers are issued, and its records in the store. The logic is in `kent-issue`,
//! which does no I/O. This module does not know who requests identifiers.

pub(crate) mod cell;
pub(crate) mod pacing;
pub(crate) mod queue;
mod rate;
pub(crate) mod record;
pub(crate) mod requests;
pub(crate) mod slots;
pub(crate) mod strict;
pub(crate) mod timed;
