//! Only the owner can read a store, its archive, its witness or a backup; a daemon changes no directory that is not a
//! store.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    backup::{restore, said},
    harness::{Daemon, copy_environment, kentd},
    operator::kent_binary,
};

/// Lists the files and directories at `path` and below that other users can access in any way.
fn open_to_others(path: &Path) -> Vec<PathBuf> {
    let metadata = fs::symlink_metadata(path).expect("there");
    let own = (metadata.permissions().mode() & 0o077 != 0).then(|| path.to_owned());
    let inner = metadata.is_dir().then(|| fs::read_dir(path).expect("a directory"));
    let inner = inner.into_iter().flatten().flat_map(|entry| open_to_others(&entry.expect("an entry").path()));
    own.into_iter().chain(inner).collect()
}

/// Runs a command in a shell with the usual permissive umask.
fn permissive(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    copy_environment(command, &mut shell);
    shell
}

#[test]
fn ok_only_the_owner_can_read_a_store_and_its_copies() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("archive")).expect("created");
    let mut command = kentd(&at("new/data"));
    command.arg("--archive").arg(at("archive")).arg("--witness").arg(at("witness"));
    let daemon = Daemon::spawn(&mut permissive(&command));
    let mut backup = Command::new(kent_binary());
    backup.arg("backup").arg(at("kent.backup")).env("KENT_ENDPOINT", daemon.grpc_address());
    // The part file of an interrupted backup. Other users can read the file.
    fs::write(at("kent.backup.part"), "").expect("written");
    let made = permissive(&backup).output().expect("kent runs");
    assert!(made.status.success(), "{}", said(&made));
    daemon.signal("TERM");
    drop(daemon);
    let restored = restore(&at("kent.backup"), &at("restored"), &["--yes"]);
    assert!(restored.status.success(), "{}", said(&restored));
    let archive = fs::read_dir(at("archive")).expect("there").next().expect("one").expect("an entry").path();
    for path in [at("new"), archive, at("witness"), at("kent.backup"), at("restored")] {
        assert_eq!(open_to_others(&path), [""; 0].map(PathBuf::from), "{}", path.display());
    }
}

#[test]
fn ok_a_store_that_others_could_read_is_closed_to_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    drop(Daemon::start(&data));
    for file in fs::read_dir(&data).expect("there").map(|entry| entry.expect("an entry").path()) {
        let mode = if file.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(file, Permissions::from_mode(mode)).expect("changed");
    }
    fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("changed");
    drop(Daemon::start(&data));
    assert_eq!(open_to_others(&data), [""; 0].map(PathBuf::from));
}

#[test]
fn err_a_directory_that_is_not_a_store_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("changed");
    fs::write(dir.path().join("passwd"), "root").expect("written");
    let refused = kentd(dir.path()).stdout(Stdio::piped()).output().expect("the command runs");
    assert!(!refused.status.success());
    let (text, path) = (said(&refused), dir.path().display());
    assert!(text.contains(&format!("{path} is not empty and is not a Kent store (it contains \"passwd\")")), "{text}");
    assert!(text.contains(&format!("such as {path}/kent")), "{text}");
    let names: Vec<_> =
        fs::read_dir(dir.path()).expect("there").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["passwd"]);
    assert_eq!(fs::metadata(dir.path()).expect("there").permissions().mode() & 0o777, 0o755);
    drop(Daemon::start(&dir.path().join("kent")));
}
