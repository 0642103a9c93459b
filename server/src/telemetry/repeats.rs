//! Limits warnings and errors that repeat, such as those of a loop that retries: each is written at most once per
//! second, and its repetitions in between are counted.

use std::{
    collections::HashMap,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_engine::host::{
    call,
    clock::{Clock, SystemClock},
    flight,
};
use tracing::{
    Event, Level, Subscriber,
    callsite::Identifier,
    error,
    field::{Field, Visit},
    warn,
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// The minimum time between two messages from one place in the code.
const PAUSE: Duration = Duration::from_secs(1);

/// The target of the messages about repetitions. These messages are not limited themselves.
const TARGET: &str = "kentd::repeated";

/// The places in the code that have written a warning or an error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeats {
    places: Arc<Mutex<HashMap<Identifier, Place>>>,
    clock: SystemClock,
}

#[derive(Debug)]
struct Place {
    level: Level,
    message: String,
    /// The time of the last message that was written.
    written: Duration,
    /// The number of messages left out since the last message that was written.
    held: u64,
}

impl Repeats {
    /// Decides whether to write a message. Returns the number of messages that have been left out since the last one.
    fn admit(&self, event: &Event<'_>, now: Duration) -> Option<u64> {
        let level = *event.metadata().level();
        // A less severe message records an event, such as an edit, so no such message is left out.
        if level > Level::WARN || [TARGET, flight::TARGET].contains(&event.metadata().target()) {
            return Some(0);
        }
        let mut places = self.places();
        let Some(place) = places.get_mut(&event.metadata().callsite()) else {
            let mut message = Message::default();
            event.record(&mut message);
            let place = Place { level, message: message.0, written: now, held: 0 };
            places.insert(event.metadata().callsite(), place);
            return Some(0);
        };
        if now.saturating_sub(place.written) < PAUSE {
            place.held += 1; // OK because it does not overflow in the age of the universe
            return None;
        }
        place.written = now;
        Some(mem::take(&mut place.held))
    }

    /// Removes and returns the counts of left-out messages that no later message has reported.
    fn take_held(&self, now: Duration) -> Vec<(Level, String, u64)> {
        let mut places = self.places();
        let due = places.values_mut().filter(|place| place.held > 0 && now.saturating_sub(place.written) >= PAUSE);
        let take = |place: &mut Place| {
            place.written = now;
            (place.level, place.message.clone(), mem::take(&mut place.held))
        };
        due.map(take).collect()
    }

    /// Once per second, writes how many messages were left out, unless a later message has reported this. This method
    /// never returns.
    pub(crate) async fn report(&self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            self.write_held(self.clock.steady());
        }
    }

    /// Writes how many messages were left out. To be called when the process ends.
    pub(crate) fn report_rest(&self) {
        self.write_held(Duration::MAX);
    }

    fn write_held(&self, now: Duration) {
        for (level, message, suppressed) in self.take_held(now) {
            match level {
                Level::ERROR => error!(target: TARGET, suppressed, "repeated: {message}"),
                _ => warn!(target: TARGET, suppressed, "repeated: {message}"),
            }
        }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Identifier, Place>> {
        // OK because no code that holds the lock leaves the map inconsistent.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of an event without its other fields.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Formats events as `inner` does, but leaves out repeated ones.
pub(super) struct Limited<F> {
    pub(super) inner: F,
    pub(super) repeats: Repeats,
    /// Whether each event is a JSON object.
    pub(super) is_json: bool,
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        match self.repeats.admit(event, self.repeats.clock.steady()) {
            // The line stays empty, so nothing is written to the log.
            None => Ok(()),
            Some(held) => {
                let fields = call::fields();
                if held == 0 && fields.is_empty() {
                    return self.inner.format_event(context, writer, event);
                }
                let mut line = String::new();
                self.inner.format_event(context, Writer::new(&mut line), event)?;
                writer.write_str(&with_fields(&line, held, &fields, self.is_json))
            }
        }
    }
}

/// The line of an event with the fields of its call and, if events were left out before it, their number.
fn with_fields(line: &str, held: u64, call: &[(&'static str, String)], is_json: bool) -> String {
    let line = line.trim_end();
    let Some(object) = line.strip_suffix('}').filter(|_| is_json) else {
        let suppressed = if held > 0 { format!(" suppressed={held}") } else { String::new() };
        let fields: String = call.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
        return format!("{line}{suppressed}{fields}\n");
    };
    let suppressed = if held > 0 { format!(",\"suppressed\":{held}") } else { String::new() };
    let fields: serde_json::Map<_, _> =
        call.iter().map(|(name, value)| ((*name).to_owned(), serde_json::Value::from(value.as_str()))).collect();
    let call = if fields.is_empty() { String::new() } else { format!(",\"call\":{}", serde_json::Value::from(fields)) };
    format!("{object}{suppressed}{call}}}\n")
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing::{info, subscriber::with_default};
    use tracing_subscriber::{fmt::MakeWriter, layer::SubscriberExt, registry};

    use super::{super::layer, *};
    use crate::config::LogFormat;

    /// A writer whose output the test can read.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'w> MakeWriter<'w> for Lines {
        type Writer = Self;

        fn make_writer(&'w self) -> Self {
            self.clone()
        }
    }

    fn lines(format: LogFormat, log: impl FnOnce(&Repeats)) -> Vec<String> {
        let (lines, repeats) = (Lines::default(), Repeats::default());
        let subscriber = registry().with(layer(format, false, lines.clone(), repeats.clone()));
        with_default(subscriber, || log(&repeats));
        let text = String::from_utf8(lines.0.lock().expect("not poisoned").clone()).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    /// Moves the last messages of all places into the past.
    fn wait(repeats: &Repeats) {
        repeats.places().values_mut().for_each(|place| place.written = Duration::ZERO);
        while repeats.clock.steady() < PAUSE {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn retry(times: u32) {
        for attempt in 0..times {
            warn!(attempt, "cannot reach it");
        }
    }

    #[test]
    fn ok_a_repeated_warning_is_written_once_per_second_with_a_count() {
        let lines = lines(LogFormat::Text, |repeats| {
            retry(5);
            info!("an edit");
            info!("an edit");
            wait(repeats);
            retry(3);
            repeats.report_rest();
            repeats.report_rest();
        });
        let ends: Vec<_> =
            lines.iter().map(|line| line.split_once("repeats::tests: ").map_or(&**line, |it| it.1)).collect();
        assert_eq!(
            ends[..4],
            ["cannot reach it attempt=0", "an edit", "an edit", "cannot reach it attempt=0 suppressed=4"]
        );
        assert!(ends[4].ends_with("WARN kentd::repeated: repeated: cannot reach it suppressed=2"), "{}", ends[4]);
        assert_eq!(ends.len(), 5, "{ends:?}");
    }

    #[test]
    fn ok_the_count_is_a_field_of_json() {
        let lines = lines(LogFormat::Json, |repeats| {
            retry(2);
            wait(repeats);
            retry(1);
        });
        let counts: Vec<_> = lines
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object")["suppressed"].as_u64())
            .collect();
        assert_eq!(counts, [None, Some(1)]);
    }

    #[test]
    fn ok_a_line_names_its_call() {
        let call = [("method", "kent.v1.Regions/Seal".to_owned()), ("principal", "a \"b\"".to_owned())];
        for (line, held, is_json, expected) in [
            ("INFO edited\n", 0, false, "INFO edited method=\"kent.v1.Regions/Seal\" principal=\"a \\\"b\\\"\"\n"),
            (
                "{\"level\":\"WARN\"}\n",
                2,
                true,
                "{\"level\":\"WARN\",\"suppressed\":2,\"call\":{\"method\":\"kent.v1.Regions/Seal\",\"principal\":\"a \\\"b\\\"\"}}\n",
            ),
        ] {
            assert_eq!(with_fields(line, held, &call, is_json), expected);
        }
    }
}
