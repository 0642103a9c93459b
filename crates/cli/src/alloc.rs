//! `kent alloc`: prints identifiers as fast as a pipe accepts them.
//!
//! One task fetches blocks and the main thread prints them. A short queue between them allows the task to fetch the
//! next block while the main thread prints the current one.

mod printer;
mod waiting;

use std::future;
use std::io;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use kent_client::tonic::{Code, Response};
use kent_client::{Block, Client, Error, Handle};
use kent_ids::{Id, Source};
use kent_proto::v1::{GetLayoutRequest, GetSpaceRequest};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use self::printer::{Fetched, Printer, Tally};
use self::waiting::{Ends, Waiting};
use crate::args::AllocArgs;
use crate::connect::{request, request_timeout};
use crate::failure::{Failure, rounded};
use crate::known_layout::Known;
use crate::names;
use crate::notice;
use crate::number::{self, Form};
use crate::output;
use crate::reach::Reach;

/// The size of the first block in identifiers. It is small, so that the first identifier appears immediately.
const BATCH_FIRST: u64 = 10_000;

/// The maximum size of a block in identifiers. Printing a block of this size takes much longer than a round trip. Yet
/// Ctrl-C loses few identifiers, and the daemon's clock soon allows such a block in any format.
const BATCH_MAX: u64 = 1 << 18;

/// The capacity of the queue in blocks, not counting the block that is being printed.
const AHEAD_BLOCKS: usize = 1;

/// The time limit for a write that is in progress when the user presses Ctrl-C.
const GRACE: Duration = Duration::from_secs(2);

/// With `--timeout`, the pause before the next attempt when the client's own retries have failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints identifiers from the daemon at `endpoints`. `reach` has the options that suggested commands need to reach the
/// same daemon.
pub(crate) fn run(
    args: &AllocArgs,
    client: Client,
    endpoints: &str,
    runtime: &Runtime,
    json: bool,
    reach: Reach,
) -> Result<(), Failure> {
    if output::is_closed() {
        let error = io::Error::other("it is closed, so the identifiers would be lost");
        return Err(Failure::Output(error));
    }
    let tally = Tally::new(args.count.get());
    let (stop, stopped) = watch::channel(false);
    runtime.spawn(stop_on_ctrl_c(stop, tally.clone(), json));
    let (queue, blocks) = mpsc::channel(AHEAD_BLOCKS);
    let mut printer = Printer::new(json, tally.clone(), stopped.clone());
    let ends = match args.timeout {
        Some(limit) => Ends::At(format!("at --timeout {}", humantime::format_duration(limit))),
        None => Ends::After(format!("after {}", humantime::format_duration(request_timeout()))),
    };
    let source = args.source();
    let waiting = Waiting::new((endpoints.to_owned(), source.to_string()), ends, printer.bar(), json, reach);
    let fetcher = Fetcher {
        source,
        request_id: args.request_id.clone().unwrap_or_default(),
        tag: args.tag,
        missing: args.count.get(),
        tally: tally.clone(),
        limit: args.timeout,
        batch: Batch::new(),
        client,
        waiting: Arc::new(waiting),
    };
    let fetching = runtime.spawn(fetcher.run(queue, stopped));
    printer.print_all(blocks).map_err(|failure| tally.stopped_by(failure))?;
    let fetched = runtime.block_on(fetching).map_err(|died| Failure::Runtime(io::Error::other(died)))?;
    let fetched = fetched.map_err(|failure| if args.request_id.is_some() { with_heir_hint(failure) } else { failure });
    fetched.map_err(|failure| {
        tally.stopped_by(if args.timeout.is_none() { with_hint(failure, tally.part()) } else { failure })
    })
}

/// Adds a hint to a temporary refusal: a `--timeout` that is long enough, or advice if waiting alone does not help. The
/// refused request was for `part` identifiers if it was not for all that are missing.
fn with_hint(failure: Failure, part: Option<u64>) -> Failure {
    match failure {
        Failure::Refused(mut refusal) => {
            match (refusal.retry_after, refusal.reason.as_deref()) {
                (Some(_), Some("STORE_UNAVAILABLE" | "STORE_SLOW" | "OUT_OF_TOUCH")) => {
                    let advice = "the daemon works, but its store does not answer: `kent doctor` says why; repeat the command when \
                                  the store answers again";
                    refusal.advice.push(advice.to_owned());
                    refusal.retry_after = None;
                }
                (Some(delay), _) => {
                    let limit = humantime::format_duration(rounded(delay.saturating_add(request_timeout())))
                        .to_string()
                        .replace(' ', "");
                    let only = part.map(|part| format!(" for the next {}", number::grouped(part))).unwrap_or_default();
                    refusal.facts.push(("timeout".to_owned(), format!("--timeout {limit} is long enough{only}")));
                }
                (None, _) => {}
            }
            Failure::Refused(refusal)
        }
        other => other,
    }
}

/// Adds a hint to the refusal of a request with a request ID by a closed region: its heir would grant it again.
fn with_heir_hint(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(mut refusal) if refusal.reason.as_deref() == Some("CLOSED") => {
            refusal.advice.push(
                "the heir does not know this request ID: before you use the heir, find out whether an earlier attempt got its \
                 identifiers"
                    .to_owned(),
            );
            Failure::Refused(refusal)
        }
        other => other,
    }
}

/// Signals `stop` at the first Ctrl-C. Terminates the program at the second Ctrl-C, or after [`GRACE`] if standard
/// output is blocked.
async fn stop_on_ctrl_c(stop: watch::Sender<bool>, tally: Tally, json: bool) {
    if tokio::signal::ctrl_c().await.is_ok() {
        stop.send_replace(true);
        // OK because both a second Ctrl-C and the end of the grace period lead to the exit.
        let _ = timeout(GRACE, tokio::signal::ctrl_c()).await;
        notice::write(&tally.stopped_by(Failure::Interrupted).render(json).unwrap_or_default(), json);
        process::exit(130);
    }
}

/// Requests blocks until all identifiers are fetched, and never requests more than are missing.
struct Fetcher {
    source: Source,
    request_id: String,
    tag: Option<u64>,
    missing: u64,
    tally: Tally,
    /// The time limit for all identifiers.
    limit: Option<Duration>,
    batch: Batch,
    client: Client,
    waiting: Arc<Waiting>,
}

impl Fetcher {
    async fn run(self, queue: mpsc::Sender<Fetched>, mut stopped: watch::Receiver<bool>) -> Result<(), Failure> {
        let (limit, waiting) = (self.limit, self.waiting.clone());
        tokio::select! {
            result = self.fetch_all(queue) => result,
            Ok(_) = stopped.wait_for(|&stopped| stopped) => Err(Failure::Interrupted),
            status = waiting.hopeless() => Err(Failure::from(status)),
            limit = elapsed(limit) => Err(Failure::TimedOut { limit, waiting_for: waiting.reason() }),
        }
    }

    async fn fetch_all(mut self, queue: mpsc::Sender<Fetched>) -> Result<(), Failure> {
        // If no daemon answers, fail now. After the first answer, wait if the daemon becomes unreachable.
        let count = self.next_count();
        self.waiting.during(count, self.client.connect()).await?;
        let form = self.waiting.during(count, self.form()).await?;
        let ids = self.client.source(&self.source.to_string());
        while self.missing > 0 {
            let count = self.next_count();
            self.tally.request(count);
            match self.waiting.during(count, self.fetch(&ids, count)).await {
                Ok(block) => {
                    self.missing = self.missing.saturating_sub(block.count());
                    self.batch.grow();
                    if queue.send(Fetched { block, form: form.clone() }).await.is_err() {
                        return Ok(()); // the printer has failed and reports why
                    }
                }
                // The daemon's limit is below the requested count, so request fewer. A request with a request ID must
                // not be split.
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

    /// Fetches a block. With `--timeout`, retries until the time limit. Otherwise, retries only while the caller's own
    /// rate limit is exceeded, and leaves other retries to the client.
    async fn fetch(&self, ids: &Handle<Id>, count: u64) -> Result<Block<Id>, Error> {
        loop {
            let waiting = self.waiting.clone();
            let block = ids.fetch_block(count).needed(self.missing).request_id(&self.request_id).tag(self.tag);
            match block.on_failure(move |status| waiting.note(status)).await {
                // The rate limit admits more identifiers after the wait, so only --timeout ends the command.
                Err(Error::Limited { retry_after, .. }) => sleep(retry_after).await,
                Err(error) if error.is_retryable() && self.limit.is_some() => sleep(PAUSE).await,
                answer => return answer,
            }
        }
    }

    /// Returns the text form of the source's identifiers. The text form of a region's identifiers is a property of its
    /// space.
    async fn form(&self) -> Result<Form, Failure> {
        let space = match &self.source {
            Source::Region { space, .. } => space,
            Source::Layout(name) => return self.layout_form(name).await,
            Source::Format(_) | Source::Series(_) => return Ok(Form::Decimal),
        };
        let message = GetSpaceRequest { name: names::space(space) };
        let space = self.client.retry(async |daemon| daemon.regions().get_space(request(message.clone())).await);
        match space.await.map(Response::into_inner) {
            Ok(space) => Ok(Form::of(space.text_form(), space.bits)),
            // A daemon that refuses this call also refuses the grant, with a better message.
            Err(Error::Refused { code: Code::NotFound | Code::PermissionDenied | Code::Unimplemented, .. }) => {
                Ok(Form::Decimal)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn layout_form(&self, name: &str) -> Result<Form, Failure> {
        let message = GetLayoutRequest { name: name.to_owned() };
        let layout = self.client.retry(async |daemon| daemon.layouts().get_layout(request(message.clone())).await);
        match layout.await.map(Response::into_inner) {
            Ok(layout) => Ok(Known::of(&layout)?.form()),
            // A caller that may allocate, but not read the layout, gets decimal numbers.
            Err(Error::Refused { code: Code::NotFound | Code::PermissionDenied | Code::Unimplemented, .. }) => {
                Ok(Form::Decimal)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the number of identifiers in the next request.
    fn next_count(&self) -> u64 {
        // The daemon grants a request ID only once, so a single request must cover all identifiers.
        if self.request_id.is_empty() { self.missing.min(self.batch.size) } else { self.missing }
    }
}

/// Returns `limit` once it has elapsed. Without a limit it never returns.
async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            sleep(limit).await;
            limit
        }
        None => future::pending().await,
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
}
