//! A fake daemon whose grants and refusals a test scripts.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use kent_proto::v1::allocate_response::Identifiers;
use kent_proto::v1::allocator_server::{Allocator, AllocatorServer};
use kent_proto::v1::{
    AllocateRequest, AllocateResponse, AllocateStreamResponse, Block, RegionConstants, SlotConstants, block::Constants,
};
use tokio::runtime::Runtime;
use tonic::codegen::BoxStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

/// The daemon's limit for one lease.
pub(crate) const LEASE_COUNT: u64 = 300_000;

/// A daemon on a free port. It ends with the test.
pub(crate) struct FakeDaemon {
    pub(crate) endpoint: String,
    state: Arc<State>,
    _runtime: Runtime,
}

/// Returns the refusal for the call with this index, from 0, or `None` to grant it.
type Script = dyn Fn(usize) -> Option<Status> + Send + Sync;

struct State {
    script: Box<Script>,
    /// The requested count of each call, and whether it was granted.
    calls: Mutex<Vec<(u64, bool)>>,
    /// The source of each call.
    sources: Mutex<Vec<String>>,
}

impl FakeDaemon {
    pub(crate) fn start(script: impl Fn(usize) -> Option<Status> + Send + Sync + 'static) -> Self {
        let state = Arc::new(State { script: Box::new(script), calls: Mutex::default(), sources: Mutex::default() });
        let runtime = Runtime::new().expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = listener.local_addr().expect("it has an address").to_string();
        listener.set_nonblocking(true).expect("a socket can be made non-blocking");
        let service = Service(state.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("inside the runtime");
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = Server::builder().add_service(AllocatorServer::new(service));
            server.serve_with_incoming(incoming).await
        });
        Self { endpoint, state, _runtime: runtime }
    }

    /// Returns the requested count of each call, and whether it was granted.
    pub(crate) fn calls(&self) -> Vec<(u64, bool)> {
        self.state.calls.lock().expect("no call panics").clone()
    }

    /// Returns the source of each call.
    pub(crate) fn sources(&self) -> Vec<String> {
        self.state.sources.lock().expect("no call panics").clone()
    }

    /// Returns the number of granted identifiers.
    pub(crate) fn granted(&self) -> u64 {
        self.calls().iter().filter(|(_, granted)| *granted).map(|(count, _)| count).sum()
    }
}

#[derive(Clone)]
struct Service(Arc<State>);

#[tonic::async_trait]
impl Allocator for Service {
    type AllocateStreamStream = BoxStream<AllocateStreamResponse>;

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let AllocateRequest { source, count, .. } = request.into_inner();
        self.0.sources.lock().expect("no call panics").push(source.clone());
        let mut calls = self.0.calls.lock().expect("no call panics");
        let refusal = if count > LEASE_COUNT { Some(too_many()) } else { (self.0.script)(calls.len()) };
        let first = calls.iter().filter(|(_, granted)| *granted).map(|(count, _)| count).sum();
        calls.push((count, refusal.is_none()));
        match refusal {
            Some(status) => Err(status),
            None => Ok(Response::new(grant(&source, first, count))),
        }
    }

    async fn allocate_stream(
        &self,
        _: Request<Streaming<AllocateRequest>>,
    ) -> Result<Response<Self::AllocateStreamStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
}

fn too_many() -> Status {
    let details = ErrorDetails::with_bad_request_violation("count", "too many");
    Status::with_error_details(Code::InvalidArgument, "count: too many", details)
}

fn grant(source: &str, first: u64, count: u64) -> AllocateResponse {
    let constants = match source.strip_prefix("region:") {
        Some(_) => Constants::Region(RegionConstants {
            bits: 64,
            base: Some(u128::from(BASE).into()),
            suffix_bits: 40,
            region_number: 1,
            revision: 1,
            ..RegionConstants::default()
        }),
        None => Constants::Slot(SlotConstants {
            format: source.to_owned(),
            slot: 3,
            slot_epoch: 1,
            node: 0xa1b2_c3d4_e5f6,
            clock_seq: 7,
            cluster_key: vec![1; 16].into(),
        }),
    };
    let lease = Block { first: Some(u128::from(first).into()), count, constants: Some(constants) };
    AllocateResponse { identifiers: Some(Identifiers::Lease(lease)), clock_epoch: 0 }
}

/// The first identifier of every region.
pub(crate) const BASE: u64 = 1 << 60;
