//! `kent-bench` compares Kent, within one run, with the best that the same machine can do.
//!
//! Machines are shared and noisy, so a single result means little. The benchmarks interleave and repeat the
//! measurements that they compare, and report medians and ratios.

mod arena;
mod bare;
mod bystander;
mod classify;
mod client;
mod clients;
mod codec;
mod connections;
mod contest;
mod figures;
mod grant;
mod greedy;
mod http;
mod index;
mod instructions;
mod interrupt;
mod lean;
mod load;
mod other;
mod packed;
mod peers;
mod plot;
mod process;
mod reach;
mod regions;
mod replicas;
mod scale;
mod secure;
mod soak;
mod standstill;
mod start;
mod strict;
mod svg;
mod table;
mod tail;
mod text;

use clap::{Parser, Subcommand};

/// The same memory allocator as in the daemon, for a fair comparison with the bare transport.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure Kent on this machine. Compare only results of the same run.
#[derive(Debug, Parser)]
#[command(name = "kent-bench", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Serve the bare transport, which the other benchmarks measure.
    #[command(hide = true)]
    Bare(bare::BareArgs),
    Grant(grant::GrantArgs),
    /// Compare grants over streams with several requests in flight.
    Stream(grant::GrantArgs),
    Packed(packed::PackedArgs),
    Http(http::HttpArgs),
    Client(client::ClientArgs),
    Clients(clients::ClientsArgs),
    Strict(strict::StrictArgs),
    Replicas(replicas::ReplicasArgs),
    Start(start::StartArgs),
    Text(text::TextArgs),
    Classify(classify::ClassifyArgs),
    Bystander(bystander::BystanderArgs),
    Greedy(greedy::GreedyArgs),
    Scale(scale::ScaleArgs),
    Soak(soak::SoakArgs),
    Codec(codec::CodecArgs),
    Connections(connections::ConnectionsArgs),
    Index(index::IndexArgs),
    Instructions(instructions::InstructionsArgs),
    /// Call a hot function while valgrind counts instructions.
    #[command(hide = true)]
    Hot(instructions::HotArgs),
    Plot(plot::PlotArgs),
    Table(table::TableArgs),
    Tail(tail::TailArgs),
}

fn main() -> anyhow::Result<()> {
    let bench = Cli::parse().bench;
    if !matches!(bench, Bench::Bare(_) | Bench::Hot(_)) {
        interrupt::watch()?;
    }
    match bench {
        Bench::Bare(args) => bare::run(args),
        Bench::Grant(args) => grant::grant(&args),
        Bench::Stream(args) => grant::stream(&args),
        Bench::Packed(args) => packed::run(&args),
        Bench::Http(args) => http::run(&args),
        Bench::Client(args) => client::run(&args),
        Bench::Clients(args) => clients::run(&args),
        Bench::Strict(args) => strict::run(&args),
        Bench::Replicas(args) => replicas::run(&args),
        Bench::Start(args) => start::run(&args),
        Bench::Text(args) => text::run(&args),
        Bench::Classify(args) => classify::run(&args),
        Bench::Bystander(args) => bystander::run(&args),
        Bench::Greedy(args) => greedy::run(&args),
        Bench::Scale(args) => scale::run(&args),
        Bench::Soak(args) => soak::run(&args),
        Bench::Codec(args) => codec::run(&args),
        Bench::Connections(args) => connections::run(&args),
        Bench::Index(args) => index::run(&args),
        Bench::Instructions(args) => instructions::run(&args),
        Bench::Hot(args) => instructions::hot(&args),
        Bench::Plot(args) => plot::run(&args),
        Bench::Table(args) => table::run(&args),
        Bench::Tail(args) => tail::run(&args),
    }
}
