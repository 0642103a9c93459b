//! UUIDv6 (RFC 9562 section 5.6): 60 bits of Gregorian ticks, most significant first, then clock sequence and node.
//!
//! | bits | 0-47 | 48-51 | 52-63 | 64-65 | 66-79 | 80-127 |
//! |---|---|---|---|---|---|---|
//! | field | ticks 59..12 | 0110 | ticks 11..0 | 10 | clock_seq | node |
//!
//! Every position is a tick of its own.

use uuid::Uuid;

use crate::{
    block::SlotConstants,
    format::Mint,
    id::Id,
    line::{Line, Position},
    parts::{ClockSeq, Node},
    time::UnixNanos,
};

/// The format `uuidv6`.
pub(crate) struct UuidV6;

/// 100 ns ticks since 1582-10-15T00:00:00Z, leap seconds not counted, 60 bits of them.
pub(crate) static GREGORIAN: Line = Line::new(100, UnixNanos::new(-12_219_292_800_000_000_000), 60, 0);

/// Composes a v6 UUID from 60 bits of ticks.
pub(crate) const fn compose(ticks: u128, clock_seq: ClockSeq, node: Node) -> u128 {
    let high = (ticks >> 12) << 80;
    let low = (ticks & 0xfff) << 64;
    high | 0x6 << 76 | low | 0b10 << 62 | (clock_seq.get() as u128) << 48 | node.get() as u128
}

impl Mint for UuidV6 {
    fn token(&self) -> &'static str {
        "uuidv6"
    }

    fn sequence_key(&self) -> &'static str {
        "gregorian"
    }

    fn line(&self) -> &'static Line {
        &GREGORIAN
    }

    fn width_bytes(&self) -> usize {
        16
    }

    fn id(&self, value: u128) -> Id {
        Id::Uuid(Uuid::from_u128(value))
    }

    fn has_tail(&self) -> bool {
        false
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _: &[u64], values: &mut [u128]) {
        for (value, ticks) in values.iter_mut().zip(first.get()..) {
            *value = compose(ticks, constants.clock_seq, constants.node);
        }
    }
}
