//! Tests power cuts: records the system calls of a real run, and rebuilds the possible states of the disk after a cut
//! at any moment.
//!
//! After a cut the disk has all synced data. It can have none, all or any part of the later writes, even torn sectors.
//! Files and names whose directory was not synced can be missing. `sync_file_range` does not count as a sync. In every
//! such state the store must open and have every commit that was acknowledged before the cut. This is the method of
//! ALICE (Pillai et al., 2014).

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kent_store::{Archived, Archiving, Key, SledOptions, SledStore, Store, Txn};

/// The environment variable with the directory of the recorded process.
const CHILD_DIR: &str = "KENT_STORE_POWER_CHILD_DIR";
/// The name of the archive's directory within that directory, if the store has an archive.
const ARCHIVE: &str = "archive";
/// The prefix of the lines that the recorded process prints for acknowledged commits.
const ACK: &str = "acknowledged ";
const KEYS: u32 = 5;
/// The number of recorded commits, half of them after a restart.
const COMMITS: u32 = 40;
/// Before the commit with this number, a large commit nearly fills the journal, so that the journal restarts during the
/// run.
const FILLING: u32 = 25;
const SECTOR: usize = 512;

/// Opens the store in a directory, with an archive if there is a directory for one.
fn open(dir: &Path) -> Result<SledStore, kent_store::OpenError> {
    let archive = dir.join(ARCHIVE);
    let archiving = match archive.is_dir() {
        true => Archiving::To { dir: archive, base_after: 1 << 17 },
        false => Archiving::None,
    };
    SledStore::open_archived(SledOptions { dir: dir.join("store"), new_id: [5; 16] }, archiving)
}

fn key(round: u32) -> Key {
    Key::new(format!("slot/{:02}", round % KEYS)).unwrap()
}

fn filling() -> Txn {
    (0..60).fold(Txn::new(), |txn, number| txn.put(Key::new(format!("large/{number:02}")).unwrap(), [b'x'; 16_000]))
}

#[tokio::test]
#[ignore = "run by another test, under strace"]
async fn child_that_commits() {
    let Ok(dir) = env::var(CHILD_DIR) else { return };
    let mut stdout = std::io::stdout();
    for life in 0..2 {
        let store = open(Path::new(&dir)).unwrap();
        for round in life * COMMITS / 2..(life + 1) * COMMITS / 2 {
            let value = format!("{round:08} {}", "x".repeat(round as usize * 7 % 300));
            if round == FILLING {
                store.commit(filling()).await.unwrap();
            }
            store.commit(Txn::new().put(key(round), value.into_bytes())).await.unwrap();
            // One write per line, so that the trace shows when each commit was acknowledged.
            stdout.write_all(format!("{ACK}{round}\n").as_bytes()).unwrap();
            stdout.flush().unwrap();
        }
        store.close().await;
    }
}

/// A system call with an effect on the disk, or an acknowledgment.
#[derive(Clone, Debug)]
enum Event {
    Create(PathBuf),
    Write { path: PathBuf, at: usize, bytes: Vec<u8> },
    Resize(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
    Sync(PathBuf),
    Acknowledged(u32),
}

/// Runs the child under strace and reads the trace.
fn record(dir: &Path, is_archived: bool) -> Vec<Event> {
    let trace = dir.join("trace");
    let data = dir.join("data");
    fs::create_dir_all(if is_archived { data.join(ARCHIVE) } else { data.clone() }).unwrap();
    let calls =
        "openat,write,pwrite64,pwritev,ftruncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,fsync,fdatasync,lseek";
    let status = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", "4194304", "-o"])
        .arg(&trace)
        .args(["-e", &format!("trace={calls}")])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "it::power::child_that_commits", "--ignored", "--nocapture"])
        .env(CHILD_DIR, &data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace must be installed for this test (Debian: apt-get install strace)");
    assert!(status.success());
    let text = fs::read_to_string(&trace).unwrap();
    let mut unfinished: BTreeMap<&str, String> = BTreeMap::new();
    let (mut events, mut offsets) = (Vec::new(), BTreeMap::new());
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(begun) = call.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, begun.trim_end().to_owned());
            continue;
        }
        let resumed = call.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>"));
        let whole = match resumed {
            Some((_, rest)) => unfinished.remove(thread).unwrap_or_default() + rest,
            None => call.to_owned(),
        };
        events.extend(event(&whole, &data, &mut offsets));
    }
    events
}

/// Decodes a string of the form `"\x61\x62"`.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<&str> = hex.trim_matches('"').split("\\x").skip(1).collect();
    digits.iter().map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect()
}

fn text(hex: &str) -> PathBuf {
    PathBuf::from(String::from_utf8(bytes(hex)).unwrap())
}

/// Parses a system call, if it is relevant and succeeded. `offsets` are the current file offsets.
fn event(call: &str, data: &Path, offsets: &mut BTreeMap<PathBuf, usize>) -> Option<Event> {
    let (call, result) = call.rsplit_once(" = ")?;
    if result.starts_with('-') || result.starts_with('?') {
        return None;
    }
    let (name, arguments) = call.split_once('(')?;
    let arguments: Vec<&str> = arguments.trim_end().trim_end_matches(')').split(", ").collect();
    // strace shows a descriptor as NUMBER<PATH>.
    let of = |argument: &str| {
        let path = argument.split_once('<')?.1.trim_end_matches('>');
        Some(if path.starts_with("\\x") { text(&format!("\"{path}\"")) } else { PathBuf::from(path) })
    };
    let inside = |path: &PathBuf| path.starts_with(data);
    match name {
        "write" | "pwrite64" => {
            let bytes = bytes(arguments[1]);
            let said = String::from_utf8_lossy(&bytes).into_owned();
            if let Some(round) = said.trim_end().strip_prefix(ACK) {
                return Some(Event::Acknowledged(round.parse().unwrap()));
            }
            let path = of(arguments[0]).filter(inside)?;
            let at = match (name, arguments.get(3)) {
                ("pwrite64", Some(at)) => at.parse().unwrap(),
                _ => {
                    let offset = offsets.entry(path.clone()).or_default();
                    let at = *offset;
                    *offset += bytes.len();
                    at
                }
            };
            Some(Event::Write { path, at, bytes })
        }
        "pwritev" => panic!("unsupported call: {call}"),
        "lseek" => {
            let path = of(arguments[0]).filter(inside)?;
            offsets.insert(path, result.split_whitespace().next()?.parse().unwrap());
            None
        }
        "ftruncate" => Some(Event::Resize(of(arguments[0]).filter(inside)?, arguments[1].parse().unwrap())),
        "openat" => {
            let path = of(result).filter(inside)?;
            offsets.insert(path.clone(), 0);
            arguments.iter().any(|argument| argument.contains("O_CREAT")).then_some(Event::Create(path))
        }
        "rename" => Some(Event::Rename(text(arguments[0]), text(arguments[1]))).filter(|_| inside(&text(arguments[1]))),
        "renameat" | "renameat2" => {
            Some(Event::Rename(text(arguments[1]), text(arguments[3]))).filter(|_| inside(&text(arguments[3])))
        }
        "unlink" => Some(Event::Unlink(text(arguments[0]))).filter(|_| inside(&text(arguments[0]))),
        "unlinkat" => Some(Event::Unlink(text(arguments[1]))).filter(|_| inside(&text(arguments[1]))),
        "fsync" | "fdatasync" => Some(Event::Sync(of(arguments[0]).filter(inside)?)),
        _ => None,
    }
}

/// Which unsynced writes the disk has kept.
#[derive(Clone, Copy, Debug)]
enum Kept {
    None,
    All,
    First(usize),
    AllBut(usize),
    /// All writes, but the last one is torn after this number of sectors.
    Torn(usize),
    /// A random part, with this seed.
    Some(u64),
}

impl Kept {
    /// Returns how many bytes of a write the disk has kept. The write is number `number` of `count`, and has `length`
    /// bytes.
    fn of(self, number: usize, count: usize, length: usize) -> usize {
        let all = |kept: bool| if kept { length } else { 0 };
        match self {
            Self::None => 0,
            Self::All => length,
            Self::First(first) => all(number < first),
            Self::AllBut(lost) => all(number != lost),
            Self::Torn(sectors) if number + 1 == count => length.min(sectors * SECTOR),
            Self::Torn(_) => length,
            Self::Some(seed) => {
                let random = (seed ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
                all(random.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 63 == 1)
            }
        }
    }
}

/// Builds a state of the disk after the first `cut` events.
fn build(events: &[Event], cut: usize, kept: Kept) -> BTreeMap<PathBuf, Vec<u8>> {
    let events = &events[..cut];
    let synced = |path: &PathBuf, after: usize| {
        events[after..].iter().any(|event| matches!(event, Event::Sync(synced) if synced == path))
    };
    let pending = |number: usize| match &events[number] {
        Event::Write { path, .. } | Event::Resize(path, _) => !synced(path, number),
        // A name is durable once its directory was synced or, on the usual file systems, the file itself.
        Event::Create(path) => !synced(path, number) && !synced(&path.parent().unwrap().to_owned(), number),
        Event::Rename(_, path) | Event::Unlink(path) => !synced(&path.parent().unwrap().to_owned(), number),
        Event::Sync(_) | Event::Acknowledged(_) => false,
    };
    let open: Vec<usize> = (0..cut).filter(|number| pending(*number)).collect();
    let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        let length = |length: usize| match open.binary_search(&number) {
            Ok(index) => kept.of(index, open.len(), length),
            Err(_) => length,
        };
        match event {
            Event::Create(path) if length(1) == 1 => drop(files.entry(path.clone()).or_default()),
            Event::Write { path, at, bytes } => {
                let length = length(bytes.len());
                if let Some(file) = files.get_mut(path).filter(|_| length > 0) {
                    file.resize(file.len().max(at + length), 0);
                    file[*at..at + length].copy_from_slice(&bytes[..length]);
                }
            }
            Event::Resize(path, size) if length(1) == 1 => {
                if let Some(file) = files.get_mut(path) {
                    file.resize(*size, 0);
                }
            }
            Event::Rename(from, to) if length(1) == 1 => {
                if let Some(file) = files.remove(from) {
                    files.insert(to.clone(), file);
                }
            }
            Event::Unlink(path) if length(1) == 1 => drop(files.remove(path)),
            _ => {}
        }
    }
    files
}

/// Opens the store with the contents of the disk after a cut. Returns a description of any problem.
///
/// The files keep their original paths, because a store knows the path of its archive.
async fn check(files: &BTreeMap<PathBuf, Vec<u8>>, data: &Path, acknowledged: Option<u32>) -> Result<(), String> {
    let into = data;
    let is_archived = data.join(ARCHIVE).is_dir();
    // OK because the directory may not exist.
    let _ = fs::remove_dir_all(into);
    fs::create_dir_all(into.join("store/blobs")).unwrap();
    if is_archived {
        fs::create_dir_all(into.join(ARCHIVE)).unwrap();
    }
    for (path, bytes) in files {
        let path = into.join(path.strip_prefix(data).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let last = acknowledged.map_or(0, |last| last + 1);
    // First check the archive alone, as if the store's disk were lost.
    for (dir, _) in Archived::list(&into.join(ARCHIVE)).unwrap_or_default() {
        let archived = Archived::read(&dir).map_err(|error| format!("the archive cannot be read: {error}"))?;
        for round in last.saturating_sub(KEYS)..last {
            let found = archived.records.iter().find(|(found, _)| *found == key(round));
            let found = found.and_then(|(_, value)| String::from_utf8_lossy(&value[..8]).parse::<u32>().ok());
            if found.is_none_or(|found| found < round) {
                return Err(format!("round {round} was acknowledged, but the archive has {found:?}"));
            }
        }
    }
    if last > 0 && is_archived && Archived::list(&into.join(ARCHIVE)).unwrap().is_empty() {
        return Err("there is no archive".to_owned());
    }
    let store = open(into).map_err(|error| format!("the store does not open: {error}"))?;
    let mut lost = None;
    for round in last.saturating_sub(KEYS)..last {
        let found = store.get(&key(round)).await.map_err(|error| error.to_string())?;
        let found = found.map(|versioned| String::from_utf8_lossy(&versioned.value[..8]).into_owned());
        // A later commit may have become durable without an acknowledgment.
        if found.as_ref().and_then(|found| found.parse::<u32>().ok()).is_none_or(|found| found < round) {
            lost = Some(format!("round {round} was acknowledged, but the store has {found:?}"));
        }
    }
    let large = store.scan(&Key::new("large/").unwrap()).await.map_err(|error| error.to_string())?;
    if large.len() != 60 && (last > FILLING || !large.is_empty()) {
        lost = Some(format!("{} of 60 large values are there", large.len()));
    }
    store.close().await;
    lost.map_or(Ok(()), Err)
}

/// Cuts the power after every `step`th event. Returns the number of tried states, and the errors.
async fn cut(events: &[Event], data: &Path, step: usize, some: u64) -> (usize, Vec<String>) {
    let (mut tried, mut wrong) = (0, Vec::new());
    for cut in (1..=events.len()).filter(|cut| cut % step == 0 || *cut == events.len()) {
        let acknowledged = events[..cut].iter().rev().find_map(|event| match event {
            Event::Acknowledged(round) => Some(*round),
            _ => None,
        });
        let mut ways = vec![Kept::None, Kept::All, Kept::First(1), Kept::First(2), Kept::AllBut(0), Kept::AllBut(1)];
        ways.extend([Kept::Torn(1), Kept::Torn(3)]);
        ways.extend((0..some).map(|seed| Kept::Some(seed * 7919 + cut as u64)));
        let mut seen = Vec::new();
        for kept in ways {
            let files = build(events, cut, kept);
            if seen.contains(&files) {
                continue;
            }
            tried += 1;
            if let Err(what) = check(&files, data, acknowledged).await {
                wrong.push(format!("power cut after event {cut} of {}, {kept:?} kept: {what}", events.len()));
            }
            seen.push(files);
        }
    }
    (tried, wrong)
}

async fn all(step: usize, some: u64, is_archived: bool) {
    let dir = tempfile::tempdir().unwrap();
    let events = record(dir.path(), is_archived);
    let acknowledged = events.iter().filter(|event| matches!(event, Event::Acknowledged(_))).count();
    assert_eq!(acknowledged, COMMITS as usize);
    let (tried, wrong) = cut(&events, &dir.path().join("data"), step, some).await;
    println!("{} system calls, {tried} states of the disk, {} wrong", events.len(), wrong.len());
    assert!(wrong.is_empty(), "{} of {tried}: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}

#[tokio::test]
async fn every_acknowledged_commit_survives_a_power_cut() {
    all(2, 2, false).await;
}

#[tokio::test]
#[ignore = "long: a cut after every system call"]
async fn long_every_acknowledged_commit_survives_a_power_cut() {
    all(1, 6, false).await;
}

/// The power fails on both disks at the same moment. In every state, the archive alone has the acknowledged commits,
/// and the store opens with it.
#[tokio::test]
async fn every_acknowledged_commit_is_in_the_archive_after_a_power_cut() {
    all(11, 1, true).await;
}

#[tokio::test]
#[ignore = "long: a cut after every system call"]
async fn long_every_acknowledged_commit_is_in_the_archive_after_a_power_cut() {
    all(1, 4, true).await;
}

#[tokio::test]
async fn a_missing_sync_of_the_archive_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record(dir.path(), true);
    let archive = dir.path().join("data").join(ARCHIVE);
    let is_of = |path: &Path, name: &str| {
        path.starts_with(&archive) && path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
    };
    // First leave out the syncs of the segments, then the syncs of their directory.
    for name in ["commits.", "0505"] {
        let mut events = recorded.clone();
        events.retain(|event| !matches!(event, Event::Sync(path) if is_of(path, name)));
        assert!(events.len() < recorded.len());
        let (tried, wrong) = cut(&events, &dir.path().join("data"), 25, 0).await;
        assert!(!wrong.is_empty(), "{name}: none of {tried} states lost a commit");
    }
}

/// Checks that this suite detects a missing sync: without the syncs that we add to those of sled, a cut loses
/// acknowledged commits.
#[tokio::test]
async fn a_missing_sync_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record(dir.path(), false);
    for file in ["data/store/db", "data/store/journal"] {
        let (mut events, file) = (recorded.clone(), dir.path().join(file));
        events.retain(|event| !matches!(event, Event::Sync(path) if *path == file));
        let (tried, wrong) = cut(&events, &dir.path().join("data"), 25, 0).await;
        assert!(!wrong.is_empty(), "{}: none of {tried} states lost a commit", file.display());
    }
}
