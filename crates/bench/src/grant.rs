//! `kent-bench grant` and `kent-bench stream`: grants of 1000 uuidv7 per request by the daemon, the bare transport and
//! peers.

use clap::Args;

use crate::{
    arena::Arena,
    contest::{Bound, Contender, Options, Outcomes, Unit},
    load::{Load, lease},
    peers::{Peer, Peers, PeersArgs},
    secure::Secure,
};

/// Compare grants of 1000 uuidv7 per call with the bare transport and peers: requests per second and latencies.
///
/// The bare transport answers every call with the same message, so no gRPC server can be faster on this machine. With 1
/// and with 64 calls in flight, both are also measured over TLS 1.3 (`bare, tls` and `kentd, tls`). Another daemon has
/// `--auth required`, and its caller sends a token with each call: in full, as the Rust client does (`kentd, token`), or
/// as an index into the header table of the connection, as the Go client does (`kentd, indexed token`). The bare
/// transport reads the full token, but does not check it (`bare, token`). A request to a peer raises a durable counter by
/// 1000. The column `ratio` is the rate, and the last column `p99` the 99th percentile of the latency, each relative to
/// the first contender. `cpu us` is the processor time of the server per request in microseconds. When the load generator
/// limits the rate, compare the processor time instead.
#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    peers: PeersArgs,
}

/// The servers under measurement.
struct Rivals {
    arena: Arena,
    peers: Peers,
    /// The servers over TLS or with tokens, if they are measured.
    secure: Option<Secure>,
}

/// Measures unary calls.
pub(crate) fn grant(args: &GrantArgs) -> anyhow::Result<()> {
    let mut rivals = Rivals::open("grant", args, true)?;
    let unary = |connections, in_flight| Load::Unary { request: lease("uuidv7", 1000), connections, in_flight };
    rivals.secure = Some(Secure::start(&rivals.arena)?);
    let Peers { redis, postgres, etcd } = &rivals.peers;
    let one = rivals.run(
        "1 client",
        &unary(1, 1),
        1,
        1,
        &[("redis", as_peer(redis)), ("postgres", as_peer(postgres)), ("etcd", as_peer(etcd))],
    )?;
    let secure = rivals.secure.take();
    rivals.run("8 clients", &unary(8, 8), 8, 1, &[("postgres", as_peer(postgres)), ("etcd", as_peer(etcd))])?;
    let fifty = rivals.run("50 clients", &unary(50, 50), 50, 1, &[("redis", as_peer(redis))])?;
    rivals.secure = secure;
    let deep = rivals.run("64 calls, 1 connection", &unary(1, 64), 1, 1, &[])?;
    rivals.secure = None;
    let deeper = rivals.run("256 calls, 1 connection", &unary(1, 256), 1, 1, &[])?;
    for (load, outcomes) in [("1 call", &one), ("64 calls", &deep), ("256 calls", &deeper)] {
        let (ratio, p99) = (outcomes.ratio("kentd", "bare"), outcomes.percentile_ratio(2, "kentd", "bare"));
        rivals.fact(format!("{load} in flight, kentd / bare"), ratio, Bound::AtLeast(0.9));
        rivals.fact(format!("{load} in flight, p99, kentd / bare"), p99, Bound::AtMost(1.25));
    }
    for (load, outcomes) in [("1 call", &one), ("64 calls", &deep)] {
        for (name, other, bound) in [
            ("kentd, token", "kentd", Bound::AtLeast(0.97)),
            ("kentd, token", "bare, token", Bound::AtLeast(0.9)),
            ("kentd, indexed token", "kentd", Bound::AtLeast(0.97)),
            ("bare, token", "bare", Bound::Any),
            ("kentd, tls", "kentd", Bound::AtLeast(0.8)),
            ("kentd, tls", "bare, tls", Bound::AtLeast(0.9)),
            ("bare, tls", "bare", Bound::Any),
        ] {
            rivals.fact(format!("{load} in flight, {name} / {other}"), outcomes.ratio(name, other), bound);
        }
    }
    for (load, outcomes) in [("1 client", &one), ("50 clients", &fifty)] {
        rivals.fact(format!("{load}, kentd / Redis"), outcomes.ratio("kentd", "redis"), Bound::AtLeast(1.0));
    }
    rivals.arena.close()
}

/// Measures streams with several requests in flight.
pub(crate) fn stream(args: &GrantArgs) -> anyhow::Result<()> {
    let rivals = Rivals::open("stream", args, false)?;
    let stream = |connections, depth| Load::Stream { request: lease("uuidv7", 1000), connections, depth };
    let redis = as_peer(&rivals.peers.redis);
    let one = rivals.run("1 stream, 64 deep", &stream(1, 64), 1, 64, &[("redis", redis)])?;
    let four = rivals.run("4 streams, 16 deep", &stream(4, 16), 4, 16, &[("redis", redis)])?;
    // Most Redis clients do not pipeline: each sends one command at a time, on its own connection.
    let fifty = rivals.run(
        "50 streams, 16 deep",
        &stream(50, 16),
        50,
        16,
        &[("redis", redis), ("redis, unpipelined", redis)],
    )?;
    for (load, outcomes) in [("1 stream", &one), ("4 streams", &four), ("50 streams", &fifty)] {
        let ratio = outcomes.ratio("kentd", "bare");
        rivals.fact(format!("{load}, kentd / bare"), ratio, Bound::AtLeast(0.7));
    }
    let ratio = fifty.ratio("kentd", "redis, unpipelined");
    rivals.fact("50 clients, kentd / unpipelined Redis", ratio, Bound::AtLeast(5.0));
    rivals.arena.close()
}

fn as_peer<P: Peer>(peer: &Option<P>) -> Option<&dyn Peer> {
    peer.as_ref().map(|peer| peer as &dyn Peer)
}

impl Rivals {
    fn open(scenario: &'static str, args: &GrantArgs, with_databases: bool) -> anyhow::Result<Self> {
        let peers = Peers::start(&args.peers, with_databases);
        let arena = Arena::open(scenario, Unit::Each("requests"), &args.options)?;
        Ok(Self { arena, peers, secure: None })
    }

    /// Measures the bare transport, the daemon, and those peers that could be started.
    fn run(
        &self,
        name: &str,
        load: &Load,
        clients: usize,
        depth: usize,
        peers: &[(&str, Option<&dyn Peer>)],
    ) -> anyhow::Result<Outcomes> {
        let arena = &self.arena;
        let mut contenders = vec![arena.bare(load), arena.kentd(load)];
        for (name, server, caller) in self.secure.iter().flat_map(Secure::contenders) {
            contenders.push(Contender::new(*name, || arena.slice_as(server, caller, load)));
        }
        for (name, peer) in peers.iter().filter_map(|(name, peer)| Some((*name, (*peer)?))) {
            let depth = if name.ends_with("unpipelined") { 1 } else { depth };
            let slice = move || peer.slice(&arena.runtime, clients, depth, arena.options.length());
            contenders.push(Contender::new(name, slice));
        }
        arena.contest.run(name, contenders)
    }

    fn fact(&self, what: impl Into<String>, value: Option<f64>, bound: Bound) {
        self.arena.contest.fact(what, value, bound);
    }
}
