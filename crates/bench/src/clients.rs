//! `kent-bench clients`: the time per identifier in the clients of other languages, compared with the time per UUID in
//! each language's own generator.

use std::{
    cell::{Cell, RefCell},
    env,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::Value;

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit},
    interrupt,
    process::{Served, installed},
};

/// Measure identifiers per second from the clients of other languages, and from each language's own UUID generator.
///
/// The program `bench` of each client calls `next` for uuidv7 and then the language's own function, a million times
/// each. In each round, the programs of all languages run in turn with the same daemon. Each program is started anew
/// and repeats its measurement, because the first repetitions warm it up: blocks grow, and code is compiled. Only the
/// last repetition counts. A language whose tools are not installed is skipped with a message.
///
/// The first run builds the clients, and downloads the packages that they need.
#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    #[command(flatten)]
    options: Options,
    /// Number of identifiers in a round. This replaces `--millis`.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    /// The directory of the clients [default: sdk in this directory or in one of its parents].
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// A client with a program `bench`.
struct Language {
    name: &'static str,
    /// The path of the program in the directory of the clients.
    bench: &'static str,
    /// The tools that build and run the program.
    tools: &'static [&'static str],
    kent: &'static str,
    /// The language's own generator.
    own: &'static str,
    /// The maximum time of `next`, as a multiple of the time of the language's own generator.
    most: f64,
}

static LANGUAGES: [Language; 4] = [
    Language {
        name: "python",
        bench: "python/bench/run",
        tools: &["python3"],
        kent: "python, next",
        own: "uuid.uuid4",
        most: 1.0,
    },
    Language {
        name: "typescript",
        bench: "typescript/bench",
        tools: &["node", "npm"],
        kent: "typescript, next",
        own: "crypto.randomUUID",
        most: 2.0,
    },
    Language {
        name: "go",
        bench: "go/bench/run",
        tools: &["go"],
        kent: "go, Next",
        own: "google/uuid.NewV7",
        most: 1.5,
    },
    Language {
        name: "java",
        bench: "java/bench",
        tools: &["java", "mvn"],
        kent: "java, next",
        own: "UUID.randomUUID",
        most: 1.5,
    },
];

/// The number of times that a program repeats its measurement. Only the last repetition counts.
const ROUNDS: u64 = 3;

pub(crate) fn run(args: &ClientsArgs) -> anyhow::Result<()> {
    let (options, data) = (&args.options, tempfile::tempdir()?);
    let sdk = match &args.sdk {
        Some(path) => path.clone(),
        None => clients(&env::current_dir()?)
            .context("neither this directory nor one of its parents contains sdk; name the directory with --sdk")?,
    };
    let contest = Contest::new("clients", Unit::Each("identifiers"), options)?;
    let daemon = Served::kentd(options.kentd.as_ref(), data.path())?;
    let mut programs = Vec::new();
    let bar = contest.progress("building the clients", LANGUAGES.len() as u64); // OK because languages are few
    for language in &LANGUAGES {
        let program = Program { language, sdk: &sdk, daemon: &daemon, grants: Cell::new(0), taken: Cell::new(0) };
        match program.prepare() {
            Ok(()) => programs.push(program),
            Err(error) => {
                interrupt::check()?;
                bar.suspend(|| eprintln!("skipping {}: {error:#}", language.name));
            }
        }
        bar.inc(1);
    }
    // The program measures both contenders in one run. The contender that comes first runs the program, and stores the
    // slice of the other one here.
    let pending: Vec<RefCell<Option<Slice>>> = programs.iter().map(|_| RefCell::default()).collect();
    let loads = programs.iter().zip(&pending).map(|(program, pending)| {
        let own = move || match pending.take() {
            Some(own) => Ok(own),
            None => {
                let (kent, own) = program.round(args.calls)?;
                pending.replace(Some(kent));
                Ok(own)
            }
        };
        let kent = move || match pending.take() {
            Some(kent) => Ok(kent),
            None => {
                let (kent, own) = program.round(args.calls)?;
                pending.replace(Some(own));
                Ok(kent)
            }
        };
        let Language { name, kent: kent_name, own: own_name, .. } = *program.language;
        (name, vec![Contender::new(own_name, own), Contender::new(kent_name, kent)])
    });
    let outcomes = contest.run_in_turn(loads.collect())?;
    for (program, outcomes) in programs.iter().zip(outcomes) {
        let Language { name, kent, own, most, .. } = *program.language;
        contest.fact(format!("{name}, time of next / time of {own}"), outcomes.ratio(own, kent), Bound::AtMost(most));
        // OK because these counts are far below 2^53.
        let calls = program.grants.get() as f64 * 1e6 / program.taken.get() as f64;
        contest.fact(format!("{name}, calls to the daemon per million identifiers"), Some(calls), Bound::Any);
    }
    contest.finish();
    daemon.stop()
}

/// Returns the directory of the clients, which is in this directory or in one of its parents.
fn clients(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|path| path.join("sdk")).find(|sdk| sdk.join(LANGUAGES[0].bench).exists())
}

/// The program `bench` of a client, and how much the program has taken from the daemon.
struct Program<'a> {
    language: &'static Language,
    sdk: &'a Path,
    daemon: &'a Served,
    /// The number of calls to the daemon in all measured runs.
    grants: Cell<u64>,
    /// The number of identifiers handed out in all measured runs.
    taken: Cell<u64>,
}

impl Program<'_> {
    /// Builds the program, and runs it once.
    fn prepare(&self) -> anyhow::Result<()> {
        for tool in self.language.tools {
            installed(tool, &[]).with_context(|| format!("{tool} is not installed"))?;
        }
        self.output(1, 1).map(drop)
    }

    /// Runs the program, and returns the slices of Kent's client and of the language's own generator from its last
    /// repetition.
    fn round(&self, calls: u64) -> anyhow::Result<(Slice, Slice)> {
        let before = self.granted()?;
        let output = self.output(ROUNDS, calls).with_context(|| self.language.bench)?;
        self.grants.set(self.grants.get() + self.granted()? - before);
        self.taken.set(self.taken.get() + ROUNDS * calls);
        slices(&output)
    }

    fn output(&self, rounds: u64, calls: u64) -> anyhow::Result<String> {
        let mut command = Command::new(self.sdk.join(self.language.bench));
        command.args([rounds.to_string(), calls.to_string()]).env("KENT_ENDPOINT", &self.daemon.address);
        let output = command.stdin(Stdio::null()).output()?;
        interrupt::check()?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the program failed: {}", problem.lines().last().unwrap_or_default());
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the number of blocks of uuidv7 that the daemon has granted.
    fn granted(&self) -> anyhow::Result<u64> {
        let address = self.daemon.http.as_deref().context("the daemon has no HTTP port")?;
        let mut connection = TcpStream::connect(address)?;
        write!(connection, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        count(&answer)
    }
}

/// Reads the number of granted blocks from the daemon's metrics, which do not list a source until its first grant.
fn count(metrics: &str) -> anyhow::Result<u64> {
    ensure!(metrics.starts_with("HTTP/1.1 200 "), "no metrics: {metrics}");
    let count = metrics.lines().find_map(|line| line.strip_prefix("kent_grants_total{source=\"uuidv7\"} "));
    Ok(count.unwrap_or("0").parse()?)
}

/// Reads the slices from the last line that a program prints.
fn slices(output: &str) -> anyhow::Result<(Slice, Slice)> {
    let last = output.lines().last().context("the program printed nothing")?;
    let line: Value = serde_json::from_str(last)?;
    let count = line["calls"].as_u64().filter(|calls| *calls > 0).context("no calls")?;
    let slice = |name: &str| {
        let nanos = line[name].as_f64().filter(|nanos| *nanos > 0.0).with_context(|| format!("no {name}: {last}"))?;
        // OK because measured counts are far below 2^53.
        let took = Duration::from_secs_f64(nanos * count as f64 / 1e9);
        Ok::<_, anyhow::Error>(Slice { count, took, ..Slice::default() })
    };
    Ok((slice("kent_ns")?, slice("own_ns")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_last_round_of_a_program_counts() {
        let output = "{\"kent_ns\": 900.0, \"own_ns\": 1.0, \"calls\": 10}\n{\"kent_ns\":250.5,\"own_ns\":100,\"calls\":1000000}\n";
        let (kent, own) = slices(output).expect("well-formed");
        assert_eq!((kent.count, kent.took), (1_000_000, Duration::from_micros(250_500)));
        assert_eq!((own.count, own.took), (1_000_000, Duration::from_millis(100)));
        for bad in ["", "started", "{\"kent_ns\": 1, \"calls\": 1}", "{\"kent_ns\": 1, \"own_ns\": 1, \"calls\": 0}"] {
            assert!(slices(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ok_grants_are_read_from_the_metrics() {
        let head = "HTTP/1.1 200 OK\r\n\r\nkent_grants_total{source=\"xid\"} 7\n";
        assert_eq!(count(head).expect("none yet"), 0);
        assert_eq!(count(&format!("{head}kent_grants_total{{source=\"uuidv7\"}} 42\n")).expect("a count"), 42);
        assert!(count("HTTP/1.1 404 Not Found\r\n").is_err());
    }
}
