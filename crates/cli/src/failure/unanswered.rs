//! Calls that a daemon accepted and did not answer: whether they took effect is unknown. The message names the endpoint and, for an
//! edit, the command that finds out.

use std::fmt;

use kent_client::tonic::Code;
use serde_json::{Value, json};

use super::Refusal;
use crate::args::{DaemonCommand, RegionCommand, SeriesCommand, SpaceCommand, TableCommand};
use crate::connect::call_timeout;

use crate::names;

/// A call without an answer.
#[derive(Debug)]
pub(crate) struct Unanswered {
    endpoint: String,
    refusal: Refusal,
    /// For an edit.
    edit: Option<Edit>,
}

/// How to find out whether an edit was made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The command that shows it.
    command: String,
    /// The edit has a request ID.
    is_named: bool,
}

impl Edit {
    /// How to find out about the edit of a command. `None` if the command changes nothing.
    pub(crate) fn of(command: &DaemonCommand) -> Option<Self> {
        let shown_by = |command: &str| Some(Self { command: command.to_owned(), is_named: false });
        match command {
            DaemonCommand::Region(command) => Self::of_region(command),
            DaemonCommand::Space(SpaceCommand::Create(args)) if !args.dry_run => shown_by("kent space ls"),
            DaemonCommand::Space(SpaceCommand::Delete(args)) if !args.dry_run => shown_by("kent space ls"),
            DaemonCommand::Series(SeriesCommand::Create(_) | SeriesCommand::Forget(_)) => shown_by("kent series ls"),
            DaemonCommand::Table(TableCommand::Import(args)) if !args.dry_run => shown_by(&format!(
                "kent table import {} --dry-run{}",
                args.file,
                names::space_option(&args.space.space)
            )),
            DaemonCommand::Space(_)
            | DaemonCommand::Series(_)
            | DaemonCommand::Table(_)
            | DaemonCommand::Classify(_)
            | DaemonCommand::Watch(_)
            | DaemonCommand::Backup { .. }
            | DaemonCommand::Clock { .. }
            | DaemonCommand::Doctor
            | DaemonCommand::Status => None,
        }
    }

    fn of_region(command: &RegionCommand) -> Option<Self> {
        let (name, edit) = match command {
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
            // Which of the two names the region has depends on whether it was renamed.
            RegionCommand::Rename(args) => ("", &args.edit),
            RegionCommand::Create(_)
            | RegionCommand::Ls(_)
            | RegionCommand::Tree(_)
            | RegionCommand::Show(_)
            | RegionCommand::History(_)
            | RegionCommand::Id(_) => return None,
        };
        let (space, named) = (names::space_option(&edit.space.space), if name.is_empty() { "" } else { " " });
        let command = format!("kent region history{named}{name}{space}");
        (!edit.dry_run).then_some(Self { command, is_named: !edit.request_id.is_empty() })
    }
}

impl Unanswered {
    /// The call of a refusal that is in fact a missing answer.
    ///
    /// # Errors
    ///
    /// The refusal, if a daemon sent it and nothing changed.
    pub(crate) fn new(refusal: Refusal, endpoint: String, edit: Option<Edit>) -> Result<Self, Refusal> {
        let is_unknown = edit.is_some() && refusal.reason.as_deref() == Some("OUTCOME_UNKNOWN");
        if is_unknown || refusal.is_broken || is_late(&refusal) {
            Ok(Self { endpoint, refusal, edit })
        } else {
            Err(refusal)
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("error: {self}\n");
        if let Some(Edit { command, is_named }) = &self.edit {
            text.push_str(&format!(
                "  The edit may have been made, or may still be made if the daemon continues.\n  To find out: {command}\n"
            ));
            if *is_named {
                text.push_str("  Or repeat the command: because of its --request-id, the edit is made only once.\n");
            }
        }
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut details = json!({"endpoint": self.endpoint});
        if let Some(Edit { command, .. }) = &self.edit {
            details["find_out"] = json!(command);
        }
        json!({"error": {
            "code": if is_late(&self.refusal) { "DEADLINE_EXCEEDED" } else { "UNKNOWN" },
            "reason": self.refusal.reason.as_deref().unwrap_or("NO_ANSWER"),
            "message": self.to_string(),
            "details": details,
        }})
    }
}

/// Whether the deadline passed: this client or the daemon cancelled the call.
fn is_late(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Cancelled | Code::DeadlineExceeded)
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, refusal, .. } = self;
        if is_late(refusal) {
            let time = humantime::format_duration(call_timeout());
            return write!(
                f,
                "{endpoint} accepted the call but did not answer within {time}: the daemon or its store hangs"
            );
        }
        write!(f, "{endpoint}: {}", refusal.message)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kent_client::tonic::Status;

    use super::*;
    use crate::args::{Cli, Command};

    fn edit(words: &str) -> Option<Edit> {
        let cli = Cli::try_parse_from(["kent"].into_iter().chain(words.split_whitespace())).expect(words);
        let Command::Daemon(command) = cli.command else { panic!("{words}") };
        Edit::of(&command)
    }

    #[test]
    fn ok_the_command_that_finds_out_is_complete() {
        for (words, command) in [
            ("region create r --suffix 4", "kent region history r"),
            ("region expand r --by 1 --space s", "kent region history r --space s"),
            ("region split r --by 1", "kent region history r"),
            ("region subdivide r --by 1 --new n:4", "kent region history r"),
            ("region seal r --space a/b", "kent region history r --space a/b"),
            ("region rename r q --space s", "kent region history --space s"),
            ("region set r --owner ops", "kent region history r"),
            ("space create s --bits 8", "kent space ls"),
            ("series create serial:X", "kent series ls"),
            ("table import f --space s", "kent table import f --dry-run --space s"),
        ] {
            assert_eq!(edit(words), Some(Edit { command: command.to_owned(), is_named: false }), "{words}");
        }
        assert!(edit("region seal r --request-id 7").is_some_and(|edit| edit.is_named));
        for words in ["region create r --suffix 4 --plan", "region expand r --by 1 --dry-run", "region ls", "status"] {
            assert_eq!(edit(words), None, "{words}");
        }
    }

    #[test]
    fn ok_only_a_missing_answer_is_unanswered() {
        let new = |status: Status, edit| Unanswered::new(Refusal::new(&status), "http://a/".to_owned(), edit);
        let seal = || edit("region seal r --request-id 7");
        let late = new(Status::cancelled("Timeout expired"), seal()).expect("no answer");
        let text = "error: http://a/ accepted the call but did not answer within 10s: the daemon or its store hangs
  The edit may have been made, or may still be made if the daemon continues.
  To find out: kent region history r
  Or repeat the command: because of its --request-id, the edit is made only once.\n";
        assert_eq!(late.to_text(), text);
        assert_eq!(late.to_json()["error"]["details"]["find_out"], json!("kent region history r"));
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let broken = new(Status::from_error(Box::new(reset)), None).expect("no answer");
        assert!(broken.to_text().starts_with("error: http://a/: the connection broke before the response"), "{broken}");
        assert!(!broken.to_text().contains("edit"));
        new(Status::not_found("no region"), seal()).expect_err("an answer");
    }
}
