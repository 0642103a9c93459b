//! Tokens, roles, certificates, CAs and revocation lists that change on a cluster under load: no call of a valid caller
//! fails, and a revoked caller gets nothing more from any replica.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use kent_client::{Channel, Client};
use kent_proto::v1::{
    AccessChanged, AllocateRequest, AllocateStreamResponse, CreateTokenRequest, PutRoleRequest, RevokeTokenRequest,
    Role, RotateTokenRequest, WatchTableRequest, WatchTableResponse, access_client::AccessClient,
    allocate_stream_response::Outcome, allocator_client::AllocatorClient,
};
use kent_test_etcd::Etcd;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{
    auth::{Holder, anonymous, holder, make, missing, owned, packed, refusal},
    harness::{Daemon, SPACE, data_dir},
    rotation::bundle,
    tls::{Ca, Files, Identity, client, until},
};

const CALLERS: usize = 16;
const REPLICAS: usize = 3;
const ROUNDS: usize = 3;
const CALLS: u64 = 10;

/// The credentials of a caller: a certificate, and perhaps a token. They change, but are always valid.
#[derive(Clone)]
struct Presented {
    identity: Arc<Identity>,
    by: Holder,
}

/// A caller's current credentials, and the number of sessions in which it has connected and made its calls.
struct Caller {
    presented: Mutex<Presented>,
    sessions: AtomicU64,
}

impl Caller {
    fn presented(&self) -> MutexGuard<'_, Presented> {
        self.presented.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects and makes some calls, without retries. Callers with odd numbers make these calls on one stream.
    async fn session(&self, number: usize, daemon: &Daemon, ca: &Ca) {
        let Presented { identity, by } = self.presented().clone();
        let connected = client(daemon, ca, Some(&identity)).connect().await.expect("a handshake succeeds");
        let mut allocator = connected.allocator();
        if number.is_multiple_of(2) {
            for _ in 0..CALLS {
                allocator.allocate(by.send(packed("uuidv7"))).await.expect("a call succeeds");
            }
        } else {
            let mut stream = Stream::open(&mut allocator, &by).await;
            for _ in 0..CALLS {
                stream.ask().await.expect("a message of a stream succeeds");
            }
        }
        self.sessions.fetch_add(1, Relaxed);
    }
}

/// An open `AllocateStream` call.
struct Stream {
    asking: mpsc::Sender<AllocateRequest>,
    answers: Streaming<AllocateStreamResponse>,
}

impl Stream {
    async fn open(allocator: &mut AllocatorClient<Channel>, by: &Holder) -> Self {
        let (asking, asked) = mpsc::channel(1);
        let answers = allocator.allocate_stream(by.send(ReceiverStream::new(asked))).await;
        Self { asking, answers: answers.expect("a stream opens").into_inner() }
    }

    async fn ask(&mut self) -> Result<(), Status> {
        self.asking.send(packed("uuidv7")).await.map_err(|_| Status::cancelled("the stream has ended"))?;
        let answer = self.answers.message().await?.ok_or_else(|| Status::cancelled("the stream has ended"))?;
        match answer.outcome {
            Some(Outcome::Granted(_)) => Ok(()),
            Some(Outcome::Refused(refused)) => Err(Status::new(refused.code.into(), refused.message)),
            None => Err(Status::unknown("an empty answer")),
        }
    }
}

/// The open calls of a caller on one replica.
struct Open {
    allocator: AllocatorClient<Channel>,
    stream: Stream,
    watch: Streaming<WatchTableResponse>,
    by: Holder,
}

impl Open {
    /// Opens the calls, and uses each of them once.
    async fn start(client: &Client, by: &Holder) -> Self {
        let connected = client.connect().await.expect("connected");
        let mut allocator = connected.allocator();
        let mut stream = Stream::open(&mut allocator, by).await;
        let watch = WatchTableRequest { parent: SPACE.to_owned(), after_revision: 0 };
        let mut watch = connected.regions().watch_table(by.send(watch)).await.expect("open").into_inner();
        watch.message().await.expect("a snapshot").expect("a snapshot");
        stream.ask().await.expect("granted");
        allocator.allocate(by.send(packed("uuidv7"))).await.expect("granted");
        Self { allocator, stream, watch, by: by.clone() }
    }

    /// Returns how the next unary call, the next message of the stream, and the watch end.
    async fn refusals(mut self) -> [Result<(), Status>; 3] {
        let unary = self.allocator.allocate(self.by.send(packed("uuidv7"))).await.map(drop);
        let stream = self.stream.ask().await;
        assert!(unary.is_err() && stream.is_err(), "the caller still gets identifiers: {unary:?} {stream:?}");
        let watch = loop {
            match self.watch.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(status) => break Err(status),
            }
        };
        [unary, stream, watch]
    }
}

/// A cluster whose replicas read the same certificate files.
struct Cluster {
    daemons: Vec<Arc<Daemon>>,
    /// Signs the certificates of the replicas and of some callers.
    ca: Arc<Ca>,
    files: Files,
    operator: Identity,
    admin: Holder,
}

impl Cluster {
    /// Starts the replicas. The first token is created while a daemon requires none.
    async fn start(etcd: &Etcd, ca: Arc<Ca>, trusted: &Ca) -> Self {
        let address = etcd.address("kent");
        let files = Files::new(&ca.server(), Some(trusted), Some(&ca.revoke(&[])));
        let start = |auth: &str| {
            let mut command = files.command(data_dir().path());
            let store = ["--store", &address, "--window", "10s", "--log", "error", "--auth", auth];
            Daemon::spawn(command.args(store))
        };
        let open = start("off");
        let operator = ca.client("spiffe://example/operator", 2);
        let mut access = client(&open, &ca, Some(&operator)).connect().await.expect("connected").access();
        let admin = make(&mut access, &anonymous(), &["admin:*"], 0).await.expect("made");
        open.signal("TERM");
        assert!(open.wait().await.success());
        let daemons = (0..REPLICAS).map(|_| Arc::new(start("required"))).collect();
        Self { daemons, ca, files, operator, admin }
    }

    /// A stub of the Access service of the replica that makes the change with this number.
    async fn access(&self, number: usize) -> AccessClient<Channel> {
        let daemon = &self.daemons[number % REPLICAS];
        client(daemon, &self.ca, Some(&self.operator)).connect().await.expect("connected").access()
    }

    async fn token(&self, number: usize) -> Holder {
        let new = CreateTokenRequest { name: "test".to_owned(), roles: owned(&["callers"]), ..Default::default() };
        holder(self.access(number).await.create_token(self.admin.send(new)).await.expect("made"))
    }

    /// Replaces the permissions and the certificates of a role.
    async fn role(&self, number: usize, name: &str, permissions: &[&str], certificates: &[&str]) -> AccessChanged {
        let (permissions, certificates) = (owned(permissions), owned(certificates));
        let role = Role { name: name.to_owned(), permissions, certificates, limits: None };
        let put = self.admin.send(PutRoleRequest { role: Some(role), update: Vec::new() });
        self.access(number).await.put_role(put).await.expect("put").into_inner()
    }

    /// Opens calls on each replica.
    async fn open(&self, identity: &Identity, by: &Holder) -> Vec<Open> {
        let mut opened = Vec::new();
        for daemon in &self.daemons {
            opened.push(Open::start(&client(daemon, &self.ca, Some(identity)), by).await);
        }
        opened
    }

    /// Fails if one of the replicas has not confirmed a change.
    fn check_confirmed(&self, unconfirmed: &[String]) {
        let own: BTreeSet<_> = self.daemons.iter().map(|daemon| daemon.grpc_address()).collect();
        assert!(!unconfirmed.iter().any(|replica| own.contains(&**replica)), "{unconfirmed:?}");
    }

    /// Replaces the certificate of the replicas, the trusted CAs and the list of revoked certificates.
    fn exchange(&mut self, trusted: &Ca, revoked: &[Identity]) {
        let server = self.ca.server();
        let list = self.ca.revoke(&revoked.iter().collect::<Vec<_>>());
        self.files.exchange(&server.certificate, &server.key, Some(trusted), Some(&list));
        self.daemons.iter().for_each(|daemon| daemon.signal("HUP"));
    }

    /// Waits until all replicas admit this certificate, or until none does.
    async fn until_admitted(&self, identity: &Identity, is_admitted: bool) {
        for daemon in &self.daemons {
            until(async || {
                let admitted = match client(daemon, &self.ca, Some(identity)).connect().await {
                    Ok(connected) => connected.allocator().allocate(packed("uuidv7")).await.is_ok(),
                    Err(_) => false,
                };
                admitted == is_admitted
            })
            .await;
        }
    }
}

/// Waits until each caller has connected with its current credentials and made its calls.
async fn until_all_called(callers: &[Arc<Caller>], running: &mut JoinSet<()>) {
    // The current session may have begun with the caller's earlier credentials.
    let wanted: Vec<_> = callers.iter().map(|caller| caller.sessions.load(Relaxed) + 2).collect();
    until(async || {
        if let Some(ended) = running.try_join_next() {
            ended.expect("no call fails");
        }
        callers.iter().zip(&wanted).all(|(caller, wanted)| caller.sessions.load(Relaxed) >= *wanted)
    })
    .await;
}

/// The name in the certificate of a caller.
fn name(number: usize) -> String {
    format!("spiffe://example/callers/{number}")
}

fn serial(number: usize) -> u64 {
    100 + u64::try_from(number).expect("small")
}

/// Sixteen callers: half with tokens, and half with certificates. The CA of half of these certificates is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn ok_valid_callers_lose_no_call_and_revoked_ones_get_none_while_a_cluster_changes_under_load() {
    let etcd = Etcd::start(1);
    let (lasting, mut old) = (Arc::new(Ca::new("lasting")), Ca::new("old"));
    let mut cluster = Cluster::start(&etcd, lasting.clone(), &bundle(&[&*lasting, &old])).await;
    let callers_are = ["spiffe://example/callers/*"];
    cluster.role(0, "callers", &["allocate:uuidv7", "read:space:default"], &callers_are).await;
    let (stop, mut running, mut callers) = (Arc::new(AtomicBool::new(false)), JoinSet::new(), Vec::new());
    for number in 0..CALLERS {
        let signer: &Ca = if number % 8 < 6 { &lasting } else { &old };
        let presented = Presented {
            identity: Arc::new(signer.client(&name(number), serial(number))),
            by: if number % 8 < 4 { cluster.token(number).await } else { anonymous() },
        };
        let caller = Caller { presented: Mutex::new(presented), sessions: AtomicU64::new(0) };
        callers.push(Arc::new(caller));
        let (caller, stop, ca) = (callers[number].clone(), stop.clone(), lasting.clone());
        let daemon = cluster.daemons[number % REPLICAS].clone();
        running.spawn(async move {
            while !stop.load(Relaxed) {
                caller.session(number, &daemon, &ca).await;
            }
        });
    }
    let mut leavers = Vec::new();
    for round in 0..ROUNDS {
        until_all_called(&callers, &mut running).await;
        // Trust the next CA, move the callers of the old CA to it, and rotate the tokens.
        let next = Ca::new(&format!("CA {round}"));
        cluster.exchange(&bundle(&[&*lasting, &old, &next]), &leavers);
        cluster.until_admitted(&next.client("spiffe://example/callers/probe", 2), true).await;
        for (number, caller) in callers.iter().enumerate() {
            let Presented { mut identity, mut by } = caller.presented().clone();
            if number % 8 < 4 {
                let rotate = RotateTokenRequest { id: by.id.clone(), grace_seconds: 3600 };
                let rotated = cluster.access(number + round).await.rotate_token(cluster.admin.send(rotate)).await;
                by = holder(rotated.expect("rotated"));
            } else if number % 8 >= 6 {
                identity = Arc::new(next.client(&name(number), serial(number)));
            }
            *caller.presented() = Presented { identity, by };
        }
        until_all_called(&callers, &mut running).await;
        // Distrust the old CA, and revoke one certificate.
        let leaver = lasting.client(&name(CALLERS + round), serial(CALLERS + round));
        let held = cluster.open(&leaver, &anonymous()).await;
        leavers.push(leaver);
        cluster.exchange(&bundle(&[&*lasting, &next]), &leavers);
        cluster.until_admitted(&leavers[round], false).await;
        cluster.until_admitted(&old.client("spiffe://example/callers/former", 2), false).await;
        for open in held {
            let [_, stream, watch] = open.refusals().await;
            assert!(stream.is_err() && watch.is_err(), "a call is still open: {stream:?} {watch:?}");
        }
        old = next;
        // Revoke a token that has calls open on each replica. The stream and the unary call end with their next
        // request.
        let token = cluster.token(round).await;
        let held = cluster.open(&cluster.operator, &token).await;
        let revoke = RevokeTokenRequest { id: token.id.clone() };
        let revoked = cluster.access(round + 1).await.revoke_token(cluster.admin.send(revoke)).await;
        cluster.check_confirmed(&revoked.expect("revoked").into_inner().unconfirmed);
        for open in held {
            for refused in open.refusals().await {
                assert_eq!(refusal(refused), (Code::Unauthenticated, "CREDENTIAL_ENDED".to_owned()));
            }
        }
        // Revoke a permission of a certificate that has open calls, and change the role of the other callers.
        let guest = lasting.client("spiffe://example/guest", 400);
        let rights = ["allocate:uuidv7", "read:space:default"];
        cluster.role(round, "guests", &rights, &["spiffe://example/guest"]).await;
        let held = cluster.open(&guest, &anonymous()).await;
        let more = format!("allocate:serial:R{round}");
        cluster.role(round + 1, "callers", &[&*more, rights[0], rights[1]], &callers_are).await;
        let changed = cluster.role(round + 2, "guests", &["allocate:xid"], &["spiffe://example/guest"]).await;
        cluster.check_confirmed(&changed.unconfirmed);
        for open in held {
            let [unary, stream, watch] = open.refusals().await;
            assert_eq!(missing(unary), "allocate:uuidv7");
            for refused in [stream, watch] {
                assert_eq!(refusal(refused).0, Code::PermissionDenied);
            }
        }
    }
    until_all_called(&callers, &mut running).await;
    stop.store(true, Relaxed);
    while let Some(ended) = running.join_next().await {
        ended.expect("no call fails");
    }
}
