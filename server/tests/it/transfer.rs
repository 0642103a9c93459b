//! `kent table export` and `import`: an imported table issues no identifier that the exported one has issued.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use super::{
    backup::{restore, said},
    harness::{Daemon, data_dir},
    operator::{Operator, kent_binary, run_at},
};

/// Edits that create regions of all kinds, and grants from each region that can issue.
const TABLE: [&str; 18] = [
    "region create r1 --prefix 101101 --suffix 50",
    "alloc region:r1 -n 3",
    "region expand r1 --by 2",
    "region split r1 --by 2 --new r3:53 --new r4:56:10",
    "region create orders --suffix 40",
    "region subdivide orders --by 2 --new eu:30:01 --new us:30:10",
    "alloc region:orders -n 7",
    "alloc region:us -n 5",
    "region create shut --suffix 20",
    "region subdivide shut --by 1 --new none:20:0 --new all:20:1",
    "region create invoices --suffix 32 --pace 1000",
    "region set invoices --strict --owner finance --label tier=gold",
    "alloc region:invoices -n 2",
    "region create mixed --suffix 30 --order scrambled",
    "alloc region:mixed -n 100",
    "region create employees --suffix 20 --order external",
    "region create emea --suffix 30",
    "region delegate emea",
];

const SOURCES: [&str; 5] = ["r1", "orders", "us", "invoices", "mixed"];

/// The regions of `TABLE` and `MORE` that issue identifiers.
const ALL_SOURCES: [&str; 8] = ["r1", "orders", "us", "invoices", "mixed", "first", "w1", "w99"];

fn table(operator: &Operator, dir: &Path) -> (String, Vec<Value>) {
    let (code, export, stderr) = operator.run("table export");
    let says = export.lines().any(|line| line.contains("\"delegated\":true"));
    assert_eq!((code, stderr.contains("kent table export --space default/")), (0, says), "{stderr}");
    let file = dir.join("table.jsonl");
    fs::write(&file, &export).expect("written");
    (file.to_str().expect("UTF-8").to_owned(), lines(&export))
}

fn lines(export: &str) -> Vec<Value> {
    export.lines().map(parse).collect()
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).expect("an object")
}

/// The command that a message suggests, without `kent`.
fn suggested(message: &str) -> &str {
    message.split('`').nth(1).and_then(|command| command.strip_prefix("kent ")).expect("a command of kent")
}

/// The former prefixes of a region.
fn former<'l>(lines: &'l [Value], region: &str) -> Vec<&'l str> {
    let line = lines.iter().find(|line| line["name"] == region).expect("the region");
    let former = line["former_prefixes"].as_array().expect("a list");
    former.iter().map(|former| former["prefix"].as_str().expect("a prefix")).collect()
}

#[test]
fn ok_an_imported_table_equals_the_exported_one_and_continues_its_counters() {
    let (here, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    let issued = TABLE.iter().map(|words| here.kent(words)).collect::<String>();
    let issued: BTreeSet<&str> = issued.lines().collect();
    here.kent("region seal us");
    let (file, mut exported) = table(&here, dir.path());
    assert_eq!(exported[0]["format"], "kent-table");

    let there = Operator::new();
    there.kent(&format!("table import {file} --yes"));
    let mut imported = table(&there, dir.path()).1;
    for header in [&mut exported[0], &mut imported[0]] {
        header["revision"] = json!(0);
    }
    assert_eq!(imported, exported);
    assert_eq!(former(&imported, "r1"), ["101101"]);
    let history: Vec<Value> = there.kent("region history r1 --json").lines().map(parse).collect();
    assert_eq!((history.len(), &history[0]["operation"]), (1, &json!("import")), "one commit");
    // An identifier that was issued before the split.
    let found = there.kent("classify 12970366926827028480");
    assert!(found.contains("when the prefix was 101101"), "{found}");

    there.kent("region unseal us");
    for source in SOURCES {
        let ids = there.kent(&format!("alloc region:{source} -n 50"));
        assert!(ids.lines().all(|id| !issued.contains(id)), "{source}");
    }
    there.kent("region seal us");
    let again = there.kent(&format!("table import {file} --yes"));
    assert!(again.starts_with("0 to create"), "{again}");
}

/// After a restore, only the operator knows the last invoice number. An import must not treat the number in the backup
/// as known.
#[test]
fn err_a_region_that_needs_a_floor_needs_one_after_an_import() {
    let (operator, dir) = (Operator::new(), data_dir());
    let at = |name: &str| dir.path().join(name);
    operator.kent("region create invoices --suffix 20");
    operator.kent("region set invoices --strict");
    operator.kent("alloc region:invoices -n 3");
    operator.kent(&format!("backup {}", at("backup").display()));
    let lost = operator.kent("alloc region:invoices -n 5");
    drop(operator);
    let done = restore(&at("backup"), &at("new"), &["--yes", "--table-unchanged", "--clock-error", "0s"]);
    assert!(done.status.success(), "{}", said(&done));
    let restored = Daemon::start(&at("new"));
    let (code, export, stderr) = run_at(restored.grpc_address(), "table export");
    assert_eq!(code, 0, "{stderr}");
    fs::write(at("table.jsonl"), &export).expect("written");
    drop(restored);

    let there = Operator::new();
    let shown = there.kent(&format!("table import {} --yes", at("table.jsonl").display()));
    let (code, issued, stderr) = there.run("alloc region:invoices");
    assert!(code != 0, "issued {issued} although {lost} were issued");
    there.kent(&suggested(&shown).replace("--next N", "--next 8"));
    assert!(stderr.contains("FLOOR_UNKNOWN"), "{stderr}");
    let issued = there.kent("alloc region:invoices -n 5");
    assert!(issued.lines().all(|id| lost.lines().all(|lost| lost != id)), "{issued}");
}

#[test]
fn err_a_table_of_another_width_is_not_imported() {
    let (operator, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    operator.kent("region create orders --prefix 01 --suffix 10");
    let (file, _) = table(&operator, dir.path());
    operator.kent("space create narrow --bits 32");
    let (code, stdout, stderr) = operator.run(&format!("table import {file} --space narrow --yes"));
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("a space of 64 bits (default), but narrow has 32"), "{stderr}");
    operator.kent(suggested(&stderr));
    operator.kent(&format!("table import {file} --space narrow-64 --yes"));
    assert_eq!(lines(&operator.kent("table export --space narrow")).len(), 1, "the header only");

    let (_, _, stderr) = operator.run(&format!("table import {file} --space missing --yes"));
    operator.kent(suggested(&stderr));
    operator.kent(&format!("table import {file} --space missing --yes"));
    assert_eq!(lines(&operator.kent("table export --space missing")).len(), 2);
}

#[test]
fn err_an_old_revision_without_counters_needs_unissued() {
    let (operator, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    operator.kent("region create orders --prefix 01 --suffix 10");
    operator.kent("space create copy --bits 64");
    let file = dir.path().join("past.jsonl");
    fs::write(&file, operator.kent("table export --at 1")).expect("written");
    let import = format!("table import {} --space copy --yes", file.display());
    let (code, _, stderr) = operator.run(&import);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("lacks the counter of region \"orders\"; add --unissued"), "{stderr}");
    operator.kent(&format!("{import} --unissued"));
    assert_eq!(lines(&operator.kent("table export --space copy"))[1]["reserved"], "0");
}

/// A proxy between `kent` and a daemon. It forwards a given number of calls, and closes the connection at the next one.
struct Interrupter {
    address: SocketAddr,
    /// The number of calls still to forward; negative after a call was not forwarded.
    left: Arc<AtomicI64>,
}

impl Interrupter {
    fn after(calls: i64, daemon: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let (address, daemon) = (listener.local_addr().expect("an address"), daemon.to_owned());
        let left = Arc::new(AtomicI64::new(calls));
        let counted = left.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(daemon) = TcpStream::connect(&daemon) else { return };
                let (mut from, mut to) = (daemon.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                });
                let counted = counted.clone();
                thread::spawn(move || {
                    let _ = pass(&client, &daemon, &counted);
                    for side in [client, daemon] {
                        let _ = side.shutdown(Shutdown::Both);
                    }
                });
            }
        });
        Self { address, left }
    }
}

/// Forwards a client's HTTP/2 frames until its calls reach the limit. Each call begins with a HEADERS frame.
fn pass(mut client: &TcpStream, mut daemon: &TcpStream, left: &AtomicI64) -> std::io::Result<()> {
    const HEADERS: u8 = 1;
    let mut preface = [0; 24];
    client.read_exact(&mut preface)?;
    daemon.write_all(&preface)?;
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head)?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        if head[3] == HEADERS && left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Ok(());
        }
        let mut frame = head.to_vec();
        client.take(len.into()).read_to_end(&mut frame)?;
        daemon.write_all(&frame)?;
    }
}

/// More edits, which create and change regions inside other regions.
const MORE: [&str; 9] = [
    "region set shut --owner ops",
    "region set none --auto-expand 80:1:25 --label tier=gold",
    "alloc region:none -n 9",
    "region set orders --auto-expand 90:1:41",
    "region subdivide none --by 1 --new first:20:0 --new second:10:1",
    "region set first --cap 1000 --owner first",
    "region seal eu",
    "region create wide --suffix 20",
    "alloc region:wide -n 5",
];

/// An edit that adds subregions of `wide` with these numbers.
fn widen(numbers: std::ops::Range<u32>) -> String {
    numbers.fold("region subdivide wide --by 8".to_owned(), |edit, number| {
        format!("{edit} --new w{number}:10:{number:08b}")
    })
}

#[test]
fn ok_an_interrupted_import_is_finished_by_the_next_and_issues_no_duplicates() {
    let (here, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    let mut issued = TABLE.iter().chain(&MORE).map(|words| here.kent(words)).collect::<String>();
    // Make more regions than one commit can create.
    [widen(1..50), widen(50..100)].iter().for_each(|edit| drop(here.kent(edit)));
    issued.push_str(&here.kent("alloc region:w99 -n 3"));
    let issued: BTreeSet<&str> = issued.lines().filter(|line| line.bytes().all(|byte| byte.is_ascii_digit())).collect();
    let (file, exported) = table(&here, dir.path());
    let comparable = |lines: &[Value]| -> Vec<Value> {
        let mut lines = lines[1..].to_vec();
        for line in &mut lines {
            // The requests below move the counters.
            line["reserved"] = json!("0");
        }
        lines
    };
    let there = Operator::new();
    let draw = |space: &str, when: &str| {
        for source in ALL_SOURCES {
            let (_, ids, _) = there.run(&format!("alloc region:{source}@{space}"));
            assert!(ids.lines().all(|id| !issued.contains(id)), "{source} {when} issued {ids} again");
        }
    };
    for calls in 0.. {
        let (space, when) = (format!("after-{calls}"), format!("after {calls} calls"));
        there.kent(&format!("space create {space} --bits 64"));
        let import = format!("table import {file} --space {space} --yes");
        let interrupter = Interrupter::after(calls, there.daemon.grpc_address());
        let mut interrupted = Command::new(kent_binary());
        interrupted.args(import.split_whitespace()).env("KENT_ENDPOINT", interrupter.address.to_string());
        let interrupted = interrupted.stdin(Stdio::null()).output().expect("kent runs");
        draw(&space, &when);
        there.kent(&import);
        let again = there.kent(&import);
        assert_eq!(again, format!("0 to create, {} already present\n", exported.len() - 1), "{when}");
        let imported = lines(&there.run(&format!("table export --space {space}")).1);
        assert_eq!(comparable(&imported), comparable(&exported), "{when}");
        draw(&space, &format!("imported again {when}"));
        if interrupter.left.load(Ordering::SeqCst) >= 0 {
            assert!(interrupted.status.success(), "{}", String::from_utf8_lossy(&interrupted.stderr));
            assert!(calls >= 5, "the import took {calls} calls");
            return;
        }
        let said = String::from_utf8(interrupted.stderr).expect("UTF-8");
        assert!(!interrupted.status.success(), "{when}");
        assert!(calls < 3 || said.contains("import the file again to continue"), "{when}: {said}");
    }
}

#[test]
fn ok_a_dry_run_shows_the_commits_and_changes_nothing() {
    let (here, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    here.kent("region create wide --prefix 01 --suffix 20");
    here.kent(&widen(1..50));
    let (file, _) = table(&here, dir.path());
    let there = Operator::new();
    let plan = there.kent(&format!("table import {file} --dry-run"));
    assert!(plan.starts_with("+ wide 01 s 20 partial\n+ w1 "), "{plan}");
    let says = "50 to create in 2 commits, 0 already present\none commit creates at most 48 regions: if the import is interrupted, \
                import the file again to continue it\ndry run: nothing was changed\n";
    assert!(plan.ends_with(says), "{plan}");
    assert_eq!(lines(&there.kent("table export")).len(), 1);
    let done = there.kent(&format!("table import {file} --yes --json"));
    assert_eq!((parse(&done)["create"].as_u64(), parse(&done)["revision"].as_u64()), (Some(50), Some(2)), "{done}");
}

#[test]
fn err_a_file_that_cannot_be_read_is_named() {
    let operator = Operator::new();
    for (file, says) in [("/nonexistent", "/nonexistent"), ("/tmp", "/tmp")] {
        let (code, _, stderr) = operator.run(&format!("table import {file} --yes"));
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(says) && !stderr.contains("standard input"), "{stderr}");
        // The error comes before the confirmation prompt.
        let (_, _, asked) = operator.run(&format!("table import {file}"));
        assert_eq!(asked, stderr);
    }
}

#[test]
fn err_an_import_that_the_daemon_would_refuse_changes_nothing() {
    let (here, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    here.kent("region create orders --prefix 01 --suffix 40");
    here.kent("region subdivide orders --by 2 --new eu:30:01 --new us:30:10");
    let (_, exported) = table(&here, dir.path());
    let there = Operator::new();
    for (key, value, says) in [
        ("owner", json!("o".repeat(5000)), "5_000 bytes, but may have at most 4_096"),
        ("parent", json!(null), "not its parent"),
        ("parent", json!("unknown"), "there is no region \"unknown\""),
        ("reserved", json!("1073741825"), "more suffixes are issued than it can hold"),
    ] {
        let mut changed = exported.clone();
        changed[2][key] = value;
        let file = dir.path().join("refused.jsonl");
        fs::write(&file, changed.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
        let (code, _, stderr) = there.run(&format!("table import {} --yes", file.display()));
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(says) && stderr.contains("nothing was changed"), "{stderr}");
        assert_eq!(lines(&there.kent("table export")).len(), 1);
    }
}

#[test]
fn err_an_import_with_a_differing_region_changes_nothing() {
    let (here, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    for words in ["region create orders --prefix 01 --suffix 40", "region create other --prefix 10 --suffix 40"] {
        here.kent(words);
    }
    here.kent("region seal orders");
    here.kent("alloc region:other -n 5");
    let (file, _) = table(&here, dir.path());
    let there = Operator::new();
    there.kent("region create orders --prefix 01 --suffix 40");
    let (code, stdout, stderr) = there.run(&format!("table import {file} --yes"));
    assert_eq!(code, 2, "{stderr}");
    assert!(stdout.contains("! orders differs: sealed is false in the table, true in the file\n"), "{stdout}");
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    there.refused("alloc region:other", "REGION");

    there.kent("region seal orders");
    there.kent("region create other --prefix 10 --suffix 40");
    let (code, stdout, _) = there.run(&format!("table import {file} --yes"));
    assert_eq!(code, 2, "{stdout}");
    assert!(stdout.contains("! other differs: its counter is 0 in the table"), "{stdout}");
}
