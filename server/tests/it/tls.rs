//! TLS on the ports: which clients are accepted, and the effects of replaced, revoked and expired certificates.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime},
};

use kent_client::{Client, Error};
use kent_proto::v1::{CreateRegionRequest, ListHistoryRequest, PutRoleRequest, Role, WatchTableRequest};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{
    harness::{Daemon, data_dir, kentd},
    operator::{kent_binary, run_in},
};

/// A certificate authority.
pub(super) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

/// A certificate and its key, as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
    serial: SerialNumber,
}

impl Identity {
    /// Wraps a certificate that was not signed by a test CA, such as a self-signed one.
    pub(super) fn new(certificate: String, key: String) -> Self {
        Self { certificate, key, serial: 0.into() }
    }
}

impl Ca {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Signs a certificate that is valid for this long.
    pub(super) fn sign(&self, name: SanType, serial: u64, valid: Duration) -> Identity {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        params.serial_number = Some(serial.into());
        params.not_before = (now() - Duration::from_secs(60)).into();
        params.not_after = (now() + valid).into();
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem(), serial: serial.into() }
    }

    pub(super) fn server(&self) -> Identity {
        self.sign(SanType::IpAddress([127, 0, 0, 1].into()), 1, DAY)
    }

    pub(super) fn client(&self, name: &str, serial: u64) -> Identity {
        self.sign(SanType::URI(name.try_into().expect("ASCII")), serial, DAY)
    }

    /// A list of revoked certificates.
    pub(super) fn revoke(&self, revoked: &[&Identity]) -> String {
        let revoked = revoked.iter().map(|identity| RevokedCertParams {
            serial_number: identity.serial.clone(),
            revocation_time: now().into(),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: (now() - Duration::from_secs(60)).into(),
            next_update: (now() + DAY).into(),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).expect("a list").pem().expect("PEM")
    }
}

pub(super) const DAY: Duration = Duration::from_secs(86_400);

#[expect(clippy::disallowed_methods, reason = "certificates have dates")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// The certificate files of a daemon. As in Kubernetes, all files are replaced in one step, by replacing a link to
/// their directory.
pub(super) struct Files {
    dir: tempfile::TempDir,
    version: u32,
}

impl Files {
    pub(super) fn new(server: &Identity, ca: Option<&Ca>, crl: Option<&str>) -> Self {
        let mut files = Self { dir: data_dir(), version: 0 };
        files.exchange(&server.certificate, &server.key, ca, crl);
        files
    }

    pub(super) fn exchange(&mut self, certificate: &str, key: &str, ca: Option<&Ca>, crl: Option<&str>) {
        self.version += 1;
        let version = self.dir.path().join(self.version.to_string());
        fs::create_dir(&version).expect("a directory");
        let ca = ca.map(|ca| &*ca.pem);
        for (name, text) in [("cert", Some(certificate)), ("key", Some(key)), ("ca", ca), ("crl", crl)] {
            if let Some(text) = text {
                fs::write(version.join(name), text).expect("written");
            }
        }
        let link = self.dir.path().join("new");
        std::os::unix::fs::symlink(&version, &link).expect("a link");
        fs::rename(&link, self.dir.path().join("current")).expect("replaced");
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("current").join(name)
    }

    pub(super) fn daemon(&self, data: &Path) -> Daemon {
        Daemon::spawn(&mut self.command(data))
    }

    pub(super) fn command(&self, data: &Path) -> Command {
        let mut command = kentd(data);
        for (name, setting) in
            [("cert", "--tls-cert"), ("key", "--tls-key"), ("ca", "--tls-client-ca"), ("crl", "--tls-crl")]
        {
            if self.path(name).exists() {
                command.arg(setting).arg(self.path(name));
            }
        }
        command
    }
}

pub(super) fn client(daemon: &Daemon, ca: &Ca, identity: Option<&Identity>) -> Client {
    let builder = Client::builder()
        .endpoint(format!("https://{}", daemon.grpc_address()))
        .ca(ca.pem.as_str())
        .request_timeout(Duration::from_secs(5));
    let builder = match identity {
        Some(Identity { certificate, key, .. }) => builder.identity(certificate.as_str(), key.as_str()),
        None => builder,
    };
    builder.build().expect("valid")
}

/// Returns whether this client can connect and get an identifier.
pub(super) async fn is_accepted(daemon: &Daemon, ca: &Ca, identity: Option<&Identity>) -> bool {
    match client(daemon, ca, identity).uuid_v7().next().await {
        Ok(_) => true,
        Err(Error::Unavailable { .. }) => false,
        Err(other) => panic!("expected no connection, got {other}"),
    }
}

/// Waits until a condition holds. Only the time limit of the test bounds the wait.
pub(super) async fn until(mut condition: impl AsyncFnMut() -> bool) {
    while !condition().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_only_callers_with_a_certificate_get_in_and_history_has_their_names() {
    let (data, ca, other) = (data_dir(), Ca::new("kent"), Ca::new("other"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let daemon = files.daemon(data.path());
    let orders = ca.client("spiffe://example/orders", 2);
    assert!(is_accepted(&daemon, &ca, Some(&orders)).await);
    assert!(!is_accepted(&daemon, &ca, None).await, "no certificate");
    assert!(
        !is_accepted(&daemon, &ca, Some(&other.client("spiffe://example/orders", 2))).await,
        "another CA's certificate"
    );
    assert!(
        !is_accepted(&daemon, &other, Some(&orders)).await,
        "a client that does not trust the daemon must not connect"
    );
    let expired = ca.sign(SanType::URI("spiffe://example/old".try_into().expect("ASCII")), 3, Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!is_accepted(&daemon, &ca, Some(&expired)).await, "an expired certificate");
    let plain = Client::builder().endpoint(daemon.grpc_address()).request_timeout(Duration::from_secs(2));
    assert!(plain.build().expect("valid").uuid_v7().next().await.is_err(), "no TLS");

    let admin = client(&daemon, &ca, Some(&orders)).connect().await.expect("connected");
    let mut create = tonic::Request::new(CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(10),
        ..Default::default()
    });
    create.metadata_mut().insert("kent-principal", "ann".parse().expect("ASCII"));
    admin.regions().create_region(create).await.expect("created");
    let list = ListHistoryRequest { parent: "spaces/default".to_owned(), ..Default::default() };
    let history = admin.regions().list_history(list).await.expect("listed").into_inner();
    assert_eq!(history.entries[0].principal, "spiffe://example/orders on behalf of ann from 127.0.0.1");
}

/// A connection under TLS.
pub(super) type Secured = StreamOwned<ClientConnection, TcpStream>;

/// Connects to a port under TLS, with this certificate. The handshake takes place when the connection is first used.
pub(super) fn secured(address: &str, ca: &Ca, identity: Option<&Identity>) -> Secured {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).expect("PEM")).expect("a CA");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match identity {
        Some(Identity { certificate, key, .. }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            config.with_client_auth_cert(chain, key).expect("a pair")
        }
        None => config.with_no_client_auth(),
    };
    let connection = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().expect("a name")).expect("set up");
    StreamOwned::new(connection, TcpStream::connect(address).expect("connected"))
}

/// Sends the head of a request to the HTTP port under TLS, with this certificate. Returns the answer.
pub(super) fn https(daemon: &Daemon, ca: &Ca, identity: Option<&Identity>, head: &str) -> String {
    let mut stream = secured(daemon.http_address(), ca, identity);
    write!(stream, "{head} HTTP/1.1\r\nHost: kent\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    // OK because a peer may close the connection without a TLS close_notify alert.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_on_the_http_port_only_calls_need_a_certificate() {
    let (data, ca, other) = (data_dir(), Ca::new("kent"), Ca::new("other"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let daemon = files.daemon(data.path());
    let [orders, stranger] = [&ca, &other].map(|ca| ca.client("spiffe://example/orders", 2));
    let live = https(&daemon, &ca, None, "GET /livez");
    assert!(live.starts_with("HTTP/1.1 200 ") && live.ends_with("ok\n"), "{live}");
    let page = https(&daemon, &ca, None, "GET /console/");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<title>"), "the page says what is missing: {page}");
    for path in [
        "POST /v1/alloc/uuidv7",
        "GET /v1/inspect/5ctRTUeUpXB",
        "POST /kent.v1.Regions/ListSpaces",
        "GET /",
        "GET /console/session",
        "POST /console/session",
    ] {
        let answer = https(&daemon, &ca, None, path);
        assert!(
            answer.starts_with("HTTP/1.1 401 ") && answer.contains("needs a client certificate"),
            "{path}: {answer}"
        );
        assert_eq!(https(&daemon, &ca, Some(&stranger), path), "", "{path}: the handshake fails");
    }
    let granted = https(&daemon, &ca, Some(&orders), "POST /v1/alloc/uuidv7");
    assert!(granted.starts_with("HTTP/1.1 200 "), "{granted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_certificate_with_a_role_may_see_reports() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let [ops, other] = ["ops", "other"].map(|name| ca.client(&format!("spiffe://example/{name}"), 2));
    let open = files.daemon(data.path());
    let role = Role {
        name: "ops".to_owned(),
        permissions: vec!["operate:*".to_owned()],
        certificates: vec!["spiffe://example/ops".to_owned()],
        limits: None,
    };
    let connected = client(&open, &ca, Some(&ops)).connect().await.expect("connected");
    connected.access().put_role(PutRoleRequest { role: Some(role), ..PutRoleRequest::default() }).await.expect("put");
    open.kill();
    let daemon = Daemon::spawn(files.command(data.path()).args(["--auth", "required", "--http-auth", "required"]));
    for (identity, code) in [(None, 401), (Some(&other), 403), (Some(&ops), 200)] {
        let answer = https(&daemon, &ca, identity, "GET /metrics");
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{code}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_certificates_are_exchanged_while_the_daemon_runs() {
    let (data, old, new) = (data_dir(), Ca::new("old"), Ca::new("new"));
    let mut files = Files::new(&old.server(), Some(&old), None);
    let daemon = files.daemon(data.path());
    let (early, late) = (old.client("spiffe://example/a", 2), new.client("spiffe://example/a", 2));
    assert!(is_accepted(&daemon, &old, Some(&early)).await && !is_accepted(&daemon, &new, Some(&late)).await);
    // A key that does not belong to the certificate changes nothing.
    let server = new.server();
    files.exchange(&server.certificate, &old.server().key, Some(&new), None);
    daemon.signal("HUP");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(is_accepted(&daemon, &old, Some(&early)).await);
    files.exchange(&server.certificate, &server.key, Some(&new), None);
    until(async || is_accepted(&daemon, &new, Some(&late)).await).await;
    assert!(!is_accepted(&daemon, &old, Some(&early)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_revoked_certificate_ends_its_connections_and_no_other() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let (server, revoked, valid) =
        (ca.server(), ca.client("spiffe://example/a", 2), ca.client("spiffe://example/b", 3));
    let mut files = Files::new(&server, Some(&ca), Some(&ca.revoke(&[])));
    let daemon = files.daemon(data.path());
    let mut watches = Vec::new();
    for identity in [&revoked, &valid] {
        let connected = client(&daemon, &ca, Some(identity)).connect().await.expect("connected");
        let request = WatchTableRequest { parent: "spaces/default".to_owned(), ..Default::default() };
        let mut watch = connected.regions().watch_table(request).await.expect("watching").into_inner();
        watch.message().await.expect("a snapshot");
        watches.push((connected, watch));
    }
    files.exchange(&server.certificate, &server.key, Some(&ca), Some(&ca.revoke(&[&revoked])));
    // The daemon ends the stream of the revoked caller.
    let (_, stream) = &mut watches[0];
    while let Ok(Some(_)) = stream.message().await {}
    assert!(!is_accepted(&daemon, &ca, Some(&revoked)).await);
    // The other connection stays open and gets the next change.
    let (connected, stream) = &mut watches[1];
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(10),
        ..Default::default()
    };
    connected.regions().create_region(create).await.expect("created");
    stream.message().await.expect("still there").expect("a change");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_an_expired_certificate_ends_its_connection() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let daemon = files.daemon(data.path());
    let brief = ca.sign(SanType::URI("spiffe://example/a".try_into().expect("ASCII")), 2, Duration::from_secs(4));
    let connected = client(&daemon, &ca, Some(&brief)).connect().await.expect("connected");
    let request = WatchTableRequest { parent: "spaces/default".to_owned(), ..Default::default() };
    let mut watch = connected.regions().watch_table(request).await.expect("watching").into_inner();
    while let Ok(Some(_)) = watch.message().await {}
    assert!(!is_accepted(&daemon, &ca, Some(&brief)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_silent_sockets_do_not_block_other_clients() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let daemon = files.daemon(data.path());
    let (address, caller) = (daemon.grpc_address().to_owned(), ca.client("spiffe://example/a", 2));
    let is_done = Arc::new(AtomicBool::new(false));
    let stop = is_done.clone();
    let (full, filled) = mpsc::channel();
    let crowd = thread::spawn(move || {
        let mut silent = Vec::new();
        while !stop.load(Relaxed) {
            silent.push(TcpStream::connect(&address).expect("connected"));
            if silent.len() == 1500 {
                full.send(()).expect("awaited"); // more than the limit on concurrent handshakes
            }
            if silent.len() >= 1500 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        silent.len()
    });
    filled.recv().expect("1,500 sockets are open");
    let is_accepted = is_accepted(&daemon, &ca, Some(&caller)).await;
    is_done.store(true, Relaxed);
    let silent = crowd.join().expect("no error");
    assert!(is_accepted, "locked out by {silent} silent sockets");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_the_command_line_uses_certificates() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let daemon = files.daemon(data.path());
    let own = Files::new(&ca.client("spiffe://example/ann", 2), None, None);
    let foreign = Files::new(&Ca::new("other").client("spiffe://example/ann", 2), None, None);
    let plain_data = data_dir();
    let plain = Daemon::start(plain_data.path());
    let kent = |options: &[&Path], endpoint: &str| {
        let mut command = Command::new(kent_binary());
        command.args(["alloc", "uuidv7", "--request-timeout", "2s", "--endpoint", endpoint]);
        for (option, path) in ["--ca", "--cert", "--key"].iter().zip(options) {
            command.arg(option).arg(path);
        }
        let output = command.output().expect("kent runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (address, paths) = (daemon.grpc_address(), [files.path("ca"), own.path("cert"), own.path("key")]);
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let [ca, cert, key] = [0, 1, 2].map(|at| paths[at].display());
    let words = format!("doctor --json --endpoint https://{address} --ca {ca} --cert {cert} --key {key}");
    let checks = run_in(&[], &words).1;
    // The test's certificates are valid for a day.
    let expected = format!("{} (tls-cert) expires in ", files.path("cert").display());
    assert!(checks.contains(&expected) && checks.contains("TLS connections fail from then on"), "{checks}");
    assert_eq!(kent(&paths, address), (true, String::new()));
    assert_eq!(kent(&paths, &format!("https://{address}")), (true, String::new()));
    let foreign = [files.path("ca"), foreign.path("cert"), foreign.path("key")];
    let foreign: Vec<&Path> = foreign.iter().map(PathBuf::as_path).collect();
    let plain_answer = format!("use http://{}, without --ca", plain.grpc_address());
    for (options, endpoint, expected) in [
        (&paths[..], format!("https://{}", plain.grpc_address()), &*plain_answer),
        (&paths[..], daemon.http_address().to_owned(), "is an HTTP port: use the gRPC port"),
        (&foreign[..], address.to_owned(), "signed by a CA of `kentd --tls-client-ca`"),
        (&paths[..1], address.to_owned(), "--cert and --key"),
        (&paths[..2], address.to_owned(), "--cert and --key must be given together"),
        (&[], address.to_owned(), "write https:// before the endpoint and name the daemon's CA"),
        (&[], format!("https://{address}"), "--ca FILE must name the CA"),
        (
            &paths[..1],
            format!("https://{}", address.replace("127.0.0.1", "localhost")),
            "for 127.0.0.1, not for localhost",
        ),
        (&paths[..1], format!("http://{address}"), "use https:// for all endpoints"),
        (&paths[1..2], address.to_owned(), "the certificate is not signed by a trusted CA"),
    ] {
        let (is_ok, error) = kent(options, &endpoint);
        assert!(!is_ok && error.contains(expected), "{endpoint} {options:?}: {error}");
        assert!(!error.contains("waiting for"), "the command retries an error that no retry can fix: {error}");
    }
}

#[test]
fn err_certificates_that_cannot_be_used() {
    let (data, ca, other) = (data_dir(), Ca::new("kent"), Ca::new("other"));
    let (server, stranger) = (ca.server(), other.server());
    let check = |files: &Files, expected: &str| {
        let output = files.command(data.path()).arg("--check-config").output().expect("kentd runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(64) && error.contains(expected), "{error}");
    };
    let pair = Identity { key: stranger.key, ..ca.server() };
    check(&Files::new(&pair, None, None), "(tls-key): the key does not match the certificate");
    let no_key = Identity { key: "nothing".to_owned(), ..ca.server() };
    check(&Files::new(&no_key, None, None), "tls-key needs a PEM file with a private key");
    let no_ca = Ca { pem: "nothing".to_owned(), ..Ca::new("kent") };
    check(&Files::new(&server, Some(&no_ca), None), "tls-client-ca needs a PEM file with the certificates of CAs");
    let caller = Ca { pem: ca.client("spiffe://kent/c", 2).certificate, ..Ca::new("kent") };
    check(&Files::new(&server, Some(&caller), None), "which is not a CA; give the certificate of the CA");
    check(&Files::new(&server, Some(&ca), Some("nothing")), "tls-crl needs a PEM file");
    check(&Files::new(&server, None, Some(&ca.revoke(&[]))), "tls-crl needs tls-client-ca");
    let swapped = Identity { certificate: server.key.clone(), key: server.certificate.clone(), ..ca.server() };
    check(&Files::new(&swapped, None, None), "holds a private key, not a certificate");
    let same = Identity { key: server.certificate.clone(), ..ca.server() };
    check(&Files::new(&same, None, None), "holds a certificate, not a private key");
    let encrypted = server.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    check(&Files::new(&Identity { key: encrypted, ..ca.server() }, None, None), "`openssl pkey -in ");
    let key_as_ca = Ca { pem: server.key.clone(), ..Ca::new("kent") };
    check(&Files::new(&server, Some(&key_as_ca), None), "holds a private key, not a certificate");
    check(&Files::new(&server, Some(&ca), Some(&ca.pem)), "holds a certificate, not a list of revoked certificates");
    check(&Files::new(&server, Some(&ca), Some(OLD_LIST)), "(tls-crl) has version 1, but version 2 is needed");
    let chain = Identity { certificate: format!("{}{}", ca.pem, server.certificate), ..server };
    check(&Files::new(&chain, None, None), "(tls-key) matches certificate 2 of ");
}

/// What `openssl ca -gencrl` writes without -crlexts: a list of version 1.
const OLD_LIST: &str = "\
-----BEGIN X509 CRL-----
MIGSMDswCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEa2VudBcNMjYxMTI2MDYwODI2
WhcNMjYxMjA1MDYwODI2WjAKBggqhkjOPQQDAgNHADBEAiB48fXKG6JQVMrgIyps
NWT7u+Fzuz7s3/9bXcoVVMj77gIgUYAJBzroHy1opZov45OR9hNbo+O/5S8kNS6z
9plVmDw=
-----END X509 CRL-----
";

#[test]
fn ok_the_check_of_the_settings_warns_of_a_revocation_list_of_another_ca() {
    let (data, ca, other) = (data_dir(), Ca::new("kent"), Ca::new("other"));
    for (list, issuer) in [(ca.revoke(&[]), None), (other.revoke(&[]), Some("CN=other"))] {
        let files = Files::new(&ca.server(), Some(&ca), Some(&list));
        let output = files.command(data.path()).arg("--check-config").output().expect("kentd runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let warning = said.split("a list of revoked certificates (tls-crl) was issued by ").nth(1);
        assert!(output.status.success() && warning.is_some() == issuer.is_some(), "{said}");
        assert!(warning.unwrap_or_default().contains(issuer.unwrap_or_default()), "{said}");
    }
}

#[test]
fn ok_the_check_of_the_settings_warns_of_an_expired_file() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let expired = ca.sign(SanType::IpAddress([127, 0, 0, 1].into()), 1, Duration::ZERO);
    for (server, is_expired) in [(ca.server(), false), (expired, true)] {
        let files = Files::new(&server, Some(&ca), None);
        let output = files.command(data.path()).arg("--check-config").output().expect("kentd runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let warning = format!("warning: the file {} of tls-cert has expired", files.path("cert").display());
        assert!(output.status.success() && said.contains(&warning) == is_expired, "{said}");
    }
}

#[test]
fn err_files_for_etcd_that_hold_something_else() {
    let (dir, ca) = (data_dir(), Ca::new("kent"));
    let own = ca.client("spiffe://kent/d", 1);
    let encrypted = own.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let path = |name: &str| dir.path().join(name);
    for (name, text) in [("ca", &ca.pem), ("cert", &own.certificate), ("key", &own.key), ("encrypted", &encrypted)] {
        fs::write(path(name), text).expect("written");
    }
    for ([ca, cert, key], expected) in [
        (["key", "cert", "key"], "store-ca needs a PEM file with the certificates of CAs: "),
        (["ca", "key", "cert"], "store-cert needs a PEM file with a certificate: "),
        (["ca", "cert", "cert"], "store-key needs a PEM file with a private key: "),
        (["ca", "cert", "encrypted"], "`openssl pkey -in "),
        (["absent", "cert", "key"], "of store-ca cannot be read: No such file"),
    ] {
        let mut command = kentd(dir.path());
        command.args(["--store", "etcds://127.0.0.1:1/kent", "--check-config"]);
        for (option, name) in [("--store-ca", ca), ("--store-cert", cert), ("--store-key", key)] {
            command.arg(option).arg(path(name));
        }
        let output = command.output().expect("kentd runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(64) && error.contains(expected), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn err_failed_handshakes_are_in_the_audit_log() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let audit = data.path().join("audit.jsonl");
    let daemon = Daemon::spawn(files.command(&data.path().join("store")).arg("--audit").arg(&audit));
    for _ in 0..20 {
        let mut plain = TcpStream::connect(daemon.grpc_address()).expect("accepted");
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        // The read ends when the daemon gives up.
        let _ = plain.read_to_end(&mut Vec::new());
    }
    daemon.signal("TERM");
    assert!(daemon.wait().await.success());
    let lines = fs::read_to_string(&audit).expect("there");
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object"));
    let denied: Vec<_> = lines.filter(|line| line["outcome"] == "denied").collect();
    let counts: Vec<_> = denied.iter().map(|line| line["count"].as_u64()).collect();
    assert_eq!(counts, [None, Some(19)], "{denied:?}");
    assert!(denied.iter().all(|line| line["action"] == "connect" && line["reason"] == "TLS_HANDSHAKE"), "{denied:?}");
}
