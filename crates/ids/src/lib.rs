//! Kent's identifier formats: layout, encode, decode, text, positions and blocks.
//!
//! This crate is pure: it reads no clock, draws no randomness, does no I/O and knows no async. Time and random bits
//! come in as arguments, so that every function here can be tested, replayed and checked exhaustively.
#![no_std]

extern crate alloc;

mod block;
mod error;
mod format;
mod formats;
mod id;
mod line;
mod parts;
mod permute;
mod source;
mod time;
mod uid11;

pub use block::{Block, BlockError, RegionConstants, SlotConstants, Walk};
pub use error::{CodecError, ErrorCode};
pub use format::Format;
pub use id::Id;
pub use line::{Line, Position};
pub use parts::{ClockSeq, ClusterKey, Node, OutOfRange, Slot, SlotEpoch};
pub use permute::Permutation;
pub use source::{DEFAULT_SPACE, Source, SourceError};
pub use time::{UnixNanos, UnixSeconds};
pub use uid11::Uid11;
