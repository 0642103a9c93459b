//! Real daemons whose clocks are changed by libfaketime. The time since boot is not changed.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use kent_proto::v1::{AcceptClockRequest, BackupRequest, Encoding, GetStatusRequest, backup_part::Part};
use tonic::Code;
use tonic_types::StatusExt;

use super::harness::{Daemon, Ledger, data_dir, identifiers, kentd, request};

/// The path of libfaketime, which `.ci/run` installs.
pub(crate) fn libfaketime() -> PathBuf {
    let places = fs::read_dir("/usr/lib").expect("a Unix-like system").filter_map(Result::ok);
    let library = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    library.expect("libfaketime is not installed: apt-get install faketime")
}

/// A daemon whose clock offset is set by a file, and the identifiers it has issued.
struct Faked {
    daemon: Daemon,
    rc: PathBuf,
    ledger: Ledger,
}

impl Faked {
    fn start(dir: &Path, ledger: Ledger, offset: &str) -> Self {
        let rc = dir.join("clock");
        fs::write(&rc, offset).expect("written");
        let mut command = kentd(&dir.join("data"));
        command.env("LD_PRELOAD", libfaketime()).env("FAKETIME_TIMESTAMP_FILE", &rc).env("FAKETIME_NO_CACHE", "1");
        // Setting the time of a machine does not change the monotonic clock, so libfaketime must not change it, either.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1").args(["--log", "error"]);
        Self { daemon: Daemon::spawn(&mut command), rc, ledger }
    }

    /// Sets the clock to the machine's clock plus this offset, such as `-1d` or `+3600`.
    fn set(&self, offset: &str) {
        // Replace the file atomically, so that the daemon never reads a partial offset.
        let new = self.rc.with_extension("new");
        fs::write(&new, offset).expect("written");
        fs::rename(&new, &self.rc).expect("renamed");
    }

    /// The daemon's clock reading in its status, in nanoseconds since 1970.
    async fn clock(&self) -> i128 {
        let status = self.daemon.admin().get_status(GetStatusRequest {}).await.expect("a status").into_inner();
        status.clock.expect("a clock").unix_nanos.into()
    }

    /// Allocates from several sources, and checks for duplicates and for timestamps that match the reported clock plus
    /// `off` nanoseconds.
    async fn allocate(&mut self, off: i128) {
        let mut client = self.daemon.allocator();
        let before = self.clock().await + off;
        for source in ["uuidv7", "uuidv6", "uuidv1", "xid", "uuidv8-draft01-60"] {
            let ask = request(source, 200, Encoding::Packed);
            let reply = client.allocate(ask).await.expect(source).into_inner();
            let ids = identifiers(&reply);
            if source == "uuidv7" {
                let after = self.clock().await + off;
                for id in &ids {
                    let stamped = i128::try_from(id >> 80).expect("48 bits") * 1_000_000;
                    // Promise P4 of the README: at the time of the grant, a timestamp is at most a second ahead of the
                    // clock and half a second behind it.
                    assert!(stamped <= after + SECOND, "{} ms ahead", (stamped - after) / MILLI);
                    assert!(stamped + SECOND / 2 + MILLI >= before, "{} ms behind", (before - stamped) / MILLI);
                }
            }
            // Versions 1 and 6 share a sequence and have the same fields in another order.
            match source {
                "uuidv1" => self.ledger.record("uuidv6", ids.into_iter().map(version_6)),
                _ => self.ledger.record(source, ids),
            }
        }
    }
}

/// The UUID of version 6 with the ticks, clock sequence and node of this UUID of version 1.
fn version_6(v1: u128) -> u128 {
    let ticks = (v1 >> 64 & 0xfff) << 48 | (v1 >> 80 & 0xffff) << 32 | v1 >> 96;
    (ticks >> 12) << 80 | 6 << 76 | (ticks & 0xfff) << 64 | v1 & u128::from(u64::MAX)
}

const SECOND: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn ok_no_clock_change_causes_duplicates_or_wrong_timestamps() {
    let dir = data_dir();
    let mut faked = Faked::start(dir.path(), Ledger::default(), "+0");
    // The clock goes back by 10 ms, 2 s, an hour and a day, and returns each time. It repeats a second, as happens
    // at a leap second, and runs too slow and too fast, as happens while a leap second is smeared. Then it goes ahead
    // by almost an hour, which the daemon accepts, and returns.
    for offset in
        ["+0", "-0.01", "+0", "-2", "+0", "-1h", "+0", "-1d", "+0", "-1", "+0 x0.95", "+0 x1.05", "+3500", "+0"]
    {
        faked.set(offset);
        for _ in 0..3 {
            faked.allocate(0).await;
        }
    }
    // If the clock is far ahead, the daemon distrusts it and uses the time since boot.
    let ten_years: i128 = 3650 * 86_400 * SECOND;
    for (offset, by) in [("+2h", 7200 * SECOND), ("+3650d", ten_years), ("+0", 0), ("+3650d", ten_years)] {
        faked.set(offset);
        faked.allocate(-by).await;
        let clock = faked.daemon.admin().get_status(GetStatusRequest {}).await.expect("a status").into_inner().clock;
        let quarantine = clock.expect("a clock").quarantine;
        assert_eq!(quarantine.is_some(), by != 0, "{offset}");
        assert!(faked.daemon.get("/metrics").1.contains(&format!("clock_quarantined {}", u8::from(by != 0))));
    }

    // If the clock is wrong at the start, the daemon cannot derive the correct time: it refuses time-based sources but
    // not counters.
    faked.daemon.kill();
    let mut faked = Faked::start(dir.path(), faked.ledger, "+3650d");
    let ask = request("uuidv7", 1, Encoding::Packed);
    let refused = faked.daemon.allocator().allocate(ask).await.expect_err("the clock is distrusted");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let reason = refused.get_error_details().error_info().map(|info| info.reason.clone());
    assert_eq!(reason.as_deref(), Some("CLOCK_QUARANTINED"));
    let (status, body) = faked.daemon.get("/readyz");
    assert!(status == 503 && body.contains("kent clock accept"), "{status} {body}");
    let fullrand = request("uid11-fullrand", 5, Encoding::Packed);
    faked.daemon.allocator().allocate(fullrand).await.expect("counters work");
    // The daemon trusts the corrected clock without an operator's help.
    faked.set("+0");
    granted_again(&mut faked).await;

    // An operator can accept a wrong clock. When the accepted clock returns from the far future, the daemon grants
    // again without an operator's help.
    faked.set("+3650d");
    faked.allocate(-ten_years).await;
    faked.daemon.admin().accept_clock(AcceptClockRequest {}).await.expect("accepted");
    granted_again(&mut faked).await;
    faked.set("+0");
    granted_again(&mut faked).await;
    faked.daemon.kill();
    let mut faked = Faked::start(dir.path(), faked.ledger, "+0");
    granted_again(&mut faked).await;
}

/// Waits until the daemon has a slot, and allocates.
async fn granted_again(faked: &mut Faked) {
    loop {
        let ask = request("uuidv7", 1, Encoding::Packed);
        match faked.daemon.allocator().allocate(ask).await {
            Ok(_) => break,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    faked.allocate(0).await;
}

/// The time of a backup in nanoseconds since 1970.
async fn backup_time(faked: &Faked) -> i128 {
    let mut parts = faked.daemon.admin().backup(BackupRequest {}).await.expect("a backup").into_inner();
    let first = parts.message().await.expect("a message").expect("a beginning");
    match first.part.expect("a part") {
        Part::Begin(begin) => begin.unix_nanos.into(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_backup_carries_the_trusted_time() {
    let dir = data_dir();
    let mut faked = Faked::start(dir.path(), Ledger::default(), "+0");
    granted_again(&mut faked).await;
    let before = faked.clock().await;
    let taken = backup_time(&faked).await;
    assert!(before <= taken && taken <= faked.clock().await, "{before} {taken}");
    // With a backup time that is too late, a restore would skip too few identifiers.
    faked.set("+2h");
    faked.allocate(-7200 * SECOND).await;
    let taken = backup_time(&faked).await;
    assert!(before <= taken && taken + 3600 * SECOND <= faked.clock().await, "{before} {taken}");
    faked.daemon.kill();
    let faked = Faked::start(dir.path(), faked.ledger, "+3650d");
    assert_eq!(backup_time(&faked).await, 0, "the backup has no time");
}
