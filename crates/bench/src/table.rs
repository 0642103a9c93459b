//! `kent-bench table`: a daemon with a large prefix table. How fast it starts, lists, edits and classifies, and what memory it
//! takes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kent_client::{
    Client,
    proto::{
        AddSubregionsRequest, ClassifyRequest, CreateRegionRequest, ExpandRegionRequest, ListRegionsRequest, NewRegion,
        SealRegionRequest, SplitRegionRequest, WatchTableRequest, watch_table_response::Event,
    },
};
use rand::{RngExt, rngs::StdRng};
use tokio::runtime::Runtime;

use crate::{
    figures::{now, rate},
    interrupt,
    process::Served,
    regions::SPACE,
};

/// A daemon with a table of many regions: start, pages, edits, classification, memory.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// About how many regions the table has.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    regions: u64,
    /// How many edits of each kind are measured.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    edits: u64,
    /// Keep the store here, and use the one that is here already; without it, a new one that is removed at the end.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The daemon to measure; without it, `kentd` beside this program.
    #[arg(long, value_name = "PATH")]
    kentd: Option<PathBuf>,
    /// The same seed makes the same edits.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Subregions made by one edit: as many as a transaction holds.
const LITTER: u64 = 56;
/// Where all regions of the measurement are.
const TOP: &str = "top";
/// Prefixes of the first level are so many bits longer than that of the region around all.
const LEVEL_BITS: u32 = 24;

pub(crate) fn run(args: &TableArgs) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let temporary = tempfile::tempdir()?;
    let new = temporary.path().join("store");
    let data = args.data.as_deref().unwrap_or(&new);
    let daemon = Daemon::start(args, data)?;
    let took = runtime.block_on(fill(&daemon.client, args.regions))?;
    if let Some(took) = took {
        println!("{:34} {:>10} regions/s", "made, 56 an edit", rate(args.regions as f64 / took.as_secs_f64()));
    }
    println!("{:34} {:>10} MiB", "resident, after they were made", daemon.served.resident()? >> 20);
    daemon.served.stop()?;
    println!("{:34} {:>10} MiB", "store", bytes(data)? >> 20);

    let began = now();
    let daemon = Daemon::start(args, data)?;
    println!("{:34} {:>10} ms", "start, until it serves", began.elapsed().as_millis());
    println!("{:34} {:>10} MiB", "resident, after the start", daemon.served.resident()? >> 20);
    runtime.block_on(measure(&daemon, args))?;
    println!("{:34} {:>10} MiB", "resident, at the end", daemon.served.resident()? >> 20);
    daemon.served.stop()
}

/// Makes the regions, unless the store has them already.
pub(crate) async fn fill(client: &Client, regions: u64) -> anyhow::Result<Option<Duration>> {
    let mut stub = client.connect().await?.regions();
    let top = CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: TOP.to_owned(),
        suffix_bits: 8,
        prefix: Some("0".to_owned()),
        ..CreateRegionRequest::default()
    };
    match stub.create_region(top).await {
        Err(status) if status.code() == tonic::Code::AlreadyExists => return Ok(None),
        made => made.context("the region around all was not made")?,
    };
    let bar = ProgressBar::new(regions);
    bar.set_style(ProgressStyle::with_template("{msg:14} {wide_bar} {pos}/{len} {eta}")?);
    bar.set_message("regions");
    let began = now();
    // Each region of the first level gets a litter of its own.
    let firsts = regions.div_ceil(LITTER + 1);
    let mut made = 1;
    while made < firsts {
        interrupt::check()?;
        let litter = (made..firsts.min(made + LITTER)).map(|at| new_region(first(at), at, LEVEL_BITS)).collect();
        subdivide(client, TOP, LEVEL_BITS, litter).await?;
        made += LITTER;
        bar.set_position(made);
    }
    for at in 1..firsts {
        interrupt::check()?;
        let litter = (1..=LITTER).map(|inner| new_region(format!("{}-{inner}", first(at)), inner, 6)).collect();
        subdivide(client, &first(at), 6, litter).await?;
        bar.inc(LITTER);
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
        .with_context(|| format!("{region} was not divided"))?;
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

    let firsts = args.regions.div_ceil(LITTER + 1);
    let mut some = || format!("{}-{}", first(rng.random_range(1..firsts)), rng.random_range(1..=LITTER));
    let (mut create, mut expand, mut seal, mut split) = <(Times, Times, Times, Times)>::default();
    // The store may be that of an earlier run.
    let run: u32 = rand::rng().random();
    for at in 0..args.edits {
        let name = format!("new-{run:08x}-{at}");
        let request = CreateRegionRequest {
            parent: SPACE.to_owned(),
            region_id: name.clone(),
            suffix_bits: 4,
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
    Ok(())
}

/// How long something took, each time.
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
            // OK because an index of a slice in hand fits.
            let index = (self.0.len() as f64 * share) as usize;
            self.0.get(index.min(self.0.len() - 1)).map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        println!("{what:34} {:>10.2} ms   (99 of 100 within {:.2})", at(0.5), at(0.99));
    }
}

/// A daemon under measurement. It is killed when it is dropped.
/// The daemon, and a client of it.
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

/// Bytes of the files in a directory and below.
fn bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        sum += if facts.is_dir() { bytes(&entry.path())? } else { facts.len() };
    }
    Ok(sum)
}
