//! `kent-bench classify`: to which regions identifiers belong, as the daemon says and as a client's copy of the table does.

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

/// Identifiers classified a second: by the daemon over gRPC, and by a client's copy of the table.
#[derive(Debug, Args)]
pub(crate) struct ClassifyArgs {
    #[command(flatten)]
    options: Options,
    /// How many regions the tables have. Each has a daemon of its own.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1000, 100_000], value_name = "COUNT,...")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    regions: Vec<u64>,
    /// Identifiers in a call.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    identifiers: u32,
    /// Calls at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,
}

/// A daemon with a table.
struct Table {
    regions: u64,
    served: Served,
    client: Client,
    copy: TableCopy,
    _data: TempDir,
}

pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<()> {
    let options = &args.options;
    // A copy follows the daemon in a task, so that this needs a thread of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut rng = rand::rng();
    // The lower half of the space is where the regions are.
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
        contest.fact(format!("kentd, rate with {most} regions of that with {least}"), ratio, Bound::AtLeast(0.8));
    }
    contest.finish();
    for Table { served, client, copy, _data, .. } in tables {
        drop((client, copy));
        served.stop()?;
    }
    Ok(())
}

/// Calls of the daemon, so many at once on one connection.
async fn calls(table: &Table, ids: &Arc<[u128]>, in_flight: u32, options: &Options) -> anyhow::Result<Slice> {
    let channel = load::connect(&table.served.address).await?;
    let (mut tasks, began) = (JoinSet::new(), now());
    let length = options.length();
    for _ in 0..in_flight {
        let mut stub = RegionsClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        let identifiers: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
        tasks.spawn(async move {
            let (mut slice, mut asked) = (Slice::default(), began);
            while asked < began + length {
                let request = ClassifyRequest { parent: SPACE.to_owned(), identifiers: identifiers.clone() };
                let answer = stub.classify(request).await?.into_inner();
                ensure!(answer.classifications.len() == identifiers.len(), "not all were classified");
                let answered = now();
                slice.call(answered - asked);
                slice.count += identifiers.len() as u64; // OK because a usize has 64 bits at most
                asked = answered;
            }
            Ok(slice)
        });
    }
    drop(channel);
    let slice = load::gather(tasks, began).await;
    load::settle(1).await;
    slice
}

/// The same by the copy, on one thread.
fn copied(table: &Table, ids: &[u128], options: &Options) -> Slice {
    let (began, mut slice) = (now(), Slice::default());
    while slice.took < options.length() {
        for id in ids {
            black_box(table.copy.region_of(*id));
        }
        slice.count += ids.len() as u64; // OK because a usize has 64 bits at most
        slice.took = began.elapsed();
    }
    slice
}
