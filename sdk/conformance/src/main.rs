//! `kent-conformance`: runs all cases against a client under test, and prints one line for each.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use futures_util::{StreamExt, stream};
use kent_conformance::{
    case::{self, Outcome},
    load,
    script::Script,
};
use tokio::time::Instant;

/// Check that a client of Kent behaves like all others: simulate daemons from scripts, and check how the client reacts
/// to them.
///
/// ADAPTER is a program that reads commands as JSON lines and answers them with the client under test. Each case starts
/// a new process. The exit status is 1 if a case fails, and 2 if the arguments are wrong.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:\n  kent-conformance -- sdk/python/conformance/run\n  kent-conformance --only fence -- sdk/go/conformance/run\n  kent-conformance --list"
)]
struct Arguments {
    /// Run only the cases whose names contain this string. Can be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the cases with their descriptions, and run nothing.
    #[arg(long)]
    list: bool,
    /// Read the scripts in this directory instead of the embedded ones.
    #[arg(long, value_name = "DIRECTORY")]
    scripts: Option<PathBuf>,
    /// Run this many cases at the same time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// Print the conversation of every case, not only of those that fail.
    #[arg(long)]
    verbose: bool,
    /// Start the client under test with this command and these arguments.
    #[arg(last = true, value_name = "ADAPTER", required_unless_present = "list")]
    adapter: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let scripts = match chosen(arguments.scripts.as_deref(), &arguments.only) {
        Ok(scripts) => scripts,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    if arguments.list {
        for script in scripts {
            say(&format!("{}: {}", script.name, script.about));
        }
        return ExitCode::SUCCESS;
    }
    match run(&scripts, &arguments).await {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn chosen(folder: Option<&Path>, only: &[String]) -> Result<Vec<Script>, String> {
    let scripts = folder.map_or_else(load::embedded, load::read);
    let mut scripts = scripts.map_err(|bad| bad.to_string())?;
    scripts.retain(|script| only.is_empty() || only.iter().any(|name| script.name.contains(name)));
    match scripts.is_empty() {
        true => Err(format!("no case name contains {}; --list shows all cases", only.join(" or "))),
        // Start the longest cases first, so that the other cases run in parallel with them.
        false => {
            scripts.sort_by_key(|script| std::cmp::Reverse(script.limit_s));
            Ok(scripts)
        }
    }
}

/// Runs the cases. Returns the number of cases that failed.
async fn run(scripts: &[Script], arguments: &Arguments) -> usize {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let cases = stream::iter(scripts).map(|script| async move {
        let began = Instant::now();
        (script, case::run(script, &arguments.adapter, arguments.verbose).await, began.elapsed())
    });
    let mut running = cases.buffer_unordered(arguments.jobs.into());
    while let Some((script, outcome, took)) = running.next().await {
        let (name, took) = (&script.name, took.as_secs_f64());
        match outcome {
            Outcome::Passed { without, stalls, conversation } => {
                passed += 1;
                let without =
                    if without.is_empty() { String::new() } else { format!(", without {}", without.join(", ")) };
                let stalls: Vec<_> = stalls.iter().map(|stall| format!("{} ms", stall.as_millis())).collect();
                let stalls =
                    if stalls.is_empty() { String::new() } else { format!(", callers waited {}", stalls.join(", ")) };
                say(&format!("ok      {name} ({took:.1} s{without}{stalls})"));
                conversation.iter().for_each(|conversation| say(conversation));
            }
            Outcome::Skipped { missing } => {
                skipped += 1;
                say(&format!("skipped {name}: the client cannot {}", missing.join(", ")));
            }
            Outcome::Failed { reason, conversation } => {
                failed += 1;
                say(&format!("FAILED  {name} ({took:.1} s): {reason}\n  {}\n{conversation}", script.about));
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed, {skipped} skipped"));
    failed
}

/// Prints a line. Ignores an error, which means that the output is closed.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
