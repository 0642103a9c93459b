//! `kent-bench classify`: classification of identifiers by the daemon and by a client's copy of the table.

use std::{hint::black_box, sync::Arc};

use anyhow::ensure;
use clap::Args;
use kent_client::{
    Client, TableCopy,
    proto::{ClassifyRequest, regions_client::RegionsClient},
};
use rand::RngExt;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit, name_at},
    figures::now,
    load,
    process::Served,
    regions::SPACE,
    table,
};

/// Measure identifiers classified per second by the daemon over gRPC and by a client's copy of the table.
#[derive(Debug, Args)]
pub(crate) struct ClassifyArgs {
    #[command(flatten)]
    options: Options,
    /// Numbers of regions in the tables. Each table has its own daemon.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1000, 100_000], value_name = "COUNT,...")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    regions: Vec<u64>,
    /// Number of identifiers per call.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    identifiers: u32,
    /// Number of calls in flight.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,
}

/// A daemon with a table of `regions` regions.
struct Table {
    regions: u64,
    served: Served,
    client: Client,
    copy: TableCopy,
    _data: TempDir,
}

pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<()> {
    let options = &args.options;
    // A task keeps each client's copy up to date, and needs a worker thread.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut rng = rand::rng();
    // All regions are in the lower half of the space.
    let identifiers: Arc<[u128]> = (0..args.identifiers).map(|_| u128::from(rng.random::<u64>() >> 1)).collect();
    let contest = Contest::new("classify", Unit::Each("identifiers"), options)?;
    let mut tables = Vec::new();
    for regions in &args.regions {
        let data = tempfile::tempdir()?;
        let served = Served::kentd(options.kentd.as_ref(), data.path())?;
        let client = Client::new(format!("http://{}", served.address))?;
        let copy = runtime.block_on(async {
            table::fill(&client, *regions).await?;
            anyhow::Ok(client.table("default").await?)
        })?;
        tables.push(Table { regions: *regions, served, client, copy, _data: data });
    }
    let mut contenders = Vec::new();
    for table in &tables {
        for (name, in_flight) in [("kentd, 1 call", 1), ("kentd", args.in_flight)] {
            let ids = &identifiers;
            let slice = move || options.runtime()?.block_on(calls(table, ids, in_flight, options));
            contenders.push(Contender::new(name, slice).at("regions", table.regions));
        }
        contenders
            .push(Contender::new("copy", || Ok(copied(table, &identifiers, options))).at("regions", table.regions));
    }
    let outcomes = contest.run(&format!("{} in a call", args.identifiers), contenders)?;
    let ends = args.regions.iter().min().zip(args.regions.iter().max());
    if let Some((least, most)) = ends {
        let ratio = outcomes.ratio(&name_at("kentd", *most, "regions"), &name_at("kentd", *least, "regions"));
        contest.fact(format!("kentd, rate with {most} regions / rate with {least}"), ratio, Bound::AtLeast(0.8));
    }
    contest.finish();
    for Table { served, client, copy, _data, .. } in tables {
        drop((client, copy));
        served.stop()?;
    }
    Ok(())
}

/// Calls the daemon on one connection with `in_flight` calls in flight.
async fn calls(table: &Table, ids: &Arc<[u128]>, in_flight: u32, options: &Options) -> anyhow::Result<Slice> {
    let channel = load::connect(&table.served.address).await?;
    let (mut tasks, began) = (JoinSet::new(), now());
    let length = options.length();
    for _ in 0..in_flight {
        let mut stub = RegionsClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        let identifiers: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
        tasks.spawn(async move {
            let (mut slice, mut sent) = (Slice::default(), began);
            while sent < began + length {
                let request = ClassifyRequest { parent: SPACE.to_owned(), identifiers: identifiers.clone() };
                let answer = stub.classify(request).await?.into_inner();
                ensure!(
                    answer.classifications.len() == identifiers.len(),
                    "the daemon did not classify all identifiers"
                );
                let answered = now();
                slice.call(answered - sent);
                slice.count += identifiers.len() as u64; // OK because a usize has at most 64 bits
                sent = answered;
            }
            Ok(slice)
        });
    }
    drop(channel);
    let slice = load::gather(tasks, began).await;
    load::settle(1).await;
    slice
}

/// Classifies identifiers with the client's copy, on one thread.
fn copied(table: &Table, ids: &[u128], options: &Options) -> Slice {
    let (began, mut slice) = (now(), Slice::default());
    while slice.took < options.length() {
        for id in ids {
            black_box(table.copy.region_of(*id));
        }
        slice.count += ids.len() as u64; // OK because a usize has at most 64 bits
        slice.took = began.elapsed();
    }
    slice
}
