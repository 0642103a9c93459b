//! Every scenario, in a moment and without peers: it measures whom it should, and leaves nothing behind.
//!
//! The daemon and the command are those beside `kent-bench`, as tests of the whole workspace build them.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A place for all files of a run, so that what is left is seen.
fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn bench(place: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kent-bench"));
    command.args(arguments.split_whitespace()).env("TMPDIR", place);
    command
}

/// What a scenario writes, line by line.
fn lines(scenario: &str, arguments: &str) -> Vec<Value> {
    let place = place();
    let arguments = format!("{scenario} --rounds 1 --millis 30 --json {arguments}");
    let Output { status, stdout, stderr } = bench(place.path(), &arguments).output().expect("kent-bench starts");
    assert!(status.success(), "{arguments}: {}", String::from_utf8_lossy(&stderr));
    nothing_is_left(place.path());
    let stdout = String::from_utf8(stdout).expect("text");
    stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// No files, and no process that works on them.
#[track_caller]
fn nothing_is_left(place: &Path) {
    let files: Vec<_> = fs::read_dir(place).expect("it is there").collect();
    assert!(files.is_empty(), "{files:?}");
    for process in fs::read_dir("/proc").expect("it is Linux").flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        assert!(!command.contains(&*place.to_string_lossy()), "{command}");
    }
}

/// Runs a scenario, and looks for rows of all of these contenders.
#[track_caller]
fn check(scenario: &str, arguments: &str, contenders: &[&str]) {
    let lines = lines(scenario, arguments);
    for contender in contenders {
        let row = lines.iter().find(|line| line["contender"] == *contender);
        let row = row.unwrap_or_else(|| panic!("no {contender} in {lines:#?}"));
        assert_eq!(row["scenario"], scenario);
        assert!(row["median"].as_f64().is_some_and(|median| median > 0.0), "{row}");
    }
}

#[test]
fn ok_grant() {
    check("grant", "--peers none", &["bare", "kentd"]);
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

#[test]
fn ok_strict() {
    check("strict", "", &["plain", "strict", "fdatasync"]);
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
fn ok_scale() {
    let of = ["kentd, 100 regions", "bare, 5 connections", "kentd, 5 connections", "kentd, 1 000 identifiers"];
    check("scale", "--regions 1,100 --connections 1,5 --counts 1,1000", &of);
}

#[test]
fn ok_plot() {
    let (place, out) = (place(), self::place());
    let json = bench(place.path(), "grant --peers none --rounds 1 --millis 30 --json").output().expect("it starts");
    let file = out.path().join("run.jsonl");
    fs::write(&file, json.stdout).expect("written");
    let status = bench(place.path(), "plot").arg(&file).arg("--out").arg(out.path()).status().expect("it starts");
    assert!(status.success());
    let svg = fs::read_to_string(out.path().join("latency.svg")).expect("drawn");
    assert!(svg.contains(">kentd</text>") && svg.contains("99.9 %"), "{svg}");
}

#[test]
fn ok_ctrl_c_leaves_nothing_behind() {
    let place = place();
    let mut child = bench(place.path(), "grant --peers none --rounds 1000 --millis 20 --json");
    let mut child = child.stderr(Stdio::piped()).spawn().expect("it starts");
    // A daemon has its directory when it runs.
    while fs::read_dir(place.path()).expect("it is there").count() == 0 {
        std::thread::yield_now();
    }
    let interrupted = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let said: Vec<_> = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok).collect();
    assert!(!child.wait().expect("it ends").success());
    assert!(said.iter().any(|line| line.contains("interrupted")), "{said:?}");
    nothing_is_left(place.path());
}

#[test]
fn err_a_daemon_that_is_not_there_is_named() {
    let place = place();
    let output = bench(place.path(), "strict --kentd /nowhere/kentd").output().expect("it starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/kentd is not there"));
}

/// What each hot pure function may take: what it took when this was written, and a tenth more. Who makes one faster lowers its
/// limit; who must raise one says why. Packing uses the vector instructions that the processor has and valgrind knows, AVX2.
const INSTRUCTIONS: [(&str, f64); 10] = [
    ("grant-time", 645.0),
    ("grant-chunk", 48.0),
    ("answer-lease", 1765.0),
    ("pack-uuidv7", 21.0),
    ("pack-xid", 9.2),
    ("pack-region", 3.0),
    ("pack-scrambled", 34.0),
    ("uid11-text", 133.0),
    ("uid11-parse", 185.0),
    ("classify", 160.0),
];

#[test]
fn ok_hot_functions_take_no_more_instructions_than_they_may() {
    let place = place();
    let Output { status, stdout, stderr } =
        bench(place.path(), "instructions --json").output().expect("kent-bench starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let stdout = String::from_utf8(stdout).expect("text");
    let taken: Vec<(String, f64)> = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a JSON object a line"))
        .map(|line| {
            (line["function"].as_str().expect("a name").to_owned(), line["instructions"].as_f64().expect("many"))
        })
        .collect();
    let names: Vec<&str> = taken.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, INSTRUCTIONS.map(|(name, _)| name));
    let too_many: Vec<_> = taken.iter().zip(INSTRUCTIONS).filter(|((_, taken), (_, most))| taken > most).collect();
    assert!(too_many.is_empty(), "name and instructions, name and limit: {too_many:?}");
    assert!(taken.iter().all(|(_, taken)| *taken > 0.0), "{taken:?}");
}
