//! Runs the commands that README and docs show against real daemons, and compares the output with the pages.
//!
//! A ```` ```console ```` block continues the session of the block before it. Lines that begin with `$ ` are commands,
//! which run in one directory and share exported variables. The other lines are the expected output. Values that differ
//! between runs, such as times, are masked, and the widths of columns are ignored.
//!
//! A page begins with a session that has one daemon. A comment from [`SESSIONS`] before a block begins another session.
//! A command `kentd` starts a daemon on free ports, which the other commands reach by the addresses on the page.

use std::{
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use kent_test_etcd::Etcd;
use regex::{Captures, Regex};

use super::{
    harness::{Daemon, data_dir, keep_home},
    operator::{keep_settings, kent_binary},
    python::python,
};

/// Patterns of output that differs between runs, and their replacements.
const MASKS: [(&str, &str); 26] = [
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
    (r"retry in [\d.]+ s", "retry in <n> s"),
    (r"issued for [\d.]+ s without", "issued for <n> s without"),
    (r"\d+ of [\d_]+ open files", "<files>"),
    (r"full in \d+ years", "full in <n> years"),
    (r"are allowed after [\d.]+ s$", "are allowed after <n> s"),
    // Output of restores.
    (r" records, \d+ B$", " records, <size>"),
    (r" -> [\d_]{6,}, [\d_]{6,} skipped$", " -> <number>, <number> skipped"),
    // The name of the user.
    (r"\b\w+ from 127\.0\.0\.1", "<name> from 127.0.0.1"),
    // Output about tokens.
    (r"\b[0-9a-f]{12}\b", "<token>"),
    // Output about the audit log.
    (r"127\.0\.0\.1:[3-6]\d{4}\b", "127.0.0.1:<port>"),
    (r"\s+", " "),
    (r" $", ""),
];

/// Commands whose output may match the page only after a moment, and the maximum number of times to run them. For
/// example, replicas discover each other, a busy disk becomes idle, or a daemon reads its certificates again.
const AWAITED: ([&str; 3], u32) = (["kent status", "kent doctor", "grep "], 30);

/// The directories that pages name. A session replaces them with directories inside its own directory.
const DIRS: [&str; 3] = ["/var/lib", "/run/kent", "/mnt/other"];

/// How a session begins.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    OneDaemon,
    NoDaemon,
    /// An etcd cluster without replicas.
    Etcd,
}

/// The comments that begin sessions.
const SESSIONS: [(&str, Start); 3] = [
    ("<!-- session: one daemon -->", Start::OneDaemon),
    ("<!-- session: no daemon -->", Start::NoDaemon),
    ("<!-- session: etcd -->", Start::Etcd),
];

/// A command on a page, with its line number and expected output.
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The sessions of a page, with their commands.
fn sessions(page: &str) -> Vec<(Start, Vec<Shown>)> {
    let mut found = vec![(Start::OneDaemon, Vec::<Shown>::new())];
    let mut inside = None;
    for (line, text) in page.lines().enumerate() {
        match inside {
            None if text.starts_with("```") => inside = Some(text == "```console"),
            None => {
                found.extend(SESSIONS.iter().find(|(comment, _)| *comment == text).map(|(_, start)| (*start, vec![])))
            }
            Some(_) if text == "```" => inside = None,
            Some(true) => {
                let (_, session) = found.last_mut().expect("never empty");
                match text.strip_prefix("$ ") {
                    Some(command) => {
                        session.push(Shown { line: line + 1, command: command.to_owned(), output: Vec::new() });
                    }
                    None => session.last_mut().expect("a command comes first").output.push(text.to_owned()),
                }
            }
            Some(false) => {
                let is_of_kent = ["kent ", "kentd ", "$ "].iter().any(|start| text.starts_with(start));
                assert!(!is_of_kent, "line {}: make it a console block, which is run: {text}", line + 1);
            }
        }
    }
    found.retain(|(_, session)| !session.is_empty());
    found
}

/// The shell that runs the commands of a session, and its daemons.
struct Shell {
    daemons: Vec<Daemon>,
    /// The addresses on the page, each with the real address.
    addresses: Vec<(String, String)>,
    dir: tempfile::TempDir,
}

impl Shell {
    fn new(etcd: Option<&Etcd>) -> Self {
        let dir = data_dir();
        let mut addresses = Vec::new();
        for shown in DIRS {
            let here = format!("{}{shown}", dir.path().display());
            fs::create_dir_all(&here).expect("a directory");
            addresses.push((shown.to_owned(), here));
        }
        let tools = dir.path().join("tools");
        fs::create_dir(&tools).expect("a directory");
        // This `sudo` ignores `-u USER` and runs the command as the user of the test.
        fs::write(tools.join("sudo"), "#!/bin/sh\nshift 2\nexec \"$@\"\n").expect("written");
        fs::set_permissions(tools.join("sudo"), fs::Permissions::from_mode(0o755)).expect("set");
        if let Some(etcd) = etcd {
            for shown in ["10.0.0.1:2379", "10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379"] {
                addresses.push((format!("etcd://{shown}/kent"), etcd.address("kent")));
            }
        }
        Self { daemons: Vec::new(), addresses, dir }
    }

    /// A shell command in the directory of the session.
    fn bash(&self, script: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(script).current_dir(self.dir.path()).stdin(Stdio::null());
        keep_home(&mut bash);
        keep_settings(&mut bash);
        let programs = kent_binary().parent().expect("in a directory").display();
        let inherited = std::env::var("PATH").expect("a path");
        bash.env("PATH", format!("{}/tools:{programs}:{inherited}", self.dir.path().display()));
        // Commands on the pages may write a contexts file.
        bash.env("KENT_CLIENT_CONFIG", self.dir.path().join("kent.toml")).env("KENT_PRINCIPAL", "ada");
        bash
    }

    /// Replaces the addresses of the page with the real ones.
    fn to_real(&self, command: &str) -> String {
        self.addresses.iter().fold(command.to_owned(), |command, (shown, here)| command.replace(shown, here))
    }

    /// Replaces the real addresses with those of the page.
    fn to_shown(&self, text: &str) -> String {
        self.addresses.iter().fold(text.to_owned(), |text, (shown, here)| text.replace(here, shown))
    }

    /// Starts a daemon on free ports. Returns what it prints.
    fn start(&mut self, command: &str) -> String {
        let mut command = command.replace("cargo run --release", "kentd");
        let mut shown = Vec::new();
        for (option, default) in
            [("--listen", "127.0.0.1:7600"), ("--http", "127.0.0.1:7601"), ("--redis", "127.0.0.1:6379")]
        {
            let given = Regex::new(&format!(r"{option} ([^ ,]+)")).expect("a pattern");
            if option == "--redis" && !given.is_match(&command) {
                continue;
            }
            let address = given.captures(&command).map_or(default, |found| found.get(1).expect("a group").as_str());
            shown.push(address.to_owned());
            let free = format!("{option} 127.0.0.1:0");
            command = match given.is_match(&command) {
                true => given.replace(&command, free).into_owned(),
                false => format!("{command} {free}"),
            };
        }
        let mut bash = self.bash(&format!("exec {} --log warn", self.to_real(&command)));
        let Some(daemon) = Daemon::try_spawn(&mut bash) else { return "the daemon does not start".to_owned() };
        self.addresses.retain(|(old, _)| !shown.contains(old));
        let redis = (shown.len() > 2).then(|| daemon.redis_address());
        let real = [daemon.grpc_address(), daemon.http_address()].into_iter().chain(redis).map(str::to_owned);
        self.addresses.extend(shown.into_iter().zip(real));
        let printed = self.to_shown(daemon.greeting());
        self.daemons.push(daemon);
        printed
    }

    /// Provides what the page's Python commands need: the program on the page, the .proto files and a virtual
    /// environment. Returns whether Python is installed.
    fn offer_python(&self, page: &str) -> bool {
        let Some(python) = python() else { return false };
        let (_, program) = page.split_once("```python\n").expect("a program");
        let (program, _) = program.split_once("```").expect("its end");
        let dir = self.dir.path();
        fs::write(dir.join("example.py"), self.to_real(program)).expect("written");
        let home = python.parent().and_then(Path::parent).expect("in an environment");
        symlink(home, dir.join("venv")).expect("a link");
        symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto"), dir.join("proto")).expect("a link");
        true
    }

    /// Runs a command. Returns what it prints.
    fn run(&mut self, command: &str) -> String {
        let is_daemon = command.starts_with("kentd ")
            && !["kentd restore ", "--check-config"].iter().any(|other| command.contains(other));
        if is_daemon || command == "cargo run --release" {
            return self.start(command);
        }
        if command == "sudo systemctl stop kentd" {
            self.daemons.clear();
            return String::new();
        }
        // Pass exported variables to the next command.
        let command = self.to_real(command);
        let script = format!("[ -f exported ] && . ./exported\n{{\n{command}\n}} 2>&1\nexport -p > exported");
        let mut bash = self.bash(&script);
        if let Some(daemon) = self.daemons.first() {
            bash.env("KENT_ENDPOINT", daemon.grpc_address());
        }
        self.to_shown(&String::from_utf8(bash.output().expect("bash runs").stdout).expect("UTF-8"))
    }
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
    let text = fs::read_to_string(page).expect("the page is read");
    let mut different = String::new();
    for (start, session) in sessions(&text) {
        let etcd = (start == Start::Etcd).then(|| Etcd::start(1));
        let mut shell = Shell::new(etcd.as_ref());
        if start == Start::OneDaemon {
            shell.start("kentd");
        }
        let has_python = text.contains("```python").then(|| shell.offer_python(&text));
        for Shown { line, command, output } in session {
            let is_made = ["cargo build ", "python3 -m venv "].iter().any(|start| command.starts_with(start));
            if is_made || (has_python == Some(false) && command.starts_with("venv/bin/python ")) {
                continue;
            }
            let expected = masked(output.iter().map(String::as_str));
            let mut found = masked(shell.run(&command).lines());
            let (awaited, tries) = AWAITED;
            for _ in 0..tries {
                if expected == found || !awaited.iter().any(|start| command.starts_with(start)) {
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
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let docs = fs::read_dir(root.join("docs")).expect("the docs exist");
    let pages = docs.map(|entry| entry.expect("an entry").path()).chain([root.join("README.md")]);
    let pages: Vec<PathBuf> =
        pages.filter(|page| page.extension().is_some_and(|extension| extension == "md")).collect();
    let different: String = pages.iter().map(|page| differences(page)).collect();
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
