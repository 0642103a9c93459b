//! Runs of consecutive integers, for callers that know only signed 64-bit integers.

use std::num::NonZeroU64;

use kent_ids::{Block, Position, RegionConstants, Stride, Suffixes};
use kent_proto::model::Invalid;

/// The largest integer that such a caller understands.
const MAX: u128 = i64::MAX as u128;

/// Returns the position below which the region's identifiers are integers. `next` is the lowest suffix that may be
/// issued next.
///
/// # Errors
///
/// [`Invalid`] if the region does not issue its suffixes in order, if `count` of them would not be consecutive, or if
/// `count` identifiers from `next` on are not all integers.
pub(super) fn limit(constants: &RegionConstants, next: u128, count: NonZeroU64) -> Result<Position, Invalid> {
    let stride = match constants.suffixes {
        Suffixes::Counted(stride) => stride,
        Suffixes::Scrambled(_) => {
            let problem = "is a scrambled region, whose identifiers are not consecutive; use a region in counted order, which is the \
                           default (kent region create NAME --suffix N)";
            return Err(Invalid::new("key", problem).because("NOT_COUNTED"));
        }
    };
    if count != NonZeroU64::MIN && stride != Stride::EVERY {
        let problem =
            format!("is a region that issues {stride}, so {count} of its identifiers are not consecutive; use INCR");
        return Err(Invalid::new("key", problem).because("NOT_CONSECUTIVE"));
    }
    let end = (MAX + 1).saturating_sub(constants.base);
    match next.checked_add(stride.span(count.get())) {
        Some(after) if after <= end => Ok(Position::new(end)),
        _ => Err(not_integers()),
    }
}

/// Returns the last identifier of a block of such integers.
///
/// # Errors
///
/// [`Invalid`] if the identifiers of the block are not consecutive integers.
pub fn last(block: &Block) -> Result<i64, Invalid> {
    let last = block.region_constants().and_then(|constants| match constants.suffixes {
        Suffixes::Counted(stride) => constants.base.checked_add(stride.number(block.last().get())?),
        Suffixes::Scrambled(_) => None,
    });
    last.and_then(|last| i64::try_from(last).ok()).ok_or_else(not_integers)
}

fn not_integers() -> Invalid {
    let problem = format!(
        "is a region whose next identifiers are above {MAX}, so they do not fit a signed 64-bit integer; request them over gRPC or HTTP"
    );
    Invalid::new("key", problem).because("NOT_AN_INTEGER")
}

#[cfg(test)]
mod tests {
    use kent_ids::ClusterKey;

    use super::*;

    const SCRAMBLED: Suffixes = Suffixes::Scrambled(ClusterKey::new([0; 16]));
    const THIRD: Suffixes = Suffixes::Counted(Stride::new(3, 1).expect("a stride"));

    fn constants(base: u128, suffix_bits: u8, suffixes: Suffixes) -> RegionConstants {
        RegionConstants { base, bits: 128, suffix_bits, number: 1, revision: 1, suffixes }
    }

    #[test]
    fn ok_and_err_suffixes_that_are_integers() {
        let max = i64::MAX as u128;
        for (base, next, count, expected) in [
            (0, 0, 1, Ok(max + 1)),
            (0, max, 1, Ok(max + 1)),
            (0, max, 2, Err("NOT_AN_INTEGER")),
            (0, u128::MAX, 1, Err("NOT_AN_INTEGER")),
            (1 << 62, 0, 1, Ok(1 << 62)),
            (1 << 62, (1 << 62) - 3, 3, Ok(1 << 62)),
            (1 << 62, (1 << 62) - 3, 4, Err("NOT_AN_INTEGER")),
            (1 << 63, 0, 1, Err("NOT_AN_INTEGER")),
            (1 << 127, 0, u64::MAX, Err("NOT_AN_INTEGER")),
        ] {
            let count = NonZeroU64::new(count).expect("at least 1");
            let found = limit(&constants(base, 62, Suffixes::EVERY), next, count);
            let found = found.map(Position::get).map_err(|invalid| invalid.reason);
            assert_eq!(found, expected, "{base} {next} {count}");
        }
        for (suffixes, count, expected) in
            [(SCRAMBLED, 1, Err("NOT_COUNTED")), (THIRD, 1, Ok(max + 1)), (THIRD, 2, Err("NOT_CONSECUTIVE"))]
        {
            let count = NonZeroU64::new(count).expect("at least 1");
            let found = limit(&constants(0, 62, suffixes), 0, count).map(Position::get);
            assert_eq!(found.map_err(|invalid| invalid.reason), expected, "{suffixes:?} {count}");
        }
        let near = limit(&constants(0, 62, THIRD), max - 2, NonZeroU64::MIN).map(Position::get);
        assert_eq!(near.ok(), Some(max + 1));
        assert!(
            limit(&constants(0, 62, THIRD), max - 1, NonZeroU64::MIN).is_err(),
            "the span passes the largest integer"
        );
    }

    #[test]
    fn ok_and_err_the_last_integer_of_a_block() {
        for (base, suffix_bits, first, count, expected) in [
            (0, 62, 0, 1, Some(0)),
            (0, 62, 5, 10, Some(14)),
            (1 << 62, 62, (1 << 62) - 2, 2, Some(i64::MAX)),
            (0, 64, i64::MAX as u128, 2, None),
            (1 << 127, 62, 0, 1, None),
        ] {
            let block = Block::region(constants(base, suffix_bits, Suffixes::EVERY), Position::new(first), count)
                .expect("fits");
            assert_eq!(last(&block).ok(), expected, "{base} {first} {count}");
        }
        let third = Block::region(constants(0, 62, THIRD), Position::new(5), 2).expect("fits");
        assert_eq!(last(&third).ok(), Some(1 + 3 * 6));
        let scrambled = Block::region(constants(0, 62, SCRAMBLED), Position::new(1), 1).expect("fits");
        assert!(last(&scrambled).is_err());
    }
}
