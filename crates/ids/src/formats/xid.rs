//! xid (a profile of uid11 1.0): 42 bits of milliseconds since 2011-11-11T11:11:11.111Z, then 22 bits that look random.
//!
//! The tail is the slot and a 16-bit counter, sent through a permutation that changes every millisecond: inside one
//! millisecond slots are disjoint and counters distinct, so no two identifiers are the same.

use crate::{
    block::SlotConstants,
    format::Mint,
    id::Id,
    line::{Line, Position},
    parts::ClusterKey,
    permute::Permutation,
    time::UnixNanos,
    uid11::Uid11,
};

/// The format `xid`.
pub(crate) struct Xid;

/// Milliseconds from 1970 to the xid origin.
pub(crate) const ORIGIN_MS: i128 = 1_321_009_871_111;

static MILLIS: Line = Line::new(1_000_000, UnixNanos::new(ORIGIN_MS * 1_000_000), 42, 16);

/// The permutation of the tails of one millisecond.
pub(crate) fn permutation(key: &ClusterKey, delta_ms: u64) -> Permutation {
    Permutation::new(key, b"xidperm1", delta_ms, 22)
}

impl Mint for Xid {
    fn token(&self) -> &'static str {
        "xid"
    }

    fn line(&self) -> &'static Line {
        &MILLIS
    }

    fn width_bytes(&self) -> usize {
        8
    }

    fn id(&self, value: u128) -> Id {
        Id::Uid11(Uid11::new(value as u64)) // OK because an xid has 64 bits
    }

    fn has_tail(&self) -> bool {
        false
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _: &[u64], values: &mut [u128]) {
        let mut tick = first.get() >> 16;
        let mut tails = permutation(&constants.key, tick as u64); // OK because a tick has 42 bits
        let slot = u128::from(constants.slot.get()) << 16;
        for (value, position) in values.iter_mut().zip(first.get()..) {
            if position >> 16 != tick {
                tick = position >> 16;
                tails = permutation(&constants.key, tick as u64);
            }
            *value = tick << 22 | tails.apply(slot | position & 0xffff);
        }
    }
}
