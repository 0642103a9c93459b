//! `kentd restore`, as the operator sees it: what would be skipped, a question, and what was done.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
};

use kent_regions::Count;
use kentd::{FromArchive, Restore, RestoreArgs, RestoreError, Skip};

use super::fail;

/// Counters that are listed before the rest is only counted.
const LISTED_MAX: usize = 40;

pub(super) async fn run(args: &RestoreArgs) -> ExitCode {
    let restore = match Restore::plan(args).await {
        Ok(restore) => restore,
        Err(error) => return fail(1, &error),
    };
    print(args, &restore);
    if args.dry_run {
        println!("dry run: nothing was written");
        return ExitCode::SUCCESS;
    }
    match args.yes || ask("write the new store? [y/N] ") {
        true => {}
        false => {
            println!("nothing was written");
            return ExitCode::FAILURE;
        }
    }
    match write(restore, args).await {
        Ok(()) => {
            let data = args.data.display();
            match args.archive {
                false => println!("restored into {data}: start it with kentd --data {data}"),
                true => println!("restored into {data}: start it with kentd --data {data} --archive DIR, as it was"),
            }
            ExitCode::SUCCESS
        }
        Err(error) => fail(1, &error),
    }
}

async fn write(restore: Restore, args: &RestoreArgs) -> Result<(), RestoreError> {
    restore.write(args).await
}

fn print(args: &RestoreArgs, restore: &Restore) {
    if let Some(archive) = &restore.archive {
        return tell_archive(archive, restore);
    }
    let taken = restore.taken.rfc3339(0).unwrap_or_else(|| "an unknown time".to_owned());
    match args.source.is_dir() {
        true => println!("{}, a directory", args.source.display()),
        false => println!("{}, a backup of {taken}", args.source.display()),
    }
    list_skips(restore);
    if !args.clock_error.is_zero() {
        println!(
            "nothing is issued for {}, in case that the clock of a lost host was ahead (--clock-error)",
            humantime::format_duration(args.clock_error)
        );
    }
    match (args.table_unchanged, restore.sealed) {
        (true, _) => println!("tables: as they were; you say that none was edited since"),
        (false, sealed) => println!(
            "tables: {sealed} regions are sealed. Repeat what was created, split, subdivided, expanded, shrunk or delegated since the \
             backup. For what was made or moved with --next, name a number above every one in use (kent region set NAME --next N). Then \
             unseal them (kent region unseal NAME); --table-unchanged if there was nothing"
        ),
    }
    match &args.restored_before {
        Some(older) => println!("what a store issued that was restored from {} is skipped as well", older.display()),
        None => println!(
            "an older backup: if one of this store was restored before, say --restored-before FILE, since this one does not bound what \
             was issued there"
        ),
    }
}

fn tell_archive(archive: &FromArchive, restore: &Restore) {
    println!("{}, the archive of store {}", archive.dir.display(), archive.store);
    println!(
        "{} records at revision {}; the last slot was written at {}",
        archive.records,
        archive.revision,
        restore.taken.rfc3339(0).unwrap_or_default()
    );
    println!("it has every commit that was acknowledged: nothing is skipped, and nothing is sealed");
    println!("the archive goes over to the new store: the old one cannot be started or restored again");
}

/// From where to where counters go.
pub(super) fn list_skips(restore: &Restore) {
    println!(
        "time-based sources: every slot is reserved until {}",
        restore.reserved_until.nanos().rfc3339(0).unwrap_or_default()
    );
    // Sources that need an operator come first: they are listed whatever else there is.
    let (known, unsure): (Vec<&Skip>, Vec<&Skip>) = restore.skips.iter().partition(|skip| skip.to.is_some());
    for Skip { source, from, .. } in unsure.iter().take(LISTED_MAX) {
        println!(
            "{source}: {from} -> unknown, since it may have issued all that is left: nothing is issued without --floor {source}=N"
        );
    }
    for Skip { source, from, to } in known.iter().take(LISTED_MAX) {
        let to = to.unwrap_or(*from);
        let skipped = skipped(*from, to).map_or_else(|| "2^128".to_owned(), |skipped| skipped.to_string());
        println!("{source}: {from} -> {to}, {skipped} skipped");
    }
    let listed = unsure.len().min(LISTED_MAX) + known.len().min(LISTED_MAX);
    if restore.skips.len() > listed {
        println!(
            "and {} more counters, {} of them unknown",
            restore.skips.len() - listed,
            unsure.len().saturating_sub(LISTED_MAX)
        );
    }
}

fn skipped(from: Count, to: Count) -> Option<u128> {
    match (from, to) {
        (Count::Below(from), Count::Below(to)) => Some(to - from), // OK because a counter is moved ahead only
        (Count::Max, Count::Max) => Some(0),
        _ => None,
    }
}

pub(super) fn ask(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        println!("say --yes to do it");
        return false;
    }
    print!("{question}");
    let mut answer = String::new();
    // OK because no answer is no.
    let _ = io::stdout().flush().and_then(|()| io::stdin().lock().read_line(&mut answer).map(drop));
    matches!(answer.trim(), "y" | "Y" | "yes")
}
