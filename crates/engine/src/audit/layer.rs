//! The layer of `tracing` that writes the audit log.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::{Event, Subscriber, error};
use tracing_subscriber::{Layer, layer::Context};

use super::{
    TARGET,
    file::RotatingFile,
    line::Line,
    place::{AuditTo, Rotation},
    refusals::Refusals,
};
use crate::host::clock::{Clock, SystemClock};

/// The audit log of this process.
#[derive(Clone, Debug)]
pub struct Audit {
    state: Arc<Mutex<State>>,
    /// Where the audit log is written.
    place: String,
    clock: SystemClock,
    /// Canceled when an event could not be written although the audit log is required.
    failed: CancellationToken,
    is_required: bool,
}

#[derive(Debug)]
struct State {
    output: Output,
    refusals: Refusals,
    /// The number of events lost since the last successful write.
    lost: u64,
    /// The error of the last failed write, until the error is logged.
    failure: Option<io::Error>,
}

#[derive(Debug)]
enum Output {
    Stderr,
    File(RotatingFile),
}

/// How many lines this process has written to its audit log, and how many lines it has lost.
#[derive(Clone, Copy, Debug)]
pub struct AuditCounts {
    pub(crate) written: u64,
    /// The lines that could not be written.
    pub(crate) lost: u64,
}

static WRITTEN: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the counts of this process.
pub fn counts() -> AuditCounts {
    AuditCounts { written: WRITTEN.load(Relaxed), lost: LOST.load(Relaxed) }
}

/// The pause between two messages about a log that cannot be written.
const PAUSE: Duration = Duration::from_secs(1);

impl Audit {
    /// Opens the audit log. If `is_required` is true, [`Audit::failed`] reports a failed write.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(to: &AuditTo, rotation: Rotation, is_required: bool) -> io::Result<Self> {
        let output = match to {
            AuditTo::Stderr => Output::Stderr,
            AuditTo::File(path) => Output::File(RotatingFile::open(path, rotation)?),
        };
        Ok(Self::with(output, to.clone().into(), is_required))
    }

    fn with(output: Output, place: String, is_required: bool) -> Self {
        let state = State { output, refusals: Refusals::default(), lost: 0, failure: None };
        let (state, failed) = (Arc::new(Mutex::new(state)), CancellationToken::new());
        Self { state, place, clock: SystemClock::new(), failed, is_required }
    }

    /// Completes when an event could not be written although the settings require the audit log.
    pub async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Takes the error of the last failed write, if there is one.
    pub fn take_failure(&self) -> Option<io::Error> {
        self.state().failure.take()
    }

    /// Once per second, writes the due summaries of repeated refusals, and logs why events could not be written. This
    /// method never returns.
    pub async fn report(&self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            self.write_due(self.clock.steady());
        }
    }

    /// Writes the remaining summaries, and logs the last failure, before the process ends.
    pub fn report_rest(&self) {
        self.write_due(Duration::MAX);
    }

    fn write_due(&self, now: Duration) {
        let failure = {
            let mut state = self.state();
            let due = state.refusals.take_due(now);
            for line in due {
                self.write(&mut state, Line { time: self.time(), ..line });
            }
            state.failure.take().map(|failure| (failure, state.lost))
        };
        if let Some((error, lost)) = failure {
            error!(%error, lost, audit = self.place, "the audit log cannot be written");
        }
    }

    fn write(&self, state: &mut State, line: Line) {
        let mut lines = Vec::new();
        if state.lost > 0 {
            let (action, outcome) = ("audit.lost".to_owned(), "failed".to_owned());
            let lost = Line { time: line.time.clone(), action, outcome, count: Some(state.lost), ..Line::default() };
            lines = lost.to_json();
        }
        lines.extend(line.to_json());
        match state.output.write(&lines) {
            Ok(()) => {
                state.lost = 0;
                WRITTEN.fetch_add(1, Relaxed);
            }
            Err(error) => {
                state.lost += 1; // OK because it does not overflow in the age of the universe
                LOST.fetch_add(1, Relaxed);
                state.failure = Some(error);
                if self.is_required {
                    self.failed.cancel();
                }
            }
        }
    }

    fn time(&self) -> String {
        self.clock.wall().rfc3339(3).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // OK because no code that holds the lock leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(lines),
            Self::File(file) => file.write(lines),
        }
    }
}

impl<S: Subscriber> Layer<S> for Audit {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != TARGET {
            return;
        }
        let mut line = Line { time: self.time(), ..Line::default() };
        event.record(&mut line);
        let mut state = self.state();
        let may_repeat = matches!(&*line.outcome, "denied" | "refused" | "failed");
        if !may_repeat || state.refusals.admit(&line, self.clock.steady()) {
            self.write(&mut state, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::{Value, json};
    use tracing::subscriber::with_default;
    use tracing_subscriber::{layer::SubscriberExt, registry};

    use super::*;
    use crate::audit::{By, Event, Outcome};

    fn open(path: &Path, is_required: bool) -> Audit {
        let file = RotatingFile::open(path, Rotation { bytes: 1 << 20, files: 2 }).expect("opened");
        Audit::with(Output::File(file), path.display().to_string(), is_required)
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("read");
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
    }

    fn by() -> By {
        let [principal, on_behalf_of] = ["token:a (orders)", "ann\n\u{1b}[31m"].map(str::to_owned);
        By { principal, on_behalf_of, peer: "127.0.0.1:5".to_owned(), certificate: String::new() }
    }

    #[test]
    fn ok_an_event_is_a_line_of_json() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        with_default(registry().with(open(&path, false)), || {
            Event::new("region.create", &by(), "region:default/orders").revision(Some(3)).record(Outcome::Done);
            tracing::info!("not for the audit log");
        });
        let text = fs::read_to_string(&path).expect("read");
        let fields = r#","action":"region.create","outcome":"done","principal":"token:a (orders)","on_behalf_of":"ann\n\u001b[31m","peer":"127.0.0.1:5","resource":"region:default/orders","revision":3}"#;
        assert_eq!(text.split_once("Z\"").expect("a time").1, format!("{fields}\n"));
    }

    #[test]
    fn ok_refusals_that_repeat_are_one_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let audit = open(&path, false);
        with_default(registry().with(audit.clone()), || {
            for n in 0..1000 {
                let by = By { on_behalf_of: n.to_string(), ..by() };
                Event::new("region.create", &by, format!("region:default/{n}"))
                    .refusal("PERMISSION_DENIED", "PERMISSION_DENIED")
                    .record(Outcome::Denied);
            }
        });
        audit.report_rest();
        let found = lines(&path);
        let counts: Vec<_> = found.iter().map(|line| (&line["outcome"], &line["count"])).collect();
        assert_eq!(counts, [(&json!("denied"), &Value::Null), (&json!("denied"), &json!(999))]);
        assert_eq!(found[1]["since"], found[0]["time"]);
    }

    #[test]
    fn err_lost_events_are_counted_and_end_a_daemon_that_requires_the_log() {
        for is_required in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let inner = dir.path().join("inner");
            fs::create_dir(&inner).expect("created");
            let audit = open(&inner.join("audit"), is_required);
            let record = || Event::new("backup", &by(), "").record(Outcome::Done);
            with_default(registry().with(audit.clone()), || {
                fs::remove_dir_all(&inner).expect("removed");
                record();
                record();
                assert_eq!(audit.failed.is_cancelled(), is_required);
                assert!(audit.take_failure().is_some_and(|error| error.kind() == io::ErrorKind::NotFound));
                fs::create_dir(&inner).expect("created");
                record();
            });
            let found = lines(&inner.join("audit"));
            let found: Vec<_> = found.iter().map(|line| (&line["action"], &line["count"])).collect();
            assert_eq!(found, [(&json!("audit.lost"), &json!(2)), (&json!("backup"), &Value::Null)]);
        }
    }
}
