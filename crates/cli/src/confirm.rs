//! Confirmation prompts on the terminal before an edit that cannot be undone, or that can be undone only until its
//! results are used.

use std::io::{self, BufRead, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use kent_proto::v1::{EditResponse, region::Kind};

use crate::failure::Failure;
use crate::notice;

/// Whether the command waits for an answer.
static ASKING: AtomicBool = AtomicBool::new(false);

/// Returns whether the command waits for an answer. If so, it has changed nothing yet.
pub(crate) fn is_asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

/// Returns whether a person can answer a question. Scripts get no questions, because they must not hang.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question, and returns true only if the answer is "y" or "yes".
pub(crate) fn ask(question: &str) -> Result<bool, Failure> {
    notice::write(&format!("{question} [y/N] "), false);
    let mut answer = String::new();
    ASKING.store(true, Ordering::Relaxed);
    let read = io::stdin().lock().read_line(&mut answer);
    ASKING.store(false, Ordering::Relaxed);
    read.map_err(Failure::Input)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Returns why an edit with this planned result may be permanent, or `None` if another edit can revert it.
pub(crate) fn permanence(plan: &EditResponse) -> Option<&'static str> {
    let changed = || plan.changes.iter().filter_map(|change| Some((change.before.as_ref()?, change.after.as_ref()?)));
    if changed().any(|(before, after)| before.prefix != after.prefix) {
        return Some("An undo works only while no other region uses the freed prefixes");
    }
    if changed().any(|(before, after)| before.kind() != Kind::Closed && after.kind() == Kind::Closed) {
        return Some("An undo works only until a subregion issues an identifier");
    }
    if changed().any(|(before, after)| before.issued != after.issued) {
        return Some("This cannot be undone: a counter never goes back");
    }
    None
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::{Region, RegionChange};

    use super::*;
    use crate::describe::samples::region;

    #[test]
    fn ok_only_edits_that_no_edit_reverts_are_permanent() {
        let open = || region("orders", "", "0", 5, Kind::Open);
        for (after, expected) in [
            (open(), None),
            (Region { zone_bits: 2, suffix_bits: 13, ..open() }, None),
            (Region { prefix: "00".to_owned(), ..open() }, Some("freed prefixes")),
            (Region { kind: Kind::Partial.into(), ..open() }, None),
            (Region { kind: Kind::Closed.into(), ..open() }, Some("until a subregion issues an identifier")),
            (Region { issued: "999".to_owned(), ..open() }, Some("counter")),
        ] {
            let plan = EditResponse {
                changes: vec![
                    RegionChange { before: Some(open()), after: Some(after) },
                    RegionChange { before: None, after: Some(region("new", "", "1", 1, Kind::Open)) },
                ],
                ..EditResponse::default()
            };
            let why = permanence(&plan);
            assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
            assert!(why.is_none_or(|why| why.contains(expected.unwrap_or_default())), "{why:?}");
        }
    }
}
