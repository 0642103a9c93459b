//! `kent audit`: prints the audit log of a daemon on this machine.

mod log;

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, BufRead};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use self::log::Log;
use crate::args::{AuditCommand, AuditTailArgs};
use crate::failure::Failure;
use crate::notice;
use crate::output::{Out, Palette, Role};

/// The polling interval of --follow.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn run(command: &AuditCommand, out: &mut Out) -> Result<(), Failure> {
    let AuditCommand::Tail(args) = command;
    if args.file == "-" {
        return pipe(args, out);
    }
    let unreadable = |error| {
        Failure::Usage(format!(
            "cannot read the audit log {}: {error}; name the file of `kentd --audit FILE`",
            args.file
        ))
    };
    let mut log = Log::open(&args.file).map_err(unreadable)?;
    let mut last = Last::new(args.lines);
    let keep = |line: &[u8]| -> Result<(), Failure> {
        last.add_if_wanted(line, args);
        Ok(())
    };
    log.read(keep).map_err(unreadable)??;
    last.write(&args.file, args, out)?;
    log.take_lost();
    if !args.follow {
        return Ok(());
    }
    loop {
        out.flush()?;
        thread::sleep(PAUSE);
        log.read(|line| show(line, args, out)).map_err(unreadable)??;
        if log.take_lost() {
            notice::warn("the log was rotated faster than it was read: events are missing here", out.is_json());
        }
    }
}

/// Prints the events of standard input: the last ones or, with --follow, all as they arrive.
fn pipe(args: &AuditTailArgs, out: &mut Out) -> Result<(), Failure> {
    let mut last = Last::new(args.lines);
    for line in io::stdin().lock().split(b'\n') {
        let line = line.map_err(Failure::Input)?;
        if args.follow {
            show(&line, args, out)?;
            out.flush()?;
        } else {
            last.add_if_wanted(&line, args);
        }
    }
    // A log on standard error also has other lines, so it may contain no events.
    if last.has_line && !last.has_event {
        notice::warn("standard input contains no audit events", out.is_json());
    }
    last.write_wanted("standard input", args, out)
}

fn show(line: &[u8], args: &AuditTailArgs, out: &mut Out) -> Result<(), Failure> {
    match Event::parse(line) {
        Some(event) if event.is_wanted(args) => event.write(out),
        None if is_damaged(line) => {
            notice::warn("a line of the log is damaged and was left out", out.is_json());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns whether a line that is not an event begins like one.
fn is_damaged(line: &[u8]) -> bool {
    line.starts_with(br#"{"time":"#)
}

/// The last events.
struct Last {
    lines: VecDeque<Event>,
    max: usize,
    /// Whether the log has any line, and whether it has any event.
    has_line: bool,
    has_event: bool,
    /// Whether any event matches the options.
    has_wanted: bool,
    /// The number of lines that are damaged.
    damaged: u64,
    /// The actions of the events, for a message. A log has only a few dozen different actions.
    actions: BTreeSet<String>,
}

/// The maximum number of actions that a message lists.
const ACTIONS_MAX: usize = 50;

impl Last {
    fn new(max: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            max,
            has_line: false,
            has_event: false,
            has_wanted: false,
            damaged: 0,
            actions: BTreeSet::new(),
        }
    }

    /// Prints the events of a file. Fails if the file has lines but no event, because it is not an audit log.
    fn write(&self, log: &str, args: &AuditTailArgs, out: &mut Out) -> Result<(), Failure> {
        if self.has_line && !self.has_event {
            return Err(Failure::Usage(format!(
                "{log} contains no audit events; name the file of `kentd --audit FILE`"
            )));
        }
        self.write_wanted(log, args, out)
    }

    /// Prints the events. If none of the log's events match the options, says so, because an empty output would look
    /// like an empty log.
    fn write_wanted(&self, log: &str, args: &AuditTailArgs, out: &mut Out) -> Result<(), Failure> {
        if self.has_event && !self.has_wanted {
            notice::warn(&self.nothing(log, args), out.is_json());
        }
        match self.damaged {
            0 => {}
            1 => notice::warn(&format!("{log}: 1 line is damaged and was left out"), out.is_json()),
            lines => notice::warn(&format!("{log}: {lines} lines are damaged and were left out"), out.is_json()),
        }
        self.lines.iter().try_for_each(|event| event.write(out))
    }

    fn nothing(&self, log: &str, args: &AuditTailArgs) -> String {
        let action = args.action.iter().map(|action| format!(" of action {action}"));
        let outcome = args.outcome.iter().map(|outcome| format!(" with outcome {outcome}"));
        let wanted: String = action.chain(outcome).collect();
        let actions: Vec<_> = self.actions.iter().map(String::as_str).collect();
        format!("{log} has no event{wanted}; the actions of its events are {}", actions.join(", "))
    }

    fn add_if_wanted(&mut self, line: &[u8], args: &AuditTailArgs) {
        let event = Event::parse(line);
        self.has_line = true;
        self.has_event |= event.is_some();
        self.damaged += u64::from(event.is_none() && is_damaged(line));
        if let Some(event) = event.as_ref().filter(|_| self.actions.len() < ACTIONS_MAX) {
            self.actions.insert(event.text("action"));
        }
        let wanted = event.filter(|event| event.is_wanted(args));
        self.has_wanted |= wanted.is_some();
        self.lines.extend(wanted);
        if self.lines.len() > self.max {
            self.lines.pop_front();
        }
    }
}

/// A line of the log.
struct Event {
    line: String,
    fields: Value,
}

impl Event {
    /// Parses a line. Returns `None` for a line that is not an event, such as another line on standard error.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = str::from_utf8(line).ok()?.trim_end().to_owned();
        let fields: Value = serde_json::from_str(&line).ok()?;
        ["time", "action", "outcome"].iter().all(|name| fields[name].is_string()).then_some(Self { line, fields })
    }

    /// Returns the text of a field with control characters escaped, because some fields come from callers.
    fn text(&self, name: &str) -> String {
        let text = match &self.fields[name] {
            Value::String(text) => text.clone(),
            Value::Null => return String::new(),
            other => other.to_string(),
        };
        let shown = |symbol: char| match symbol.is_control() {
            true => symbol.escape_default().to_string(),
            false => symbol.to_string(),
        };
        text.chars().map(shown).collect()
    }

    fn is_wanted(&self, args: &AuditTailArgs) -> bool {
        let action = self.text("action");
        let is_of_kind =
            |kind: &str| action.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        args.action.as_deref().is_none_or(is_of_kind)
            && args.outcome.as_deref().is_none_or(|outcome| self.text("outcome") == outcome)
    }

    fn write(&self, out: &mut Out) -> Result<(), Failure> {
        match out.is_json() {
            true => out.text(&format!("{}\n", self.line)),
            false => out.text(&self.render(out.palette())),
        }
    }

    /// Returns the event as one line of text for people.
    fn render(&self, palette: Palette) -> String {
        let [action, outcome, method, resource, code, reason, note] =
            ["action", "outcome", "method", "resource", "code", "reason", "note"].map(|name| self.text(name));
        let role = match outcome.as_str() {
            "done" | "begun" | "unchanged" | "again" => Role::Good,
            "denied" | "failed" => Role::Bad,
            _ => Role::Warning,
        };
        let pad = |text: &str, width: usize| " ".repeat(width.saturating_sub(text.chars().count()));
        let mut text = format!(
            "{}  {}{}  {action}{}",
            palette.paint(Role::Faint, &self.text("time")),
            palette.paint(role, &outcome),
            pad(&outcome, OUTCOME_WIDTH),
            pad(&action, ACTION_WIDTH),
        );
        let refusal = [code, reason].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
        let (count, since) = (self.text("count"), self.text("since"));
        let parts = [
            ("", method),
            ("", resource),
            ("revision ", self.text("revision")),
            ("", refusal),
            ("", self.author()),
            ("request ", self.text("request_id")),
            ("× ", count),
            ("since ", since),
        ];
        for (before, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            text.push_str(&format!("  {before}{part}"));
        }
        if !note.is_empty() {
            text.push_str(&format!(": {note}"));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }

    fn author(&self) -> String {
        let [principal, name, peer, certificate] =
            ["principal", "on_behalf_of", "peer", "certificate"].map(|name| self.text(name));
        let certificate = if principal.contains(&certificate) { String::new() } else { certificate };
        let parts = [("by ", principal), ("on behalf of ", name), ("with certificate ", certificate), ("from ", peer)];
        let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
        parts.map(|(before, part)| format!("{before}{part}")).collect::<Vec<_>>().join(" ")
    }
}

/// The column widths, which fit the most frequent outcomes and actions.
const OUTCOME_WIDTH: usize = 7;
const ACTION_WIDTH: usize = 13;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(value: Value) -> Event {
        Event::parse(value.to_string().as_bytes()).expect("an event")
    }

    #[test]
    fn ok_events_for_people() {
        for (value, expected) in [
            (
                json!({
                    "time": "T", "action": "region.create", "outcome": "done", "principal": "token:a (orders)",
                    "on_behalf_of": "ann", "peer": "10.0.0.7:5", "resource": "region:default/orders",
                    "request_id": "r1", "revision": 7, "note": "new shop"
                }),
                "T  done     region.create  region:default/orders  revision 7  by token:a (orders) on behalf of ann from 10.0.0.7:5  request r1: new shop\n",
            ),
            (
                json!({
                    "time": "T", "action": "connect", "outcome": "denied", "peer": "10.0.0.7:5", "code": "UNAUTHENTICATED",
                    "reason": "TLS_HANDSHAKE", "count": 12, "since": "S"
                }),
                "T  denied   connect        UNAUTHENTICATED TLS_HANDSHAKE  from 10.0.0.7:5  × 12  since S\n",
            ),
            (
                json!({
                    "time": "T", "action": "call", "outcome": "denied", "method": "kent.v1.Regions/CreateRegion",
                    "principal": "token:a (orders)", "on_behalf_of": "ann", "resource": "edit:region:default/orders",
                    "request_id": "r1", "code": "PERMISSION_DENIED"
                }),
                "T  denied   call           kent.v1.Regions/CreateRegion  edit:region:default/orders  PERMISSION_DENIED  by token:a (orders) on behalf of ann  request r1\n",
            ),
            (
                json!({"time": "T", "action": "backup", "outcome": "done", "on_behalf_of": "a\u{1b}[31m\nb"}),
                "T  done     backup         on behalf of a\\u{1b}[31m\\nb\n",
            ),
        ] {
            assert_eq!(event(value).render(Palette::PLAIN), expected);
        }
    }

    #[test]
    fn ok_events_are_selected_by_action_and_outcome() {
        let event = event(json!({"time": "T", "action": "region.create", "outcome": "done"}));
        for (action, outcome, expected) in [
            (None, None, true),
            (Some("region"), None, true),
            (Some("region.create"), Some("done"), true),
            (Some("reg"), None, false),
            (Some("region.creat"), None, false),
            (Some("region"), Some("denied"), false),
        ] {
            let [action, outcome] = [action, outcome].map(|text| text.map(str::to_owned));
            let args = AuditTailArgs { file: String::new(), follow: false, lines: 1, action, outcome };
            assert_eq!(event.is_wanted(&args), expected, "{args:?}");
        }
    }

    #[test]
    fn ok_other_lines_are_left_out() {
        for line in ["", "kentd serves", "{}", r#"{"time": 1, "action": "a", "outcome": "b"}"#, "[1]"] {
            assert!(Event::parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}
