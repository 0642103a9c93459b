//! `kent-bench` measures Kent against what the same machine can do at best, side by side in one run.
//!
//! Machines are shared and noisy, so a single figure means little: what is compared is interleaved, repeated, and told as the
//! median and as a ratio.

mod bare;
mod codec;
mod daemon;
mod figures;
mod grant;
mod index;
mod load;
mod table;

use clap::{Parser, Subcommand};

/// Measure Kent on this machine. Figures of one run can be compared with each other, not with those of another.
#[derive(Debug, Parser)]
#[command(name = "kent-bench", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Serve the bare transport, for the others to measure.
    #[command(hide = true)]
    Bare,
    /// Unary grants beside the bare transport: requests a second and latencies.
    Grant(grant::GrantArgs),
    /// Pipelined grants beside the bare transport.
    Stream(grant::GrantArgs),
    /// Finished identifiers in large replies, beside the bare transport.
    Packed(grant::GrantArgs),
    Codec(codec::CodecArgs),
    Index(index::IndexArgs),
    Table(table::TableArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().bench {
        Bench::Bare => bare::run(),
        Bench::Grant(args) => grant::grant(&args),
        Bench::Stream(args) => grant::stream(&args),
        Bench::Packed(args) => grant::packed(&args),
        Bench::Codec(args) => codec::run(&args),
        Bench::Index(args) => index::run(&args),
        Bench::Table(args) => table::run(&args),
    }
}
