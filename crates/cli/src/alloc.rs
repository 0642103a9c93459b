//! `kent alloc`: identifiers on standard output at pipe speed.
//!
//! One task fetches blocks; the main thread walks and prints them. A short queue lies between, so that the next block is
//! on its way while this one is printed.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use kent_ids::{Block, Id, Source};
use kent_proto::v1::{AllocateRequest, Encoding, GetSpaceRequest, allocate_response::Identifiers};
use rand::rngs::ThreadRng;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tonic::{Code, Response};

use crate::args::AllocArgs;
use crate::connect::{Daemon, Endpoints, request};
use crate::failure::{Failure, Refusal};
use crate::names;
use crate::number::Form;

/// The first block is small, so that the first identifier comes at once.
const BATCH_FIRST: u64 = 10_000;

/// Large enough that a round trip costs nothing beside the printing, small enough that little is lost on Ctrl-C.
const BATCH_MAX: u64 = 1_000_000;

/// Where the clock refuses a block, smaller ones are asked for, down to this.
const BATCH_MIN: u64 = 1_000;

/// Blocks in the queue besides the one that is being printed.
const AHEAD_BLOCKS: usize = 1;

/// How much is written at once: whole lines, so that an interrupted run ends with a whole line.
const BUFFER_BYTES: usize = 64 * 1024;

/// How long to put up with a source that grants nothing, in time spent waiting.
const PATIENCE: Duration = Duration::from_secs(30);

/// From this many identifiers on a progress bar is worth its place.
const PROGRESS_MIN: u64 = 100_000;

/// How long standard output may take for what was being written when Ctrl-C came.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &AllocArgs, endpoints: Endpoints, runtime: &Runtime, json: bool) -> Result<(), Failure> {
    let wanted = args.count.get();
    let (stop, stopped) = watch::channel(false);
    runtime.spawn(stop_on_ctrl_c(stop));
    let (queue, blocks) = mpsc::channel(AHEAD_BLOCKS);
    let fetcher = Fetcher::new(args.source.clone(), args.request_id.clone(), wanted, endpoints);
    let fetching = runtime.spawn(fetcher.run(queue, stopped.clone()));
    let mut printer = Printer::new(json, wanted, stopped);
    printer.print_all(blocks)?;
    let fetched = runtime.block_on(fetching).map_err(|died| Failure::Runtime(io::Error::other(died)))?;
    fetched.map_err(|failure| printer.tell_how_far(failure))
}

/// Says stop at the first Ctrl-C. At the second, or if standard output is stuck, the program ends there and then.
async fn stop_on_ctrl_c(stop: watch::Sender<bool>) {
    if tokio::signal::ctrl_c().await.is_ok() {
        stop.send_replace(true);
        // Whether the second Ctrl-C or the end of the grace period comes first makes no difference.
        let _ = timeout(GRACE, tokio::signal::ctrl_c()).await;
        process::exit(130);
    }
}

/// A block, and how its identifiers are written.
struct Fetched {
    block: Block,
    form: Form,
}

/// Asks for blocks until all identifiers are there, and never for more than are missing.
struct Fetcher {
    source: Source,
    /// How its identifiers are written, once that is known.
    form: Option<Form>,
    request_id: String,
    missing: u64,
    batch: Batch,
    endpoints: Endpoints,
    daemon: Option<Daemon>,
    patience: Patience,
}

impl Fetcher {
    fn new(source: Source, request_id: String, wanted: u64, endpoints: Endpoints) -> Self {
        Self {
            source,
            form: None,
            request_id,
            missing: wanted,
            batch: Batch::new(),
            endpoints,
            daemon: None,
            patience: Patience::NotYet,
        }
    }

    async fn run(self, queue: mpsc::Sender<Fetched>, mut stopped: watch::Receiver<bool>) -> Result<(), Failure> {
        tokio::select! {
            result = self.fetch_all(queue) => result,
            Ok(_) = stopped.wait_for(|&stopped| stopped) => Err(Failure::Interrupted),
        }
    }

    async fn fetch_all(mut self, queue: mpsc::Sender<Fetched>) -> Result<(), Failure> {
        while self.missing > 0 {
            match self.fetch().await {
                Ok(fetched) => {
                    self.missing = self.missing.saturating_sub(fetched.block.count());
                    self.batch.grow();
                    self.patience = Patience::fresh();
                    if queue.send(fetched).await.is_err() {
                        return Ok(()); // The printer has failed, and tells why.
                    }
                }
                Err(failure) => self.wait_after(failure).await?,
            }
        }
        Ok(())
    }

    async fn fetch(&mut self) -> Result<Fetched, Failure> {
        let daemon = self.daemon().await?;
        let form = self.form(&daemon).await?;
        let count = self.asked();
        let message = AllocateRequest {
            source: self.source.to_string(),
            count,
            encoding: Encoding::Lease.into(),
            request_id: self.request_id.clone(),
        };
        let reply = daemon.allocator().allocate(request(message)).await?.into_inner();
        let Some(Identifiers::Lease(lease)) = reply.identifiers else {
            return Err(Failure::Answer("asked for a lease, got none".to_owned()));
        };
        let block = Block::try_from(lease).map_err(|error| Failure::Answer(error.to_string()))?;
        if block.count() > count {
            return Err(Failure::Answer(format!("asked for {count} identifiers, got {}", block.count())));
        }
        Ok(Fetched { block, form })
    }

    /// How the source's identifiers are written: those of a region, as its space says.
    async fn form(&mut self, daemon: &Daemon) -> Result<Form, Failure> {
        let form = match (self.form, &self.source) {
            (Some(form), _) => form,
            (None, Source::Region { space, .. }) => {
                let message = GetSpaceRequest { name: names::space(space) };
                match daemon.regions().get_space(request(message)).await.map(Response::into_inner) {
                    Ok(space) => Form::of(space.text_form(), space.bits),
                    // Whoever does not know the space refuses the grant, too, and says why.
                    Err(status) if matches!(status.code(), Code::NotFound | Code::Unimplemented) => Form::Decimal,
                    Err(status) => return Err(status.into()),
                }
            }
            (None, Source::Format(_) | Source::Series(_)) => Form::Decimal,
        };
        self.form = Some(form);
        Ok(form)
    }

    /// How many identifiers the next request is for.
    fn asked(&self) -> u64 {
        // A named request is granted once, so it must be one.
        if self.request_id.is_empty() { self.missing.min(self.batch.size) } else { self.missing }
    }

    /// The daemon that answered last, or else the first one that answers now.
    async fn daemon(&mut self) -> Result<Daemon, Failure> {
        if let Some(daemon) = &self.daemon {
            return Ok(daemon.clone());
        }
        let daemon = self.endpoints.connect().await?;
        // From now on a daemon that goes away is expected back.
        self.patience.begin();
        Ok(self.daemon.insert(daemon).clone())
    }

    /// Waits as long as it makes sense after a failure; where it makes none, the failure is final.
    async fn wait_after(&mut self, failure: Failure) -> Result<(), Failure> {
        match cure(&failure) {
            Cure::Clock(delay) => {
                self.batch.shrink();
                sleep(self.patience.spend(Some(delay)).ok_or(failure)?).await;
            }
            Cure::SmallerBlocks if self.asked() > 1 && self.request_id.is_empty() => self.batch.limit(self.asked() / 2),
            Cure::OtherDaemon(delay) => {
                let delay = self.patience.spend(delay).ok_or(failure)?;
                self.daemon = None;
                self.endpoints.rotate();
                sleep(delay).await;
            }
            Cure::SmallerBlocks | Cure::Nothing => return Err(failure),
        }
        Ok(())
    }
}

/// How many identifiers to ask for at once.
#[derive(Debug)]
struct Batch {
    size: u64,
    max: u64,
}

impl Batch {
    fn new() -> Self {
        Self { size: BATCH_FIRST, max: BATCH_MAX }
    }

    fn limit(&mut self, most: u64) {
        self.max = self.max.min(most).max(1);
        self.size = self.size.min(self.max);
    }

    fn grow(&mut self) {
        self.size = (self.size * 4).min(self.max); // OK because both are at most BATCH_MAX
    }

    fn shrink(&mut self) {
        self.size = (self.size / 2).max(BATCH_MIN.min(self.max));
    }
}

/// How much more waiting there may be before something is granted.
#[derive(Debug)]
enum Patience {
    /// No daemon has answered yet: say so at once.
    NotYet,
    Left {
        left: Duration,
        backoff: Duration,
    },
}

impl Patience {
    const BACKOFF_FIRST: Duration = Duration::from_millis(50);
    const BACKOFF_MAX: Duration = Duration::from_secs(2);

    fn fresh() -> Self {
        Self::Left { left: PATIENCE, backoff: Self::BACKOFF_FIRST }
    }

    fn begin(&mut self) {
        if matches!(self, Self::NotYet) {
            *self = Self::fresh();
        }
    }

    /// How long to wait: as long as was said, or a little longer each time; `None` when patience has run out.
    fn spend(&mut self, said: Option<Duration>) -> Option<Duration> {
        let Self::Left { left, backoff } = self else { return None };
        let delay = said.unwrap_or(*backoff).max(Duration::from_millis(1));
        *left = left.checked_sub(delay)?;
        *backoff = (*backoff * 2).min(Self::BACKOFF_MAX);
        Some(delay)
    }
}

/// What may help after a failure.
#[derive(Debug, PartialEq, Eq)]
enum Cure {
    /// The clock must move on: wait this long.
    Clock(Duration),
    /// The daemon's limit is lower than what was asked for.
    SmallerBlocks,
    /// Another daemon, or the same one after a while.
    OtherDaemon(Option<Duration>),
    Nothing,
}

/// The field of a request that says how many identifiers are asked for.
const COUNT: &str = "count";

fn cure(failure: &Failure) -> Cure {
    match failure {
        Failure::NoDaemon { .. } => Cure::OtherDaemon(None),
        Failure::Refused(refusal) => match (refusal.code, refusal.retry_after) {
            (Code::Unavailable, delay) => Cure::OtherDaemon(delay),
            // What the lost answer granted is a gap.
            (_, delay) if refusal.is_broken => Cure::OtherDaemon(delay),
            // Without a delay it is a full region: waiting does not help.
            (Code::ResourceExhausted, Some(delay)) => Cure::Clock(delay),
            (Code::InvalidArgument, _) if refusal.violations.iter().any(|it| it.subject == COUNT) => {
                Cure::SmallerBlocks
            }
            _ => Cure::Nothing,
        },
        _ => Cure::Nothing,
    }
}

/// Writes identifiers, one a line.
struct Printer {
    json: bool,
    before: &'static [u8],
    after: &'static [u8],
    buffer: Vec<u8>,
    rng: ThreadRng,
    progress: Progress,
    wanted: u64,
    written: u64,
    stopped: watch::Receiver<bool>,
}

impl Printer {
    fn new(json: bool, wanted: u64, stopped: watch::Receiver<bool>) -> Self {
        let (before, after): (&[u8], &[u8]) = if json { (b"{\"id\":\"", b"\"}\n") } else { (b"", b"\n") };
        let buffer = Vec::with_capacity(BUFFER_BYTES + 128); // one line more than is written at once
        Self {
            json,
            before,
            after,
            buffer,
            rng: rand::rng(),
            progress: Progress::new(wanted),
            wanted,
            written: 0,
            stopped,
        }
    }

    fn print_all(&mut self, mut blocks: mpsc::Receiver<Fetched>) -> Result<(), Failure> {
        while let Some(Fetched { block, form }) = blocks.blocking_recv() {
            // For programs a number is a decimal one.
            let form = if self.json { Form::Decimal } else { form };
            self.print(&block, form)?;
        }
        Ok(())
    }

    fn print(&mut self, block: &Block, form: Form) -> Result<(), Failure> {
        let mut pending = 0;
        for id in block.walk(self.rng.clone()) {
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
        self.progress.beside(|| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(buffer).and_then(|()| stdout.flush()).map_err(Failure::Output)
        })?;
        self.buffer.clear();
        self.written += lines;
        self.progress.advance(lines);
        Ok(())
    }

    /// Adds to a refusal how many identifiers were printed before it came.
    fn tell_how_far(&self, failure: Failure) -> Failure {
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

/// Appends the canonical text, as `Display` gives it, without the detour through the formatting machinery; a number, as its
/// space writes it.
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

/// A progress bar on standard error, if a person watches and there is much to do.
struct Progress {
    bar: ProgressBar,
    /// The identifiers scroll over the same terminal.
    shares_terminal: bool,
}

impl Progress {
    fn new(wanted: u64) -> Self {
        // The draw target is hidden by indicatif itself if standard error is no terminal.
        let target = if wanted < PROGRESS_MIN { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(wanted), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len}, {rate}, {eta} to go") {
            bar.set_style(style.with_key("rate", write_rate));
        }
        Self { bar, shares_terminal: io::stdout().is_terminal() }
    }

    /// Runs something that writes to standard output, with the bar out of its way.
    fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.shares_terminal { self.bar.suspend(write) } else { write() }
    }

    fn advance(&self, lines: u64) {
        self.bar.inc(lines);
    }
}

/// Whole identifiers a second; indicatif would show fractions of them.
fn write_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    // OK because a rate that does not fit saturates. Where nothing can be written, nothing is seen.
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

    fn refused(code: Code, retry_after: Option<Duration>) -> Failure {
        Failure::Refused(Box::new(Refusal {
            code,
            reason: None,
            message: String::new(),
            facts: Vec::new(),
            violations: Vec::new(),
            retry_after,
            is_broken: false,
        }))
    }

    #[test]
    fn ok_only_clocks_and_absences_are_waited_for() {
        let second = Duration::from_secs(1);
        for (failure, expected) in [
            (refused(Code::ResourceExhausted, Some(second)), Cure::Clock(second)),
            (refused(Code::ResourceExhausted, None), Cure::Nothing),
            (refused(Code::Unavailable, Some(second)), Cure::OtherDaemon(Some(second))),
            (refused(Code::Unavailable, None), Cure::OtherDaemon(None)),
            (refused(Code::NotFound, Some(second)), Cure::Nothing),
            (refused(Code::DeadlineExceeded, None), Cure::Nothing),
            (Failure::NoDaemon { tried: Vec::new() }, Cure::OtherDaemon(None)),
            (Failure::Answer(String::new()), Cure::Nothing),
        ] {
            assert_eq!(cure(&failure), expected, "{failure:?}");
        }
    }

    #[test]
    fn ok_patience_begins_with_the_first_answer_and_ends() {
        let mut patience = Patience::NotYet;
        assert_eq!(patience.spend(None), None);
        patience.begin();
        let waits: Vec<_> = std::iter::from_fn(|| patience.spend(None)).collect();
        assert_eq!(waits[..3], [50, 100, 200].map(Duration::from_millis));
        assert!(waits.iter().sum::<Duration>() <= PATIENCE);
        assert!(waits.len() < 30, "{waits:?}");
        assert_eq!(Patience::fresh().spend(Some(PATIENCE * 2)), None);
    }

    #[test]
    fn ok_batches_stay_within_their_bounds() {
        let mut batch = Batch::new();
        for _ in 0..20 {
            batch.grow();
        }
        assert_eq!(batch.size, BATCH_MAX);
        batch.limit(70_000);
        assert_eq!(batch.size, 70_000);
        for _ in 0..20 {
            batch.shrink();
        }
        assert_eq!(batch.size, BATCH_MIN);
        batch.limit(0);
        batch.shrink();
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
