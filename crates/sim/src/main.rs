//! `kent-sim` looks for runs in which Kent breaks a promise.
//!
//! Without a command it simulates whole daemons: the service code on simulated time, over a store that is slow, loses requests
//! and answers, and is cut off, with clients, operators, wild clocks, crashes and restarts. One seed is one run.

mod model;
mod simulation;

use clap::{Parser, Subcommand};

/// Look for runs in which Kent breaks a promise. Without a command: simulate daemons, clients, operators and faults.
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
