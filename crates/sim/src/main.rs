//! `kent-sim` searches for runs in which Kent breaks a promise (P1 to P7 of README.md).
//!
//! Without a command, it simulates whole daemons: the service code runs on simulated time, with simulated clients and
//! operators. The store is slow, loses requests and responses, and is sometimes partitioned. Clocks are wrong, and
//! daemons crash and restart. Each seed determines one run.

mod model;
mod simulation;
// This module is not in tests/, because Cargo would then build this program twice.
#[cfg(test)]
mod threads;

use clap::{Parser, Subcommand};

/// Search for runs in which Kent breaks a promise. Without a command, simulate daemons, clients, operators and faults.
#[derive(Debug, Parser)]
#[command(name = "kent-sim", version, max_term_width = 110)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    simulation: simulation::SimulationArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Model(model::ModelArgs),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Model(args)) => model::run(&args),
        None => simulation::run(&cli.simulation),
    }
}
