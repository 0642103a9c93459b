//! Measures contenders in turn, slice by slice: A B C, B C A, C A B. Most scenarios share this loop, its table and its
//! JSON output.
//!
//! Machines are shared and noisy, and a disturbance affects adjacent slices alike. Therefore, ratios are computed
//! within each round, and the median over all rounds is reported.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::runtime::{self, Runtime};

use crate::{
    figures::{Figures, median, rate},
    interrupt,
};

/// Options that most scenarios share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Number of slices per contender, after one warm-up slice.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Length of a slice in milliseconds.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) millis: u64,
    /// The daemon to measure [default: kentd in the directory of this program].
    #[arg(long, value_name = "PATH")]
    pub(crate) kentd: Option<PathBuf>,
    /// Number of threads that generate load, the same for all contenders. The servers need the other processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) load_threads: u32,
    /// Print one JSON object per line instead of a table. `kent-bench plot` draws this output.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// Returns the length of a slice.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// Builds a runtime for the load.
    pub(crate) fn runtime(&self) -> anyhow::Result<Runtime> {
        let mut builder = match self.load_threads {
            1 => runtime::Builder::new_current_thread(),
            _ => runtime::Builder::new_multi_thread(),
        };
        Ok(builder.worker_threads(self.load_threads.try_into()?).enable_all().build()?)
    }
}

/// The measurement of one slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    /// The number of items, in the unit of the scenario.
    pub(crate) count: u64,
    pub(crate) took: Duration,
    /// The latency of each call in nanoseconds; empty for a slice without calls.
    pub(crate) nanos: Vec<u32>,
    /// The processor time of the server, if measured.
    pub(crate) busy: Option<Duration>,
    /// The longest time for which the machine stood still, if measured.
    pub(crate) standstill: Option<Duration>,
}

impl Slice {
    pub(crate) fn call(&mut self, took: Duration) {
        self.nanos.push(took.as_nanos().try_into().unwrap_or(u32::MAX)); // OK because a latency above 4 s need not be exact
    }

    /// Adds the results of a concurrent task.
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.took = self.took.max(other.took);
        self.nanos.extend(other.nanos);
    }
}

/// The item that a scenario counts, and the unit of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Items per second.
    Each(&'static str),
    /// Bytes per second.
    Bytes,
    /// Nanoseconds per item.
    Nanos(&'static str),
}

/// The name of a contender.
#[derive(Clone, Debug, Default)]
struct Label {
    name: String,
    /// The name of the contender's line in a plot.
    series: String,
    at: Option<(&'static str, u64)>,
}

/// A contender in a comparison.
pub(crate) struct Contender<'a> {
    label: Label,
    is_reference: bool,
    slice: Box<dyn FnMut() -> anyhow::Result<Slice> + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(name: impl Into<String>, slice: impl FnMut() -> anyhow::Result<Slice> + 'a) -> Self {
        let name = name.into();
        let label = Label { series: name.clone(), name, at: None };
        Self { label, is_reference: false, slice: Box::new(slice) }
    }

    /// Sets the contender's position on the axis of a plot. The contender's name becomes `NAME, VALUE AXIS`, and its
    /// line in the plot keeps the old name.
    pub(crate) fn at(self, axis: &'static str, value: u64) -> Self {
        let series = self.label.series;
        let name = name_at(&series, value, axis);
        Self { label: Label { name, series, at: Some((axis, value)) }, ..self }
    }

    /// Marks the contender as a reference. Ratios are relative to the fastest reference, or to the first contender if
    /// no contender is marked.
    pub(crate) fn reference(self) -> Self {
        Self { is_reference: true, ..self }
    }
}

/// Returns the name of a contender at a position on an axis.
pub(crate) fn name_at(series: &str, value: u64, axis: &str) -> String {
    let axis = if value == 1 { axis.trim_end_matches('s') } else { axis };
    // OK because values on an axis are far below 2^53.
    format!("{series}, {} {axis}", rate(value as f64))
}

/// The percentiles of the latency, in the order of [`Outcome::percentiles`].
pub(crate) const PERCENTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// The results of one contender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    label: Label,
    rates: Figures,
    percentiles: [Figures; PERCENTILES.len()],
    /// The server's processor time per item in microseconds.
    busy: Figures,
    /// The longest time for which the machine stood still, in microseconds.
    standstill: Figures,
}

impl Outcome {
    fn take(&mut self, mut slice: Slice) {
        self.rates.record(slice.count, slice.took);
        if let Some(busy) = slice.busy {
            // OK because measured counts are far below 2^53.
            self.busy.push(busy.as_secs_f64() * 1e6 / slice.count as f64);
        }
        if let Some(standstill) = slice.standstill {
            self.standstill.push(standstill.as_secs_f64() * 1e6);
        }
        slice.nanos.sort_unstable();
        for (share, figures) in PERCENTILES.iter().zip(&mut self.percentiles) {
            if let Some(nanos) = at(&slice.nanos, *share) {
                figures.push(f64::from(nanos) / 1e3);
            }
        }
    }

    /// Returns a percentile of the latency in microseconds, as the median over the rounds.
    fn micros(&self, index: usize) -> Option<f64> {
        self.percentiles[index].if_any()
    }
}

/// Returns a percentile of sorted values.
fn at(sorted: &[u32], share: f64) -> Option<u32> {
    let last = sorted.len().checked_sub(1)?;
    // OK because the length of a slice in memory is far below 2^53.
    sorted.get((sorted.len() as f64 * share) as usize).or(sorted.get(last)).copied()
}

/// The results of all contenders under one load.
#[derive(Clone, Debug)]
pub(crate) struct Outcomes {
    all: Vec<Outcome>,
    reference: usize,
}

impl Outcomes {
    /// Returns the ratio of the rates of two contenders, or `None` if either is missing.
    pub(crate) fn ratio(&self, one: &str, other: &str) -> Option<f64> {
        Some(self.of(one)?.rates.ratio(&self.of(other)?.rates))
    }

    /// Returns the ratio between two contenders' values of a latency percentile.
    pub(crate) fn percentile_ratio(&self, index: usize, one: &str, other: &str) -> Option<f64> {
        Some(self.of(one)?.percentiles[index].ratio(&self.of(other)?.percentiles[index]))
    }

    /// Returns the ratio between two servers' processor time per item.
    pub(crate) fn busy_ratio(&self, one: &str, other: &str) -> Option<f64> {
        Some(self.of(one)?.busy.ratio(&self.of(other)?.busy))
    }

    /// Returns the median latency in microseconds.
    pub(crate) fn median_micros(&self, name: &str) -> Option<f64> {
        self.of(name)?.micros(0)
    }

    /// Returns the longest latency of all rounds in microseconds.
    pub(crate) fn longest_micros(&self, name: &str) -> Option<f64> {
        self.of(name)?.percentiles[4].all().iter().copied().reduce(f64::max)
    }

    /// Returns the longest latency of the rounds in which the machine stood still for at most `most`, in microseconds.
    pub(crate) fn longest_undisturbed_micros(&self, name: &str, most: Duration) -> Option<f64> {
        let Outcome { percentiles, standstill, .. } = self.of(name)?;
        let rounds = percentiles[4].all().iter().zip(standstill.all());
        let undisturbed = rounds.filter(|(_, standstill)| **standstill <= most.as_secs_f64() * 1e6);
        undisturbed.map(|(longest, _)| *longest).reduce(f64::max)
    }

    /// Returns the longest time for which the machine stood still during a contender's slices, in microseconds.
    pub(crate) fn standstill_micros(&self, name: &str) -> Option<f64> {
        self.of(name)?.standstill.all().iter().copied().reduce(f64::max)
    }

    /// Returns the median rate per second.
    pub(crate) fn rate(&self, name: &str) -> Option<f64> {
        Some(self.of(name)?.rates.median())
    }

    /// Returns the highest ratio to the reference among contenders whose names have this prefix.
    pub(crate) fn best(&self, prefix: &str) -> Option<f64> {
        let reference = &self.all.get(self.reference)?.rates;
        let named = self.all.iter().filter(|outcome| outcome.label.name.starts_with(prefix));
        named.map(|outcome| outcome.rates.ratio(reference)).reduce(f64::max)
    }

    fn of(&self, name: &str) -> Option<&Outcome> {
        self.all.iter().find(|outcome| outcome.label.name == name)
    }
}

/// The contenders under one load, and their results so far.
struct Entry<'a> {
    load: String,
    contenders: Vec<Contender<'a>>,
    all: Vec<Outcome>,
}

impl<'a> Entry<'a> {
    fn new(load: &str, contenders: Vec<Contender<'a>>) -> Self {
        let all = contenders.iter().map(|one| Outcome { label: one.label.clone(), ..Outcome::default() }).collect();
        Self { load: load.to_owned(), contenders, all }
    }
}

/// The target for a fact, which is a value derived from the results.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// No target; the value is only reported.
    Any,
}

/// One scenario: its table of results, and the facts derived from them.
pub(crate) struct Contest {
    scenario: &'static str,
    unit: Unit,
    options: Options,
    bar: ProgressBar,
    facts: RefCell<Vec<(String, f64, Bound)>>,
}

impl Contest {
    pub(crate) fn new(scenario: &'static str, unit: Unit, options: &Options) -> anyhow::Result<Self> {
        let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template("{msg:34} {wide_bar} {pos}/{len}")?);
        let contest = Self { scenario, unit, options: options.clone(), bar, facts: RefCell::default() };
        let unit = match unit {
            Unit::Each(what) => format!("{what}/s"),
            Unit::Bytes => "GB/s".to_owned(),
            Unit::Nanos(what) => format!("ns/{what}"),
        };
        let [load, contender] = [scenario, "contender"];
        contest.line(&format!(
            "{load:24} {contender:29} {unit:>14} {:>25} {:>9} {:>9} {:>7} {:>7} {:>7}",
            "from, to", "p50 us", "p99 us", "cpu us", "ratio", "p99"
        ));
        Ok(contest)
    }

    /// Measures contenders under one load, and prints a row for each.
    pub(crate) fn run(&self, load: &str, contenders: Vec<Contender<'_>>) -> anyhow::Result<Outcomes> {
        let mut entry = Entry::new(load, contenders);
        self.rounds(std::slice::from_mut(&mut entry))?;
        Ok(self.rows(entry))
    }

    /// Measures the contenders under several loads in turn: each round has one slice per contender and load.
    pub(crate) fn run_in_turn(&self, loads: Vec<(&str, Vec<Contender<'_>>)>) -> anyhow::Result<Vec<Outcomes>> {
        let mut entries: Vec<Entry<'_>> = loads.into_iter().map(|(load, them)| Entry::new(load, them)).collect();
        self.rounds(&mut entries)?;
        Ok(entries.into_iter().map(|entry| self.rows(entry)).collect())
    }

    fn rounds(&self, entries: &mut [Entry<'_>]) -> anyhow::Result<()> {
        let slices: usize = entries.iter().map(|entry| entry.contenders.len()).sum();
        self.bar.inc_length(u64::from(self.options.rounds + 1) * slices as u64); // OK because slices are few
        // The first round is for warm-up and is not recorded.
        for round in 0..=self.options.rounds {
            for Entry { load, contenders, all } in &mut *entries {
                // Each contender comes first in some rounds, because a slice may favor or hinder the one after it.
                let first = round as usize % contenders.len().max(1); // OK because rounds are few
                let mut pairs: Vec<_> = contenders.iter_mut().zip(all).collect();
                pairs.rotate_left(first);
                for (contender, outcome) in pairs {
                    interrupt::check()?;
                    self.bar.set_message(format!("{load}: {}", contender.label.name));
                    let slice = (contender.slice)()?;
                    self.bar.inc(1);
                    if round > 0 {
                        outcome.take(slice);
                    }
                }
            }
        }
        Ok(())
    }

    fn rows(&self, Entry { load, contenders, all }: Entry<'_>) -> Outcomes {
        let marked = contenders.iter().enumerate().filter(|(_, one)| one.is_reference).map(|(index, _)| index);
        let reference = marked.max_by(|a, b| all[*a].rates.median().total_cmp(&all[*b].rates.median())).unwrap_or(0);
        let outcomes = Outcomes { all, reference };
        for outcome in &outcomes.all {
            self.row(&load, outcome, &outcomes.all[outcomes.reference]);
        }
        outcomes
    }

    /// Returns the progress bar, extended by `steps` steps in addition to the slices.
    pub(crate) fn progress(&self, what: &'static str, steps: u64) -> &ProgressBar {
        self.bar.inc_length(steps);
        self.bar.set_message(what);
        &self.bar
    }

    /// Records a fact to print at the end. Does nothing if the value is missing.
    pub(crate) fn fact(&self, what: impl Into<String>, value: Option<f64>, bound: Bound) {
        if let Some(value) = value {
            self.facts.borrow_mut().push((what.into(), value, bound));
        }
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
        for (what, value, bound) in self.facts.borrow().iter() {
            let (is_met, wanted) = match bound {
                Bound::AtLeast(least) => (Some(value >= least), format!("at least {least}")),
                Bound::AtMost(most) => (Some(value <= most), format!("at most {most}")),
                Bound::Any => (None, String::new()),
            };
            if self.options.json {
                let line = json!({
                    "scenario": self.scenario, "fact": what, "value": value, "wanted": wanted, "met": is_met,
                });
                println!("{line}");
                continue;
            }
            let verdict = match is_met {
                Some(true) => "met   ",
                Some(false) => "missed",
                None => "      ",
            };
            println!("{verdict} {what}: {value:.3}{}", if wanted.is_empty() { wanted } else { format!(" ({wanted})") });
        }
    }

    fn line(&self, text: &str) {
        if !self.options.json {
            self.bar.suspend(|| println!("{text}"));
        }
    }

    fn row(&self, load: &str, outcome: &Outcome, reference: &Outcome) {
        let (slowest, fastest) = outcome.rates.extremes();
        // The lowest rate corresponds to the longest time.
        let (low, high) = if matches!(self.unit, Unit::Nanos(_)) { (fastest, slowest) } else { (slowest, fastest) };
        let (rates, ratio) = (outcome.rates.median(), outcome.rates.ratio(&reference.rates));
        let p99 = outcome.micros(2).map(|_| outcome.percentiles[2].ratio(&reference.percentiles[2]));
        if self.options.json {
            let (unit, what) = match self.unit {
                Unit::Each(what) => ("per_second", what),
                Unit::Bytes => ("per_second", "bytes"),
                Unit::Nanos(what) => ("nanoseconds", what),
            };
            let [p50_us, p90_us, p99_us, p999_us, max_us] = [0, 1, 2, 3, 4].map(|index| outcome.micros(index));
            let line = json!({
                "scenario": self.scenario, "load": load, "axis": outcome.label.at.map(|(axis, _)| axis),
                "at": outcome.label.at.map(|(_, value)| value), "series": outcome.label.series, "contender": outcome.label.name, "unit": unit, "what": what,
                "median": self.value(rates), "low": self.value(low), "high": self.value(high), "p50_us": p50_us,
                "p90_us": p90_us, "p99_us": p99_us, "p999_us": p999_us, "max_us": max_us,
                "longest_us": outcome.percentiles[4].all(), "standstill_us": outcome.standstill.all(), "ratio": ratio,
                "p99_ratio": p99, "server_cpu_us": outcome.busy.if_any(), "reference": reference.label.name,
            });
            self.bar.suspend(|| println!("{line}"));
            return;
        }
        let micros = |index| outcome.micros(index).map(|micros| format!("{micros:.0}")).unwrap_or_default();
        let spread = format!("{}, {}", self.format(low), self.format(high));
        let p99 = p99.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        // The processor time per byte is too small to show.
        let busy = outcome.busy.if_any().filter(|_| matches!(self.unit, Unit::Each(_)));
        let busy = busy.map(|micros| format!("{micros:.2}")).unwrap_or_default();
        self.line(&format!(
            "{:24} {:29} {:>14} {spread:>25} {:>9} {:>9} {busy:>7} {ratio:>7.2} {p99:>7}",
            load,
            outcome.label.name,
            self.format(rates),
            micros(0),
            micros(2),
        ));
    }

    fn value(&self, per_second: f64) -> Value {
        match self.unit {
            Unit::Nanos(_) => json!(1e9 / per_second),
            Unit::Each(_) | Unit::Bytes => json!(per_second),
        }
    }

    fn format(&self, per_second: f64) -> String {
        match self.unit {
            Unit::Each(_) => rate(per_second),
            Unit::Bytes => format!("{:.3}", per_second / 1e9),
            Unit::Nanos(_) => format!("{:.2}", 1e9 / per_second),
        }
    }
}

impl Figures {
    /// Returns the ratio to the other measurements, as the median over the rounds.
    fn ratio(&self, other: &Self) -> f64 {
        let ratios: Vec<f64> = self.all().iter().zip(other.all()).map(|(one, other)| one / other).collect();
        median(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, counts: &[u64]) -> Outcome {
        let mut outcome = Outcome { label: Label { name: name.to_owned(), ..Label::default() }, ..Outcome::default() };
        for count in counts {
            outcome.take(Slice {
                count: *count,
                took: Duration::from_secs(1),
                nanos: vec![1000, 2000, 3000],
                ..Slice::default()
            });
        }
        outcome
    }

    #[test]
    fn ok_ratios_are_computed_within_a_round() {
        // The machine is slow in the second round for both contenders.
        let all = vec![outcome("bare", &[100, 10, 100]), outcome("kentd", &[90, 9, 80])];
        let outcomes = Outcomes { all, reference: 0 };
        assert!(outcomes.ratio("kentd", "bare").is_some_and(|ratio| (ratio - 0.9).abs() < 1e-9));
        assert!(outcomes.best("kent").is_some_and(|ratio| (ratio - 0.9).abs() < 1e-9));
        assert!(outcomes.percentile_ratio(2, "kentd", "bare").is_some_and(|ratio| (ratio - 1.0).abs() < 1e-9));
        assert_eq!(outcomes.ratio("redis", "bare"), None);
        assert_eq!(outcomes.longest_micros("kentd"), Some(3.0));
    }

    #[test]
    fn ok_percentiles_are_measured_values() {
        let values: Vec<u32> = (1..=1000).collect();
        assert_eq!(
            PERCENTILES.map(|share| at(&values, share)),
            [Some(501), Some(901), Some(991), Some(1000), Some(1000)]
        );
        assert_eq!(at(&[], 0.5), None);
        assert_eq!(at(&[7], 0.999), Some(7));
    }
}
