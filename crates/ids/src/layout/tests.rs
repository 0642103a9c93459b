use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};

use proptest::prelude::*;

use super::*;
use crate::{
    Block, BlockError, ClockSeq, ClusterKey, ErrorCode, FencingSubject, FieldValue, Format, Id, IdKind, Node, Position,
    Slot, SlotConstants, SlotEpoch, UnixNanos, UnixSeconds, block::tests::Seeded,
};

const SECOND: i128 = 1_000_000_000;
const KEY: ClusterKey = ClusterKey::new([7; 16]);
/// 2026-11-25T00:00:00Z.
const NOW: UnixNanos = UnixNanos::new(1_795_564_800 * SECOND);

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

fn granted(layout: &Layout, slot: Slot) -> Granted {
    match layout.line() {
        None => Granted::Counter(KEY),
        Some(_) => Granted::Slot(SlotConstants {
            slot,
            epoch: SlotEpoch::new(3),
            node: Node::for_slot(0, slot),
            clock_seq: ClockSeq::from_random(0),
            key: KEY,
        }),
    }
}

fn constants(layout: &Layout, slot: Slot, tag: u64) -> LayoutConstants {
    LayoutConstants { layout: layout.clone(), granted: granted(layout, slot), tag }
}

fn encode(text: &str, number: u8, tag: u64, position: u128, tail: u64) -> u128 {
    let constants = constants(&layout(text), slot(number), tag);
    Layout::encode(&constants, Position::new(position), tail).expect(text)
}

/// Generates valid layouts: any fields in any order.
pub(super) fn layouts() -> impl Strategy<Value = Layout> {
    const TICKS: [u64; 12] = [
        1,
        7,
        100,
        1_000,
        1_024_000,
        1_000_000,
        3_000_000,
        10_000_000,
        1_000_000_000,
        1_500_000_000,
        60_000_000_000,
        86_400_000_000_000,
    ];
    let epoch = (-2_000_000_000_i128..3_000_000_000).prop_map(|second| UnixNanos::new(second * SECOND));
    let time = (1..=64_u8, prop::sample::select(&TICKS[..]), epoch)
        .prop_map(|(bits, tick_nanos, epoch)| LayoutField { kind: FieldKind::Time { tick_nanos, epoch }, bits });
    let slot = (1..=12_u8, any::<u64>()).prop_map(|(bits, base)| {
        let base = base & ((1 << bits) - 1);
        LayoutField { kind: FieldKind::Slot { base: if base % 3 == 0 { 0 } else { base } }, bits }
    });
    let plain = |kind: FieldKind, bits: core::ops::RangeInclusive<u8>| {
        bits.prop_map(move |bits| LayoutField { kind, bits }).boxed()
    };
    let counter = prop_oneof![
        4 => plain(FieldKind::Counter, 1..=24),
        1 => plain(FieldKind::Counter, 1..=64),
        2 => plain(FieldKind::Permuted, 6..=30),
        1 => plain(FieldKind::Permuted, 1..=64),
    ];
    let tag = prop_oneof![plain(FieldKind::Shard, 1..=16), plain(FieldKind::Tag, 1..=64)];
    let constant = (1..=9_u8, any::<u128>())
        .prop_map(|(bits, value)| LayoutField { kind: FieldKind::Const { value: value & ((1 << bits) - 1) }, bits });
    let fixed = prop::collection::vec(prop_oneof![plain(FieldKind::Zero, 1..=9), constant.boxed()], 0..3);
    let maybe = prop::option::weighted::<BoxedStrategy<LayoutField>>;
    (
        prop::option::weighted(0.85, time),
        maybe(0.7, slot.boxed()),
        maybe(0.85, counter.boxed()),
        maybe(0.5, prop_oneof![plain(FieldKind::Random, 1..=30), plain(FieldKind::Random, 1..=64)].boxed()),
        maybe(0.3, tag.boxed()),
        fixed,
    )
        .prop_map(|(time, slot, counter, random, tag, fixed)| {
            let slot = slot.filter(|_| time.is_some());
            let fields = [time, slot, counter, random, tag].into_iter().flatten();
            fields.chain(fixed).collect::<Vec<_>>()
        })
        .prop_shuffle()
        .prop_filter_map("not a layout", |fields| Layout::new(fields).ok())
}

/// Generates layouts and blocks anywhere among their positions. Half of the blocks cross a border between ticks of the
/// line, if a tick has enough positions.
fn blocks() -> impl Strategy<Value = (Layout, Block)> {
    (layouts(), any::<u8>(), any::<u64>(), any::<u128>(), any::<bool>(), 1..300u64).prop_map(
        |(layout, number, tag, at, edge, count)| {
            let end = layout.end().get();
            let count = count.min(u64::try_from(end).unwrap_or(u64::MAX));
            let last_first = end - u128::from(count);
            let tick = 1_u128 << layout.line().map_or(0, |line| line.counter_bits());
            let first = at % (last_first + 1);
            let first =
                if edge { (first | (tick - 1)).saturating_sub(u128::from(count) / 2).min(last_first) } else { first };
            let slot = slot(number % layout.slots().max(1));
            let tag = layout.tag_bits().map_or(0, |bits| tag >> (64 - bits));
            let block =
                Block::layout(constants(&layout, slot, tag), Position::new(first), count).expect("within the layout");
            (layout, block)
        },
    )
}

fn walked(block: &Block, seed: u64) -> Vec<u128> {
    block.walk(Seeded(seed)).map(|id| id.to_u128()).collect()
}

/// Returns the bits of an identifier that are not random.
fn bare(layout: &Layout, id: u128) -> u128 {
    id & !layout.plan.random.map_or(0, |place| place.put(place.max()))
}

#[test]
fn ok_layouts_and_their_texts() {
    for (text, printed) in [
        ("zero:1 time:41:1ms@2015-01-01 slot:10 counter:12", ""),
        (
            "time:42:1ms@2010-11-04T01:42:54.657Z  shard:13\tslot:6:3 counter:4",
            "time:42:1ms@2010-11-04T01:42:54.657Z shard:13 slot:6:3 counter:4",
        ),
        (
            "time:48:1ms const:4:7 counter:12 const:0b10 slot:6 random:56",
            "time:48:1ms@1970-01-01 const:4:7 counter:12 const:2:2 slot:6 random:56",
        ),
        ("const:0xdead counter:16", "const:16:57005 counter:16"),
        ("const:8:0x1f const:8:0b11 counter:1", "const:8:31 const:8:3 counter:1"),
        ("permuted:64", ""),
        ("time:32:1000ms@1970-01-01T00:00:00.000Z permuted:22 slot:6:0", "time:32:1s@1970-01-01 permuted:22 slot:6"),
        ("const:128:0", "?"),
    ] {
        if printed == "?" {
            assert_eq!(text.parse::<Layout>(), Err(LayoutError::NothingCounts));
            continue;
        }
        let printed = if printed.is_empty() { text } else { printed };
        let layout = layout(text);
        assert_eq!(layout.to_string(), printed);
        assert_eq!(printed.parse(), Ok(layout));
    }
}

#[test]
fn err_texts_that_are_not_layouts() {
    for (text, message) in [
        ("", "a layout has at least one field, as in \"zero:1 time:41:1ms@2015-01-01 slot:10 counter:12\""),
        (
            "seq:12",
            "there is no field \"seq\": use zero, const, time, slot, counter, random, permuted, shard or tag, as in \"zero:1 time:41:1ms@2015-01-01 slot:10 counter:12\"",
        ),
        ("counter", "\"counter\" is not a field: write counter:BITS, as in counter:12"),
        ("counter:x", "\"counter:x\" is not a field: write counter:BITS, as in counter:12"),
        ("counter:+1", "\"counter:+1\" is not a field: write counter:BITS, as in counter:12"),
        ("counter:12:1", "\"counter:12:1\" is not a field: write counter:BITS, as in counter:12"),
        ("time:41", "\"time:41\" is not a field: write time:BITS:TICK@EPOCH, as in time:41:1ms@2015-01-01"),
        ("slot:4:-1", "\"slot:4:-1\" is not a field: write slot:BITS or slot:BITS:BASE, as in slot:10 or slot:10:512"),
        (
            "const:7",
            "\"const:7\" is not a field: write const:BITS:VALUE, or const:VALUE in binary or hexadecimal, as in const:4:7, const:0b0111 or const:0x7",
        ),
        (
            "time:41:2d",
            "\"2d\" is not a tick: write a number and ns, us, ms, s, min, h or d, from 1ns to 1d, as in time:41:10ms",
        ),
        (
            "time:41:1ms@2015",
            "\"2015\" is not an epoch: write a date, or a date and a time in UTC, as in time:41:1ms@2015-01-01 or time:41:1ms@2010-11-04T01:42:54.657Z",
        ),
        ("counter:0", "counter has 0 bits, but must have 1 to 64, as in counter:12"),
        ("counter:65", "counter has 65 bits, but must have 1 to 64, as in counter:12"),
        ("zero:129", "zero has 129 bits, but must have 1 to 128, as in zero:1"),
        (
            "zero:128 counter:1",
            "the layout is too wide: its fields have 129 bits in total, but an identifier has at most 128",
        ),
        (
            "counter:4 counter:4",
            "counter occurs twice: a layout has each field at most once, except zero and const; shard and tag count as the same field",
        ),
        (
            "counter:4 shard:4 tag:4",
            "tag occurs twice: a layout has each field at most once, except zero and const; shard and tag count as the same field",
        ),
        ("const:4:16", "const:4:16 does not fit: 4 bits can hold at most 15"),
        (
            "time:41:1ms slot:4:16",
            "slot:4:16 does not fit: the base is the number of slot 0, and 4 bits can hold at most 15",
        ),
        (
            "time:41:1s@2015-01-01T00:00:00.5Z counter:1",
            "the epoch 2015-01-01T00:00:00.500Z must be a whole multiple of 1s from 1970-01-01, because ticks are counted in these steps: use 2015-01-01",
        ),
        (
            "counter:4 permuted:4",
            "counter and permuted exclude each other: permuted is the counter after a permutation; leave out counter",
        ),
        (
            "random:64",
            "nothing makes two identifiers differ: add a time and a counter, or a counter alone, as in \"zero:1 time:41:1ms@2015-01-01 slot:10 counter:12\"",
        ),
        (
            "slot:6 counter:12",
            "slot needs a time: without one, all identifiers come from one durable counter, which no two slots share; leave out slot, or add a time, as in time:41:1ms@2015-01-01",
        ),
        (
            "time:41:1ms permuted:5",
            "permuted:5 is too narrow: it holds the slot, which takes 6 bits, unless the layout has a field slot; use permuted:7 or wider",
        ),
        (
            "time:41:1ms counter:63",
            "with a time, the counter has at most 62 bits, as in counter:12, but here it has 63",
        ),
        (
            "time:20:1h slot:6 counter:11",
            "ticks of 1h need a counter of at least 12 bits: Kent reserves time in whole seconds, so it divides each tick into 3600 parts with their own counters; use a shorter tick, or a wider counter, as in counter:12",
        ),
    ] {
        assert_eq!(text.parse::<Layout>().expect_err(text).to_string(), message);
    }
    let error = layout("zero:1 counter:62").check_bits(64).expect_err("too narrow");
    assert_eq!(
        error.to_string(),
        "the fields have 63 bits in total, but the identifiers must have 64: add 1 bit, for example zero:1 in front"
    );
    let error = layout("zero:1 counter:62").check_bits(61).expect_err("too wide");
    assert_eq!(
        error.to_string(),
        "the fields have 63 bits in total, but the identifiers must have 61: make fields narrower by 2 bits"
    );
    assert_eq!(layout("zero:1 counter:62").check_bits(63), Ok(()));
    for (kind, bits, expected) in [
        (FieldKind::Counter, 200, LayoutError::FieldWidth { kind: FieldKind::Counter, bits: 200 }),
        (FieldKind::Time { tick_nanos: 0, epoch: NOW }, 40, LayoutError::TickRange { tick_nanos: 0 }),
        (FieldKind::Time { tick_nanos: 1, epoch: UnixNanos::new(i128::MIN) }, 40, LayoutError::EpochRange),
    ] {
        assert_eq!(Layout::new([LayoutField { kind, bits }]), Err(expected));
    }
}

#[test]
fn ok_positions_and_their_identifiers() {
    let twitter = "zero:1 time:41:1ms@2010-11-04T01:42:54.657Z slot:10 counter:12";
    for (text, slot, tag, position, tail, id) in [
        (twitter, 3, 0, 5 << 12 | 7, 0, 5 << 22 | 3 << 12 | 7),
        ("time:41:1ms slot:10:512 counter:12", 3, 0, 5 << 12 | 7, 0, 5 << 22 | 515 << 12 | 7),
        ("counter:12 slot:6 time:20:1s", 3, 0, 5 << 12 | 7, 0, 7 << 26 | 3 << 20 | 5),
        ("time:41:1ms shard:13 slot:6 counter:4", 3, 1341, 5 << 4 | 7, 0, 5 << 23 | 1341 << 10 | 3 << 4 | 7),
        (
            "time:8:1ms const:4:7 counter:4 random:8 slot:6",
            63,
            0,
            5 << 4 | 9,
            0xab,
            5 << 22 | 7 << 18 | 9 << 14 | 0xab << 6 | 63,
        ),
        // A minute has 60 parts, so each second has 2^(12 - 6) counters: position (tick 2, part 59, counter 63).
        ("time:20:1min slot:6 counter:12", 1, 0, (2 * 60 + 59) << 6 | 63, 0, 2 << 18 | 1 << 12 | 59 << 6 | 63),
        ("const:4:9 counter:8", 0, 0, 200, 0, 9 << 8 | 200),
        ("counter:64 zero:64", 0, 0, u64::MAX.into(), 0, u128::from(u64::MAX) << 64),
        ("time:64:1ns random:64", 0, 0, 7, u64::MAX, 7 << 64 | u128::from(u64::MAX)),
    ] {
        assert_eq!(encode(text, slot, tag, position, tail), id, "{text}");
        let issued = layout(text).issued(id, &KEY).expect(text);
        assert_eq!((issued.position.get(), issued.tag, issued.tail), (position, tag, tail), "{text}");
    }
}

/// A layout with the fields of an xid permutes the same index as an xid, but with another label.
#[test]
fn ok_a_permuted_field_is_the_permutation_of_slot_and_counter() {
    let text = "time:42:1ms@2011-11-11T11:11:11.111Z permuted:22";
    for (number, position) in [(0, 0), (3, 5 << 16 | 7), (63, (5 << 16) - 1)] {
        let index = u128::from(number) << 16 | position & 0xffff;
        let ts = position >> 16;
        let expected = ts << 22 | crate::permute(&KEY, b"layout01", ts as u64, 22, index);
        assert_eq!(encode(text, number, 0, position, 0), expected);
    }
    let expected = crate::permute(&KEY, b"layout01", 0, 64, 7);
    assert_eq!(encode("permuted:64", 0, 0, 7, 0), expected, "without a time, there is one permutation");
    let expected = 5 << 22 | 3 << 16 | crate::permute(&KEY, b"layout01", 5, 16, 7);
    assert_eq!(encode("time:20:1ms slot:6 permuted:16", 3, 0, 5 << 16 | 7, 0), expected, "the slot has its own field");
}

/// These built-in formats can be written as layouts. The others divide a field, store fractions of a second, or use
/// another label for their permutation.
#[test]
fn ok_built_in_formats_that_are_layouts() {
    for (token, text) in [
        ("uid11-snowish", "zero:1 time:41:1ms@2011-11-11T11:11:11.111Z slot:10 counter:12"),
        ("uid11-ts-seq-rand", "time:42:1ms@2011-11-11T11:11:11.111Z counter:12 slot:6 random:4"),
    ] {
        let (format, layout) = (Format::by_token(token).expect(token), layout(text));
        assert_eq!((layout.line(), layout.tail_bits()), (Some(format.line()), format.tail_bits()));
        for (number, position, tail) in [(0, 0, 0), (5, 1 << 40, 0), (63, (1 << 41) - 1, (1 << format.tail_bits()) - 1)]
        {
            let constants = constants(&layout, slot(number), 0);
            let Granted::Slot(slot_constants) = &constants.granted else { unreachable!("a layout with a time") };
            let id = format.encode(slot_constants, Position::new(position), tail).map(|id| id.to_u128());
            assert_eq!(Layout::encode(&constants, Position::new(position), tail), id, "{token}");
        }
    }
}

#[test]
fn err_constants_that_do_not_fit_the_layout() {
    let check = |text: &str, slot: Slot, tag, message: &str| {
        let error = constants(&layout(text), slot, tag).check().expect_err(text);
        assert_eq!((error.code(), error.to_string().as_str()), (ErrorCode::Range, message));
    };
    check(
        "time:41:1ms slot:3 counter:1",
        slot(8),
        0,
        "the slot is 8, but \"time:41:1ms@1970-01-01 slot:3 counter:1\" can hold only the slots below 8",
    );
    check("counter:4", slot(0), 1, "the value is 1, but \"counter:4\" has no field shard or tag");
    check("counter:4 tag:3", slot(0), 8, "the value is 8, but must be from 0 to 7 to fit the 3 bits of the layout");
    let (timed, counted) = (layout("time:41:1ms counter:1"), layout("counter:4"));
    let swapped = LayoutConstants { layout: timed.clone(), granted: Granted::Counter(KEY), tag: 0 };
    assert!(swapped.check().is_err());
    let swapped = LayoutConstants { layout: counted.clone(), granted: granted(&timed, slot(0)), tag: 0 };
    assert!(swapped.check().is_err());

    let constants = constants(&counted, slot(0), 0);
    assert_eq!(Block::layout(constants.clone(), Position::ZERO, 0), Err(BlockError::Empty));
    assert!(Block::layout(constants.clone(), Position::ZERO, 16).is_ok());
    let beyond = Block::layout(constants.clone(), Position::new(1), 16).expect_err("beyond");
    let message = "16 positions from 1 go past the end of the layout \"counter:4\", whose positions are below 16";
    assert_eq!(beyond.to_string(), message);
    assert!(Block::layout(constants.clone(), Position::new(u128::MAX), u64::MAX).is_err());
    assert!(Layout::encode(&constants, Position::new(16), 0).is_err());
    assert!(Layout::encode(&constants, Position::new(15), 1).is_err(), "a tail without random bits");
}

#[test]
fn ok_a_block_of_a_layout_describes_itself() {
    let timed = layout("zero:1 time:31:1s@2015-01-01 slot:10 counter:12");
    let constants = constants(&timed, slot(5), 0);
    let block = Block::layout(constants.clone(), Position::new(100 << 12), 3).expect("within the layout");
    assert_eq!((block.kind(), block.width_bytes(), block.packed_len()), (IdKind::Number { bits: 54 }, 7, 21));
    assert_eq!(
        block.fencing().map(|fencing| (fencing.subject, fencing.token)),
        Some((FencingSubject::Slot(slot(5)), 3))
    );
    assert_eq!(block.instant(), Some(UnixNanos::new((1_420_070_400 + 100) * SECOND)));
    assert_eq!((block.format(), block.region_constants(), block.layout_constants()), (None, None, Some(&constants)));
    assert_eq!(block.slot_constants().map(|constants| constants.slot), Some(slot(5)));

    let counted = LayoutConstants { layout: layout("counter:20"), granted: Granted::Counter(KEY), tag: 0 };
    let block = Block::layout(counted, Position::new(7), 3).expect("within the layout");
    assert_eq!((block.fencing(), block.instant(), block.slot_constants()), (None, None, None));
    assert_eq!(walked(&block, 0), [7, 8, 9]);
}

#[test]
fn ok_slots_that_fit() {
    for (text, slots) in [
        ("time:41:1ms slot:10 counter:12", 64),
        ("time:41:1ms slot:10:1023 counter:12", 1),
        ("time:41:1ms slot:10:1000 counter:12", 24),
        ("time:41:1ms slot:10:960 counter:12", 64),
        ("time:41:1ms slot:5 counter:12", 32),
        ("time:41:1ms slot:64 counter:12", 64),
        ("time:41:1ms counter:12", 1),
        ("time:41:1ms permuted:12", 64),
        ("time:41:1ms permuted:12 slot:2", 4),
        ("counter:12", 0),
        ("permuted:12", 0),
    ] {
        assert_eq!(layout(text).slots(), slots, "{text}");
    }
}

#[test]
fn ok_safe_layouts() {
    for (text, per_second, slots, end, order) in [
        ("zero:1 time:41:1ms@2015-01-01 slot:10 counter:12", 4_096_000, 64, "2084-09-06T15:47:35Z", Ascends::Always),
        ("zero:1 time:39:10ms@2014-09-01 counter:8 slot:16", 25_600, 64, "2188-11-16T03:28:58Z", Ascends::Always),
        ("time:32:1s@1970-01-01 slot:40 counter:24", 1 << 24, 64, "2106-02-07T06:28:16Z", Ascends::Always),
        ("time:28:1min@1970-01-01 slot:6 counter:12", 64, 64, "2480-05-19T12:16:00Z", Ascends::Always),
        ("time:64:1ns slot:6", 1_000_000_000, 64, "2554-07-21T23:34:33Z", Ascends::Always),
        ("time:42:1ms@2011-11-11T11:11:11.111Z permuted:22", 65_536_000, 64, "2151-03-25T18:46:22Z", Ascends::ByTick),
        ("time:42:1ms slot:6 random:8 counter:8", 256_000, 64, "2109-05-15T07:35:11Z", Ascends::ByTick),
        ("slot:6 counter:8 time:42:1ms", 256_000, 64, "2109-05-15T07:35:11Z", Ascends::Never),
        ("random:8 time:42:1ms slot:6 counter:8", 256_000, 64, "2109-05-15T07:35:11Z", Ascends::Never),
    ] {
        let expected = Safe::Timed { per_second, slots, end: UnixNanos::new(0), order };
        match layout(text).check(64, NOW) {
            Ok(Safe::Timed { per_second, slots, end: ends, order }) => {
                assert_eq!(Safe::Timed { per_second, slots, end: UnixNanos::new(0), order }, expected, "{text}");
                assert_eq!((ends.rfc3339(0).as_deref(), layout(text).ends()), (Some(end), Some(ends)), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for (text, total, order) in [
        ("const:4:9 counter:60", 1 << 60, Ascends::Always),
        ("permuted:64", 1 << 64, Ascends::Never),
        ("counter:20 random:20", 1 << 20, Ascends::Always),
        ("random:20 counter:20", 1 << 20, Ascends::Never),
    ] {
        assert_eq!(layout(text).check(64, NOW), Ok(Safe::Counted { total, order }), "{text}");
    }
}

#[test]
fn ok_a_safe_layout_says_what_it_can_issue() {
    for (text, message) in [
        (
            "zero:1 time:41:1ms@2015-01-01 slot:10 counter:12",
            "each of up to 64 slots issues up to 4_096_000 identifiers a second, until 2084-09-06T15:47:35Z; the identifiers of a block ascend",
        ),
        (
            "time:42:1ms@2011-11-11T11:11:11.111Z permuted:22 slot:2",
            "each of up to 4 slots issues up to 4_194_304_000 identifiers a second, until 2151-03-25T18:46:22Z; the identifiers of a block ascend from tick to tick",
        ),
        ("permuted:20", "up to 1_048_576 identifiers in all; the identifiers of a block do not ascend"),
    ] {
        assert_eq!(layout(text).check(0, NOW).expect(text).to_string(), message);
    }
}

#[test]
fn err_layouts_that_are_not_safe() {
    for (text, in_use, message) in [
        (
            "time:41:1ms@2015-01-01 slot:5 counter:12",
            64,
            "the layout can hold only 32 slots, but 64 can be in use: make the field slot wider, as in slot:10, or its base smaller",
        ),
        (
            "time:41:1ms@2015-01-01 counter:12",
            2,
            "the layout can hold only 1 slot, but 2 can be in use: make the field slot wider, as in slot:10, or its base smaller",
        ),
        (
            "time:41:10ms@2015-01-01 slot:10",
            64,
            "without a counter, a slot issues one identifier a tick, which makes only 100 identifiers a second: add a counter, as in counter:12, or use ticks of at most 1ms",
        ),
        (
            "time:41:1ms@2027-01-01 slot:10 counter:12",
            64,
            "the epoch of the layout is 2027-01-01T00:00:00Z, which is in the future: use an epoch in the past",
        ),
        (
            "zero:1 time:28:1s@2016-05-19T16:00:00Z slot:22 counter:13",
            64,
            "the time of the layout ends at 2024-11-20T13:24:16Z, but must last for at least another year: widen the field time, or use a later epoch or longer ticks",
        ),
    ] {
        assert_eq!(layout(text).check(in_use, NOW).expect_err(text).to_string(), message);
    }
    let (text, end) = ("time:31:1s@1970-01-01 slot:6 counter:8", UnixNanos::new((1 << 31) * SECOND));
    let year = 365 * 86_400 * SECOND;
    assert!(layout(text).check(64, end.offset(-year)).is_ok());
    assert_eq!(layout(text).check(64, end.offset(1 - year)), Err(Unsafe::EndsTooSoon { end }));
}

#[test]
fn ok_the_fields_of_an_identifier() {
    let text = "zero:1 time:41:1ms@2010-11-04T01:42:54.657Z slot:10 counter:12";
    let fields = layout(text).read(1_541_815_603_606_036_480).expect("an identifier");
    let shown: Vec<_> = fields.iter().map(|field| (field.name, field.value.clone())).collect();
    let time = FieldValue::Time(Some(String::from("2022-06-28T16:07:40.105Z")));
    let expected = [
        ("time", time),
        ("ticks", FieldValue::Large(367_597_485_448)),
        ("slot", FieldValue::Large(378)),
        ("counter", FieldValue::Large(0)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(layout(text).read(1 << 63).expect_err("the first bit").code(), ErrorCode::ReservedBits);
    assert_eq!(layout(text).read(1 << 64).expect_err("65 bits").code(), ErrorCode::Range);
    assert_eq!(layout("const:4:9 counter:4").read(0x81).expect_err("another constant").code(), ErrorCode::ReservedBits);
    let ranges: Vec<_> = layout(text).bit_ranges().iter().map(|range| (range.first, range.last, range.label)).collect();
    assert_eq!(ranges, [(0, 0, "zero"), (1, 41, "time"), (42, 51, "slot"), (52, 63, "counter")]);
    let kent_slot = |id| layout("time:41:1ms slot:10:512 counter:12").issued_fields(id).pop().map(|field| field.value);
    assert_eq!(kent_slot(515 << 12), Some(FieldValue::Small(3)));
    assert_eq!((kent_slot(511 << 12), kent_slot(576 << 12), kent_slot(1 << 70 | 515 << 12)), (None, None, None));
    for (tick, digits) in [
        ("1d", 0),
        ("1s", 0),
        ("100ms", 1),
        ("10ms", 2),
        ("1ms", 3),
        ("1us", 6),
        ("100ns", 7),
        ("1ns", 9),
        ("1024us", 6),
    ] {
        assert_eq!(layout(&["time:40:", tick, " counter:20"].concat()).time_digits(), digits, "{tick}");
    }
}

#[test]
fn err_identifiers_that_kent_did_not_issue() {
    for (text, id) in [
        ("zero:1 time:41:1ms slot:10 counter:12", 1 << 63),
        ("zero:1 time:41:1ms slot:10 counter:12", 1 << 64),
        ("time:41:1ms slot:10 counter:12", 64 << 12),
        ("time:41:1ms slot:10:512 counter:12", 511 << 12),
        ("time:41:1ms slot:10:512 counter:12", 576 << 12),
        ("time:20:1min slot:6 counter:12", 60 << 6),
    ] {
        assert_eq!(layout(text).issued(id, &KEY), None, "{text}");
    }
}

proptest! {
    #[test]
    fn ok_any_layout_is_read_from_its_text(layout in layouts()) {
        prop_assert_eq!(layout.to_string().parse(), Ok(layout.clone()));
        prop_assert_eq!(Layout::new(layout.fields()), Ok(layout.clone()));
        let last = layout.bit_ranges().iter().fold(0, |next, range| {
            assert_eq!(range.first, next, "{layout}");
            range.last + 1
        });
        prop_assert_eq!(last, layout.bits());
    }

    #[test]
    fn ok_no_text_panics(text in "[a-z0-9:@ .TZ-]{0,60}", any: String) {
        let _ = text.parse::<Layout>();
        let _ = any.parse::<Layout>();
    }

    #[test]
    fn ok_any_fields_are_a_layout_or_refused(texts in prop::collection::vec("(zero|const|time|slot|counter|random|permuted|tag):[0-9]{1,2}(:([0-9]{1,3}|1ms|1d@2015-01-01))?", 0..7)) {
        if let Ok(layout) = texts.join(" ").parse::<Layout>() {
            let _ = layout.check(64, NOW);
            prop_assert!(layout.end() > Position::ZERO);
        }
    }

    #[test]
    fn ok_an_identifier_shows_what_it_was_made_from((layout, block) in blocks(), seed: u64) {
        let constants = block.layout_constants().expect("a layout's").clone();
        let ids = walked(&block, seed);
        prop_assert_eq!(ids.len() as u64, block.count());
        for (position, id) in (block.first().get()..).map(Position::new).zip(ids) {
            prop_assert!(layout.fits(id));
            let issued = layout.issued(id, &KEY).expect("Kent issued it");
            prop_assert_eq!((issued.position, issued.slot, issued.tag), (position, constants.granted.slot(), constants.tag));
            prop_assert_eq!(Layout::encode(&constants, position, issued.tail), Ok(id));
        }
    }

    #[test]
    fn ok_a_value_that_kent_can_have_issued_is_made_again(layout in layouts(), value: u128) {
        let value = value & !layout.plan.fixed_mask & (u128::MAX >> (128 - layout.bits())) | layout.plan.fixed;
        if let Some(issued) = layout.issued(value, &KEY) {
            let constants = constants(&layout, issued.slot.unwrap_or(slot(0)), issued.tag);
            prop_assert_eq!(Layout::encode(&constants, issued.position, issued.tail), Ok(value));
        }
        let fields = layout.read(value).expect("an identifier of the layout");
        prop_assert!(fields.len() <= layout.fields().len() + 1);
    }

    #[test]
    fn ok_identifiers_of_different_positions_differ_for_any_tails((layout, block) in blocks(), seeds: [u64; 2]) {
        let [a, b] = seeds.map(|seed| walked(&block, seed).into_iter().map(|id| bare(&layout, id)).collect::<Vec<_>>());
        prop_assert_eq!(a.iter().collect::<BTreeSet<_>>().len(), a.len());
        prop_assert_eq!(a, b);
    }

    #[test]
    fn ok_two_slots_never_share_an_identifier((layout, block) in blocks(), other: u8, tag: u64) {
        let mine = block.layout_constants().expect("a layout's");
        let other = slot(other % layout.slots().max(1));
        prop_assume!(mine.granted.slot().is_some_and(|slot| slot != other));
        let tag = layout.tag_bits().map_or(0, |bits| tag >> (64 - bits));
        let theirs = Block::layout(constants(&layout, other, tag), block.first(), block.count()).expect("the same run");
        // Identifiers of two slots must differ even without their random bits and tags.
        let without_tag = |id: u128| bare(&layout, id) & !layout.plan.tag.map_or(0, |place| place.put(place.max()));
        let ids: BTreeSet<_> = walked(&block, 1).into_iter().map(without_tag).collect();
        prop_assert!(walked(&theirs, 2).into_iter().all(|id| !ids.contains(&without_tag(id))));
    }

    #[test]
    fn ok_identifiers_ascend_as_promised((layout, block) in blocks(), seed: u64) {
        let ids = walked(&block, seed);
        match layout.ascends() {
            Ascends::Always => prop_assert!(ids.is_sorted_by(|one, next| one < next)),
            Ascends::ByTick => {
                let ticks: Vec<_> = ids.iter().map(|id| layout.time_of(*id).expect("a time")).collect();
                for (one, next) in ids.windows(2).zip(ticks.windows(2)).map(|(ids, ticks)| ((ids[0], ticks[0]), (ids[1], ticks[1]))) {
                    prop_assert!(one.1 == next.1 || one.1 < next.1 && one.0 < next.0);
                }
            }
            Ascends::Never => {}
        }
    }

    /// Part of promise P4 of the README: the time in an identifier is the start of the tick for which its position was
    /// granted.
    #[test]
    fn ok_the_first_position_of_an_instant_has_its_time(layout in layouts(), at in 0..4_000_000_000_i128 * SECOND) {
        let now = UnixNanos::new(at);
        if let Some((line, first)) = layout.line().and_then(|line| Some((line, line.floor(now)?))) {
            let constants = constants(&layout, slot(0), 0);
            let id = Layout::encode(&constants, first, 0).expect("on the line");
            let (time, tick_nanos) = (layout.time_of(id).expect("a time"), layout.plan.time.expect("a time").tick_nanos);
            prop_assert!(time <= now && now < time.offset(tick_nanos.into()));
            prop_assert_eq!(layout.instant(first), Some(time));
            prop_assert!(line.instant(first) <= now);
        }
    }

    /// A window of one second holds the positions that the layout can issue in a second.
    #[test]
    fn ok_each_second_has_positions_of_its_own(layout in layouts(), second in 1_500_000_000..1_800_000_000_i64) {
        let seconds = [second, second + 1].map(UnixSeconds::new);
        let slots = Some(layout.slots()).filter(|_| layout.plan.counter_bits > 0);
        if let (Some(line), Some(slots)) = (layout.line(), slots) {
            let [from, to] = seconds.map(|second| line.after_second(second));
            let whole = Position::ZERO < from && to < line.end();
            if let (true, Ok(Safe::Timed { per_second, .. })) = (whole, layout.check(slots, seconds[0].nanos())) {
                prop_assert_eq!(to.since(from), per_second);
            }
        }
    }

    #[test]
    fn ok_packing_and_splitting_give_the_identifiers_of_a_walk((layout, block) in blocks(), seed: u64, at: u64) {
        let (mut packed, mut expected) = (Vec::new(), Vec::new());
        block.pack_into(Seeded(seed), &mut packed);
        for id in block.walk(Seeded(seed)) {
            let start = expected.len();
            expected.resize(start + block.width_bytes(), 0);
            id.write_be(&mut expected[start..]);
            let expected_kind = matches!(id, Id::Number { bits, .. } if bits == layout.bits());
            prop_assert!(expected_kind);
        }
        prop_assert_eq!(packed, expected);
        if let Some((front, rest)) = block.split_at(at % block.count()) {
            let parts = walked(&front, 1).into_iter().chain(walked(&rest, 2)).map(|id| bare(&layout, id));
            prop_assert!(parts.eq(walked(&block, 3).into_iter().map(|id| bare(&layout, id))));
        }
    }
}
