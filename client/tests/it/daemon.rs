//! An allocator whose answers are scripted, on a real socket.

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

/// What the daemon does with a request, if it does not simply grant it.
#[derive(Debug)]
pub(crate) enum Answer {
    Refuse(Status),
    /// Grants under this slot epoch or, for a region, under this revision of its table.
    Token(u64),
    /// Grants when the gate is opened.
    Held,
    /// Grants more than was asked for.
    TooMuch,
}

/// What the tests see of the daemon.
#[derive(Debug)]
pub(crate) struct Part {
    script: Mutex<VecDeque<Answer>>,
    next: Mutex<u128>,
    pub(crate) counts: Mutex<Vec<u64>>,
    pub(crate) request_ids: Mutex<Vec<String>>,
    pub(crate) gate: Semaphore,
}

/// A daemon that plays a part.
pub(crate) struct Daemon {
    pub(crate) address: SocketAddr,
    pub(crate) part: Arc<Part>,
    serving: JoinHandle<()>,
}

impl Part {
    pub(crate) fn new() -> Arc<Self> {
        let next = Mutex::new(1 << 60);
        let (counts, request_ids) = (Mutex::default(), Mutex::default());
        Arc::new(Self { script: Mutex::default(), next, counts, request_ids, gate: Semaphore::new(0) })
    }

    pub(crate) fn then(&self, answer: Answer) {
        self.script.lock().expect("whole").push_back(answer);
    }

    /// Positions are granted once, whatever the source.
    fn grant(&self, request: &AllocateRequest, token: u64) -> AllocateResponse {
        let mut next = self.next.lock().expect("whole");
        let first = *next;
        *next += u128::from(request.count);
        let constants = match request.source.as_str() {
            // Two regions of one number, as in two spaces.
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
    pub(crate) async fn start(part: Arc<Part>) -> Self {
        Self::start_on(part, "127.0.0.1:0".parse().expect("an address")).await
    }

    pub(crate) async fn start_on(part: Arc<Part>, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let service = AllocatorServer::from_arc(Arc::new(Scripted(part.clone())));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let serving = async move {
            let _ = Server::builder().add_service(service).serve_with_incoming(incoming).await;
        };
        let serving = tokio::runtime::Handle::current().spawn(serving);
        Self { address, part, serving }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends the daemon, its connections included.
    pub(crate) async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

struct Scripted(Arc<Part>);

#[tonic::async_trait]
impl Allocator for Scripted {
    type AllocateStreamStream =
        Pin<Box<dyn tokio_stream::Stream<Item = Result<AllocateStreamResponse, Status>> + Send>>;

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let request = request.into_inner();
        self.0.counts.lock().expect("whole").push(request.count);
        self.0.request_ids.lock().expect("whole").push(request.request_id.clone());
        let answer = self.0.script.lock().expect("whole").pop_front();
        match answer {
            Some(Answer::Refuse(status)) => Err(status),
            Some(Answer::Token(token)) => Ok(Response::new(self.0.grant(&request, token))),
            Some(Answer::Held) => {
                self.0.gate.acquire().await.expect("open").forget();
                Ok(Response::new(self.0.grant(&request, 1)))
            }
            Some(Answer::TooMuch) => {
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
        Err(Status::unimplemented("not a part of this play"))
    }
}
