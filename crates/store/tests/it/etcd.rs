//! Tests of the etcd backend on real clusters: members that die, hang and restart, users, TLS, and compaction.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kent_store::{
    Change, CommitError, EtcdAddress, EtcdCredentials, EtcdOptions, EtcdPassword, EtcdStore, Key, ReadError, SCHEMA,
    Store, Txn, VALUE_BYTES_MAX, Version, Watch,
};
use kent_test_etcd::Etcd;
use kent_tls::{Certificates, Pem, Pems};
use tokio::time::timeout;

pub(crate) const A: Key = Key::from_static("a");
pub(crate) const PREFIX: Key = Key::from_static("p/");

pub(crate) fn options(address: &str) -> EtcdOptions {
    let address: EtcdAddress = address.parse().expect("an address");
    EtcdOptions { address, tls: None, credentials: None, new_id: [7; 16], schema: SCHEMA }
}

pub(crate) async fn open(address: &str) -> EtcdStore {
    EtcdStore::open(options(address)).await.expect("etcd is there")
}

pub(crate) fn key(number: u32) -> Key {
    Key::new(format!("p/{number:06}")).expect("a key")
}

/// Puts a value. Retries, because connections to a restarted member are broken.
pub(crate) async fn put(store: &EtcdStore, key: Key, value: impl Into<Vec<u8>>) -> Version {
    let txn = Txn::new().put(key, value);
    for _ in 0..20 {
        match store.commit(txn.clone()).await {
            Ok(committed) => return committed.version,
            Err(CommitError::Unavailable(_) | CommitError::Unknown(_)) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("etcd does not recover");
}

/// Returns the next change, with a timeout.
pub(crate) async fn next(watch: &mut Box<dyn Watch>) -> Change {
    timeout(Duration::from_secs(20), watch.next()).await.expect("a change comes")
}

#[tokio::test]
async fn ok_the_first_process_sets_the_identity() {
    let etcd = Etcd::start(1);
    let first = open(&etcd.address("kent")).await;
    let second = EtcdStore::open(EtcdOptions { new_id: [8; 16], ..options(&etcd.address("kent")) }).await;
    assert_eq!(first.store_id(), second.expect("etcd is there").store_id());
    let other = EtcdStore::open(EtcdOptions { new_id: [8; 16], ..options(&etcd.address("other")) }).await;
    assert_ne!(first.store_id(), other.expect("etcd is there").store_id());
}

#[tokio::test]
async fn ok_prefixes_are_independent_stores() {
    let etcd = Etcd::start(1);
    let (one, two) = (open(&etcd.address("kent")).await, open(&etcd.address("kent/datum")).await);
    put(&one, A, b"1").await;
    assert_eq!(two.get(&A).await.expect("read"), None);
    put(&two, A, b"2").await;
    assert_eq!(one.scan(&Key::ROOT).await.expect("read").len(), 1);
}

#[tokio::test]
async fn ok_a_scan_of_many_pages_shows_one_moment() {
    let etcd = Etcd::start(1);
    let store = Arc::new(open(&etcd.address("kent")).await);
    for page in 0..10 {
        let txn = (0..100).fold(Txn::new(), |txn, at| txn.put(key(page * 100 + at), vec![0; 100]));
        store.commit(txn).await.expect("committed");
    }
    let writer = store.clone();
    let writing = tokio::runtime::Handle::current().spawn(async move {
        for round in 1..200_u8 {
            // The first and the last page change in one commit.
            let txn = Txn::new().put(key(0), [round]).put(key(999), [round]);
            writer.commit(txn).await.expect("committed");
        }
    });
    while !writing.is_finished() {
        let found = store.scan(&PREFIX).await.expect("read");
        assert_eq!(found.len(), 1000);
        assert_eq!(found[0].1.version == found[1].1.version, found[999].1.version == found[998].1.version);
        if found[0].1.version != found[1].1.version {
            assert_eq!(found[0].1, found[999].1);
        }
    }
    writing.await.expect("written");
    let large = (0..60).fold(Txn::new(), |txn, at| txn.put(key(at), vec![1; VALUE_BYTES_MAX]));
    store.commit(large).await.expect("within etcd's limits");
    assert_eq!(store.scan(&PREFIX).await.expect("read").len(), 1000);
}

#[tokio::test]
async fn ok_members_die_hang_and_restart() {
    let mut etcd = Etcd::start(3);
    let store = open(&etcd.address("kent")).await;
    let mut version = put(&store, A, b"0").await;
    for round in 0..6_u8 {
        let member = usize::from(round % 3);
        if round < 3 {
            etcd.kill(member);
        } else {
            etcd.pause(member);
        }
        // A commit in progress can be lost. In this case, read its key, and repeat the commit if needed.
        let mut tries = 0;
        loop {
            tries += 1;
            assert!(tries < 100, "a majority of two members must be enough");
            match store.commit(Txn::new().expect(A, version).put(A, [round])).await {
                Ok(made) => version = made.version,
                Err(CommitError::Conflict { .. } | CommitError::Unavailable(_) | CommitError::Unknown(_)) => {
                    match store.get(&A).await {
                        Ok(Some(found)) if found.value == [round] => version = found.version,
                        _ => {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                            continue;
                        }
                    }
                }
                Err(error) => panic!("{error}"),
            }
            break;
        }
        assert_eq!(store.get(&A).await.expect("read").expect("there").value, [round]);
        if round < 3 {
            etcd.restart(member);
        } else {
            etcd.resume(member);
        }
        etcd.wait();
    }
    assert!(store.stats().reopens > 0, "the store switched to another endpoint");
}

#[tokio::test]
async fn err_without_a_majority() {
    let mut etcd = Etcd::start(3);
    let store = open(&etcd.address("kent")).await;
    put(&store, A, b"1").await;
    etcd.kill(0);
    etcd.kill(1);
    assert!(matches!(store.get(&A).await, Err(ReadError::Unavailable(_))));
    let answer = store.commit(Txn::new().put(A, b"2")).await;
    assert!(matches!(answer, Err(CommitError::Unknown(_) | CommitError::Unavailable(_))), "{answer:?}");
    etcd.kill(2);
    // The first commit may still be sent on the old connection.
    let answer = store.commit(Txn::new().put(A, b"2")).await;
    assert!(matches!(answer, Err(CommitError::Unknown(_) | CommitError::Unavailable(_))), "{answer:?}");
    // Without a connection, it is certain that nothing changed.
    let answer = store.commit(Txn::new().put(A, b"2")).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
}

#[tokio::test]
async fn ok_a_watch_resumes_and_reports_missed_changes() {
    let mut etcd = Etcd::start(1);
    let store = open(&etcd.address("kent")).await;
    let mut watch = store.peers().expect("etcd has peers").watch(&PREFIX).await.expect("begun");
    put(&store, A, b"not of the prefix").await;
    let version = put(&store, key(1), b"one").await;
    match next(&mut watch).await {
        Change::Put(found, versioned) => assert_eq!((found, versioned.version), (key(1), version)),
        change => panic!("{change:?}"),
    }
    store.commit(Txn::new().delete(key(1))).await.expect("committed");
    assert!(matches!(next(&mut watch).await, Change::Deleted(found, _) if found == key(1)));
    // The watch breaks off and resumes.
    etcd.kill(0);
    etcd.restart(0);
    etcd.wait();
    put(&store, key(2), b"two").await;
    assert!(matches!(next(&mut watch).await, Change::Put(found, _) if found == key(2)));
    // Changes are compacted while the watch is interrupted. The watch reports that it missed some of them, and then
    // reports later changes.
    etcd.kill(0);
    etcd.restart(0);
    etcd.wait();
    for number in 3..6 {
        put(&store, key(number), b"more").await;
    }
    let newest = put(&store, key(6), b"last").await;
    compact(&etcd, newest);
    let mut changes = Vec::new();
    loop {
        let change = next(&mut watch).await;
        let is_last = matches!(&change, Change::Put(found, _) if *found == key(6));
        changes.push(change);
        if is_last {
            break;
        }
    }
    // The watch may have seen all changes before the compaction.
    let is_whole = changes.len() == 4;
    assert!(is_whole || matches!(changes[0], Change::Missed), "{changes:?}");
}

#[tokio::test]
async fn ok_a_compacted_revision_is_missed() {
    let etcd = Etcd::start(1);
    let store = open(&etcd.address("kent")).await;
    // Nothing reads the watch while the changes are compacted.
    let wire = etcd.clients()[0];
    let mut watch = store.peers().expect("etcd has peers").watch(&PREFIX).await.expect("begun");
    etcd.pause(0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    etcd.resume(0);
    let newest = put(&store, key(1), wire.to_string()).await;
    compact(&etcd, newest);
    loop {
        match next(&mut watch).await {
            Change::Put(found, _) if found == key(1) => break,
            Change::Missed => {}
            change => panic!("{change:?}"),
        }
    }
}

#[tokio::test]
async fn ok_an_announcement_lasts_as_long_as_its_process() {
    const ME: Key = Key::from_static("p/me");
    let etcd = Etcd::start(1);
    let (store, other) = (open(&etcd.address("kent")).await, open(&etcd.address("kent")).await);
    let peers = store.peers().expect("etcd has peers");
    let ttl = Duration::from_secs(2);
    peers.announce(&ME, b"here".to_vec(), ttl).await.expect("announced");
    peers.announce(&ME, b"still here".to_vec(), ttl).await.expect("announced");
    assert_eq!(other.get(&ME).await.expect("read").expect("there").value, b"still here");
    peers.withdraw().await;
    assert_eq!(other.get(&ME).await.expect("read"), None);
    peers.announce(&ME, b"again".to_vec(), ttl).await.expect("announced");
    let mut watch = other.peers().expect("etcd has peers").watch(&PREFIX).await.expect("begun");
    // Regular announcements keep the key alive.
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        peers.announce(&ME, b"again".to_vec(), ttl).await.expect("announced");
    }
    assert!(other.get(&ME).await.expect("read").is_some());
    // Without announcements, the key expires.
    assert!(matches!(next(&mut watch).await, Change::Deleted(found, _) if found == ME));
}

#[tokio::test]
async fn ok_users_and_passwords() {
    let etcd = Etcd::start(1);
    let client = etcd.clients()[0].to_string();
    let ctl = |words: &str| etcdctl(&client, words);
    for words in ["user add root:secret", "user add kent:pass word", "role add kent"] {
        ctl(words);
    }
    ctl("role grant-permission kent --prefix=true readwrite kent/");
    ctl("user grant-role kent kent");
    ctl("user grant-role root root");
    ctl("auth enable");
    let with = |user: &str, password: &str| EtcdOptions {
        credentials: Some(EtcdCredentials { user: user.to_owned(), password: EtcdPassword::Text(password.to_owned()) }),
        ..options(&etcd.address("kent"))
    };
    let store = EtcdStore::open(with("kent", "pass word")).await.expect("access is granted");
    put(&store, A, b"1").await;
    for (refused, why) in [
        (with("kent", "wrong"), "password"),
        (with("nobody", "x"), "authentication failed"),
        (options(&etcd.address("kent")), "user name is empty"),
    ] {
        let error = EtcdStore::open(refused).await.expect_err("access is denied");
        assert!(error.to_string().contains(why), "{error}");
    }
    let elsewhere = EtcdOptions { address: etcd.address("other").parse().expect("one"), ..with("kent", "pass word") };
    let error = EtcdStore::open(elsewhere).await.expect_err("another prefix");
    assert!(error.to_string().contains("permission denied"), "{error}");
    // After a change of users, etcd rejects old tokens and the store gets new ones.
    ctl_as(&client, "root:secret", "user add another:password");
    put(&store, A, b"2").await;
    assert_eq!(store.get(&A).await.expect("read").expect("there").value, b"2");
}

#[tokio::test]
async fn ok_a_password_that_changes_is_read_again() {
    let (etcd, dir) = (Etcd::start(1), tempfile::tempdir().expect("a directory"));
    let client = etcd.clients()[0].to_string();
    for words in ["user add root:secret", "user grant-role root root", "auth enable"] {
        etcdctl(&client, words);
    }
    let file = dir.path().join("password");
    std::fs::write(&file, "secret\n").expect("written");
    let credentials = EtcdCredentials { user: "root".to_owned(), password: EtcdPassword::File(file.clone()) };
    let open = EtcdOptions { credentials: Some(credentials), ..options(&etcd.address("kent")) };
    let store = EtcdStore::open(open).await.expect("access is granted");
    put(&store, A, b"1").await;
    for (number, (old, new)) in [("secret", "second"), ("second", "third")].into_iter().enumerate() {
        let added = format!("user add {new}:x");
        // Change the file before the password in etcd: the store's token stays valid until the password changes.
        std::fs::write(&file, format!("{new}\n")).expect("written");
        put(&store, A, b"still").await;
        passwd(&client, &format!("root:{old}"), new);
        ctl_as(&client, &format!("root:{new}"), &added);
        let value = [u8::try_from(number).expect("small")];
        put(&store, A, &value).await;
        assert_eq!(store.get(&A).await.expect("read").expect("there").value, value);
    }
    // Without the file, the last password stays in use.
    std::fs::remove_file(&file).expect("removed");
    ctl_as(&client, "root:third", "user add fourth:x");
    put(&store, A, b"last").await;
}

#[tokio::test]
async fn ok_tls_with_certificates_on_both_sides() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().expect("a key");
    let ca_pem = ca.self_signed(&ca_key).expect("signed").pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let signed = || {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = rcgen::CertificateParams::new(names).expect("parameters");
        let key = rcgen::KeyPair::generate().expect("a key");
        (params.signed_by(&key, &issuer).expect("signed").pem(), key.serialize_pem())
    };
    let ((server, server_key), (client, client_key)) = (signed(), signed());
    for (name, pem) in [("ca.pem", &ca_pem), ("server.pem", &server), ("server.key", &server_key)] {
        std::fs::write(dir.path().join(name), pem).expect("written");
    }
    let (ca_file, cert, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
    let files = ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca_file, "--client-cert-auth"];
    let etcd = Etcd::start_with(1, &files);
    let address = etcd.address("kent").replace("etcd://", "etcds://");
    let text = |text: String| Pem::Text(text.into_bytes());
    let pems = |ca: &str, identity: Option<(String, String)>| Pems {
        ca: Some(text(ca.to_owned())),
        identity: identity.map(|(certificate, key)| (text(certificate), text(key))),
    };
    let with = |ca: &str, identity: Option<(String, String)>| EtcdOptions {
        tls: Some(Certificates::open(pems(ca, identity)).expect("valid")),
        ..options(&address)
    };
    let identity = Some((client, client_key));
    let store = EtcdStore::open(with(&ca_pem, identity.clone())).await.expect("access is granted");
    put(&store, A, b"1").await;
    assert!(EtcdStore::open(with(&ca_pem, None)).await.is_err(), "without a certificate");
    assert!(EtcdStore::open(with(&server, identity)).await.is_err(), "the certificate of etcd is not trusted");
}

fn compact(etcd: &Etcd, version: Version) {
    etcdctl(&etcd.clients()[0].to_string(), &format!("compact {version}"));
}

pub(crate) fn etcdctl(endpoint: &str, words: &str) {
    run(Command::new("etcdctl").args(["--endpoints", endpoint]), words);
}

fn ctl_as(endpoint: &str, user: &str, words: &str) {
    run(Command::new("etcdctl").args(["--endpoints", endpoint, "--user", user]), words);
}

/// Gives the user a new password.
fn passwd(endpoint: &str, user: &str, password: &str) {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", endpoint, "--user", user]);
    command.args(["user", "passwd", "--interactive=false", user.split(':').next().unwrap_or_default()]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("etcdctl starts");
    child.stdin.take().expect("piped").write_all(password.as_bytes()).expect("written");
    assert!(child.wait().expect("ended").success());
}

fn run(command: &mut Command, words: &str) {
    // A password can contain a space.
    let words = words.split(' ').fold(Vec::<String>::new(), |mut words, word| {
        match words.last_mut() {
            Some(last) if last.ends_with(":pass") => *last = format!("{last} {word}"),
            _ => words.push(word.to_owned()),
        }
        words
    });
    let output = command.env("ETCDCTL_API", "3").args(words).output();
    let output = output.expect("etcdctl must be installed for this test (Debian: apt-get install etcd-client)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
