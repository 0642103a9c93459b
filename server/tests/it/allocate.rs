//! What a client gets: distinct, ascending, honest identifiers, in both encodings.

use std::time::UNIX_EPOCH;

use kent_proto::v1::{
    CreateRegionRequest, CreateSpaceRequest, Encoding, GetStatusRequest, InspectRequest, inspect_result::Outcome,
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::harness::{Daemon, data_dir, identifiers, request};

/// Milliseconds since 1970.
fn now_ms() -> u128 {
    UNIX_EPOCH.elapsed().expect("after 1970").as_millis()
}

/// The milliseconds in an identifier.
fn unix_ms(source: &str, id: u128) -> u128 {
    match source {
        "uuidv7" => id >> 80,
        "uuidv6" => ((id >> 80 << 12 | id >> 64 & 0xfff) - 122_192_928_000_000_000) / 10_000,
        _ => (id >> 22) + 1_321_009_871_111,
    }
}

#[tokio::test]
async fn ok_blocks_of_every_format_are_distinct_ascending_and_timely() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    for source in ["uuidv7", "uuidv6", "xid"] {
        let mut last = 0;
        for encoding in [Encoding::Lease, Encoding::Packed, Encoding::Lease] {
            let asked = now_ms();
            let reply = daemon.allocator().allocate(request(source, 5000, encoding)).await.expect("granted");
            let granted = now_ms();
            let ids = identifiers(reply.get_ref());
            assert_eq!(ids.len(), 5000);
            // An xid ascends from millisecond to millisecond only.
            let key = |id: u128| if source == "xid" { id >> 22 } else { id };
            assert!(ids.is_sorted_by(|a, b| if source == "xid" { key(*a) <= key(*b) } else { a < b }), "{source}");
            assert!(key(ids[0]) >= last, "{source}: a later block lies before an earlier one");
            last = key(ids[4999]);
            // However long the call took, the time lies between, give or take what may be ahead.
            let timely = asked - 1000..=granted + 1000;
            assert!(timely.contains(&unix_ms(source, ids[4999])), "{source} is off the clock");
        }
    }
}

#[tokio::test]
async fn ok_more_than_the_clock_allows_at_once_is_waited_for() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.allocator();
    let mut last = 0;
    // Three seconds' worth of uuidv6 within less: each call waits until the clock allows it, or says when it will.
    for _ in 0..6 {
        let reply = loop {
            match client.allocate(request("uuidv6", 5_000_000, Encoding::Lease)).await {
                Ok(reply) => break reply.into_inner(),
                Err(status) => assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}"),
            }
        };
        let Some(kent_proto::v1::allocate_response::Identifiers::Lease(lease)) = reply.identifiers else {
            panic!("a lease was asked for")
        };
        let first = u128::from(lease.first.expect("a position"));
        assert!(first >= last);
        last = first + 5_000_000;
    }
}

#[tokio::test]
async fn ok_a_deadline_is_honoured() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.allocator();
    client.allocate(request("uuidv6", 10_000_000, Encoding::Lease)).await.expect("a second's worth");
    let mut hasty = tonic::Request::new(request("uuidv6", 10_000_000, Encoding::Lease));
    hasty.set_timeout(std::time::Duration::from_millis(50));
    let refused = client.allocate(hasty).await.expect_err("the clock does not allow it within 50 ms");
    let code = refused.code();
    assert!(
        matches!(code, tonic::Code::ResourceExhausted | tonic::Code::DeadlineExceeded | tonic::Code::Cancelled),
        "{refused}"
    );
}

#[tokio::test]
async fn ok_regions_issue_in_order_and_by_space() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let space = CreateSpaceRequest { space_id: "wide".to_owned(), bits: 128, validate_only: false };
    regions.create_space(space).await.expect("made");
    for parent in ["spaces/default", "spaces/wide"] {
        let create = CreateRegionRequest {
            parent: parent.to_owned(),
            region_id: "r".to_owned(),
            suffix_bits: 20,
            prefix: Some("101".to_owned()),
            ..CreateRegionRequest::default()
        };
        regions.create_region(create).await.expect("created");
    }
    for (source, bits) in [("region:r", 64), ("region:r@wide", 128)] {
        let mut expected = 0b101u128 << (bits - 3);
        for count in [1, 10, 5000, 1] {
            let reply = daemon.allocator().allocate(request(source, count, Encoding::Packed)).await.expect("granted");
            for id in identifiers(reply.get_ref()) {
                assert_eq!(id, expected);
                expected += 1;
            }
        }
    }
}

#[tokio::test]
async fn ok_status_health_metrics_and_inspection_tell_the_same_story() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    daemon.allocator().allocate(request("xid", 7, Encoding::Lease)).await.expect("granted");
    let status = daemon.admin().get_status(GetStatusRequest {}).await.expect("answered").into_inner();
    assert!(status.ready && status.reasons.is_empty());
    assert_eq!(status.slots.len(), 1);
    assert_eq!(status.store.expect("a store").kind, "sled");
    let mut health = HealthClient::new(daemon.channel());
    for service in ["", "kent.v1.Allocator"] {
        let ask = HealthCheckRequest { service: service.to_owned() };
        let health = health.check(ask).await.expect("answered").into_inner();
        assert_eq!(health.status(), ServingStatus::Serving, "{service:?}");
    }
    assert_eq!(daemon.get("/livez").0, 200);
    let (code, ready) = daemon.get("/readyz");
    assert_eq!(code, 200);
    assert!(ready.starts_with("ready\nslot 0: "), "{ready}");
    let (_, metrics) = daemon.get("/metrics");
    assert!(metrics.contains("kent_identifiers_total{source=\"xid\"} 7"), "{metrics}");
    assert!(metrics.contains("kent_ready 1"), "{metrics}");
    let texts = vec!["017F22E2-79B0-7CC3-98C4-DC0C0C07398F".to_owned(), "nonsense".to_owned()];
    let inspected = daemon.codec().inspect(InspectRequest { texts }).await.expect("answered").into_inner().results;
    let Some(Outcome::Inspection(inspection)) = &inspected[0].outcome else { panic!("a v7 UUID was refused") };
    assert_eq!((inspection.format.as_str(), inspection.time.as_str()), ("uuidv7", "2022-02-22T19:22:22.000Z"));
    assert!(matches!(&inspected[1].outcome, Some(Outcome::Refused(_))));
}
