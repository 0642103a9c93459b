//! Tests of the allowed dependencies between the crates of the workspace (see ARCHITECTURE.md).

use std::{collections::BTreeSet, fs, path::Path};

/// Every crate of the workspace, its directory, and the workspace crates on which it may depend.
pub(crate) const CRATES: [(&str, &str, &[&str]); 21] = [
    ("kent-ids", "crates/ids", &[]),
    ("kent-regions", "crates/regions", &["kent-ids"]),
    ("kent-issue", "crates/issue", &["kent-ids", "kent-regions"]),
    ("kent-access", "crates/access", &["kent-ids"]),
    ("kent-codec", "crates/codec", &["kent-ids", "kent-regions"]),
    ("kent-store", "crates/store", &["kent-tls"]),
    ("kent-proto", "proto", &["kent-access", "kent-ids", "kent-issue", "kent-regions"]),
    ("kent-client", "client", &["kent-ids", "kent-proto", "kent-regions", "kent-tls"]),
    ("kent-cli", "crates/cli", &["kent-access", "kent-client", "kent-codec", "kent-ids", "kent-proto", "kent-tls"]),
    (
        "kent-bench",
        "crates/bench",
        &["kent-client", "kent-ids", "kent-issue", "kent-regions", "kent-store", "kent-test-etcd", "kent-tls", "kentd"],
    ),
    ("kent-sim", "crates/sim", &["kent-ids", "kent-issue", "kent-proto", "kent-regions", "kent-store", "kentd"]),
    ("kent-tls", "crates/tls", &[]),
    ("kent-test-etcd", "crates/test-etcd", &[]),
    ("kent-xtask", "crates/xtask", &["kent-regions"]),
    ("kent-conformance", "sdk/conformance", &["kent-client", "kent-ids", "kent-proto"]),
    ("kent-fuzz", "crates/fuzz", &["kent-codec", "kent-ids", "kent-proto", "kent-regions"]),
    (
        "kent-engine",
        "crates/engine",
        &[
            "kent-access",
            "kent-codec",
            "kent-ids",
            "kent-issue",
            "kent-proto",
            "kent-regions",
            "kent-store",
            "kent-tls",
        ],
    ),
    (
        "kent-transport",
        "crates/transport",
        &["kent-access", "kent-engine", "kent-ids", "kent-proto", "kent-store", "kent-tls"],
    ),
    (
        "kent-http",
        "crates/http",
        &["kent-access", "kent-codec", "kent-engine", "kent-ids", "kent-proto", "kent-transport"],
    ),
    ("kent-redis", "crates/redis", &["kent-engine", "kent-ids", "kent-proto", "kent-transport"]),
    (
        "kentd",
        "server",
        &[
            "kent-access",
            "kent-codec",
            "kent-engine",
            "kent-http",
            "kent-ids",
            "kent-issue",
            "kent-proto",
            "kent-redis",
            "kent-regions",
            "kent-store",
            "kent-tls",
            "kent-transport",
        ],
    ),
];

/// A published crate contains only its own files, so its build script finds no others.
#[test]
fn ok_build_scripts_read_only_files_of_their_crate() {
    let mut scripts = 0;
    for (name, folder, _) in CRATES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("the manifest exists");
        if manifest.contains("publish = false") {
            continue;
        }
        if let Ok(script) = fs::read_to_string(folder.join("build.rs")) {
            scripts += 1;
            assert!(!script.contains("../"), "{name}");
        }
    }
    assert!(scripts > 0);
}

/// Dependencies that the pure crates must not have.
const IMPURE: [&str; 6] = ["tokio", "rand", "tonic", "sled", "tracing", "async-trait"];

#[test]
fn ok_every_crate_has_exactly_its_allowed_dependencies() {
    for (name, folder, allowed) in CRATES {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("the manifest exists");
        let manifest: toml::Table = text.parse().expect("a manifest");
        let named = manifest["package"]["name"].as_str();
        assert_eq!(named, Some(name), "{folder}");
        let empty = toml::Table::new();
        let dependencies = manifest.get("dependencies").and_then(|table| table.as_table()).unwrap_or(&empty);
        let crates: BTreeSet<&str> =
            dependencies.keys().map(String::as_str).filter(|key| key.starts_with("kent")).collect();
        assert_eq!(crates, allowed.iter().copied().collect(), "the dependencies of {name} differ from the table");
        if matches!(name, "kent-ids" | "kent-regions" | "kent-issue" | "kent-access" | "kent-codec") {
            let impure = dependencies.keys().find(|key| IMPURE.contains(&key.as_str()));
            assert_eq!(impure, None, "{name} must stay pure");
        }
    }
}

#[test]
fn ok_the_table_has_every_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = fs::read_dir(root.join("crates")).expect("crates").map(|entry| entry.expect("a package").file_name());
    for package in crates {
        let folder = format!("crates/{}", package.to_string_lossy());
        assert!(CRATES.iter().any(|(_, known, _)| *known == folder), "{folder} is not in the table of crates");
    }
}
