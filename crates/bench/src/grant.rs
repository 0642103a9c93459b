//! `kent-bench grant`, `stream` and `packed`: the daemon beside the bare transport, slice by slice in turn.

use std::{env, path::PathBuf, process::Command, time::Duration};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    daemon::{Served, kentd},
    figures::{Figures, rate},
    load::{self, Load, Slice},
};

/// How long, how often, and of what.
#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// Slices of each contender.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of a slice.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..))]
    millis: u64,
    /// The daemon to measure; without it, `kentd` beside this program.
    #[arg(long, value_name = "PATH")]
    kentd: Option<PathBuf>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// What the slices of one contender came to.
#[derive(Default)]
struct Told {
    rate: Figures,
    octets: Figures,
    cpu: f64,
    n: u64,
    b: u64,
    p50: Vec<u32>,
    p99: Vec<u32>,
}

/// Unary calls: a lease of 1000 uuidv7 each.
pub(crate) fn grant(args: &GrantArgs) -> anyhow::Result<()> {
    let loads = [1, 64, 256].map(|in_flight| (format!("{in_flight} in flight"), Load::Unary { in_flight }));
    measure(args, "grant", &loads)
}

/// Pipelined streams of leases.
pub(crate) fn stream(args: &GrantArgs) -> anyhow::Result<()> {
    let loads = [(1, 64), (4, 16)].map(|(connections, depth)| {
        (format!("{connections} connections, {depth} deep"), Load::Stream { connections, depth })
    });
    measure(args, "stream", &loads)
}

/// A stream of packed identifiers to one client.
pub(crate) fn packed(args: &GrantArgs) -> anyhow::Result<()> {
    let load = |source, count| Load::Packed { source, count, depth: 4 };
    let loads = [
        ("uuidv7, 2 MiB a reply".to_owned(), load("uuidv7", 131_072)),
        ("xid, 1 MiB a reply".to_owned(), load("xid", 131_072)),
    ];
    measure(args, "packed", &loads)
}

fn measure(args: &GrantArgs, scenario: &str, loads: &[(String, Load)]) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let data = tempfile::tempdir()?;
    let daemon = Served::start(kentd(args.kentd.as_ref())?.arg("--data").arg(data.path()))?;
    let bare = Served::start(Command::new(env::current_exe()?).arg("bare"))?;
    let contenders = [("bare", &bare), ("kentd", &daemon)];
    let length = Duration::from_millis(args.millis);
    let bar = ProgressBar::new(u64::from(args.rounds + 1) * (loads.len() * contenders.len()) as u64);
    if !args.json {
        println!(
            "{:26} {:8} {:>12} {:>25} {:>8} {:>8} {:>8}",
            scenario, "", "a second", "from, to", "p50 us", "p99 us", "of bare"
        );
    }
    for (name, load) in loads {
        let mut told = [Told::default(), Told::default()];
        // The first round warms up.
        for round in 0..=args.rounds {
            for (told, (_, address)) in told.iter_mut().zip(contenders) {
                let cpu = address.cpu();
                let slice = runtime.block_on(load::run(*load, &address.address, length))?;
                if round > 0 {
                    told.cpu += address.cpu() - cpu;
                    told.n += slice.answers;
                    told.b += slice.octets;
                }
                bar.inc(1);
                if round > 0 {
                    told.take(slice);
                }
            }
        }
        let bare_rate = told[0].headline();
        for (told, (contender, _)) in told.iter().zip(contenders) {
            let ratio = told.headline() / bare_rate;
            print!("{:7.2} us {:6.3} s/GB ", told.cpu * 1e6 / told.n as f64, told.cpu * 1e9 / told.b as f64);
            told.tell(args, scenario, name, contender, ratio);
        }
    }
    bar.finish_and_clear();
    daemon.stop()
}

impl Told {
    fn take(&mut self, mut slice: Slice) {
        self.rate.record(slice.answers, slice.took);
        self.octets.record(slice.octets, slice.took);
        slice.micros.sort_unstable();
        let at = |share: usize| slice.micros.get(slice.micros.len() * share / 100).copied();
        self.p50.extend(at(50));
        self.p99.extend(at(99));
    }

    /// Octets a second where there are any, otherwise answers a second.
    fn headline(&self) -> f64 {
        if self.octets.median() > 0.0 { self.octets.median() } else { self.rate.median() }
    }

    fn tell(&self, args: &GrantArgs, scenario: &str, load: &str, contender: &str, ratio: f64) {
        let (p50, p99) = (middle(&self.p50), middle(&self.p99));
        let is_octets = self.octets.median() > 0.0;
        let (low, high) = if is_octets { self.octets.extremes() } else { self.rate.extremes() };
        if args.json {
            let line = json!({
                "scenario": scenario, "load": load, "contender": contender, "per_second": self.headline(),
                "unit": if is_octets { "octets" } else { "answers" }, "low": low, "high": high,
                "p50_us": p50, "p99_us": p99, "of_bare": ratio,
            });
            println!("{line}");
            return;
        }
        let micros = |micros: Option<u32>| micros.map(|micros| micros.to_string()).unwrap_or_default();
        let (headline, spread) = match is_octets {
            true => (format!("{:.2} GB", self.headline() / 1e9), format!("{:.2}, {:.2}", low / 1e9, high / 1e9)),
            false => (rate(self.headline()), format!("{}, {}", rate(low), rate(high))),
        };
        println!(
            "{load:26} {contender:8} {headline:>12} {spread:>25} {:>8} {:>8} {ratio:>8.2}",
            micros(p50),
            micros(p99)
        );
    }
}

fn middle(micros: &[u32]) -> Option<u32> {
    let mut sorted = micros.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}
