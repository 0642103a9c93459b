//! For each editing command, the command to run if no answer arrives: it shows whether the edit was made.

use crate::args::{
    ApproveArgs, BudgetCommand, DaemonCommand, EditArgs, LayoutCommand, RegionCommand, RequestCommand, RoleCommand,
    SeriesCommand, SpaceCommand, TableCommand, TokenCommand,
};
use crate::failure::Edit;
use crate::names;

/// Returns how to find out whether the edit of a command was made, or `None` if the command changes nothing.
pub(crate) fn find_out(command: &DaemonCommand) -> Option<Edit> {
    let shown_by = |command: &str| Some(Edit { command: command.to_owned(), is_named: false });
    match command {
        DaemonCommand::Region(command) => of_region(command),
        DaemonCommand::Space(SpaceCommand::Create(args)) if !args.dry_run => shown_by("kent space ls"),
        DaemonCommand::Space(SpaceCommand::Delete(args)) if !args.dry_run => shown_by("kent space ls"),
        DaemonCommand::Layout(command) => match command {
            LayoutCommand::Create(args) if args.dry_run => None,
            LayoutCommand::Create(_) | LayoutCommand::Delete { .. } => shown_by("kent layout ls"),
            LayoutCommand::Ls
            | LayoutCommand::Show { .. }
            | LayoutCommand::History(_)
            | LayoutCommand::Watch { .. }
            | LayoutCommand::Presets => None,
        },
        DaemonCommand::Series(SeriesCommand::Create(_) | SeriesCommand::Forget(_)) => shown_by("kent series ls"),
        DaemonCommand::Request(command) => match &**command {
            RequestCommand::Approve(args) if args.edit.dry_run => None,
            RequestCommand::Approve(ApproveArgs { id, edit: EditArgs { space, .. }, .. })
            | RequestCommand::Decline { id, space, .. }
            | RequestCommand::Withdraw { id, space, .. } => {
                shown_by(&format!("kent request show {id}{}", names::space_option(&space.space)))
            }
            RequestCommand::Ls { .. } | RequestCommand::Show { .. } => None,
        },
        DaemonCommand::Token(command) => match command {
            TokenCommand::Create(_) | TokenCommand::Rotate(_) | TokenCommand::Revoke { .. } => {
                shown_by("kent token ls")
            }
            TokenCommand::Ls { .. } => None,
        },
        DaemonCommand::Budget(BudgetCommand::Set { .. } | BudgetCommand::Add { .. } | BudgetCommand::Rm { .. }) => {
            shown_by("kent budget show")
        }
        DaemonCommand::Role(RoleCommand::Set(_) | RoleCommand::Rm { .. }) => shown_by("kent role ls"),
        DaemonCommand::Table(TableCommand::Import(args)) if !args.dry_run => {
            shown_by(&format!("kent table import {}{} --dry-run", args.file, names::space_option(&args.space.space)))
        }
        DaemonCommand::Adopt(args) if !args.dry_run => shown_by(&format!("kent adopt {} --dry-run", args.file)),
        DaemonCommand::Space(_)
        | DaemonCommand::Series(_)
        | DaemonCommand::Table(_)
        | DaemonCommand::Role(_)
        | DaemonCommand::Budget(_)
        | DaemonCommand::Whoami
        | DaemonCommand::Classify(_)
        | DaemonCommand::Adopt(_)
        | DaemonCommand::Watch(_)
        | DaemonCommand::Backup { .. }
        | DaemonCommand::Clock { .. }
        | DaemonCommand::Doctor
        | DaemonCommand::Debug(_)
        | DaemonCommand::LogLevel(_)
        | DaemonCommand::Status => None,
    }
}

fn of_region(command: &RegionCommand) -> Option<Edit> {
    let (name, edit) = match command {
        RegionCommand::Ask(args) => {
            let command = format!("kent request ls{}", names::space_option(&args.space.space));
            return Some(Edit { command, is_named: false });
        }
        RegionCommand::Create(args) if !args.plan => (&*args.name, &args.edit),
        RegionCommand::Expand(args) | RegionCommand::Shrink(args) => (&*args.name, &args.edit),
        RegionCommand::Split(args) => (&*args.name, &args.edit),
        RegionCommand::Subdivide(args) => (&*args.name, &args.edit),
        RegionCommand::Delegate(args) | RegionCommand::Seal(args) | RegionCommand::Unseal(args) => {
            (&*args.name, &args.edit)
        }
        RegionCommand::Set(args) => (&*args.name, &args.edit),
        RegionCommand::Delete(args) => (&*args.name, &args.edit),
        RegionCommand::Undo(args) => (args.name.as_deref().unwrap_or_default(), &args.edit),
        // The region has the old or the new name, depending on the outcome, so show the history of the whole space.
        RegionCommand::Rename(args) => ("", &args.edit),
        RegionCommand::Create(_)
        | RegionCommand::Ls(_)
        | RegionCommand::Tree(_)
        | RegionCommand::Show(_)
        | RegionCommand::History(_)
        | RegionCommand::Id(_) => return None,
    };
    let space = names::space_option(&edit.space.space);
    let command = match name {
        "" => ["kent region history", &space].concat(),
        name => format!("kent region history {name}{space}"),
    };
    (!edit.dry_run).then_some(Edit { command, is_named: edit.request_id.is_some() })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn edit(words: &str) -> Option<Edit> {
        let cli = Cli::try_parse_from(["kent"].into_iter().chain(words.split_whitespace())).expect(words);
        let Command::Daemon(command) = cli.command else { panic!("{words}") };
        find_out(&command)
    }

    #[test]
    fn ok_the_command_that_finds_out_is_complete() {
        for (words, command) in [
            ("region create r --suffix 4", "kent region history r --space default"),
            ("region expand r --by 1 --space s", "kent region history r --space s"),
            ("region split r --by 1", "kent region history r --space default"),
            ("region subdivide r --by 1 --new n:4", "kent region history r --space default"),
            ("region seal r --space a/b", "kent region history r --space a/b"),
            ("region rename r q --space s", "kent region history --space s"),
            ("region set r --owner ops", "kent region history r --space default"),
            ("space create s --bits 8", "kent space ls"),
            ("series create serial:X", "kent series ls"),
            ("table import f --space s", "kent table import f --space s --dry-run"),
        ] {
            assert_eq!(edit(words), Some(Edit { command: command.to_owned(), is_named: false }), "{words}");
        }
        assert!(edit("region seal r --request-id 7").is_some_and(|edit| edit.is_named));
        for words in ["region create r --suffix 4 --plan", "region expand r --by 1 --dry-run", "region ls", "status"] {
            assert_eq!(edit(words), None, "{words}");
        }
    }
}
