//! Calls to one or several daemons: which endpoint, how often, how long.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use kent_ids::Block;
use kent_proto::v1::{
    AllocateRequest, Encoding, GetStatusRequest, admin_client::AdminClient, allocate_response::Identifiers,
    allocator_client::AllocatorClient,
};
use tokio::time::{self, Instant};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tracing::debug;

use crate::{
    age::Ages,
    config::{Settings, parse},
    error::{Error, Verdict, judge},
    origin::Origin,
};

/// The endpoints of a client. Channels are made when they are first used, since they need a runtime.
#[derive(Debug)]
pub(crate) struct Connection {
    origin: Origin,
    settings: Settings,
    /// Of the identifiers in hand of all handles.
    ages: Arc<Ages>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// At least one; those that were configured come first.
    known: Vec<Known>,
    /// The endpoint in use.
    current: usize,
    /// When another endpoint than the preferred one came into use.
    since: Option<Instant>,
    /// When a daemon was asked last who else is there.
    discovered: Option<Instant>,
}

/// An endpoint, and its channel once it has been used.
#[derive(Debug)]
struct Known {
    endpoint: Endpoint,
    channel: Option<Channel>,
    is_configured: bool,
}

impl Known {
    const fn new(endpoint: Endpoint, is_configured: bool) -> Self {
        Self { endpoint, channel: None, is_configured }
    }
}

/// Daemons are asked this often who else is there.
const DISCOVER_EVERY: Duration = Duration::from_secs(30);

/// So many replicas are taken in.
const DISCOVERED_MAX: usize = 64;

/// The preferred endpoint is tried again after this long.
const RETURN_AFTER: Duration = Duration::from_secs(30);

/// A lease is about a hundred octets; this leaves room for packed replies through the raw stubs.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Connection {
    pub(crate) fn new(endpoints: Vec<Endpoint>, settings: Settings) -> Self {
        let known = endpoints.into_iter().map(|endpoint| Known::new(endpoint, true)).collect();
        let ages = Ages::new(settings.max_age);
        let state = Mutex::new(State { known, current: 0, since: None, discovered: None });
        Self { origin: Origin::here(), settings, ages, state }
    }

    /// The process whose connection this is: a child that used it would write between its parent's bytes.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn ages(&self) -> &Arc<Ages> {
        &self.ages
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The channel of the endpoint in use.
    pub(crate) fn channel(&self) -> Channel {
        self.current().1
    }

    /// Fetches a block, trying endpoints in turn, with growing and jittered pauses, until the request's time is over.
    pub(crate) async fn allocate(&self, source: &str, count: u64) -> Result<Block, Error> {
        let began = Instant::now();
        let until = began + self.settings.request_timeout;
        let mut pauses = self.pauses();
        loop {
            self.origin.check()?;
            let (endpoint, channel) = self.current();
            let limit = self.settings.attempt_timeout.min(until.saturating_duration_since(Instant::now()));
            let status = match attempt(channel, source, count, limit).await {
                Ok(block) => {
                    self.discover().await;
                    return block;
                }
                Err(status) => status,
            };
            let hint = match judge(&status) {
                Verdict::Final(error) => return Err(error),
                Verdict::Again(hint) => hint,
            };
            // A daemon that says when to come back is well: no other one is needed.
            if status.code() != Code::ResourceExhausted {
                self.leave(endpoint);
            }
            let pause = hint.unwrap_or_else(|| pauses.next().unwrap_or(PAUSE_MAX));
            debug!(source, %status, ?pause, "no block yet");
            if Instant::now() + pause >= until {
                return Err(Error::Unavailable { after: began.elapsed(), last: describe(&status) });
            }
            time::sleep(pause).await;
        }
    }

    /// The first round over all endpoints goes without pauses; then they double, from 20 ms to a second.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let others = self.lock().known.len() - 1; // OK because there is at least one endpoint
        let growing = ExponentialBuilder::default()
            .with_min_delay(PAUSE_MIN)
            .with_max_delay(PAUSE_MAX)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        std::iter::repeat_n(Duration::ZERO, others).chain(growing.build())
    }

    /// The endpoint in use and its channel; the preferred one again when it has been left for long enough.
    pub(crate) fn current(&self) -> (usize, Channel) {
        let mut state = self.lock();
        if state.since.is_some_and(|since| since.elapsed() >= RETURN_AFTER) {
            (state.current, state.since) = (0, None);
        }
        let current = state.current;
        let Known { endpoint, channel, .. } = &mut state.known[current];
        (current, channel.get_or_insert_with(|| endpoint.connect_lazy()).clone())
    }

    /// Goes on to the next endpoint, unless another call has done so already.
    pub(crate) fn leave(&self, endpoint: usize) {
        let mut state = self.lock();
        if state.current == endpoint {
            state.current = (endpoint + 1) % state.known.len();
            state.since = (state.current != 0).then(Instant::now);
        }
    }

    /// Asks the daemon in use who else is there, now and then, if that is wanted.
    async fn discover(&self) {
        let is_due = |state: &State| state.discovered.is_none_or(|last| last.elapsed() >= DISCOVER_EVERY);
        let channel = {
            let mut state = self.lock();
            if !self.settings.discover || !is_due(&state) {
                return;
            }
            state.discovered = Some(Instant::now());
            drop(state);
            self.channel()
        };
        let mut admin = AdminClient::new(channel);
        let asked = time::timeout(self.settings.attempt_timeout, admin.get_status(GetStatusRequest {})).await;
        // OK because a daemon that does not say is asked again later, and the endpoints in hand stay.
        let Ok(Ok(status)) = asked else { return };
        let others = status.into_inner().replicas.into_iter().filter(|replica| !replica.answering);
        let found = others.filter_map(|replica| parse(&replica.address, &self.settings).ok()).take(DISCOVERED_MAX);
        self.take_in(found.collect());
    }

    /// Replaces what was discovered earlier. The endpoint in use stays.
    fn take_in(&self, found: Vec<Endpoint>) {
        let mut state = self.lock();
        let in_use = state.known[state.current].endpoint.uri().clone();
        let is_wanted = |known: &Known| {
            known.is_configured
                || *known.endpoint.uri() == in_use
                || found.iter().any(|endpoint| endpoint.uri() == known.endpoint.uri())
        };
        state.known.retain(is_wanted);
        for endpoint in found {
            if state.known.iter().all(|known| known.endpoint.uri() != endpoint.uri()) {
                debug!(endpoint = %endpoint.uri(), "another replica is here");
                state.known.push(Known::new(endpoint, false));
            }
        }
        state.current = state.known.iter().position(|known| *known.endpoint.uri() == in_use).unwrap_or(0);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // OK because every method leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // In a forked child, the end of a channel would wait for locks of a runtime that has no threads there.
        if self.origin.is_elsewhere() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(&mut state.known));
        }
    }
}

/// One attempt. `Ok(Err(..))` is an answer that cannot be used.
async fn attempt(channel: Channel, source: &str, count: u64, limit: Duration) -> Result<Result<Block, Error>, Status> {
    let ask = AllocateRequest {
        source: source.to_owned(),
        count,
        encoding: Encoding::Lease.into(),
        ..AllocateRequest::default()
    };
    let mut request = Request::new(ask);
    request.set_timeout(limit);
    let late = |_| Status::deadline_exceeded("no answer in time");
    let mut client = AllocatorClient::new(channel);
    let reply = time::timeout(limit, client.allocate(request)).await.map_err(late)??;
    Ok(match reply.into_inner().identifiers {
        Some(Identifiers::Lease(lease)) => {
            Block::try_from(lease).map_err(|error| Error::Unusable { what: error.to_string() })
        }
        Some(Identifiers::Packed(_)) | None => Err(Error::Unusable { what: "it holds no lease".to_owned() }),
    })
}

/// A status in one line, with what caused it: a refused connection is told apart from a daemon that refuses.
pub(crate) fn describe(status: &Status) -> String {
    let mut text = format!("{:?}: {}", status.code(), status.message());
    let mut cause = std::error::Error::source(status);
    while let Some(source) = cause {
        let said = source.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = source.source();
    }
    text
}
