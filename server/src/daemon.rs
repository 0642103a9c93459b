//! Starting and stopping the daemon.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use kent_engine::{
    engine::{Engine, Place},
    host::{
        Environment,
        clock::{Clock, SystemClock},
        entropy::{self, Entropy, SystemEntropy},
        process::open_files_max,
        tasks::{Calls, Tasks},
        trace::Traces,
        watched::{StoreMetrics, Watched},
    },
    records::{failure::LoadError, founding},
};
use kent_http::{Gateway, Options, Stage};
use kent_proto::v1::{AccessMethods, AdminMethods, CodecMethods, LayoutsMethods, RegionsMethods};
use kent_store::{
    ArchiveError, Archiving, Bounded, EtcdOpenError, EtcdOptions, EtcdStore, MemoryStore, OpenError, SledOptions,
    SledStore, Store, StoreId,
};
use kent_transport::{
    admission::{Admission, Limits},
    allocator::AllocatorService,
    calls::CallMetrics,
    handshake::{HANDSHAKES_MAX, Handshakes, PortKind},
    http2,
    lanes::Lanes,
    listen::{Listeners, SocketError, UnixSocket},
    meters::PortsMetrics,
    offload::Offload,
    port::GrpcPort,
    tls::{POLL, Tls, TlsError},
};
use thiserror::Error;
use tokio::{net::TcpListener, time};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::{error, info, warn};

use crate::{
    config::{AuthMode, Config, ListenAddress, StoreKind, Values},
    maintenance::witness::{Claim, Witness, WitnessError},
    memory,
    node::Node,
    recording, reflection,
    service::{AccessService, CodecService, LayoutsService},
};

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    node: Node,
    store: Arc<dyn Store>,
    /// Keeps other processes on this machine from serving a copy of the embedded store.
    _claim: Option<Claim>,
    /// The traces of calls, if they are sent to a collector.
    traces: Option<Traces>,
    /// The tasks of the ports. After a stop, the ports accept no more connections and finish the calls in flight.
    ports: Tasks,
    grace: Duration,
    /// The addresses of the gRPC port, with the actual port numbers, but without the default Unix socket.
    grpc: String,
    http: SocketAddr,
    redis: Option<SocketAddr>,
    /// The threads that run calls. They live as long as the daemon.
    _calls: Calls,
    /// The threads that serve the HTTP port. They live as long as the daemon, because work that a call started can
    /// outlast the call.
    _lanes: Arc<Lanes>,
    /// The threads that serve the Redis port. They live as long as the daemon, for the same reason.
    _redis_lanes: Option<Arc<Lanes>>,
}

/// Why the daemon does not start. A failed start issues nothing.
#[derive(Debug, Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[source] OpenError),
    /// The archive is damaged.
    #[error(
        "{0}. If the data directory is not an old copy, start once with --no-archive=lost, and then with --archive and an empty directory. Never \
         restore from the damaged archive with --archive"
    )]
    DamagedArchive(ArchiveError),
    /// The store on etcd cannot be opened.
    #[error("the store cannot be opened")]
    Etcd(#[from] EtcdOpenError),
    /// The store is an old copy, or the witness cannot be used.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// Another store was in the directory when it was opened again to begin the archive.
    #[error("{} contained another store a moment ago: is its disk still mounted?", dir.display())]
    Replaced {
        /// The directory.
        dir: PathBuf,
    },
    /// The state in the store cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A port cannot be bound.
    #[error("cannot listen on {address}: {error}; choose another with --{setting}")]
    Bind {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        address: SocketAddr,
        /// The I/O error.
        error: io::Error,
    },
    /// A Unix socket cannot be created.
    #[error("cannot listen on unix:{}: {error}; choose another with --listen", path.display())]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// What is wrong with the socket.
        error: SocketError,
    },
    /// The threads that serve connections and calls cannot be started.
    #[error("the threads that serve connections cannot be started")]
    Threads(#[source] io::Error),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The exporter of traces cannot be built.
    #[error("traces cannot be sent (otlp)")]
    Traces(#[from] opentelemetry_otlp::ExporterBuildError),
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Archive(error @ (ArchiveError::Damaged { .. } | ArchiveError::Record { .. })) => {
                Self::DamagedArchive(error)
            }
            error => Self::Store(error),
        }
    }
}

/// The interval at which the health service checks whether the daemon can grant.
const HEALTH_INTERVAL: Duration = Duration::from_millis(250);

/// The time for which a start waits for the first slot before the daemon serves without one.
const FIRST_SLOT: Duration = Duration::from_secs(5);

/// The timeout of an operation of the store. A usual commit takes less than a thousandth of this time.
const STORE_LIMIT: Duration = Duration::from_secs(5);

/// The total length of the pauses while a start retries etcd, and the length of each pause.
const ETCD_START: Duration = Duration::from_secs(30);
const ETCD_PAUSE: Duration = Duration::from_secs(1);

/// The name of the socket in the data directory.
const SOCKET: &str = "kent.sock";

/// The maximum size of a request for identifiers, in bytes. Such a request contains only names and a request ID. Each
/// open call may keep one request in memory.
const ALLOCATE_BYTES_MAX: usize = 16 << 10;

impl Daemon {
    /// Opens the store, loads and checks the state, takes a slot, and serves. The HTTP port serves from the beginning.
    /// Dropping the future aborts the start, and has the same effect as a crash at that moment.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub(crate) async fn start(config: Config) -> Result<Self, StartError> {
        let mut grpc = listen(&config).await?;
        let http = bind("http", config.set.http).await?;
        let http_address = http.local_addr().unwrap_or(config.set.http);
        let redis = match config.redis {
            Some(address) => Some(bind("redis", address).await?),
            None => None,
        };
        let redis_address = redis.as_ref().and_then(|redis| redis.local_addr().ok());
        let grpc_addresses = grpc.addresses().collect::<Vec<_>>().join(",");
        let first_address = grpc.tcp_address().map_or_else(|| grpc_addresses.clone(), |address| address.to_string());
        // Start at least two threads, so that a call that reads a large table does not delay the others.
        let calls = Calls::start(config.threads.count.max(2)).map_err(StartError::Threads)?;
        let (ports, stage) = (Tasks::with_calls(&calls), Stage::starting("the store is being opened"));
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        let tls = config.tls.clone().map(Tls::open).transpose()?;
        if let Some(tls) = tls.clone() {
            let following = tls.follow_files(clock.clone(), ports.stopping().clone());
            ports.spawn("certificates", following);
        }
        let is_exposed = config.set.listen.tcp().chain(config.redis).any(|address| !address.ip().is_loopback());
        if config.set.auth == AuthMode::Required && tls.is_none() && is_exposed {
            warn!("tokens cross the network in plain text, because this daemon has no TLS (--tls-cert, --tls-key)");
        }
        if let Some(certificates) = config.etcd_tls.clone() {
            let stop = ports.stopping().clone();
            ports.spawn("certificates for etcd", async move {
                stop.run_until_cancelled(certificates.follow(POLL)).await;
            });
        }
        let ((grpc_limits, http_limits), metrics) = (connection_limits(&config), PortsMetrics::default());
        let handshakes = |port: &'static str, limits: Limits, kind| {
            let admission = Admission::new(limits, metrics.port(port, limits.total));
            Handshakes::new(admission, tls.as_ref(), kind, clock.clone(), &ports)
        };
        let (for_grpc, for_http) =
            (handshakes("grpc", grpc_limits, PortKind::Grpc), handshakes("http", http_limits, PortKind::Http));
        let for_redis = redis.is_some().then(|| handshakes("redis", grpc_limits, PortKind::Redis));
        let asks = config.set.http_auth == AuthMode::Required;
        let lanes = Arc::new(Lanes::start("http", config.threads).map_err(StartError::Threads)?);
        let redis_lanes = redis.is_some().then(|| Lanes::start("redis", config.threads).map(Arc::new)).transpose();
        let redis_lanes = redis_lanes.map_err(StartError::Threads)?;
        ports.spawn(
            "HTTP port",
            kent_http::serve(http, for_http, (stage.clone(), asks), lanes.clone(), ports.stopping().clone()),
        );
        let opened = open_store(&config, &stage, &config.archiving.without_begin()).await?;
        let claim = attest_opened(&config, &opened, &*entropy).await?;
        let Opened { store, kind, location, is_archived } = opened;
        let store = match config.archiving {
            // Begin an archive only after the check that the store is not an old copy. The archive of an old copy would
            // later be mistaken for the archive of the newer store.
            Archiving::To { .. } if !is_archived => {
                store.close().await;
                let again = open_store(&config, &stage, &config.archiving).await?.store;
                // The disk of the store may have been unmounted in between.
                if again.store_id() != store.store_id() {
                    return Err(StartError::Replaced { dir: config.set.data.clone() });
                }
                again
            }
            _ => store,
        };
        if let Archiving::To { dir, .. } = &config.archiving {
            info!(archive = %dir.display(), "writing every commit to the archive before it is acknowledged");
        }
        stage.set_doing("the state is being read from the store".to_owned());
        let address = config.advertise.clone().unwrap_or(first_address);
        let directories = directories(&config);
        let place = Place { kind, location, address: address.clone(), directories };
        let store_metrics = StoreMetrics::default();
        let watched = Arc::new(Watched::new(store.clone(), clock.clone(), &store_metrics));
        let sources: (Arc<dyn Clock>, Arc<dyn Entropy>) = (clock.clone(), entropy.clone());
        let environment = Environment { store: watched, clock: clock.clone(), entropy };
        let node = Node::start_at(place, tls.clone(), environment, &config, Tasks::with_calls(&calls)).await?;
        stage.set_doing("waiting for a slot".to_owned());
        node.engine().slots().wait_for_slot(FIRST_SLOT).await;
        let traces = config.collector.as_ref().map(|collector| {
            let channel = collector.target.connect_lazy();
            Traces::start(channel, config.set.trace_ratio, &address)
        });
        let daemon = Self {
            node,
            store,
            _claim: claim,
            traces: traces.transpose()?,
            ports,
            grace: config.set.grace.0,
            grpc: grpc_addresses,
            http: http_address,
            redis: redis_address,
            _calls: calls,
            _lanes: lanes,
            _redis_lanes: redis_lanes.clone(),
        };
        let (engine, stop) = (daemon.node.engine().clone(), daemon.ports.stopping().clone());
        daemon.ports.spawn("figures", recording::keep(engine, store_metrics.clone(), stop.clone()));
        daemon.ports.spawn("memory", memory::keep_returning(stop));
        let calls = CallMetrics::default();
        daemon.node.engine().metrics().add(|kent| {
            metrics.register(kent);
            store_metrics.register(kent);
            calls.register(kent);
            tls.iter().for_each(|tls| tls.register_metrics(kent));
        });
        // Bind this socket only now: the store is locked, so an existing socket belongs to a daemon that was killed.
        if let Some(path) = default_socket(&config) {
            match UnixSocket::bind(&path) {
                Ok(socket) => grpc.add_unix(socket),
                Err(error) => warn!(path = %path.display(), %error, "cannot serve a Unix socket in the data directory"),
            }
        }
        let (port, allocator) = daemon.serve_grpc(grpc, for_grpc, (clock, calls), &config)?;
        if let (Some(sockets), Some(handshakes), Some(lanes)) = (redis, for_redis, redis_lanes) {
            let services = kent_redis::Services::new(daemon.node.engine().clone(), port.through("redis"));
            let stop = daemon.ports.stopping().clone();
            daemon.ports.spawn("Redis port", kent_redis::serve(sockets, handshakes, services.into(), lanes, stop));
        }
        let options = Options {
            origins: config.http_origins.clone(),
            bytes_max: config.set.request_bytes,
            needs_certificate: config.tls.as_ref().is_some_and(|files| files.client_ca.is_some()),
            is_secure: config.tls.is_some(),
            console: !config.set.no_console,
        };
        let tasks = daemon.node.tasks().clone();
        let gateway = || Gateway::new((port.through("http"), allocator), options, sources, tasks);
        let gateway = config.set.http_api.then(gateway);
        stage.set_serving(daemon.node.engine().clone(), gateway);
        info!(grpc = %daemon.grpc, http = %http_address, store = %daemon.store.store_id(), "kentd serves");
        Ok(daemon)
    }

    /// The configured addresses of the gRPC port, separated by commas.
    pub(crate) fn grpc_addresses(&self) -> &str {
        &self.grpc
    }

    /// The address of the HTTP port.
    pub(crate) fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// The address of the Redis port, if it is open.
    pub(crate) fn redis_address(&self) -> Option<SocketAddr> {
        self.redis
    }

    /// Returns why the daemon cannot grant from some sources, or an empty list if it can grant from all.
    pub(crate) fn reasons_not_ready(&self) -> Vec<String> {
        self.node.engine().readiness().reasons()
    }

    /// Completes when a task of the daemon has failed, so that the daemon must stop.
    pub(crate) async fn failed(&self) {
        tokio::select! {
            () = self.node.tasks().failed().cancelled() => {}
            () = self.ports.failed().cancelled() => {}
        }
    }

    /// Whether the store was replaced or rolled back. A restarted daemon would not know what was issued since then.
    pub(crate) fn is_store_replaced(&self) -> bool {
        // A task that fails for this reason may end before the reason is recorded.
        let is_exchanged = || self.store.peers().is_some_and(|peers| peers.exchanged().now_or_never().is_some());
        self.node.tasks().is_store_replaced() || is_exchanged()
    }

    /// Drains, writes the exact ceilings to the store, and closes it. Returns true if all requests in flight finished.
    pub(crate) async fn stop(self) -> bool {
        // From here on the health service reports not serving, streams end after their current answer, the ports accept
        // no more connections, and calls in flight finish.
        self.node.engine().draining().cancel();
        let clean = time::timeout(self.grace, self.ports.stop()).await.is_ok();
        if !clean {
            warn!(grace = ?self.grace, "requests are still in flight; abandoning them");
        }
        // Unused reservations are returned only after grants have stopped.
        let given_back = time::timeout(GIVE_BACK, async {
            self.node.stop().await;
            self.store.close().await;
        });
        if given_back.await.is_err() {
            error!("unused reservations were not returned to the store in time and leave a gap");
        }
        if let Some(traces) = self.traces {
            // OK because the task fails only if its work panics, and the daemon stops anyway.
            let _ = self.ports.spawn_busy(move || traces.stop()).await;
        }
        clean
    }

    fn serve_grpc(
        &self,
        listeners: Listeners,
        handshakes: Handshakes,
        (clock, calls): (Arc<dyn Clock>, CallMetrics),
        config: &Config,
    ) -> Result<(GrpcPort, Arc<AllocatorService>), StartError> {
        let (health, health_service) = tonic_health::server::health_reporter();
        let max = config.set.request_bytes;
        let (engine, tasks) = (self.node.engine(), self.node.tasks());
        let mut routes = Routes::builder();
        routes.add_service(health_service).add_service(reflection::v1(tasks)).add_service(reflection::v1alpha(tasks));
        let services = vec![
            Offload::new(RegionsMethods::new(self.node.regions()), max, engine),
            Offload::new(LayoutsMethods::new(LayoutsService::new(engine.clone())), max, engine),
            Offload::new(CodecMethods::new(CodecService::new(engine.clone())), max, engine),
            Offload::new(AccessMethods::new(AccessService::new(engine.clone())), max, engine),
            Offload::new(AdminMethods::new(self.node.admin()), max, engine),
        ];
        let service = Arc::new(AllocatorService::new(engine.clone(), self.traces.is_some()));
        let (auth, traces) = (engine.auth().clone(), self.traces.clone());
        let allocator = (service.clone(), max.min(ALLOCATE_BYTES_MAX));
        let port = GrpcPort::new(allocator, (services, routes.routes()), (auth, clock), calls, traces);
        let closing = self.ports.stopping().clone();
        let workers = http2::start(port.clone(), config.threads, &closing, tasks.local_work());
        let workers = workers.map_err(StartError::Threads)?;
        self.ports.spawn("gRPC port", async move { workers.accept(listeners, handshakes, &closing).await });
        let watch = report_health(engine.clone(), health, tasks.stopping().clone());
        tasks.spawn("health reporter", watch);
        Ok((port, service))
    }
}

/// The socket that a daemon on the embedded store serves if the settings do not name a socket.
fn default_socket(config: &Config) -> Option<PathBuf> {
    let is_default = matches!(config.set.store, StoreKind::Sled) && !config.set.listen.has_unix();
    is_default.then(|| config.set.data.join(SOCKET))
}

/// Returns the connection limits of the gRPC port, which are also those of the Redis port, and of the HTTP port. They
/// are reduced if the system allows too few open files.
fn connection_limits(config: &Config) -> (Limits, Limits) {
    let Values { connections, connections_per_address, .. } = config.set;
    // The gRPC port and, if it is open, the Redis port.
    let large_ports = 1 + usize::from(config.redis.is_some());
    let handshakes = if config.tls.is_some() { (1 + large_ports) * HANDSHAKES_MAX } else { 0 };
    let reserved = FILES_OF_DAEMON + handshakes;
    // If the system allows very few files, use three quarters of them for connections.
    let possible = open_files_max().map_or(usize::MAX, |files| files.saturating_sub(reserved).max(files / 4 * 3));
    let possible = possible / large_ports;
    if possible < connections {
        warn!(
            connections = possible,
            "the system allows few open files, so each port takes fewer connections than the setting connections says; raise the \
             limit (ulimit -n, LimitNOFILE)"
        );
    }
    let limits = |total| Limits { total, each: connections_per_address };
    (limits(connections.min(possible)), limits(connections.min(HTTP_CONNECTIONS_MAX)))
}

/// The maximum number of connections of the HTTP port, even if the setting allows more.
const HTTP_CONNECTIONS_MAX: usize = 1000;

/// The number of open files reserved for the store, the threads, the HTTP port and Unix sockets.
const FILES_OF_DAEMON: usize = HTTP_CONNECTIONS_MAX + 512;

/// The directories in which the daemon makes data durable, each with the name of its setting.
fn directories(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let archive = match &config.archiving {
        Archiving::To { dir, .. } => Some(("archive", dir.clone())),
        _ => None,
    };
    let data = matches!(config.set.store, StoreKind::Sled).then(|| ("data", config.set.data.clone()));
    data.into_iter().chain(archive).collect()
}

/// Checks with the witness that the store is not an old copy, claims the store, and counts the start.
async fn attest_opened(
    config: &Config,
    Opened { store, location, .. }: &Opened,
    entropy: &dyn Entropy,
) -> Result<Option<Claim>, StartError> {
    let data = matches!(config.set.store, StoreKind::Sled).then_some(&*config.set.data);
    let Some(witness) = Witness::of(config.witness.as_deref(), data) else { return Ok(None) };
    // Use an absolute path, because the witness identifies a store by its location.
    let absolute = data.and_then(|dir| dir.canonicalize().ok()).map(|dir| dir.display().to_string());
    let location = absolute.unwrap_or_else(|| location.clone());
    if !config.new_store {
        witness.check_new(&**store, &location).await?;
    }
    let claim = match data {
        Some(_) => Some(witness.claim(&**store, &location).await?),
        None => None,
    };
    count_start(&**store, entropy, &witness, &location).await?;
    Ok(claim)
}

/// Checks that the store is complete, or initializes a new one. Then counts a start in the store and in its witness.
async fn count_start(
    store: &dyn Store,
    entropy: &dyn Entropy,
    witness: &Witness,
    place: &str,
) -> Result<(), StartError> {
    founding::load_or_found(store, entropy).await?;
    Ok(witness.attest(store, place).await?)
}

/// Counts a start in the store and in the witness in the directory `witness`, as a daemon does before it starts a
/// [`Node`]. The simulator calls this.
///
/// # Errors
///
/// [`StartError`].
pub async fn attest(environment: &Environment, witness: &Path) -> Result<(), StartError> {
    match Witness::of(Some(witness), None) {
        Some(witness) => count_start(&*environment.store, &*environment.entropy, &witness, "simulated").await,
        None => Ok(()),
    }
}

/// The time limit for returning unused reservations to the store.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// Reports to the health service whether the daemon can grant, for the daemon as a whole and for `Allocator`.
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

/// An open store, and its location for messages.
struct Opened {
    store: Arc<dyn Store>,
    kind: &'static str,
    location: String,
    is_archived: bool,
}

/// Opens the store that the settings name.
async fn open_store(config: &Config, stage: &Stage, archiving: &Archiving) -> Result<Opened, StartError> {
    let new_id = entropy::bytes(&SystemEntropy);
    match &config.set.store {
        StoreKind::Sled => {
            let options = SledOptions { dir: config.set.data.clone(), new_id };
            let store = SledStore::open_archived(options, archiving.clone())?;
            let (location, is_archived) = (config.set.data.display().to_string(), store.is_archived());
            let store = Arc::new(Bounded::new(Arc::new(store), STORE_LIMIT));
            Ok(Opened { store, kind: "sled", location, is_archived })
        }
        StoreKind::Etcd(address) => {
            let options = EtcdOptions {
                address: address.clone(),
                tls: config.etcd_tls.clone(),
                credentials: config.etcd_credentials.clone(),
                new_id,
                schema: config.schema,
            };
            let store = open_etcd(options, stage).await?;
            let (store, location) = (Arc::new(Bounded::new(Arc::new(store), STORE_LIMIT)), address.to_string());
            Ok(Opened { store, kind: "etcd", location, is_archived: false })
        }
        StoreKind::Memory => {
            warn!("the store is in memory: after a restart the daemon may issue the same identifiers again");
            let store = Arc::new(MemoryStore::new(StoreId::new(new_id)));
            Ok(Opened { store, kind: "memory", location: String::new(), is_archived: false })
        }
    }
}

/// Opens etcd, and retries for a while because it may start at the same time as this daemon.
async fn open_etcd(options: EtcdOptions, stage: &Stage) -> Result<EtcdStore, EtcdOpenError> {
    let (mut waited, mut attempts) = (Duration::ZERO, 0_u32);
    stage.set_doing(format!("waiting for etcd at {}", options.address));
    loop {
        match EtcdStore::open(options.clone()).await {
            Err(error) if error.is_retryable() && waited < ETCD_START => {
                attempts += 1;
                // Log the first attempt, and then less and less often.
                if attempts.is_power_of_two() {
                    warn!(%error, attempts, "waiting for etcd");
                }
                let reason = match &error {
                    EtcdOpenError::Unavailable { cause, .. } => cause.reason(),
                    other => other.to_string(),
                };
                stage.set_doing(format!("waiting for etcd at {}: {reason}", options.address));
                time::sleep(ETCD_PAUSE).await;
                waited += ETCD_PAUSE;
            }
            opened => return opened,
        }
    }
}

async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Bind { setting, address, error })
}

/// Listens on the addresses of the gRPC port.
async fn listen(config: &Config) -> Result<Listeners, StartError> {
    let mut listeners = Listeners::none();
    for address in config.set.listen.addresses() {
        match address {
            ListenAddress::Tcp(address) => listeners.add_tcp(bind("listen", *address).await?),
            ListenAddress::Unix(path) => {
                let bound = UnixSocket::bind(path);
                listeners.add_unix(bound.map_err(|error| StartError::Socket { path: path.clone(), error })?);
            }
        }
    }
    Ok(listeners)
}
