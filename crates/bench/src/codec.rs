//! `kent-bench codec`: lines per second of `kent codec`, compared with parsing and writing the same JSON alone.

use std::{
    fs::File,
    io::{BufWriter, Seek, Write},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Args;
use rand::{Rng, RngExt};
use serde_json::{Value, json};

use crate::{
    contest::{Contender, Contest, Options, Slice, Unit},
    figures::now,
    process::sibling,
};

/// Measure lines per second of `kent codec`, and compare with parsing and writing the same JSON on one core.
#[derive(Debug, Args)]
pub(crate) struct CodecArgs {
    #[command(flatten)]
    options: Options,
    /// Number of lines per slice.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1..))]
    lines: u32,
    /// The command to measure [default: kent in the directory of this program].
    #[arg(long, value_name = "PATH")]
    kent: Option<PathBuf>,
}

/// Generates a random request.
type Request = fn(&mut dyn Rng) -> Value;

const REQUESTS: [(&str, Request); 4] = [
    ("uuid.parse", |rng| json!({"verb": "uuid.parse", "in": {"text": uuid(rng, 4)}})),
    ("uuid.inspect", |rng| {
        let version = [1, 6, 7][rng.random_range(0..3)];
        json!({"verb": "uuid.inspect", "in": {"uuid": uuid(rng, version)}})
    }),
    ("uid11.unpack", |rng| {
        // A uid11 that starts with a symbol up to `i`, such as `5`, is below 2^64.
        let text = format!("5{}", symbols(rng, 10));
        json!({"verb": "uid11.unpack", "in": {"profile": "xid", "text": text}})
    }),
    ("ext.print", |rng| json!({"verb": "ext.print", "in": {"uuid": uuid(rng, 8)}})),
];

pub(crate) fn run(args: &CodecArgs) -> anyhow::Result<()> {
    let kent = sibling("kent", args.kent.as_ref())?;
    let contest = Contest::new("codec", Unit::Each("lines"), &args.options)?;
    let sample = lines(args.lines, REQUESTS[1].1);
    let slice = |took| Slice { count: args.lines.into(), took, ..Slice::default() };
    let mut contenders = vec![Contender::new("bare JSON", || Ok(slice(bare_json(&sample)?)))];
    for (name, request) in REQUESTS {
        let (mut input, kent) = (write(args.lines, request)?, &kent);
        contenders.push(Contender::new(name, move || Ok(slice(answer(kent, &mut input)?))));
    }
    contest.run("JSON lines", contenders)?;
    contest.finish();
    Ok(())
}

/// Returns how long a process takes, from start to exit, to answer the requests in a file.
fn answer(kent: &PathBuf, input: &mut File) -> anyhow::Result<Duration> {
    input.rewind()?;
    let began = now();
    let status = Command::new(kent).arg("codec").stdin(input.try_clone()?).stdout(Stdio::null()).status();
    ensure!(status.context("cannot start the command")?.success(), "the command failed");
    Ok(began.elapsed())
}

/// Returns the time to parse the lines as JSON and write them again.
fn bare_json(lines: &[String]) -> anyhow::Result<Duration> {
    let began = now();
    let mut written = 0;
    for line in lines {
        let value: Value = serde_json::from_str(line)?;
        written += value.to_string().len();
    }
    ensure!(written > 0, "the JSON is empty");
    Ok(began.elapsed())
}

fn lines(count: u32, request: Request) -> Vec<String> {
    let mut rng = rand::rng();
    (0..count).map(|_| request(&mut rng).to_string()).collect()
}

fn write(count: u32, request: Request) -> anyhow::Result<File> {
    let mut file = BufWriter::new(tempfile::tempfile()?);
    for line in lines(count, request) {
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
