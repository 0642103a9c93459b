//! Calls to one or several daemons: which endpoint, how often, how long.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use kent_ids::Block;
use kent_proto::v1::{
    AllocateRequest, GetStatusRequest, admin_client::AdminClient, allocate_response::Identifiers,
    allocator_client::AllocatorClient,
};
use tokio::{
    runtime,
    time::{self, Instant},
};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tracing::debug;

use crate::{
    age::Ages,
    config::{Settings, parse},
    error::{Error, Tried, Verdict, describe, judge},
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

impl State {
    /// The endpoint in use; the preferred one again when it has been left for long enough.
    fn in_use(&mut self) -> usize {
        if self.since.is_some_and(|since| since.elapsed() >= RETURN_AFTER) {
            (self.current, self.since) = (0, None);
        }
        self.current
    }

    fn endpoint(&mut self) -> (usize, Endpoint) {
        let at = self.in_use();
        (at, self.known[at].endpoint.clone())
    }
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

/// The pause before an endpoint is asked again, and the longest one.
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

    /// Fetches a block, another one if that is not admitted. A lost answer costs a gap, or nothing if the request has an id.
    pub(crate) async fn allocate(
        &self,
        ask: &AllocateRequest,
        admits: impl Fn(&Block) -> bool,
    ) -> Result<Block, Error> {
        let attempt = |_, channel, limit| {
            let (ask, admits) = (ask.clone(), &admits);
            async move {
                match attempt(channel, ask, limit).await? {
                    Ok(block) if !admits(&block) => Err(Status::aborted("the block is older than one already seen")),
                    answer => Ok(answer),
                }
            }
        };
        self.retry(attempt).await?
    }

    /// Makes a call until it is answered, trying endpoints in turn, with growing and jittered pauses, until the request's time
    /// is over. The call is told the endpoint, its channel and how long it may take.
    pub(crate) async fn retry<T, F>(&self, mut call: impl FnMut(usize, Channel, Duration) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut attempts = Attempts::begin(self)?;
        loop {
            let (endpoint, channel) = self.current();
            let limit = self.settings.attempt_timeout.min(attempts.left());
            let late = |_| Err(Status::deadline_exceeded("no answer in time"));
            match time::timeout(limit, call(endpoint, channel, limit)).await.unwrap_or_else(late) {
                Ok(answer) => {
                    self.discover().await;
                    return Ok(answer);
                }
                Err(status) => attempts.wait_after(endpoint, status).await?,
            }
        }
    }

    /// Connects to the first endpoint that accepts a connection, beginning with the one in use.
    pub(crate) async fn connect(&self) -> Result<(usize, Channel), Error> {
        let mut attempts = Attempts::begin(self)?;
        let endpoints = self.lock().known.len();
        for _ in 0..endpoints {
            let (at, endpoint) = self.lock().endpoint();
            match endpoint.connect().await {
                Ok(channel) => {
                    self.keep(at, &endpoint, channel.clone());
                    return Ok((at, channel));
                }
                Err(error) => {
                    attempts.failed(at, Status::from_error(Box::new(error)));
                    self.leave(at);
                }
            }
        }
        Err(attempts.unavailable())
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

    /// The endpoint in use and its channel.
    pub(crate) fn current(&self) -> (usize, Channel) {
        let mut state = self.lock();
        let current = state.in_use();
        let Known { endpoint, channel, .. } = &mut state.known[current];
        (current, channel.get_or_insert_with(|| endpoint.connect_lazy()).clone())
    }

    /// Uses a new channel of an endpoint, if it still is where it was.
    fn keep(&self, at: usize, endpoint: &Endpoint, channel: Channel) {
        let mut state = self.lock();
        if let Some(known) = state.known.get_mut(at).filter(|known| known.endpoint.uri() == endpoint.uri()) {
            known.channel = Some(channel);
        }
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
            self.current().1
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
async fn attempt(channel: Channel, ask: AllocateRequest, limit: Duration) -> Result<Result<Block, Error>, Status> {
    let asked = ask.count;
    let mut request = Request::new(ask);
    request.set_timeout(limit);
    let reply = AllocatorClient::new(channel).allocate(request).await?;
    let unusable = |what| Err(Error::Unusable { what });
    Ok(match reply.into_inner().identifiers {
        Some(Identifiers::Lease(lease)) => match Block::try_from(lease) {
            Ok(block) if block.count() > asked => {
                unusable(format!("asked for {asked} identifiers, got {}", block.count()))
            }
            Ok(block) => Ok(block),
            Err(error) => unusable(error.to_string()),
        },
        Some(Identifiers::Packed(_)) | None => unusable("asked for a lease, got none".to_owned()),
    })
}

/// A call with its attempts: since when, for how long, and what came of each endpoint.
pub(crate) struct Attempts<'a> {
    connection: &'a Connection,
    began: Instant,
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
    tried: Vec<Tried>,
}

impl<'a> Attempts<'a> {
    /// # Errors
    ///
    /// [`Error::Forked`] in a child, [`Error::NoRuntime`] outside of a runtime.
    pub(crate) fn begin(connection: &'a Connection) -> Result<Self, Error> {
        connection.origin.check()?;
        runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        Ok(Self { connection, began: Instant::now(), pauses: Box::new(connection.pauses()), tried: Vec::new() })
    }

    /// How long the call may take from now on.
    pub(crate) fn left(&self) -> Duration {
        self.connection.settings.request_timeout.saturating_sub(self.began.elapsed())
    }

    /// Waits for the next attempt, at another endpoint if that may help.
    ///
    /// # Errors
    ///
    /// What the call ends with, if another attempt does not help or the time is over.
    pub(crate) async fn wait_after(&mut self, endpoint: usize, status: Status) -> Result<(), Error> {
        let hint = match judge(&status) {
            Verdict::Final(error) => return Err(error),
            Verdict::Again(hint) => hint,
        };
        // A daemon that says when to come back is well: no other one is needed.
        if status.code() != Code::ResourceExhausted {
            self.connection.leave(endpoint);
        }
        let pause = hint.unwrap_or_else(|| self.pauses.next().unwrap_or(PAUSE_MAX));
        debug!(status = describe(&status), ?pause, "no answer yet");
        self.failed(endpoint, status);
        if pause >= self.left() {
            return Err(self.unavailable());
        }
        time::sleep(pause).await;
        self.connection.origin.check()
    }

    /// Takes note of what came of an endpoint, in the place of what came of it before.
    fn failed(&mut self, endpoint: usize, status: Status) {
        let uri = self.connection.lock().known.get(endpoint).map(|known| known.endpoint.uri().to_string());
        let endpoint = uri.unwrap_or_default();
        self.tried.retain(|tried| tried.endpoint != endpoint);
        self.tried.push(Tried { endpoint, status });
    }

    fn unavailable(&mut self) -> Error {
        Error::Unavailable { after: self.began.elapsed(), tried: mem::take(&mut self.tried) }
    }
}
