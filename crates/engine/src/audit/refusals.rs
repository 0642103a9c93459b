//! Deduplicates refusals: writes the first refusal at once, then one line per minute with the number of repetitions. A
//! flood of refusals therefore neither fills the disk nor rotates other events away.

use std::{collections::HashMap, time::Duration};

use super::line::Line;

/// The period that one summary line covers.
const WINDOW: Duration = Duration::from_secs(60);

/// The maximum number of different refusals that are counted separately in a window. The rest are counted together.
const KINDS_MAX: usize = 200;

/// The refusals of the current windows.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    kinds: HashMap<Kind, Repeated>,
    /// The refusals of all further kinds, once [`KINDS_MAX`] kinds are counted separately.
    others: Option<Repeated>,
}

/// What repeated refusals have in common. The name that a caller claims is ignored, because the caller can change it
/// each time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    /// The caller's address without its port.
    host: String,
    principal: String,
    action: String,
    method: String,
    code: String,
    reason: String,
}

#[derive(Debug)]
struct Repeated {
    began: Duration,
    /// The first refusal, which has already been written.
    first: Line,
    /// The number of refusals that were counted but not written.
    held: u64,
}

impl Kind {
    fn of(line: &Line) -> Self {
        // The port of an address and the process ID at a Unix socket differ between connections.
        let end = if line.peer.starts_with("unix:") { ",pid=" } else { ":" };
        let host = line.peer.rsplit_once(end).map_or(&*line.peer, |(host, _)| host);
        Self {
            host: host.to_owned(),
            principal: line.principal.clone(),
            action: line.action.clone(),
            method: line.method.clone(),
            code: line.code.clone(),
            reason: line.reason.clone(),
        }
    }
}

impl Repeated {
    /// The summary of the refusals that were only counted, if there are any.
    fn summary(self) -> Option<Line> {
        let Self { first, held, .. } = self;
        // The request ID belongs only to the first refusal.
        (held > 0).then(|| Line { count: Some(held), since: first.time.clone(), request_id: String::new(), ..first })
    }
}

impl Refusals {
    /// Returns true if the refusal must be written; otherwise counts it.
    pub(super) fn admit(&mut self, line: &Line, now: Duration) -> bool {
        let kind = Kind::of(line);
        if let Some(repeated) = self.kinds.get_mut(&kind) {
            repeated.held += 1; // OK because it does not overflow in the age of the universe
            return false;
        }
        if self.kinds.len() < KINDS_MAX {
            self.kinds.insert(kind, Repeated { began: now, first: line.clone(), held: 0 });
            return true;
        }
        let first = || Line {
            time: line.time.clone(),
            action: line.action.clone(),
            outcome: line.outcome.clone(),
            note: "callers and reasons beyond those listed in this minute".to_owned(),
            ..Line::default()
        };
        self.others.get_or_insert_with(|| Repeated { began: now, first: first(), held: 0 }).held += 1; // OK as above
        false
    }

    /// Removes and returns the summaries of the windows that have ended.
    pub(super) fn take_due(&mut self, now: Duration) -> Vec<Line> {
        let is_due = |repeated: &Repeated| now.saturating_sub(repeated.began) >= WINDOW;
        let due = self.kinds.extract_if(|_, repeated| is_due(repeated)).map(|(_, repeated)| repeated);
        let mut summaries: Vec<Line> = due.filter_map(Repeated::summary).collect();
        summaries.sort_by(|one, other| one.since.cmp(&other.since));
        summaries.extend(self.others.take_if(|others| is_due(others)).and_then(Repeated::summary));
        summaries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(peer: &str, principal: &str, action: &str) -> Line {
        let [peer, principal, action] = [peer, principal, action].map(str::to_owned);
        Line { time: "t".to_owned(), peer, principal, action, outcome: "denied".to_owned(), ..Line::default() }
    }

    #[test]
    fn ok_refusals_of_different_methods_are_counted_apart() {
        let mut refusals = Refusals::default();
        let of = |method: &str, request_id: &str| {
            let [method, request_id] = [method, request_id].map(str::to_owned);
            Line { method, request_id, ..line("10.0.0.1:5", "ann", "call") }
        };
        for (method, request_id, is_written) in
            [("a", "1", true), ("b", "2", true), ("a", "3", false), ("b", "4", false)]
        {
            assert_eq!(refusals.admit(&of(method, request_id), SECOND), is_written, "{method} {request_id}");
        }
        let mut found: Vec<_> =
            refusals.take_due(SECOND * 61).into_iter().map(|line| (line.method, line.request_id, line.count)).collect();
        found.sort();
        assert_eq!(found, ["a", "b"].map(|method| (method.to_owned(), String::new(), Some(1))));
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ok_the_first_refusal_is_written_and_the_others_are_counted() {
        let mut refusals = Refusals::default();
        assert!(refusals.admit(&line("10.0.0.1:5", "ann", "a"), SECOND));
        for port in 6..10 {
            assert!(!refusals.admit(&line(&format!("10.0.0.1:{port}"), "ann", "a"), SECOND));
        }
        for (peer, principal, action) in [
            ("10.0.0.2:5", "ann", "a"),
            ("10.0.0.1:5", "bob", "a"),
            ("10.0.0.1:5", "ann", "b"),
            ("unix:uid=1,gid=1,pid=7", "ann", "a"),
            ("unix:uid=2,gid=1,pid=7", "ann", "a"),
        ] {
            assert!(refusals.admit(&line(peer, principal, action), SECOND), "{peer} {principal} {action}");
        }
        assert!(!refusals.admit(&line("unix:uid=1,gid=1,pid=8", "ann", "a"), SECOND * 2));
        assert!(refusals.take_due(SECOND * 60).is_empty());
        let summaries = refusals.take_due(SECOND * 61);
        let mut counts: Vec<_> = summaries.iter().map(|line| line.count).collect();
        counts.sort_unstable();
        assert_eq!(counts, [Some(1), Some(4)]);
        assert!(refusals.admit(&line("10.0.0.1:5", "ann", "a"), SECOND * 62));
    }

    #[test]
    fn ok_a_flood_of_different_callers_takes_bounded_memory_and_few_lines() {
        let mut refusals = Refusals::default();
        let written = (0..100_000).filter(|n| refusals.admit(&line(&format!("h{n}:1"), "", "a"), SECOND)).count();
        assert_eq!((written, refusals.kinds.len()), (KINDS_MAX, KINDS_MAX));
        let summaries = refusals.take_due(SECOND * 100);
        let expected = 100_000 - KINDS_MAX as u64;
        assert_eq!(summaries.iter().map(|line| line.count).collect::<Vec<_>>(), [Some(expected)]);
    }
}
