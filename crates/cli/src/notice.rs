//! Messages on standard error: errors in red and warnings in yellow on a terminal.

use std::io::{self, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use serde_json::json;
use tokio::time::Instant;

use crate::charset;
use crate::output::{Palette, Role};

/// The words that begin a message, and their colors.
const MARKS: [(&str, Role); 2] = [("error:", Role::Bad), ("warning:", Role::Warning)];

/// Writes a message, which contains its own line feeds. A failure to write is ignored, because it cannot be reported
/// anywhere else.
pub(crate) fn write(text: &str, is_json: bool) {
    let text = if is_json { text.to_owned() } else { paint(&charset::show(text), palette()) };
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes a warning: a line of text, or one JSON object.
pub(crate) fn warn(text: &str, is_json: bool) {
    let line = if is_json { json!({"warning": {"message": text}}).to_string() } else { format!("warning: {text}") };
    write(&format!("{line}\n"), is_json);
}

fn palette() -> Palette {
    Palette { color: AutoStream::choice(&io::stderr()) != ColorChoice::Never, ..Palette::default() }
}

/// Colors the mark at the start of each line that has one.
fn paint(text: &str, palette: Palette) -> String {
    let paint_line = |line: &str| {
        let mark = MARKS.iter().find_map(|(mark, role)| Some((mark, role, line.strip_prefix(mark)?)));
        match mark {
            Some((mark, role, rest)) => palette.paint(*role, mark) + rest,
            None => line.to_owned(),
        }
    };
    text.split_inclusive('\n').map(paint_line).collect()
}

/// A warning that may repeat quickly. It is written at most once per second, and then with the number of repetitions.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    last: Option<Instant>,
    held: u32,
}

/// The minimum time between two warnings.
const PAUSE: Duration = Duration::from_secs(1);

impl Repeated {
    /// Writes a warning, unless the last one is too recent.
    pub(crate) fn warn(&mut self, text: &str, is_json: bool) {
        if let Some(text) = self.admit(text, Instant::now()) {
            warn(&text, is_json);
        }
    }

    fn admit(&mut self, text: &str, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            self.held = self.held.saturating_add(1);
            return None;
        }
        self.last = Some(now);
        Some(match std::mem::take(&mut self.held) {
            0 => text.to_owned(),
            held => format!("{text} ({held} more like this since the last message)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_only_marks_are_colored() {
        let color = Palette { color: true, ..Palette::default() };
        assert_eq!(paint("error: a\n  error: b\nwarning: c", color), {
            "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m a\n  error: b\n\u{1b}[33mwarning:\u{1b}[0m c"
        });
        assert_eq!(paint("error: a\n", Palette::default()), "error: a\n");
    }

    #[test]
    fn ok_a_repeated_warning_is_counted() {
        let (mut repeated, start) = (Repeated::default(), Instant::now());
        let mut at = |ms| repeated.admit("gone", start + Duration::from_millis(ms));
        assert_eq!(at(0).as_deref(), Some("gone"));
        assert_eq!((at(10), at(999)), (None, None));
        assert_eq!(at(1000).as_deref(), Some("gone (2 more like this since the last message)"));
        assert_eq!(at(1001), None);
        assert_eq!(at(3000).as_deref(), Some("gone (1 more like this since the last message)"));
        assert_eq!(at(4000).as_deref(), Some("gone"));
    }
}
