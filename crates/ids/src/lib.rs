//! Kent's identifier formats: layout, encode, decode, text, positions and blocks.
//!
//! This crate is pure: it reads no clock, draws no randomness, does no I/O and knows no async. Time and random bits
//! come in as arguments, so that every function here can be tested, replayed and checked exhaustively.
#![no_std]

extern crate alloc;

mod line;
mod time;

pub use line::{Line, Position};
pub use time::{UnixNanos, UnixSeconds};
