//! `kent-bench scale`: the cost of a grant by number of regions, number of connections and block size.

use clap::Args;
use kent_client::{Client, proto::AllocateRequest};
use tempfile::TempDir;

use crate::{
    arena::Arena,
    contest::{Bound, Contender, Options, Unit, name_at},
    interrupt,
    load::{self, Load, lease},
    process::Served,
    regions, table,
};

/// Measure grants by number of regions in the table, number of connections and block size: requests per second.
///
/// Each axis is one contest: all sizes take turns on the daemon and, where the transport matters, on the bare
/// transport. Everything else in the load stays the same.
#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    options: Options,
    /// Numbers of regions in the tables. Each table has its own daemon. A million regions take one or two minutes to create.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1000, 100_000, 1_000_000], value_name = "COUNT,...")]
    regions: Vec<u64>,
    /// Numbers of connections over which to spread the calls. Each connection needs an open file in this program and in
    /// the server; see ulimit -n.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 500, 2000], value_name = "COUNT,...")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=20_000))]
    connections: Vec<u64>,
    /// Numbers of identifiers per block. The largest blocks wait for the clock, which allows 4 billion uuidv7 per second.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..), value_name = "COUNT,...")]
    counts: Vec<u64>,
    /// Number of calls in flight over all connections.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,
}

/// The bound for the rate of the largest size relative to the smallest: a grant may cost at most a quarter more.
const RATE: Bound = Bound::AtLeast(0.8);

pub(crate) fn run(args: &ScaleArgs) -> anyhow::Result<()> {
    let arena = Arena::open("scale", Unit::Each("requests"), &args.options)?;
    let in_flight = usize::try_from(args.in_flight)?;
    let unary = |request: AllocateRequest, connections| Load::Unary { request, connections, in_flight };

    let contest = &arena.contest;
    let ends = |values: &[u64]| values.iter().copied().min().zip(values.iter().copied().max());

    let load = unary(lease("region:granted", 1000), 1);
    let daemons = args.regions.iter().map(|count| Ok((*count, daemon(&arena, *count)?)));
    let daemons = daemons.collect::<anyhow::Result<Vec<_>>>()?;
    let contenders = daemons
        .iter()
        .map(|(count, (served, _))| Contender::new("kentd", || arena.slice(served, &load)).at("regions", *count));
    let outcomes = contest.run("regions", contenders.collect())?;
    if let Some((least, most)) = ends(&args.regions) {
        let ratio = outcomes.ratio(&name_at("kentd", most, "regions"), &name_at("kentd", least, "regions"));
        contest.fact(format!("kentd, rate with {most} regions / rate with {least}"), ratio, RATE);
    }
    // Free memory and processors for the next axes.
    for (_, (served, _dir)) in daemons {
        served.stop()?;
    }

    let loads =
        args.connections.iter().map(|count| Ok((*count, unary(lease("uuidv7", 1000), usize::try_from(*count)?))));
    let loads = loads.collect::<anyhow::Result<Vec<_>>>()?;
    let outcomes = contest.run("connections", both(&arena, &loads, "connections"))?;
    // The transport itself costs more with more connections. The ratio to the bare transport shows the cost that Kent
    // adds.
    if let Some((least, most)) = ends(&args.connections) {
        let of_bare =
            |count| outcomes.ratio(&name_at("kentd", count, "connections"), &name_at("bare", count, "connections"));
        let ratio = of_bare(most).zip(of_bare(least)).map(|(most, least)| most / least);
        contest.fact(format!("kentd / bare, ratio with {most} connections / ratio with {least}"), ratio, RATE);
    }

    let loads: Vec<_> = args.counts.iter().map(|count| (*count, unary(lease("uuidv7", *count), 1))).collect();
    contest.run("identifiers in a block", both(&arena, &loads, "identifiers"))?;
    arena.close()
}

/// Returns two contenders per load: the bare transport and the daemon.
fn both<'a>(arena: &'a Arena, loads: &'a [(u64, Load)], axis: &'static str) -> Vec<Contender<'a>> {
    let pair = |(value, load): &'a (u64, Load)| [arena.bare(load).at(axis, *value), arena.kentd(load).at(axis, *value)];
    loads.iter().flat_map(pair).collect()
}

/// Starts a daemon with this number of regions, including the one to grant from.
fn daemon(arena: &Arena, regions: u64) -> anyhow::Result<(Served, TempDir)> {
    interrupt::check()?;
    let data = tempfile::tempdir()?;
    let served = Served::kentd(arena.options.kentd.as_ref(), data.path())?;
    arena.runtime.block_on(async {
        let client = Client::new(format!("http://{}", served.address))?;
        if regions > 1 {
            table::fill(&client, regions - 1).await?;
        }
        regions::create(&client, "granted").await?;
        drop(client);
        load::settle(1).await;
        anyhow::Ok(())
    })?;
    Ok((served, data))
}
