//! `kent-bench instructions`: the instruction counts of hot pure functions.
//!
//! Unlike times, instruction counts are the same on a busy machine. valgrind counts them in a process that calls a
//! function, and in a process that only does the setup. The difference is the cost of the calls.

use std::{env, hint::black_box, num::NonZeroU64, process::Command};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use kent_client::{
    Client, Handle, Identifier, Uid11,
    proto::{self, AllocateRequest, AllocateResponse, Encoding, allocate_response::Identifiers},
};
use kent_ids::{
    Block, ClockSeq, ClusterKey, Format, Node, Position, RegionConstants, Slot, SlotConstants, SlotEpoch, Suffixes,
    Tails, UnixNanos,
    layout::{Granted, Layout, LayoutConstants},
};
use kent_issue::{ClockPolicy, HolderId, Sequence, TimeIssuer};
use kent_regions::Index;
use kentd::probe::Authorizing;
use prost::Message;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;

use crate::index::regions;

/// Count the instructions of hot pure functions with valgrind. The counts are the same on a busy machine.
///
/// `cargo test -p kent-bench` runs this command and fails if a function exceeds its limit.
#[derive(Debug, Args)]
pub(crate) struct InstructionsArgs {
    /// Count only these functions [default: all].
    #[arg(value_enum)]
    hot: Vec<Hot>,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
}

/// The arguments of the hidden command `hot`.
#[derive(Debug, Args)]
pub(crate) struct HotArgs {
    hot: Hot,
    calls: u64,
}

/// A hot pure function.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hot {
    /// Grant a block of a time-based format.
    GrantTime,
    /// Grant a block from a chunk in memory.
    GrantChunk,
    /// Identify the caller of a unary call by its token, and decide whether it may allocate from a region.
    Authorise,
    /// Identify and authorize a caller with limits, and count the call toward the limits.
    AuthoriseLimited,
    /// Decide whether the caller of a stream may have one more block.
    AuthoriseStream,
    /// Count a call of a stream toward the limits of its caller.
    Limit,
    /// Count a call of a stream whose caller has no limits.
    LimitNone,
    /// Decode a request for a lease and encode its response.
    AnswerLease,
    /// Write one identifier of a packed uuidv7 response.
    PackUuidv7,
    /// Write one identifier of a packed xid response.
    PackXid,
    /// Write one identifier of a packed response of a custom layout with the fields of xid.
    PackLayout,
    /// Write one identifier of a packed response of a region.
    PackRegion,
    /// Write one identifier of a packed response of a scrambled region.
    PackScrambled,
    /// Write a uid11.
    Uid11Text,
    /// Read a uid11.
    Uid11Parse,
    /// Find the region of an identifier among a thousand regions.
    Classify,
    /// Take one identifier of a region from a client's stock.
    TryNextRegion,
    /// Take one xid from a client's stock. Under valgrind, calls are so slow that each of them reads the clock.
    TryNextXid,
}

/// The number of calls of each function.
const CALLS: u64 = 1 << 16;

pub(crate) fn run(args: &InstructionsArgs) -> anyhow::Result<()> {
    let hot = if args.hot.is_empty() { Hot::value_variants() } else { &args.hot };
    for hot in hot {
        let name = hot.to_possible_value().context("a variant has no name")?.get_name().to_owned();
        // OK because counts are far below 2^53.
        let each = count(&name, CALLS)?.saturating_sub(count(&name, 0)?) as f64 / CALLS as f64;
        match args.json {
            true => println!("{}", json!({ "scenario": "instructions", "function": name, "instructions": each })),
            false => println!("{name:16} {each:>8.1}"),
        }
    }
    Ok(())
}

/// Returns the instruction count of a separate process that calls a function `calls` times.
fn count(name: &str, calls: u64) -> anyhow::Result<u64> {
    let counted = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["hot", name, &calls.to_string()])
        .output()
        .context("cannot run valgrind; on Debian: apt-get install valgrind")?;
    let output = String::from_utf8_lossy(&counted.stderr);
    ensure!(counted.status.success(), "valgrind failed: {output}");
    let Some(count) = output.lines().find_map(|line| line.split_once("I   refs:").or(line.split_once("I refs:")))
    else {
        bail!("expected a count of instructions from valgrind, got {output:?}");
    };
    Ok(count.1.trim().replace(',', "").parse()?)
}

/// Sets up what a function needs, and calls the function `calls` times.
pub(crate) fn hot(args: &HotArgs) -> anyhow::Result<()> {
    let calls = args.calls;
    match args.hot {
        Hot::GrantTime => grant_time(calls)?,
        Hot::GrantChunk => {
            let mut sequence = Sequence::new(Position::ZERO, Position::new(u128::MAX));
            (0..calls).try_for_each(|_| sequence.grant(Position::ZERO, black_box(1000)).map(drop))?;
        }
        Hot::Authorise => {
            let authorizing = on_runtime(Authorizing::begin())?;
            ensure!((0..calls).all(|_| black_box(&authorizing).authorize()), "a call is refused");
        }
        Hot::AuthoriseLimited => {
            let authorizing = on_runtime(Authorizing::limited())?;
            ensure!((0..calls).all(|_| black_box(&authorizing).authorize_limited()), "a call is refused");
        }
        Hot::AuthoriseStream => {
            let authorizing = on_runtime(Authorizing::begin())?;
            ensure!(black_box(&authorizing).authorize_stream(calls), "a call is refused");
        }
        Hot::Limit => {
            let authorizing = on_runtime(Authorizing::limited())?;
            ensure!(black_box(&authorizing).charge_stream(calls), "a call is refused");
        }
        Hot::LimitNone => {
            let authorizing = on_runtime(Authorizing::begin())?;
            ensure!(black_box(&authorizing).charge_stream(calls), "a call is refused");
        }
        Hot::AnswerLease => answer_lease(calls)?,
        Hot::PackUuidv7 => pack(&time_based("uuidv7", calls)?, calls),
        Hot::PackXid => pack(&time_based("xid", calls)?, calls),
        Hot::PackLayout => pack(&laid_out(calls)?, calls),
        Hot::PackRegion => pack(&regional(Suffixes::EVERY, calls)?, calls),
        Hot::PackScrambled => pack(&regional(Suffixes::Scrambled(KEY), calls)?, calls),
        Hot::Uid11Text => {
            for call in 0..calls {
                black_box(Uid11::new(spread(call)).text());
            }
        }
        Hot::Uid11Parse => {
            let texts = [1, 2, 3, 4, 5, 6, 7, 8].map(|call| Uid11::new(spread(call)).text());
            for text in texts.iter().cycle().take(calls.try_into()?) {
                black_box(Uid11::parse(black_box(text))?);
            }
        }
        Hot::Classify => {
            let table = regions::table(64, 1000, 1)?;
            let index = Index::build(&table);
            for call in 0..calls {
                black_box(index.find(spread(call).into()));
            }
        }
        Hot::TryNextRegion => try_next(calls, |client| client.region("orders"), regional(Suffixes::EVERY, calls)?)?,
        Hot::TryNextXid => try_next(calls, Client::xid, time_based("xid", calls)?)?,
    }
    Ok(())
}

/// Runs a setup that needs a runtime.
fn on_runtime<T, E: Into<anyhow::Error>>(setup: impl Future<Output = Result<T, E>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(setup).map_err(Into::into)
}

const KEY: ClusterKey = ClusterKey::new(*b"sixteen bytes!!!");

fn slot_constants() -> anyhow::Result<SlotConstants> {
    let slot = Slot::new(5)?;
    let node = Node::for_slot(0x1234_5678_9abc, slot);
    Ok(SlotConstants { slot, epoch: SlotEpoch::new(9), node, clock_seq: ClockSeq::from_random(77), key: KEY })
}

/// Returns a block of `count` identifiers, or of one identifier if `count` is 0.
fn time_based(token: &str, count: u64) -> anyhow::Result<Block> {
    let format = Format::by_token(token).context("unknown format")?;
    Ok(Block::slot(format, slot_constants()?, Position::new(format.line().end().get() / 3), count.max(1))?)
}

/// Returns a block of a layout with the same fields as [`time_based`]'s xid.
fn laid_out(count: u64) -> anyhow::Result<Block> {
    let layout: Layout = "time:42:1ms@2011-11-11T11:11:11.111Z permuted:22".parse()?;
    let first = Position::new(layout.end().get() / 3);
    let constants = LayoutConstants { layout, granted: Granted::Slot(slot_constants()?), tag: 0 };
    Ok(Block::layout(constants, first, count.max(1))?)
}

fn regional(suffixes: Suffixes, count: u64) -> anyhow::Result<Block> {
    let constants = RegionConstants { base: 0xb4 << 56, bits: 64, suffix_bits: 50, number: 3, revision: 8, suffixes };
    Ok(Block::region(constants, Position::new(1_000_000), count.max(1))?)
}

/// Packs a block, unless `calls` is 0.
fn pack(block: &Block, calls: u64) {
    let mut rng = Tails::from_rng(&mut StdRng::seed_from_u64(1));
    let mut out = Vec::with_capacity(block.packed_len());
    rng.next_u64();
    if calls > 0 {
        block.pack_into(rng, &mut out);
    }
    black_box(out);
}

/// Takes all identifiers of a block from a handle that has no other block.
fn try_next<T: Identifier>(calls: u64, handle: impl FnOnce(&Client) -> Handle<T>, block: Block) -> anyhow::Result<()> {
    // The client connects only when it fetches a block.
    let handle = handle(&Client::new("http://127.0.0.1:1")?);
    handle.add_block(block);
    ensure!((0..calls).all(|_| black_box(&handle).try_next().is_some()), "the stock is empty");
    Ok(())
}

fn grant_time(calls: u64) -> anyhow::Result<()> {
    let mut now = UnixNanos::new(1_763_667_000_000_000_000);
    let mut issuer = TimeIssuer::new(ClockPolicy::default(), HolderId::new([1; 16]), KEY);
    let plan = issuer.plan_take(&[], &[], now, 7)?;
    now = now.offset(1_000_000_000);
    issuer.on_committed(plan, 1, now);
    let (format, count) = (Format::by_token("uuidv7").context("unknown format")?, NonZeroU64::MIN.saturating_add(999));
    for _ in 0..calls {
        now = now.offset(10_000);
        black_box(issuer.grant(format, count, now)?);
    }
    Ok(())
}

fn answer_lease(calls: u64) -> anyhow::Result<()> {
    let request = AllocateRequest {
        source: "uuidv7".to_owned(),
        count: 1000,
        encoding: Encoding::Lease.into(),
        ..AllocateRequest::default()
    };
    let (request, block, mut out) = (request.encode_to_vec(), time_based("uuidv7", 1000)?, Vec::with_capacity(1024));
    for _ in 0..calls {
        black_box(AllocateRequest::decode(black_box(&*request))?);
        let identifiers = Some(Identifiers::Lease(proto::Block::from(&block)));
        out.clear();
        AllocateResponse { identifiers, clock_epoch: 1 }.encode(&mut out)?;
        black_box(&out);
    }
    Ok(())
}

/// Maps consecutive numbers to numbers spread over the whole range.
const fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
