//! A stock gRPC client that is not ours: Python's grpcio, with stubs that it generates from the `.proto` files.

use std::{path::Path, process::Command};

use super::harness::{Daemon, data_dir};

/// The interpreter that `.ci/run` sets up with grpcio; without it the test says so and passes.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python/bin/python");

#[test]
fn ok_pythons_stock_grpc_draws_valid_identifiers() {
    if !Path::new(PYTHON).exists() {
        println!("skipped: {PYTHON} is not there; .ci/run makes it");
        return;
    }
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/client.py");
    let ran = Command::new(PYTHON).arg(script).arg(daemon.grpc_address()).output().expect("it ran");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("all checks passed"), "{said}");
}
