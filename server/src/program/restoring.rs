//! The interactive part of `kentd restore`: prints the plan, asks for confirmation, and prints the result.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
};

use super::{auditing::audited, fail};
use crate::maintenance::{
    archive::FromArchive,
    restore::{Restore, RestoreArgs, RestoreError, Skip},
};
use kent_ids::{counted_be, grouped};
use kent_regions::Count;

/// The maximum number of known and of unknown counters to list; the rest are only counted.
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
    let note = format!("from {} into {}", args.source.display(), args.data.display());
    match audited(&args.audit, ("store.restore", &note), write(restore, args)).await {
        Err(error) => fail(1, &error),
        Ok(Err(error)) => fail(1, &error),
        Ok(Ok(())) => {
            let data = args.data.display();
            match args.archive {
                false => println!("restored into {data}: start it with kentd --data {data}"),
                true => println!(
                    "restored into {data}: start it with kentd --data {data} --archive DIR, with the archive it had before"
                ),
            }
            ExitCode::SUCCESS
        }
    }
}

async fn write(restore: Restore, args: &RestoreArgs) -> Result<(), RestoreError> {
    restore.write(args).await
}

fn print(args: &RestoreArgs, restore: &Restore) {
    if let Some(archive) = &restore.archive {
        return print_archive(archive, restore);
    }
    let taken = restore.taken.rfc3339(0).unwrap_or_else(|| "an unknown time".to_owned());
    let source = args.source.display();
    match args.source.is_dir() {
        true if restore.is_archive_as_backup => println!(
            "{source}, an archive that is restored as a backup: with --archive nothing would be lost, skipped or sealed (kentd restore \
             --archive {source} --data {})",
            args.data.display()
        ),
        true => println!("{source}, a directory"),
        false => println!("{}, a backup of {taken}", args.source.display()),
    }
    list_skips(restore);
    if !args.clock_error.0.is_zero() {
        println!(
            "nothing is issued for {}, because the clock of a lost host may have been that far ahead (--clock-error)",
            args.clock_error
        );
    }
    match (args.table_unchanged, restore.sealed) {
        (true, _) => println!("tables: unchanged, because of --table-unchanged"),
        (false, sealed) => println!(
            "tables: {} sealed. Repeat every create, split, subdivide, expand, shrink, delegate and change of a step since the \
             backup. For every region that was created or moved with --next, set a number above all in use (kent region set NAME --space SPACE --next N). Then \
             unseal the regions (kent region unseal NAME --space SPACE). If there were no such edits, pass --table-unchanged",
            counted_be(sealed, "region")
        ),
    }
    print_callers(restore);
    match &args.restored_before {
        Some(older) => {
            println!(
                "identifiers issued by the store that was restored from {} are skipped as well; if that restore had a --floor, pass a floor \
                 above all numbers that this store issued",
                older.display()
            )
        }
        None => println!(
            "if an older backup of this store was restored before, pass --restored-before FILE: this backup does not bound what the restored \
             store issued"
        ),
    }
}

fn print_archive(archive: &FromArchive, restore: &Restore) {
    println!("{}, the archive of store {}", archive.dir.display(), archive.store);
    println!(
        "{} records at revision {}; the last slot was written at {}",
        archive.records,
        archive.revision,
        restore.taken.rfc3339(0).unwrap_or_default()
    );
    println!("it contains every acknowledged commit: nothing is skipped or sealed");
    print_callers(restore);
    println!("the archive will belong to the new store: the old store cannot be started or restored again");
}

/// Prints what happens to tokens and budgets.
fn print_callers(restore: &Restore) {
    if restore.disabled_tokens > 0 {
        println!(
            "{} disabled. Create new ones (kent token create NAME --allow ACTION:RESOURCE), or pass --keep-tokens if none was revoked since",
            counted_be(restore.disabled_tokens, "token")
        );
    }
    if restore.used_layouts > 0 {
        println!(
            "layouts: {} marked as used. Create each layout that was created since the backup again, with the same fields, before \
             another layout gets its name",
            counted_be(restore.used_layouts, "layout")
        );
    }
    if restore.marked_budgets > 0 {
        println!(
            "{} counted as of the backup: later use is not known. Lower each total by the number that may have been used since (kent budget \
             show, kent budget set HOLDER RESOURCE TOTAL)",
            counted_be(restore.marked_budgets, "budget")
        );
    }
}

/// Prints how far each counter moves.
pub(super) fn list_skips(restore: &Restore) {
    println!(
        "time-based sources: every slot is reserved until {}",
        restore.reserved_until.nanos().rfc3339(0).unwrap_or_default()
    );
    // Sources that need an operator's decision come first and have their own maximum, so that many other sources cannot
    // hide them.
    let (known, unsure): (Vec<&Skip>, Vec<&Skip>) = restore.skips.iter().partition(|skip| skip.to.is_some());
    for Skip { source, from, .. } in unsure.iter().take(LISTED_MAX) {
        println!(
            "{source}: {} -> unknown, because it may have issued every identifier that was left; nothing is issued without --floor {source}=N",
            count(*from)
        );
    }
    for Skip { source, from, to } in known.iter().take(LISTED_MAX) {
        let to = to.unwrap_or(*from);
        let skipped = skipped(*from, to).map_or_else(|| "2^128".to_owned(), grouped);
        println!("{source}: {} -> {}, {skipped} skipped", count(*from), count(to));
    }
    let listed = unsure.len().min(LISTED_MAX) + known.len().min(LISTED_MAX);
    if restore.skips.len() > listed {
        println!(
            "and {} more counters, {} of them unknown",
            grouped(restore.skips.len() - listed),
            grouped(unsure.len().saturating_sub(LISTED_MAX))
        );
    }
}

/// Formats a count with its digits in groups.
fn count(count: Count) -> String {
    match count {
        Count::Below(count) => grouped(count),
        Count::Max => count.to_string(),
    }
}

fn skipped(from: Count, to: Count) -> Option<u128> {
    match (from, to) {
        (Count::Below(from), Count::Below(to)) => Some(to - from), // OK because a counter only moves forward
        (Count::Max, Count::Max) => Some(0),
        _ => None,
    }
}

pub(super) fn ask(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        println!("not a terminal: pass --yes to confirm");
        return false;
    }
    print!("{question}");
    let mut answer = String::new();
    // OK because a missing answer counts as no.
    let _ = io::stdout().flush().and_then(|()| io::stdin().lock().read_line(&mut answer).map(drop));
    matches!(answer.trim(), "y" | "Y" | "yes")
}
