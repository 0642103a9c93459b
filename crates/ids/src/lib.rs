//! Kent's identifier formats: layout, encode, decode, text, positions and blocks.
//!
//! This crate is pure: it reads no clock, draws no random bits, does no I/O and has no async code. Callers pass the
//! time and the random bits as arguments, so tests can replay every function and check many of them exhaustively.
//!
//! | to | use |
//! |---|---|
//! | name the source of identifiers | [`Source`], [`Format`], [`Series`] |
//! | turn an instant into a position | [`Format::line`], [`Line`] |
//! | turn a run of positions into identifiers | [`Block`] |
//! | read an identifier's fields, or make one from fields | [`Codec`]; typed: [`Gregorian`], [`UuidV7`], [`Xid`] |
//! | read and write text | [`dce`] for UUIDs, [`uid11`] |
//! | define a custom layout of identifiers | [`layout`] |
//! | permute numbers with a key | [`Permutation`], [`permute()`], [`scramble`] |
#![no_std]

extern crate alloc;

mod block;
mod civil;
pub mod dce;
mod error;
pub mod extuuid;
mod field;
mod formats;
mod id;
pub mod layout;
mod line;
mod nearly;
mod permute;
mod series;
mod slot;
mod source;
mod stride;
mod tails;
mod time;
pub mod uid11;
mod wide;
mod words;

pub use uuid::Uuid;

pub use block::{Block, BlockError, BlockSource, Fencing, FencingSubject, Walk};
pub use error::{CodecError, ErrorCode, OutOfRange};
pub use field::{BitRange, Field, FieldValue, Inputs, NoInputs};
pub use formats::{Codec, Family, Format, Gregorian, UuidV7, Xid};
pub use id::{Id, IdKind};
pub use line::{Line, Position};
pub use nearly::nearly_uuid;
pub use permute::{MAX_BITS, Permutation, permute, scramble, unpermute, unscramble};
pub use series::Series;
pub use slot::{ClockSeq, ClusterKey, Node, Slot, SlotConstants, SlotEpoch};
pub use source::{DEFAULT_SPACE, MAX_NAME_LEN, NameFault, RegionConstants, Source, SourceError, Suffixes, check_name};
pub use stride::Stride;
pub use tails::Tails;
pub use time::{UnixNanos, UnixSeconds};
pub use uid11::Uid11;
pub use words::{counted, counted_be, grouped};
