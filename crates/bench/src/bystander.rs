//! `kent-bench bystander`: the latency of grants while another caller makes large requests.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use anyhow::{Context, anyhow};
use clap::Args;
use kent_client::{
    Client,
    proto::{
        AllocateRequest, BackupRequest, GetRegionRequest, InspectRequest, ListRegionsRequest,
        admin_client::AdminClient, allocate_stream_response::Outcome, allocator_client::AllocatorClient,
        codec_client::CodecClient, regions_client::RegionsClient,
    },
};
use tokio::task::JoinSet;
use tonic::{Code, transport::Channel};
use uuid::Uuid;

use crate::{
    contest::{Bound, Contender, Contest, Options, Unit},
    load::{self, Load, lease},
    other,
    process::Served,
    regions, table,
};

/// Measure grants during backups, maximum-size inspections and listings of an old table: requests per second and
/// latencies.
///
/// The daemon serves all connections on one thread. A second thread of this program repeats the large requests. The
/// last column `p99` is the 99th percentile of the latency, relative to that of grants alone.
#[derive(Debug, Args)]
pub(crate) struct BystanderArgs {
    #[command(flatten)]
    options: Options,
    /// Number of regions in the table.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    regions: u64,
    /// Number of strict grants with a request ID in the store.
    #[arg(long, default_value_t = 0)]
    strict_grants: u64,
    /// Keep the store in this directory and reuse it in the next run, because filling it takes minutes.
    #[arg(long)]
    data: Option<PathBuf>,
}

/// The upper bound of the p99 latency beside other calls, relative to that of grants alone.
const COST: Bound = Bound::AtMost(1.5);
/// The maximum number of identifiers per call to `Codec.Inspect`.
const TEXTS: usize = 1000;
/// How many edits ago the listed table was current.
const BACK: u64 = 500;
const PAGE: u32 = 1000;
/// The number of streams that fill the strict region, equal to the number of grants that share a commit.
const STREAMS: u64 = 100;
/// The number of requests in flight per stream.
const DEPTH: usize = 8;

pub(crate) fn run(args: &BystanderArgs) -> anyhow::Result<()> {
    let (options, temporary) = (&args.options, tempfile::tempdir()?);
    let store = args.data.as_deref().unwrap_or(temporary.path()).join("store");
    let contest = Contest::new("bystander", Unit::Each("requests"), options)?;
    let daemon = Served::kentd_with(options.kentd.as_ref(), &store, &["--threads", "1"])?;
    let runtime = options.runtime()?;
    runtime.block_on(async {
        let client = Client::new(format!("http://{}", daemon.address))?;
        if table::fill(&client, args.regions).await?.is_some() {
            regions::create(&client, "granted").await?;
            regions::create_strict(&client, "strict").await?;
        }
        fill_strict(&client, &daemon.address, args.strict_grants).await
    })?;
    let plain = |source: &str| Load::Unary { request: lease(source, 1), connections: 1, in_flight: 1 };
    for source in ["uuidv7", "region:granted", "region:strict"] {
        let load = plain(source);
        let alone = || runtime.block_on(load::run(&load, &daemon.address, options.length()));
        let mut contenders = vec![Contender::new("alone", alone)];
        for other in OtherCaller::ALL {
            let address = &daemon.address;
            let during = move || {
                let address = address.clone();
                other::during(alone, async move |stop| other.repeat(&address, stop).await)
            };
            contenders.push(Contender::new(other.name(), during));
        }
        let outcomes = contest.run(source, contenders)?;
        for other in OtherCaller::ALL {
            let ratio = outcomes.percentile_ratio(2, other.name(), "alone");
            contest.fact(format!("{source} {}, p99", other.name()), ratio, COST);
        }
    }
    contest.finish();
    drop(runtime);
    daemon.stop()
}

/// Allocates from the strict region until this many identifiers are granted. Each grant has its own request ID, a
/// version 7 UUID as the docs recommend. The daemon answers each stream in order, but requests on different streams can
/// share a commit, so several streams are faster. Temporary refusals are retried.
async fn fill_strict(client: &Client, address: &str, grants: u64) -> anyhow::Result<()> {
    let name = format!("{}/regions/strict", regions::SPACE);
    let region = client
        .connect()
        .await?
        .regions()
        .get_region(GetRegionRequest { name, ..GetRegionRequest::default() })
        .await?
        .into_inner();
    let mut missing = grants.saturating_sub(region.reserved.parse()?);
    while missing > 0 {
        let mut streams = JoinSet::new();
        for stream in 0..STREAMS {
            streams.spawn(fill_stream(address.to_owned(), (missing + stream) / STREAMS));
        }
        missing = 0;
        while let Some(stream) = streams.join_next().await {
            missing += stream??;
        }
    }
    Ok(())
}

/// Requests grants on one stream, and returns the number of requests to repeat.
async fn fill_stream(address: String, grants: u64) -> anyhow::Result<u64> {
    let (requests, outgoing) = tokio::sync::mpsc::channel(DEPTH);
    let sending = async move {
        for _ in 0..grants {
            let request = AllocateRequest { request_id: Uuid::now_v7().to_string(), ..lease("region:strict", 1) };
            requests.send(request).await.ok().context("the stream is closed")?;
        }
        anyhow::Ok(())
    };
    let receiving = async {
        let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
        let mut client = AllocatorClient::new(load::connect(&address).await?);
        let mut replies = client.allocate_stream(outgoing).await?.into_inner();
        let mut refused = 0;
        while let Some(reply) = replies.message().await? {
            match reply.outcome {
                Some(Outcome::Granted(_)) => {}
                Some(Outcome::Refused(status)) if passing(status.code) => refused += 1,
                other => return Err(anyhow!("expected a grant, got {other:?}")),
            }
        }
        Ok(refused)
    };
    tokio::try_join!(sending, receiving).map(|((), refused)| refused)
}

/// Returns whether a retry may succeed. A retry after an unknown outcome may grant one identifier too many, which is
/// harmless here.
fn passing(code: i32) -> bool {
    [Code::Unavailable, Code::Unknown].contains(&Code::from(code))
}

/// The requests of the other caller.
#[derive(Clone, Copy)]
enum OtherCaller {
    Backup,
    Inspect,
    OldTable,
    All,
}

impl OtherCaller {
    const ALL: [Self; 4] = [Self::Backup, Self::Inspect, Self::OldTable, Self::All];

    const fn name(self) -> &'static str {
        match self {
            Self::Backup => "during backups",
            Self::Inspect => "during inspections",
            Self::OldTable => "during old listings",
            Self::All => "during all three",
        }
    }

    async fn repeat(self, address: &str, stop: &AtomicBool) -> anyhow::Result<()> {
        let channel = load::connect(address).await?;
        match self {
            Self::Backup => back_up(channel, stop).await,
            Self::Inspect => inspect(channel, stop).await,
            Self::OldTable => list_old_tables(channel, stop).await,
            Self::All => {
                let (one, two) = (channel.clone(), channel.clone());
                tokio::try_join!(back_up(one, stop), inspect(two, stop), list_old_tables(channel, stop)).map(drop)
            }
        }
    }
}

async fn back_up(channel: Channel, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut client = AdminClient::new(channel).max_decoding_message_size(usize::MAX);
    while !stop.load(Relaxed) {
        let mut parts = match client.backup(BackupRequest {}).await {
            Ok(parts) => parts.into_inner(),
            // The daemon is still canceling the backup of the previous slice.
            Err(status) if status.code() == tonic::Code::ResourceExhausted => continue,
            Err(status) => return Err(status.into()),
        };
        while parts.message().await?.is_some() && !stop.load(Relaxed) {}
    }
    Ok(())
}

async fn inspect(channel: Channel, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut client = CodecClient::new(channel).max_decoding_message_size(usize::MAX);
    let texts: Vec<String> = (0..TEXTS).map(|number| format!("extuuid:f:1.{number:04}e-9800")).collect();
    while !stop.load(Relaxed) {
        client.inspect(InspectRequest { texts: texts.clone(), ..InspectRequest::default() }).await?;
    }
    Ok(())
}

async fn list_old_tables(channel: Channel, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut client = RegionsClient::new(channel).max_decoding_message_size(usize::MAX);
    let parent = || regions::SPACE.to_owned();
    let present =
        client.list_regions(ListRegionsRequest { parent: parent(), page_size: 1, ..Default::default() }).await?;
    let mut at_revision = present.into_inner().revision.saturating_sub(BACK).max(1);
    let mut page_token = String::new();
    while !stop.load(Relaxed) {
        let request =
            ListRegionsRequest { parent: parent(), page_size: PAGE, page_token, at_revision, ..Default::default() };
        page_token = client.list_regions(request).await?.into_inner().next_page_token;
        if page_token.is_empty() {
            // List another revision, which the daemon must rebuild first.
            at_revision = at_revision.saturating_sub(1).max(1);
        }
    }
    Ok(())
}
