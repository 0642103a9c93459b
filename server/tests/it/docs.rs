//! Runs the commands that README and docs show against real daemons, and compares the output with the pages.
//!
//! A ```` ```console ```` block is a session. Lines that begin with `$ ` are commands, which run in one directory and share exported
//! variables. The other lines are the expected output. Times, random bits and the like are masked, and the widths of columns are
//! ignored. The comment `<!-- not run: why -->` before a block excludes it, and `<!-- run on replicas -->` runs it on two replicas.

use std::{
    fmt::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use kent_test_etcd::Etcd;
use regex::{Captures, Regex};

use super::{
    harness::{Daemon, data_dir, keep_home, kentd},
    operator::{keep_settings, kent_binary},
};

/// Patterns of output that differs between runs, and their replacements.
const MASKS: [(&str, &str); 21] = [
    ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b[0-9a-f]{32}\b", "<id>"),
    (r"^[0-9A-Za-z_~-]{11}$", "<uid11>"),
    (r"\bup \d+[a-z]+( \d+[a-z]+)*", "up <while>"),
    (r"\d+ commits, \d+ flushes", "<n> commits, <n> flushes"),
    // In the table of slots: slot, epoch, node, clock sequence, reserved until, window left.
    (r"^\d+ \d+ [0-9a-f]{12} \d+ <time> [\d.]+ s$", "<slot>"),
    // In the table of replicas: slot, reserved until, clock, heard, tables at.
    (r" \d+ <time> (-|[-+]?\d+ ms) (answers|[\d.]+ m?s ago) \d+ <id>$", " <replica>"),
    (r"^store (\w+) at \S+,", "store $1 at <place>,"),
    (r"^sled at \S+", "<place>"),
    // The output of `kent doctor`.
    (r"^clock ok [\d.]+ ms (ahead of|behind) this machine's clock \(± [\d.]+ ms\)", "clock ok <offset>"),
    (r"^disk ok \S+: a durable write of 4 KiB takes .* free$", "disk ok <disk>"),
    (r"^store ok sled, [\d.]+ MiB of which", "store ok sled, <size> of which"),
    (r"\d+ commits, \d+ conflicts$", "<n> commits, <n> conflicts"),
    (r"issued for [\d.]+ s without", "issued for <n> s without"),
    (r"\d+ of [\d_]+ open files", "<files>"),
    // The name of the user.
    (r" by \w+ from 127\.0\.0\.1", " by <name> from 127.0.0.1"),
    // Of tokens.
    (r"\b[0-9a-f]{12}\b", "<token>"),
    // Of the audit log.
    (r"127\.0\.0\.1:[3-6]\d{4}\b", "127.0.0.1:<port>"),
    (r"\s+", " "),
    (r" $", ""),
];

/// The number of times to run `kent status` or `kent doctor` until it matches the page.
const STATUS_TRIES: u32 = 30;

/// A command on a page, with its line number and expected output.
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The sessions of a page: whether they run on replicas, and their commands.
fn sessions(page: &str) -> Vec<(bool, Vec<Shown>)> {
    let (mut found, mut is_replicas, mut is_run) = (Vec::<(bool, Vec<Shown>)>::new(), false, true);
    let mut inside = None;
    for (line, text) in page.lines().enumerate() {
        match inside {
            None if text.starts_with("<!-- not run:") => is_run = false,
            None if text.starts_with("<!-- run on replicas") => is_replicas = true,
            None if text.starts_with("```") && text != "```" => {
                let is_session = text == "```console" && is_run;
                if is_session && found.last().is_none_or(|(replicas, _)| *replicas != is_replicas) {
                    found.push((is_replicas, Vec::new()));
                }
                (inside, is_run, is_replicas) = (Some(is_session), true, false);
            }
            Some(_) if text == "```" => inside = None,
            Some(true) => {
                let Some((_, session)) = found.last_mut() else { continue };
                match text.strip_prefix("$ ") {
                    Some(command) => {
                        session.push(Shown { line: line + 1, command: command.to_owned(), output: Vec::new() });
                    }
                    None => session.last_mut().expect("a command comes first").output.push(text.to_owned()),
                }
            }
            _ => {}
        }
    }
    found
}

/// The shell that runs the commands of a page.
struct Shell {
    dir: tempfile::TempDir,
    /// Addresses on the page, and the real addresses.
    addresses: Vec<(String, String)>,
}

impl Shell {
    fn run(&self, command: &str) -> String {
        let mut command = command.to_owned();
        for (shown, here) in &self.addresses {
            command = command.replace(shown, here);
        }
        // Pass exported variables to the next command.
        let script = format!("[ -f exported ] && . ./exported\n{{\n{command}\n}} 2>&1\nexport -p > exported");
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(script).current_dir(self.dir.path()).stdin(Stdio::null());
        keep_home(&mut bash);
        keep_settings(&mut bash);
        // The pages may write a contexts file.
        bash.env("KENT_CLIENT_CONFIG", self.dir.path().join("kent.toml"));
        bash.env("PATH", path()).env("KENT_PRINCIPAL", "ada").env("KENT_ENDPOINT", &self.addresses[0].1);
        let mut text = String::from_utf8(bash.output().expect("bash runs").stdout).expect("UTF-8");
        for (shown, here) in &self.addresses {
            text = text.replace(here, shown);
        }
        text
    }
}

/// The search path, with the programs of this build first.
fn path() -> String {
    let dir = kent_binary().parent().expect("in a directory").display();
    format!("{dir}:{}", std::env::var("PATH").expect("a path"))
}

fn masked<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<String> {
    let masks = MASKS.map(|(pattern, mask)| (Regex::new(pattern).expect("a pattern"), mask));
    let plain = |line: &str| {
        // Collapse spaces before and after masking, because column widths depend on the masked text.
        let spaces = Regex::new(r"\s+").expect("a pattern");
        let line = spaces.replace_all(line.trim(), " ").into_owned();
        masks.iter().fold(line, |line, (pattern, mask)| {
            pattern
                .replace_all(&line, |found: &Captures<'_>| {
                    let mut text = String::new();
                    found.expand(mask, &mut text);
                    text
                })
                .into_owned()
        })
    };
    lines.map(plain).filter(|line| !line.is_empty()).collect()
}

/// Runs the commands of a page, and describes all differences.
fn differences(page: &Path) -> String {
    let text = std::fs::read_to_string(page).expect("the page is read");
    let mut different = String::new();
    for (is_replicas, session) in sessions(&text) {
        let etcd = is_replicas.then(|| Etcd::start(1));
        let (data, dir) = (data_dir(), data_dir());
        let start = |at: usize| match &etcd {
            Some(etcd) => {
                Daemon::spawn(kentd(&data.path().join(at.to_string())).args(["--store", &etcd.address("kent")]))
            }
            None => {
                let mut command = kentd(&data.path().join("kent-data"));
                Daemon::spawn(command.arg("--audit").arg(dir.path().join("audit.jsonl")))
            }
        };
        let daemons: Vec<Daemon> = (0..if is_replicas { 2 } else { 1 }).map(start).collect();
        let shown = if is_replicas { &["127.0.0.1:7610", "127.0.0.1:7620"][..] } else { &["127.0.0.1:7600"] };
        let addresses = shown.iter().zip(&daemons);
        let addresses = addresses.map(|(shown, daemon)| ((*shown).to_owned(), daemon.grpc_address().to_owned()));
        let http = daemons.iter().map(|daemon| ("127.0.0.1:7601".to_owned(), daemon.http_address().to_owned()));
        let addresses = addresses.chain(http);
        let socket = data.path().join("kent-data/kent.sock").display().to_string();
        let addresses = addresses.chain([("kent-data/kent.sock".to_owned(), socket)]);
        let shell = Shell { addresses: addresses.collect(), dir };
        for Shown { line, command, output } in session {
            if command.starts_with("cargo ") {
                continue;
            }
            let expected = masked(output.iter().map(String::as_str));
            let mut found = masked(shell.run(&command).lines());
            // Replicas take a moment to discover each other, and a busy disk takes a moment to become idle.
            for _ in 0..STATUS_TRIES {
                if expected == found || !["kent status", "kent doctor"].contains(&&*command) {
                    break;
                }
                thread::sleep(Duration::from_millis(500));
                found = masked(shell.run(&command).lines());
            }
            if expected != found {
                let (expected, found) = (expected.join("\n  "), found.join("\n  "));
                // OK because writing to a string cannot fail.
                let _ = writeln!(
                    different,
                    "{}:{line}: $ {command}\n  {expected}\nbut it prints:\n  {found}\n",
                    page.display()
                );
            }
        }
    }
    different
}

#[test]
fn ok_pages_show_the_real_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let docs = std::fs::read_dir(root.join("docs")).expect("the docs exist");
    let pages = docs.map(|entry| entry.expect("an entry").path()).chain([root.join("README.md")]);
    let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let different: String = pages.map(|page| differences(&page)).collect();
    assert!(different.is_empty(), "{different}");
}

#[test]
fn ok_output_that_differs_between_runs_is_masked() {
    let shown =
        ["   0      1  23ebdd62c6c0       9665  2026-11-21T03:32:10.000Z      2.706 s", "5cnAeaYtqsZ", "", "a  b"];
    assert_eq!(masked(shown.into_iter()), ["<slot>", "<uid11>", "a b"]);
    let replica =
        "127.0.0.1:7620  0.1.0  1  2026-11-21T09:32:26.000Z  -1 ms  4.9 s ago  4  c1452c9f650ee6d470343d85b98f5550";
    assert_eq!(masked([replica].into_iter()), ["127.0.0.1:7620 0.1.0 <replica>"]);
}
