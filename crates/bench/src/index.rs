//! `kent-bench index`: the time to find the innermost region of an identifier, in tables of up to a million regions.
//!
//! It compares the index of crates/regions with the paper's method (Kent 1992: one prefix length after another), with
//! searches in the intervals that the regions form, and with public crates for longest prefix matches. All methods must
//! return the same answers.

pub(crate) mod regions;
mod rivals;

use std::{fs, hint::black_box, path::PathBuf, time::Duration};

use anyhow::ensure;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kent_regions::Table;

use self::{
    regions::Stream,
    rivals::{Built, METHODS, Method},
};
use crate::{
    figures::{Figures, now, rate},
    svg::{self, Axes, Line, Panel, Scale},
};

/// Measure the time to find the region of an identifier, by number of regions.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Numbers of regions in the tables.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 10_000, 100_000, 1_000_000])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    regions: Vec<u32>,
    /// Widths of the identifiers in bits.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128])]
    #[arg(value_parser = clap::value_parser!(u8).range(64..=128))]
    bits: Vec<u8>,
    /// Number of lookups per round. Each round uses new identifiers.
    #[arg(long, default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..))]
    lookups: u32,
    /// Number of rounds. The results are medians over the rounds.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seed of the random tables and identifiers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a plot of the results as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The number of lookups per measurement. This number is small, so that other work on the machine interrupts few
/// measurements.
const PIECE: usize = 4096;

/// The measurements of one method on one table.
struct Measured {
    method: &'static Method,
    built: Option<Box<dyn Built>>,
    build: Figures,
    lookups: [Figures; Stream::ALL.len()],
}

/// All measurements on one table.
struct Size {
    regions: usize,
    measured: Vec<Measured>,
}

pub(crate) fn run(args: &IndexArgs) -> anyhow::Result<()> {
    let steps = args.bits.len() * args.regions.len();
    let bar = ProgressBar::new(u64::from(args.rounds) * steps as u64); // OK because a length fits in 64 bits
    bar.set_style(ProgressStyle::with_template("{msg:28} {wide_bar} {pos}/{len}")?);
    let mut panels = Vec::new();
    for bits in &args.bits {
        let mut sizes = Vec::new();
        for regions in &args.regions {
            bar.set_message(format!("{bits} bits, {regions} regions"));
            sizes.push(size(args, *bits, *regions, &bar)?);
        }
        bar.suspend(|| print(args, *bits, &sizes));
        for (at, stream) in Stream::ALL.iter().enumerate() {
            let lines = METHODS.iter().map(|method| line(method, at, &sizes)).collect();
            let title = format!("{bits} bits, identifiers {}: ns per lookup", stream.name());
            let (x, scale) = ("regions".to_owned(), Scale::Logarithmic);
            panels.push(Panel { title, x, scale, tick: svg::digits, lines });
        }
    }
    bar.finish_and_clear();
    if let Some(path) = &args.plot {
        fs::write(path, svg::svg(&panels, Axes::Shared))?;
    }
    Ok(())
}

/// Measures every method on one table, in turn.
fn size(args: &IndexArgs, bits: u8, regions: u32, bar: &ProgressBar) -> anyhow::Result<Size> {
    let table = regions::table(bits, usize::try_from(regions)?, args.seed)?;
    let new = |method| Measured { method, built: None, build: Figures::default(), lookups: Default::default() };
    let mut measured: Vec<Measured> = METHODS.iter().filter(|method| table.len() <= method.most).map(new).collect();
    for round in 0..args.rounds {
        let seed = args.seed.wrapping_mul(1000).wrapping_add(round.into());
        let streams = Stream::ALL.map(|stream| stream.identifiers(&table, args.lookups, seed));
        let mut sums = [None; Stream::ALL.len()];
        for one in &mut measured {
            one.round(&table, &streams, &mut sums)?;
        }
        bar.inc(1);
    }
    Ok(Size { regions: table.len(), measured })
}

impl Measured {
    /// Builds the search structure, or keeps the previous one if a build takes longer than a second, and looks up all
    /// identifiers. The sum of the answers must be the same for all methods.
    fn round(&mut self, table: &Table, streams: &[Vec<u128>], sums: &mut [Option<u64>]) -> anyhow::Result<()> {
        let built = match self.built.take() {
            Some(built) if self.build.median() < 1.0 => built,
            _ => {
                let (built, took) = timed(|| (self.method.build)(table));
                self.build.record(1, took);
                built
            }
        };
        for ((ids, sum), figures) in streams.iter().zip(sums).zip(&mut self.lookups) {
            let mut found = 0_u64;
            for some in ids.chunks(PIECE) {
                let (more, took) = timed(|| built.sum(some));
                figures.record(some.len() as u64, took); // OK because a length fits in 64 bits
                found = found.wrapping_add(more);
            }
            ensure!(*sum.get_or_insert(found) == found, "{} found different regions", self.method.name);
        }
        self.built = Some(built);
        Ok(())
    }
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let began = now();
    let done = black_box(act());
    (done, began.elapsed())
}

/// Converts rates per second to their median in nanoseconds per item.
fn nanoseconds(figures: &Figures) -> f64 {
    1e9 / figures.median()
}

fn line(method: &'static Method, stream: usize, sizes: &[Size]) -> Line {
    let point = |size: &Size| Some((size.count(), nanoseconds(&size.of(method)?.lookups[stream])));
    Line { name: method.name.to_owned(), color: method.color, points: sizes.iter().filter_map(point).collect() }
}

impl Size {
    fn of(&self, method: &Method) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.method.name == method.name)
    }

    /// Returns the number of regions.
    fn count(&self) -> f64 {
        self.regions as f64 // OK because this is far below 2^53
    }
}

/// Prints the results for all tables of one width.
fn print(args: &IndexArgs, bits: u8, sizes: &[Size]) {
    println!(
        "\n{bits} bits, {} lookups per round, in pieces of {PIECE}, medians of {} rounds",
        args.lookups, args.rounds
    );
    for (at, stream) in Stream::ALL.iter().enumerate() {
        section(&format!("ns per lookup, {}", stream.name()), sizes, |_, one| {
            Some(format!("{:.1}", nanoseconds(&one.lookups[at])))
        });
    }
    section("ms to build", sizes, |_, one| Some(format!("{:.2}", nanoseconds(&one.build) / 1e6)));
    section("bytes per region", sizes, |size, one| {
        let bytes = one.built.as_ref()?.bytes()?;
        Some(format!("{:.1}", bytes as f64 / size.count())) // OK because this is far below 2^53
    });
}

/// Prints one line for every method that has a result.
fn section(name: &str, sizes: &[Size], cell: impl Fn(&Size, &Measured) -> Option<String>) {
    row(name, sizes.iter().map(|size| rate(size.count())));
    for method in &METHODS {
        let cells = sizes.iter().map(|size| cell(size, size.of(method)?));
        if cells.clone().any(|cell| cell.is_some()) {
            row(method.name, cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned())));
        }
    }
}

fn row(name: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!("{cell:>11}")).collect();
    println!("{name:36}{cells}");
}
