//! The conversation of one case: the messages of the kit, the client and the daemons, with their times.

use std::{
    fmt::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

/// The conversation of one case, and the faults that the daemons detected.
#[derive(Debug)]
pub struct Log {
    began: Instant,
    lines: Mutex<Vec<String>>,
    faults: Mutex<Vec<String>>,
}

/// The maximum number of characters in a line. Without it, the identifiers of a large block would hide the rest of the
/// log.
const LINE_MAX: usize = 400;

impl Default for Log {
    fn default() -> Self {
        Self { began: Instant::now(), lines: Mutex::default(), faults: Mutex::default() }
    }
}

impl Log {
    /// Adds a line with a speaker and a message.
    pub fn say(&self, who: &str, what: &str) {
        let what = what.trim_end();
        let cut = what.char_indices().nth(LINE_MAX).map(|(at, _)| at);
        let (what, rest) = cut.map_or((what, String::new()), |at| {
            (&what[..at], format!("... ({} more characters)", what[at..].chars().count()))
        });
        let line = format!("{:>8.3} {who}: {what}{rest}", self.began.elapsed().as_secs_f64());
        whole(&self.lines).push(line);
    }

    /// Adds a fault, which fails the case.
    pub fn fault(&self, what: String) {
        self.say("fault", &what);
        whole(&self.faults).push(what);
    }

    /// Returns the first fault.
    pub fn first_fault(&self) -> Option<String> {
        whole(&self.faults).first().cloned()
    }

    /// Returns the conversation, with `indent` before each line.
    pub fn text(&self, indent: &str) -> String {
        whole(&self.lines).iter().fold(String::new(), |mut text, line| {
            // OK because writing to a `String` never fails.
            let _ = writeln!(text, "{indent}{line}");
            text
        })
    }
}

/// Locks a value that stays consistent even if a thread panics.
pub(crate) fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_long_lines_are_cut_between_characters() {
        let log = Log::default();
        log.say("a", &"é".repeat(LINE_MAX + 3));
        log.say("b", "short\n");
        let text = log.text("> ");
        assert!(text.contains("é... (3 more characters)\n") && text.ends_with(" b: short\n"), "{text}");
    }
}
