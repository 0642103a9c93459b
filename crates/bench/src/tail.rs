//! `kent-bench tail`: the longest grants while the daemon does everything else that it can do.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use kent_client::{
    Client,
    proto::{BackupRequest, ClassifyRequest, SealRegionRequest, Uint128, WatchTableRequest},
};
use kent_test_etcd::Etcd;
use tokio::{
    runtime::Runtime,
    time::{MissedTickBehavior, interval, sleep},
};
use tonic::Code;

use crate::{
    contest::{Bound, Contender, Contest, Options, Unit},
    lean::Caller,
    load::{self, Load, lease},
    other,
    process::Served,
    reach::Reach,
    regions::{self, SPACE},
    secure::ServerCertificate,
    standstill, table,
};

/// Measure the longest unary grants at half of the full rate, while tables are edited, the index of a large table is
/// rebuilt, the journal turns, backups stream, a watcher does not read, metrics are scraped and certificates change.
///
/// The calls are made at a constant rate, whether or not earlier ones are answered. `bare` is the bare transport under
/// the same calls, while the daemon beside it does all the other work; `alone` is the daemon without other work. All
/// callers use TLS. A slice in which the machine stood still for more than 10 ms is disturbed. A run of ten minutes per
/// contender: `--rounds 60 --millis 10000`.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    options: Options,
    /// Number of regions in the table.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    regions: u64,
    /// Keep the store in this directory and reuse it in the next run, because filling it takes minutes.
    #[arg(long, value_name = "DIR", conflicts_with = "etcd")]
    data: Option<PathBuf>,
    /// Use an etcd server as the store (Debian package etcd-server).
    #[arg(long)]
    etcd: bool,
    /// Start the daemon and the bare transport with `--pin-threads`.
    #[arg(long)]
    pin_threads: bool,
    /// Leave out the other work named here, to find which part causes a delay.
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Work>,
}

/// The other work of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Work {
    Edits,
    Index,
    Strict,
    Backups,
    Watcher,
    Scrapes,
    Certificates,
}

/// The number of connections that make the calls, and of calls in flight when the full rate is measured.
const CONNECTIONS: usize = 8;
const IN_FLIGHT: usize = 64;
const FULL_RATE: Duration = Duration::from_secs(3);

/// The upper bound of p99.9, relative to that of the bare transport, and of the longest grant in milliseconds.
const COST: Bound = Bound::AtMost(3.0);
const LONGEST: Bound = Bound::AtMost(20.0);

/// A slice in which the machine stood still for longer is disturbed.
const STANDSTILL: Duration = Duration::from_millis(10);

/// The pauses between the calls of each kind of work.
const EDIT: Duration = Duration::from_millis(100);
const CLASSIFY: Duration = Duration::from_secs(1);
const STRICT: Duration = Duration::from_millis(20);
const SCRAPE: Duration = Duration::from_secs(1);
const RELOAD: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &TailArgs) -> anyhow::Result<()> {
    let (options, folder) = (&args.options, tempfile::tempdir()?);
    let store = args.data.as_deref().unwrap_or(folder.path()).join("store");
    let etcd = args.etcd.then(|| Etcd::start(1));
    let address = etcd.as_ref().map(|etcd| etcd.address("kent"));
    let shared: Vec<&str> = address.iter().flat_map(|address| ["--store", address]).collect();
    let certificate = Arc::new(ServerCertificate::write(folder.path())?);
    let runtime = options.runtime()?;
    fill(args, &shared, &store, &runtime)?;

    let pinned: &[&str] = if args.pin_threads { &["--pin-threads"] } else { &[] };
    let secure = [&shared[..], &certificate.arguments(), pinned].concat();
    let daemon = Served::kentd_with(options.kentd.as_ref(), &store, &secure)?;
    let bare = Served::bare_with(&[&certificate.bare_arguments(), pinned].concat())?;
    let caller = Caller { tls: Some(runtime.block_on(certificate.certificates.refresh())?), token: None };
    let request = lease("uuidv7", 1);
    let full = Load::Unary { request: request.clone(), connections: CONNECTIONS, in_flight: IN_FLIGHT };
    let full = runtime.block_on(load::run_as(&full, &daemon.address, &caller, FULL_RATE))?;
    let per_second = full.count as f64 / full.took.as_secs_f64() / 2.0; // OK because the count is far below 2^53

    let others = Others {
        reach: runtime.block_on(Reach::new(&daemon, &certificate, folder.path()))?,
        certificate: certificate.clone(),
        without: args.without.clone(),
    };
    let calls = Load::Paced { request, connections: CONNECTIONS, per_second };
    let slice = |server: &Served| {
        let run = || runtime.block_on(load::run_as(&calls, &server.address, &caller, options.length()));
        standstill::measured(|| server.process.watched(run))
    };
    let beside = |server: &Served| {
        let others = others.clone();
        other::during(|| slice(server), async move |stop| others.work(stop).await)
    };
    let contest = Contest::new("tail", Unit::Each("requests"), options)?;
    let contenders = vec![
        Contender::new("bare", || beside(&bare)),
        Contender::new("kentd", || beside(&daemon)),
        Contender::new("kentd, alone", || slice(&daemon)),
    ];
    let store = if args.etcd { "etcd" } else { "sled" };
    let load = format!("half of the full rate, {store}{}", if args.pin_threads { ", pinned" } else { "" });
    let outcomes = contest.run(&load, contenders)?;
    contest.fact("calls per second", Some(per_second), Bound::Any);
    contest.fact("p99.9, relative to bare's", outcomes.percentile_ratio(3, "kentd", "bare"), COST);
    contest.fact("p99.9, relative to alone", outcomes.percentile_ratio(3, "kentd", "kentd, alone"), Bound::Any);
    for (name, bound) in [("kentd", LONGEST), ("kentd, alone", Bound::Any), ("bare", Bound::Any)] {
        let fact = |what, micros: Option<f64>, bound| {
            contest.fact(format!("{name}, {what}, ms"), micros.map(|us| us / 1e3), bound);
        };
        fact("longest grant", outcomes.longest_micros(name), bound);
        fact(
            "longest grant of the undisturbed slices",
            outcomes.longest_undisturbed_micros(name, STANDSTILL),
            Bound::Any,
        );
        fact("longest standstill of the machine", outcomes.standstill_micros(name), Bound::Any);
    }
    contest.finish();
    drop(runtime);
    daemon.stop()
}

/// Creates the regions, through a daemon without TLS.
fn fill(args: &TailArgs, shared: &[&str], store: &Path, runtime: &Runtime) -> anyhow::Result<()> {
    let daemon = Served::kentd_with(args.options.kentd.as_ref(), store, shared)?;
    runtime.block_on(async {
        let client = Client::new(format!("http://{}", daemon.address))?;
        if table::fill(&client, args.regions).await?.is_some() {
            regions::create(&client, "edited").await?;
            regions::create_strict(&client, "strict").await?;
        }
        anyhow::Ok(())
    })?;
    daemon.stop()
}

/// Makes the daemon do other work.
#[derive(Clone)]
struct Others {
    reach: Reach,
    certificate: Arc<ServerCertificate>,
    without: Vec<Work>,
}

impl Others {
    /// Does all kinds of work until the flag is set.
    async fn work(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        tokio::try_join!(
            self.unless(Work::Edits, self.edit(stop)),
            self.unless(Work::Index, self.classify(stop)),
            self.unless(Work::Strict, self.grant_strictly(stop)),
            self.unless(Work::Backups, self.back_up(stop)),
            self.unless(Work::Watcher, self.watch(stop)),
            self.unless(Work::Scrapes, self.scrape(stop)),
            self.unless(Work::Certificates, self.reload(stop)),
        )?;
        Ok(())
    }

    async fn unless(&self, work: Work, done: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        if self.without.contains(&work) { Ok(()) } else { done.await.with_context(|| format!("{work:?}")) }
    }

    /// Seals and unseals a region, which is an edit each.
    async fn edit(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut regions = self.reach.connect().await?.regions();
        let request = || SealRegionRequest { name: format!("{SPACE}/regions/edited"), ..SealRegionRequest::default() };
        at_each(EDIT, stop, async |number| {
            match number % 2 {
                0 => regions.seal_region(request()).await?,
                _ => regions.unseal_region(request()).await?,
            };
            Ok(())
        })
        .await
    }

    /// Classifies identifiers. After an edit, the daemon first builds the index of the table again.
    async fn classify(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut regions = self.reach.connect().await?.regions();
        let identifiers: Vec<Uint128> = (0..1000_u128).map(|at| Uint128::from(at << 40)).collect();
        at_each(CLASSIFY, stop, async |_| {
            let request = ClassifyRequest { parent: SPACE.to_owned(), identifiers: identifiers.clone() };
            regions.classify(request).await?;
            Ok(())
        })
        .await
    }

    /// Takes identifiers whose grants are durable. Each is a commit, and some hundred commits turn the journal.
    async fn grant_strictly(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut allocator = self.reach.connect().await?.allocator();
        at_each(STRICT, stop, async |_| {
            allocator.allocate(lease("region:strict", 1)).await?;
            Ok(())
        })
        .await
    }

    async fn back_up(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut admin = self.reach.connect().await?.admin();
        while !stop.load(Relaxed) {
            let mut parts = match admin.backup(BackupRequest {}).await {
                Ok(parts) => parts.into_inner(),
                // The daemon is still canceling the backup of the previous slice.
                Err(status) if status.code() == Code::ResourceExhausted => {
                    sleep(EDIT).await;
                    continue;
                }
                Err(status) => return Err(status.into()),
            };
            while !stop.load(Relaxed) && parts.message().await?.is_some() {}
        }
        Ok(())
    }

    /// Watches the table from its first revision on, and reads nothing.
    async fn watch(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let watch = WatchTableRequest { parent: SPACE.to_owned(), after_revision: 0 };
        let changes = self.reach.connect().await?.regions().watch_table(watch).await?;
        while !stop.load(Relaxed) {
            sleep(EDIT).await;
        }
        drop(changes);
        Ok(())
    }

    async fn scrape(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        at_each(SCRAPE, stop, async |_| self.reach.get("/metrics").await.map(drop)).await
    }

    /// Changes the file of the daemon's certificate.
    async fn reload(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        at_each(RELOAD, stop, async |number| self.certificate.touch(number)).await
    }
}

/// Makes a call at each tick until the flag is set.
async fn at_each(
    pause: Duration,
    stop: &AtomicBool,
    mut call: impl AsyncFnMut(u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0.. {
        ticks.tick().await;
        if stop.load(Relaxed) {
            break;
        }
        call(number).await?;
    }
    Ok(())
}
