use alloc::collections::BTreeSet;
use core::convert::Infallible;

use proptest::prelude::*;
use rand_core::TryRng;

use super::*;
use crate::{ClockSeq, ClusterKey, Node, SlotEpoch, Stride, Suffixes};

/// Reproducible random bits from a seed (splitmix64).
#[derive(Clone)]
pub(crate) struct Seeded(pub(crate) u64);

impl TryRng for Seeded {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|word| (word >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(mixed ^ mixed >> 31)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

fn constants(slot: Slot, random: u64) -> SlotConstants {
    SlotConstants {
        slot,
        epoch: SlotEpoch::new(1),
        node: Node::for_slot(random, slot),
        clock_seq: ClockSeq::from_random(random),
        key: ClusterKey::new(u128::from(random).to_be_bytes()),
    }
}

fn formats() -> impl Strategy<Value = Format> {
    prop::sample::select(Format::all().collect::<Vec<_>>())
}

fn slots() -> impl Strategy<Value = Slot> {
    prop::sample::select(Slot::all().collect::<Vec<_>>())
}

/// Generates blocks of all formats, anywhere on their lines. Half of the blocks cross a border between ticks, if a tick
/// has enough positions.
fn blocks() -> impl Strategy<Value = Block> {
    (formats(), slots(), any::<u64>(), any::<u128>(), any::<bool>(), 1..300u64).prop_map(
        |(format, slot, random, at, edge, count)| {
            let (end, tick) = (format.line().end().get(), 1 << format.line().counter_bits());
            let first = at % (end - 600);
            let first = if edge { (first | (tick - 1)).saturating_sub(count.into()) % (end - 600) } else { first };
            Block::slot(format, constants(slot, random), Position::new(first), count).expect("within the line")
        },
    )
}

fn regions() -> impl Strategy<Value = Block> {
    (1..=128u8, any::<u128>(), any::<u8>(), any::<u128>(), 1..300u64).prop_map(
        |(bits, base, suffix_bits, first, count)| {
            let suffix_bits = suffix_bits % (bits + 1);
            let first = first & max_of(suffix_bits);
            let left = (max_of(suffix_bits) - first).saturating_add(1);
            let base = base & max_of(bits) & !max_of(suffix_bits);
            let constants =
                RegionConstants { base, bits, suffix_bits, number: 7, revision: 9, suffixes: Suffixes::EVERY };
            let count = u128::from(count).min(left) as u64;
            Block::region(constants, Position::new(first), count).expect("within the suffixes")
        },
    )
}

fn series() -> impl Strategy<Value = Block> {
    let series = prop::sample::select(Vec::from(["uid11-fullrand", "serial:GBP$", "serialD:ABCDEFGHIJKLM"]));
    (series, any::<u64>(), any::<u128>(), 1..300u64).prop_map(|(series, first, key, count)| {
        let series: Series = series.parse().expect("a series");
        let last = series.end().get() - u128::from(count);
        let first = Position::new(u128::from(first).min(last).max(series.first().get()));
        Block::series(series, ClusterKey::new(key.to_be_bytes()), first, count).expect("within the series")
    })
}

fn walked(block: &Block) -> Vec<Id> {
    block.walk(Seeded(7)).collect()
}

/// Returns the identifiers without their random tails, which differ from walk to walk.
fn bare(block: &Block, ids: impl IntoIterator<Item = Id>) -> Vec<u128> {
    let tail_bits = block.format().map_or(0, |format| format.tail_bits());
    ids.into_iter().map(|id| id.to_u128() >> tail_bits).collect()
}

/// Returns the part of an identifier that must ascend: the milliseconds of an xid, the ticks of a version 1 UUID, or
/// else the whole value.
fn ascending(format: Format, id: &Id) -> u128 {
    match (format.token(), id) {
        ("xid", _) => id.to_u128() >> crate::Xid::RAND_BITS,
        ("uuidv1", Id::Uuid(uuid)) => crate::Gregorian::from_uuid(*uuid).expect("version 1").ticks().into(),
        _ => id.to_u128(),
    }
}

#[track_caller]
fn check_region_err(bits: u8, base: u128, suffix_bits: u8, first: u128, count: u64, expected: &BlockError) {
    let constants = RegionConstants { base, bits, suffix_bits, number: 0, revision: 0, suffixes: Suffixes::EVERY };
    assert_eq!(Block::region(constants, Position::new(first), count).as_ref(), Err(expected));
}

#[test]
fn err_runs_that_do_not_make_a_block() {
    let slot = Slot::new(0).expect("a slot");
    for format in Format::all() {
        let block = |first, count| Block::slot(format, constants(slot, 0), Position::new(first), count);
        let end = format.line().end();
        assert_eq!(block(0, 0), Err(BlockError::Empty));
        assert!(block(end.get() - 1, 1).is_ok());
        for (first, count) in [(end.get() - 1, 2), (end.get(), 1), (u128::MAX, u64::MAX)] {
            let first = Position::new(first);
            assert_eq!(block(first.get(), count), Err(BlockError::BeyondLine { format, first, count }));
        }
    }
    for series in ["uid11-fullrand", "serial:GBP$"].map(|token| token.parse::<Series>().expect("a series")) {
        let block = |first, count| {
            Block::series(series.clone(), ClusterKey::new([0; 16]), Position::new(first), count).map(|_| ())
        };
        let (start, end) = (series.first().get(), series.end().get());
        assert_eq!((block(start, 0), block(start, 1), block(end - 1, 1)), (Err(BlockError::Empty), Ok(()), Ok(())));
        for (first, count) in [(end - 1, 2), (end, 1), (u128::MAX, u64::MAX), (start.wrapping_sub(1), 1)] {
            let (series, first) = (series.clone(), Position::new(first));
            assert_eq!(block(first.get(), count), Err(BlockError::BeyondSeries { series, first, count }));
        }
    }
    check_region_err(64, 0, 32, 0, 0, &BlockError::Empty);
    check_region_err(0, 0, 0, 0, 1, &BlockError::BadWidth { bits: 0, suffix_bits: 0 });
    check_region_err(129, 0, 0, 0, 1, &BlockError::BadWidth { bits: 129, suffix_bits: 0 });
    check_region_err(8, 0, 9, 0, 1, &BlockError::BadWidth { bits: 8, suffix_bits: 9 });
    check_region_err(8, 0x100, 4, 0, 1, &BlockError::BadBase { base: 0x100, bits: 8, suffix_bits: 4 });
    check_region_err(8, 0x11, 4, 0, 1, &BlockError::BadBase { base: 0x11, bits: 8, suffix_bits: 4 });
    let beyond = BlockError::BeyondSuffix { first: Position::new(15), count: 2, suffix_bits: 4 };
    check_region_err(8, 0x10, 4, 15, 2, &beyond);
}

#[test]
fn ok_a_suffix_of_no_bits_is_one_number() {
    let constants =
        RegionConstants { base: 0x13, bits: 8, suffix_bits: 0, number: 0, revision: 0, suffixes: Suffixes::EVERY };
    let block = Block::region(constants, Position::ZERO, 1).expect("the only suffix");
    assert_eq!(walked(&block).into_iter().map(|id| id.to_u128()).collect::<Vec<_>>(), [0x13]);
    for (first, count) in [(1, 1), (0, 2)] {
        let first = Position::new(first);
        let beyond = BlockError::BeyondSuffix { first, count, suffix_bits: 0 };
        check_region_err(8, 0x13, 0, first.get(), count, &beyond);
    }
}

#[test]
fn ok_a_block_describes_itself() {
    let (slot, at) = (Slot::new(5).expect("a slot"), Position::new(1 << 60));
    let (format, slot_constants) = (Format::by_token("uuidv7").expect("a format"), constants(slot, 7));
    let block = Block::slot(format, slot_constants, at, 3).expect("within the line");
    let fencing = Fencing { subject: FencingSubject::Slot(slot), token: 1 };
    assert_eq!((block.fencing(), fencing.subject.number()), (Some(fencing), 5));
    assert_eq!((block.kind(), block.width_bytes(), block.packed_len()), (IdKind::Uuid, 16, 48));
    assert_eq!((block.format(), block.instant()), (Some(format), Some(format.line().instant(at))));
    assert_eq!((block.slot_constants(), block.region_constants()), (Some(&slot_constants), None));
    assert_eq!((block.first(), block.last().get(), block.count()), (at, at.get() + 2, 3));

    let region_constants =
        RegionConstants { base: 0, bits: 12, suffix_bits: 8, number: 7, revision: 9, suffixes: Suffixes::EVERY };
    let block = Block::region(region_constants, Position::new(1), 3).expect("within the suffixes");
    let fencing = Fencing { subject: FencingSubject::Region(7), token: 9 };
    assert_eq!((block.fencing(), fencing.subject.number()), (Some(fencing), 7));
    assert_eq!((block.kind(), block.width_bytes(), block.packed_len()), (IdKind::Number { bits: 12 }, 2, 6));
    assert_eq!((block.format(), block.instant()), (None, None));
    assert_eq!((block.slot_constants(), block.region_constants()), (None, Some(&region_constants)));

    let block = Block::series(Series::FullRand, ClusterKey::new([0; 16]), at, 3).expect("within the series");
    assert_eq!((block.kind(), block.width_bytes(), block.packed_len()), (IdKind::Uid11, 8, 24));
    assert_eq!((block.fencing(), block.format(), block.instant()), (None, None, None));
    assert_eq!((block.slot_constants(), block.region_constants()), (None, None));
}

#[test]
fn ok_the_last_identifier_of_the_widest_space() {
    let constants =
        RegionConstants { base: 0, bits: 128, suffix_bits: 128, number: 0, revision: 0, suffixes: Suffixes::EVERY };
    let block = Block::region(constants, Position::new(u128::MAX - 1), 2).expect("within the suffixes");
    let last = walked(&block).into_iter().map(|id| id.to_u128()).collect::<Vec<_>>();
    assert_eq!(last, [u128::MAX - 1, u128::MAX]);
}

/// Walking and packing use different batch sizes, and an octave may begin anywhere in a batch.
#[test]
fn ok_a_scrambled_block_across_any_octave_border() {
    let key = ClusterKey::new([7; 16]);
    for (bits, octave) in (64..=128).step_by(32).flat_map(|bits| (0..bits).map(move |octave| (bits, octave))) {
        let constants = RegionConstants {
            base: 0,
            bits,
            suffix_bits: bits,
            number: 0,
            revision: 0,
            suffixes: Suffixes::Scrambled(key),
        };
        let first = (1_u128 << octave).saturating_sub(300);
        let count = 600.min((max_of(bits) - first).saturating_add(1));
        let block = Block::region(constants, Position::new(first), count as u64).expect("within the suffixes");
        let one_by_one: Vec<u128> =
            (first..).take(count as usize).map(|counter| crate::scramble(&key, counter)).collect();
        let mut values = Vec::new();
        block.values(Seeded(0), |some| values.extend_from_slice(some));
        assert_eq!(values, one_by_one, "the octave of 2^{octave} in {bits} bits");
        assert_eq!(walked(&block).into_iter().map(|id| id.to_u128()).collect::<Vec<_>>(), one_by_one);
        let (mut packed, width) = (Vec::new(), block.width_bytes());
        block.pack_into(Seeded(0), &mut packed);
        let expected = one_by_one.iter().flat_map(|value| value.to_be_bytes().into_iter().skip(16 - width));
        assert!(packed.into_iter().eq(expected), "the octave of 2^{octave} in {bits} bits");
    }
}

proptest! {
    #[test]
    fn ok_the_identifiers_of_a_block_are_distinct_and_ascend(block in blocks()) {
        let (format, ids) = (block.format().expect("a format's"), walked(&block));
        prop_assert_eq!(ids.len() as u64, block.count());
        prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        prop_assert!(ids.is_sorted_by_key(|id| ascending(format, id)), "{:?}", ids);
    }

    #[test]
    fn ok_identifiers_of_different_positions_differ_for_any_tails(block in blocks(), seeds: [u64; 2]) {
        let [a, b] = seeds.map(|seed| bare(&block, block.walk(Seeded(seed))));
        prop_assert_eq!(a.iter().collect::<BTreeSet<_>>().len(), a.len());
        prop_assert_eq!(a, b);
    }

    #[test]
    fn ok_two_slots_never_share_an_identifier(block in blocks(), other in slots(), node: u64) {
        let (format, mine) = (block.format().expect("a format's"), *block.slot_constants().expect("a slot's"));
        prop_assume!(other != mine.slot);
        let theirs = SlotConstants { key: mine.key, ..constants(other, node) };
        let theirs = Block::slot(format, theirs, block.first(), block.count()).expect("the same run");
        let ids = bare(&block, walked(&block)).into_iter().collect::<BTreeSet<_>>();
        prop_assert!(bare(&theirs, walked(&theirs)).iter().all(|id| !ids.contains(id)));
    }

    #[test]
    fn ok_each_identifier_is_that_of_its_position(block in blocks()) {
        let format = block.format().expect("a format's");
        let constants = block.slot_constants().expect("a slot's");
        for (position, id) in (block.first().get()..).zip(walked(&block)) {
            let tail = id.to_u128() & ((1 << format.tail_bits()) - 1);
            let encoded = format.encode(constants, Position::new(position), tail as u64);
            prop_assert_eq!(encoded, Ok(id));
        }
    }

    #[test]
    fn ok_the_parts_of_a_block_walk_to_its_identifiers(block in prop_oneof![blocks(), regions(), series()], at: u64) {
        let at = at % (block.count() + 1);
        let whole = bare(&block, walked(&block));
        match block.split_at(at) {
            None => prop_assert!(at == 0 || at == block.count()),
            Some((front, rest)) => {
                prop_assert_eq!((front.count(), front.count() + rest.count()), (at, block.count()));
                prop_assert_eq!((front.first(), rest.last()), (block.first(), block.last()));
                let parts = walked(&front).into_iter().chain(rest.walk(Seeded(8)));
                prop_assert_eq!(bare(&block, parts), whole);
            }
        }
    }

    #[test]
    fn ok_taking_from_the_front_returns_all_in_order(block in prop_oneof![blocks(), regions(), series()], count in 0..100u64) {
        let (mut taken, mut rest) = (Vec::new(), Some(block.clone()));
        while let Some(left) = rest {
            let front;
            (front, rest) = left.take_front(count);
            prop_assert!(front.count() <= count.max(1));
            taken.extend(walked(&front));
        }
        prop_assert_eq!(bare(&block, taken), bare(&block, walked(&block)));
    }

    #[test]
    fn ok_packing_gives_the_identifiers_of_a_walk(block in prop_oneof![blocks(), regions(), series()], seed: u64) {
        let mut packed = Vec::from([0xaa]);
        block.pack_into(Seeded(seed), &mut packed);
        let mut expected = Vec::from([0xaa]);
        for id in block.walk(Seeded(seed)) {
            let start = expected.len();
            expected.resize(start + block.width_bytes(), 0);
            id.write_be(&mut expected[start..]);
        }
        prop_assert_eq!(packed, expected);
    }

    #[test]
    fn ok_a_series_gives_each_number_its_identifier(block in series()) {
        let BlockSource::Series(series, key) = block.source() else { unreachable!("a series") };
        let ids = walked(&block);
        prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len() as u64, block.count());
        for (number, id) in (block.first().get()..).zip(ids) {
            prop_assert_eq!(series.encode(key, Position::new(number)), Ok(id));
        }
    }

    #[test]
    fn ok_a_region_counts_up_from_its_base(block in regions()) {
        let base = block.region_constants().expect("a region's").base;
        for (suffix, id) in (block.first().get()..=block.last().get()).zip(walked(&block)) {
            prop_assert_eq!(id.to_u128(), base + suffix);
        }
    }

    #[test]
    fn ok_a_scrambled_region_gives_the_suffixes_of_its_counters(block in regions(), key: u128) {
        let key = ClusterKey::new(key.to_be_bytes());
        let suffixes = Suffixes::Scrambled(key);
        let constants = RegionConstants { suffixes, ..*block.region_constants().expect("a region's") };
        let block = Block::region(constants, block.first(), block.count()).expect("the same run");
        for (counter, id) in (block.first().get()..=block.last().get()).zip(walked(&block)) {
            prop_assert_eq!(id.to_u128(), constants.base | crate::scramble(&key, counter));
            prop_assert!(id.to_u128() ^ constants.base <= max_of(constants.suffix_bits));
        }
    }

    #[test]
    fn ok_a_region_with_a_stride_gives_the_numbers_in_the_span(
        (bits, suffix_bits) in (1..=128u8).prop_flat_map(|bits| (Just(bits), 0..=bits)),
        (base, next) in any::<(u128, u128)>(),
        (step, offset, count) in (1..400u16, any::<u16>(), 1..300u64),
    ) {
        let stride = Stride::new(step, offset % step).expect("a stride");
        let (base, next) = (base & max_of(bits) & !max_of(suffix_bits), next & max_of(suffix_bits));
        let suffixes = Suffixes::Counted(stride);
        let constants = RegionConstants { base, bits, suffix_bits, number: 7, revision: 9, suffixes };
        let end = next.checked_add(stride.span(count)).filter(|end| *end - 1 <= max_of(suffix_bits));
        match (Block::region_from(constants, Position::new(next), count), end) {
            (Ok(block), Some(end)) => {
                let expected: Vec<u128> =
                    (next..end).filter(|suffix| stride.holds(*suffix)).map(|suffix| base + suffix).collect();
                let values: Vec<u128> = walked(&block).iter().map(Id::to_u128).collect();
                prop_assert_eq!(&values, &expected);
                let mut packed = Vec::new();
                block.pack_into(Seeded(7), &mut packed);
                let width = block.width_bytes();
                let bytes: Vec<u8> =
                    expected.iter().flat_map(|value| value.to_be_bytes()[16 - width..].to_vec()).collect();
                prop_assert_eq!(packed, bytes);
                if let Some((front, back)) = block.split_at(count / 2) {
                    let parts: Vec<u128> = [front, back].iter().flat_map(walked).map(|id| id.to_u128()).collect();
                    prop_assert_eq!(parts, expected);
                }
            }
            // The last numbers of the stride may fit although the whole span does not.
            (Ok(_), None) => {}
            (Err(error), end) => {
                prop_assert!(end.is_none() && matches!(error, BlockError::BeyondSuffix { .. }), "{}", error);
            }
        }
    }

    #[test]
    fn ok_a_walk_counts_the_identifiers_left(block in blocks(), taken in 0..400usize) {
        let mut walk = block.walk(Seeded(0));
        let taken = walk.by_ref().take(taken).count() as u64;
        prop_assert_eq!(walk.left(), block.count() - taken);
        prop_assert_eq!(walk.len() as u64, walk.left());
        prop_assert_eq!(walk.count() as u64, block.count() - taken);
    }
}
