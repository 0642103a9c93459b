//! Runs the binary and captures its output.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

/// The exit code and the output of a run.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `kent` with these arguments, split at spaces, in a clean environment.
pub(crate) fn kent(arguments: &str) -> Run {
    kent_with(arguments, "")
}

/// Runs `kent` with this standard input.
pub(crate) fn kent_with(arguments: &str, input: &str) -> Run {
    let mut command = command();
    command.args(arguments.split_whitespace());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kent starts");
    let mut stdin = child.stdin.take().expect("piped");
    let output = thread::scope(|scope| {
        // OK because kent may exit before it reads all of its input.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().expect("kent exits")
    });
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    }
}

/// Returns a command for the binary that cargo built, without the caller's settings.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kent"));
    for variable in
        ["KENT_ENDPOINT", "KENT_SPACE", "KENT_REQUEST_TIMEOUT", "KENT_CONTEXT", "CLICOLOR_FORCE", "LC_ALL", "LC_CTYPE"]
    {
        command.env_remove(variable);
    }
    command.env("KENT_CLIENT_CONFIG", "/nonexistent/kent.toml").env("LANG", "C.UTF-8");
    command
}

/// Parses text that has one JSON object per line.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a JSON object")).collect()
}
