//! Certificates that are replaced while programs run: those of clients, of the command line, of the daemon as a client
//! of etcd, and of a daemon under load.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_client::{Client, proto::AllocateRequest};
use kent_proto::v1::{CreateRegionRequest, WatchTableRequest};
use kent_store::{EtcdOptions, EtcdStore, SCHEMA};
use kent_test_etcd::{Etcd, Proxy};
use kent_tls::{Certificates, Pem, Pems};
use rcgen::SanType;
use tokio::task::JoinSet;

use super::{
    harness::{Daemon, data_dir, kentd},
    operator::kent_binary,
    tls::{Ca, Files, Identity, client, is_accepted, until},
};

/// The lifetime of a certificate that expires during the test.
const BRIEF: Duration = Duration::from_secs(8);

fn brief(ca: &Ca, name: &str, serial: u64) -> Identity {
    ca.sign(SanType::URI(name.try_into().expect("ASCII")), serial, BRIEF)
}

/// A client that reads its certificates from these files.
fn reading(daemon: &Daemon, ca: &Path, own: &Files) -> Client {
    let endpoint = format!("https://{}", daemon.grpc_address());
    let builder = Client::builder().endpoint(endpoint).ca_file(ca).identity_files(own.path("cert"), own.path("key"));
    builder.request_timeout(Duration::from_secs(20)).build().expect("valid")
}

fn region(name: &str) -> CreateRegionRequest {
    let (parent, region_id) = ("spaces/default".to_owned(), name.to_owned());
    CreateRegionRequest { parent, region_id, suffix_bits: Some(20), ..Default::default() }
}

fn one() -> AllocateRequest {
    AllocateRequest { source: "uuidv7".to_owned(), count: 1, ..AllocateRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_client_outlives_its_certificate() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let daemon = files.daemon(data.path());
    let first = brief(&ca, "spiffe://example/a", 2);
    let mut own = Files::new(&first, None, None);
    let client = reading(&daemon, &files.path("ca"), &own);
    let held = client.connect().await.expect("connected");
    let watch = WatchTableRequest { parent: "spaces/default".to_owned(), ..Default::default() };
    let mut watch = held.regions().watch_table(watch).await.expect("watching").into_inner();
    // First replace only the certificate, which has no effect, and then both files.
    let second = ca.client("spiffe://example/a", 3);
    own.exchange(&second.certificate, &first.key, None, None);
    assert!(client.connect().await.is_ok(), "the previous pair must still be accepted");
    own.exchange(&second.certificate, &second.key, None, None);
    // The daemon ends the first connection when its certificate expires.
    while let Ok(Some(_)) = watch.message().await {}
    assert!(!is_accepted(&daemon, &ca, Some(&first)).await);
    client.uuid_v7().next().await.expect("a new connection");
    held.allocator().allocate(one()).await.expect("a stub reconnects, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_command_outlives_its_certificate() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let daemon = files.daemon(data.path());
    let admin = client(&daemon, &ca, Some(&ca.client("spiffe://example/admin", 2))).connect().await.expect("connected");
    let first = brief(&ca, "spiffe://example/ann", 3);
    let mut own = Files::new(&first, None, None);
    let mut watch = Command::new(kent_binary());
    watch.args(["watch", "--endpoint", daemon.grpc_address(), "--ca"]).arg(files.path("ca"));
    watch.arg("--cert").arg(own.path("cert")).arg("--key").arg(own.path("key"));
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kent runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("changes follow")));
    let second = ca.client("spiffe://example/ann", 4);
    own.exchange(&second.certificate, &second.key, None, None);
    until(async || !is_accepted(&daemon, &ca, Some(&first)).await).await;
    admin.regions().create_region(region("after")).await.expect("created");
    assert!(lines.any(|line| line.contains("+ after")), "the watch has ended");
    watch.kill().expect("killed");
    watch.wait().expect("ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_the_certificate_for_etcd_is_replaced_while_the_daemon_runs() {
    let (dir, ca) = (data_dir(), Ca::new("etcd"));
    let server = Files::new(&ca.server(), Some(&ca), None);
    let file = |name| server.path(name).display().to_string();
    let (cert, key, roots) = (file("cert"), file("key"), file("ca"));
    let arguments = ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &roots, "--client-cert-auth"];
    let etcd = Etcd::start_with(1, &arguments);
    let proxy = Proxy::to(etcd.clients()[0]);
    let address = format!("etcds://{}/kent", proxy.address());
    let first = brief(&ca, "spiffe://example/kentd", 2);
    let mut own = Files::new(&first, None, None);
    let log = dir.path().join("log");
    let mut command = kentd(&dir.path().join("data"));
    command.args(["--store", &address, "--store-ca", &roots]).stderr(File::create(&log).expect("created"));
    command.arg("--store-cert").arg(own.path("cert")).arg("--store-key").arg(own.path("key"));
    let daemon = Daemon::spawn(&mut command);
    daemon.regions().create_region(region("r")).await.expect("created");
    // The chunks are so small that the daemon commits constantly.
    let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (ids, is_done, failures) = (daemon.allocator(), stop.clone(), failed.clone());
    let mut load = JoinSet::new();
    load.spawn(async move {
        let mut ids = ids;
        while !is_done.load(Relaxed) {
            let source = "region:r".to_owned();
            let request = AllocateRequest { source, count: 50, ..AllocateRequest::default() };
            failures.fetch_add(u64::from(ids.allocate(request).await.is_err()), Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let second = ca.client("spiffe://example/kentd", 3);
    own.exchange(&second.certificate, &first.key, None, None);
    let says = async |text: &str| fs::read_to_string(&log).expect("a log").contains(text);
    until(async || says("cannot be used").await).await;
    own.exchange(&second.certificate, &second.key, None, None);
    let outcome = async |identity: &Identity| {
        let text = |text: &String| Pem::Text(text.clone().into_bytes());
        let pems = Pems { ca: Some(text(&ca.pem)), identity: Some((text(&identity.certificate), text(&identity.key))) };
        let tls = Some(Certificates::open(pems).expect("valid"));
        let address = address.parse().expect("an address");
        EtcdStore::open(EtcdOptions { address, tls, credentials: None, new_id: [1; 16], schema: SCHEMA }).await.is_ok()
    };
    until(async || !outcome(&first).await).await;
    assert!(outcome(&second).await, "the second certificate must still be valid");
    daemon.regions().create_region(region("meanwhile")).await.expect("the old connection continues");
    proxy.cut();
    tokio::time::sleep(Duration::from_millis(200)).await;
    daemon.regions().create_region(region("after")).await.expect("a new connection");
    stop.store(true, Relaxed);
    load.join_next().await.expect("one").expect("no panic");
    assert_eq!(failed.load(Relaxed), 0, "calls failed: {}", fs::read_to_string(&log).expect("a log"));
}

/// Several CAs in one file, as used while callers move from one CA to another.
pub(super) fn bundle(cas: &[&Ca]) -> Ca {
    let mut bundle = Ca::new("bundle");
    bundle.pem = cas.iter().map(|ca| &*ca.pem).collect();
    bundle
}

/// Whether one call on a new connection succeeds.
async fn is_admitted(daemon: &Daemon, ca: &Ca, identity: &Identity) -> bool {
    match client(daemon, ca, Some(identity)).connect().await {
        Ok(connected) => connected.allocator().allocate(one()).await.is_ok(),
        Err(_) => false,
    }
}

/// Sixteen callers: half have certificates that stay valid, and make calls without retries; the CA of the others is
/// replaced.
#[tokio::test(flavor = "multi_thread")]
async fn ok_no_call_of_a_valid_client_fails_while_certificates_change_under_load() {
    const ROUNDS: u64 = 8;
    let (data, lasting) = (data_dir(), Arc::new(Ca::new("lasting")));
    let mut old = Ca::new("old");
    let mut files = Files::new(&lasting.server(), Some(&bundle(&[&*lasting, &old])), Some(&lasting.revoke(&[])));
    let daemon = Arc::new(files.daemon(data.path()));
    let root = data.path().join("lasting.pem");
    fs::write(&root, &lasting.pem).expect("written");
    let (stop, calls, mut callers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), JoinSet::new());
    for number in 0..8 {
        let identity = lasting.client("spiffe://example/lasting", 100 + number);
        let (daemon, ca) = (daemon.clone(), lasting.clone());
        let (stop, calls) = (stop.clone(), calls.clone());
        callers.spawn(async move {
            while !stop.load(Relaxed) {
                let connected = client(&daemon, &ca, Some(&identity)).connect().await.expect("a handshake succeeds");
                for _ in 0..20 {
                    connected.allocator().allocate(one()).await.expect("a call succeeds");
                    calls.fetch_add(1, Relaxed);
                }
            }
        });
    }
    let mut movers = Vec::new();
    for number in 0..8 {
        let own = Files::new(&old.client("spiffe://example/mover", 200 + number), None, None);
        let mover = reading(&daemon, &root, &own);
        movers.push(own);
        let (stop, calls) = (stop.clone(), calls.clone());
        callers.spawn(async move {
            while !stop.load(Relaxed) {
                let call = mover.retry(async |daemon| daemon.allocator().allocate(one()).await);
                call.await.expect("a call succeeds");
                calls.fetch_add(1, Relaxed);
            }
        });
    }
    let mut revoked = Vec::new();
    for round in 0..ROUNDS {
        let before = calls.load(Relaxed);
        // Trust the next CA, move the callers of the old CA to it, and distrust the old CA.
        let next = Ca::new(&format!("CA {round}"));
        let server = lasting.server();
        let list = |revoked: &[Identity]| lasting.revoke(&revoked.iter().collect::<Vec<_>>());
        let three = bundle(&[&*lasting, &old, &next]);
        files.exchange(&server.certificate, &server.key, Some(&three), Some(&list(&revoked)));
        daemon.signal("HUP");
        let probe = next.client("spiffe://example/probe", 2);
        until(async || is_admitted(&daemon, &lasting, &probe).await).await;
        for (number, own) in (0..).zip(&mut movers) {
            let identity = next.client("spiffe://example/mover", 200 + number);
            own.exchange(&identity.certificate, &identity.key, None, None);
        }
        revoked.push(lasting.client("spiffe://example/leaver", 300 + round));
        let server = lasting.server();
        let two = bundle(&[&*lasting, &next]);
        files.exchange(&server.certificate, &server.key, Some(&two), Some(&list(&revoked)));
        daemon.signal("HUP");
        let (leaver, former) = (revoked.last().expect("one"), old.client("spiffe://example/former", 2));
        until(async || !is_admitted(&daemon, &lasting, leaver).await).await;
        assert!(!is_admitted(&daemon, &lasting, &former).await, "its CA is gone");
        old = next;
        until(async || calls.load(Relaxed) > before + 100).await;
    }
    stop.store(true, Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.expect("no call fails");
    }
}
