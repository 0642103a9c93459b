//! Runs the binary `kentd`, so that cargo builds it for the end-to-end tests.

use std::process::Command;

#[test]
fn ok_the_binary_states_its_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_kentd")).arg("--version").output().expect("kentd runs");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), concat!("kentd ", env!("CARGO_PKG_VERSION"), "\n"));
}
