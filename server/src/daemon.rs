//! Start and stop, each one readable sequence.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use kent_proto::v1::{
    admin_server::AdminServer, allocator_server::AllocatorServer, codec_server::CodecServer,
    regions_server::RegionsServer,
};
use kent_store::{
    Archiving, Bounded, EtcdOpenError, EtcdOptions, EtcdStore, MemoryStore, OpenError, SledOptions, SledStore, Store,
    StoreId,
};
use thiserror::Error;
use tokio::{net::TcpListener, time};
use tokio_util::sync::CancellationToken;
use tonic::{service::Routes, transport::Server};
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::{error, info, warn};

use crate::{
    config::{Config, StoreKind},
    engine::{Engine, Place},
    host::{
        Environment,
        clock::SystemClock,
        entropy::{self, SystemEntropy},
        tasks::{Calls, Tasks},
    },
    http,
    maintenance::witness::{Witness, WitnessError},
    node::Node,
    records::{failure::LoadError, founding},
    service::{AdminService, AllocatorService, CodecService, RegionsService},
    transport::{offload::Offload, port::Port, workers::Workers},
};

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    node: Node,
    store: Arc<dyn Store>,
    /// Asked to stop, the ports take no more connections and finish what is under way.
    ports: Tasks,
    grace: Duration,
    grpc: SocketAddr,
    http: SocketAddr,
    /// Where calls run, for as long as the daemon does.
    _calls: Calls,
}

/// Why the daemon did not start. Nothing was changed.
#[derive(Debug, Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[from] OpenError),
    /// The store on etcd cannot be opened.
    #[error("the store cannot be opened")]
    Etcd(#[from] EtcdOpenError),
    /// The store is an old copy.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// What is stored cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A port cannot be bound.
    #[error("cannot listen on {address} ({setting})")]
    Bind {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The threads that serve connections and calls cannot be started.
    #[error("the threads that serve connections cannot be started (threads)")]
    Threads(#[source] io::Error),
    /// Reflection cannot be offered.
    #[error("the protocol's descriptors cannot be served")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// How often the health service looks whether the daemon can grant.
const HEALTH_INTERVAL: Duration = Duration::from_millis(250);

/// How long a start waits for the first slot before it serves without.
const FIRST_SLOT: Duration = Duration::from_secs(5);

/// A store that does not answer within this does not answer: some ten thousand times as long as a commit takes.
const STORE_LIMIT: Duration = Duration::from_secs(5);

/// How long a start waits for etcd, not counting the attempts themselves, and how often it tries.
const ETCD_START: Duration = Duration::from_secs(30);
const ETCD_PAUSE: Duration = Duration::from_secs(1);

/// HTTP/2 windows, in bytes: pipelined streams of packed identifiers are not held up by flow control.
const WINDOW_BYTES: u32 = 8 << 20;

impl Daemon {
    /// Opens the store, loads and checks the state, takes a slot, and serves.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let grpc = bind("listen", config.set.listen).await?;
        let http = bind("http", config.set.http).await?;
        let (grpc_address, http_address) = (address(&grpc, config.set.listen), address(&http, config.set.http));
        let (store, (kind, location)) = open_store(&config).await?;
        let serves = config.advertise.clone().unwrap_or_else(|| grpc_address.to_string());
        let place = Place { kind, location, serves };
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        let data = matches!(config.set.store, StoreKind::Sled).then_some(&*config.set.data);
        let environment = Environment { store: store.clone(), clock, entropy };
        if let Some(witness) = Witness::of(config.witness.as_deref(), data) {
            count_start(&environment, &witness, &place.location).await?;
        }
        // Two at least, so that one that reads a large table does not hold up the others.
        let calls = Calls::start(config.threads.max(2)).map_err(StartError::Threads)?;
        let node = Node::start_at(place, environment, &config, Tasks::with_calls(&calls)).await?;
        node.engine().slots().wait_for_slot(FIRST_SLOT).await;
        let daemon = Self {
            node,
            store,
            ports: Tasks::new(),
            grace: config.set.grace.0,
            grpc: grpc_address,
            http: http_address,
            _calls: calls,
        };
        daemon.serve_grpc(grpc, &config)?;
        daemon.serve_http(http);
        info!(grpc = %grpc_address, http = %http_address, store = %daemon.store.store_id(), "kentd serves");
        Ok(daemon)
    }

    /// Where gRPC is served.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc
    }

    /// Where HTTP is served.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Ready when a part of the daemon has failed, and it must stop.
    pub async fn failed(&self) {
        tokio::select! {
            () = self.node.tasks().failed().cancelled() => {}
            () = self.ports.failed().cancelled() => {}
        }
    }

    /// Drains, writes the exact ceilings back, and closes the store. True if all requests in flight had finished.
    pub async fn stop(self) -> bool {
        // Not serving; streams end after the answer that they are at; no more connections; calls in flight finish.
        self.node.engine().draining().cancel();
        let clean = time::timeout(self.grace, self.ports.stop()).await.is_ok();
        if !clean {
            warn!(grace = ?self.grace, "requests are still in flight; giving up on them");
        }
        // Only now, when nothing is granted any more, the unused rest goes back.
        let given_back = time::timeout(GIVE_BACK, async {
            self.node.stop().await;
            self.store.close().await;
        });
        if given_back.await.is_err() {
            error!("the store did not take the unused rest back in time; it is a gap");
        }
        clean
    }

    fn serve_grpc(&self, listener: TcpListener, config: &Config) -> Result<(), StartError> {
        let (health, health_service) = tonic_health::server::health_reporter();
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(kent_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let max = config.set.request_bytes;
        let (engine, tasks) = (self.node.engine(), self.node.tasks());
        let mut routes = Routes::builder();
        routes
            .add_service(health_service)
            .add_service(reflection().build_v1()?)
            // Python's stock reflection client speaks the older version.
            .add_service(reflection().build_v1alpha()?)
            .add_service(Offload::new(
                RegionsServer::new(RegionsService::new(engine.clone())).max_decoding_message_size(max),
                tasks,
            ))
            .add_service(Offload::new(
                CodecServer::new(CodecService::new(engine.computing().clone())).max_decoding_message_size(max),
                tasks,
            ))
            .add_service(Offload::new(
                AdminServer::new(AdminService::new(engine.clone())).max_decoding_message_size(max),
                tasks,
            ));
        let allocator = AllocatorServer::new(AllocatorService::new(engine.clone())).max_decoding_message_size(max);
        let port = Port::new(allocator, routes.routes());
        let closing = self.ports.stopping().clone();
        let workers = Workers::start(config.threads, &transport(), &port, &closing, tasks.aboard());
        let workers = workers.map_err(StartError::Threads)?;
        self.ports.spawn("gRPC port", async move { workers.accept(listener, &closing).await });
        let watch = report_health(engine.clone(), health, tasks.stopping().clone());
        tasks.spawn("health reporter", watch);
        Ok(())
    }

    fn serve_http(&self, listener: TcpListener) {
        let serving =
            http::serve(listener, self.node.engine().clone(), self.ports.stopping().clone().cancelled_owned());
        self.ports.spawn("HTTP port", async move {
            if let Err(error) = serving.await {
                error!(%error, "the HTTP port failed");
            }
        });
    }
}

/// Counts a start in the store and in its witness.
async fn count_start(environment: &Environment, witness: &Witness, place: &str) -> Result<(), StartError> {
    // A start is counted only in a store that may be started.
    founding::found(&*environment.store, &*environment.entropy).await?;
    Ok(witness.attest(&*environment.store, place).await?)
}

/// What a daemon does before a [`Node`] starts, where there is a witness in the directory `witness`: for the simulator.
///
/// # Errors
///
/// [`StartError`].
pub async fn attest(environment: &Environment, witness: &Path) -> Result<(), StartError> {
    match Witness::of(Some(witness), None) {
        Some(witness) => count_start(environment, &witness, "simulated").await,
        None => Ok(()),
    }
}

/// The settings of the gRPC transport.
pub fn transport() -> Server {
    Server::builder().initial_connection_window_size(WINDOW_BYTES).initial_stream_window_size(WINDOW_BYTES)
}

/// How long the store may take to take the unused rest back.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// Tells the health service whether the daemon can grant, for the daemon as a whole and for the service that grants.
async fn report_health(engine: Arc<Engine>, health: HealthReporter, stop: CancellationToken) {
    let services = ["", "kent.v1.Allocator"];
    loop {
        let status = if engine.readiness().is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in services {
            health.set_service_status(service, status).await;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = engine.draining().cancelled(), if status == ServingStatus::Serving => {}
            () = time::sleep(HEALTH_INTERVAL) => {}
        }
    }
}

/// The store, its kind, and where it is.
async fn open_store(config: &Config) -> Result<(Arc<dyn Store>, (&'static str, String)), StartError> {
    let new_id = entropy::bytes(&SystemEntropy);
    match &config.set.store {
        StoreKind::Sled => {
            let options = SledOptions { dir: config.set.data.clone(), new_id };
            let store = SledStore::open_archived(options, config.archiving.clone())?;
            if let Archiving::To { dir, .. } = &config.archiving {
                info!(archive = %dir.display(), "every commit goes to the archive before it is acknowledged");
            }
            let place = ("sled", config.set.data.display().to_string());
            Ok((Arc::new(Bounded::new(Arc::new(store), STORE_LIMIT)), place))
        }
        StoreKind::Etcd(address) => {
            let options = EtcdOptions {
                address: address.clone(),
                tls: config.etcd_tls.clone(),
                credentials: config.etcd_credentials.clone(),
                new_id,
                schema: config.schema,
            };
            let store = open_etcd(options).await?;
            let place = ("etcd", address.to_string());
            Ok((Arc::new(Bounded::new(Arc::new(store), STORE_LIMIT)), place))
        }
        StoreKind::Memory => {
            warn!("the store is in memory: what is issued is forgotten at the end, and may be issued again");
            let store = MemoryStore::new(StoreId::new(new_id));
            Ok((Arc::new(store), ("memory", String::new())))
        }
    }
}

/// etcd may be started at the same time as this daemon: it is waited for.
async fn open_etcd(options: EtcdOptions) -> Result<EtcdStore, EtcdOpenError> {
    let mut waited = Duration::ZERO;
    loop {
        match EtcdStore::open(options.clone()).await {
            Err(error) if error.is_retryable() && waited < ETCD_START => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                warn!(%error, cause, "waiting for etcd");
                time::sleep(ETCD_PAUSE).await;
                waited += ETCD_PAUSE;
            }
            opened => return opened,
        }
    }
}

async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Bind { setting, address, source })
}

/// The address that was bound, which tells the port where 0 was asked for.
fn address(listener: &TcpListener, asked: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(asked)
}
