//! `kent-bench start`: the time until a daemon serves requests, and the resources of an idle daemon.

use std::{path::PathBuf, process::Command, thread, time::Duration};

use anyhow::ensure;
use clap::Args;
use kent_client::proto::allocator_client::AllocatorClient;

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit},
    figures::now,
    load::{self, lease},
    process::{Served, installed, sibling},
};

/// Measure the start of a daemon up to the first grant, its memory and processor time when idle, and its size on disk.
///
/// The measured time starts before the process is created, and ends when a new client has connected and received its
/// block.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    options: Options,
    /// Observe the idle daemon for this many milliseconds.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..))]
    idle_millis: u64,
}

pub(crate) fn run(args: &StartArgs) -> anyhow::Result<()> {
    let options = &args.options;
    let contest = Contest::new("start", Unit::Each("starts"), options)?;
    let used = tempfile::tempdir()?;
    let contenders = vec![
        Contender::new("bare", || first_grant(options, Served::bare)),
        Contender::new("kentd, new store", || {
            let new = tempfile::tempdir()?;
            first_grant(options, || Served::kentd(options.kentd.as_ref(), new.path()))
        }),
        Contender::new("kentd, existing store", || {
            first_grant(options, || Served::kentd(options.kentd.as_ref(), used.path()))
        }),
    ];
    let outcomes = contest.run("until the first grant", contenders)?;
    for name in ["kentd, new store", "kentd, existing store"] {
        let millis = outcomes.median_micros(name).map(|micros| micros / 1e3);
        contest.fact(format!("{name}, first grant after ms"), millis, Bound::AtMost(50.0));
    }

    let daemon = Served::kentd(options.kentd.as_ref(), used.path())?;
    options.runtime()?.block_on(grant(&daemon.address))?;
    let before = daemon.process.busy()?;
    let idle = Duration::from_millis(args.idle_millis);
    thread::sleep(idle);
    let busy = (daemon.process.busy()? - before).as_secs_f64() / idle.as_secs_f64();
    let mib = |bytes: u64| Some(bytes as f64 / f64::from(1 << 20)); // OK because this is far below 2^53
    contest.fact("idle, percent of a processor", Some(busy * 100.0), Bound::AtMost(0.2));
    contest.fact("idle, resident MiB", mib(daemon.resident()?), Bound::AtMost(20.0));
    match stripped(options.kentd.as_ref())? {
        Some(bytes) => contest.fact("kentd without symbols, MiB", mib(bytes), Bound::AtMost(15.0)),
        None => eprintln!("skipping the size of kentd: strip is not installed. On Debian: apt-get install binutils"),
    }
    contest.finish();
    daemon.stop()
}

/// Starts a server and measures the time until a client has its block.
fn first_grant(options: &Options, start: impl FnOnce() -> anyhow::Result<Served>) -> anyhow::Result<Slice> {
    let runtime = options.runtime()?;
    let began = now();
    let served = start()?;
    runtime.block_on(grant(&served.address))?;
    let took = began.elapsed();
    drop(runtime);
    drop(served);
    let mut slice = Slice { count: 1, took, ..Slice::default() };
    slice.call(took);
    Ok(slice)
}

/// Gets one identifier from a server.
pub(crate) async fn grant(address: &str) -> anyhow::Result<()> {
    AllocatorClient::new(load::connect(address).await?).allocate(lease("uuidv7", 1)).await?;
    Ok(())
}

/// Returns the size in bytes of the daemon without symbols, as packages ship it, or `None` if `strip` is not installed.
fn stripped(kentd: Option<&PathBuf>) -> anyhow::Result<Option<u64>> {
    let Some(strip) = installed("strip", &[]) else { return Ok(None) };
    let file = tempfile::NamedTempFile::new()?;
    let status = Command::new(strip).arg("-o").arg(file.path()).arg(sibling("kentd", kentd)?).status()?;
    ensure!(status.success(), "strip failed");
    Ok(Some(file.path().metadata()?.len()))
}
