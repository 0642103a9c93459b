//! The check of the etcd cluster that holds the store.

use kent_proto::v1::{Etcd, EtcdMember};

use super::{Check, SHARE_WARNING, SHARE_WRONG, State};
use crate::number::{bytes, millis};

/// Thresholds for the latency of a read, in milliseconds. The daemon gives up after 5 s.
const READ_WARNING_MS: f64 = 100.0;
const READ_WRONG_MS: f64 = 1000.0;

/// The assumed quota of a member that does not report its quota: etcd's default.
const QUOTA_DEFAULT_BYTES: u64 = 2 << 30;

/// Checks the cluster. The daemon issues time-based identifiers for `window_left` seconds without etcd.
pub(super) fn check(etcd: &Etcd, window_left: Option<f64>) -> Check {
    let mut check = Check::new("etcd");
    match etcd.read_micros {
        Some(micros) => {
            let took = millis(micros as f64 / 1000.0);
            check.fact(format!("a read that a majority confirms takes {took}"));
            check.problem(
                State::above(micros as f64 / 1000.0, READ_WARNING_MS, READ_WRONG_MS),
                format!("etcd takes {took} for a read"),
                "Commits take longer still: look at the disks of its members and the network between them.",
            );
        }
        None => {
            check.fact(format!("does not answer: {}", etcd.problem));
            let rest = window_left.map_or_else(String::new, |left| format!(" for another {left:.1} s"));
            check.problem_within(
                Some(window_left.unwrap_or(0.0)),
                State::Wrong,
                format!("etcd does not answer ({})", etcd.problem),
                format!(
                    "The daemon grants from its window and its chunks{rest}: restore a majority of etcd's members."
                ),
            );
        }
    }
    for alarm in &etcd.alarms {
        check.fact(format!("alarm {alarm}"));
        let advice = match alarm.starts_with("NOSPACE") {
            true => {
                "No commit is possible: compact, `etcdctl defrag --cluster`, raise --quota-backend-bytes if it is too \
                 small, then `etcdctl alarm disarm`."
            }
            false => "Replace that member: `etcdctl member remove`, delete its data, `etcdctl member add`.",
        };
        check.problem_within(Some(0.0), State::Wrong, format!("etcd has the alarm {alarm}"), advice);
    }
    etcd.members.iter().for_each(|one| member(&mut check, one));
    majority(&mut check, &etcd.members);
    versions(&mut check, &etcd.members);
    check
}

fn label(member: &EtcdMember) -> String {
    match member.name.as_str() {
        "" => member.endpoint.clone(),
        name => format!("{name} at {}", member.endpoint),
    }
}

fn member(check: &mut Check, member: &EtcdMember) {
    let label = label(member);
    if !member.addressed {
        check.fact(format!("{label}: not in --store"));
        check.problem(
            State::Warning,
            format!("{label} is a member of the cluster, but --store does not list it"),
            "Add its endpoint to --store, so that the daemon can use it when others fail.",
        );
        return;
    }
    if !member.problem.is_empty() {
        check.fact(format!("{label}: {}", member.problem));
        check.problem(
            State::Warning,
            format!("{label} does not answer"),
            "Start it or replace it: without a majority of the members nothing can be committed.",
        );
        return;
    }
    let role = match (member.leader, member.learner) {
        (true, _) => ", leader",
        (false, true) => ", learner",
        (false, false) => "",
    };
    let quota = member.quota_bytes.unwrap_or(QUOTA_DEFAULT_BYTES);
    let (database, whole) = (bytes(member.database_bytes), bytes(quota));
    // Only etcd 3.6 and later report the quota.
    let assumed = if member.quota_bytes.is_some() { "" } else { " by default" };
    check.fact(format!(
        "{label}: etcd {}{role}, answers in {}, database {database} of {whole}{assumed}",
        member.version,
        millis(member.latency_micros as f64 / 1000.0),
    ));
    check.problem(
        State::above(member.database_bytes as f64 / quota as f64, SHARE_WARNING, SHARE_WRONG),
        format!("the database of {label} has {database} of {whole}{assumed}, {} in use", bytes(member.used_bytes)),
        "At the quota no commit is possible: compact (--auto-compaction-retention=1h), run `etcdctl defrag --cluster`, or \
         raise --quota-backend-bytes.",
    );
    if !member.has_leader {
        check.problem_within(
            Some(0.0),
            State::Wrong,
            format!("{label} sees no leader"),
            "Without a leader nothing can be committed: check that a majority of the members runs and can connect.",
        );
    }
    for error in &member.errors {
        check.problem(State::Warning, format!("{label} says: {error}"), "Look into the log of that member.");
    }
}

/// Warns if the failure of one more member would cost etcd its majority.
fn majority(check: &mut Check, members: &[EtcdMember]) {
    let voters = members.iter().filter(|member| !member.learner);
    let (all, down) = (voters.clone().count(), voters.filter(|member| !member.problem.is_empty()).count());
    if down > 0 && all - down == all / 2 + 1 {
        check.problem(
            State::Warning,
            format!("{down} of {all} members do not answer: if one more fails, nothing can be committed"),
            "Start or replace them before anything else.",
        );
    }
    check.problem(
        if all == 1 { State::Warning } else { State::Ok },
        "etcd has one member: if it fails, nothing can be committed",
        "For production use three or five members on different machines.",
    );
}

fn versions(check: &mut Check, members: &[EtcdMember]) {
    let mut versions: Vec<&str> = members.iter().map(|member| &*member.version).filter(|it| !it.is_empty()).collect();
    versions.sort_unstable();
    versions.dedup();
    check.problem(
        if versions.len() > 1 { State::Warning } else { State::Ok },
        format!("the members run different versions of etcd: {}", versions.join(", ")),
        "Finish the upgrade of etcd.",
    );
}
