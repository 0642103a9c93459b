//! `kent-bench packed`: packed identifiers as bytes, streamed to one client.

use std::path::PathBuf;

use clap::Args;

use crate::{
    arena::Arena,
    contest::{Bound, Contender, Options, Unit},
    load::{Load, packed},
    peers::ferroid::{self, Ferroid},
    regions,
};

/// Measure packed identifiers streamed to one client in gigabytes per second, and compare with the bare transport.
///
/// The bare transport sends the same number of bytes from memory. It is measured with several reply sizes, and the
/// fastest is the reference.
#[derive(Debug, Args)]
pub(crate) struct PackedArgs {
    #[command(flatten)]
    options: Options,
    /// Reply sizes in KiB.
    #[arg(long, value_delimiter = ',', default_values_t = [16, 64, 128], value_name = "KIB,...")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=128))]
    sizes: Vec<u64>,
    /// Also measure this ferroid-tonic-server. `cargo install ferroid-tonic-server` builds it and needs protoc. The
    /// server leaves Nagle's algorithm on, which sometimes delays replies by 40 ms. For a fair comparison, replace
    /// `TcpListenerStream::new(tcp)` in its main.rs with `TcpIncoming::from(tcp).with_nodelay(Some(true))`.
    #[arg(long, value_name = "PATH")]
    ferroid: Option<PathBuf>,
}

/// The name, source and identifier width in bytes of each stream.
const SOURCES: [(&str, &str, u64); 3] = [("uuidv7", "uuidv7", 16), ("xid", "xid", 8), ("region", "region:packed", 8)];

/// The number of requests in flight.
const DEPTH: usize = 4;

/// The sustained number of xids per second and slot that the clock allows.
const XID_RATE: u64 = 65_536_000;
/// The size of a burst of xids that need not wait for the clock. Timestamps may be at most one second ahead of the
/// clock.
const XID_BURST: u64 = 40_000_000;

pub(crate) fn run(args: &PackedArgs) -> anyhow::Result<()> {
    let arena = Arena::open("packed", Unit::Bytes, &args.options)?;
    arena.runtime.block_on(async { regions::create(&arena.client()?, "packed").await })?;
    let ferroid = |settings| args.ferroid.as_deref().map(|path| Ferroid::start(path, settings)).transpose();
    let (usual, fastest) = (ferroid(ferroid::USUAL)?, ferroid(ferroid::FASTEST)?);
    let load = |source, count, most| Load::Packed { request: packed(source, count), depth: DEPTH, most };
    let mut loads = Vec::new();
    for kib in &args.sizes {
        loads.push((format!("bare, {kib} KiB"), load("uuidv7", kib * 64, u64::MAX), true));
        for (name, source, width) in SOURCES {
            // The daemon packs xids faster than the clock allows, so they are measured in bursts. Between two bursts,
            // the slices of three other contenders give the clock time to catch up.
            let most =
                if name == "xid" { XID_BURST.min(XID_RATE * args.options.millis / 500) * width } else { u64::MAX };
            loads.push((format!("kentd, {name}, {kib} KiB"), load(source, kib * 1024 / width, most), false));
        }
    }
    let mut contenders = Vec::new();
    for (name, load, is_bare) in &loads {
        let server = if *is_bare { &arena.bare } else { &arena.daemon };
        let contender = Contender::new(name, || arena.slice(server, load));
        contenders.push(if *is_bare { contender.reference() } else { contender });
    }
    let settings = [("blocks of 10^6", &usual), ("fastest", &fastest)];
    for (settings, ferroid) in settings.iter().filter_map(|(settings, ferroid)| Some((settings, ferroid.as_ref()?))) {
        let slice = || ferroid.slice(&arena.runtime, args.options.length());
        contenders.push(Contender::new(format!("ferroid-tonic, {settings}"), slice));
    }
    let outcomes = arena.contest.run("1 client", contenders)?;
    for (name, ..) in SOURCES {
        let best = outcomes.best(&format!("kentd, {name},"));
        arena.contest.fact(format!("{name} / fastest bare"), best, Bound::AtLeast(0.65));
        for (settings, _) in settings {
            let ferroid = format!("ferroid-tonic, {settings}");
            let of_ferroid = best.zip(outcomes.best(&ferroid)).map(|(best, ferroid)| best / ferroid);
            arena.contest.fact(format!("{name} / {ferroid}"), of_ferroid, Bound::AtLeast(1.5));
        }
    }
    arena.close()
}
