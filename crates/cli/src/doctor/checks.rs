//! The checks: the measured values, and which of them are problems.

mod etcd;

use std::time::Duration;

use kent_ids::counted;
use kent_proto::v1::{CertificateFile, ClockStatus, Diagnosis, Directory, Forecast, ReplicaStatus, Status};

use super::clocks::Offset;
use crate::describe::duration;
use crate::names;
use crate::number::{bytes, grouped, millis, share};
use crate::output::Role;

/// A check: one or more lines of output, and the problems that the check found.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) facts: Vec<String>,
    pub(crate) problems: Vec<Problem>,
}

/// Something that is wrong, or may go wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) state: State,
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) advice: String,
    /// The seconds until the problem has consequences, if known.
    pub(crate) within: Option<f64>,
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Ok,
    Warning,
    Wrong,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }

    pub(crate) fn role(self) -> Role {
        match self {
            Self::Ok => Role::Good,
            Self::Warning => Role::Warning,
            Self::Wrong => Role::Bad,
        }
    }

    /// Returns the severity of a value that should stay below both thresholds.
    fn above(value: f64, warning: f64, wrong: f64) -> Self {
        match () {
            () if value >= wrong => Self::Wrong,
            () if value >= warning => Self::Warning,
            () => Self::Ok,
        }
    }
}

impl Check {
    fn new(name: &'static str) -> Self {
        Self { name, facts: Vec::new(), problems: Vec::new() }
    }

    /// Returns the severity of the most severe problem.
    pub(crate) fn state(&self) -> State {
        self.problems.iter().map(|problem| problem.state).max().unwrap_or(State::Ok)
    }

    fn fact(&mut self, fact: impl Into<String>) {
        self.facts.push(fact.into());
    }

    /// Records a problem, unless the state is ok.
    fn problem(&mut self, state: State, what: impl Into<String>, advice: impl Into<String>) {
        self.problem_within(None, state, what, advice);
    }

    /// Like `problem`, but also records the number of seconds until the problem has consequences, if known.
    fn problem_within(
        &mut self,
        within: Option<f64>,
        state: State,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) {
        if state > State::Ok {
            self.problems.push(Problem { state, what: what.into(), advice: advice.into(), within });
        }
    }
}

/// Returns all checks that apply to the daemon.
pub(crate) fn all(diagnosis: &Diagnosis, offset: Offset) -> Vec<Check> {
    let status = diagnosis.status.clone().unwrap_or_default();
    let mut checks = vec![daemon(&status), clock(status.clock.as_ref(), offset)];
    if !diagnosis.directories.is_empty() {
        checks.push(disk(&diagnosis.directories));
    }
    checks.push(store(diagnosis, &status));
    checks.extend(diagnosis.etcd.as_ref().map(|members| etcd::check(members, window_left(&status))));
    checks.push(limits(diagnosis));
    if !diagnosis.certificates.is_empty() {
        checks.push(certificates(&diagnosis.certificates));
    }
    if !status.replicas.is_empty() {
        checks.push(replicas(&status.replicas));
    }
    if !diagnosis.full_first.is_empty() {
        checks.push(regions(&diagnosis.full_first));
    }
    checks
}

/// Returns the number of seconds for which the daemon can issue time-based identifiers without the store. If the store
/// is in etcd, the daemon can grant from the chunks of regions for the same time.
fn window_left(status: &Status) -> Option<f64> {
    status.slots.iter().map(|slot| slot.window_left_ms as f64 / 1000.0).reduce(f64::max)
}

fn daemon(status: &Status) -> Check {
    let mut check = Check::new("daemon");
    let ready = if status.ready { "ready" } else { "not ready" };
    let up = humantime::format_duration(Duration::from_secs(status.uptime_seconds));
    check.fact(format!("kentd {}, up {up}, {ready}", status.version));
    for reason in &status.reasons {
        check.problem_within(
            Some(0.0),
            State::Wrong,
            reason,
            "See kentd's log for what happened before; the other checks may show the cause.",
        );
    }
    check
}

/// The smallest clock offset, in milliseconds, that is a problem. The daemon warns at the same offset between replicas.
const CLOCK_WARNING_MS: f64 = 250.0;

fn clock(clock: Option<&ClockStatus>, offset: Offset) -> Check {
    let mut check = Check::new("clock");
    let Offset { millis: ahead, error_millis } = offset;
    let steps = clock.map_or(0, |clock| clock.clock_epoch);
    let shown = match steps {
        0 => "no steps since start".to_owned(),
        1 => "1 step since start".to_owned(),
        steps => format!("{steps} steps since start"),
    };
    let side = if ahead < 0.0 { "behind" } else { "ahead of" };
    let distance = millis(ahead.abs());
    check.fact(format!("{distance} {side} this machine's clock (± {}), {shown}", millis(error_millis)));
    check.problem(
        State::above(ahead.abs() - error_millis, CLOCK_WARNING_MS, f64::INFINITY),
        format!("the daemon's clock is {distance} {side} this machine's"),
        "Synchronize both machines with NTP, such as chrony: the daemon's time is in the identifiers.",
    );
    check.problem(
        if steps > 0 { State::Warning } else { State::Ok },
        format!("the daemon's clock went back beyond the tolerance: {shown}"),
        "Let NTP slew the clock instead of stepping it (chrony: makestep only at boot).",
    );
    if let Some(quarantine) = clock.and_then(|clock| clock.quarantine) {
        let ahead = duration(quarantine.ahead_ms as f64 / 1000.0);
        check.problem_within(
            Some(0.0),
            if quarantine.instead_unix_nanos.is_some() { State::Warning } else { State::Wrong },
            format!("the daemon distrusts its clock, which is {ahead} past the latest time that the daemon accepts"),
            "Correct the machine's clock or, if it is right, run `kent clock accept`.",
        );
    }
    check
}

/// Limits beyond which a disk is a problem: the time to write a block durably, and the free space.
const SYNC_WARNING_MS: f64 = 100.0;
const SYNC_WRONG_MS: f64 = 1000.0;
const FREE_WARNING_BYTES: u64 = 1 << 30;
const FREE_WRONG_BYTES: u64 = 100 << 20;

fn disk(directories: &[Directory]) -> Check {
    let mut check = Check::new("disk");
    for Directory { setting, path, free_bytes, total_bytes, sync_micros, sync_max_micros, problem } in directories {
        if !problem.is_empty() {
            check.fact(format!("{path} (--{setting}): {problem}"));
            check.problem_within(
                Some(0.0),
                State::Wrong,
                format!("{path} cannot be measured: {problem}"),
                format!("Every commit writes there: check the disk and the permissions of --{setting}."),
            );
            continue;
        }
        let (sync, sync_max) = (*sync_micros as f64 / 1000.0, *sync_max_micros as f64 / 1000.0);
        let (free, total) = (bytes(*free_bytes), bytes(*total_bytes));
        check.fact(format!(
            "{path}: a durable write of 4 KiB takes {}, at worst {}; {free} of {total} free",
            millis(sync),
            millis(sync_max)
        ));
        check.problem(
            State::above(sync, SYNC_WARNING_MS, SYNC_WRONG_MS),
            format!("writes to {path} take {} to become durable", millis(sync)),
            format!(
                "Every commit waits for these writes: put --{setting} on a faster disk, or find out what else uses this disk."
            ),
        );
        let state = match *free_bytes {
            free if free < FREE_WRONG_BYTES => State::Wrong,
            free if free < FREE_WARNING_BYTES => State::Warning,
            _ => State::Ok,
        };
        check.problem(
            state,
            format!("{path} has {free} of {total} free"),
            format!("On a full disk, the daemon can neither commit edits nor reserve chunks: free some space, or move --{setting} to a larger disk."),
        );
    }
    check
}

fn store(diagnosis: &Diagnosis, status: &Status) -> Check {
    let mut check = Check::new("store");
    let store = status.store.clone().unwrap_or_default();
    let size = diagnosis
        .store_size
        .map(|size| format!(", {} of which {} are the journal", bytes(size.bytes), bytes(size.journal_bytes)));
    let commits = counted(store.commits, "commit");
    let conflicts = counted(store.conflicts, "conflict");
    check.fact(format!("{}{}; {commits}, {conflicts}", store.kind, size.unwrap_or_default()));
    if store.kind == "memory" {
        check.problem(
            State::Warning,
            "the store is in memory: a restart loses it, and may issue the same identifiers again",
            "Use it for experiments only; `kentd --data DIR` keeps its state.",
        );
    }
    if let Some(seconds) = window_left(status) {
        check.fact(format!("time-based identifiers can be issued for {seconds:.1} s without it"));
    }
    check
}

/// Thresholds for the share of a limit that is in use.
const SHARE_WARNING: f64 = 0.8;
const SHARE_WRONG: f64 = 0.95;

fn limits(diagnosis: &Diagnosis) -> Check {
    let mut check = Check::new("limits");
    let (open, max) = (diagnosis.open_files, diagnosis.open_files_max);
    let number = |count: u64| grouped(count);
    match (open, max) {
        (Some(open), Some(max)) => {
            check.fact(format!("{} of {} open files", number(open), number(max)));
            check.problem(
                State::above(open as f64 / max as f64, SHARE_WARNING, SHARE_WRONG),
                format!("{} of {} open files are in use: the daemon will accept no more connections", number(open), number(max)),
                "Raise LimitNOFILE= of the daemon's systemd unit, or `ulimit -n`, and restart the daemon; or find out which clients hold the connections.",
            );
        }
        (Some(open), None) => check.fact(format!("{} open files, without a maximum", number(open))),
        (None, _) => check.fact("the system does not report how many files are open"),
    }
    check
}

/// It is a problem if a certificate ends sooner than this, as for the alert `KentCertificateEnds`.
const CERTIFICATE_WARNING_SECONDS: f64 = 7.0 * 86_400.0;

fn certificates(files: &[CertificateFile]) -> Check {
    let mut check = Check::new("certificates");
    for CertificateFile { setting, path, ends_in_seconds: left } in files {
        let end = match *left {
            left if left <= 0.0 => format!("expired {} ago", duration(-left)),
            left => format!("expires in {}", duration(left)),
        };
        check.fact(format!("{setting} {path} {end}"));
        check.problem_within(
            Some(*left),
            match *left {
                left if left <= 0.0 => State::Wrong,
                left if left <= CERTIFICATE_WARNING_SECONDS => State::Warning,
                _ => State::Ok,
            },
            format!("{path} ({setting}) {end}: TLS connections fail from then on"),
            "Replace the file: the daemon reads it within a second, without a restart.",
        );
    }
    check
}

/// It is a problem if the last announcement of a replica is older than this number of milliseconds: three times the
/// interval between announcements.
const SILENT_MS: u64 = 15_000;

fn replicas(replicas: &[ReplicaStatus]) -> Check {
    let mut check = Check::new("replicas");
    let own = replicas.iter().find(|replica| replica.answering).map_or("", |replica| &replica.version);
    check.fact(match replicas.len() {
        1 => "no others".to_owned(),
        2 => "1 other".to_owned(),
        many => format!("{} others", many - 1),
    });
    for replica in replicas.iter().filter(|replica| !replica.answering) {
        let (address, heard) = (&replica.address, duration(replica.heard_ms_ago as f64 / 1000.0));
        let ahead = replica.clock_ahead_ms.unwrap_or_default();
        check.fact(format!("{address}: kentd {}, last heard from {heard} ago, clock {ahead:+} ms", replica.version));
        check.problem(
            if replica.heard_ms_ago > SILENT_MS { State::Warning } else { State::Ok },
            format!("the replica at {address} was last heard from {heard} ago"),
            "It has ended or cannot reach etcd. Edits that seal a region wait for it: check that it runs.",
        );
        check.problem(
            State::above(ahead.unsigned_abs() as f64, CLOCK_WARNING_MS, f64::INFINITY),
            format!("the clock of the replica at {address} differs by {ahead:+} ms"),
            "Synchronize the machines with NTP, such as chrony.",
        );
        check.problem(
            if replica.version == own { State::Ok } else { State::Warning },
            format!("the replica at {address} runs kentd {}, this one {own}", replica.version),
            "Finish the upgrade: until then, records are written in the older form.",
        );
    }
    check
}

/// The check warns about a region that will be full within this time.
const FULL_WARNING_SECONDS: f64 = 7.0 * 86_400.0;
/// The check returns [`State::Wrong`] for a region that will be full within this time, if at least [`SHARE_WARNING`] of
/// its capacity is used.
const FULL_WRONG_SECONDS: f64 = 3600.0;

fn regions(full_first: &[Forecast]) -> Check {
    let mut check = Check::new("regions");
    for Forecast { source, capacity, reserved, full_in_seconds, capped, expandable_bits } in full_first {
        let used = share(reserved, capacity).unwrap_or_default();
        let when = match *full_in_seconds {
            seconds if seconds <= 0.0 => "full".to_owned(),
            seconds => format!("full in {}", duration(seconds)),
        };
        check.fact(format!("{source}: {when}, {} of {} reserved", grouped(reserved), grouped(capacity)));
        let (region, space) = source
            .trim_start_matches("region:")
            .split_once('@')
            .unwrap_or_else(|| (source.trim_start_matches("region:"), "default"));
        let space = names::space_option(space);
        let cure = match (capped, expandable_bits) {
            (true, _) => format!("`kent region set {region} --no-cap{space}` removes its cap"),
            (false, 0) => format!(
                "it cannot be expanded, so create another region: `kent region create NAME{space} --suffix BITS`"
            ),
            (false, _) => format!("`kent region expand {region} --by 1{space}` doubles it"),
        };
        check.problem_within(
            Some(*full_in_seconds),
            match *full_in_seconds {
                seconds if seconds <= 0.0 => State::Wrong,
                // A burst of grants from an empty region also gives a short forecast.
                seconds if seconds <= FULL_WRONG_SECONDS && used >= SHARE_WARNING => State::Wrong,
                seconds if seconds <= FULL_WARNING_SECONDS => State::Warning,
                _ => State::Ok,
            },
            format!(
                "{source} is {when}{}",
                if *full_in_seconds > 0.0 { " at the rate of the last minutes" } else { "" }
            ),
            format!("Look at it with `kent region show {region}{space}`; {cure}."),
        );
    }
    check
}

#[cfg(test)]
mod tests;
