//! The program: reads the configuration, starts the daemon, waits for a signal, and stops the daemon.

mod auditing;
mod migrating;
mod restoring;
mod supervision;

use std::{env, future, io, process::ExitCode};

use anstyle::AnsiColor;
use kent_engine::{
    audit::{Audit, By, Event, Outcome},
    causes::chain,
    host::{
        clock::{Clock, SystemClock},
        flight,
    },
};
use rustix::fs::Mode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::{
    args::{Args, Command},
    config::{Config, LogFormat, misspelt_variables},
    daemon::Daemon,
    telemetry,
};

/// The permissions that the daemon denies on its files: all those of the group and of other users.
const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);

/// Exit code for a command line or a configuration that cannot be used (EX_USAGE).
const USAGE: u8 = 64;

/// Runs the program with the arguments and the environment of the process, and returns its exit code.
pub fn run() -> ExitCode {
    // The store, its archive and a restored store contain secret keys. sled opens its files itself, so only the umask
    // can set their permissions.
    rustix::process::umask(OTHERS);
    let args = Args::read().unwrap_or_else(|error| error.exit());
    let check_only = args.check_config;
    if let Some(Command::Restore(restore)) = args.command {
        return match runtime() {
            Ok(runtime) => runtime.block_on(restoring::run(&restore)),
            Err(error) => fail(1, &error),
        };
    }
    if let Some(Command::Migrate(migrate)) = args.command {
        return match runtime() {
            Ok(runtime) => runtime.block_on(migrating::run(&migrate)),
            Err(error) => fail(1, &error),
        };
    }
    if let Some(Command::Man { dir }) = &args.command {
        return match Args::write_manual(dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let at = dir.display();
                let problem = format!(
                    "cannot write to {at}: {error}; name a directory that you can write to, as in `kentd man ./man`"
                );
                fail(1, &io::Error::other(problem))
            }
        };
    }
    let config = match args.into_config() {
        Ok(config) => config,
        Err(error) => return fail(USAGE, &error),
    };
    let variables = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let misspelt = misspelt_variables(variables);
    if check_only {
        return check(&config, &misspelt);
    }
    let (repeats, audit) = match telemetry::start(&config) {
        Ok(started) => started,
        Err(error) => return fail(USAGE, &error),
    };
    flight::log_on_panic();
    for (variable, near) in misspelt {
        warn!(variable, "kentd does not read this variable; did you mean {near}?");
    }
    match runtime() {
        Ok(runtime) => {
            let code = runtime.block_on(async {
                tokio::select! {
                    code = serve(config, audit.clone()) => code,
                    () = repeats.report() => ExitCode::FAILURE, // `report` never returns
                    () = report(audit.as_ref()) => ExitCode::FAILURE, // never returns either
                    () = toggle_debug() => ExitCode::FAILURE, // never returns either
                }
            });
            // Do not wait for a thread that may still be resolving a host name.
            runtime.shutdown_background();
            audit.iter().for_each(Audit::report_rest);
            repeats.report_rest();
            code
        }
        Err(error) => fail(1, &error),
    }
}

/// Prints the settings in force, after warnings about them on standard error.
fn check(config: &Config, misspelt: &[(String, String)]) -> ExitCode {
    if let Err(error) = telemetry::check(config) {
        return fail(USAGE, &error);
    }
    let now = SystemClock::new().wall();
    let warnings = match config.tls.as_ref().map(|files| files.warnings(now)).transpose() {
        Ok(warnings) => warnings.unwrap_or_default(),
        Err(error) => return fail(USAGE, &error),
    };
    for (variable, near) in misspelt {
        eprintln!("warning: kentd does not read the variable {variable}; did you mean {near}?");
    }
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    print!("{config}");
    ExitCode::SUCCESS
}

/// The number of threads for the daemon's own tasks. No gRPC call runs on these threads. Two of these tasks can read
/// large tables at the same time.
const DAEMON_THREADS: usize = 4;

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(DAEMON_THREADS).enable_all().build()
}

/// Turns the log level `debug` on or off at each SIGUSR1. Never returns.
async fn toggle_debug() {
    match signal(SignalKind::user_defined1()) {
        Ok(mut signals) => {
            while signals.recv().await.is_some() {
                telemetry::toggle_debug();
            }
        }
        Err(error) => warn!(%error, "cannot listen for SIGUSR1"),
    }
    future::pending().await
}

/// Writes the summaries of the audit log. Never returns.
async fn report(audit: Option<&Audit>) {
    match audit {
        Some(audit) => audit.report().await,
        None => future::pending().await,
    }
}

/// Completes when the audit log cannot be written although the settings require it.
async fn unaudited(audit: Option<&Audit>) {
    match audit {
        Some(audit) => audit.failed().await,
        None => future::pending().await,
    }
}

async fn serve(config: Config, audit: Option<Audit>) -> ExitCode {
    let is_json = config.set.log_format == LogFormat::Json;
    // Listen for signals before anything is opened, so that every signal leads to a clean stop.
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return fail(1, &error),
    };
    let started = tokio::select! {
        biased;
        name = signals.next() => {
            info!(signal = name, "stopped before the daemon served");
            return ExitCode::SUCCESS;
        }
        started = Daemon::start(config) => started,
    };
    let daemon = match started {
        Ok(daemon) => daemon,
        Err(error) => {
            // Report the error only once, because the log goes to standard error as well.
            if is_json {
                error!(error = chain(&error), "kentd cannot start");
                return ExitCode::from(1);
            }
            return fail(1, &error);
        }
    };
    let note = format!("kentd {} at {}", env!("CARGO_PKG_VERSION"), daemon.grpc_addresses());
    Event::new("daemon.start", &By::daemon(), "").note(&note).record(Outcome::Done);
    let (grpc, http) = (daemon.grpc_addresses(), daemon.http_address());
    match daemon.redis_address() {
        None => println!("kentd serves gRPC on {grpc} and HTTP on {http}"),
        Some(redis) => println!("kentd serves gRPC on {grpc}, HTTP on {http} and Redis on {redis}"),
    }
    supervision::report_serving(&daemon);
    let by_signal = tokio::select! {
        name = signals.next() => { info!(signal = name, "draining"); true }
        () = daemon.failed() => {
            match daemon.is_store_replaced() {
                true => stay(&daemon, &mut signals).await,
                false => error!("a part of the daemon failed; stopping"),
            }
            false
        }
        () = unaudited(audit.as_ref()) => {
            error!("the audit log cannot be written, and --audit-required is set; stopping");
            false
        }
        () = supervision::report_alive(&daemon) => false, // never returns
    };
    supervision::report_stopping();
    let clean = daemon.stop().await;
    Event::new("daemon.stop", &By::daemon(), "").record(if clean { Outcome::Done } else { Outcome::Failed });
    match (by_signal, clean) {
        (true, true) => {
            info!("stopped; all ceilings are written to the store");
            ExitCode::SUCCESS
        }
        (true, false) => {
            warn!("stopped before all requests finished");
            ExitCode::SUCCESS
        }
        (false, _) => ExitCode::FAILURE,
    }
}

/// Waits for a signal although the daemon issues nothing more. If the process ended, its supervisor would start another
/// one, which could not know that the store was replaced or rolled back.
async fn stay(daemon: &Daemon, signals: &mut Signals) {
    error!(
        "the store was replaced or rolled back: this process issues nothing more, and waits for SIGTERM so that no supervisor starts \
         another one. Stop all replicas, then create a new store from a backup"
    );
    tokio::select! {
        name = signals.next() => info!(signal = name, "stopping"),
        () = supervision::report_alive(daemon) => {} // never returns
    }
}

/// SIGTERM and Ctrl-C.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name. A signal that arrived after `listen` is not lost.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn fail(code: u8, error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let red = AnsiColor::Red.on_default().bold();
    // anstream leaves the color out if standard error is not a terminal, or if NO_COLOR or CLICOLOR says so.
    anstream::eprintln!("{red}error:{red:#} {}", chain(error));
    ExitCode::from(code)
}
