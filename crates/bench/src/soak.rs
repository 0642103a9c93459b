//! `kent-bench soak`: runs a daemon under a mixed load for a long time, to check that its memory stays flat and to
//! measure its latency.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use kent_client::{
    Daemon,
    proto::{
        BackupRequest, ClassifyRequest, CreateRegionRequest, DeleteRegionRequest, ExpandRegionRequest, Policy,
        RenameRegionRequest, SealRegionRequest, Uint128, UpdateRegionRequest, WatchTableRequest,
    },
    tonic::Status,
};
use serde_json::json;
use tokio::{
    runtime::Runtime,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_stream::StreamExt;
use tonic_types::StatusExt;

use crate::{
    figures::{median, now},
    interrupt,
    load::{lease, packed},
    process::Served,
    reach::Reach,
    secure::ServerCertificate,
    svg::{Axes, Line, Panel, Scale, digits, svg},
};

/// Run a daemon with TLS under a mixed load, and watch its memory, its open files and the latency of grants.
///
/// The load consists of unary grants of several sources, streams, edits, watchers, classification, scrapes of the
/// metrics, JSON over HTTP, backups and new connections. It leaves the processors partly idle, so that the latencies
/// are those of a daemon in normal use. In a run of five minutes or more, resident memory and open files must stay flat
/// after the first sixth or the first five minutes, whichever ends earlier.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// Length of the run in minutes.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// The daemon to measure [default: kentd in the directory of this program].
    #[arg(long, value_name = "PATH")]
    kentd: Option<PathBuf>,
    /// Draw the samples as an SVG in this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
}

/// The number of samples of a run.
const SAMPLES: u32 = 90;
/// The maximum growth of a quantity after the warm-up: its value in the last third of the remaining samples, divided by
/// its value in the first third.
const FLAT: f64 = 1.1;
/// The maximum length of the warm-up at the beginning of a run, in minutes. During the warm-up, memory may grow.
const BEGINNING: f64 = 5.0;

/// The pauses between the calls of a task.
const GRANT: Duration = Duration::from_millis(2);
const REGION: Duration = Duration::from_millis(5);
const STRICT: Duration = Duration::from_millis(20);
const CLASSIFY: Duration = Duration::from_millis(50);
const CONNECT: Duration = Duration::from_millis(250);
const EDIT: Duration = Duration::from_millis(100);
const SCRAPE: Duration = Duration::from_secs(2);
const WATCH: Duration = Duration::from_secs(10);
const BACKUP: Duration = Duration::from_secs(30);

/// At most one in this many calls may have an unknown outcome.
const UNKNOWN_SHARE: u64 = 10_000;

/// What the tasks measure.
#[derive(Debug, Default)]
struct Seen {
    /// The latencies of unary grants since the last sample, in microseconds.
    grants: Mutex<Vec<u32>>,
    calls: AtomicU64,
    /// The number of strict grants whose outcome the daemon did not know, because the commit took too long on a busy
    /// disk.
    unknown: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// The state of the daemon at one moment.
#[derive(Clone, Debug)]
struct Sample {
    minutes: f64,
    resident: u64,
    files: u64,
    grants: Vec<u32>,
}

impl Seen {
    fn granted(&self, took: Duration) {
        // OK because a grant takes less than an hour.
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).push(took.as_micros() as u32);
    }

    /// Counts a call. Returns the call's value, or records its failure.
    fn count<T, E: std::fmt::Display>(&self, what: &str, outcome: Result<T, E>) -> Option<T> {
        self.calls.fetch_add(1, Relaxed);
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{what}: {error}"));
                None
            }
        }
    }
}

/// A caller, and what it measures.
#[derive(Clone)]
struct Caller {
    reach: Reach,
    seen: Arc<Seen>,
}

impl Caller {
    /// Opens a new connection.
    async fn connect(&self, what: &str) -> Option<Daemon> {
        self.seen.count(what, self.reach.connect().await)
    }
}

/// Makes a call at each tick until the run ends.
async fn at_each<F: Future<Output = ()>>(pause: Duration, mut call: impl FnMut() -> F) {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        call().await;
    }
}

/// Takes blocks from a source, and measures the latency of each.
async fn grants(caller: Caller, source: &'static str, pause: Duration) {
    let Some(daemon) = caller.connect(source).await else { return };
    at_each(pause, async || {
        for request in [lease(source, 100), packed(source, 10)] {
            let began = now();
            let granted = daemon.allocator().allocate(request).await;
            if source == "region:invoices" && granted.as_ref().is_err_and(is_unknown) {
                caller.seen.calls.fetch_add(1, Relaxed);
                caller.seen.unknown.fetch_add(1, Relaxed);
                caller.seen.granted(began.elapsed());
            } else if caller.seen.count(source, granted).is_some() {
                caller.seen.granted(began.elapsed());
            }
        }
    })
    .await;
}

fn is_unknown(status: &Status) -> bool {
    status.get_error_details().error_info().is_some_and(|info| info.reason == "OUTCOME_UNKNOWN")
}

/// Takes blocks over a stream.
async fn stream(caller: Caller) {
    let Some(daemon) = caller.connect("stream").await else { return };
    let mut ticks = interval(REGION);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let requests = tokio_stream::wrappers::IntervalStream::new(ticks).map(|_| lease("region:orders", 10));
    let opened = daemon.allocator().allocate_stream(requests).await;
    let Some(answers) = caller.seen.count("stream", opened) else { return };
    let mut answers = answers.into_inner();
    while let Some(answer) = answers.next().await {
        caller.seen.count("stream", answer);
    }
}

/// Repeatedly creates, changes and deletes a region.
async fn edits(caller: Caller) {
    let Some(daemon) = caller.connect("edit").await else { return };
    let name = |region: &str| format!("spaces/default/regions/{region}");
    let mut regions = daemon.regions();
    loop {
        let create = CreateRegionRequest {
            parent: "spaces/default".to_owned(),
            region_id: "draft".to_owned(),
            suffix_bits: Some(10),
            ..CreateRegionRequest::default()
        };
        caller.seen.count("create", regions.create_region(create).await);
        sleep(EDIT).await;
        let expand = ExpandRegionRequest { name: name("draft"), by_bits: 2, ..ExpandRegionRequest::default() };
        caller.seen.count("expand", regions.expand_region(expand).await);
        sleep(EDIT).await;
        let update = UpdateRegionRequest {
            name: name("draft"),
            owner: Some("soak".to_owned()),
            policy: Some(Policy { cap: "100".to_owned(), ..Policy::default() }),
            ..UpdateRegionRequest::default()
        };
        caller.seen.count("update", regions.update_region(update).await);
        sleep(EDIT).await;
        let rename = RenameRegionRequest {
            name: name("draft"),
            region_id: "final".to_owned(),
            ..RenameRegionRequest::default()
        };
        caller.seen.count("rename", regions.rename_region(rename).await);
        let seal = SealRegionRequest { name: name("final"), ..SealRegionRequest::default() };
        caller.seen.count("seal", regions.seal_region(seal).await);
        sleep(EDIT).await;
        let delete = DeleteRegionRequest { name: name("final"), ..DeleteRegionRequest::default() };
        caller.seen.count("delete", regions.delete_region(delete).await);
        sleep(EDIT).await;
    }
}

/// Watches the table, and restarts the watch from time to time.
async fn watch(caller: Caller) {
    let Some(daemon) = caller.connect("watch").await else { return };
    loop {
        let watch = WatchTableRequest { parent: "spaces/default".to_owned(), after_revision: 0 };
        let Some(changes) = caller.seen.count("watch", daemon.regions().watch_table(watch).await) else { return };
        let mut changes = changes.into_inner();
        let followed = async {
            while let Some(change) = changes.next().await {
                caller.seen.count("watch", change);
            }
        };
        // OK because each watch ends with this timeout.
        let _ = tokio::time::timeout(WATCH, followed).await;
    }
}

async fn classify(caller: Caller) {
    let Some(daemon) = caller.connect("classify").await else { return };
    let identifiers: Vec<Uint128> = (0..1000_u128).map(|at| Uint128::from(at << 40)).collect();
    at_each(CLASSIFY, async || {
        let request = ClassifyRequest { parent: "spaces/default".to_owned(), identifiers: identifiers.clone() };
        caller.seen.count("classify", daemon.regions().classify(request).await);
    })
    .await;
}

/// Repeatedly opens a connection and makes one call on it.
async fn connections(caller: Caller) {
    at_each(CONNECT, async || {
        if let Some(daemon) = caller.connect("connect").await {
            caller.seen.count("connect", daemon.allocator().allocate(lease("xid", 1)).await);
        }
        let body = r#"{"source": "uuidv7", "count": 10, "encoding": "ENCODING_TEXT"}"#;
        let request = format!(
            "POST /kent.v1.Allocator/Allocate HTTP/1.1\r\nHost: kent\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        caller.seen.count("JSON", caller.reach.http(&request).await);
    })
    .await;
}

async fn scrapes(caller: Caller) {
    at_each(SCRAPE, async || {
        for path in ["/metrics", "/readyz"] {
            caller.seen.count(path, caller.reach.get(path).await);
        }
    })
    .await;
}

async fn backups(caller: Caller) {
    let Some(daemon) = caller.connect("backup").await else { return };
    at_each(BACKUP, async || {
        let Some(parts) = caller.seen.count("backup", daemon.admin().backup(BackupRequest {}).await) else { return };
        let mut parts = parts.into_inner();
        while let Some(part) = parts.next().await {
            caller.seen.count("backup", part);
        }
    })
    .await;
}

/// Creates the regions of the run.
async fn set_up(reach: &Reach) -> Result<(), Status> {
    // Return a status if the connection fails, because the error type is a status.
    let Ok(daemon) = reach.connect().await else { return Err(Status::unavailable("the daemon does not answer")) };
    let create = |region: &str, policy| CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(40),
        policy,
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(create("orders", None)).await?;
    let strict = Policy { strict: true, ..Policy::default() };
    daemon.regions().create_region(create("invoices", Some(strict))).await?;
    Ok(())
}

pub(crate) fn run(args: &SoakArgs) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let certificate = ServerCertificate::write(folder.path())?;
    let store = folder.path().join("kent").join("store");
    // With a short history, the stored data does not grow, so caching it cannot be the reason for growing memory.
    let settings = [&certificate.arguments()[..], &["--history-keep", "1000"]].concat();
    let served = Served::kentd_with(args.kentd.as_ref(), &store, &settings)?;
    let runtime = Runtime::new()?;
    let reach = runtime.block_on(Reach::new(&served, &certificate, folder.path()))?;
    runtime.block_on(set_up(&reach))?;
    let caller = Caller { reach, seen: Arc::default() };
    let mut tasks = JoinSet::new();
    let guard = runtime.enter();
    for source in ["uuidv7", "uuidv6", "xid", "serial:INVOICE"] {
        tasks.spawn(grants(caller.clone(), source, GRANT));
    }
    for _ in 0..4 {
        tasks.spawn(grants(caller.clone(), "region:orders", REGION));
        tasks.spawn(stream(caller.clone()));
        tasks.spawn(watch(caller.clone()));
    }
    tasks.spawn(grants(caller.clone(), "region:invoices", STRICT));
    tasks.spawn(edits(caller.clone()));
    tasks.spawn(classify(caller.clone()));
    tasks.spawn(connections(caller.clone()));
    tasks.spawn(scrapes(caller.clone()));
    tasks.spawn(backups(caller.clone()));
    drop(guard);
    let samples = watch_daemon(args, &served, &caller.seen)?;
    // Wait for the callers: a call whose connection the runtime drops first would count as a failure.
    runtime.block_on(tasks.shutdown());
    drop(runtime);
    served.stop()?;
    report(args, &samples, &caller.seen)
}

/// Samples the daemon until the run ends.
fn watch_daemon(args: &SoakArgs, served: &Served, seen: &Seen) -> anyhow::Result<Vec<Sample>> {
    ensure!(args.minutes > 0.0, "--minutes is {}, but must be more than 0", args.minutes);
    let (began, length) = (now(), Duration::from_secs_f64(args.minutes * 60.0));
    let mut samples = Vec::new();
    if !args.json {
        println!(
            "{:>8}  {:>9}  {:>6}  {:>10}  {:>8}  {:>9}  {:>8}",
            "minutes", "resident", "files", "grants/s", "p99 us", "p99.9 us", "max ms"
        );
    }
    for number in 1..=SAMPLES {
        let end = length * number / SAMPLES;
        while began.elapsed() < end {
            interrupt::check()?;
            thread::sleep(Duration::from_millis(50).min(end.saturating_sub(began.elapsed())));
        }
        let mut grants = std::mem::take(&mut *seen.grants.lock().unwrap_or_else(PoisonError::into_inner));
        grants.sort_unstable();
        let sample = Sample {
            minutes: began.elapsed().as_secs_f64() / 60.0,
            resident: served.resident()?,
            files: served.process.files()?,
            grants,
        };
        let (p99, p999, max) = (sample.at(0.99), sample.at(0.999), sample.at(1.0));
        let per_second = sample.grants.len() as f64 * f64::from(SAMPLES) / length.as_secs_f64();
        let mib = sample.resident as f64 / f64::from(1 << 20);
        match args.json {
            true => println!(
                "{}",
                json!({"minutes": sample.minutes, "resident_bytes": sample.resident, "files": sample.files, "grants": sample.grants.len(),
                       "p99_us": p99, "p999_us": p999, "max_us": max})
            ),
            false => println!(
                "{:>8.1}  {:>5.1} MiB  {:>6}  {per_second:>10.0}  {p99:>8}  {p999:>9}  {:>8.1}",
                sample.minutes,
                mib,
                sample.files,
                f64::from(max) / 1e3
            ),
        }
        samples.push(sample);
    }
    Ok(samples)
}

impl Sample {
    /// Returns the latency that this share of the grants does not exceed, in microseconds.
    fn at(&self, share: f64) -> u32 {
        at(&self.grants, share)
    }
}

/// Returns the value that this share of sorted values does not exceed.
fn at(sorted: &[u32], share: f64) -> u32 {
    let last = sorted.len().saturating_sub(1);
    // OK because the product is at most `last`.
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

/// Prints the results of the whole run. Fails if a call has failed, or if resident memory or the number of open files
/// has grown.
fn report(args: &SoakArgs, samples: &[Sample], seen: &Seen) -> anyhow::Result<()> {
    let beginning = BEGINNING.min(args.minutes / 6.0);
    let rest: Vec<&Sample> = samples.iter().filter(|sample| sample.minutes > beginning).collect();
    let third = (rest.len() / 3).max(1);
    let ends = |of: fn(&Sample) -> u64| {
        let part = |samples: &[&Sample]| median(&samples.iter().map(|sample| of(sample) as f64).collect::<Vec<_>>());
        (part(&rest[..third]), part(&rest[rest.len() - third..]))
    };
    let mut all: Vec<u32> = samples.iter().flat_map(|sample| sample.grants.iter().copied()).collect();
    all.sort_unstable();
    let failures = seen.failures.lock().unwrap_or_else(PoisonError::into_inner);
    let (memory, files) = (ends(|sample| sample.resident), ends(|sample| sample.files));
    let unknown = seen.unknown.load(Relaxed);
    let (calls, p99, p999, stall) = (seen.calls.load(Relaxed), at(&all, 0.99), at(&all, 0.999), at(&all, 1.0));
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    match args.json {
        true => println!(
            "{}",
            json!({"calls": calls, "failures": failures.len(), "unknown": unknown, "grants": all.len(), "p99_us": p99, "p999_us": p999, "stall_us": stall,
                   "resident_bytes": [memory.0, memory.1], "files": [files.0, files.1]})
        ),
        false => {
            println!("calls           {calls}, of which {} failed", failures.len());
            if unknown > 0 {
                println!("outcome unknown {unknown} strict grants");
            }
            println!(
                "unary grants    {}: p99 {p99} us, p99.9 {p999} us, longest {:.1} ms",
                all.len(),
                f64::from(stall) / 1e3
            );
            println!(
                "resident        {:.1} MiB after {beginning:.1} minutes, {:.1} MiB at the end",
                mib(memory.0),
                mib(memory.1)
            );
            println!("open files      {} after {beginning:.1} minutes, {} at the end", files.0, files.1);
        }
    }
    if let Some(file) = &args.svg {
        fs::write(file, draw(samples)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(first) = failures.first() {
        bail!("{} of {calls} calls failed, the first one was {first}", failures.len());
    }
    if unknown * UNKNOWN_SHARE > calls {
        bail!("the outcome of {unknown} of {calls} calls is unknown");
    }
    if args.minutes < BEGINNING {
        // In a short run, memory grows because caches are still filling.
        return Ok(());
    }
    ensure!(memory.1 <= memory.0 * FLAT, "resident memory grew from {:.1} to {:.1} MiB", mib(memory.0), mib(memory.1));
    ensure!(files.1 <= files.0 * FLAT, "open files grew from {} to {}", files.0, files.1);
    Ok(())
}

/// Draws resident memory and open files, and the latencies of grants, over time.
fn draw(samples: &[Sample]) -> String {
    let line = |name: &str, color, of: fn(&Sample) -> f64| Line {
        name: name.to_owned(),
        color,
        points: samples.iter().map(|sample| (sample.minutes, of(sample).max(1.0))).collect(),
    };
    let panel = |title: &str, lines| {
        let (title, x) = (title.to_owned(), "minutes".to_owned());
        Panel { title, x, scale: Scale::Linear, tick: digits, lines }
    };
    let panels = [
        panel(
            "resources of the daemon",
            vec![
                line("resident memory, MiB", "#1f77b4", |sample| sample.resident as f64 / f64::from(1 << 20)),
                line("open files", "#2ca02c", |sample| sample.files as f64),
            ],
        ),
        panel(
            "unary grants, microseconds",
            vec![
                line("p99", "#9467bd", |sample| sample.at(0.99).into()),
                line("p99.9", "#ff7f0e", |sample| sample.at(0.999).into()),
                line("longest", "#d62728", |sample| sample.at(1.0).into()),
            ],
        ),
    ];
    svg(&panels, Axes::Own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_share_of_sorted_values() {
        let values: Vec<u32> = (1..=1000).collect();
        assert_eq!((at(&values, 0.5), at(&values, 0.999), at(&values, 1.0)), (501, 999, 1000));
        assert_eq!((at(&[7], 0.99), at(&[], 0.99)), (7, 0));
    }
}
