//! `kent status` and `kent clock`: daemon health.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kent_client::Daemon;
use kent_proto::v1::{
    AcceptClockRequest, ChunkStatus, ClockStatus, DiagnoseRequest, GetStatusRequest, Limits, ReplicaStatus, SlotStatus,
    Status, StoreStatus,
};
use serde_json::{Value, json};

use crate::args::ClockCommand;
use crate::connect::request;
use crate::failure::Failure;
use crate::notice;
use crate::number;
use crate::output::{Out, Palette, Role};
use crate::table::{Cell, Table, facts};

pub(crate) async fn run(daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let status = daemon.admin().get_status(request(GetStatusRequest {})).await?.into_inner();
    if out.is_json() {
        return out.json(&to_json(&status));
    }
    let text = render(&status, out.palette());
    out.text(&text)
}

/// Shows the state of the daemon's clock. With `accept`, first confirms that the clock is right.
pub(crate) async fn clock(command: Option<ClockCommand>, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let status = daemon.admin().get_status(request(GetStatusRequest {})).await?.into_inner();
    let mut clock = clock_of(status, daemon).await?;
    if let Some(ClockCommand::Accept) = command {
        match clock.quarantine {
            Some(_) => clock = daemon.admin().accept_clock(request(AcceptClockRequest {})).await?.into_inner(),
            None => notice::write("nothing to accept: the daemon trusts its clock\n", false),
        }
    }
    if out.is_json() {
        return out.json(&clock_json(&clock));
    }
    let text = facts(&clock_rows(&clock, out.palette()), out.palette());
    out.text(&text)
}

/// Returns the clock of a status. The daemon leaves out the clock if the caller lacks the permission `operate:*`. A
/// diagnosis needs the same permission, so its refusal says what is missing.
async fn clock_of(status: Status, daemon: &Daemon) -> Result<ClockStatus, Failure> {
    match status.clock {
        Some(clock) => Ok(clock),
        None => {
            daemon.admin().diagnose(request(DiagnoseRequest {})).await?;
            Err(Failure::Answer("the status lacks the clock".to_owned()))
        }
    }
}

/// Returns the uptime in seconds. The daemon leaves it out, like the store, if the caller lacks the permission
/// `operate:*`.
fn uptime(status: &Status) -> Option<u64> {
    status.store.as_ref().map(|_| status.uptime_seconds)
}

fn render(status: &Status, palette: Palette) -> String {
    let up = uptime(status).map(|up| format!(", up {}", seconds(up)));
    let mut rows = vec![
        ("kentd", format!("{}{}", status.version, up.as_deref().unwrap_or_default())),
        ("ready", readiness(status, palette)),
    ];
    rows.extend(status.reasons.iter().map(|reason| ("", palette.paint(Role::Warning, reason))));
    rows.extend(status.store.iter().flat_map(|store| store_rows(store, palette)));
    rows.extend(status.clock.iter().flat_map(|clock| clock_rows(clock, palette)));
    rows.extend(status.limits.iter().map(|limits| ("limits", limits_text(limits))));
    if up.is_none() {
        rows.push(("", palette.paint(Role::Faint, "the rest of the status needs the permission operate:*")));
    }
    let mut text = facts(&rows, palette);
    for table in [slots(&status.slots), chunks(&status.chunks), replicas(&status.replicas)] {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.render(palette));
        }
    }
    text
}

fn readiness(status: &Status, palette: Palette) -> String {
    if status.ready { palette.paint(Role::Good, "yes") } else { palette.paint(Role::Bad, "no") }
}

fn store_rows(store: &StoreStatus, palette: Palette) -> Vec<(&'static str, String)> {
    let place = if store.location.is_empty() { String::new() } else { format!(" at {}", store.location) };
    let counts = [(store.commits, "commit"), (store.flushes, "flush"), (store.conflicts, "conflict")];
    let counts = counts.map(|(count, noun)| number::counted(count, noun)).join(", ");
    let mut rows = vec![("store", format!("{}{place}, id {}", store.kind, store.id))];
    if !store.unreachable.is_empty() {
        let ago = store.reached_ms_ago.map(|ago| format!(", last reached {} ago", seconds(ago / 1000)));
        let (kind, ago, why) = (&store.kind, ago.unwrap_or_default(), &store.unreachable);
        rows.push(("", palette.paint(Role::Bad, &format!("{kind} is unreachable{ago}: {why}"))));
    }
    rows.push(("", counts));
    rows
}

fn clock_rows(clock: &ClockStatus, palette: Palette) -> Vec<(&'static str, String)> {
    let steps = match clock.clock_epoch {
        0 => "no steps since start".to_owned(),
        steps => format!("{} since start", number::counted(steps, "step")),
    };
    let bounds = format!(
        "tolerance {} ms, at most {} ms ahead",
        number::grouped(clock.tolerance_ms),
        number::grouped(clock.max_ahead_ms)
    );
    let mut rows = vec![("clock", format!("{}, {steps}", instant(i128::from(clock.unix_nanos)))), ("", bounds)];
    rows.extend(clock.quarantine.map(|quarantine| {
        let ahead = seconds(quarantine.ahead_ms / 1000);
        let text = match quarantine.instead_unix_nanos {
            Some(instead) => {
                format!("distrusted: {ahead} too far ahead; issuing with {} instead", instant(instead.into()))
            }
            None => {
                format!("distrusted: {ahead} ahead of every recorded time; time-based identifiers are refused")
            }
        };
        ("", palette.paint(Role::Bad, &text))
    }));
    rows
}

fn limits_text(limits: &Limits) -> String {
    format!(
        "{} per lease, {} per packed reply, {}",
        number::counted(limits.lease_count, "identifier"),
        number::counted(limits.packed_bytes, "byte"),
        number::counted(limits.streams, "stream"),
    )
}

fn slots(slots: &[SlotStatus]) -> Table {
    let mut table = Table::new([">SLOT", ">EPOCH", "NODE", ">CLOCK SEQ", "RESERVED UNTIL", ">WINDOW LEFT"]);
    for slot in slots {
        table.row([
            slot.slot.into(),
            slot.slot_epoch.into(),
            Cell::from(&slot.node),
            slot.clock_seq.into(),
            until(slot.reserved_until).into(),
            format!("{}.{:03} s", slot.window_left_ms / 1000, slot.window_left_ms % 1000).into(),
        ]);
    }
    table
}

fn chunks(chunks: &[ChunkStatus]) -> Table {
    let mut table = Table::new(["CHUNK OF", ">LEFT"]);
    for chunk in chunks {
        table.row([Cell::from(&chunk.source), number::grouped(&chunk.left).into()]);
    }
    table
}

/// Returns a table of all replicas on the store, with a warning for clocks that differ by more than
/// [`CLOCKS_DIFFER_MS`].
fn replicas(replicas: &[ReplicaStatus]) -> Table {
    let headings = ["REPLICA", "VERSION", ">SLOT", "RESERVED UNTIL", ">CLOCK", ">HEARD", ">TABLES AT", "RUN"];
    let mut table = Table::new(headings);
    for replica in replicas {
        let clock = match replica.clock_ahead_ms {
            Some(ahead) if ahead.unsigned_abs() > CLOCKS_DIFFER_MS => Cell::new(Role::Bad, format!("{ahead:+} ms")),
            Some(ahead) => format!("{ahead:+} ms").into(),
            None => "-".into(),
        };
        let heard = format!("{}.{} s ago", replica.heard_ms_ago / 1000, replica.heard_ms_ago % 1000 / 100);
        table.row([
            Cell::from(&replica.address),
            Cell::from(&replica.version),
            replica.slot.map_or("-".to_owned(), |slot| slot.to_string()).into(),
            replica.slot.map_or("-".to_owned(), |_| until(replica.reserved_until)).into(),
            clock,
            if replica.answering { "answers".into() } else { heard.into() },
            replica.applied_version.into(),
            Cell::new(Role::Faint, replica.name.clone()),
        ]);
    }
    table
}

/// The table marks clocks that differ by more than this number of milliseconds. The daemon warns at the same threshold.
const CLOCKS_DIFFER_MS: u64 = 250;

fn until(unix_seconds: i64) -> String {
    instant(i128::from(unix_seconds) * 1_000_000_000)
}

/// Formats a time as RFC 3339 with milliseconds, or as the number of nanoseconds if the time has no calendar date.
fn instant(unix_nanos: i128) -> String {
    let at = u64::try_from(unix_nanos).ok().and_then(|nanos| UNIX_EPOCH.checked_add(Duration::from_nanos(nanos)));
    at.map(|at: SystemTime| humantime::format_rfc3339_millis(at).to_string()).unwrap_or(format!("{unix_nanos} ns"))
}

fn seconds(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

fn clock_json(clock: &ClockStatus) -> Value {
    json!({
        "unix_nanos": clock.unix_nanos.to_string(),
        "clock_epoch": clock.clock_epoch,
        "tolerance_ms": clock.tolerance_ms,
        "max_ahead_ms": clock.max_ahead_ms,
        "quarantine": clock.quarantine.map(|quarantine| json!({
            "ahead_ms": quarantine.ahead_ms,
            "instead_unix_nanos": quarantine.instead_unix_nanos.map(|nanos| nanos.to_string()),
        })),
    })
}

/// Converts a status to JSON. Counts that grow by one never reach 2^53, so they are JSON numbers. All other 64-bit
/// values are strings.
fn to_json(status: &Status) -> Value {
    json!({
        "version": status.version,
        "uptime_seconds": uptime(status),
        "ready": status.ready,
        "reasons": status.reasons,
        "store": status.store.as_ref().map(|store| json!({
            "kind": store.kind,
            "location": store.location,
            "id": store.id,
            "commits": store.commits,
            "flushes": store.flushes,
            "conflicts": store.conflicts,
            "reached_ms_ago": store.reached_ms_ago,
            "unreachable": (!store.unreachable.is_empty()).then_some(&store.unreachable),
        })),
        "replicas": status.replicas.iter().map(replica_to_json).collect::<Value>(),
        "clock": status.clock.as_ref().map(clock_json),
        "slots": status.slots.iter().map(slot_to_json).collect::<Value>(),
        "chunks": status.chunks.iter().map(|chunk| json!({"source": chunk.source, "left": chunk.left})).collect::<Value>(),
        "limits": status.limits.as_ref().map(|limits| json!({
            "lease_count": limits.lease_count.to_string(),
            "packed_bytes": limits.packed_bytes.to_string(),
            "streams": limits.streams.to_string(),
        })),
    })
}

fn replica_to_json(replica: &ReplicaStatus) -> Value {
    json!({
        "name": replica.name,
        "address": replica.address,
        "version": replica.version,
        "slot": replica.slot,
        "reserved_until": replica.reserved_until,
        "clock_ahead_ms": replica.clock_ahead_ms,
        "applied_version": replica.applied_version.to_string(),
        "answering": replica.answering,
        "heard_ms_ago": replica.heard_ms_ago,
    })
}

fn slot_to_json(slot: &SlotStatus) -> Value {
    json!({
        "slot": slot.slot,
        "slot_epoch": slot.slot_epoch,
        "node": slot.node,
        "clock_seq": slot.clock_seq,
        "reserved_until": slot.reserved_until,
        "window_left_ms": slot.window_left_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Status {
        Status {
            version: "0.1.0".to_owned(),
            uptime_seconds: 3700,
            ready: false,
            reasons: vec!["the store does not answer".to_owned()],
            store: Some(StoreStatus {
                kind: "sled".to_owned(),
                location: "./kent-data".to_owned(),
                id: "0a1b".to_owned(),
                commits: 12,
                flushes: 9,
                ..StoreStatus::default()
            }),
            clock: Some(ClockStatus {
                unix_nanos: 1_763_667_000_123_456_789,
                clock_epoch: 1,
                tolerance_ms: 2000,
                max_ahead_ms: 1000,
                quarantine: None,
            }),
            slots: vec![SlotStatus {
                slot: 3,
                slot_epoch: 7,
                node: "a1b2c3d4e5f6".to_owned(),
                clock_seq: 16_383,
                reserved_until: 1_763_667_060,
                window_left_ms: 59_876,
            }],
            chunks: vec![ChunkStatus { source: "region:orders".to_owned(), left: "4096".to_owned() }],
            limits: Some(Limits { lease_count: 1_000_000_000, packed_bytes: 4_194_304, streams: 1024 }),
            replicas: Vec::new(),
        }
    }

    #[test]
    fn ok_a_status_for_people() {
        assert_eq!(
            render(&example(), Palette::PLAIN),
            "\
kentd   0.1.0, up 1h 1m 40s
ready   no
        the store does not answer
store   sled at ./kent-data, id 0a1b
        12 commits, 9 flushes, 0 conflicts
clock   2025-11-20T19:30:00.123Z, 1 step since start
        tolerance 2_000 ms, at most 1_000 ms ahead
limits  1_000_000_000 identifiers per lease, 4_194_304 bytes per packed reply, 1_024 streams

SLOT  EPOCH  NODE          CLOCK SEQ  RESERVED UNTIL            WINDOW LEFT
   3      7  a1b2c3d4e5f6      16383  2025-11-20T19:31:00.000Z     59.876 s

CHUNK OF        LEFT
region:orders  4_096
"
        );
    }

    #[test]
    fn ok_a_status_says_that_the_store_is_unreachable() {
        let store = StoreStatus {
            kind: "etcd".to_owned(),
            reached_ms_ago: Some(12_300),
            unreachable: "connection refused".to_owned(),
            ..StoreStatus::default()
        };
        let status = Status { store: Some(store), ..example() };
        let text = render(&status, Palette::PLAIN);
        assert!(text.contains("        etcd is unreachable, last reached 12s ago: connection refused\n"), "{text}");
        assert_eq!(to_json(&status)["store"]["unreachable"], json!("connection refused"));
        assert_eq!(to_json(&example())["store"]["unreachable"], Value::Null);
    }

    #[test]
    fn ok_a_status_for_a_caller_who_may_not_operate_has_no_uptime() {
        let Status { version, limits, .. } = example();
        let status = Status { version, limits, ready: true, ..Status::default() };
        assert_eq!(
            render(&status, Palette::PLAIN),
            "\
kentd   0.1.0
ready   yes
limits  1_000_000_000 identifiers per lease, 4_194_304 bytes per packed reply, 1_024 streams
        the rest of the status needs the permission operate:*
"
        );
        assert_eq!(to_json(&status)["uptime_seconds"], Value::Null);
        assert_eq!(to_json(&example())["uptime_seconds"], json!(3700));
    }

    #[test]
    fn ok_a_status_for_programs() {
        let value = to_json(&example());
        assert_eq!(value["clock"]["unix_nanos"], json!("1763667000123456789"));
        assert_eq!(value["slots"][0]["window_left_ms"], json!(59_876));
        assert_eq!(value["ready"], json!(false));
        assert_eq!(value.to_string().lines().count(), 1);
    }
}
