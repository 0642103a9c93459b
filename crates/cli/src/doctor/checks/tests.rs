//! Diagnoses, and the problems that the checks find in them.

use kent_proto::v1::{ClockQuarantine, Etcd, EtcdMember, SlotStatus, StoreSize, StoreStatus};

use super::*;

const IN_STEP: Offset = Offset { millis: 0.2, error_millis: 0.5 };

/// A daemon on sled without problems.
fn healthy() -> Diagnosis {
    Diagnosis {
        status: Some(Status {
            version: "0.1.0".to_owned(),
            ready: true,
            uptime_seconds: 90,
            store: Some(StoreStatus { kind: "sled".to_owned(), commits: 1200, ..StoreStatus::default() }),
            slots: vec![SlotStatus { window_left_ms: 59_500, ..SlotStatus::default() }],
            ..Status::default()
        }),
        directories: vec![Directory {
            setting: "data".to_owned(),
            path: "kent-data".to_owned(),
            free_bytes: 30 << 30,
            total_bytes: 64 << 30,
            sync_micros: 900,
            sync_max_micros: 2100,
            problem: String::new(),
        }],
        store_size: Some(StoreSize { bytes: 3 << 19, journal_bytes: 1 << 20 }),
        open_files: Some(40),
        open_files_max: Some(1024),
        ..Diagnosis::default()
    }
}

fn member(name: &str) -> EtcdMember {
    EtcdMember {
        name: name.to_owned(),
        endpoint: format!("{name}:2379"),
        addressed: true,
        version: "3.5.9".to_owned(),
        latency_micros: 800,
        database_bytes: 5 << 20,
        used_bytes: 1 << 20,
        leader: name == "a",
        has_leader: true,
        ..EtcdMember::default()
    }
}

fn on_etcd() -> Diagnosis {
    let etcd = Etcd { read_micros: Some(1500), members: ["a", "b", "c"].map(member).into(), ..Etcd::default() };
    Diagnosis { etcd: Some(etcd), directories: Vec::new(), store_size: None, ..healthy() }
}

/// Returns the problems that `change` causes, as "check state: what".
fn problems(mut diagnosis: Diagnosis, offset: Offset, change: impl FnOnce(&mut Diagnosis, &mut Status)) -> Vec<String> {
    let mut status = diagnosis.status.take().expect("a status");
    change(&mut diagnosis, &mut status);
    diagnosis.status = Some(status);
    let shown = |check: &Check| {
        let shown = |problem: &Problem| format!("{} {}: {}", check.name, problem.state.name(), problem.what);
        check.problems.iter().map(shown).collect::<Vec<_>>()
    };
    all(&diagnosis, offset).iter().flat_map(shown).collect()
}

#[track_caller]
fn finds(change: impl FnOnce(&mut Diagnosis, &mut Status), expected: &str) {
    let found = problems(healthy(), IN_STEP, change);
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
}

#[track_caller]
fn finds_in_etcd(change: impl FnOnce(&mut Etcd), expected: &[&str]) {
    let found = problems(on_etcd(), IN_STEP, |diagnosis, _| change(diagnosis.etcd.as_mut().expect("on etcd")));
    let is_expected =
        found.len() == expected.len() && found.iter().zip(expected).all(|(it, want)| it.starts_with(want));
    assert!(is_expected, "{found:?}");
}

#[test]
fn ok_a_healthy_daemon_has_no_problems() {
    assert_eq!(problems(healthy(), IN_STEP, |_, _| ()), [""; 0]);
    assert_eq!(problems(on_etcd(), IN_STEP, |_, _| ()), [""; 0]);
    let facts: Vec<_> =
        all(&healthy(), IN_STEP).into_iter().map(|check| (check.name, check.facts.join("\n"))).collect();
    let expected = [
        ("daemon", "kentd 0.1.0, up 1m 30s, ready"),
        ("clock", "0.20 ms ahead of this machine's clock (± 0.50 ms), no steps since start"),
        ("disk", "kent-data: a durable write of 4 KiB takes 0.90 ms, at worst 2.10 ms; 30.0 GiB of 64.0 GiB free"),
        (
            "store",
            "sled, 1.5 MiB of which 1.0 MiB are the journal; 1_200 commits, 0 conflicts\n\
             time-based identifiers can be issued for 59.5 s without it",
        ),
        ("limits", "40 of 1_024 open files"),
    ];
    assert_eq!(facts, expected.map(|(name, facts)| (name, facts.to_owned())));
}

#[test]
fn err_each_problem_of_a_daemon_is_found() {
    finds(|_, status| status.reasons = vec!["stopping".to_owned()], "daemon wrong: stopping");
    finds(
        |_, status| status.clock = Some(ClockStatus { clock_epoch: 2, ..ClockStatus::default() }),
        "clock warning: the daemon's clock went back beyond the tolerance: 2 steps",
    );
    let quarantine = |instead_unix_nanos| {
        let quarantine = Some(ClockQuarantine { ahead_ms: 7_200_000, instead_unix_nanos });
        Some(ClockStatus { quarantine, ..ClockStatus::default() })
    };
    finds(|_, status| status.clock = quarantine(None), "clock wrong: the daemon distrusts its clock, which is 2 hours");
    finds(|_, status| status.clock = quarantine(Some(5)), "clock warning: the daemon distrusts its clock");
    finds(|it, _| it.directories[0].free_bytes = 99 << 20, "disk wrong: kent-data has 99.0 MiB of 64.0 GiB free");
    finds(|it, _| it.directories[0].free_bytes = 900 << 20, "disk warning: kent-data has 900.0 MiB");
    finds(|it, _| it.directories[0].sync_micros = 160_000, "disk warning: writes to kent-data take 160 ms");
    finds(|it, _| it.directories[0].sync_micros = 2_000_000, "disk wrong: writes to kent-data take 2000 ms");
    finds(|it, _| it.directories[0].problem = "hangs".to_owned(), "disk wrong: kent-data cannot be measured: hangs");
    finds(|it, _| it.open_files = Some(900), "limits warning: 900 of 1_024 open files");
    finds(|it, _| it.open_files = Some(1020), "limits wrong: 1_020 of 1_024 open files");
    finds(
        |_, status| status.store = Some(StoreStatus { kind: "memory".to_owned(), ..StoreStatus::default() }),
        "store warning: the store is in memory",
    );
}

#[test]
fn err_a_clock_that_is_certainly_off_is_found() {
    for (millis, error_millis, expected) in
        [(200.0, 1.0, 0), (-260.0, 1.0, 1), (260.0, 1.0, 1), (2000.0, 1900.0, 0), (2000.0, 1000.0, 1)]
    {
        let found = problems(healthy(), Offset { millis, error_millis }, |_, _| ());
        assert_eq!(found.len(), expected, "{millis} ± {error_millis}: {found:?}");
    }
}

#[test]
fn err_each_problem_of_another_replica_is_found() {
    let one = ReplicaStatus {
        version: "0.1.0".to_owned(),
        address: "b:7600".to_owned(),
        heard_ms_ago: 2000,
        ..ReplicaStatus::default()
    };
    let finds = |other: ReplicaStatus, expected: &str| {
        finds(
            |_, status| status.replicas = vec![ReplicaStatus { answering: true, ..one.clone() }, other],
            &format!("replicas warning: {expected}"),
        );
    };
    finds(
        ReplicaStatus { heard_ms_ago: 20_000, ..one.clone() },
        "the replica at b:7600 was last heard from 20 seconds ago",
    );
    finds(
        ReplicaStatus { clock_ahead_ms: Some(-300), ..one.clone() },
        "the clock of the replica at b:7600 differs by -300",
    );
    finds(
        ReplicaStatus { version: "0.2.0".to_owned(), ..one.clone() },
        "the replica at b:7600 runs kentd 0.2.0, this one",
    );
}

#[test]
fn err_regions_that_will_be_full_soon_are_found() {
    let forecast = |full_in_seconds| Forecast {
        source: "region:orders@parts".to_owned(),
        capacity: "4096".to_owned(),
        reserved: "4000".to_owned(),
        full_in_seconds,
        capped: false,
        expandable_bits: 3,
    };
    for (seconds, expected) in [
        (0.0, "regions wrong: region:orders@parts is full"),
        (600.0, "regions wrong: region:orders@parts is full in 10 minutes at the rate"),
        (200_000.0, "regions warning: region:orders@parts is full in 2 days"),
    ] {
        finds(|it, _| it.full_first = vec![forecast(seconds)], expected);
    }
    assert_eq!(problems(healthy(), IN_STEP, |it, _| it.full_first = vec![forecast(1e7)]), [""; 0]);
    let burst = Forecast { reserved: "1000".to_owned(), ..forecast(600.0) };
    finds(
        |it, _| it.full_first = vec![burst],
        "regions warning: region:orders@parts is full in 10 minutes at the rate",
    );
    for (capped, expandable_bits, expected) in [
        (false, 3, "`kent region expand orders --by 1 --space parts` doubles it"),
        (true, 3, "`kent region set orders --no-cap --space parts` removes its cap"),
        (false, 0, "it cannot be expanded, so create another region"),
    ] {
        let full = Forecast { capped, expandable_bits, ..forecast(0.0) };
        let checks = all(&Diagnosis { full_first: vec![full], ..healthy() }, IN_STEP);
        let advice = &checks.last().expect("regions").problems[0].advice;
        assert!(advice.contains(expected), "{advice}");
    }
}

#[test]
fn err_a_certificate_that_ends_soon_is_found() {
    let file = |ends_in_seconds: f64| CertificateFile {
        setting: "tls-cert".to_owned(),
        path: "server.pem".to_owned(),
        ends_in_seconds,
    };
    let with = |left: f64| Diagnosis { certificates: vec![file(left)], ..healthy() };
    for (left, expected) in [
        (90.0 * 86_400.0, None),
        (48.0 * 3600.0, Some("certificates warning: server.pem (tls-cert) expires in 2 days")),
        (-7200.0, Some("certificates wrong: server.pem (tls-cert) expired 2 hours ago")),
    ] {
        let found = problems(with(left), IN_STEP, |_, _| ());
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        assert!(found.concat().starts_with(expected.unwrap_or_default()), "{found:?}");
    }
}

#[test]
fn err_each_problem_of_etcd_is_found() {
    finds_in_etcd(|it| it.read_micros = Some(300_000), &["etcd warning: etcd takes 300 ms for a read"]);
    finds_in_etcd(
        |it| (it.read_micros, it.problem) = (None, "no".to_owned()),
        &["etcd wrong: etcd does not answer (no)"],
    );
    finds_in_etcd(|it| it.alarms = vec!["NOSPACE on a".to_owned()], &["etcd wrong: etcd has the alarm NOSPACE on a"]);
    finds_in_etcd(
        |it| it.members[0].database_bytes = 1_800 << 20,
        &["etcd warning: the database of a at a:2379 has 1.8 GiB"],
    );
    let small = |it: &mut Etcd| (it.members[0].quota_bytes, it.members[0].database_bytes) = (Some(4 << 20), 4 << 20);
    finds_in_etcd(small, &["etcd wrong: the database of a at a:2379 has 4.0 MiB of 4.0 MiB, 1.0 MiB in use"]);
    finds_in_etcd(|it| it.members[2].has_leader = false, &["etcd wrong: c at c:2379 sees no leader"]);
    finds_in_etcd(|it| it.members[2].errors = vec!["slow".to_owned()], &["etcd warning: c at c:2379 says: slow"]);
    finds_in_etcd(
        |it| it.members[1].version = "3.6.0".to_owned(),
        &["etcd warning: the members run different versions"],
    );
    finds_in_etcd(|it| it.members[1].addressed = false, &["etcd warning: b at b:2379 is a member of the cluster, but"]);
    finds_in_etcd(
        |it| it.members[1] = EtcdMember { problem: "refused".to_owned(), version: String::new(), ..member("b") },
        &["etcd warning: b at b:2379 does not answer", "etcd warning: 1 of 3 members do not answer"],
    );
    finds_in_etcd(|it| it.members.truncate(1), &["etcd warning: etcd has one member"]);
}
