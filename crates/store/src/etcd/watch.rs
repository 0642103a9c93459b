//! Watches: streams of changes that resume after every failure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::pb::etcdserverpb::{
    WatchCreateRequest, WatchRequest, WatchResponse, watch_client::WatchClient, watch_request::RequestUnion,
};
use super::pb::mvccpb::{Event, event::EventType};
use super::{ATTEMPT, Inner, end_of, unavailable, version};
use crate::error::{ReadError, Unavailable};
use crate::peers::{Change, Watch, continues};
use crate::txn::Version;

/// A watch of all etcd keys with a prefix.
#[derive(Debug)]
pub(crate) struct EtcdWatch {
    inner: Arc<Inner>,
    prefix: Vec<u8>,
    /// The first revision that has not been reported yet.
    next: i64,
    stream: Option<Stream>,
    pending: VecDeque<Change>,
}

#[derive(Debug)]
struct Stream {
    responses: Streaming<WatchResponse>,
    /// The index of the endpoint.
    endpoint: usize,
    /// Dropping this sender ends the stream.
    _requests: mpsc::Sender<WatchRequest>,
}

/// The pause before a new stream is opened after a failure.
const PAUSE: Duration = Duration::from_millis(100);

impl EtcdWatch {
    /// Starts a watch that reports every change from now on.
    pub(crate) async fn begin(inner: Arc<Inner>, prefix: Vec<u8>) -> Result<Self, ReadError> {
        inner.pin.mark().map_err(Unavailable::from)?;
        let mut watch = Self { inner, prefix, next: 0, stream: None, pending: VecDeque::new() };
        let mut failure = None;
        // Four attempts usually suffice to try every endpoint.
        for _ in 0..4 {
            match watch.connect().await {
                Ok(()) => return Ok(watch),
                Err(status) => failure = Some(status),
            }
        }
        Err(unavailable(&failure.unwrap_or_else(|| Status::unavailable("no endpoint"))).into())
    }

    async fn connect(&mut self) -> Result<(), Status> {
        let (endpoint, caller) = self.inner.endpoints.stream_caller().await?;
        let opened = time::timeout(ATTEMPT, self.open(caller)).await;
        let opened = opened.unwrap_or_else(|_| Err(Status::deadline_exceeded("no reply in time")));
        match opened {
            Ok((responses, requests, revision)) => {
                if self.next == 0 {
                    self.next = revision + 1;
                }
                self.stream = Some(Stream { responses, endpoint, _requests: requests });
                Ok(())
            }
            Err(status) => {
                if !self.inner.endpoints.renews_token(&status) {
                    self.inner.endpoints.leave(endpoint);
                }
                Err(status)
            }
        }
    }

    /// Opens a stream. Returns the stream and the revision at which etcd confirmed the stream.
    async fn open(
        &self,
        caller: super::endpoints::Caller,
    ) -> Result<(Streaming<WatchResponse>, mpsc::Sender<WatchRequest>, i64), Status> {
        let create = WatchCreateRequest {
            key: self.prefix.clone().into(),
            range_end: end_of(&self.prefix).into(),
            start_revision: self.next,
            progress_notify: true,
        };
        let (requests, outgoing) = mpsc::channel(1);
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // OK because the channel has capacity for one request.
        let _ = requests.try_send(create);
        let mut client = WatchClient::new(caller.service()).max_decoding_message_size(usize::MAX);
        let mut responses = client.watch(ReceiverStream::new(outgoing)).await?.into_inner();
        let confirmed = responses.message().await?.ok_or_else(|| Status::unavailable("the watch ended"))?;
        if !confirmed.created || confirmed.canceled {
            return Err(Status::unavailable(format!("the watch was refused: {}", confirmed.cancel_reason)));
        }
        let checked = self.inner.pin.check_cluster(confirmed.header.as_ref());
        checked.map_err(|exchanged| Status::failed_precondition(exchanged.to_string()))?;
        // A new watch reports changes after this revision. The revision may be older than etcd's newest, because the
        // member may lag behind.
        Ok((responses, requests, confirmed.header.map_or(0, |header| header.revision)))
    }

    /// Processes a response.
    fn receive(&mut self, response: WatchResponse) {
        if self.inner.pin.check_cluster(response.header.as_ref()).is_err() {
            self.stream = None;
            return;
        }
        if response.compact_revision > 0 {
            // Older revisions are no longer available.
            self.next = self.next.max(response.compact_revision);
            self.pending.push_back(Change::Missed);
        }
        if response.canceled {
            self.stream = None;
            return;
        }
        for event in &response.events {
            let change = self.change(event);
            self.pending.extend(change);
        }
        // While a watch catches up, headers have etcd's newest revision although older events are still missing. So use
        // the revisions of the events. All events of a revision are in one response, because fragments were not
        // requested.
        let newest = response.events.iter().filter_map(|event| Some(event.kv.as_ref()?.mod_revision)).max();
        if let Some(newest) = newest {
            self.inner.pin.saw(newest);
            self.next = self.next.max(newest + 1);
        }
        // etcd sends progress only to a watch that has received all events up to the header's revision.
        let is_progress = response.events.is_empty() && !response.created && response.compact_revision == 0;
        if let Some(header) = response.header.filter(|_| is_progress) {
            self.next = self.next.max(header.revision + 1);
        }
    }

    fn change(&self, event: &Event) -> Option<Change> {
        let pair = event.kv.as_ref()?;
        match event.r#type() {
            EventType::Delete => self.inner.key(&pair.key).map(|key| Change::Deleted(key, version(pair))),
            EventType::Put => Some(match self.inner.open(pair) {
                Ok((key, versioned)) => Change::Put(key, versioned),
                Err(error) => Change::Unreadable(error),
            }),
        }
    }
}

#[async_trait]
impl Watch for EtcdWatch {
    async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return change;
            }
            if self.inner.pin.mark().is_err() {
                // Other calls report that etcd was replaced. There are no more changes to report.
                return std::future::pending().await;
            }
            let Some(stream) = &mut self.stream else {
                if self.connect().await.is_err() {
                    time::sleep(PAUSE).await;
                }
                continue;
            };
            match stream.responses.message().await {
                Ok(Some(response)) => self.receive(response),
                Ok(None) | Err(_) => {
                    let endpoint = stream.endpoint;
                    self.stream = None;
                    self.inner.endpoints.leave(endpoint);
                    time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn continues(&self, commit: Version) -> bool {
        continues(&self.pending, commit)
    }
}
