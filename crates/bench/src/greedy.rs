//! `kent-bench greedy`: the latency of one caller's grants while another caller takes as much as it can.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use clap::Args;
use kent_client::proto::{AllocateRequest, CallerLimits, allocator_client::AllocatorClient};
use kent_tls::{Certificates, Target};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, client::Resumption},
};
use tonic::{Code, Request};

use crate::{
    contest::{Bound, Contender, Contest, Options, Unit},
    figures::now,
    lean::{Caller, Lean, Token},
    load::{self, Load, lease, packed},
    other,
    process::Served,
    secure::{ServerCertificate, store, token},
};

/// Measure grants while a greedy caller makes calls, or opens connections: requests per second and latencies.
///
/// The daemon serves TLS and requires tokens. The greedy caller keeps 256 calls in flight (`calls`), requests packed
/// answers of 2 MiB (`packed`), or repeats full TLS handshakes (`handshakes`). It makes calls without limits, and with
/// the limits of `--caller-limits` (`limited calls`, `limited packed`). The measured caller never has limits. A
/// handshake comes before any token, so only `--connections-per-address` limits it. The last column `p99` is the 99th
/// percentile of the latency, relative to that of grants alone.
#[derive(Debug, Args)]
pub(crate) struct GreedyArgs {
    #[command(flatten)]
    options: Options,
    /// Number of threads on which the daemon serves connections. With 1, both callers share one thread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Limits of the greedy caller in the limited runs, in the form of `kentd --caller-limits`.
    #[arg(long, value_name = "LIMIT=NUMBER,...", default_value = "ids=100k/s,calls=1k/s,streams=20,connections=50")]
    caller_limits: String,
}

/// The upper bound of the ratio of latencies.
const COST: Bound = Bound::AtMost(1.5);
const IN_FLIGHT: usize = 256;
/// The number of concurrent handshakes.
const HANDSHAKES: usize = 64;
/// The number of uuidv7 in a packed answer of 2 MiB, the default maximum.
const PACKED: u64 = 1 << 17;
/// The interval at which the greedy caller checks whether the slice has ended.
const PERIOD: Duration = Duration::from_millis(20);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Limits that no measurement reaches. They override the limits in the daemon's settings.
const UNLIMITED: CallerLimits =
    CallerLimits { ids_per_second: MAX, calls_per_second: MAX, streams: MAX, connections: MAX };
const MAX: u64 = 1_000_000_000_000;

/// What the greedy caller does.
#[derive(Clone, Copy)]
enum Greed {
    Calls,
    Packed,
    Handshakes,
}

/// A greedy caller.
#[derive(Clone)]
struct Greedy {
    greed: Greed,
    address: String,
    caller: Caller,
    certificates: Certificates,
}

pub(crate) fn run(args: &GreedyArgs) -> anyhow::Result<()> {
    let (options, dir) = (&args.options, tempfile::tempdir()?);
    let (certificate, store) = (ServerCertificate::write(dir.path())?, store(dir.path(), "greedy"));
    let contest = Contest::new("greedy", Unit::Each("requests"), options)?;
    let threads = args.threads.to_string();
    let guard = ["--auth", "required", "--threads", &threads, "--caller-limits", &args.caller_limits];
    let daemon =
        Served::kentd_with(options.kentd.as_ref(), &store, &[&guard[..], &certificate.arguments()[..]].concat())?;
    let runtime = options.runtime()?;
    let (tls, [own, unlimited, limited]) = runtime.block_on(async {
        let own = token(&store, "own", UNLIMITED).await?;
        let unlimited = token(&store, "unlimited", UNLIMITED).await?;
        let limited = token(&store, "limited", CallerLimits::default()).await?;
        anyhow::Ok((certificate.certificates.refresh().await?, [own, unlimited, limited]))
    })?;
    let caller = |secret| Caller { tls: Some(tls.clone()), token: Some(Token { secret, is_indexed: false }) };
    let (own, unlimited, limited) = (caller(own), caller(unlimited), caller(limited));
    let load = Load::Unary { request: lease("uuidv7", 1), connections: 1, in_flight: 1 };
    let alone = || runtime.block_on(load::run_as(&load, &daemon.address, &own, options.length()));
    let greedy = [
        ("during calls", Greed::Calls, &unlimited),
        ("during limited calls", Greed::Calls, &limited),
        ("during packed", Greed::Packed, &unlimited),
        ("during limited packed", Greed::Packed, &limited),
        ("during handshakes", Greed::Handshakes, &unlimited),
    ];
    let mut contenders = vec![Contender::new("alone", alone)];
    for (name, greed, caller) in greedy {
        let (address, certificates) = (daemon.address.clone(), certificate.certificates.clone());
        let greedy = Greedy { greed, address, caller: caller.clone(), certificates };
        contenders.push(Contender::new(name, move || {
            let greedy = greedy.clone();
            other::during(alone, async move |stop| greedy.repeat(stop).await)
        }));
    }
    let threads = if args.threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let outcomes = contest.run(&threads, contenders)?;
    for (name, ..) in greedy {
        contest.fact(format!("{threads}, {name}, p99"), outcomes.percentile_ratio(2, name, "alone"), COST);
    }
    contest.finish();
    drop(runtime);
    daemon.stop()
}

impl Greedy {
    async fn repeat(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        match self.greed {
            Greed::Calls => self.call(stop).await,
            Greed::Packed => self.pack(stop).await,
            Greed::Handshakes => self.shake_hands(stop).await,
        }
    }

    /// Makes calls, and ignores refusals.
    async fn call(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut lean = Lean::connect(&self.address, &self.caller, &lease("uuidv7", 1)).await?.refusable();
        while !stop.load(Relaxed) {
            lean.run(IN_FLIGHT, now() + PERIOD).await?;
        }
        Ok(())
    }

    async fn pack(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let uri = format!("https://{}", self.address).parse()?;
        let channel = Target::secure(&uri, &self.certificates, CONNECT_WITHIN, load::with_windows)?.connect().await?;
        let mut client = AllocatorClient::new(channel).max_decoding_message_size(usize::MAX);
        while !stop.load(Relaxed) {
            match client.allocate(self.send(packed("uuidv7", PACKED))?).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::ResourceExhausted => {}
                Err(status) => return Err(status.into()),
            }
        }
        Ok(())
    }

    fn send(&self, message: AllocateRequest) -> anyhow::Result<Request<AllocateRequest>> {
        let mut request = Request::new(message);
        let token = self.caller.token.as_ref().map(|token| &*token.secret).unwrap_or_default();
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
        Ok(request)
    }

    /// Opens connections, and closes each after its handshake.
    async fn shake_hands(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let Some(tls) = &self.caller.tls else { return Ok(()) };
        let mut config = ClientConfig::clone(tls);
        // A resumed session would save the server most of the work.
        config.resumption = Resumption::disabled();
        let connector = TlsConnector::from(Arc::new(config));
        let mut running = JoinSet::new();
        while !stop.load(Relaxed) {
            while running.len() < HANDSHAKES {
                let (connector, address) = (connector.clone(), self.address.clone());
                running.spawn(async move {
                    let stream = TcpStream::connect(address).await?;
                    let name = stream.peer_addr()?.ip().into();
                    connector.connect(name, stream).await.map(drop)
                });
            }
            // OK because the daemon may refuse a connection.
            let _ = running.join_next().await;
        }
        Ok(())
    }
}
