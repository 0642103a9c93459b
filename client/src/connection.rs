//! Calls to one or several daemons: which endpoint, how often, how long.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use kent_ids::Block;
use kent_proto::v1::{AllocateRequest, Encoding, allocate_response::Identifiers, allocator_client::AllocatorClient};
use tokio::time::{self, Instant};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tracing::debug;

use crate::{
    config::Settings,
    error::{Error, Verdict, judge},
};

/// The endpoints of a client. Channels are made when they are first used, since they need a runtime.
#[derive(Debug)]
pub(crate) struct Connection {
    endpoints: Vec<Endpoint>,
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    channels: Vec<Option<Channel>>,
    /// The endpoint in use.
    current: usize,
    /// When another endpoint than the preferred one came into use.
    since: Option<Instant>,
}

/// The preferred endpoint is tried again after this long.
const RETURN_AFTER: Duration = Duration::from_secs(30);

/// A lease is about a hundred octets; this leaves room for packed replies through the raw stubs.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Connection {
    pub(crate) fn new(endpoints: Vec<Endpoint>, settings: Settings) -> Self {
        let channels = vec![None; endpoints.len()];
        Self { endpoints, settings, state: Mutex::new(State { channels, current: 0, since: None }) }
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
            let (endpoint, channel) = self.current();
            let limit = self.settings.attempt_timeout.min(until.saturating_duration_since(Instant::now()));
            let status = match attempt(channel, source, count, limit).await {
                Ok(block) => return block,
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
        let others = self.endpoints.len() - 1; // OK because there is at least one endpoint
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
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.is_some_and(|since| since.elapsed() >= RETURN_AFTER) {
            (state.current, state.since) = (0, None);
        }
        let current = state.current;
        let channel = state.channels[current].get_or_insert_with(|| self.endpoints[current].connect_lazy());
        (current, channel.clone())
    }

    /// Goes on to the next endpoint, unless another call has done so already.
    pub(crate) fn leave(&self, endpoint: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.current == endpoint {
            state.current = (endpoint + 1) % self.endpoints.len();
            state.since = (state.current != 0).then(Instant::now);
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
