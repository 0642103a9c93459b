//! A daemon with scripted replies, on a real socket.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use kent_client::proto::{
    AllocateRequest, AllocateResponse, AllocateStreamResponse, Block, RegionConstants, SlotConstants, Uint128,
    allocate_response::Identifiers,
    allocator_server::{Allocator, AllocatorServer},
    block::Constants,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle};
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// A reply other than a plain grant.
#[derive(Debug)]
pub(crate) enum Answer {
    Refuse(Status),
    /// Grants with this fencing token: the slot epoch or, for a region, the revision of the table.
    Token(u64),
    /// Grants once the gate is open.
    Blocked,
    /// Grants more identifiers than requested.
    TooMany,
}

/// The replies of the daemon, and the requests that it received.
#[derive(Debug)]
pub(crate) struct Script {
    answers: Mutex<VecDeque<Answer>>,
    next: Mutex<u128>,
    pub(crate) counts: Mutex<Vec<u64>>,
    pub(crate) request_ids: Mutex<Vec<String>>,
    /// The tokens of the requests: an empty string for a request without a token.
    pub(crate) tokens: Mutex<Vec<String>>,
    pub(crate) gate: Semaphore,
}

/// A daemon with scripted replies.
pub(crate) struct Daemon {
    pub(crate) address: SocketAddr,
    pub(crate) script: Arc<Script>,
    serving: JoinHandle<()>,
}

impl Script {
    pub(crate) fn new() -> Arc<Self> {
        let next = Mutex::new(1 << 60);
        let (counts, request_ids, tokens) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { answers: Mutex::default(), next, counts, request_ids, tokens, gate: Semaphore::new(0) })
    }

    pub(crate) fn push(&self, answer: Answer) {
        self.answers.lock().expect("not poisoned").push_back(answer);
    }

    /// Grants new positions: no two grants share a position, not even for different sources.
    fn grant(&self, request: &AllocateRequest, token: u64) -> AllocateResponse {
        let mut next = self.next.lock().expect("not poisoned");
        let first = *next;
        *next += u128::from(request.count);
        let constants = match request.source.as_str() {
            // All regions have the same number, as regions in different spaces can.
            source if source.starts_with("region:") => Constants::Region(RegionConstants {
                bits: 64,
                base: Some(Uint128::from(0)),
                suffix_bits: 64,
                region_number: 7,
                revision: token,
                ..RegionConstants::default()
            }),
            format => Constants::Slot(SlotConstants {
                format: format.to_owned(),
                slot: 3,
                slot_epoch: token,
                ..SlotConstants::default()
            }),
        };
        let lease = Block { first: Some(Uint128::from(first)), count: request.count, constants: Some(constants) };
        AllocateResponse { identifiers: Some(Identifiers::Lease(lease)), clock_epoch: 0 }
    }
}

impl Daemon {
    pub(crate) async fn start(script: Arc<Script>) -> Self {
        Self::start_on(script, "127.0.0.1:0".parse().expect("an address")).await
    }

    pub(crate) async fn start_on(script: Arc<Script>, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let service = AllocatorServer::from_arc(Arc::new(Scripted(script.clone())));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let serving = async move {
            let _ = Server::builder().add_service(service).serve_with_incoming(incoming).await;
        };
        let serving = tokio::runtime::Handle::current().spawn(serving);
        Self { address, script, serving }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops the daemon and closes its connections.
    pub(crate) async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

struct Scripted(Arc<Script>);

#[tonic::async_trait]
impl Allocator for Scripted {
    type AllocateStreamStream =
        Pin<Box<dyn tokio_stream::Stream<Item = Result<AllocateStreamResponse, Status>> + Send>>;

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let token = request.metadata().get("authorization").map(|token| token.to_str().expect("ASCII"));
        self.0.tokens.lock().expect("whole").push(token.unwrap_or_default().to_owned());
        let request = request.into_inner();
        self.0.counts.lock().expect("not poisoned").push(request.count);
        self.0.request_ids.lock().expect("not poisoned").push(request.request_id.clone());
        let answer = self.0.answers.lock().expect("not poisoned").pop_front();
        match answer {
            Some(Answer::Refuse(status)) => Err(status),
            Some(Answer::Token(token)) => Ok(Response::new(self.0.grant(&request, token))),
            Some(Answer::Blocked) => {
                self.0.gate.acquire().await.expect("open").forget();
                Ok(Response::new(self.0.grant(&request, 1)))
            }
            Some(Answer::TooMany) => {
                let more = AllocateRequest { count: request.count + 1, ..request };
                Ok(Response::new(self.0.grant(&more, 1)))
            }
            None => Ok(Response::new(self.0.grant(&request, 1))),
        }
    }

    async fn allocate_stream(
        &self,
        _: Request<Streaming<AllocateRequest>>,
    ) -> Result<Response<Self::AllocateStreamStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }
}
