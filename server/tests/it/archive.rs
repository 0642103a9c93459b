//! Archives: after the loss of its disk, a store continues from its archive without skipping identifiers.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kent_proto::v1::{Encoding, ListRegionsRequest, Policy, UpdateRegionRequest};
use kent_store::{ArchiveLock, SledOptions, SledStore, Store};
use rand::RngExt;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use super::{
    backup::{create, issue, restore, said},
    crash::LOAD,
    disk::{SmallDisk, User, full_name, until_it_works},
    harness::{Daemon, Ledger, data_dir, identifiers, kentd, kentd_binary, request},
};

const ROUNDS: usize = 6;
const ROUNDS_LONG: usize = 60;
/// The number of clients of the strict region. Each has one request in flight.
const STRICT_CLIENTS: usize = 3;

/// The command line of a daemon whose archive gets a new full copy of all records after every second segment.
fn archived(data: &Path, archive: &Path) -> Command {
    let mut command = kentd(data);
    command.arg("--archive").arg(archive).args(["--archive-base-bytes", "131072"]);
    command
}

/// The directory of the only active store in the archive.
fn own(archive: &Path) -> PathBuf {
    let dirs = fs::read_dir(archive).expect("there").map(|entry| entry.expect("read").path());
    let live: Vec<_> = dirs.filter(|dir| !dir.join("ended").exists()).collect();
    assert_eq!(live.len(), 1, "{live:?}");
    live[0].clone()
}

/// Runs a daemon that must fail to start, and returns its output.
fn refused(command: &mut Command) -> String {
    let output = command.stdout(Stdio::piped()).output().expect("the command runs");
    assert!(!output.status.success(), "it started");
    said(&output)
}

async fn make_strict(daemon: &Daemon, region: &str) {
    create(daemon, region).await;
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let update = UpdateRegionRequest { name: full_name(region), policy, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(update).await.expect("strict");
}

/// All grants and edits that any of the stores acknowledged.
#[derive(Clone, Default)]
struct Acknowledged {
    issued: Arc<Mutex<Ledger>>,
    invoices: Arc<Mutex<BTreeSet<u128>>>,
    regions: Arc<Mutex<BTreeSet<String>>>,
    is_over: Arc<AtomicBool>,
}

impl Acknowledged {
    /// Spawns clients of all kinds, which send requests until the daemon is killed.
    fn load(&self, daemon: &Daemon, round: usize) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for (source, count, encoding) in LOAD {
            let (known, mut client) = (self.clone(), daemon.allocator());
            clients.spawn(async move {
                while !known.is_over.load(Ordering::SeqCst) {
                    match client.allocate(request(source, count, encoding)).await {
                        Ok(reply) => {
                            known.issued.lock().expect("not poisoned").record(source, identifiers(reply.get_ref()))
                        }
                        Err(status) => known.pause_after(&status).await,
                    }
                }
            });
        }
        for _ in 0..STRICT_CLIENTS {
            let (known, mut client) = (self.clone(), daemon.allocator());
            clients.spawn(async move {
                while !known.is_over.load(Ordering::SeqCst) {
                    match client.allocate(request("region:invoices", 1, Encoding::Packed)).await {
                        Ok(reply) => {
                            let number = identifiers(reply.get_ref())[0];
                            assert!(
                                known.invoices.lock().expect("not poisoned").insert(number),
                                "invoice {number} twice"
                            );
                        }
                        Err(status) => known.pause_after(&status).await,
                    }
                }
            });
        }
        let (known, mut user) = (self.clone(), User::of(daemon));
        clients.spawn(async move {
            for number in 0.. {
                let name = format!("r{round}-{number}");
                match user.create(&name).await {
                    Ok(()) => drop(known.regions.lock().expect("not poisoned").insert(name)),
                    Err(status) => known.pause_after(&status).await,
                }
                if known.is_over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        clients
    }

    /// Waits after a temporary refusal, because a restored store has no slot for two seconds. After the kill, any error
    /// is allowed.
    async fn pause_after(&self, status: &Status) {
        let is_over = self.is_over.load(Ordering::SeqCst);
        let codes = [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Internal];
        assert!(is_over || codes.contains(&status.code()), "{status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// Checks that every region whose creation was acknowledged exists, and that no region is sealed.
    async fn check(&self, daemon: &Daemon) {
        let (mut listed, mut page_token) = (BTreeSet::new(), String::new());
        loop {
            let list = ListRegionsRequest { parent: "spaces/default".to_owned(), page_token, ..Default::default() };
            let page = daemon.regions().list_regions(list).await.expect("a page").into_inner();
            assert!(page.regions.iter().all(|region| !region.sealed));
            listed.extend(page.regions.iter().filter_map(|it| Some(it.name.rsplit_once('/')?.1.to_owned())));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let regions = self.regions.lock().expect("not poisoned");
        let lost: Vec<_> = regions.difference(&listed).collect();
        assert!(lost.is_empty(), "{lost:?} are lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_lost_store_continues_from_its_archive() {
    lose_stores(ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: many stores lost"]
async fn long_lost_stores_continue_from_their_archives() {
    lose_stores(ROUNDS_LONG).await;
}

async fn lose_stores(rounds: usize) {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("archive")).expect("created");
    let data = |round: usize| at(&format!("data{round}"));
    let daemon = Daemon::spawn(&mut archived(&data(0), &at("archive")));
    create(&daemon, "orders").await;
    make_strict(&daemon, "invoices").await;
    daemon.kill();
    let known = Acknowledged::default();
    for round in 0..rounds {
        let daemon = Daemon::spawn(&mut archived(&data(round), &at("archive")));
        known.check(&daemon).await;
        known.is_over.store(false, Ordering::SeqCst);
        let mut clients = known.load(&daemon, round);
        let moment = Duration::from_millis(rand::rng().random_range(100..3500));
        tokio::time::sleep(moment).await;
        known.is_over.store(true, Ordering::SeqCst);
        daemon.kill();
        while let Some(ended) = clients.join_next().await {
            ended.expect("a client found a duplicate or failed");
        }
        let done = restore(&at("archive"), &data(round + 1), &["--archive", "--yes"]);
        assert!(done.status.success(), "{}", said(&done));
        assert!(said(&done).contains("nothing is skipped or sealed"), "{}", said(&done));
        // Neither the old store nor a second restore can continue from the archive.
        let old = refused(&mut archived(&data(round), &at("archive")));
        assert!(old.contains("was restored from its archive"), "{old}");
        let again = restore(&at("archive"), &at("other"), &["--archive", "--yes"]);
        assert!(!again.status.success() && !at("other").exists(), "{}", said(&again));
    }
    let daemon = Daemon::spawn(&mut archived(&data(rounds), &at("archive")));
    known.check(&daemon).await;
    let reply = daemon.allocator().allocate(request("region:invoices", 1, Encoding::Packed)).await.expect("granted");
    let next = identifiers(reply.get_ref())[0];
    let invoices = known.invoices.lock().expect("not poisoned");
    assert!(!invoices.contains(&next));
    let first = *invoices.first().expect("some");
    let gaps = (next - first) as usize - invoices.len();
    // An unanswered request may have been granted.
    assert!(gaps <= rounds * STRICT_CLIENTS, "{gaps} numbers were skipped");
    let (issued, edits) =
        (known.issued.lock().expect("not poisoned").len(), known.regions.lock().expect("not poisoned").len());
    println!("{rounds} stores lost: {issued} identifiers, {} invoices, {gaps} skipped, {edits} edits", invoices.len());
    assert!(issued > 1000 * rounds && edits > rounds, "the load was too small to show anything");
}

#[tokio::test]
async fn err_an_archived_store_is_not_started_without_its_archive() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let nowhere = refused(&mut archived(&at("data"), &at("archive")));
    let mkdir = format!(
        "does not exist: is its disk mounted? For a new archive, create the directory first: mkdir -p {}",
        at("archive").display()
    );
    assert!(nowhere.contains(&mkdir), "{nowhere}");
    fs::write(at("file"), "text").expect("written");
    let file = refused(&mut archived(&at("data"), &at("file")));
    assert!(file.contains("is not a directory"), "{file}");
    let file = restore(&at("file"), &at("new"), &["--archive", "--dry-run"]);
    assert!(said(&file).contains("is not a directory: --archive restores from the directory"), "{}", said(&file));
    let nowhere = restore(&at("nowhere"), &at("new"), &["--archive", "--dry-run"]);
    assert!(said(&nowhere).contains("does not exist: give the directory"), "{}", said(&nowhere));
    fs::create_dir(at("archive")).expect("created");
    let mut ledger = Ledger::default();
    let daemon = Daemon::spawn(&mut archived(&at("data"), &at("archive")));
    create(&daemon, "orders").await;
    issue(&daemon, &mut ledger, 1).await;
    // While the daemon writes to the archive, only a dry run is allowed.
    let shown = restore(&at("archive"), &at("new"), &["--archive", "--dry-run"]);
    assert!(shown.status.success() && said(&shown).contains("dry run"), "{}", said(&shown));
    let held = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    assert!(!held.status.success() && said(&held).contains("stop it first"), "{}", said(&held));
    daemon.kill();
    let without = refused(&mut kentd(&at("data")));
    assert!(without.contains("--archive") && without.contains("--no-archive"), "{without}");
    // A data directory on which a daemon refuses to start can still be restored into another directory.
    let copy = restore(&at("data"), &at("new"), &["--dry-run"]);
    assert!(copy.status.success() && said(&copy).contains("skipped"), "{}", said(&copy));

    let daemon = Daemon::spawn(kentd(&at("data")).arg("--no-archive"));
    issue(&daemon, &mut ledger, 1).await;
    daemon.kill();
    let daemon = Daemon::start(&at("data"));
    issue(&daemon, &mut ledger, 1).await;
    daemon.kill();
    // The archive has recorded that it is incomplete, and serves only as a backup.
    let ended = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    assert!(!ended.status.success() && said(&ended).contains("is now only a backup"), "{}", said(&ended));
    let own = fs::read_dir(at("archive")).expect("there").next().expect("one").expect("read").path();
    let done = restore(&own, &at("new"), &["--yes", "--table-unchanged", "--clock-error", "0s"]);
    assert!(done.status.success() && said(&done).contains("skipped"), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    let granted = until_granted(&daemon, "uuidv7").await;
    ledger.record("uuidv7", granted);
    issue(&daemon, &mut ledger, 2).await;
}

/// Retries until a request is granted, because all slots are reserved until two seconds after a restore.
async fn until_granted(daemon: &Daemon, source: &str) -> Vec<u128> {
    loop {
        match daemon.allocator().allocate(request(source, 1, Encoding::Packed)).await {
            Ok(granted) => return identifiers(granted.get_ref()),
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
    }
}

/// Simulates a restore that was killed after it had recorded in the archive which store continues from it.
#[tokio::test]
async fn ok_an_interrupted_restore_is_finished() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("archive")).expect("created");
    let mut ledger = Ledger::default();
    let daemon = Daemon::spawn(&mut archived(&at("data"), &at("archive")));
    create(&daemon, "orders").await;
    issue(&daemon, &mut ledger, 2).await;
    daemon.kill();
    let store = SledStore::open(SledOptions { dir: at("new"), new_id: rand::random() }).expect("opened");
    let lock = ArchiveLock::take(&own(&at("archive"))).expect("held");
    lock.hand_over(store.store_id(), "here").expect("recorded");
    store.close().await;
    drop((store, lock));
    let other = restore(&at("archive"), &at("other"), &["--archive", "--yes"]);
    assert!(!other.status.success() && said(&other).contains("(made in here)"), "{}", said(&other));
    let done = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    let twice = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    assert!(!twice.status.success() && said(&twice).contains("already holds a store"), "{}", said(&twice));
    let daemon = Daemon::start(&at("new"));
    ledger.record("uuidv7", until_granted(&daemon, "uuidv7").await);
    issue(&daemon, &mut ledger, 2).await;
}

#[tokio::test]
async fn err_a_data_directory_is_not_an_archive_and_vice_versa() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("archive")).expect("created");
    let daemon = Daemon::spawn(&mut archived(&at("data"), &at("archive")));
    create(&daemon, "orders").await;
    daemon.kill();
    let [data, archive] = ["data", "archive"].map(|name| at(name).display().to_string());
    let output = restore(&at("data"), &at("new"), &["--archive", "--yes"]);
    let command = format!("kentd restore {data} --data {data}-new --dry-run");
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("is a data directory, not an archive"), "{}", said(&output));
    assert!(said(&output).contains(&command), "{}", said(&output));
    let output = restore(&at("archive"), &at("new"), &["--archive", "--store", "abc", "--dry-run"]);
    let expected = format!("{archive} has no archive of store \"abc\"; it has ");
    assert!(!output.status.success() && said(&output).contains(&expected), "{}", said(&output));
    let output = restore(&at("archive"), &at("new"), &["--dry-run"]);
    let command = format!("(kentd restore --archive {archive} --data ");
    assert!(output.status.success() && said(&output).contains(&command), "{}", said(&output));
    let refusal = refused(&mut archived(&at("other"), &at("data")));
    assert!(refusal.contains("a separate directory, and this is a data directory"), "{refusal}");
    let refusal = refused(&mut kentd(&at("archive")));
    let command = format!("kentd restore --archive {archive} --data /var/lib/kent-new");
    assert!(refusal.contains("is the archive of a store") && refusal.contains(&command), "{refusal}");
    let output = Command::new(kentd_binary())
        .args(["migrate", "--from", &format!("sled:{data}"), "--to", "etcd://127.0.0.1:1/kent", "--yes"])
        .output()
        .expect("the command runs");
    assert!(said(&output).contains(&format!("kentd --data {data} --no-archive")), "{}", said(&output));
}

/// An interrupted copy of an archive can lack the last commits, and the file that would show this.
#[tokio::test]
async fn err_an_archive_that_may_be_incomplete_is_not_restored_as_complete() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("archive")).expect("created");
    let daemon = Daemon::spawn(&mut archived(&at("data"), &at("archive")));
    make_strict(&daemon, "invoices").await;
    daemon.kill();
    fs::remove_file(own(&at("archive")).join("newest")).expect("removed");
    let output = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    let archive = own(&at("archive"));
    let expected = format!("kentd restore {} --data /var/lib/kent-new --dry-run", archive.display());
    assert!(!output.status.success() && said(&output).contains("may lack its last commits"), "{}", said(&output));
    assert!(said(&output).contains(&expected) && !at("new").exists(), "{}", said(&output));
    let output = restore(&archive, &at("new"), &["--dry-run"]);
    assert!(output.status.success() && !said(&output).contains("nothing would be lost"), "{}", said(&output));
    // The store itself shows what the archive must have.
    Daemon::spawn(&mut archived(&at("data"), &at("archive"))).kill();
    let output = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[tokio::test]
async fn err_a_damaged_archive_gets_a_way_out() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("archive")).expect("created");
    fs::create_dir(at("other")).expect("created");
    Daemon::spawn(&mut archived(&at("data"), &at("archive"))).kill();
    let segment = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("commits.");
    let files = fs::read_dir(own(&at("archive"))).expect("there").map(|entry| entry.expect("read"));
    for file in files.filter(segment) {
        let file = fs::File::options().write(true).open(file.path()).expect("opened");
        file.write_all_at(&[0xff; 64], 4096).expect("written");
    }
    let output = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    let expected = "start it with --no-archive=lost, otherwise restore the newest backup: kentd restore FILE";
    assert!(!output.status.success() && said(&output).contains(expected), "{}", said(&output));
    let refusal = refused(&mut archived(&at("data"), &at("archive")));
    let expected = "start once with --no-archive=lost, and then with --archive and an empty directory";
    assert!(refusal.contains("the archive is damaged: ") && refusal.contains(expected), "{refusal}");
    Daemon::spawn(kentd(&at("data")).arg("--no-archive=lost")).kill();
    Daemon::spawn(&mut archived(&at("data"), &at("other"))).kill();
}

/// While the archive is unreachable, for example because a network share is offline, nothing is granted.
#[tokio::test(flavor = "multi_thread")]
async fn ok_the_daemon_recovers_when_an_unreachable_archive_returns() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("archive")).expect("created");
    let daemon = Daemon::spawn(archived(&at("data"), &at("archive")).args(["--log", "off"]));
    make_strict(&daemon, "invoices").await;
    let mut user = User::of(&daemon);
    user.number_invoices().await.expect("granted");
    fs::rename(at("archive"), at("gone")).expect("renamed");
    for _ in 0..3 {
        let refused = user.number_invoices().await.expect_err("the archive is unreachable");
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        // The first refusal is about the file, and later ones are about the directory.
        let messages = ["the archive cannot be used", "does not exist: is its disk mounted?"];
        assert!(messages.iter().any(|message| refused.message().contains(message)), "{refused}");
    }
    fs::rename(at("gone"), at("archive")).expect("renamed");
    until_it_works(&mut user, User::number_invoices).await;
    user.create("after").await.expect("created");
    daemon.kill();
    let done = restore(&at("archive"), &at("new"), &["--archive", "--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    user.talks_to(&daemon);
    user.check().await;
    user.number_invoices().await.expect("granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_an_archive_on_a_full_disk_refuses_and_recovers() {
    let dir = data_dir();
    let (mount, data) = (dir.path().join("mount"), dir.path().join("data"));
    fs::create_dir(&mount).expect("created");
    let Some(disk) = SmallDisk::mount(&mount) else {
        eprintln!("skipped: this machine does not allow mounting a disk in a user namespace");
        return;
    };
    let archive = mount.join("archive");
    fs::create_dir(disk.root().join("archive")).expect("created");
    let mut daemon = Daemon::spawn(&mut disk.run(&archived(&data, &archive)));
    let mut user = User::of(&daemon);
    make_strict(&daemon, "invoices").await;
    for round in 0..2 {
        user.number_invoices().await.expect("there is space");
        disk.fill();
        let mut refusals = Vec::new();
        for attempt in 0..2000 {
            // The segment is preallocated, so the first commits still succeed.
            refusals.extend(user.create(&format!("r{round}-{attempt}")).await.err());
            refusals.extend(user.number_invoices().await.err());
            if refusals.len() >= 4 {
                break;
            }
        }
        assert!(refusals.len() >= 4, "the disk is full, but nothing was refused");
        for refusal in &refusals {
            assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
            assert!(refusal.message().contains("the archive cannot be used"), "{refusal}");
        }
        disk.empty();
        if round == 1 {
            daemon.kill();
            daemon = Daemon::spawn(&mut disk.run(&archived(&data, &archive)));
            user.talks_to(&daemon);
        }
        until_it_works(&mut user, User::number_invoices).await;
        until_it_works(&mut user, async |user| user.create(&format!("after{round}")).await).await;
        user.check().await;
    }
    daemon.kill();
    let done = restore(&disk.root().join("archive"), &dir.path().join("new"), &["--archive", "--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&dir.path().join("new"));
    user.talks_to(&daemon);
    user.check().await;
    user.number_invoices().await.expect("there is space");
}
