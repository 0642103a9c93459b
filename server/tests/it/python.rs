//! A stock gRPC client: Python's grpcio, with stubs generated from the `.proto` files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use super::harness::{Daemon, data_dir};

#[test]
fn ok_pythons_stock_grpc_draws_valid_identifiers() {
    let Some(python) = python() else { return };
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/client.py");
    let ran = Command::new(python).arg(script).arg(daemon.grpc_address()).output().expect("the command runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("all checks passed"), "{said}");
}

/// Returns the interpreter of a virtual environment with all packages of `python/requirements.txt`. Without Python, says
/// that the test is skipped, and fails in CI.
pub(super) fn python() -> Option<PathBuf> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PYTHON.get_or_init(environment).clone();
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CI must have Python with venv and pip");
        println!("skipped: python3 with venv and pip is not installed");
    }
    found
}

/// Creates the virtual environment in the target directory, unless it is there with these requirements. Modules are
/// compiled only when they are imported, which takes half of the time.
fn environment() -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let (python, installed) = (home.join("bin/python"), home.join("installed"));
    let requirements = concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements.txt");
    let wanted = fs::read(requirements).expect("a file");
    if fs::read(&installed).is_ok_and(|found| found == wanted) {
        return Some(python);
    }
    let install = ["-m", "pip", "install", "--quiet", "--no-compile", "--requirement", requirements];
    let is_made = succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home))
        && succeeds(Command::new(&python).args(install));
    if !is_made {
        return None;
    }
    fs::write(installed, wanted).expect("written");
    Some(python)
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
