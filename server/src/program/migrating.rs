//! The interactive part of `kentd migrate`: prints the plan, asks for confirmation, and prints the result.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use super::{
    auditing::audited,
    fail,
    restoring::{ask, list_skips},
};
use crate::maintenance::migrate::{MigrateArgs, MigrateError, Migration};

pub(super) async fn run(args: &MigrateArgs) -> ExitCode {
    match migrate(args).await {
        Ok(code) => code,
        Err(error) => fail(1, &error),
    }
}

async fn migrate(args: &MigrateArgs) -> Result<ExitCode, MigrateError> {
    let migration = Migration::plan(args).await?;
    println!("from {} to {}", args.from.display(), args.to);
    list_skips(&migration.restore);
    if args.dry_run {
        println!("dry run: nothing was moved");
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !ask("move the store? No daemon will start on the directory again [y/N] ") {
        println!("nothing was moved");
        return Ok(ExitCode::FAILURE);
    }
    let show_progress = io::stderr().is_terminal();
    let making = migration.make(|done, total| {
        if show_progress {
            print_progress(done, total)
        }
    });
    let note = format!("from {} to {}", args.from.display(), args.to);
    match audited(&args.audit, ("store.migrate", &note), making).await {
        Ok(made) => made?,
        Err(error) => return Ok(fail(1, &error)),
    }
    println!("moved: start replicas with kentd --store {}", args.to);
    Ok(ExitCode::SUCCESS)
}

fn print_progress(done: usize, total: usize) {
    let end = if done == total { "\n" } else { "" };
    eprint!("\r{done} of {total} records{end}");
    // OK because it is only a progress display.
    let _ = io::stderr().flush();
}
