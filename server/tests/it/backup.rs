//! Backups of a running daemon, restores from them, and old copies of a store that replace a newer one.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use kent_proto::v1::{
    BackupPart, BackupRequest, CreateRegionRequest, Encoding, GetRegionRequest, ListHistoryRequest, ListRegionsRequest,
    SealRegionRequest, backup_part,
};
use kent_store::{Key, SledOptions, SledStore, Store, Txn};
use prost::Message;
use tonic::{Code, Request};

use super::harness::{Daemon, Ledger, data_dir, identifiers, kentd, kentd_binary, request};

const SOURCES: [&str; 6] = ["uuidv7", "uuidv6", "xid", "region:orders", "uid11-fullrand", "serial:AB"];

pub(crate) async fn backup(daemon: &Daemon, file: &Path) {
    backup_as(daemon, Request::new(BackupRequest {}), file).await;
}

pub(crate) async fn backup_as(daemon: &Daemon, request: Request<BackupRequest>, file: &Path) {
    let mut parts = daemon.admin().backup(request).await.expect("a backup").into_inner();
    let mut bytes = Vec::new();
    while let Some(part) = parts.message().await.expect("a whole backup") {
        bytes.extend(part.encode_length_delimited_to_vec());
    }
    fs::write(file, bytes).expect("written");
}

pub(crate) fn restore(source: &Path, data: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(kentd_binary());
    command.arg("restore").arg(source).arg("--data").arg(data).args(more).output().expect("the command runs")
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) async fn create(daemon: &Daemon, region: &str) {
    let (parent, region_id) = ("spaces/default".to_owned(), region.to_owned());
    let create = CreateRegionRequest { parent, region_id, suffix_bits: Some(40), ..CreateRegionRequest::default() };
    daemon.regions().create_region(create).await.expect("created");
}

pub(crate) async fn issue(daemon: &Daemon, ledger: &mut Ledger, times: u32) {
    for _ in 0..times {
        for source in SOURCES {
            let reply = daemon.allocator().allocate(request(source, 700, Encoding::Packed)).await.expect(source);
            ledger.record(source, identifiers(reply.get_ref()));
        }
    }
}

pub(crate) fn unseal(region: &str) -> SealRegionRequest {
    SealRegionRequest { name: format!("spaces/default/regions/{region}"), ..SealRegionRequest::default() }
}

#[tokio::test]
async fn ok_nothing_is_issued_twice_from_a_restored_store() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    create(&daemon, "orders").await;
    create(&daemon, "quiet").await;
    issue(&daemon, &mut ledger, 3).await;
    backup(&daemon, &at("backup")).await;
    // The backup lacks everything that is issued after it, including the first identifiers of the region `quiet`.
    issue(&daemon, &mut ledger, 5).await;
    let quiet = daemon.allocator().allocate(request("region:quiet", 10, Encoding::Packed)).await.expect("granted");
    ledger.record("region:quiet", identifiers(quiet.get_ref()));
    daemon.kill();

    let dry = restore(&at("backup"), &at("new"), &["--dry-run"]);
    assert!(dry.status.success() && !at("new").exists(), "{}", said(&dry));
    assert!(said(&dry).contains("region:orders: ") && said(&dry).contains("skipped"), "{}", said(&dry));
    let unasked = restore(&at("backup"), &at("new"), &[]);
    assert!(!unasked.status.success() && !at("new").exists(), "{}", said(&unasked));
    let done = restore(&at("backup"), &at("new"), &["--yes", "--clock-error", "0s"]);
    assert!(done.status.success(), "{}", said(&done));
    let twice = restore(&at("backup"), &at("new"), &["--yes"]);
    assert!(!twice.status.success() && said(&twice).contains("already holds a store"), "{}", said(&twice));
    assert!(!said(&twice).contains("region:orders"), "a plan is shown: {}", said(&twice));

    let daemon = Daemon::start(&at("new"));
    let running = restore(&at("backup"), &at("new"), &["--dry-run"]);
    // The message must not advise stopping the daemon: the restore would still be refused, because the directory holds
    // a store.
    assert!(!running.status.success() && said(&running).contains("already holds a store"), "{}", said(&running));
    assert!(!said(&running).contains("stop it"), "{}", said(&running));
    assert!(!said(&running).contains("region:orders"), "a plan is shown: {}", said(&running));
    let sealed = daemon.allocator().allocate(request("region:orders", 1, Encoding::Packed)).await;
    assert_eq!(sealed.expect_err("it is sealed").code(), Code::FailedPrecondition);
    let mut regions = daemon.regions();
    for region in ["orders", "quiet"] {
        regions.unseal_region(unseal(region)).await.expect("unsealed");
    }
    // All slots are reserved until two seconds after the restore.
    let granted = loop {
        match daemon.allocator().allocate(request("uuidv7", 1, Encoding::Packed)).await {
            Ok(granted) => break granted,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
    };
    ledger.record("uuidv7", identifiers(granted.get_ref()));
    issue(&daemon, &mut ledger, 5).await;
    let quiet = daemon.allocator().allocate(request("region:quiet", 10, Encoding::Packed)).await.expect("granted");
    ledger.record("region:quiet", identifiers(quiet.get_ref()));

    // The history has an entry for the restore and still contains the earlier edits.
    let list = ListHistoryRequest { parent: "spaces/default".to_owned(), ..ListHistoryRequest::default() };
    let entries = regions.list_history(list).await.expect("a history").into_inner().entries;
    let operations: Vec<_> = entries.iter().map(|entry| entry.operation.as_str()).collect();
    assert_eq!(operations, ["unseal", "unseal", "restore", "create", "create"]);
    let past =
        ListRegionsRequest { parent: "spaces/default".to_owned(), at_revision: 1, ..ListRegionsRequest::default() };
    let past = regions.list_regions(past).await.expect("a table").into_inner().regions;
    assert_eq!(
        past.iter().map(|region| (region.name.as_str(), region.sealed)).collect::<Vec<_>>(),
        [("spaces/default/regions/orders", false)]
    );
    let get = GetRegionRequest { name: "spaces/default/regions/orders".to_owned(), ..GetRegionRequest::default() };
    regions.get_region(get).await.expect("there");

    // A clean restart of the restored store needs no further steps.
    daemon.signal("TERM");
    assert!(daemon.wait().await.success());
    let daemon = Daemon::start(&at("new"));
    issue(&daemon, &mut ledger, 1).await;
}

#[tokio::test]
async fn err_an_incomplete_or_damaged_backup_is_refused() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let daemon = Daemon::start(&at("old"));
    create(&daemon, "orders").await;
    backup(&daemon, &at("backup")).await;
    let whole = fs::read(at("backup")).expect("read");
    let mut rest = &*whole;
    BackupPart::decode_length_delimited(&mut rest).expect("a header");
    let header = whole.len() - rest.len();
    let mut refused = HashSet::new();
    for cut in 0..whole.len() {
        fs::write(at("part"), &whole[..cut]).expect("written");
        if cut % 97 == 0 || cut + 20 > whole.len() {
            let output = restore(&at("part"), &at("new"), &["--yes", "--table-unchanged"]);
            assert!(!output.status.success() && !at("new").exists(), "{cut}: {}", said(&output));
            assert_eq!(
                said(&output).contains("it is incomplete"),
                cut == 0 || cut >= header,
                "{cut}: {}",
                said(&output)
            );
            refused.insert(said(&output));
        }
    }
    assert!(refused.iter().all(|said| said.contains("cannot be restored")), "{refused:?}");
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    fs::write(at("part"), flipped).expect("written");
    let output = restore(&at("part"), &at("new"), &["--yes"]);
    assert!(!output.status.success() && !at("new").exists(), "{}", said(&output));
}

/// Commits to the store of a stopped daemon.
async fn tamper(data: &Path, txn: Txn) {
    let store = SledStore::open(SledOptions { dir: data.to_owned(), new_id: [0; 16] }).expect("opened");
    store.commit(txn).await.expect("committed");
    store.close().await;
}

/// The same backup with an additional record and correct checksums.
fn with_record(backup: &[u8], key: &str, value: &[u8]) -> Vec<u8> {
    let (mut rest, mut sum, mut count, mut bytes) = (backup, crc32fast::Hasher::new(), 0, Vec::new());
    while !rest.is_empty() {
        let mut message = BackupPart::decode_length_delimited(&mut rest).expect("a message");
        match message.part.as_mut().expect("a part") {
            backup_part::Part::Begin(begin) => sum.update(&begin.encode_to_vec()),
            backup_part::Part::Records(part) => {
                if count == 0 {
                    let more = backup_part::Record { key: key.to_owned(), value: value.to_vec().into() };
                    part.records.push(more);
                }
                for record in &part.records {
                    count += 1;
                    for bytes in [record.key.as_bytes(), &record.value[..]] {
                        sum.update(&(bytes.len() as u64).to_le_bytes());
                        sum.update(bytes);
                    }
                }
            }
            backup_part::Part::End(end) => (end.count, end.crc32) = (count, sum.clone().finalize()),
        }
        bytes.extend(message.encode_length_delimited_to_vec());
    }
    bytes
}

#[tokio::test]
async fn err_an_incomplete_store_cannot_be_restored_from() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let daemon = Daemon::start(&at("old"));
    create(&daemon, "orders").await;
    backup(&daemon, &at("backup")).await;
    daemon.kill();
    let refused = |source: &str, expected: &str| {
        let output = restore(&at(source), &at("new"), &["--yes", "--table-unchanged"]);
        assert!(!output.status.success() && !at("new").exists(), "{source}: {}", said(&output));
        assert!(said(&output).contains(expected), "{source}: {}", said(&output));
    };
    let (restoring, moved, cluster) =
        (Key::from_static("restoring"), Key::from_static("moved"), Key::from_static("cluster"));

    let whole = fs::read(at("backup")).expect("read");
    fs::write(at("half"), with_record(&whole, restoring.as_str(), b"half")).expect("written");
    refused("half", "is incomplete");
    fs::write(at("gone"), with_record(&whole, moved.as_str(), b"etcd://10.0.0.1:2379/kent")).expect("written");
    refused("gone", "was moved to etcd://10.0.0.1:2379/kent");

    tamper(&at("old"), Txn::new().put(restoring.clone(), b"half".to_vec())).await;
    refused("old", "is incomplete");
    tamper(&at("old"), Txn::new().delete(restoring).put(moved.clone(), b"etcd://10.0.0.1:2379/kent".to_vec())).await;
    refused("old", "was moved to etcd://10.0.0.1:2379/kent");
    tamper(&at("old"), Txn::new().delete(moved).delete(cluster)).await;
    refused("old", "does not contain a store");

    fs::create_dir(at("empty")).expect("created");
    refused("empty", "name a backup file (kent backup FILE), the data directory of a stopped daemon, or an archive");
    assert_eq!(fs::read_dir(at("empty")).expect("read").count(), 0, "the source was changed");
}

#[tokio::test]
async fn err_an_old_copy_put_back_in_place_is_detected() {
    let dir = data_dir();
    let data = dir.path().join("data");
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&data);
    create(&daemon, "orders").await;
    issue(&daemon, &mut ledger, 1).await;
    daemon.kill();
    let copied = Command::new("cp").arg("-a").arg(&data).arg(dir.path().join("copy")).status().expect("copied");
    assert!(copied.success());
    let daemon = Daemon::start(&data);
    issue(&daemon, &mut ledger, 2).await;
    daemon.kill();
    fs::rename(&data, dir.path().join("newest")).expect("moved");
    fs::rename(dir.path().join("copy"), &data).expect("put back");
    let refused = kentd(&data).output().expect("the command runs");
    assert!(!refused.status.success());
    let said_so = said(&refused);
    // The start of another store does not make the witness forget this one.
    Daemon::start(&dir.path().join("another")).kill();
    assert!(!kentd(&data).output().expect("the command runs").status.success());
    assert!(
        said_so.contains("is an old copy: its start count is 1,") && said_so.contains("has counted 2"),
        "{said_so}"
    );

    // The copy can be restored into a store that issues nothing twice.
    let new = dir.path().join("new");
    let done = restore(&data, &new, &["--yes", "--table-unchanged", "--clock-error", "0s"]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&new);
    let granted = loop {
        match daemon.allocator().allocate(request("uuidv7", 1, Encoding::Packed)).await {
            Ok(granted) => break granted,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
    };
    ledger.record("uuidv7", identifiers(granted.get_ref()));
    issue(&daemon, &mut ledger, 2).await;
    daemon.kill();

    // The newest store continues when it is put back in place.
    fs::remove_dir_all(&data).expect("removed");
    fs::rename(dir.path().join("newest"), &data).expect("put back");
    let daemon = Daemon::start(&data);
    daemon.allocator().allocate(request("uid11-fullrand", 1, Encoding::Packed)).await.expect("granted");
}
