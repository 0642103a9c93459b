//! `kent-bench bystander`: what grants cost while another caller asks for all that is large.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
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
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::{runtime, task::JoinSet};
use tonic::transport::Channel;
use uuid::Uuid;

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit},
    load::{self, Load, lease},
    process::Served,
    regions, table,
};

/// Grants beside backups, inspections at their limits and pages of an old table: requests a second and latencies.
///
/// The daemon serves all connections by one thread, and what is large is asked by a thread of its own here, again and again.
/// The column `p99` says how many times as long the slowest of a hundred grants takes as without that.
#[derive(Debug, Args)]
pub(crate) struct BystanderArgs {
    #[command(flatten)]
    options: Options,
    /// How many regions the table has.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    regions: u64,
    /// How many strict grants with a request_id there are.
    #[arg(long, default_value_t = 0)]
    strict_grants: u64,
    /// Keep the store in this directory, and go on with what is in it the next time: to fill it takes minutes.
    #[arg(long)]
    data: Option<PathBuf>,
}

/// What the others' calls may cost.
const COST: Bound = Bound::AtMost(1.5);
/// What `Codec.Inspect` takes at most.
const TEXTS: usize = 1000;
/// How many edits back the table is that is asked for.
const BACK: u64 = 500;
const PAGE: u32 = 1000;
/// Streams that fill the strict region: as many grants as share a commit.
const STREAMS: u64 = 100;
/// Requests that wait in each.
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
        number(&client, &daemon.address, args.strict_grants).await
    })?;
    let plain = |source: &str| Load::Unary { ask: lease(source, 1), connections: 1, in_flight: 1 };
    for source in ["uuidv7", "region:granted", "region:strict"] {
        let load = plain(source);
        let alone = || runtime.block_on(load::run(&load, &daemon.address, options.length()));
        let mut contenders = vec![Contender::new("alone", alone)];
        for trouble in Trouble::ALL {
            let address = &daemon.address;
            contenders.push(Contender::new(trouble.name(), move || trouble.beside(address, alone)));
        }
        let outcomes = contest.run(source, contenders)?;
        for trouble in Trouble::ALL {
            let ratio = outcomes.percentile_ratio(2, trouble.name(), "alone");
            contest.fact(format!("{source} {}, p99", trouble.name()), ratio, COST);
        }
    }
    contest.finish();
    drop(runtime);
    daemon.stop()
}

/// Draws from the strict region until this many are granted, each under a request_id of its own: a UUID of version 7, as the docs advise.
/// A stream is answered in its order, so there are several, whose requests share commits. What was refused for the moment is asked
/// for again.
async fn number(client: &Client, address: &str, grants: u64) -> anyhow::Result<()> {
    let name = format!("{}/regions/strict", regions::SPACE);
    let region = client.connect().await?.regions().get_region(GetRegionRequest { name }).await?.into_inner();
    let mut missing = grants.saturating_sub(region.reserved.parse()?);
    while missing > 0 {
        let mut streams = JoinSet::new();
        for stream in 0..STREAMS {
            streams.spawn(draw(address.to_owned(), (missing + stream) / STREAMS));
        }
        missing = 0;
        while let Some(stream) = streams.join_next().await {
            missing += stream??;
        }
    }
    Ok(())
}

/// Draws, and returns how many were refused for the moment.
async fn draw(address: String, grants: u64) -> anyhow::Result<u64> {
    let (requests, outgoing) = tokio::sync::mpsc::channel(DEPTH);
    let asking = async move {
        for _ in 0..grants {
            let ask = AllocateRequest { request_id: Uuid::now_v7().to_string(), ..lease("region:strict", 1) };
            requests.send(ask).await.ok().context("the stream takes no more")?;
        }
        anyhow::Ok(())
    };
    let answered = async {
        let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
        let mut client = AllocatorClient::new(load::connect(&address).await?);
        let mut replies = client.allocate_stream(outgoing).await?.into_inner();
        let mut refused = 0;
        while let Some(reply) = replies.message().await? {
            match reply.outcome {
                Some(Outcome::Granted(_)) => {}
                Some(Outcome::Refused(status)) if status.code == tonic::Code::Unavailable as i32 => refused += 1,
                other => return Err(anyhow!("no grant: {other:?}")),
            }
        }
        Ok(refused)
    };
    tokio::try_join!(asking, answered).map(|((), refused)| refused)
}

/// What the other caller asks for.
#[derive(Clone, Copy)]
enum Trouble {
    Backup,
    Inspect,
    OldTable,
    All,
}

impl Trouble {
    const ALL: [Self; 4] = [Self::Backup, Self::Inspect, Self::OldTable, Self::All];

    const fn name(self) -> &'static str {
        match self {
            Self::Backup => "beside backups",
            Self::Inspect => "beside inspections",
            Self::OldTable => "beside an old table",
            Self::All => "beside all three",
        }
    }

    /// Makes trouble for as long as a slice takes.
    fn beside(self, address: &str, slice: impl FnOnce() -> anyhow::Result<Slice>) -> anyhow::Result<Slice> {
        let (address, stop) = (address.to_owned(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let troubling = thread::spawn(move || {
            // The other caller is on another machine: what it does with its answers must not take the processor from the daemon.
            // OK because it fails only where nobody may change priorities.
            let _ = set_thread_priority_and_policy(
                thread_native_id(),
                ThreadPriority::Min,
                ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle),
            );
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(self.make(&address, &stopped))
        });
        let slice = slice();
        stop.store(true, Relaxed);
        troubling.join().map_err(|_| anyhow!("the other caller panicked"))??;
        slice
    }

    async fn make(self, address: &str, stop: &AtomicBool) -> anyhow::Result<()> {
        let channel = load::connect(address).await?;
        match self {
            Self::Backup => back_up(channel, stop).await,
            Self::Inspect => inspect(channel, stop).await,
            Self::OldTable => look_back(channel, stop).await,
            Self::All => {
                let (one, two) = (channel.clone(), channel.clone());
                tokio::try_join!(back_up(one, stop), inspect(two, stop), look_back(channel, stop)).map(drop)
            }
        }
    }
}

async fn back_up(channel: Channel, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut client = AdminClient::new(channel).max_decoding_message_size(usize::MAX);
    while !stop.load(Relaxed) {
        let mut parts = match client.backup(BackupRequest {}).await {
            Ok(parts) => parts.into_inner(),
            // The one of the slice before is still being given up.
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

async fn look_back(channel: Channel, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut client = RegionsClient::new(channel).max_decoding_message_size(usize::MAX);
    let parent = || regions::SPACE.to_owned();
    let present =
        client.list_regions(ListRegionsRequest { parent: parent(), page_size: 1, ..Default::default() }).await?;
    let mut at_revision = present.into_inner().revision.saturating_sub(BACK).max(1);
    let mut page_token = String::new();
    while !stop.load(Relaxed) {
        let ask = ListRegionsRequest { parent: parent(), page_size: PAGE, page_token, at_revision };
        page_token = client.list_regions(ask).await?.into_inner().next_page_token;
        if page_token.is_empty() {
            // Another one, which has to be made first.
            at_revision = at_revision.saturating_sub(1).max(1);
        }
    }
    Ok(())
}
