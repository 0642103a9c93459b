//! `kent-sim` looks for runs in which Kent breaks a promise.
//!
//! Without a command it simulates whole daemons: the service code on simulated time, over a store that is slow, loses requests
//! and answers, and is cut off, with clients, operators, wild clocks, crashes and restarts. One seed is one run.

mod simulation;

use clap::Parser;

/// Look for runs in which Kent breaks a promise. Without a command: simulate daemons, clients, operators and faults.
#[derive(Debug, Parser)]
#[command(name = "kent-sim", version, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    simulation: simulation::SimulationArgs,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    simulation::run(&cli.simulation)
}
