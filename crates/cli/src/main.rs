//! `kent`, the command line of the Kent ID-allocation service.
//!
//! `args` defines the arguments; `settings` supplies their defaults. Each group of commands has its own module.
//! `output` and `table` write text and JSON, and `failure` turns errors into messages and exit codes.

mod access;
mod adopt;
mod alloc;
mod args;
mod audit;
mod backup;
mod bits;
mod charset;
mod check;
mod classify;
mod codec;
mod complete;
mod confirm;
mod connect;
mod context;
mod contexts;
mod debug;
mod describe;
mod doctor;
mod edit;
mod edited;
mod failure;
mod files;
mod filter;
mod floors;
mod following;
mod free;
mod history;
mod inspect;
mod interrupt;
mod known_layout;
mod layout;
mod lines;
mod list;
mod man;
mod names;
mod notice;
mod number;
mod output;
mod pages;
mod plan;
mod prefix;
mod reach;
mod region;
mod request;
mod series;
mod settings;
mod space;
mod status;
mod suggested;
#[cfg(test)]
mod suggestions;
mod table;
mod transfer;
mod tree;
mod usage;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anstream::AutoStream;
use kent_client::Client;
use tokio::runtime::{Builder, Runtime};

use crate::args::{Command, DaemonCommand, Global, RegionCommand};
use crate::failure::Failure;
use crate::output::Out;
use crate::reach::Reach;
use crate::settings::{Origin, Parsed, Settings};

fn main() -> ExitCode {
    let line: Vec<OsString> = env::args_os().collect();
    if let Some(code) = complete::answer(&line) {
        return code;
    }
    let parsed = match settings::parse(&line) {
        Ok(parsed) => parsed,
        Err(error) => return refuse_arguments(&error, &settings::reach_leniently(&line)),
    };
    let (json, reach, space) = (parsed.cli.global.json, parsed.settings.reach(), parsed.settings.space_origin());
    match (run(parsed, reach.clone()), space) {
        (Ok(()), _) => ExitCode::SUCCESS,
        (Err(failure), None) => report(&failure, json, &reach),
        (Err(failure), Some((space, origin))) => report(&failure.with_space_origin(&space, origin), json, &reach),
    }
}

/// Prints help and versions to standard output, and usage errors to standard error, as JSON with `--json`.
fn refuse_arguments(error: &clap::Error, reach: &Reach) -> ExitCode {
    if error.use_stderr() && wants_json() {
        let text = error.render().to_string();
        let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).map(str::to_owned).collect();
        let failure = Failure::BadLine { message: first_paragraph(&text), tips };
        return report(&failure, true, reach);
    }
    // OK because printing fails only if the reader has closed the stream.
    let _ = match error.use_stderr() {
        true => {
            AutoStream::auto(io::stderr()).write_all(with_reach(&error.render().ansi().to_string(), reach).as_bytes())
        }
        false => error.print(),
    };
    // OK because clap's codes are 0 and 2.
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Adds the options of `reach` to the commands that clap's message suggests, but not to the usage line at the end,
/// which is not a command to paste.
fn with_reach(text: &str, reach: &Reach) -> String {
    let (message, usage) = text.split_at(text.find("Usage:").unwrap_or(text.len()));
    reach.add_to(message) + usage
}

/// Returns whether the arguments of an invalid command line request JSON.
fn wants_json() -> bool {
    let words: Vec<_> = env::args_os().collect();
    let is_output = |word: &OsString| word == "-o" || word == "--output";
    words.iter().any(|word| ["--json", "-ojson", "-o=json", "--output=json"].iter().any(|form| word == form))
        || words.windows(2).any(|pair| is_output(&pair[0]) && pair[1] == "json")
}

/// Returns the first paragraph of clap's message, which states the error. Usage and hints for people follow it.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

fn report(failure: &Failure, json: bool, reach: &Reach) -> ExitCode {
    if let Some(text) = failure.render(json) {
        // Do not add the connection options to suggested commands if these options cause the failure: the commands
        // would fail for the same reason.
        let is_refused_here = matches!(failure, Failure::Unconnectable(_));
        notice::write(&if is_refused_here { text } else { reach.add_to(&text) }, json);
    }
    failure.exit_code()
}

fn run(Parsed { cli, settings }: Parsed, reach: Reach) -> Result<(), Failure> {
    let (json, global) = (cli.global.json, cli.global);
    let out = Out::new(json, global.prefix_format, reach.clone());
    match cli.command {
        Command::Codec => codec::run(),
        Command::Completions { shell } => complete::print_script(shell),
        Command::Man { dir } => with_output(out, |out| man::write(&dir, out)),
        Command::Audit(command) => with_output(out, |out| audit::run(&command, out)),
        Command::Context(command) => with_output(out, |out| context::run(&command, settings, out)),
        Command::Inspect(args) => with_output(out, |out| match &args.space {
            Some(space) => {
                let client = client(&global, &settings)?;
                inspect::run(&args, Some(&inspect::Regions::new(space, &client, runtime()?)?), None, out)
            }
            None => match args.layout_name() {
                Some(name) => {
                    let client = client(&global, &settings)?;
                    let layout =
                        runtime()?.block_on(async { known_layout::get(name, &client.connect().await?).await })?;
                    inspect::run(&args, None, Some(&layout), out)
                }
                None => inspect::run(&args, None, None, out),
            },
        }),
        Command::Check(args) => with_output(out, |out| {
            let runtime = runtime()?;
            check::run(&args, || client(&global, &settings), &runtime, out)
        }),
        Command::Restore { arguments } => backup::kentd("restore", &arguments),
        Command::Migrate { arguments } => backup::kentd("migrate", &arguments),
        Command::Alloc(args) => {
            let (space, origin) = settings.get("space");
            args.check_space(&space, origin == Origin::Option)?;
            alloc::run(&args, client(&global, &settings)?, &settings.get("endpoint").0, &runtime()?, json, reach)
        }
        Command::Daemon(command) => with_output(out, |out| {
            if let DaemonCommand::Region(region) = &command
                && let RegionCommand::Ls(args) = &**region
            {
                args.check_space(settings.get("space").1 == Origin::Option)?;
            }
            let (client, runtime) = (client(&global, &settings)?, runtime()?);
            if let Some(edit) = edited::find_out(&command) {
                runtime.spawn(interrupt::watch(edit, reach, json));
            }
            runtime.block_on(run_on_daemon(command, &client, out))
        }),
    }
}

/// Returns the client for the effective settings.
fn client(global: &Global, settings: &Settings) -> Result<Client, Failure> {
    settings.check().map_err(|fault| Failure::Usage(fault.to_string()))?;
    connect::set_timeout(global.request_timeout);
    global
        .endpoint
        .client(&global.credentials, global.request_timeout, |setting| settings.source(setting))
        .map_err(|error| Failure::Unconnectable(error.to_string()))
}

async fn run_on_daemon(command: DaemonCommand, client: &Client, out: &mut Out) -> Result<(), Failure> {
    let edit = edited::find_out(&command);
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
        DaemonCommand::Request(command) => request::run(&command, &client.connect().await?, out).await,
        DaemonCommand::Series(command) => series::run(&command, &client.connect().await?, out).await,
        DaemonCommand::Layout(command) => layout::run(&command, client, out).await,
        DaemonCommand::Table(command) => transfer::run(&command, &client.connect().await?, out).await,
        DaemonCommand::Adopt(args) => adopt::run(&args, &client.connect().await?, out).await,
        DaemonCommand::Watch(args) => history::watch(&args, client, out).await,
        DaemonCommand::Backup { file } => backup::run(&file, &client.connect().await?, out).await,
        DaemonCommand::Clock { command } => status::clock(command, &client.connect().await?, out).await,
        DaemonCommand::Token(command) => access::token(&command, &client.connect().await?, out).await,
        DaemonCommand::Role(command) => access::role(&command, &client.connect().await?, out).await,
        DaemonCommand::Budget(command) => access::budget(&command, &client.connect().await?, out).await,
        DaemonCommand::Whoami => access::who_am_i(&client.connect().await?, out).await,
        DaemonCommand::Doctor => doctor::run(&client.connect().await?, out).await,
        DaemonCommand::Debug(command) => debug::run(&command, &client.connect().await?, out).await,
        DaemonCommand::LogLevel(args) => debug::log_level(&args, &client.connect().await?, out).await,
        DaemonCommand::Status => status::run(&client.connect().await?, out).await,
    }
}

/// Runs a command and flushes its output, even if it failed halfway.
fn with_output(mut out: Out, command: impl FnOnce(&mut Out) -> Result<(), Failure>) -> Result<(), Failure> {
    let result = command(&mut out);
    let flushed = out.flush();
    result.and(flushed)
}

/// Returns a runtime with one worker thread, which serves the connection while the main thread prints.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Failure::Runtime)
}
