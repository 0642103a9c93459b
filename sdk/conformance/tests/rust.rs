//! Runs all cases against the Rust client.

use std::process::Command;

#[test]
fn ok_the_rust_client_passes_all_cases() {
    let kit = Command::new(env!("CARGO_BIN_EXE_kent-conformance"))
        .args(["--jobs", "4", "--", env!("CARGO_BIN_EXE_kent-conformance-rust")])
        .output()
        .expect("the kit starts");
    let told = String::from_utf8_lossy(&kit.stdout);
    assert!(kit.status.success() && told.ends_with(" passed, 0 failed, 0 skipped\n"), "{told}");
}

#[test]
fn err_an_adapter_that_is_no_adapter() {
    for (command, expected) in [
        ("true", "the adapter closed its output"),
        ("/absent/adapter", "/absent/adapter cannot be started"),
        ("yes", "the first line is not a `hello` message"),
    ] {
        let kit = Command::new(env!("CARGO_BIN_EXE_kent-conformance"))
            .args(["--only", "sealed", "--", command])
            .output()
            .expect("the kit starts");
        let told = String::from_utf8_lossy(&kit.stdout);
        assert!(told.contains(expected) && told.ends_with("0 passed, 1 failed, 0 skipped\n"), "{told}");
        assert_eq!(kit.status.code(), Some(1));
    }
}

#[test]
fn err_arguments() {
    for (arguments, expected) in [
        (&["--only", "no-such-case", "--", "true"][..], "no case name contains no-such-case; --list shows all cases"),
        (&[][..], "ADAPTER"),
        (&["--jobs", "0", "--", "true"][..], "--jobs"),
    ] {
        let kit =
            Command::new(env!("CARGO_BIN_EXE_kent-conformance")).args(arguments).output().expect("the kit starts");
        let told = String::from_utf8_lossy(&kit.stderr);
        assert!(told.contains(expected) && kit.status.code() == Some(2), "{told}");
    }
}
