//! `cargo xtask`: runs the checks that a change must pass, and generates code, pages and figures.

mod api;
mod figure;
mod methods;
mod pages;
mod protocol;

use std::{path::Path, process::Command};

use anyhow::{Context, ensure};
use clap::Parser;

/// Run common development commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Args {
    /// Run all tests, or the tests of PACKAGE, optionally only those with FILTER in their names
    Test {
        /// Package, such as `kent-regions`
        package: Option<String>,
        /// Part of a test's name, such as `cluster::`
        filter: Option<String>,
    },
    /// Check the formatting, then run clippy and build the documentation, with warnings as errors
    Lint,
    /// Generate the Rust code and docs/api.md from the .proto files, and the figures from the prefix table
    Generate,
    /// Check licenses, sources and bans of dependencies (needs `cargo install cargo-deny`)
    Deny,
    /// Run all checks that a change must pass, like continuous integration: `.ci/run`
    Ci,
    /// Make a release in target/release-VERSION: programs, packages, SBOM, notes and checksums (`deploy/release`, as root)
    Release {
        /// Directory of prebuilt programs [default: build them with the profile `dist`]
        bin: Option<String>,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse() {
        Args::Test { package: None, .. } => cargo(&["test", "--release", "--workspace"]),
        Args::Test { package: Some(package), filter } => {
            let mut args = vec!["test", "--release", "--package", &package];
            args.extend(filter.as_deref());
            cargo(&args)
        }
        Args::Lint => {
            cargo(&["fmt", "--all", "--check"])?;
            cargo(&["clippy", "--release", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
            run(Command::new("cargo")
                .args(["doc", "--release", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings"))
        }
        Args::Generate => {
            protocol::write(root())?;
            pages::write()
        }
        Args::Deny => cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]),
        Args::Ci => run(&mut Command::new(".ci/run")),
        Args::Release { bin } => run(Command::new("deploy/release").args(bin)),
    }
}

fn cargo(args: &[&str]) -> anyhow::Result<()> {
    run(Command::new("cargo").args(args))
}

/// Runs a command at the root of the repository. Its output goes to the output of this process.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = format!("{command:?}");
    let status = command.current_dir(root()).status().with_context(|| format!("{name} cannot be started"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
