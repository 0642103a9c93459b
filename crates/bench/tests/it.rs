//! Runs most scenarios briefly and without peers. Each must measure the expected contenders, and leave no files or
//! processes behind.
//!
//! The tests use the daemon and the command in the directory of `kent-bench`. A test run of the whole workspace builds
//! them.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// Returns a directory for all files of a run, to detect leftovers.
fn temp_dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn bench(place: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kent-bench"));
    command.args(arguments.split_whitespace()).env("TMPDIR", place);
    command
}

/// Runs a scenario and parses its output.
fn lines(scenario: &str, arguments: &str) -> Vec<Value> {
    let dir = temp_dir();
    let arguments = format!("{scenario} --rounds 1 --millis 30 --json {arguments}");
    let Output { status, stdout, stderr } = bench(dir.path(), &arguments).output().expect("kent-bench starts");
    assert!(status.success(), "{arguments}: {}", String::from_utf8_lossy(&stderr));
    assert_nothing_left(dir.path());
    let stdout = String::from_utf8(stdout).expect("text");
    stdout.lines().map(|line| serde_json::from_str(line).expect("one JSON object per line")).collect()
}

/// Asserts that no files are left in the directory, and that no process still uses it.
#[track_caller]
fn assert_nothing_left(dir: &Path) {
    let files: Vec<_> = fs::read_dir(dir).expect("the directory exists").collect();
    assert!(files.is_empty(), "{files:?}");
    for process in fs::read_dir("/proc").expect("/proc exists").flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        assert!(!command.contains(&*dir.to_string_lossy()), "{command}");
    }
}

/// Runs a scenario, and asserts that its output has a row for each of these contenders.
#[track_caller]
fn check(scenario: &str, arguments: &str, contenders: &[&str]) {
    let lines = lines(scenario, arguments);
    for contender in contenders {
        let row = lines.iter().find(|line| line["contender"] == *contender);
        let row = row.unwrap_or_else(|| panic!("the output has no row for {contender}: {lines:#?}"));
        assert_eq!(row["scenario"], scenario);
        assert!(row["median"].as_f64().is_some_and(|median| median > 0.0), "{row}");
    }
}

#[test]
fn ok_http_measures_the_daemon_beside_a_bare_handler() {
    check("http", "", &["bare", "kentd"]);
}

#[test]
fn ok_grant() {
    check("grant", "--peers none", &["bare", "kentd", "kentd, token", "bare, tls", "kentd, tls"]);
}

#[test]
fn ok_stream() {
    check("stream", "--peers none --load-threads 2", &["bare", "kentd"]);
}

#[test]
fn ok_packed() {
    let kentd = ["kentd, uuidv7, 64 KiB", "kentd, xid, 64 KiB", "kentd, region, 64 KiB"];
    check("packed", "--sizes 64", &[["bare, 64 KiB"].as_slice(), &kentd].concat());
}

#[test]
fn ok_client() {
    check("client", "--threads 2 --count 100000", &["uuid now_v7", "fetch_add", "uuidv7 try_next", "region take"]);
}

// The README's test command does not install the tools of the other languages.
#[test]
#[ignore = "builds the clients of other languages; .ci/run runs this test after the checks that build the clients"]
fn ok_clients() {
    let (dir, arguments) = (temp_dir(), "clients --rounds 1 --calls 1000 --json");
    let Output { status, stdout, stderr } = bench(dir.path(), arguments).output().expect("kent-bench starts");
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(status.success(), "{stderr}");
    assert_nothing_left(dir.path());
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for language in ["python", "typescript", "go", "java"] {
        let rows: Vec<_> = lines.iter().filter(|line| line["load"] == language).collect();
        let facts = lines.iter().filter_map(|line| line["fact"].as_str()).filter(|fact| fact.starts_with(language));
        if stderr.contains(&format!("skipping {language}: ")) {
            eprintln!("{stderr}");
            assert!(rows.is_empty(), "{rows:?}");
            continue;
        }
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows.iter().all(|row| row["median"].as_f64() > Some(0.0)), "{rows:?}");
        assert_eq!(facts.count(), 2, "{lines:?}");
    }
}

#[test]
fn ok_strict() {
    check("strict", "", &["plain", "strict", "fdatasync"]);
}

#[test]
fn ok_replicas() {
    check("replicas", "--replicas 2", &["one", "several"]);
}

#[test]
fn ok_text() {
    check("text", "--lines 1000 --input 100", &["bs58", "kent-ids", "kent alloc uuidv7", "kent codec"]);
}

#[test]
fn ok_codec() {
    check("codec", "--lines 100", &["bare JSON", "uuid.parse", "ext.print"]);
}

#[test]
fn ok_start() {
    let lines = lines("start", "--idle-millis 100");
    assert!(lines.iter().any(|line| line["contender"] == "kentd, new store"));
    let facts: Vec<&str> = lines.iter().filter_map(|line| line["fact"].as_str()).collect();
    assert!(facts.iter().any(|fact| fact.starts_with("idle, resident")), "{facts:?}");
}

#[test]
fn ok_classify() {
    let of = ["kentd, 1 region", "kentd, 100 regions", "copy, 100 regions"];
    check("classify", "--regions 1,100 --identifiers 100", &of);
}

#[test]
fn ok_greedy() {
    let limited = ["during limited calls", "during limited packed"];
    check("greedy", "", &[&["alone", "during calls", "during packed", "during handshakes"][..], &limited].concat());
}

#[test]
fn ok_scale() {
    let of = ["kentd, 100 regions", "bare, 5 connections", "kentd, 5 connections", "kentd, 1 000 identifiers"];
    check("scale", "--regions 1,100 --connections 1,5 --counts 1,1000", &of);
}

#[test]
fn ok_soak() {
    let (dir, out) = (temp_dir(), temp_dir());
    let svg = out.path().join("soak.svg");
    let Output { status, stdout, stderr } =
        bench(dir.path(), "soak --minutes 0.1 --json --svg").arg(&svg).output().expect("kent-bench starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    assert_nothing_left(dir.path());
    let stdout = String::from_utf8(stdout).expect("text");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (whole, samples) = lines.split_last().expect("lines");
    assert!(whole["calls"].as_u64() > Some(100) && whole["failures"] == 0, "{whole}");
    assert!(samples.iter().all(|sample| sample["resident_bytes"].as_u64() > Some(0)), "{samples:?}");
    assert!(fs::read_to_string(svg).expect("drawn").contains("resident memory, MiB</text>"));
}

#[test]
fn ok_plot() {
    let (dir, out) = (temp_dir(), temp_dir());
    let json =
        bench(dir.path(), "grant --peers none --rounds 1 --millis 30 --json").output().expect("kent-bench starts");
    let file = out.path().join("run.jsonl");
    fs::write(&file, json.stdout).expect("written");
    let status = bench(dir.path(), "plot").arg(&file).arg("--out").arg(out.path()).status().expect("kent-bench starts");
    assert!(status.success());
    let svg = fs::read_to_string(out.path().join("latency.svg")).expect("drawn");
    assert!(svg.contains(">kentd</text>") && svg.contains("99.9 %"), "{svg}");
}

#[test]
fn ok_ctrl_c_leaves_nothing_behind() {
    let dir = temp_dir();
    let mut child = bench(dir.path(), "grant --peers none --rounds 1000 --millis 20 --json");
    let mut child = child.stderr(Stdio::piped()).spawn().expect("kent-bench starts");
    // A running daemon has a directory here.
    while fs::read_dir(dir.path()).expect("the directory exists").count() == 0 {
        std::thread::yield_now();
    }
    let interrupted = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let stderr: Vec<_> = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok).collect();
    assert!(!child.wait().expect("kent-bench ends").success());
    assert!(stderr.iter().any(|line| line.contains("interrupted")), "{stderr:?}");
    assert_nothing_left(dir.path());
}

#[test]
fn err_a_missing_daemon_is_named() {
    let dir = temp_dir();
    let output = bench(dir.path(), "strict --kentd /nowhere/kentd").output().expect("kent-bench starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/kentd does not exist"));
}

/// The maximum number of instructions per call of each hot pure function, about a tenth above the measured count. Lower
/// a limit when a function gets faster, and explain in the commit why a limit rises. Packing uses the vector
/// instructions that the processor has and valgrind supports (AVX2).
const INSTRUCTIONS: [(&str, f64); 18] = [
    ("grant-time", 645.0),
    ("grant-chunk", 48.0),
    ("authorise", 351.0),
    ("authorise-limited", 400.0),
    ("authorise-stream", 20.0),
    ("limit", 63.0),
    ("limit-none", 32.0),
    ("answer-lease", 1714.0),
    ("pack-uuidv7", 21.0),
    ("pack-xid", 9.2),
    ("pack-layout", 70.0),
    ("pack-region", 3.0),
    ("pack-scrambled", 34.0),
    ("uid11-text", 133.0),
    ("uid11-parse", 185.0),
    ("classify", 160.0),
    ("try-next-region", 152.0),
    ("try-next-xid", 730.0),
];

#[test]
fn ok_hot_functions_stay_within_their_instruction_limits() {
    let dir = temp_dir();
    let Output { status, stdout, stderr } =
        bench(dir.path(), "instructions --json").output().expect("kent-bench starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let stdout = String::from_utf8(stdout).expect("text");
    let counts: Vec<(String, f64)> = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("one JSON object per line"))
        .map(|line| {
            (line["function"].as_str().expect("a name").to_owned(), line["instructions"].as_f64().expect("a count"))
        })
        .collect();
    let names: Vec<&str> = counts.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, INSTRUCTIONS.map(|(name, _)| name));
    let exceeded: Vec<_> = counts.iter().zip(INSTRUCTIONS).filter(|((_, count), (_, limit))| count > limit).collect();
    assert!(exceeded.is_empty(), "these functions exceed their limits: {exceeded:?}");
    assert!(counts.iter().all(|(_, count)| *count > 0.0), "{counts:?}");
}
