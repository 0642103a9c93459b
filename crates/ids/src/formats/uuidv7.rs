//! UUIDv7 (RFC 9562 section 5.7), with a counter in `rand_a` and the top of `rand_b` (section 6.2, method 1).
//!
//! | bits | 0-47 | 48-51 | 52-63 | 64-65 | 66-75 | 76-81 | 82-127 |
//! |---|---|---|---|---|---|---|---|
//! | field | unix_ms | 0111 | counter 21..10 | 10 | counter 9..0 | slot | random |

use uuid::Uuid;

use crate::{
    block::SlotConstants,
    format::Mint,
    id::Id,
    line::{Line, Position},
    time::UnixNanos,
};

/// The format `uuidv7`.
pub(crate) struct UuidV7;

static MILLIS: Line = Line::new(1_000_000, UnixNanos::new(0), 48, 22);

/// Bits of the random tail.
const TAIL_BITS: u32 = 46;

/// Composes a v7 UUID from a position, a slot's number and a tail.
pub(crate) const fn compose(position: u128, slot: u8, tail: u64) -> u128 {
    let (millis, counter) = (position >> 22, position & 0x3f_ffff);
    let tail = tail as u128 & ((1 << TAIL_BITS) - 1);
    millis << 80
        | 0x7 << 76
        | (counter >> 10) << 64
        | 0b10 << 62
        | (counter & 0x3ff) << 52
        | (slot as u128) << TAIL_BITS
        | tail
}

impl Mint for UuidV7 {
    fn token(&self) -> &'static str {
        "uuidv7"
    }

    fn line(&self) -> &'static Line {
        &MILLIS
    }

    fn width_bytes(&self) -> usize {
        16
    }

    fn id(&self, value: u128) -> Id {
        Id::Uuid(Uuid::from_u128(value))
    }

    fn has_tail(&self) -> bool {
        true
    }

    fn fill(&self, constants: &SlotConstants, first: Position, random: &[u64], values: &mut [u128]) {
        let slot = constants.slot.get();
        for ((value, position), tail) in values.iter_mut().zip(first.get()..).zip(random) {
            *value = compose(position, slot, *tail);
        }
    }
}
