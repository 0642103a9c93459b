//! A stock gRPC client: Python's grpcio, with stubs generated from the `.proto` files.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::harness::{Daemon, data_dir};

/// The packages in the virtual environment of the test.
const PACKAGES: [&str; 3] = ["grpcio==1.76.0", "grpcio-tools==1.76.0", "grpcio-reflection==1.76.0"];

#[test]
fn ok_pythons_stock_grpc_draws_valid_identifiers() {
    let Some(python) = python() else {
        assert!(std::env::var_os("CI").is_none(), "CI must have Python with venv and pip");
        println!("skipped: python3 with venv and pip is not installed");
        return;
    };
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/client.py");
    let ran = Command::new(python).arg(script).arg(daemon.grpc_address()).output().expect("the command runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("all checks passed"), "{said}");
}

/// A virtual environment with grpcio in the target directory, created on first use.
pub(super) fn python() -> Option<PathBuf> {
    environment("python", "import grpc_tools, grpc_reflection", &PACKAGES)
}

/// Returns the Python interpreter of a virtual environment in the target directory. If `check` fails, creates the
/// environment and runs `pip install` in it with `arguments`. Modules are compiled only when they are imported, which takes
/// half of the time.
pub(super) fn environment(name: &str, check: &str, arguments: &[&str]) -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = home.join("bin/python");
    let is_complete = || succeeds(Command::new(&python).args(["-c", check]));
    if is_complete() {
        return Some(python);
    }
    let made = succeeds(Command::new("python3").args(["-m", "venv"]).arg(&home))
        && succeeds(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-compile"]).args(arguments));
    (made && is_complete()).then_some(python)
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
