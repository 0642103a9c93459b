//! From a directory to etcd: the table, the history and the counters come along, and the directory is of no use any more.

use std::{path::Path, process::Command};

use kent_proto::v1::{
    CreateRegionRequest, Encoding, ListHistoryRequest, ListRegionsRequest, Policy, UpdateRegionRequest,
};
use kent_store::{EtcdOptions, EtcdStore, Key, SCHEMA, Store, Txn};
use kent_testkit::Etcd;

use super::harness::{Daemon, Ledger, data_dir, identifiers, kentd, request};

const SOURCES: [&str; 7] =
    ["uuidv7", "uuidv6", "xid", "serial:GBP$", "region:orders", "region:small", "region:invoices"];

fn migrate(data: &Path, to: &str, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kentd"));
    command.args(["migrate", "--from", &format!("sled:{}", data.display()), "--to", to]).args(more);
    let output = command.output().expect("kentd runs");
    let text = |octets| String::from_utf8(octets).expect("UTF-8");
    (output.status.success(), text(output.stdout) + &text(output.stderr))
}

async fn draw_all(daemon: &Daemon, ledger: &mut Ledger) {
    for source in SOURCES {
        let reply = daemon.allocator().allocate(request(source, 3, Encoding::Packed)).await.expect("granted");
        ledger.record(source, identifiers(reply.get_ref()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_store_moves_to_etcd_once_and_for_ever() {
    let data = data_dir();
    let store = data.path().join("data");
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&store);
    for (region, suffix_bits) in [("orders", 40), ("small", 6), ("invoices", 30)] {
        let (parent, region_id) = ("spaces/default".to_owned(), region.to_owned());
        let create = CreateRegionRequest { parent, region_id, suffix_bits, ..Default::default() };
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
    assert!(!moved && said.contains("another kentd"), "a daemon holds it: {said}");
    daemon.signal("TERM");
    daemon.wait().await;
    let (moved, said) = migrate(&store, &address, &["--dry-run"]);
    assert!(moved && said.contains("nothing was moved"), "{said}");
    assert!(said.contains("region:invoices@default: 3 -> 3, 0 skipped"), "no gap in a strict region: {said}");
    let (moved, said) = migrate(&store, &address, &[]);
    assert!(!moved && said.contains("nothing was moved"), "it asks, and nobody answers: {said}");
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(moved, "{said}");

    let refused = kentd(&store).output().expect("kentd runs");
    let said_then = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said_then.contains(&format!("was moved to {address}")), "{said_then}");
    let (moved, said) = migrate(&store, &other, &["--yes"]);
    assert!(!moved && said.contains("was moved to"), "{said}");
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(!moved && said.contains("holds a store already"), "{said}");

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
async fn ok_a_move_that_was_broken_off_is_finished_by_the_same_command() {
    let data = data_dir();
    let store = data.path().join("data");
    let daemon = Daemon::start(&store);
    let mut ledger = Ledger::default();
    let reply = daemon.allocator().allocate(request("uuidv7", 3, Encoding::Packed)).await.expect("granted");
    ledger.record("uuidv7", identifiers(reply.get_ref()));
    daemon.kill();
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    // As it is when a move breaks off in the middle: the directory is marked, and etcd's store is not whole.
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(moved, "{said}");
    let target = EtcdOptions {
        address: address.parse().expect("one"),
        tls: None,
        credentials: None,
        new_id: [0; 16],
        schema: SCHEMA,
    };
    let target = EtcdStore::open(target).await.expect("etcd is there");
    let half = Txn::new().put(Key::from_static("restoring"), b"migrating".to_vec()).delete(Key::from_static("cluster"));
    target.commit(half).await.expect("committed");
    let refused = kentd(&store).args(["--store", &address]).output().expect("kentd runs");
    assert!(!refused.status.success(), "it is not whole");
    let (moved, said) = migrate(&store, &address, &["--yes"]);
    assert!(moved, "{said}");
    let replica = Daemon::spawn(kentd(&store).args(["--store", &address, "--log", "error"]));
    let reply = replica.allocator().allocate(request("uuidv7", 3, Encoding::Packed)).await.expect("granted");
    ledger.record("uuidv7", identifiers(reply.get_ref()));
}
