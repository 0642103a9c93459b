//! Migrations of a store from a data directory to etcd. A migration keeps the table, the history and the counters, and
//! makes the directory unusable.

use std::{path::Path, process::Command};

use kent_proto::v1::{
    CreateRegionRequest, Encoding, ListHistoryRequest, ListRegionsRequest, Policy, UpdateRegionRequest,
};
use kent_store::{EtcdOptions, EtcdStore, Key, SCHEMA, SledOptions, SledStore, Store, Txn};
use kent_test_etcd::Etcd;
use kentd::{AuditArgs, EtcdSettings, MigrateArgs, Migration};
use tokio::sync::Notify;

use super::harness::{Daemon, Ledger, data_dir, identifiers, keep_home, kentd, kentd_binary, request, state_home};

const SOURCES: [&str; 7] =
    ["uuidv7", "uuidv6", "xid", "serial:GBP$", "region:orders", "region:small", "region:invoices"];

fn migrate(data: &Path, to: &str, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(kentd_binary());
    keep_home(&mut command);
    command.args(["migrate", "--from", &format!("sled:{}", data.display()), "--to", to]).args(more);
    let output = command.output().expect("kentd runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.success(), text(output.stdout) + &text(output.stderr))
}

fn args(from: &Path, to: &str) -> MigrateArgs {
    let to = to.parse().expect("an address");
    let (from, witness, etcd) = (from.to_owned(), Some(state_home().join("kent/witness")), EtcdSettings::default());
    MigrateArgs { from, to, witness, dry_run: false, yes: true, etcd, audit: AuditArgs::default() }
}

/// Opens the store on etcd without a daemon.
async fn open(address: &str) -> EtcdStore {
    let (address, new_id) = (address.parse().expect("an address"), [0; 16]);
    let options = EtcdOptions { address, tls: None, credentials: None, new_id, schema: SCHEMA };
    EtcdStore::open(options).await.expect("etcd is up")
}

async fn draw_all(daemon: &Daemon, ledger: &mut Ledger) {
    for source in SOURCES {
        let reply = daemon.allocator().allocate(request(source, 3, Encoding::Packed)).await.expect("granted");
        ledger.record(source, identifiers(reply.get_ref()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_store_moves_to_etcd_once() {
    let data = data_dir();
    let store = data.path().join("data");
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&store);
    for (region, suffix_bits) in [("orders", 40), ("small", 6), ("invoices", 30)] {
        let (parent, region_id) = ("spaces/default".to_owned(), region.to_owned());
        let create = CreateRegionRequest { parent, region_id, suffix_bits: Some(suffix_bits), ..Default::default() };
        daemon.regions().create_region(create).await.expect("created");
    }
    let strict = Some(Policy { strict: true, ..Policy::default() });
    let name = "spaces/default/regions/invoices".to_owned();
    daemon
        .regions()
        .update_region(UpdateRegionRequest { name, policy: strict, ..Default::default() })
        .await
        .expect("strict");
    draw_all(&daemon, &mut ledger).await;
    let list = ListRegionsRequest { parent: "spaces/default".to_owned(), ..Default::default() };
    let regions_before = daemon.regions().list_regions(list.clone()).await.expect("a list").into_inner().regions;

    let etcd = Etcd::start(1);
    let (address, other) = (etcd.address("kent"), etcd.address("other"));
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(!moved && said.contains("another kentd"), "the store was moved while a daemon used it: {said}");
    daemon.signal("TERM");
    daemon.wait().await;
    let (moved, said) = migrate(&store, &address, &["--dry-run"]);
    assert!(moved && said.contains("nothing was moved"), "{said}");
    assert!(said.contains("region:invoices: 3 -> 3, 0 skipped"), "the move leaves a gap in a strict region: {said}");
    let (moved, said) = migrate(&store, &address, &[]);
    assert!(
        !moved && said.contains("nothing was moved"),
        "the store was moved without an answer to the prompt: {said}"
    );
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(moved, "{said}");

    let refused = kentd(&store).output().expect("kentd runs");
    let said_then = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said_then.contains(&format!("was moved to {address}")), "{said_then}");
    let (moved, said) = migrate(&store, &other, &["--yes"]);
    assert!(!moved && said.contains(&format!("start replicas with kentd --store {address}")), "{said}");
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(!moved && said.contains(&format!("start replicas with kentd --store {address}")), "{said}");

    let replicas = [(); 2].map(|()| Daemon::spawn(kentd(&store).args(["--store", &address, "--log", "error"])));
    for replica in &replicas {
        draw_all(replica, &mut ledger).await;
        let after = replica.regions().list_regions(list.clone()).await.expect("a list").into_inner().regions;
        let shape = |regions: &[kent_proto::v1::Region]| -> Vec<_> {
            regions.iter().map(|it| (it.name.clone(), it.prefix.clone(), it.suffix_bits, it.sealed)).collect()
        };
        assert_eq!(shape(&after), shape(&regions_before));
    }
    let history = ListHistoryRequest { parent: "spaces/default".to_owned(), ..Default::default() };
    let history = replicas[0].regions().list_history(history).await.expect("a history").into_inner().entries;
    let operations: Vec<&str> = history.iter().map(|entry| entry.operation.as_str()).collect();
    assert_eq!(operations, ["migrate", "update", "create", "create", "create"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_an_interrupted_move_is_finished_by_the_same_command() {
    let data = data_dir();
    let store = data.path().join("data");
    let daemon = Daemon::start(&store);
    let mut ledger = Ledger::default();
    let reply = daemon.allocator().allocate(request("uuidv7", 3, Encoding::Packed)).await.expect("granted");
    ledger.record("uuidv7", identifiers(reply.get_ref()));
    daemon.kill();
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let migration = Migration::plan(&args(&store, &address)).await.expect("planned");
    let has_written = Notify::new();
    // Interrupt the move while the second step is in flight.
    tokio::select! {
        biased;
        () = has_written.notified() => {}
        made = migration.make(|_, _| has_written.notify_one()) => panic!("the move was not interrupted: {made:?}"),
    }
    let half = open(&address).await;
    let key = |key| Key::from_static(key);
    assert!(half.get(&key("restoring")).await.expect("read").is_some(), "the new store is not marked as incomplete");
    assert!(half.get(&key("cluster")).await.expect("read").is_none(), "the new store is complete already");
    for data in [&store, &data.path().join("none")] {
        let on = if *data == store { "sled" } else { &address };
        let refused = kentd(data).args(["--store", on]).output().expect("kentd runs");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && (said.contains("incomplete") || said.contains("moved to")), "{said}");
    }
    let (moved, said) = migrate(&data.path().join("other"), &address, &["--yes"]);
    assert!(!moved && said.contains("no store in"), "{said}");
    Daemon::start(&data.path().join("other")).kill();
    let (moved, said) = migrate(&data.path().join("other"), &address, &["--yes"]);
    assert!(
        !moved && said.contains("already holds a store") && said.contains(&format!("--to {address}-2")),
        "a move of another store must not continue this move: {said}"
    );
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(moved, "{said}");
    let replica = Daemon::spawn(kentd(&store).args(["--store", &address, "--log", "error"]));
    let reply = replica.allocator().allocate(request("uuidv7", 3, Encoding::Packed)).await.expect("granted");
    ledger.record("uuidv7", identifiers(reply.get_ref()));
}

#[tokio::test(flavor = "multi_thread")]
async fn err_a_replica_that_starts_between_plan_and_move_keeps_its_store() {
    let data = data_dir();
    let store = data.path().join("data");
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&store);
    let reply = daemon.allocator().allocate(request("serial:AB", 3, Encoding::Packed)).await.expect("granted");
    ledger.record("serial:AB", identifiers(reply.get_ref()));
    daemon.kill();
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let migration = Migration::plan(&args(&store, &address)).await.expect("planned");
    let replica = Daemon::spawn(kentd(&store).args(["--store", &address, "--log", "error"]));
    let mut others = Ledger::default();
    for _ in 0..2 {
        let reply = replica.allocator().allocate(request("serial:AB", 3, Encoding::Packed)).await.expect("granted");
        others.record("serial:AB", identifiers(reply.get_ref()));
    }
    let before = open(&address).await.scan(&Key::from_static("series/")).await.expect("read");
    let refused = migration.make(|_, _| {}).await.expect_err("a replica came first");
    assert!(refused.to_string().contains("already holds a store"), "{refused}");
    assert_eq!(open(&address).await.scan(&Key::from_static("series/")).await.expect("read"), before);
    replica.kill();
    let replica = Daemon::spawn(kentd(&store).args(["--store", &address, "--log", "error"]));
    let reply = replica.allocator().allocate(request("serial:AB", 3, Encoding::Packed)).await.expect("granted");
    others.record("serial:AB", identifiers(reply.get_ref()));
    // The directory stays usable.
    let daemon = Daemon::start(&store);
    let reply = daemon.allocator().allocate(request("serial:AB", 3, Encoding::Packed)).await.expect("granted");
    ledger.record("serial:AB", identifiers(reply.get_ref()));
}

#[tokio::test(flavor = "multi_thread")]
async fn err_a_moved_store_that_was_deleted_is_not_moved_again() {
    let data = data_dir();
    let store = data.path().join("data");
    Daemon::start(&store).kill();
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(moved, "{said}");
    // Simulates an operator who deletes the keys after replicas have granted from the store.
    let target = open(&address).await;
    for (key, _) in target.scan(&Key::ROOT).await.expect("read") {
        target.commit(Txn::new().delete(key)).await.expect("committed");
    }
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(!moved && said.contains("only that store knows what has been issued since"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn err_a_copy_from_before_the_move_is_neither_started_nor_moved() {
    let data = data_dir();
    let (store, copy) = (data.path().join("data"), data.path().join("copy"));
    Daemon::start(&store).kill();
    let copied = Command::new("cp").arg("-a").arg(&store).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    let etcd = Etcd::start(1);
    let (moved, said) = migrate(&store, &etcd.address("kent"), &["--yes"]);
    assert!(moved, "{said}");
    let refused = kentd(&copy).output().expect("kentd runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("is an old copy"), "{said}");
    let (moved, said) = migrate(&copy, &etcd.address("other"), &["--yes"]);
    assert!(!moved && said.contains("is an old copy"), "{said}");
    let target = open(&etcd.address("other")).await;
    assert!(target.scan(&Key::ROOT).await.expect("read").is_empty(), "nothing was written");
}

#[test]
fn err_a_migration_without_etcd_says_once_what_failed() {
    let data = data_dir();
    let store = data.path().join("data");
    Daemon::start(&store).kill();
    let (moved, said) = migrate(&store, "etcd://127.0.0.1:1/kent", &["--yes"]);
    let expected = "error: etcd at etcd://127.0.0.1:1/kent is not available: etcd: Connection refused (os error 111); check that etcd is \
                    running, and that --to names its address\n";
    assert!(!moved && said.ends_with(expected), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn err_an_incomplete_store_is_not_moved() {
    let data = data_dir();
    let store = data.path().join("data");
    Daemon::start(&store).kill();
    let etcd = Etcd::start(1);
    let (restoring, cluster) = (Key::from_static("restoring"), Key::from_static("cluster"));
    let tamper = async |txn: Txn| {
        let store = SledStore::open(SledOptions { dir: store.clone(), new_id: [0; 16] }).expect("opened");
        store.commit(txn).await.expect("committed");
        store.close().await;
    };
    tamper(Txn::new().put(restoring.clone(), b"half".to_vec())).await;
    let (moved, said) = migrate(&store, &etcd.address("kent"), &["--yes"]);
    assert!(!moved && said.contains("is incomplete"), "{said}");
    tamper(Txn::new().delete(restoring).delete(cluster)).await;
    let (moved, said) = migrate(&store, &etcd.address("kent"), &["--yes"]);
    assert!(!moved && said.contains("does not contain a store"), "{said}");
}
