//! `kent-bench replicas`: strict grants of one region by several replicas on one etcd.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use kent_client::Client;
use kent_test_etcd::Etcd;
use tempfile::TempDir;
use tokio::{
    runtime::Runtime,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit},
    figures::now,
    load::{self, Load, lease},
    process::Served,
    regions,
};

/// Compare strict grants of one region by one replica with strict grants by several replicas: requests per second and
/// latencies.
///
/// All replicas share one etcd server (Debian package etcd-server). `several` sends the same number of calls in flight
/// to each replica, and `one` sends all of them to one replica. At the end, one replica is killed with SIGKILL, and the
/// longest grant of the others is reported.
#[derive(Debug, Args)]
pub(crate) struct ReplicasArgs {
    #[command(flatten)]
    options: Options,
    /// Number of replicas.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16))]
    replicas: u32,
}

/// The numbers of calls in flight for each replica.
const IN_FLIGHT: [usize; 3] = [1, 16, 64];

/// The target for the rate of several replicas together, with 16 calls in flight for each.
const RATE: f64 = 5000.0;

/// The number of calls in flight for each replica when one is killed, and how long the load runs before and after that.
const KILLED_IN_FLIGHT: usize = 16;
const AROUND_KILL: Duration = Duration::from_millis(1500);

/// The time within which each replica must grant from the region.
const READY_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &ReplicasArgs) -> anyhow::Result<()> {
    let (options, runtime) = (&args.options, args.options.runtime()?);
    let etcd = Etcd::start(1);
    let data = tempfile::tempdir()?;
    let replicas = start(options, &etcd, &data, args.replicas)?;
    let addresses: Vec<&str> = replicas.iter().map(|replica| &*replica.address).collect();
    runtime.block_on(ready(&addresses))?;
    let contest = Contest::new("replicas", Unit::Each("requests"), options)?;
    for in_flight in IN_FLIGHT {
        let contenders = vec![
            Contender::new("one", || {
                together(&runtime, &addresses[..1], in_flight * addresses.len(), options.length())
            }),
            Contender::new("several", || together(&runtime, &addresses, in_flight, options.length())),
        ];
        let outcomes = contest.run(&format!("{in_flight} calls each"), contenders)?;
        if in_flight == 16 {
            let what = format!("{} replicas, {in_flight} calls in flight each, strict grants/s", args.replicas);
            contest.fact(what, outcomes.rate("several"), Bound::AtLeast(RATE));
        }
    }
    let longest = kill_one(&runtime, replicas)?;
    contest.fact("a replica is killed, longest grant of the others, ms", Some(longest), Bound::AtMost(1000.0));
    contest.finish();
    Ok(())
}

fn start(options: &Options, etcd: &Etcd, data: &TempDir, count: u32) -> anyhow::Result<Vec<Served>> {
    let address = etcd.address("kent");
    let replica = |number| {
        let store = data.path().join(format!("replica-{number}")).join("store");
        Served::kentd_with(options.kentd.as_ref(), &store, &["--store", &address])
    };
    (0..count).map(replica).collect()
}

fn strict(in_flight: usize) -> Load {
    Load::Unary { request: lease("region:strict", 1), connections: 1, in_flight }
}

/// Creates the region, and waits until every replica grants from it.
async fn ready(addresses: &[&str]) -> anyhow::Result<()> {
    regions::create_strict(&Client::new(format!("http://{}", addresses[0]))?, "strict").await?;
    for address in addresses {
        let granted = async {
            while load::run(&strict(1), address, Duration::from_millis(1)).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(READY_WITHIN, granted).await.with_context(|| format!("{address} does not grant"))?;
    }
    Ok(())
}

/// Puts the same load on all these replicas.
fn together(runtime: &Runtime, addresses: &[&str], in_flight: usize, length: Duration) -> anyhow::Result<Slice> {
    runtime.block_on(async {
        let (mut tasks, began) = (JoinSet::new(), now());
        for address in addresses {
            let (load, address) = (strict(in_flight), (*address).to_owned());
            tasks.spawn(async move { load::run(&load, &address, length).await });
        }
        load::gather(tasks, began).await
    })
}

/// Kills the last replica while all are under load, and returns the longest latency of the others in milliseconds.
fn kill_one(runtime: &Runtime, mut replicas: Vec<Served>) -> anyhow::Result<f64> {
    let killed = replicas.pop().context("there are replicas")?;
    let slice = runtime.block_on(async {
        let (mut tasks, began): (_, Instant) = (JoinSet::new(), now());
        for replica in &replicas {
            let (load, address) = (strict(KILLED_IN_FLIGHT), replica.address.clone());
            tasks.spawn(async move { load::run(&load, &address, 2 * AROUND_KILL).await });
        }
        let (load, address) = (strict(KILLED_IN_FLIGHT), killed.address.clone());
        let mut doomed = JoinSet::new();
        doomed.spawn(async move { load::run(&load, &address, 2 * AROUND_KILL).await });
        sleep(AROUND_KILL).await;
        killed.process.kill()?;
        ensure!(doomed.join_all().await.iter().all(Result::is_err), "the killed replica went on");
        load::gather(tasks, began).await
    })?;
    let longest = slice.nanos.iter().max().copied().context("no replica granted anything")?;
    Ok(f64::from(longest) / 1e6)
}
