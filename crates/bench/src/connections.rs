//! `kent-bench connections`: the memory of idle connections, and the processor time of calls on many connections.

use std::{path::Path, thread, time::Duration};

use clap::Args;
use indicatif::ProgressBar;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit},
    figures::now,
    interrupt,
    lean::{Caller, Lean},
    load::lease,
    process::Served,
    secure::{ServerCertificate, store},
};

/// Measure the memory of idle connections in the server, and the server's processor time for a call when every
/// connection is busy: requests per second, and `cpu us`.
///
/// An idle connection has had calls before. All connections stay open while they are measured, so their
/// handshakes do not count. `tonic` is a tonic server as its introduction shows: with default settings, on the threads of tokio.
/// Each connection needs an open file in this program and in the server; see ulimit -n.
#[derive(Debug, Args)]
pub(crate) struct ConnectionsArgs {
    #[command(flatten)]
    options: Options,
    /// Number of idle connections.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    idle: u32,
    /// Number of busy connections to each server. Each of them has one call in flight.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    busy: u32,
    /// Number of calls on each connection before it is idle.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
}

/// The pause before a server's memory is measured.
const SETTLE: Duration = Duration::from_secs(3);
const MEMORY: Bound = Bound::AtMost(10.0);
const PROCESSOR: Bound = Bound::AtMost(0.9);

/// How to start a server and how to call it.
struct Server<'a> {
    name: &'static str,
    start: Box<dyn Fn() -> anyhow::Result<Served> + 'a>,
    caller: Caller,
}

pub(crate) fn run(args: &ConnectionsArgs) -> anyhow::Result<()> {
    let (options, dir) = (&args.options, tempfile::tempdir()?);
    let contest = Contest::new("connections", Unit::Each("requests"), options)?;
    let (runtime, certificate) = (options.runtime()?, ServerCertificate::write(dir.path())?);
    let tls = runtime.block_on(certificate.certificates.refresh())?;
    let servers = servers(options, dir.path(), &certificate, &Caller { tls: Some(tls), token: None });

    let bar = contest.progress("idle connections", u64::from(args.idle) * servers.len() as u64);
    for server in &servers {
        let bytes = idle(server, &runtime, (args.idle, args.calls), bar)?;
        let bound = if server.name.starts_with("kentd") { MEMORY } else { Bound::Any };
        contest.fact(format!("{}, KiB of an idle connection", server.name), Some(bytes / 1024.0), bound);
    }

    let served = servers.iter().map(|server| (server.start)()).collect::<anyhow::Result<Vec<_>>>()?;
    let mut contenders = Vec::new();
    for (server, served) in servers.iter().zip(&served) {
        let mut busy = runtime.block_on(open(served, &server.caller, (args.busy, 1), interrupt::check))?;
        let runtime = &runtime;
        contenders.push(Contender::new(server.name, move || {
            served.process.watched(|| runtime.block_on(call_on_all(&mut busy, options.length())))
        }));
    }
    let outcomes = contest.run("all busy", contenders)?;
    for (name, other) in [("kentd", "bare"), ("kentd", "tonic"), ("kentd, tls", "bare, tls")] {
        contest.fact(format!("processor time per call, {name} / {other}"), outcomes.busy_ratio(name, other), PROCESSOR);
    }
    contest.finish();
    Ok(())
}

fn servers<'a>(
    options: &'a Options,
    dir: &'a Path,
    certificate: &'a ServerCertificate,
    over_tls: &Caller,
) -> [Server<'a>; 5] {
    let kentd = |name, more: &[&str]| Served::kentd_with(options.kentd.as_ref(), &store(dir, name), more);
    let plain = Caller::default;
    [
        Server { name: "tonic", start: Box::new(|| Served::bare_with(&["--as-introduced"])), caller: plain() },
        Server { name: "bare", start: Box::new(Served::bare), caller: plain() },
        Server { name: "kentd", start: Box::new(move || kentd("plain", &[])), caller: plain() },
        Server {
            name: "bare, tls",
            start: Box::new(|| Served::bare_with(&certificate.bare_arguments())),
            caller: over_tls.clone(),
        },
        Server {
            name: "kentd, tls",
            start: Box::new(move || kentd("secure", &certificate.arguments())),
            caller: over_tls.clone(),
        },
    ]
}

/// Returns the resident bytes of each of `count` connections, after `calls` calls on it.
fn idle(server: &Server<'_>, runtime: &Runtime, (count, calls): (u32, u32), bar: &ProgressBar) -> anyhow::Result<f64> {
    bar.set_message(format!("idle connections: {}", server.name));
    let served = (server.start)()?;
    // A first connection makes what all connections share.
    let _first = runtime.block_on(open(&served, &server.caller, (1, calls), || Ok(())))?;
    thread::sleep(SETTLE);
    let before = served.resident()?;
    let step = || {
        bar.inc(1);
        interrupt::check()
    };
    let _idle = runtime.block_on(open(&served, &server.caller, (count, calls), step))?;
    thread::sleep(SETTLE);
    // OK because a memory is far below 2^53 bytes.
    Ok(served.resident()?.saturating_sub(before) as f64 / f64::from(count))
}

/// Opens `count` connections, and makes `calls` calls on each.
async fn open(
    served: &Served,
    caller: &Caller,
    (count, calls): (u32, u32),
    step: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Lean>> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut lean = Lean::connect(&served.address, caller, &lease("uuidv7", 1000)).await?;
        for _ in 0..calls {
            lean.call(&mut Slice::default()).await?;
        }
        all.push(lean);
        step()?;
    }
    Ok(all)
}

/// Makes calls on all connections for the length of a slice, one at a time on each.
async fn call_on_all(all: &mut Vec<Lean>, length: Duration) -> anyhow::Result<Slice> {
    let (began, mut tasks, mut sum) = (now(), JoinSet::new(), Slice::default());
    for mut lean in all.drain(..) {
        tasks.spawn(async move {
            let slice = lean.run(1, began + length).await?;
            anyhow::Ok((lean, slice))
        });
    }
    while let Some(done) = tasks.join_next().await {
        let (lean, slice) = done??;
        all.push(lean);
        sum.add(slice);
    }
    sum.took = began.elapsed();
    Ok(sum)
}
