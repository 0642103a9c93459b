//! `kent-bench codec`: lines a second through `kent codec`, one process on one core, against what reading and writing the same
//! JSON costs by itself.

use std::{
    env,
    fs::File,
    io::{BufWriter, Seek, Write},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use rand::{Rng, RngExt};
use serde_json::{Value, json};

use crate::figures::{Figures, now, rate};

/// How many lines a second `kent codec` answers, on one core.
#[derive(Debug, Args)]
pub(crate) struct CodecArgs {
    /// How many lines each round has.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1..))]
    lines: u32,
    /// How many rounds; the figures are their medians.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The command to measure; without it, `kent` beside this program.
    #[arg(long, value_name = "PATH")]
    kent: Option<PathBuf>,
}

/// What is asked, one line at random.
type Question = fn(&mut dyn Rng) -> Value;

const QUESTIONS: [(&str, Question); 4] = [
    ("uuid.parse", |rng| json!({"verb": "uuid.parse", "in": {"text": uuid(rng, 4)}})),
    ("uuid.inspect", |rng| {
        let version = [1, 6, 7][rng.random_range(0..3)];
        json!({"verb": "uuid.inspect", "in": {"uuid": uuid(rng, version)}})
    }),
    ("uid11.unpack", |rng| {
        // Its first symbol is at most i, so that every text has a value.
        let text = format!("5{}", symbols(rng, 10));
        json!({"verb": "uid11.unpack", "in": {"profile": "xid", "text": text}})
    }),
    ("ext.print", |rng| json!({"verb": "ext.print", "in": {"uuid": uuid(rng, 8)}})),
];

pub(crate) fn run(args: &CodecArgs) -> anyhow::Result<()> {
    let kent = kent(args)?;
    let bar = ProgressBar::new((QUESTIONS.len() as u64 + 1) * u64::from(args.rounds));
    bar.set_style(ProgressStyle::with_template("{msg:14} {wide_bar} {pos}/{len}")?);
    let mut inputs = Vec::new();
    for (name, question) in QUESTIONS {
        inputs.push((name, write(args.lines, question)?, Figures::default()));
    }
    let mut bare = Figures::default();
    let sample = lines(args.lines, QUESTIONS[1].1);
    for _ in 0..args.rounds {
        bar.set_message("bare JSON");
        bare.record(args.lines.into(), bare_json(&sample)?);
        bar.inc(1);
        for (name, input, figures) in &mut inputs {
            bar.set_message(*name);
            figures.record(args.lines.into(), answer(&kent, input)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    println!("{} lines a round, medians of {} rounds (smallest to largest)", args.lines, args.rounds);
    println!("{:14} {:>12} lines/s", "bare JSON", rate(bare.median()));
    for (name, _, figures) in &inputs {
        let (least, most) = figures.extremes();
        let (median, ratio) = (figures.median(), figures.median() / bare.median());
        println!(
            "{name:14} {:>12} lines/s  {ratio:.2} of bare JSON  ({} to {})",
            rate(median),
            rate(least),
            rate(most)
        );
    }
    Ok(())
}

fn kent(args: &CodecArgs) -> anyhow::Result<PathBuf> {
    let kent = match &args.kent {
        Some(path) => path.clone(),
        None => env::current_exe()?.with_file_name("kent"),
    };
    ensure!(kent.exists(), "{} is not there: build it with cargo build --release -p kent-cli", kent.display());
    Ok(kent)
}

/// How long a process takes to answer a file, from start to end.
fn answer(kent: &PathBuf, input: &mut File) -> anyhow::Result<Duration> {
    input.rewind()?;
    let began = now();
    let status = Command::new(kent).arg("codec").stdin(input.try_clone()?).stdout(Stdio::null()).status();
    ensure!(status.context("the command did not start")?.success(), "the command failed");
    Ok(began.elapsed())
}

/// How long it takes to read and write the lines as JSON, and nothing else.
fn bare_json(lines: &[String]) -> anyhow::Result<Duration> {
    let began = now();
    let mut written = 0;
    for line in lines {
        let value: Value = serde_json::from_str(line)?;
        written += value.to_string().len();
    }
    ensure!(written > 0, "nothing was written");
    Ok(began.elapsed())
}

fn lines(count: u32, question: Question) -> Vec<String> {
    let mut rng = rand::rng();
    (0..count).map(|_| question(&mut rng).to_string()).collect()
}

fn write(count: u32, question: Question) -> anyhow::Result<File> {
    let mut file = BufWriter::new(tempfile::tempfile()?);
    for line in lines(count, question) {
        writeln!(file, "{line}")?;
    }
    Ok(file.into_inner()?)
}

fn uuid(rng: &mut dyn Rng, version: u128) -> String {
    let bits = rng.random::<u128>() & !(0xf << 76) & !(0b11 << 62) | version << 76 | 0b10 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn symbols(rng: &mut dyn Rng, count: usize) -> String {
    const ALPHABET: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    (0..count).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}
