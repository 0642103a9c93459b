//! `kent`, the command line of the Kent ID-allocation service.
//!
//! `args` parses the arguments, one module runs each group of commands, `output` and `table` write text and JSON, and `failure`
//! turns errors into messages and exit codes.

mod alloc;
mod args;
mod backup;
mod bits;
mod classify;
mod codec;
mod connect;
mod describe;
mod edit;
mod failure;
mod history;
mod inspect;
mod lines;
mod names;
mod number;
mod output;
mod plan;
mod region;
mod series;
mod space;
mod status;
mod table;
mod transfer;
mod tree;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use kent_client::Client;
use tokio::runtime::{Builder, Runtime};

use crate::args::{Cli, Command, DaemonCommand};
use crate::failure::{Edit, Failure};
use crate::output::Out;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    let json = cli.global.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, json),
    }
}

/// Prints help and versions to standard output, and bad usage to standard error, as JSON with `--json`.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    let json = env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && json {
        return report(&Failure::Usage(first_paragraph(&error.render().to_string())), true);
    }
    // OK because a reader that closed the stream does not want the text.
    let _ = error.print();
    // OK because clap's codes are 0 and 2.
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The first paragraph of clap's message, which states the error. Usage and hints for people follow it.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

fn report(failure: &Failure, json: bool) -> ExitCode {
    if let Some(text) = failure.render(json) {
        // OK because the exit code reports the failure, too, if standard error is closed.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    failure.exit_code()
}

fn run(cli: Cli) -> Result<(), Failure> {
    let (json, client) = (cli.global.json, cli.global.endpoint);
    match cli.command {
        Command::Codec => codec::run(),
        Command::Completions { shell } => complete(shell),
        Command::Inspect(args) => with_output(json, |out| {
            let regions = match &args.space {
                Some(space) => Some(inspect::Regions { space, client: &client, runtime: runtime()? }),
                None => None,
            };
            inspect::run(&args, regions.as_ref(), out)
        }),
        Command::Restore { arguments } => backup::kentd("restore", &arguments),
        Command::Migrate { arguments } => backup::kentd("migrate", &arguments),
        Command::Alloc(args) => alloc::run(&args, client, &runtime()?, json),
        Command::Daemon(command) => with_output(json, |out| runtime()?.block_on(run_on_daemon(command, &client, out))),
    }
}

async fn run_on_daemon(command: DaemonCommand, client: &Client, out: &mut Out) -> Result<(), Failure> {
    let edit = Edit::of(&command);
    call_daemon(command, client, out).await.map_err(|failure| failure.at(&client.endpoint(), edit))
}

async fn call_daemon(command: DaemonCommand, client: &Client, out: &mut Out) -> Result<(), Failure> {
    match command {
        DaemonCommand::Classify(args) => {
            // Invalid identifiers are rejected before the client connects.
            let operands = classify::parse(&args)?;
            classify::run(&operands, &args.space.space, &client.connect().await?, out).await
        }
        DaemonCommand::Space(command) => space::run(&command, &client.connect().await?, out).await,
        DaemonCommand::Region(command) => region::run(&command, &client.connect().await?, out).await,
        DaemonCommand::Series(command) => series::run(&command, &client.connect().await?, out).await,
        DaemonCommand::Table(command) => transfer::run(&command, &client.connect().await?, out).await,
        DaemonCommand::Watch(args) => history::watch(&args, client, out).await,
        DaemonCommand::Backup { file } => backup::run(&file, &client.connect().await?, out).await,
        DaemonCommand::Clock { command } => status::clock(command, &client.connect().await?, out).await,
        DaemonCommand::Status => status::run(&client.connect().await?, out).await,
    }
}

/// Runs a command and flushes its output, even if it failed half-way.
fn with_output(json: bool, command: impl FnOnce(&mut Out) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut out = Out::new(json);
    let result = command(&mut out);
    let flushed = out.flush();
    result.and(flushed)
}

/// A runtime with one worker thread, which serves the connection while the main thread prints.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Failure::Runtime)
}

fn complete(shell: Shell) -> Result<(), Failure> {
    // clap_complete panics if it cannot write. Writing to a vector always succeeds.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kent", &mut script);
    io::stdout().write_all(&script).and_then(|()| io::stdout().flush()).map_err(Failure::Output)
}
