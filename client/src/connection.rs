//! Calls to the daemons: selects endpoints and retries with backoff until a timeout.

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
use kent_tls::{Certificates, Target};
use tokio::{
    runtime,
    time::{self, Instant},
};
use tonic::{Code, Request, Status, transport};
use tracing::debug;

use crate::{
    Channel, Credentials,
    age::Ages,
    config::{Settings, parse},
    error::{Error, Tried, Verdict, describe, judge, limited},
    origin::Origin,
};

/// The endpoints of a client. A channel is created on first use, because it needs a runtime.
#[derive(Debug)]
pub(crate) struct Connection {
    origin: Origin,
    settings: Settings,
    /// How to verify daemons, if the endpoints use TLS.
    tls: Option<Certificates>,
    credentials: Credentials,
    /// The age check that all handles share.
    ages: Arc<Ages>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// At least one endpoint. The configured endpoints come first.
    known: Vec<Known>,
    /// The index of the current endpoint.
    current: usize,
    /// The time at which the client switched away from the preferred endpoint.
    since: Option<Instant>,
    /// The time at which the client last asked a daemon for the other replicas.
    discovered: Option<Instant>,
}

/// An endpoint, and its channel once it has been used.
#[derive(Debug)]
struct Known {
    endpoint: Target,
    channel: Option<transport::Channel>,
    is_configured: bool,
}

impl State {
    /// Returns the index of the current endpoint. Switches back to the preferred endpoint after [`RETURN_AFTER`].
    fn select(&mut self) -> usize {
        if self.since.is_some_and(|since| since.elapsed() >= RETURN_AFTER) {
            (self.current, self.since) = (0, None);
        }
        self.current
    }

    fn endpoint(&mut self) -> (usize, Target) {
        let at = self.select();
        (at, self.known[at].endpoint.clone())
    }
}

impl Known {
    const fn new(endpoint: Target, is_configured: bool) -> Self {
        Self { endpoint, channel: None, is_configured }
    }
}

/// The interval at which the client asks a daemon for the other replicas.
const DISCOVER_EVERY: Duration = Duration::from_secs(30);

/// The maximum number of discovered replicas that the client adds to its endpoints.
const DISCOVERED_MAX: usize = 64;

/// The time after which the client tries the preferred endpoint again.
const RETURN_AFTER: Duration = Duration::from_secs(30);

/// If there are several endpoints, a daemon must answer on a new connection within this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The shortest and the longest backoff.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Connection {
    pub(crate) fn new(
        endpoints: Vec<Target>,
        tls: Option<Certificates>,
        credentials: Credentials,
        settings: Settings,
    ) -> Self {
        let known = endpoints.into_iter().map(|endpoint| Known::new(endpoint, true)).collect();
        let ages = Ages::new(settings.max_age);
        let state = Mutex::new(State { known, current: 0, since: None, discovered: None });
        Self { origin: Origin::here(), settings, tls, credentials, ages, state }
    }

    /// Returns the process that owns the connection. If a forked child used the connection, both processes would write
    /// to the same socket.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn ages(&self) -> &Arc<Ages> {
        &self.ages
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Fetches a block, and retries if `admits` rejects it. A lost reply leaves a gap, unless the request has a request
    /// ID. Passes the status of each failed attempt to `report`.
    pub(crate) async fn allocate(
        &self,
        ask: &AllocateRequest,
        admits: impl Fn(&Block) -> bool,
        report: impl Fn(&Status),
    ) -> Result<Block, Error> {
        let attempt = |_, channel, limit| {
            let (ask, admits) = (ask.clone(), &admits);
            async move {
                match attempt(channel, ask, limit).await? {
                    Ok(block) if !admits(&block) => {
                        Err(Status::aborted("the block's fencing token is lower than one already seen"))
                    }
                    answer => Ok(answer),
                }
            }
        };
        self.retry_reporting(attempt, report).await?
    }

    /// Retries a call on one endpoint after another, with exponential backoff and jitter, until the timeout of the
    /// request expires. `call` gets the index of the endpoint, its channel and the timeout of the attempt.
    pub(crate) async fn retry<T, F>(&self, call: impl FnMut(usize, Channel, Duration) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.retry_reporting(call, |_| ()).await
    }

    /// Retries like [`retry`](Self::retry), and passes the status of each failed attempt to `report`.
    async fn retry_reporting<T, F>(
        &self,
        mut call: impl FnMut(usize, Channel, Duration) -> F,
        report: impl Fn(&Status),
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut attempts = Attempts::begin(self)?;
        loop {
            let (endpoint, channel) = self.current();
            let limit = self.settings.attempt_timeout.min(attempts.left());
            let late = |_| Err(Status::deadline_exceeded("no reply in time"));
            match time::timeout(limit, call(endpoint, channel, limit)).await.unwrap_or_else(late) {
                Ok(answer) => {
                    self.discover().await;
                    return Ok(answer);
                }
                Err(status) => {
                    report(&status);
                    attempts.wait_after(endpoint, status).await?;
                }
            }
        }
    }

    /// Connects to the first endpoint that accepts a connection, starting with the current one. If there are several
    /// endpoints, prefers the first that also answers a call. If no endpoint answers, uses the first that accepted a
    /// connection.
    pub(crate) async fn connect(&self) -> Result<(usize, Channel), Error> {
        let mut attempts = Attempts::begin(self)?;
        let endpoints = self.lock().known.len();
        let mut silent = None;
        for _ in 0..endpoints {
            let (at, endpoint) = self.lock().endpoint();
            let opened = endpoint.connect().await.map_err(|error| Status::from_error(Box::new(error)));
            let failed = match opened {
                Ok(channel) if endpoints == 1 || self.answers(&channel, endpoints).await => {
                    self.keep(at, &endpoint, channel.clone());
                    return Ok((at, self.with_token(channel)));
                }
                Ok(channel) => {
                    silent.get_or_insert((at, self.with_token(channel)));
                    Status::deadline_exceeded("it accepted the connection, but did not answer")
                }
                Err(failed) => failed,
            };
            attempts.failed(at, failed);
            self.leave(at);
        }
        // A daemon that does not answer may only be slow, for example because its store is slow.
        silent.ok_or_else(|| attempts.unavailable())
    }

    /// Returns whether the daemon answers on a new connection in time. A daemon that hangs still accepts connections,
    /// and a call to it would use up the whole timeout, even if another endpoint would answer.
    async fn answers(&self, channel: &transport::Channel, endpoints: usize) -> bool {
        let share = self.settings.attempt_timeout / u32::try_from(endpoints + 1).unwrap_or(u32::MAX);
        let mut admin = AdminClient::new(self.with_token(channel.clone()));
        match time::timeout(share.min(ANSWER_WITHIN), admin.get_status(GetStatusRequest {})).await {
            // A status without a source comes from the daemon, not from a broken connection.
            Ok(answer) => answer.err().is_none_or(|status| std::error::Error::source(&status).is_none()),
            Err(_) => false,
        }
    }

    /// Returns the pauses between attempts: none in the first round over all endpoints, then doubling from 20 ms to a
    /// second.
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

    /// Returns the address of the current endpoint, to be shown in messages.
    pub(crate) fn endpoint(&self) -> String {
        self.lock().endpoint().1.address().to_owned()
    }

    /// Returns the current endpoint and its channel.
    pub(crate) fn current(&self) -> (usize, Channel) {
        let mut state = self.lock();
        let current = state.select();
        let Known { endpoint, channel, .. } = &mut state.known[current];
        (current, self.with_token(channel.get_or_insert_with(|| endpoint.connect_lazy()).clone()))
    }

    fn with_token(&self, channel: transport::Channel) -> Channel {
        Channel::new(channel, self.credentials.clone())
    }

    /// Stores a new channel for the endpoint at this index, if the index still belongs to this endpoint.
    fn keep(&self, at: usize, endpoint: &Target, channel: transport::Channel) {
        let mut state = self.lock();
        if let Some(known) = state.known.get_mut(at).filter(|known| known.endpoint.address() == endpoint.address()) {
            known.channel = Some(channel);
        }
    }

    /// Switches to the next endpoint, unless another call has already done so.
    pub(crate) fn leave(&self, endpoint: usize) {
        let mut state = self.lock();
        if state.current == endpoint {
            state.current = (endpoint + 1) % state.known.len();
            // Further switches do not delay the return to the preferred endpoint.
            state.since = if state.current == 0 { None } else { state.since.or_else(|| Some(Instant::now())) };
        }
    }

    /// Asks the current daemon for the other replicas, if discovery is enabled and due.
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
        // OK because the client asks again later and keeps its endpoints.
        let Ok(Ok(status)) = asked else { return };
        // Skip Unix sockets: the path of another replica's socket is a different file on this machine, or does not
        // exist.
        let others = status.into_inner().replicas.into_iter();
        let others = others.filter(|replica| !replica.answering && !replica.address.starts_with("unix:"));
        let found = others
            .filter_map(|replica| parse(&replica.address, self.tls.as_ref(), &self.settings).ok())
            .take(DISCOVERED_MAX);
        self.replace_discovered(found.collect());
    }

    /// Replaces the replicas that were discovered earlier, but keeps the current endpoint.
    fn replace_discovered(&self, found: Vec<Target>) {
        let mut state = self.lock();
        let in_use = state.known[state.current].endpoint.address().to_owned();
        let is_wanted = |known: &Known| {
            known.is_configured
                || known.endpoint.address() == in_use
                || found.iter().any(|endpoint| endpoint.address() == known.endpoint.address())
        };
        state.known.retain(is_wanted);
        for endpoint in found {
            if state.known.iter().all(|known| known.endpoint.address() != endpoint.address()) {
                debug!(endpoint = endpoint.address(), "discovered a replica");
                state.known.push(Known::new(endpoint, false));
            }
        }
        state.current = state.known.iter().position(|known| known.endpoint.address() == in_use).unwrap_or(0);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // OK because every method leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // In a forked child the runtime has no threads, so dropping a channel could wait for a lock forever.
        if self.origin.is_elsewhere() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(&mut state.known));
        }
    }
}

/// Makes one attempt. Returns `Ok(Err(..))` for an invalid reply.
async fn attempt(channel: Channel, ask: AllocateRequest, limit: Duration) -> Result<Result<Block, Error>, Status> {
    let asked = ask.count;
    let mut request = Request::new(ask);
    request.set_timeout(limit);
    let reply = AllocatorClient::new(channel).allocate(request).await?;
    let unusable = |what| Err(Error::Unusable { what });
    Ok(match reply.into_inner().identifiers {
        Some(Identifiers::Lease(lease)) => match Block::try_from(lease) {
            Ok(block) if block.count() > asked => {
                unusable(format!("requested {asked} identifiers, got {}", block.count()))
            }
            Ok(block) => Ok(block),
            Err(error) => unusable(error.to_string()),
        },
        Some(Identifiers::Packed(_) | Identifiers::Text(_)) | None => {
            unusable("requested a lease, got none".to_owned())
        }
    })
}

/// The state of a call with retries: its start, its pauses and the last status of each endpoint.
pub(crate) struct Attempts<'a> {
    connection: &'a Connection,
    began: Instant,
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
    tried: Vec<Tried>,
    /// How many times the token had changed when the current attempt began.
    token: u64,
}

impl<'a> Attempts<'a> {
    /// Starts the attempts of a call.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] in a child, [`Error::NoRuntime`] outside of a runtime.
    pub(crate) fn begin(connection: &'a Connection) -> Result<Self, Error> {
        connection.origin.check()?;
        runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let token = connection.credentials.generation();
        Ok(Self { connection, began: Instant::now(), pauses: Box::new(connection.pauses()), tried: Vec::new(), token })
    }

    /// Returns the time left until the timeout.
    pub(crate) fn left(&self) -> Duration {
        self.connection.settings.request_timeout.saturating_sub(self.began.elapsed())
    }

    /// Records a failed attempt, switches to another endpoint if that can help, and waits for the next attempt.
    ///
    /// # Errors
    ///
    /// The error of the whole call, if a retry cannot help or the timeout expires before the next attempt.
    pub(crate) async fn wait_after(&mut self, endpoint: usize, status: Status) -> Result<(), Error> {
        let hint = match judge(&status) {
            Verdict::Final(_) if status.code() == Code::Unauthenticated && self.has_other_token() => {
                debug!("the token file has changed; trying again with the new token");
                return Ok(());
            }
            Verdict::Final(error) => return Err(error),
            Verdict::Again(hint) => hint,
        };
        // A daemon that has reached a limit is healthy, so switching to another daemon would not help.
        if status.code() != Code::ResourceExhausted {
            self.connection.leave(endpoint);
        }
        let pause = hint.unwrap_or_else(|| self.pauses.next().unwrap_or(PAUSE_MAX));
        debug!(status = describe(&status), ?pause, "the attempt failed");
        let limited = limited(&status, pause);
        self.failed(endpoint, status);
        if pause >= self.left() {
            return Err(limited.unwrap_or_else(|| self.unavailable()));
        }
        time::sleep(pause).await;
        self.connection.origin.check()
    }

    /// Returns whether the token has changed since the last attempt began.
    fn has_other_token(&mut self) -> bool {
        let token = self.connection.credentials.refresh();
        std::mem::replace(&mut self.token, token) != token
    }

    /// Records the status of an endpoint and removes the endpoint's previous status.
    fn failed(&mut self, endpoint: usize, status: Status) {
        let uri = self.connection.lock().known.get(endpoint).map(|known| known.endpoint.address().to_owned());
        let endpoint = uri.unwrap_or_default();
        self.tried.retain(|tried| tried.endpoint != endpoint);
        self.tried.push(Tried { endpoint, status });
    }

    fn unavailable(&mut self) -> Error {
        Error::Unavailable { after: self.began.elapsed(), tried: mem::take(&mut self.tried) }
    }
}
