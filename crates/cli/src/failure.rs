//! Failures of commands: the exit code and the message on standard error.

mod options;
mod socket;
mod tls;
mod unanswered;

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use kent_client::Tried;
use kent_client::tonic::{Code, Status};
use kent_proto::model::code_name;
use kent_tls::explained;
use serde_json::{Map, Value, json};
use tonic_types::{ErrorDetails, StatusExt};

pub(crate) use self::unanswered::Edit;
use self::unanswered::Unanswered;
use crate::{connect, number, suggested};

/// An error that ended a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An invalid argument that clap could not detect.
    #[error("{0}")]
    Usage(String),
    /// Settings with which no client can be built.
    #[error("{0}")]
    Unconnectable(String),
    /// A command line that clap rejects, with a hint.
    #[error("{message}")]
    BadLine { message: String, tips: Vec<String> },
    #[error("{} of the arguments are not valid identifiers", .0.len())]
    InvalidIds(Vec<InvalidId>),
    /// Lines of standard input that were reported when they were read.
    #[error(
        "lines of standard input that are not valid identifiers: {}{}", number::grouped(*count),
        if *has_columns { "; for a column of a CSV file, use cut -d, -f1 FILE | kent classify - (or kent inspect -)" } else { "" }
    )]
    InvalidLines { count: u64, has_columns: bool },
    #[error("no daemon answers")]
    NoDaemon { tried: Vec<Tried> },
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// A daemon accepted the call, but no answer arrived.
    #[error("{0}")]
    Unanswered(Box<Unanswered>),
    /// The daemon's response violates the protocol.
    #[error("the daemon sent an invalid response: {0}")]
    Answer(String),
    #[error("cannot read standard input: {0}")]
    Input(#[source] io::Error),
    #[error("cannot write standard output: {0}")]
    Output(#[source] io::Error),
    /// A file that cannot be written.
    #[error("{0}")]
    File(String),
    #[error("internal error: {0}")]
    Runtime(#[source] io::Error),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The user did not confirm the command.
    #[error("not confirmed: nothing was changed")]
    NotConfirmed,
    /// `kent doctor` or `kent check` found something wrong, and has shown it.
    #[error("something is wrong")]
    Unwell,
    #[error("{}", timed_out(*limit, waiting_for.as_deref()))]
    TimedOut { limit: Duration, waiting_for: Option<String> },
    /// `kent alloc` stopped before it had printed all identifiers.
    #[error("{cause}")]
    Stopped { cause: Box<Self>, printed: u64, wanted: u64 },
}

fn timed_out(limit: Duration, waiting_for: Option<&str>) -> String {
    let reason = waiting_for.map(|reason| format!(", while waiting: {reason}")).unwrap_or_default();
    format!("stopped at --timeout {}{reason}", humantime::format_duration(limit))
}

/// A string that is not a valid identifier, and the reason.
#[derive(Debug)]
pub(crate) struct InvalidId {
    pub(crate) text: String,
    /// The number of the line, if the string is from standard input.
    pub(crate) line: Option<u64>,
    /// The name of the error in formats.md, such as `bad-hex`.
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// A refusal by the daemon: the gRPC status and its useful details.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) reason: Option<String>,
    pub(crate) message: String,
    /// The metadata of the status, such as the refused and the allowed values, sorted by name.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) retry_after: Option<Duration>,
    /// Hints for people.
    pub(crate) advice: Vec<String>,
    /// Whether the connection broke before the response arrived, so that the outcome of the call is unknown.
    pub(crate) is_broken: bool,
}

/// A rule that the request violates, and the field or resource concerned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) subject: String,
    pub(crate) description: String,
}

impl From<kent_client::Error> for Failure {
    fn from(error: kent_client::Error) -> Self {
        match error {
            kent_client::Error::Refused { status, .. } | kent_client::Error::Limited { status, .. } => status.into(),
            // If any daemon refused the call, report its refusal: it says more than the failures to reach the others.
            kent_client::Error::Unavailable { tried, .. } => {
                match tried.iter().rfind(|tried| !tried.is_unreachable()) {
                    Some(tried) => Self::from(tried.status.clone()).at(&tried.endpoint, None),
                    None => Self::NoDaemon { tried },
                }
            }
            kent_client::Error::Unusable { what, .. } => Self::Answer(what),
            other => Self::Runtime(io::Error::other(other)),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(Refusal::new(&status)))
    }
}

impl Refusal {
    /// Returns whether a retry of the same call may succeed, at this daemon or another.
    pub(crate) fn is_transient(&self) -> bool {
        let code = matches!(self.code, Code::Unavailable | Code::Unknown | Code::Aborted | Code::Cancelled);
        self.is_broken || code
    }

    /// Returns whether a refused watch must start again with a snapshot of all regions.
    pub(crate) fn needs_snapshot(&self) -> bool {
        self.facts.iter().any(|(name, value)| name == "resume_after" && value == "0")
    }

    pub(crate) fn new(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let mut facts: Vec<_> = info.map(|info| info.metadata.clone().into_iter().collect()).unwrap_or_default();
        facts.sort();
        let violations = violations(&details);
        let fields = violations.iter().map(|violation| violation.subject.as_str());
        let mut message = options::in_place_of(fields, message(status));
        let mut advice = credential_advice(status);
        if let Some(command) = suggested::command(status) {
            let reason = info.map(|info| info.reason.as_str()).unwrap_or_default();
            match (reason, command.contains(" --split-donor "), message.contains("kent ")) {
                ("NO_FREE_PREFIX", true, _) => advice.push(format!("to split the region that loses least: {command}")),
                ("NO_FREE_PREFIX", false, _) => advice.push(format!("for a region that fits now: {command}")),
                (_, _, true) => advice.push(format!("the nearest legal edit: {command}")),
                (_, _, false) => message.push_str(&format!(" ({command})")),
            }
        }
        Self {
            code: status.code(),
            reason: info.map(|info| info.reason.clone()).filter(|reason| !reason.is_empty()),
            message,
            facts,
            violations,
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
            advice,
            is_broken: is_broken(status),
        }
    }
}

/// Returns a hint for a caller that the daemon does not know, or that lacks a permission.
fn credential_advice(status: &Status) -> Vec<String> {
    let advice = match (status.code(), connect::token_origin()) {
        (Code::Unauthenticated, Some(origin)) => format!("the token comes from {origin}"),
        (Code::PermissionDenied, _) if !status.message().contains("kent whoami") => {
            "`kent whoami` shows who you are and what you may do".to_owned()
        }
        _ => return Vec::new(),
    };
    vec![advice]
}

/// Returns whether the connection broke. A status with a cause comes from this client. `CANCELLED` comes from the
/// client's own deadline, and does not count.
fn is_broken(status: &Status) -> bool {
    status.source().is_some() && matches!(status.code(), Code::Unknown | Code::Unavailable | Code::Internal)
}

/// Returns whether only other settings of this client can fix the failure: the server speaks another protocol, or
/// rejects the certificate.
pub(crate) fn needs_other_settings(status: &Status) -> bool {
    is_other_protocol(status)
        || status.source().is_some_and(|cause| innermost(cause).to_string().contains("received fatal alert"))
}

/// Returns whether the server speaks a protocol other than HTTP/2 without TLS.
fn is_other_protocol(status: &Status) -> bool {
    status.source().is_some_and(|cause| {
        let cause = innermost(cause).to_string();
        cause.contains("frame with invalid size") || cause.contains("invalid preface")
    })
}

fn message(status: &Status) -> String {
    let message = status.message();
    match status.source() {
        Some(cause) if is_broken(status) => {
            let innermost = innermost(cause);
            if is_other_protocol(status) {
                return "the server there does not speak gRPC without TLS: if the daemon uses TLS, write https:// before the endpoint and name \
                        the daemon's CA, as in `kent status --endpoint https://HOST:7600 --ca ca.pem`; otherwise use the gRPC port of kentd, \
                        by default 7600"
                    .to_owned();
            }
            let hint = tls::hint(&innermost.to_string());
            format!("the connection broke before the response arrived: {}{hint}", explained(innermost))
        }
        _ if message.starts_with("grpc-status header missing") => {
            let answer = message.trim_start_matches("grpc-status header missing, mapped from ");
            format!(
                "the server at this endpoint speaks HTTP, but not gRPC ({answer}): use the gRPC port of kentd, by default 7600 (its HTTP \
                 port is 7601), as in `kent status --endpoint HOST:7600`"
            )
        }
        _ if is_other_service(status) => {
            "the server at this endpoint speaks gRPC, but is not kentd: use the gRPC port of kentd, by default \
                                          7600, as in `kent status --endpoint HOST:7600`"
                .to_owned()
        }
        _ => message.to_owned(),
    }
}

/// Returns whether the server has none of Kent's services. Compares the message with those of common gRPC libraries.
/// The library that kentd uses is not among them, because an older kentd sends that library's message for calls that it
/// does not have.
fn is_other_service(status: &Status) -> bool {
    let said = |start: &str| status.message().starts_with(start);
    status.code() == Code::Unimplemented && (said("unknown service kent.") || said("Method not found"))
}

/// Returns the innermost cause of an error, such as "Connection refused" instead of "transport error".
fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last
}

fn violations(details: &ErrorDetails) -> Vec<Violation> {
    let fields = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
    let rules = details.precondition_failure().map(|failure| failure.violations.as_slice()).unwrap_or_default();
    let quotas = details.quota_failure().map(|failure| failure.violations.as_slice()).unwrap_or_default();
    let violation = |subject: &str, description: &str| Violation {
        subject: subject.to_owned(),
        description: description.to_owned(),
    };
    fields
        .iter()
        .map(|field| violation(&field.field, &field.description))
        .chain(rules.iter().map(|rule| violation(&rule.subject, &rule.description)))
        .chain(quotas.iter().map(|quota| violation(&quota.subject, &quota.description)))
        .collect()
}

impl Failure {
    /// Adds the endpoint to the failure and, if no answer arrived, how to find out whether the edit was made.
    pub(crate) fn at(self, endpoint: &str, edit: Option<Edit>) -> Self {
        match self {
            Self::Refused(refusal) => match Unanswered::new(refusal, endpoint.to_owned(), edit) {
                Ok(unanswered) => Self::Unanswered(Box::new(unanswered)),
                Err(refusal) => Self::Refused(refusal),
            },
            other => other,
        }
    }

    /// Returns true if the reader of our output closed the pipe, as in `kent alloc uuidv7 -n 1000 | head`. That is not
    /// an error.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self.cause(), Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the result of a command that checks something and has printed what it found. A problem is a failure even
    /// if the reader has closed the pipe, as in `kent check ids.txt | head -1`.
    pub(crate) fn unless_well(is_well: bool, printed: Result<(), Self>) -> Result<(), Self> {
        match printed {
            Err(failure) if is_well || !failure.is_closed_pipe() => Err(failure),
            _ if is_well => Ok(()),
            _ => Err(Self::Unwell),
        }
    }

    /// Returns the failure without the number of printed identifiers.
    fn cause(&self) -> &Self {
        match self {
            Self::Stopped { cause, .. } => cause,
            other => other,
        }
    }

    /// Says where the command took a space that does not exist.
    pub(crate) fn with_space_origin(self, space: &str, origin: &str) -> Self {
        match self {
            Self::Stopped { cause, printed, wanted } => {
                Self::Stopped { cause: cause.with_space_origin(space, origin).into(), printed, wanted }
            }
            Self::Refused(mut refusal)
                if refusal.reason.as_deref() == Some("NO_SUCH_SPACE")
                    && refusal.message.contains(&format!("{space:?}")) =>
            {
                refusal.advice.push(format!("the space comes from {origin}"));
                Self::Refused(refusal)
            }
            other => other,
        }
    }

    /// Returns 2 for bad usage, 130 for Ctrl-C, as is customary in shells, and 1 for other failures. A closed pipe
    /// counts as success, with code 0.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.cause() {
            _ if self.is_closed_pipe() => ExitCode::SUCCESS,
            Self::Usage(_)
            | Self::Unconnectable(_)
            | Self::BadLine { .. }
            | Self::InvalidIds(_)
            | Self::InvalidLines { .. } => ExitCode::from(2),
            Self::Interrupted => ExitCode::from(130),
            Self::NoDaemon { .. }
            | Self::Refused(_)
            | Self::Unanswered(_)
            | Self::Answer(_)
            | Self::Input(_)
            | Self::Output(_)
            | Self::File(_)
            | Self::Runtime(_)
            | Self::NotConfirmed
            | Self::Unwell
            | Self::TimedOut { .. }
            | Self::Stopped { .. } => ExitCode::from(1),
        }
    }

    /// Returns the message for standard error, or `None` if the user pressed Ctrl-C, if the reader closed the pipe, or
    /// if the command has already printed the problem.
    pub(crate) fn render(&self, json: bool) -> Option<String> {
        if self.is_closed_pipe() || matches!(self, Self::Interrupted | Self::Unwell) {
            return None;
        }
        Some(match self {
            Self::InvalidIds(ids) => ids.iter().map(|id| id.render(json)).collect(),
            other if json => format!("{}\n", other.to_json()),
            other => other.to_text(),
        })
    }

    fn to_text(&self) -> String {
        match self {
            Self::NoDaemon { tried } => no_daemon_text(tried),
            Self::Refused(refusal) => refusal.to_text(),
            Self::Unanswered(unanswered) => unanswered.to_text(),
            Self::Stopped { cause, printed, wanted } => {
                let printed = number::grouped(printed);
                let printed = format!("printed {printed} of {}", number::counted(wanted, "identifier"));
                match **cause {
                    Self::Interrupted => format!("interrupted: {printed}\n"),
                    _ => format!("{}  {printed}\n", cause.to_text()),
                }
            }
            other => format!("error: {other}\n"),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Refused(refusal) => return refusal.to_json(),
            Self::Stopped { cause, printed, wanted } => {
                let mut value = cause.to_json();
                value["error"]["details"]["printed"] = json!(printed.to_string());
                value["error"]["details"]["wanted"] = json!(wanted.to_string());
                return value;
            }
            _ => {}
        }
        if let Self::Unanswered(unanswered) = self {
            return unanswered.to_json();
        }
        let details = match self {
            Self::NoDaemon { tried } => {
                let tried: Vec<_> = tried
                    .iter()
                    .map(|it| json!({"endpoint": it.endpoint, "message": explained(innermost(&it.status))}))
                    .collect();
                json!({ "tried": tried })
            }
            Self::BadLine { tips, .. } => json!({ "tips": tips }),
            _ => json!({}),
        };
        json!({"error": {
            "code": self.code_name(),
            "reason": self.reason(),
            "message": self.to_string(),
            "details": details,
        }})
    }

    /// Returns the gRPC code that fits best, so that programs need to know only one set of codes.
    fn code_name(&self) -> &'static str {
        match self.cause() {
            Self::Usage(_)
            | Self::Unconnectable(_)
            | Self::BadLine { .. }
            | Self::InvalidIds(_)
            | Self::InvalidLines { .. } => "INVALID_ARGUMENT",
            Self::NoDaemon { .. } => "UNAVAILABLE",
            Self::TimedOut { .. } => "DEADLINE_EXCEEDED",
            Self::Interrupted | Self::NotConfirmed => "CANCELLED",
            Self::Refused(refusal) => code_name(refusal.code),
            Self::Unwell => "FAILED_PRECONDITION",
            Self::Unanswered(_) => "UNKNOWN",
            Self::Answer(_)
            | Self::Input(_)
            | Self::Output(_)
            | Self::File(_)
            | Self::Runtime(_)
            | Self::Stopped { .. } => "INTERNAL",
        }
    }

    fn reason(&self) -> &'static str {
        match self.cause() {
            Self::Usage(_)
            | Self::Unconnectable(_)
            | Self::BadLine { .. }
            | Self::InvalidIds(_)
            | Self::InvalidLines { .. } => "BAD_USAGE",
            Self::TimedOut { .. } => "TIMEOUT",
            Self::NoDaemon { .. } => "NO_DAEMON",
            Self::Interrupted => "INTERRUPTED",
            Self::NotConfirmed => "NOT_CONFIRMED",
            Self::Unwell => "UNWELL",
            Self::Refused(_) | Self::Unanswered(_) | Self::Answer(_) => "BAD_ANSWER",
            Self::Input(_) | Self::Output(_) | Self::File(_) | Self::Runtime(_) | Self::Stopped { .. } => "IO",
        }
    }
}

/// Returns a hint for a failed connection to an endpoint, depending on the cause.
fn advice(endpoint: &str, cause: &str) -> Option<String> {
    match endpoint.strip_prefix("unix:") {
        Some(path) => socket::advice(path, cause),
        None => tls::advice(endpoint, cause),
    }
}

fn no_daemon_text(tried: &[Tried]) -> String {
    let mut text = String::from("error: no daemon answers\n");
    for tried in tried {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  tried {}: {}", tried.endpoint, explained(innermost(&tried.status)));
    }
    if let Some(advice) = tried.iter().find_map(|it| advice(&it.endpoint, &innermost(&it.status).to_string())) {
        let _ = writeln!(text, "  {advice}"); // as above
        return text;
    }
    text.push_str("  Start one with `kentd`, or set another address with --endpoint or KENT_ENDPOINT.\n");
    text
}

/// Truncates a delay below ten seconds to whole milliseconds, and rounds a longer one up to whole seconds.
pub(crate) fn rounded(delay: Duration) -> Duration {
    let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    if delay < Duration::from_secs(10) {
        Duration::from_millis(millis)
    } else {
        Duration::from_secs(millis.div_ceil(1000))
    }
}

impl InvalidId {
    pub(crate) fn render(&self, json: bool) -> String {
        let Self { text, line, code, message } = self;
        if !json {
            let text = kent_codec::shortened(text);
            let place = line.map(|line| format!("standard input, line {line}: ")).unwrap_or_default();
            return match *code {
                // If an option is invalid, the identifier may be valid, so do not mention it.
                "bad-format" | "bad-layout" | "bad-precision" | "bad-width" | "bad-input" => {
                    format!("error: {place}{message} ({code})\n")
                }
                _ if line.is_none() && Path::new(&*text).is_file() => {
                    format!("error: {text} is a file; for the identifiers in its lines: kent inspect - < {text}\n")
                }
                "unrecognised" => format!(
                    "error: {place}{text:?} is not a valid identifier: {message} ({code}); for example: kent inspect 5Jxqwr73FDS\n"
                ),
                _ => format!("error: {place}{text:?} is not a valid identifier: {message} ({code})\n"),
            };
        }
        let value = json!({"error": {
            "code": "INVALID_ARGUMENT",
            "reason": code.to_uppercase().replace('-', "_"),
            "message": message,
            "details": match line {
                Some(line) => json!({"text": text, "line": line.to_string()}),
                None => json!({"text": text}),
            },
        }});
        format!("{value}\n")
    }
}

/// Facts that the text omits because the message states them in words. JSON contains them, for programs.
const SAID: [&str; 17] = [
    "cap",
    "capacity",
    "donors",
    "widest_suffix",
    "expandable_bits",
    "free_blocks",
    "heir",
    "left",
    "oldest_revision",
    "permission",
    "present_revision",
    "principal",
    "region",
    "reserved",
    "resume_after",
    "sealed_by",
    "space",
];

impl Refusal {
    fn to_text(&self) -> String {
        let code = code_name(self.code);
        let reason = self.reason.as_deref().filter(|reason| *reason != code);
        let reason = reason.map(|reason| format!(", {reason}")).unwrap_or_default();
        let mut text = format!("error: {} ({code}{reason})\n", self.message);
        // Omit the violations whose descriptions are already in the message.
        let unsaid = self.violations.iter().filter(|violation| !self.message.contains(&violation.description));
        let violations = unsaid.map(|violation| (&violation.subject, &violation.description));
        let facts = self.facts.iter().filter(|(name, _)| !SAID.contains(&name.as_str()));
        let facts = facts.map(|(name, value)| (name, value));
        for (name, value) in violations.chain(facts) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name}: {value}");
        }
        for advice in &self.advice {
            let _ = writeln!(text, "  {advice}");
        }
        if let Some(delay) = self.retry_after {
            let _ = writeln!(text, "  retry after {}", humantime::format_duration(rounded(delay)));
        }
        text
    }

    fn to_json(&self) -> Value {
        let mut details = Map::new();
        for (name, value) in &self.facts {
            details.insert(name.clone(), json!(value));
        }
        if !self.violations.is_empty() {
            let rows = self.violations.iter().map(|v| json!({"subject": v.subject, "description": v.description}));
            details.insert("violations".to_owned(), rows.collect());
        }
        if let Some(delay) = self.retry_after {
            details.insert("retry_after_ms".to_owned(), json!(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)));
        }
        json!({"error": {
            "code": code_name(self.code),
            "reason": self.reason,
            "message": self.message,
            "details": details,
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone_too_small() -> Failure {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("ZONE_TOO_SMALL", "kent", [("zone_bits".to_owned(), "2".to_owned())])
            .add_precondition_failure_violation(
                "ZONE_TOO_SMALL",
                "spaces/default/regions/orders",
                "3 bits requested, 2 left",
            )
            .set_retry_info(Some(Duration::from_millis(1500)));
        Status::with_error_details(Code::FailedPrecondition, "the zone of orders is too small", details).into()
    }

    #[test]
    fn ok_a_refusal_as_text() {
        let text = zone_too_small().render(false).expect("a refusal has a message");
        assert_eq!(
            text,
            "error: the zone of orders is too small (FAILED_PRECONDITION, ZONE_TOO_SMALL)\n  \
               spaces/default/regions/orders: 3 bits requested, 2 left\n  \
               zone_bits: 2\n  \
               retry after 1s 500ms\n"
        );
    }

    #[test]
    fn ok_a_refusal_as_json() {
        let text = zone_too_small().render(true).expect("a refusal has a message");
        let value: Value = serde_json::from_str(&text).expect("one JSON object");
        assert_eq!(
            value,
            json!({"error": {
                "code": "FAILED_PRECONDITION",
                "reason": "ZONE_TOO_SMALL",
                "message": "the zone of orders is too small",
                "details": {
                    "zone_bits": "2",
                    "violations": [{"subject": "spaces/default/regions/orders", "description": "3 bits requested, 2 left"}],
                    "retry_after_ms": 1500,
                },
            }})
        );
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn ok_a_broken_connection_is_not_reported_as_a_refusal() {
        let reset = io::Error::new(io::ErrorKind::ConnectionReset, "reset");
        let refusal = Refusal::new(&Status::from_error(Box::new(reset)));
        assert!(refusal.is_broken);
        assert_eq!(refusal.message, "the connection broke before the response arrived: reset");
        assert!(!Refusal::new(&Status::unknown("sent by the daemon")).is_broken);
    }

    #[test]
    fn ok_another_server_is_not_kentd() {
        for (message, is_other) in [
            ("unknown service kent.v1.Admin", true),
            ("Method not found: kent.v1.Admin/GetStatus", true),
            ("Method not found!", true),
            ("", false),
            ("the request is compressed", false),
        ] {
            let refusal = Refusal::new(&Status::unimplemented(message));
            assert_eq!(refusal.message.contains("speaks gRPC, but is not kentd"), is_other, "{message}");
        }
    }

    #[test]
    fn ok_a_missing_permission_leads_to_whoami() {
        let status = |message: &str| Status::permission_denied(message);
        for (message, expected) in [("you may not", 1), ("you may not (kent whoami)", 0)] {
            assert_eq!(Refusal::new(&status(message)).advice.len(), expected, "{message}");
        }
        let details = [("permission", "edit:space:default"), ("principal", "token:a (b)")];
        let details = details.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let details = ErrorDetails::with_error_info("PERMISSION_DENIED", "kent", details);
        let failure: Failure = Status::with_error_details(Code::PermissionDenied, "token:a lacks it", details).into();
        assert_eq!(
            failure.render(false).expect("a message"),
            "error: token:a lacks it (PERMISSION_DENIED)\n  `kent whoami` shows who you are and what you may do\n"
        );
        assert_eq!(failure.to_json()["error"]["details"]["permission"], "edit:space:default");
    }

    #[test]
    fn err_a_long_text_is_shortened_for_people() {
        let text = "a".repeat(60_000);
        let invalid = InvalidId { text, line: Some(1), code: "unrecognised", message: "it is long".to_owned() };
        let shown = format!("error: standard input, line 1: \"{}...\" is not a valid", "a".repeat(100));
        assert!(invalid.render(false).starts_with(&shown) && invalid.render(false).len() < 300);
        assert!(invalid.render(true).contains(&invalid.text), "a program gets the whole text");
    }

    #[test]
    fn ok_a_closed_pipe_is_not_a_failure() {
        let closed = Failure::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(closed.render(false), None);
        assert_eq!(closed.exit_code(), ExitCode::SUCCESS);
        assert_eq!(Failure::Output(io::ErrorKind::StorageFull.into()).exit_code(), ExitCode::from(1));
    }

    #[test]
    fn ok_exit_codes() {
        for (failure, code) in [
            (Failure::Usage(String::new()), 2),
            (zone_too_small(), 1),
            (Failure::NoDaemon { tried: Vec::new() }, 1),
            (Failure::Interrupted, 130),
        ] {
            assert_eq!(failure.exit_code(), ExitCode::from(code), "{failure:?}");
        }
    }
}
