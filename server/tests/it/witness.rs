//! Old copies of a store that replace the store, and stores whose disk is not mounted.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use kent_proto::v1::Encoding;

use kent_test_etcd::Etcd;

use super::{
    backup::{create, said},
    harness::{Daemon, Ledger, data_dir, identifiers, keep_home, kentd, kentd_binary, request},
};

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(done.success());
}

async fn take(daemon: &Daemon, ledger: &mut Ledger) {
    let reply = daemon.allocator().allocate(request("region:orders", 100, Encoding::Packed)).await.expect("granted");
    ledger.record("region:orders", identifiers(reply.get_ref()));
}

/// Starts a daemon on a store, copies the store, starts a daemon on it again and issues identifiers. Then puts the copy
/// in `back` and starts a daemon there. The copy must be refused, because a daemon has been started since the copy was
/// made.
async fn put_back(data: &Path, back: &Path, as_usual: impl Fn(&mut Command), then: impl Fn(&mut Command)) {
    let dir = data_dir();
    let kept = dir.path().join("kept");
    let start = |data: &Path, set: &dyn Fn(&mut Command)| {
        let mut command = kentd(data);
        set(&mut command);
        Daemon::try_spawn(command.stderr(Stdio::null()))
    };
    let daemon = start(data, &as_usual).expect("started");
    create(&daemon, "orders").await;
    daemon.kill();
    copy(data, &kept);
    let mut ledger = Ledger::default();
    let daemon = start(data, &as_usual).expect("started");
    take(&daemon, &mut ledger).await;
    daemon.kill();
    fs::remove_dir_all(data).expect("removed");
    copy(&kept, back);
    if let Some(daemon) = start(back, &then) {
        take(&daemon, &mut ledger).await;
        panic!("the old copy was started, and issued");
    }
}

/// If a copy of a running daemon's directory was made after the last start, it records the same number of starts as the
/// original.
#[tokio::test]
async fn err_a_copy_is_not_served_beside_its_original() {
    let dir = data_dir();
    let (data, beside) = (dir.path().join("data"), dir.path().join("beside"));
    let (of_service, of_user) = (dir.path().join("service"), dir.path().join("user"));
    for state in [&of_service, &of_user] {
        // In the last round the copy is started by hand, and the original by systemd.
        let daemon = Daemon::spawn(kentd(&data).env("STATE_DIRECTORY", &of_service));
        copy(&data, &beside);
        let mut command = kentd(&beside);
        let refused = command.env("STATE_DIRECTORY", state).output().expect("kentd ends");
        let said = said(&refused);
        let original = data.canonicalize().expect("a directory");
        let other = format!("another process serves (process {}, {})", daemon.pid(), original.display());
        assert!(!refused.status.success() && said.contains(&other), "{said}");
        daemon.kill();
        // The daemon's lock in the witness is released when the process ends.
        Daemon::spawn(kentd(&data).env("STATE_DIRECTORY", &of_service)).kill();
        fs::remove_dir_all(&beside).expect("removed");
    }
}

#[tokio::test]
async fn err_an_old_copy_is_refused_in_the_same_environment() {
    let dir = data_dir();
    let data = dir.path().join("data");
    put_back(&data, &data, |_| {}, |_| {}).await;
}

/// systemd sets `$STATE_DIRECTORY` for the service; an operator later starts the daemon by hand.
#[tokio::test]
async fn err_an_old_copy_is_refused_if_it_is_started_by_hand_and_not_by_systemd() {
    let dir = data_dir();
    let (data, state) = (dir.path().join("data"), dir.path().join("service"));
    let by_systemd = |command: &mut Command| _ = command.env("STATE_DIRECTORY", &state);
    put_back(&data, &data, by_systemd, |_| {}).await;
}

/// The operator omits `--witness` once.
#[tokio::test]
async fn err_an_old_copy_is_refused_if_the_witness_is_not_named_this_time() {
    let dir = data_dir();
    let (data, witness) = (dir.path().join("data"), dir.path().join("witness"));
    put_back(&data, &data, |command| _ = command.arg("--witness").arg(&witness), |_| {}).await;
}

/// A snapshot of the data disk is mounted next to the disk, and the daemon is started on the snapshot with unchanged
/// settings.
#[tokio::test]
async fn err_an_old_copy_is_refused_if_it_is_on_another_disk() {
    let (dir, other) = (data_dir(), tempfile::tempdir_in("/dev/shm").expect("another file system"));
    let (state, home) = (dir.path().join("service"), other.path().join("home"));
    let usual = |command: &mut Command| _ = command.env("STATE_DIRECTORY", &state).env("XDG_STATE_HOME", &home);
    put_back(&dir.path().join("data"), &other.path().join("snapshot"), usual, usual).await;
}

/// Starts a daemon on `data` several times, and issues identifiers each time. The first daemon creates the region.
/// Returns a copy of the store as it was after the first start.
async fn start_repeatedly(data: &Path, witness: &Path, starts: usize, ledger: &mut Ledger) -> PathBuf {
    let kept = data.with_file_name("copy");
    for start in 0..starts {
        let daemon = Daemon::spawn(kentd(data).arg("--witness").arg(witness));
        if start == 0 {
            create(&daemon, "orders").await;
        }
        take(&daemon, ledger).await;
        daemon.kill();
        if start == 0 {
            copy(data, &kept);
        }
    }
    kept
}

/// If an old copy began an archive, that archive would be mistaken for the archive of the newer store. A store restored
/// from it would issue identifiers that the newer store has already issued.
#[tokio::test]
async fn err_an_old_copy_begins_no_archive() {
    let dir = data_dir();
    let (data, witness, archive) = (dir.path().join("data"), dir.path().join("witness"), dir.path().join("archive"));
    fs::create_dir(&archive).expect("created");
    let mut ledger = Ledger::default();
    let kept = start_repeatedly(&data, &witness, 2, &mut ledger).await;
    let with_archive = |data: &Path| {
        let mut command = kentd(data);
        command.arg("--witness").arg(&witness).arg("--archive").arg(&archive);
        command
    };
    // The first refusal must not change the copy either.
    for command in [&mut with_archive(&kept), kentd(&kept).arg("--witness").arg(&witness)] {
        let refused = command.output().expect("kentd ends");
        assert!(!refused.status.success() && said(&refused).contains("is an old copy"), "{}", said(&refused));
        assert!(!said(&refused).contains("to the archive"), "{}", said(&refused));
    }
    let daemon = Daemon::spawn(&mut with_archive(&data));
    take(&daemon, &mut ledger).await;
    daemon.kill();
    let restored = dir.path().join("restored");
    let done = restore_archive(&archive, &restored);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::spawn(&mut with_archive(&restored));
    take(&daemon, &mut ledger).await;
}

/// While the witness is unavailable, an old copy begins an archive. Then the witness becomes available again.
#[tokio::test]
async fn err_the_archive_of_an_old_copy_is_not_restored() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let (data, witness, archive) = (at("data"), at("witness"), at("archive"));
    fs::create_dir(&archive).expect("created");
    let mut ledger = Ledger::default();
    let kept = start_repeatedly(&data, &witness, 3, &mut ledger).await;
    fs::rename(&witness, at("away")).expect("renamed");
    let (home, other) = (at("home"), at("other"));
    let mut command = kentd(&kept);
    command.env("HOME", &home).env("XDG_STATE_HOME", &home).arg("--witness").arg(&other).arg("--archive").arg(&archive);
    Daemon::spawn(&mut command).kill();
    fs::remove_dir_all(&witness).ok();
    fs::rename(at("away"), &witness).expect("renamed");
    let refused =
        kentd(&data).arg("--witness").arg(&witness).arg("--archive").arg(&archive).output().expect("kentd ends");
    let message = said(&refused);
    assert!(!refused.status.success() && message.contains("was started by another copy of this store"), "{message}");
    let refused = restore_archive(&archive, &at("restored"));
    let message = said(&refused);
    assert!(!refused.status.success() && message.contains("is that of an old copy: its start count is 2"), "{message}");
    // The newer store continues after its operator has moved the archive away, as the first message says.
    let own = fs::read_dir(&archive).expect("there").next().expect("an archive").expect("read").path();
    fs::rename(&own, own.with_extension("other")).expect("renamed");
    let daemon = Daemon::spawn(kentd(&data).arg("--witness").arg(&witness).arg("--archive").arg(&archive));
    take(&daemon, &mut ledger).await;
}

fn restore_archive(archive: &Path, into: &Path) -> Output {
    let mut command = Command::new(kentd_binary());
    keep_home(&mut command);
    command.arg("restore").arg("--archive").arg(archive).arg("--data").arg(into).arg("--yes");
    command.output().expect("the command runs")
}

/// A copy of the directory from before a move must be refused on the same machine. The daemon runs as a systemd
/// service, as in deploy/debian/kentd.service, and the operator runs `kentd migrate` in a shell.
#[tokio::test(flavor = "multi_thread")]
async fn err_an_old_copy_is_refused_after_a_move_that_was_made_by_hand() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let service = || {
        let mut command = kentd(&at("data"));
        command.env("STATE_DIRECTORY", format!("{}:{}", at("data").display(), at("service").display()));
        Daemon::try_spawn(command.stderr(Stdio::null()))
    };
    let daemon = service().expect("started");
    create(&daemon, "orders").await;
    daemon.kill();
    copy(&at("data"), &at("kept"));
    let etcd = Etcd::start(1);
    let mut command = Command::new(kentd_binary());
    keep_home(&mut command);
    let from = format!("sled:{}", at("data").display());
    let moved = command
        .args(["migrate", "--from", &from, "--to", &etcd.address("kent"), "--yes"])
        .output()
        .expect("the command runs");
    assert!(moved.status.success(), "{}", said(&moved));
    let mut ledger = Ledger::default();
    let replica = Daemon::spawn(kentd(&at("unused")).args(["--store", &etcd.address("kent")]));
    take(&replica, &mut ledger).await;
    fs::remove_dir_all(at("data")).expect("removed");
    copy(&at("kept"), &at("data"));
    if let Some(daemon) = service() {
        take(&daemon, &mut ledger).await;
        panic!("the old copy was started, and issued");
    }
}

/// The data disk is not mounted after a reboot, so its mount point is an empty directory. An archive detects the same
/// mistake.
#[tokio::test]
async fn err_an_empty_mount_point_is_not_a_new_store() {
    let dir = data_dir();
    let (data, state) = (dir.path().join("data"), dir.path().join("state"));
    let start = || Daemon::try_spawn(kentd(&data).env("XDG_STATE_HOME", &state).stderr(Stdio::null()));
    let mut ledger = Ledger::default();
    for round in 0..2 {
        let Some(daemon) = start() else { return assert_eq!(round, 1, "refused") };
        let reply = daemon.allocator().allocate(request("serial:INVOICE", 3, Encoding::Packed)).await.expect("granted");
        ledger.record("serial:INVOICE", identifiers(reply.get_ref()));
        daemon.kill();
        fs::rename(&data, dir.path().join(format!("unmounted-{round}"))).expect("moved");
        fs::create_dir(&data).expect("an empty mount point");
    }
}

/// If another process holds the lock on the witness, for example on a network share, the daemon must still stop on a
/// signal.
#[test]
fn ok_a_daemon_that_waits_for_its_witness_stops_on_a_signal() {
    let dir = data_dir();
    let (data, witness) = (dir.path().join("data"), dir.path().join("witness"));
    fs::create_dir(&witness).expect("created");
    let held = fs::File::create(witness.join("lock")).expect("created");
    held.lock().expect("locked");
    let mut waiting = kentd(&data).arg("--witness").arg(&witness).spawn().expect("the daemon runs");
    // The daemon listens for signals before it opens its store.
    while !data.join("db").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-TERM", &waiting.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    assert!(waiting.wait().expect("it ends").success());
}

#[test]
fn err_a_witness_inside_the_data_directory_is_refused() {
    let dir = data_dir();
    let data = dir.path().join("data");
    for run in ["new", "existing"] {
        let refused = kentd(&data).arg("--witness").arg(&data).output().expect("the daemon runs");
        let said = said(&refused);
        assert!(!refused.status.success() && said.contains("must be outside the data directory"), "{run}: {said}");
        Daemon::start(&data).kill();
    }
}
