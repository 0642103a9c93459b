//! The hot paths of the daemon, the client and the command line: positions to identifiers, and identifiers to text.
//!
//! Run with `cargo bench -p kent-ids`. Times depend on the machine; compare only ratios within one run.

use std::hint::black_box;

use divan::{Bencher, counter::ItemsCount};
use kent_ids::{
    Block, ClockSeq, ClusterKey, Format, Node, Position, RegionConstants, Slot, SlotConstants, SlotEpoch, Suffixes,
    Tails, Uid11,
};
use rand::{SeedableRng, rngs::StdRng};

fn main() {
    divan::main();
}

/// The number of identifiers in each measured block: the UUIDs that fit into a packed reply of 256 KiB.
const COUNT: u64 = 16_384;

const SOURCES: [&str; 6] = ["uuidv7", "uuidv6", "uuidv7-draft01-us", "xid", "region", "scrambled region"];

fn block(source: &str) -> Block {
    let slot = Slot::new(5).expect("a slot");
    let key = ClusterKey::new(*b"sixteen bytes!!!");
    let constants = SlotConstants {
        slot,
        epoch: SlotEpoch::new(9),
        node: Node::for_slot(0x1234_5678_9abc, slot),
        clock_seq: ClockSeq::from_random(77),
        key,
    };
    let suffixes = match source {
        "scrambled region" => Suffixes::Scrambled(key),
        _ => Suffixes::EVERY,
    };
    let region = RegionConstants { base: 0xb4 << 56, bits: 64, suffix_bits: 50, number: 3, revision: 8, suffixes };
    let made = match Format::by_token(source) {
        Some(format) => Block::slot(format, constants, Position::new(format.line().end().get() / 3), COUNT),
        None => Block::region(region, Position::new(1_000_000), COUNT),
    };
    made.expect("within the line")
}

#[divan::bench(args = SOURCES)]
fn pack(bencher: Bencher<'_, '_>, source: &str) {
    let (block, mut rng, mut out) = (block(source), Tails::from_rng(&mut StdRng::seed_from_u64(1)), Vec::new());
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        out.clear();
        block.pack_into(&mut rng, &mut out);
        black_box(out.len())
    });
}

#[divan::bench(args = SOURCES)]
fn walk(bencher: Bencher<'_, '_>, source: &str) {
    let (block, mut rng) = (block(source), Tails::from_rng(&mut StdRng::seed_from_u64(1)));
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        block.walk(&mut rng).for_each(|id| {
            black_box(id);
        });
    });
}

#[divan::bench]
fn uid11_text(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for number in 0..COUNT {
            black_box(Uid11::new(black_box(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).text());
        }
    });
}

#[divan::bench]
fn uid11_parse(bencher: Bencher<'_, '_>) {
    let texts: Vec<_> =
        (0..COUNT).map(|number| Uid11::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).text()).collect();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for text in &texts {
            black_box(Uid11::parse(black_box(text)).expect("a text"));
        }
    });
}
