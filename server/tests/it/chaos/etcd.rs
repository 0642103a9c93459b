//! The etcd cluster of the chaos test: a small quota, users, and compactions.

use std::{process::Command, time::Duration};

use kent_store::{EtcdCredentials, EtcdOptions, EtcdPassword, EtcdStore, Key, SCHEMA, Store, Txn, VALUE_BYTES_MAX};
use kent_test_etcd::Etcd;
use tokio::time::sleep;

/// A quota small enough to fill within a second.
const QUOTA_BYTES: &str = "30000000";
/// The number of values per commit, and the number of commits with different keys. Together, they write 39 MB.
const FILL_VALUES: u32 = 60;
const FILL_COMMITS: u32 = 40;

pub(super) const USER: &str = "kent";
pub(super) const PASSWORD: &str = "secret";

/// Starts three members with users, whose tokens expire after a second.
pub(super) fn start() -> Etcd {
    let etcd =
        Etcd::start_with(3, &["--quota-backend-bytes", QUOTA_BYTES, "--auth-token-ttl", "1", "--bcrypt-cost", "4"]);
    for words in [
        "user add root:secret",
        "user add kent:secret",
        "role add kent",
        "role grant-permission kent --prefix=true readwrite kent",
        "user grant-role kent kent",
        "user grant-role root root",
        "auth enable",
    ] {
        assert!(etcdctl(&etcd, &[], words), "{words}");
    }
    etcd
}

/// Keeps etcd filled to its quota for this time, and then frees the space.
pub(super) async fn fill(etcd: &Etcd, length: Duration) {
    let junk = |number: u32| Key::new(format!("junk/{number}")).expect("a key");
    let store = until("etcd is up", async || EtcdStore::open(options(etcd)).await.ok()).await;
    let mut is_full = false;
    for round in (0..FILL_COMMITS).cycle().take(200) {
        let keys = round * FILL_VALUES..(round + 1) * FILL_VALUES;
        let txn = keys.fold(Txn::new(), |txn, number| txn.put(junk(number), vec![1; VALUE_BYTES_MAX]));
        is_full = store.commit(txn).await.is_err_and(|error| error.to_string().contains("space exceeded"));
        if is_full {
            break;
        }
    }
    assert!(is_full, "etcd accepts more than its quota");
    sleep(length).await;
    for round in 0..FILL_COMMITS {
        let keys = round * FILL_VALUES..(round + 1) * FILL_VALUES;
        let txn = keys.fold(Txn::new(), |txn, number| txn.delete(junk(number)));
        until("etcd accepts deletions", async || store.commit(txn.clone()).await.ok()).await;
    }
    let put = Txn::new().put(junk(0), [1]);
    until("there is space again", async || {
        compact(etcd).await;
        for words in ["defrag", "alarm disarm"] {
            until(words, async || etcdctl(etcd, &["--user", "root:secret"], words).then_some(())).await;
        }
        store.commit(put.clone()).await.ok()
    })
    .await;
    store.close().await;
}

/// Compacts etcd to its current revision.
pub(super) async fn compact(etcd: &Etcd) {
    let store = until("etcd is up", async || EtcdStore::open(options(etcd)).await.ok()).await;
    let marker = Key::from_static("junk/compacted");
    let delete = || Txn::new().delete(marker.clone());
    let newest = until("etcd answers", async || store.commit(delete()).await.ok()).await.version;
    // Wait for the physical compaction, so that a defragmentation frees the space. The command fails if this revision
    // is compacted already.
    etcdctl(etcd, &["--user", "root:secret"], &format!("compact --physical=true {newest}"));
}

fn options(etcd: &Etcd) -> EtcdOptions {
    let credentials = EtcdCredentials { user: USER.to_owned(), password: EtcdPassword::Text(PASSWORD.to_owned()) };
    EtcdOptions {
        // The prefix differs from that of the replicas' store.
        address: etcd.address("kent-junk").parse().expect("an address"),
        tls: None,
        credentials: Some(credentials),
        new_id: [9; 16],
        schema: SCHEMA,
    }
}

/// Retries until the attempt succeeds.
async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..300 {
        if let Some(done) = attempt().await {
            return done;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("not within half a minute: {what}");
}

/// Runs etcdctl on all members, of which some may be down. Returns whether it succeeded.
fn etcdctl(etcd: &Etcd, options: &[&str], words: &str) -> bool {
    let endpoints: Vec<String> = etcd.clients().iter().map(ToString::to_string).collect();
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoints.join(",")]).args(options);
    let output = command.args(words.split(' ')).output().expect("etcdctl is installed (Debian: etcd-client)");
    output.status.success()
}
