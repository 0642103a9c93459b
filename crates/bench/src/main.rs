//! `kent-bench` measures Kent against what the same machine can do at best, side by side in one run.
//!
//! Machines are shared and noisy, so a single figure means little: what is compared is interleaved, repeated, and told as the
//! median and as a ratio.

mod codec;
mod figures;
mod index;
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
    Codec(codec::CodecArgs),
    Index(index::IndexArgs),
    Table(table::TableArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().bench {
        Bench::Codec(args) => codec::run(&args),
        Bench::Index(args) => index::run(&args),
        Bench::Table(args) => table::run(&args),
    }
}
