//! `kent-bench table`: a daemon with a large prefix table: its memory, and the time that its starts, lists, edits and
//! classification take.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kent_client::{
    Client,
    proto::{
        AddSubregionsRequest, ClassifyRequest, CreateRegionRequest, ExpandRegionRequest, ListRegionsRequest,
        MapRegionsRequest, NewRegion, SealRegionRequest, SplitRegionRequest, WatchTableRequest,
        watch_table_response::Event,
    },
};
use prost::Message;
use rand::{RngExt, rngs::StdRng};
use tokio::runtime::Runtime;

use crate::{
    figures::{now, rate},
    interrupt,
    process::Served,
    regions::SPACE,
    start,
};

/// Measure a daemon with a table of many regions: start, pages, edits, classification, memory.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Approximate number of regions in the table.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    regions: u64,
    /// Number of starts after a stop, and of starts after kill -9.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    starts: u64,
    /// Number of edits of each kind.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    edits: u64,
    /// Keep the store in this directory, and reuse an existing store there [default: a temporary directory].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The daemon to measure [default: kentd in the directory of this program].
    #[arg(long, value_name = "PATH")]
    kentd: Option<PathBuf>,
    /// Seed of the edits. The same seed generates the same edits.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The number of subregions per edit, which is below a transaction's limit.
const BATCH: u64 = 56;
/// The region that contains all other regions that [`fill`] creates.
const TOP: &str = "top";
/// The number of bits by which prefixes of the first level are longer than the prefix of [`TOP`].
const LEVEL_BITS: u32 = 24;
/// The time after the first grant in which the daemon returns the memory that its start has freed.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &TableArgs) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let temporary = tempfile::tempdir()?;
    let new = temporary.path().join("store");
    let data = args.data.as_deref().unwrap_or(&new);
    let daemon = Daemon::start(args, data)?;
    let took = runtime.block_on(fill(&daemon.client, args.regions))?;
    if let Some(took) = took {
        println!("{:34} {:>10} regions/s", "created, 56 per edit", rate(args.regions as f64 / took.as_secs_f64()));
    }
    println!("{:34} {:>10} MiB", "resident, after creation", daemon.served.resident()? >> 20);
    daemon.served.stop()?;
    println!("{:34} {:>10} MiB", "store", bytes(data)? >> 20);

    let (mut stopped, mut killed) = (Starts::default(), Starts::default());
    for _ in 0..args.starts {
        interrupt::check()?;
        stopped.time(args, data, &runtime)?.served.process.kill()?;
        killed.time(args, data, &runtime)?.served.stop()?;
    }
    stopped.print("a stop");
    killed.print("kill -9");

    let daemon = Daemon::start(args, data)?;
    runtime.block_on(measure(&daemon, args))?;
    println!("{:34} {:>10} MiB", "resident, at the end", daemon.served.resident()? >> 20);
    daemon.served.stop()
}

/// Creates the regions, and returns the time taken, or `None` if the store already has the regions.
pub(crate) async fn fill(client: &Client, regions: u64) -> anyhow::Result<Option<Duration>> {
    let mut stub = client.connect().await?.regions();
    let top = CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: TOP.to_owned(),
        suffix_bits: Some(8),
        prefix: Some("0".to_owned()),
        ..CreateRegionRequest::default()
    };
    match stub.create_region(top).await {
        Err(status) if status.code() == tonic::Code::AlreadyExists => return Ok(None),
        created => created.context("cannot create the outermost region")?,
    };
    let bar = ProgressBar::new(regions);
    bar.set_style(ProgressStyle::with_template("{msg:14} {wide_bar} {pos}/{len} {eta}")?);
    bar.set_message("regions");
    let began = now();
    // Each region of the first level gets one batch of subregions.
    let firsts = regions.div_ceil(BATCH + 1);
    let mut made = 1;
    while made < firsts {
        interrupt::check()?;
        let batch = (made..firsts.min(made + BATCH)).map(|at| new_region(first(at), at, LEVEL_BITS)).collect();
        subdivide(client, TOP, LEVEL_BITS, batch).await?;
        made += BATCH;
        bar.set_position(made);
    }
    for at in 1..firsts {
        interrupt::check()?;
        let batch = (1..=BATCH).map(|inner| new_region(format!("{}-{inner}", first(at)), inner, 6)).collect();
        subdivide(client, &first(at), 6, batch).await?;
        bar.inc(BATCH);
    }
    bar.finish_and_clear();
    Ok(Some(began.elapsed()))
}

fn first(at: u64) -> String {
    format!("r{at}")
}

fn new_region(region_id: String, extension: u64, bits: u32) -> NewRegion {
    let extension = format!("{extension:0width$b}", width = bits as usize);
    NewRegion { region_id, suffix_bits: Some(8), extension: Some(extension), ..NewRegion::default() }
}

async fn subdivide(client: &Client, region: &str, by_bits: u32, new_regions: Vec<NewRegion>) -> anyhow::Result<()> {
    let name = format!("{SPACE}/regions/{region}");
    let request = AddSubregionsRequest { name, by_bits, new_regions, ..AddSubregionsRequest::default() };
    client
        .connect()
        .await?
        .regions()
        .add_subregions(request)
        .await
        .with_context(|| format!("cannot subdivide {region}"))?;
    Ok(())
}

async fn measure(daemon: &Daemon, args: &TableArgs) -> anyhow::Result<()> {
    let mut rng: StdRng = rand::SeedableRng::seed_from_u64(args.seed);
    let client = &daemon.client;
    let mut stub = client.connect().await?.regions();

    let (mut token, mut listed, mut pages) = (String::new(), 0, Times::default());
    loop {
        let began = now();
        let request = ListRegionsRequest {
            parent: SPACE.to_owned(),
            page_size: 1000,
            page_token: token,
            ..ListRegionsRequest::default()
        };
        let page = stub.list_regions(request).await?.into_inner();
        pages.0.push(began.elapsed());
        listed += page.regions.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    println!("{:34} {listed:>10}", "regions listed");
    pages.print("page of 1000 regions");

    let began = now();
    let request = WatchTableRequest { parent: SPACE.to_owned(), after_revision: 0 };
    let mut watch = stub.watch_table(request).await?.into_inner();
    while let Some(message) = watch.message().await? {
        if matches!(message.event, Some(Event::Snapshot(part)) if part.last) {
            break;
        }
    }
    drop(watch);
    println!("{:34} {:>10} ms", "snapshot for a watcher", began.elapsed().as_millis());

    let firsts = args.regions.div_ceil(BATCH + 1);
    let mut some = || format!("{}-{}", first(rng.random_range(1..firsts)), rng.random_range(1..=BATCH));
    let (mut create, mut expand, mut seal, mut split) = <(Times, Times, Times, Times)>::default();
    // A random suffix keeps names unique in a store from an earlier run.
    let run: u32 = rand::rng().random();
    for at in 0..args.edits {
        let name = format!("new-{run:08x}-{at}");
        let request = CreateRegionRequest {
            parent: SPACE.to_owned(),
            region_id: name.clone(),
            suffix_bits: Some(4),
            ..CreateRegionRequest::default()
        };
        create.time(stub.create_region(request)).await?;
        let whole = format!("{SPACE}/regions/{name}");
        let request = SplitRegionRequest { name: whole, by_bits: 1, ..SplitRegionRequest::default() };
        split.time(stub.split_region(request)).await?;
        let name = format!("{SPACE}/regions/{}", some());
        let request = SealRegionRequest { name: name.clone(), ..SealRegionRequest::default() };
        seal.time(stub.seal_region(request)).await?;
        let request = ExpandRegionRequest { name, by_bits: 1, ..ExpandRegionRequest::default() };
        expand.time(stub.expand_region(request)).await?;
    }
    for (what, times) in [("create", create), ("split", split), ("seal", seal), ("expand", expand)] {
        times.print(&format!("edit: {what}"));
    }

    let mut classify = Times::default();
    for _ in 0..20 {
        let identifiers = (0..10_000).map(|_| rng.random::<u64>() >> 1).map(|id| u128::from(id).into()).collect();
        let request = ClassifyRequest { parent: SPACE.to_owned(), identifiers };
        classify.time(stub.classify(request)).await?;
    }
    classify.print("10 000 identifiers classified");

    // Measure maps of the whole space, and of narrower and narrower parts of it.
    for cells in [256, 4096] {
        let (mut whole, mut zoomed, mut bytes) = (Times::default(), Times::default(), 0);
        for at in 0..20 {
            let request = |prefix| MapRegionsRequest {
                parent: SPACE.to_owned(),
                prefix,
                max_cells: cells,
                ..MapRegionsRequest::default()
            };
            bytes = whole.time(stub.map_regions(request(String::new()))).await?.get_ref().encoded_len();
            zoomed.time(stub.map_regions(request("0".repeat(at)))).await?;
        }
        whole.print(&format!("map of {cells} cells, {} KiB", bytes >> 10));
        zoomed.print(&format!("map of a part, {cells} cells"));
    }
    // For the first map of a past revision, the daemon computes the table of that revision.
    let mut past = Times::default();
    let present =
        stub.map_regions(MapRegionsRequest { parent: SPACE.to_owned(), ..MapRegionsRequest::default() }).await?;
    let at_revision = present.get_ref().revision - 1;
    for _ in 0..20 {
        let request = MapRegionsRequest { parent: SPACE.to_owned(), at_revision, ..MapRegionsRequest::default() };
        past.time(stub.map_regions(request)).await?;
    }
    println!("{:34} {:>10} ms", "first map of a past revision", past.0[0].as_millis());
    past.print("map of the past");
    Ok(())
}

#[derive(Debug, Default)]
struct Times(Vec<Duration>);

impl Times {
    async fn time<T>(&mut self, call: impl Future<Output = Result<T, tonic::Status>>) -> anyhow::Result<T> {
        let began = now();
        let answer = call.await?;
        self.0.push(began.elapsed());
        Ok(answer)
    }

    fn print(mut self, what: &str) {
        self.0.sort();
        let at = |share: f64| {
            // OK because the length of a slice in memory is far below 2^53.
            let index = (self.0.len() as f64 * share) as usize;
            self.0.get(index.min(self.0.len() - 1)).map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        println!("{what:34} {:>10.2} ms   (99 of 100 within {:.2})", at(0.5), at(0.99));
    }
}

/// The times of starts until the first grant, and the resident memory in bytes: then, and after [`SETTLE`].
#[derive(Debug, Default)]
struct Starts {
    times: Times,
    resident: Vec<u64>,
    settled: Vec<u64>,
}

impl Starts {
    fn time(&mut self, args: &TableArgs, data: &Path, runtime: &Runtime) -> anyhow::Result<Daemon> {
        let began = now();
        let daemon = Daemon::start(args, data)?;
        runtime.block_on(start::grant(&daemon.served.address))?;
        self.times.0.push(began.elapsed());
        self.resident.push(daemon.served.resident()?);
        thread::sleep(SETTLE);
        self.settled.push(daemon.served.resident()?);
        Ok(daemon)
    }

    fn print(self, after: &str) {
        self.times.print(&format!("start after {after}, to a grant"));
        let later = format!("{} s later", SETTLE.as_secs());
        for (when, mut resident) in [("at the grant", self.resident), (&later, self.settled)] {
            resident.sort();
            let mib = |at: usize| resident.get(at).map_or(0, |bytes| bytes >> 20);
            let (median, most) = (mib(resident.len() / 2), mib(resident.len() - 1));
            println!("{:34} {median:>10} MiB  (at most {most})", format!("resident, {when}"));
        }
    }
}

/// The daemon under measurement, and its client.
struct Daemon {
    served: Served,
    client: Client,
}

impl Daemon {
    fn start(args: &TableArgs, data: &Path) -> anyhow::Result<Self> {
        let served = Served::kentd_on(args.kentd.as_ref(), data)?;
        let client = Client::new(format!("http://{}", served.address))?;
        Ok(Self { served, client })
    }
}

/// Returns the total size in bytes of the files in a directory and its subdirectories.
fn bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
