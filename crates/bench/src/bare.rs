//! The bare transport: a tonic server with the daemon's threads and settings that answers every request with a constant
//! message, or an axum server that answers every request with the same bytes.

use std::{fs, io, net::Ipv4Addr, path::PathBuf, pin::Pin, sync::LazyLock, thread};

use anyhow::bail;
use axum::{Router, http::header, serve::ListenerExt};
use bytes::Bytes;
use clap::Args;
use kent_client::proto::{
    AllocateRequest, AllocateResponse, AllocateStreamResponse, Block, Encoding, PackedData, PackedIdentifiers,
    SlotConstants,
    allocate_response::Identifiers,
    allocate_stream_response::Outcome,
    allocator_server::{Allocator, AllocatorServer},
    block::Constants,
};
use kentd::{
    TlsFiles,
    connection::Connection,
    handshake::Handshakes,
    http2,
    threads::Threads,
    workers::{Serve, Workers},
};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_stream::{Stream, StreamExt};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    Request, Response, Status, Streaming,
    service::Routes,
    transport::{Server, server::TcpIncoming},
};

/// The arguments of the hidden command `bare`.
#[derive(Debug, Args)]
pub(crate) struct BareArgs {
    /// Serve over TLS, with this certificate.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Use this private key with the certificate.
    #[arg(long)]
    key: Option<PathBuf>,
    /// Keep each thread on one processor.
    #[arg(long)]
    pin_threads: bool,
    /// Serve as tonic's introduction shows: with default settings, on the threads of tokio.
    #[arg(long, conflicts_with_all = ["cert", "pin_threads", "http"])]
    as_introduced: bool,
    /// Serve HTTP instead of gRPC, and answer every request with this file.
    #[arg(long, conflicts_with = "cert")]
    http: Option<PathBuf>,
    /// Set the content type of the file.
    #[arg(long, default_value = "text/plain; charset=utf-8")]
    content_type: String,
}

/// Serves until the process is killed.
pub(crate) fn run(args: BareArgs) -> anyhow::Result<()> {
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("bare transport on {}", listener.local_addr()?);
        if let Some(file) = args.http {
            let (body, kind) = (Bytes::from(fs::read(file)?), args.content_type);
            let handler = move |_: Bytes| async move { ([(header::CONTENT_TYPE, kind)], body) };
            // The daemon sets TCP_NODELAY too.
            let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
            axum::serve(listener, Router::new().fallback(handler)).await?;
            bail!("the bare handler ended");
        }
        if args.as_introduced {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            Server::builder().add_service(AllocatorServer::new(Bare)).serve_with_incoming(incoming).await?;
            bail!("the server ended");
        }
        let stop = CancellationToken::new();
        let handshakes = match (args.cert, args.key) {
            (Some(cert), Some(key)) => Handshakes::secure(TlsFiles { cert, key, client_ca: None, crl: None })?,
            _ => Handshakes::plain(),
        };
        let threads = Threads { count: thread::available_parallelism()?.get(), is_pinned: args.pin_threads };
        Workers::start(threads, &Bare, &stop, &TaskTracker::new())?.accept(listener, handshakes, &stop).await;
        bail!("the bare transport ended")
    })
}

#[derive(Clone)]
struct Bare;

impl Serve for Bare {
    async fn serve(self, connections: impl Stream<Item = Connection> + Send, stop: CancellationToken) {
        let server = Server::builder()
            .max_concurrent_streams(http2::CALLS_MAX)
            .initial_connection_window_size(http2::CONNECTION_WINDOW)
            .initial_stream_window_size(http2::CALL_WINDOW)
            .http2_max_header_list_size(http2::HEADER_BYTES_MAX)
            .http2_max_pending_accept_reset_streams(Some(http2::RESETS_PENDING_MAX))
            .http2_max_local_error_reset_streams(Some(http2::RESETS_LOCAL_MAX));
        let (services, connections) =
            (Routes::new(AllocatorServer::new(self)).prepare(), connections.map(io::Result::Ok));
        if let Err(error) = server.serve_with_incoming_shutdown(services, connections, stop.cancelled_owned()).await {
            eprintln!("the bare transport failed: {error}");
        }
    }
}

#[tonic::async_trait]
impl Allocator for Bare {
    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        Ok(Response::new(answer(request.get_ref())))
    }

    type AllocateStreamStream = Pin<Box<dyn Stream<Item = Result<AllocateStreamResponse, Status>> + Send>>;

    async fn allocate_stream(
        &self,
        request: Request<Streaming<AllocateRequest>>,
    ) -> Result<Response<Self::AllocateStreamStream>, Status> {
        let granted = |request: Result<AllocateRequest, Status>| {
            request.map(|request| AllocateStreamResponse { outcome: Some(Outcome::Granted(answer(&request))) })
        };
        Ok(Response::new(Box::pin(request.into_inner().map(granted))))
    }
}

/// Returns a response with the same size as the daemon's response.
fn answer(request: &AllocateRequest) -> AllocateResponse {
    let identifiers = match request.encoding() {
        Encoding::Packed => {
            // The bytes are not zeros, because the kernel maps zero pages to one shared page, which is faster to read
            // than real data.
            static BYTES: LazyLock<Bytes> = LazyLock::new(|| vec![0xa5; 16 << 20].into());
            let bytes = usize::try_from(request.count * 16).unwrap_or(usize::MAX).min(BYTES.len());
            let data = BYTES.slice(..bytes);
            Identifiers::Packed(PackedIdentifiers {
                width: 16,
                data: PackedData::Bytes(data),
                ..PackedIdentifiers::default()
            })
        }
        _ => Identifiers::Lease(Block {
            first: Some(u128::MAX.into()),
            count: request.count,
            constants: Some(Constants::Slot(SlotConstants {
                format: "uuidv7".to_owned(),
                slot: 1,
                slot_epoch: 1,
                node: u64::MAX >> 16,
                clock_seq: 1,
                ..SlotConstants::default()
            })),
        }),
    };
    AllocateResponse { identifiers: Some(identifiers), clock_epoch: 0 }
}
