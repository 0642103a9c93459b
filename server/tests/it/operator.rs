//! Runs `kent` against a daemon.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

use super::harness::{Daemon, built, data_dir};

/// The binary `kent`.
pub(crate) fn kent_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built("kent"))
}

/// Isolates `kent` from the user's contexts and locale.
pub(crate) fn keep_settings(command: &mut Command) {
    for variable in ["KENT_SPACE", "KENT_REQUEST_TIMEOUT", "KENT_CONTEXT", "LC_ALL", "LC_CTYPE"] {
        command.env_remove(variable);
    }
    command.env("KENT_CLIENT_CONFIG", "/nonexistent/kent.toml").env("LANG", "C.UTF-8");
}

/// Runs `kent` with these arguments and this endpoint. Returns its exit code, standard output and standard error.
pub(crate) fn run_at(endpoint: &str, words: &str) -> (i32, String, String) {
    run_in(&[("KENT_ENDPOINT", endpoint)], words)
}

/// The command of `kent` with these environment variables and arguments.
pub(crate) fn kent_in(variables: &[(&str, &str)], words: &str) -> Command {
    let mut command = Command::new(kent_binary());
    command.args(words.split_whitespace());
    keep_settings(&mut command);
    command.env_remove("KENT_ENDPOINT").envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// Like [`run_at`], with these environment variables.
pub(crate) fn run_in(variables: &[(&str, &str)], words: &str) -> (i32, String, String) {
    let output = kent_in(variables, words).output().expect("kent runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// An operator with a daemon.
pub(crate) struct Operator {
    pub(crate) daemon: Daemon,
    _data: tempfile::TempDir,
}

impl Operator {
    pub(crate) fn new() -> Self {
        let data = data_dir();
        Self { daemon: Daemon::start(data.path()), _data: data }
    }

    /// Runs `kent` with these arguments. Returns its exit code, standard output and standard error.
    pub(crate) fn run(&self, words: &str) -> (i32, String, String) {
        run_at(self.daemon.grpc_address(), words)
    }

    /// The output of a command that must succeed, perhaps with warnings.
    #[track_caller]
    pub(crate) fn kent(&self, words: &str) -> String {
        let (code, stdout, stderr) = self.run(words);
        let errors: Vec<&str> = stderr.lines().filter(|line| !line.starts_with("warning: ")).collect();
        assert_eq!((code, errors.as_slice()), (0, &[][..]), "kent {words}");
        stdout
    }

    /// The error message of a command that the daemon must refuse with this reason.
    #[track_caller]
    pub(crate) fn refused(&self, words: &str, reason: &str) -> String {
        let (code, stdout, stderr) = self.run(words);
        assert_eq!((code, stdout.as_str()), (1, ""), "kent {words}");
        assert!(stderr.contains(reason), "kent {words}: {stderr}");
        stderr
    }

    /// The JSON object that a command prints.
    #[track_caller]
    pub(crate) fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.kent(&format!("{words} --json"))).expect("an object")
    }

    /// Allocates an identifier of a region, and returns it as a string of bits.
    #[track_caller]
    pub(crate) fn draw(&self, region: &str) -> String {
        let id: u128 = self.kent(&format!("alloc region:{region}")).trim().parse().expect("a decimal number");
        format!("{id:064b}")
    }
}
