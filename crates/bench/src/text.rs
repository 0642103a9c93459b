//! `kent-bench text`: encoding and decoding identifiers as text, in process and with the command `kent`.

use std::{
    fs::{File, OpenOptions},
    hint::black_box,
    io::{BufWriter, Seek, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Args;
use kent_client::Uid11;
use rand::RngExt;
use uuid::{Uuid, fmt::Hyphenated};

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit},
    figures::now,
    process::{Served, sibling},
};

/// Measure identifiers as text: nanoseconds per identifier in process, then lines per second with the command `kent`.
///
/// uid11s are compared with bs58, which encodes any bytes, and UUIDs with the uuid crate. The command is measured as a
/// whole process that writes to /dev/null, and compared with a program that prints UUIDs with the uuid crate.
#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    #[command(flatten)]
    options: Options,
    /// The command to measure [default: kent in the directory of this program].
    #[arg(long, value_name = "PATH")]
    kent: Option<PathBuf>,
    /// Number of lines that `kent alloc` prints in a slice.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    lines: u64,
    /// Number of lines that commands read from standard input in a slice.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..))]
    input: u64,
}

/// The number of different values. They fit into the processor's cache.
const VALUES: usize = 1024;
const SYMBOLS: usize = 11;

pub(crate) fn run(args: &TextArgs) -> anyhow::Result<()> {
    in_process(args)?;
    commands(args)
}

fn in_process(args: &TextArgs) -> anyhow::Result<()> {
    let contest = Contest::new("text", Unit::Nanos("identifier"), &args.options)?;
    let mut rng = rand::rng();
    let values: Vec<u64> = (0..VALUES).map(|_| rng.random()).collect();
    let texts: Vec<[u8; SYMBOLS]> = values.iter().map(|value| Uid11::new(*value).text()).collect();
    let uuids: Vec<Uuid> = (0..VALUES).map(|_| Uuid::now_v7()).collect();
    let hyphenated: Vec<String> = uuids.iter().map(Uuid::to_string).collect();
    let length = args.options.length();

    let encode = contest.run(
        "uid11, encode",
        vec![
            Contender::new("bs58", || {
                Ok(spin(length, &values, |value| {
                    let mut text = [0_u8; SYMBOLS];
                    let wrote = bs58::encode(value.to_be_bytes()).onto(text.as_mut_slice());
                    (wrote.is_ok(), text)
                }))
            }),
            Contender::new("kent-ids", || Ok(spin(length, &values, |value| Uid11::new(*value).text()))),
        ],
    )?;
    let decode = contest.run(
        "uid11, decode",
        vec![
            Contender::new("bs58", || {
                Ok(spin(length, &texts, |text| {
                    let mut bytes = [0_u8; SYMBOLS];
                    let wrote = bs58::decode(text).onto(bytes.as_mut_slice());
                    (wrote.is_ok(), bytes)
                }))
            }),
            Contender::new("kent-ids", || {
                Ok(spin(length, &texts, |text| Uid11::parse(text).is_ok_and(|id| id.get() > 1)))
            }),
        ],
    )?;
    contest.run(
        "UUID, encode",
        vec![Contender::new("uuid", || {
            Ok(spin(length, &uuids, |uuid| {
                let mut text = [0_u8; Hyphenated::LENGTH];
                uuid.hyphenated().encode_lower(&mut text);
                text
            }))
        })],
    )?;
    contest.run(
        "UUID, decode",
        vec![
            Contender::new("uuid", || {
                Ok(spin(length, &hyphenated, |text| Uuid::try_parse(text).is_ok_and(|id| !id.is_nil())))
            }),
            Contender::new("kent-ids", || {
                Ok(spin(length, &hyphenated, |text| kent_ids::dce::parse(text).is_ok_and(|id| !id.is_nil())))
            }),
        ],
    )?;
    for (what, outcomes) in [("encode", &encode), ("decode", &decode)] {
        let nanos = outcomes.rate("kent-ids").map(|rate| 1e9 / rate);
        contest.fact(format!("uid11, {what}, ns"), nanos, Bound::AtMost(12.0));
        contest.fact(
            format!("uid11, {what}, kent-ids / bs58"),
            outcomes.ratio("kent-ids", "bs58"),
            Bound::AtLeast(5.0),
        );
    }
    contest.finish();
    Ok(())
}

fn spin<V, T>(length: Duration, values: &[V], act: impl Fn(&V) -> T) -> Slice {
    let (began, mut slice) = (now(), Slice::default());
    while slice.took < length {
        for value in values {
            black_box(act(black_box(value)));
        }
        slice.count += values.len() as u64; // OK because a usize has at most 64 bits
        slice.took = began.elapsed();
    }
    slice
}

fn commands(args: &TextArgs) -> anyhow::Result<()> {
    let kent = sibling("kent", args.kent.as_ref())?;
    let data = tempfile::tempdir()?;
    let daemon = Served::kentd(args.options.kentd.as_ref(), data.path())?;
    let contest = Contest::new("text", Unit::Each("lines"), &args.options)?;
    let count = args.lines.to_string();
    let alloc = |source| {
        let (kent, address, count) = (&kent, &daemon.address, &count);
        Contender::new(format!("kent alloc {source}"), move || {
            let mut command = Command::new(kent);
            command.args(["alloc", source, "-n", count, "--endpoint", address]);
            process(&mut command, None, args.lines)
        })
    };
    // Millions of xids must wait for the clock, which allows 65 per microsecond.
    let outcomes = contest
        .run("print", vec![Contender::new("uuid crate", || print(args.lines)), alloc("uuidv7"), alloc("xid")])?;
    let millions = outcomes.rate("kent alloc uuidv7").map(|rate| rate / 1e6);
    contest.fact("kent alloc uuidv7, million lines per second", millions, Bound::AtLeast(20.0));

    let uuids = input(args.input, |uuid| uuid.to_string())?;
    let requests = input(args.input, |uuid| format!(r#"{{"verb":"uuid.inspect","in":{{"uuid":"{uuid}"}}}}"#))?;
    let mut contenders = vec![Contender::new("cat", || process(&mut Command::new("cat"), Some(&uuids), args.input))];
    // An older `kent` given by --kent may not read identifiers from standard input, so try one line first.
    if process(Command::new(&kent).args(["inspect", "-"]), Some(&input(1, |uuid| uuid.to_string())?), 1).is_ok() {
        contenders.push(reader(&kent, &["inspect", "-"], &uuids, args.input));
        contenders.push(reader(&kent, &["inspect", "-", "--json"], &uuids, args.input));
    } else {
        eprintln!("skipping `kent inspect -`: this kent does not read identifiers from standard input");
    }
    contenders.push(reader(&kent, &["codec"], &requests, args.input));
    contest.run("read and print", contenders)?;
    contest.finish();
    daemon.stop()
}

fn reader<'a>(kent: &'a Path, arguments: &'a [&'a str], input: &'a File, lines: u64) -> Contender<'a> {
    let name = format!("kent {}", arguments.join(" "));
    Contender::new(name, move || process(Command::new(kent).args(arguments), Some(input), lines))
}

/// Measures a process from its start to its end, with a file as its standard input.
fn process(command: &mut Command, input: Option<&File>, lines: u64) -> anyhow::Result<Slice> {
    let stdin = match input {
        Some(mut file) => {
            file.rewind()?;
            Stdio::from(file.try_clone()?)
        }
        None => Stdio::null(),
    };
    let began = now();
    let output = command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.context("cannot start the command")?;
    ensure!(output.status.success(), "the command failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(Slice { count: lines, took: began.elapsed(), ..Slice::default() })
}

/// Prints UUIDs of version 7 with the uuid crate alone.
fn print(lines: u64) -> anyhow::Result<Slice> {
    let mut sink = BufWriter::with_capacity(1 << 16, OpenOptions::new().write(true).open("/dev/null")?);
    let began = now();
    let mut line = [b'\n'; Hyphenated::LENGTH + 1];
    for _ in 0..lines {
        Uuid::now_v7().hyphenated().encode_lower(&mut line);
        sink.write_all(&line)?;
    }
    sink.flush()?;
    Ok(Slice { count: lines, took: began.elapsed(), ..Slice::default() })
}

/// Returns a file of lines, each with a new UUID.
fn input(lines: u64, line: impl Fn(Uuid) -> String) -> anyhow::Result<File> {
    let mut file = BufWriter::new(tempfile::tempfile()?);
    for _ in 0..lines {
        writeln!(file, "{}", line(Uuid::now_v7()))?;
    }
    Ok(file.into_inner()?)
}
