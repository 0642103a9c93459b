//! `kent alloc`: prints identifiers as fast as a pipe takes them.
//!
//! One task fetches blocks and the main thread prints them. A short queue between them allows the task to fetch the next block
//! while the main thread prints the current one.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use kent_client::tonic::{Code, Response};
use kent_client::{Block, Client, Error};
use kent_ids::{Id, Source};
use kent_proto::v1::GetSpaceRequest;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::args::AllocArgs;
use crate::charset;
use crate::connect::request;
use crate::failure::{Failure, Refusal};
use crate::names;
use crate::number::Form;

/// The size of the first block in identifiers. It is small, so that the first identifier appears immediately.
const BATCH_FIRST: u64 = 10_000;

/// The maximum size of a block in identifiers: large enough that printing takes much longer than a round trip, and small enough
/// that Ctrl-C loses few identifiers and that the daemon's clock soon allows a block of any format.
const BATCH_MAX: u64 = 1 << 18;

/// The capacity of the queue in blocks, not counting the block that is being printed.
const AHEAD_BLOCKS: usize = 1;

/// The size of one write in bytes. Each write holds whole lines, so that an interrupted run ends with a whole line.
const BUFFER_BYTES: usize = 64 * 1024;

/// The smallest number of identifiers for which a progress bar is shown.
const PROGRESS_MIN: u64 = 100_000;

/// After Ctrl-C, the time that a write in progress has to finish.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &AllocArgs, client: Client, runtime: &Runtime, json: bool) -> Result<(), Failure> {
    let wanted = args.count.get();
    let (stop, stopped) = watch::channel(false);
    runtime.spawn(stop_on_ctrl_c(stop));
    let (queue, blocks) = mpsc::channel(AHEAD_BLOCKS);
    let fetcher = Fetcher::new(args.source(), args.request_id.clone(), wanted, client);
    let fetching = runtime.spawn(fetcher.run(queue, stopped.clone()));
    let mut printer = Printer::new(json, wanted, stopped);
    printer.print_all(blocks)?;
    let fetched = runtime.block_on(fetching).map_err(|died| Failure::Runtime(io::Error::other(died)))?;
    fetched.map_err(|failure| printer.add_progress(failure))
}

/// Signals `stop` at the first Ctrl-C. At the second, or if standard output is blocked, it ends the program immediately.
async fn stop_on_ctrl_c(stop: watch::Sender<bool>) {
    if tokio::signal::ctrl_c().await.is_ok() {
        stop.send_replace(true);
        // OK because both a second Ctrl-C and the end of the grace period lead to the exit.
        let _ = timeout(GRACE, tokio::signal::ctrl_c()).await;
        process::exit(130);
    }
}

/// A block, and the text form of its identifiers.
struct Fetched {
    block: Block<Id>,
    form: Form,
}

/// Requests blocks until all identifiers are fetched, and never requests more than are missing.
struct Fetcher {
    source: Source,
    request_id: String,
    missing: u64,
    batch: Batch,
    client: Client,
}

impl Fetcher {
    const fn new(source: Source, request_id: String, wanted: u64, client: Client) -> Self {
        Self { source, request_id, missing: wanted, batch: Batch::new(), client }
    }

    async fn run(self, queue: mpsc::Sender<Fetched>, mut stopped: watch::Receiver<bool>) -> Result<(), Failure> {
        tokio::select! {
            result = self.fetch_all(queue) => result,
            Ok(_) = stopped.wait_for(|&stopped| stopped) => Err(Failure::Interrupted),
        }
    }

    async fn fetch_all(mut self, queue: mpsc::Sender<Fetched>) -> Result<(), Failure> {
        // If no daemon answers, fail now. After the first answer, wait for a daemon that goes away.
        self.client.connect().await?;
        let form = self.form().await?;
        let ids = self.client.source(&self.source.to_string());
        while self.missing > 0 {
            match ids.fetch_block(self.next_count()).request_id(&self.request_id).await {
                Ok(block) => {
                    self.missing = self.missing.saturating_sub(block.count());
                    self.batch.grow();
                    if queue.send(Fetched { block, form }).await.is_err() {
                        return Ok(()); // the printer has failed and reports why
                    }
                }
                // The daemon's limit is below the requested count. A request with a name cannot be made smaller.
                Err(Error::Refused { field, .. })
                    if field == COUNT && self.next_count() > 1 && self.request_id.is_empty() =>
                {
                    self.batch.limit(self.next_count() / 2);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The text form of the source's identifiers. The form of a region is a property of its space.
    async fn form(&self) -> Result<Form, Failure> {
        let Source::Region { space, .. } = &self.source else { return Ok(Form::Decimal) };
        let message = GetSpaceRequest { name: names::space(space) };
        let space = self.client.retry(async |daemon| daemon.regions().get_space(request(message.clone())).await);
        match space.await.map(Response::into_inner) {
            Ok(space) => Ok(Form::of(space.text_form(), space.bits)),
            // A daemon that does not know the space also refuses the grant, with a better message.
            Err(Error::Refused { code: Code::NotFound | Code::Unimplemented, .. }) => Ok(Form::Decimal),
            Err(error) => Err(error.into()),
        }
    }

    /// The number of identifiers in the next request.
    fn next_count(&self) -> u64 {
        // The daemon grants a request with a name once, so a single request must cover everything.
        if self.request_id.is_empty() { self.missing.min(self.batch.size) } else { self.missing }
    }
}

/// The field of a request that contains the number of identifiers.
const COUNT: &str = "count";

/// The number of identifiers per request.
#[derive(Debug)]
struct Batch {
    size: u64,
    max: u64,
}

impl Batch {
    const fn new() -> Self {
        Self { size: BATCH_FIRST, max: BATCH_MAX }
    }

    fn limit(&mut self, most: u64) {
        self.max = self.max.min(most).max(1);
        self.size = self.size.min(self.max);
    }

    fn grow(&mut self) {
        self.size = (self.size * 4).min(self.max); // OK because both are at most BATCH_MAX
    }
}

/// Writes identifiers, one per line.
struct Printer {
    json: bool,
    before: &'static [u8],
    after: &'static [u8],
    buffer: Vec<u8>,
    progress: Progress,
    wanted: u64,
    written: u64,
    stopped: watch::Receiver<bool>,
}

impl Printer {
    fn new(json: bool, wanted: u64, stopped: watch::Receiver<bool>) -> Self {
        let (before, after): (&[u8], &[u8]) = if json { (b"{\"id\":\"", b"\"}\n") } else { (b"", b"\n") };
        let buffer = Vec::with_capacity(BUFFER_BYTES + 128); // one line more than a write
        Self { json, before, after, buffer, progress: Progress::new(wanted), wanted, written: 0, stopped }
    }

    fn print_all(&mut self, mut blocks: mpsc::Receiver<Fetched>) -> Result<(), Failure> {
        while let Some(Fetched { block, form }) = blocks.blocking_recv() {
            // In JSON, numbers are always decimal.
            let form = if self.json { Form::Decimal } else { form };
            self.print(block, form)?;
        }
        Ok(())
    }

    fn print(&mut self, block: Block<Id>, form: Form) -> Result<(), Failure> {
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

    /// Writes the buffer, which holds this many whole lines.
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
        self.written += lines;
        self.progress.advance(lines);
        Ok(())
    }

    /// Adds the number of printed identifiers to a refusal.
    fn add_progress(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Refused(refusal) if self.written > 0 => {
                let mut facts = refusal.facts;
                facts.push(("printed".to_owned(), format!("{} of {}", self.written, self.wanted)));
                Failure::Refused(Box::new(Refusal { facts, ..*refusal }))
            }
            other => other,
        }
    }
}

/// Appends the same text as `Display`, but faster because it avoids `fmt`. Numbers are written in `form`.
fn append_text(buffer: &mut Vec<u8>, id: Id, form: Form) {
    match id {
        Id::Uuid(uuid) => {
            let mut text = [0; 36];
            uuid.hyphenated().encode_lower(&mut text);
            buffer.extend_from_slice(&text);
        }
        Id::Uid11(uid11) => buffer.extend_from_slice(&uid11.text()),
        Id::Number { value, .. } if form != Form::Decimal => buffer.extend_from_slice(form.text(value).as_bytes()),
        Id::Number { value, .. } => buffer.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
    }
}

/// A progress bar on standard error, shown on a terminal and for large counts.
struct Progress {
    bar: ProgressBar,
    /// Standard output is a terminal as well, so the identifiers scroll over the bar.
    shares_terminal: bool,
}

impl Progress {
    fn new(wanted: u64) -> Self {
        // indicatif itself hides the bar if standard error is not a terminal.
        let target = if wanted < PROGRESS_MIN { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(wanted), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len}, {rate}, {eta} to go") {
            let style = if charset::is_ascii() { style.progress_chars("#>-") } else { style };
            bar.set_style(style.with_key("rate", write_rate));
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

/// Writes the rate in whole identifiers per second; indicatif would show fractions.
fn write_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    // OK because a rate that does not fit saturates. An error leaves the rate out of the bar.
    let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
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
    fn ok_batch_sizes_stay_within_their_bounds() {
        let mut batch = Batch::new();
        for _ in 0..20 {
            batch.grow();
        }
        assert_eq!(batch.size, BATCH_MAX);
        batch.limit(70_000);
        assert_eq!(batch.size, 70_000);
        batch.grow();
        assert_eq!(batch.size, 70_000);
        batch.limit(0);
        assert_eq!(batch.size, 1);
    }

    #[test]
    fn ok_the_fast_text_is_the_canonical_text() {
        let uuid = "019aa2be-bb3b-7000-8050-c00000000009".parse().map(Id::Uuid).expect("a UUID");
        let xid = kent_ids::Uid11::parse("5Jxqwr73FDS").map(Id::Uid11).expect("a uid11");
        let numbers = [0, 7, u128::from(u64::MAX) + 1, u128::MAX].map(|value| Id::Number { value, bits: 128 });
        for id in [uuid, xid].into_iter().chain(numbers) {
            let mut buffer = Vec::new();
            append_text(&mut buffer, id, Form::Decimal);
            assert_eq!(String::from_utf8(buffer).as_deref(), Ok(id.to_string().as_str()));
        }
    }
}
