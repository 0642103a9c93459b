//! Prints identifiers, one per line, with a progress bar on standard error.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use kent_client::Block;
use kent_ids::Id;
use tokio::sync::{mpsc, watch};

use crate::charset;
use crate::failure::Failure;
use crate::number::{self, Form};

/// The size of one write in bytes. Each write holds whole lines, so that an interrupted run ends with a whole line.
const BUFFER_BYTES: usize = 64 * 1024;

/// The smallest number of identifiers for which a progress bar is shown.
const PROGRESS_MIN: u64 = 100_000;

/// A block, and the text form of its identifiers.
pub(super) struct Fetched {
    pub(super) block: Block<Id>,
    pub(super) form: Form,
}

/// The numbers of requested and printed identifiers, for messages.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    wanted: u64,
    printed: Arc<AtomicU64>,
    /// The number of identifiers in the latest request.
    requested: Arc<AtomicU64>,
}

impl Tally {
    pub(super) fn new(wanted: u64) -> Self {
        Self { wanted, printed: Arc::default(), requested: Arc::default() }
    }

    pub(super) fn request(&self, count: u64) {
        self.requested.store(count, Ordering::Relaxed);
    }

    /// The number of identifiers in the latest request, if more are still to be requested afterward.
    pub(super) fn part(&self) -> Option<u64> {
        let missing = self.wanted.saturating_sub(self.printed.load(Ordering::Relaxed));
        Some(self.requested.load(Ordering::Relaxed)).filter(|requested| *requested < missing)
    }

    /// Adds the number of identifiers printed so far to a failure. Omits the number if a request was refused before
    /// anything was printed.
    pub(super) fn stopped_by(&self, cause: Failure) -> Failure {
        match self.printed.load(Ordering::Relaxed) {
            0 if !matches!(cause, Failure::Interrupted | Failure::TimedOut { .. }) => cause,
            printed => Failure::Stopped { cause: Box::new(cause), printed, wanted: self.wanted },
        }
    }
}

/// Writes identifiers, one per line.
pub(super) struct Printer {
    json: bool,
    before: &'static [u8],
    after: &'static [u8],
    buffer: Vec<u8>,
    progress: Progress,
    tally: Tally,
    stopped: watch::Receiver<bool>,
}

impl Printer {
    pub(super) fn new(json: bool, tally: Tally, stopped: watch::Receiver<bool>) -> Self {
        let (before, after): (&[u8], &[u8]) = if json { (b"{\"id\":\"", b"\"}\n") } else { (b"", b"\n") };
        let buffer = Vec::with_capacity(BUFFER_BYTES + 128); // a full write, and the line that fills it
        Self { json, before, after, buffer, progress: Progress::new(tally.wanted), tally, stopped }
    }

    /// Returns the progress bar, which must be suspended during other output on standard error.
    pub(super) fn bar(&self) -> ProgressBar {
        self.progress.bar.clone()
    }

    pub(super) fn print_all(&mut self, mut blocks: mpsc::Receiver<Fetched>) -> Result<(), Failure> {
        while let Some(Fetched { block, form }) = blocks.blocking_recv() {
            // In JSON, the numbers of regions are always decimal.
            let form = match form {
                Form::Layout(..) => form,
                _ if self.json => Form::Decimal,
                _ => form,
            };
            self.print(block, &form)?;
        }
        Ok(())
    }

    fn print(&mut self, block: Block<Id>, form: &Form) -> Result<(), Failure> {
        let mut pending = 0;
        for id in block {
            self.buffer.extend_from_slice(self.before);
            append_text(&mut self.buffer, id, form);
            self.buffer.extend_from_slice(self.after);
            pending += 1;
            if self.buffer.len() >= BUFFER_BYTES {
                self.write(std::mem::take(&mut pending))?;
            }
        }
        self.write(pending)
    }

    /// Writes the buffer, which holds `lines` whole lines.
    fn write(&mut self, lines: u64) -> Result<(), Failure> {
        if *self.stopped.borrow() {
            return Err(Failure::Interrupted);
        }
        let buffer = &self.buffer;
        self.progress.suspended(|| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(buffer).and_then(|()| stdout.flush()).map_err(Failure::Output)
        })?;
        self.buffer.clear();
        self.tally.printed.fetch_add(lines, Ordering::Relaxed);
        self.progress.advance(lines);
        Ok(())
    }
}

/// Appends the same text as `Display`, but faster because it avoids `fmt`. Numbers are written in `form`.
fn append_text(buffer: &mut Vec<u8>, id: Id, form: &Form) {
    match id {
        Id::Uuid(uuid) => {
            let mut text = [0; 36];
            uuid.hyphenated().encode_lower(&mut text);
            buffer.extend_from_slice(&text);
        }
        Id::Uid11(uid11) => buffer.extend_from_slice(&uid11.text()),
        Id::Number { value, .. } if *form != Form::Decimal => buffer.extend_from_slice(form.text(value).as_bytes()),
        Id::Number { value, .. } => buffer.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
    }
}

/// A progress bar on standard error, shown only on a terminal and for large counts.
struct Progress {
    bar: ProgressBar,
    /// Whether standard output is a terminal as well, so that the identifiers scroll over the bar.
    shares_terminal: bool,
}

impl Progress {
    fn new(wanted: u64) -> Self {
        // indicatif itself hides the bar if standard error is not a terminal.
        let target = if wanted < PROGRESS_MIN { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(wanted), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {done} of {all}, {rate}/s, {eta} to go") {
            let style = style
                .with_key("done", |state: &ProgressState, out: &mut dyn fmt::Write| write_grouped(state.pos(), out))
                .with_key("all", |state: &ProgressState, out: &mut dyn fmt::Write| {
                    write_grouped(state.len().unwrap_or_default(), out);
                })
                // OK because a rate that does not fit saturates.
                .with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                    write_grouped(state.per_sec() as u64, out);
                });
            bar.set_style(if charset::is_ascii() { style.progress_chars("#>-") } else { style });
        }
        Self { bar, shares_terminal: io::stdout().is_terminal() }
    }

    /// Runs `write`, which writes to standard output, while the bar is hidden.
    fn suspended<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.shares_terminal { self.bar.suspend(write) } else { write() }
    }

    fn advance(&self, lines: u64) {
        self.bar.inc(lines);
    }
}

fn write_grouped(number: u64, out: &mut dyn fmt::Write) {
    // OK because an error only leaves the number out of the bar.
    let _ = out.write_str(&number::grouped(number));
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_fast_text_is_the_canonical_text() {
        let uuid = "019aa2be-bb3b-7000-8050-c00000000009".parse().map(Id::Uuid).expect("a UUID");
        let xid = kent_ids::Uid11::parse("5Jxqwr73FDS").map(Id::Uid11).expect("a uid11");
        let numbers = [0, 7, u128::from(u64::MAX) + 1, u128::MAX].map(|value| Id::Number { value, bits: 128 });
        for id in [uuid, xid].into_iter().chain(numbers) {
            let mut buffer = Vec::new();
            append_text(&mut buffer, id, &Form::Decimal);
            assert_eq!(String::from_utf8(buffer).as_deref(), Ok(id.to_string().as_str()));
        }
    }
}
