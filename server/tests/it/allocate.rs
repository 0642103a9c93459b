//! Checks that identifiers are distinct, ascend and contain the right time, in both encodings.

use std::{collections::HashSet, time::UNIX_EPOCH};

use kent_ids::{Block, Format, Gregorian, Uuid};
use kent_proto::v1::{
    CreateRegionRequest, CreateSpaceRequest, EncodeRequest, Encoding, GetStatusRequest, InspectRequest,
    allocate_response::Identifiers, encode_request::Item, encode_result, inspect_result::Outcome,
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::harness::{Daemon, data_dir, identifiers, request};

/// Milliseconds since 1970.
fn now_ms() -> u128 {
    UNIX_EPOCH.elapsed().expect("after 1970").as_millis()
}

/// The timestamp of an identifier in milliseconds since 1970.
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
            // xids of the same millisecond have no defined order.
            let key = |id: u128| if source == "xid" { id >> 22 } else { id };
            assert!(ids.is_sorted_by(|a, b| if source == "xid" { key(*a) <= key(*b) } else { a < b }), "{source}");
            assert!(key(ids[0]) >= last, "{source}: a later block precedes an earlier one");
            last = key(ids[4999]);
            // The timestamp lies between the start and the end of the call, with a tolerance of 1 s, because a
            // timestamp may be that far ahead of the clock.
            let timely = asked - 1000..=granted + 1000;
            assert!(timely.contains(&unix_ms(source, ids[4999])), "{source} has a wrong timestamp");
        }
    }
}

/// All formats, and some series.
fn sources() -> Vec<String> {
    let formats = Format::all().map(|format| format.token().to_owned());
    let series = ["uid11-fullrand", "serial:GBP", "serial:gbp$", "serialD:GBP"];
    formats.chain(series.map(str::to_owned)).collect()
}

#[tokio::test]
async fn ok_no_source_repeats_an_identifier_even_after_a_crash() {
    let data = data_dir();
    let mut seen: HashSet<(String, u128)> = HashSet::new();
    for _ in 0..2 {
        let daemon = Daemon::start(data.path());
        for source in sources() {
            // Versions 1 and 6 share a sequence, so compare version 1 in the form of version 6.
            let place = |id: u128| match source.as_str() {
                "uuidv1" => ("gregorian".to_owned(), Gregorian::from_uuid(Uuid::from_u128(id)).expect("v1").to_v6()),
                "uuidv6" => ("gregorian".to_owned(), Uuid::from_u128(id)),
                other => (other.to_owned(), Uuid::from_u128(id)),
            };
            for encoding in [Encoding::Lease, Encoding::Packed, Encoding::Lease] {
                let asked = now_ms();
                let reply = daemon.allocator().allocate(request(&source, 3000, encoding)).await.expect("granted");
                let granted = now_ms();
                for id in identifiers(reply.get_ref()) {
                    let (source, id) = place(id);
                    assert!(seen.insert((source.clone(), id.as_u128())), "{source}: {id} was issued twice");
                }
                let Some(Identifiers::Lease(lease)) = reply.into_inner().identifiers else { continue };
                let Some(at) = Block::try_from(lease).expect("a block").instant() else { continue };
                let tick_ms = if source == "uuidv8-draft01-32" { 1000 } else { 1 };
                let timely = asked as i128 - 1000 - tick_ms..=granted as i128 + 1000;
                assert!(timely.contains(&(at.get() / 1_000_000)), "{source} has a wrong timestamp");
            }
        }
        daemon.kill();
    }
    assert_eq!(seen.len(), sources().len() * 2 * 3 * 3000);
}

#[tokio::test]
async fn ok_the_codec_encodes_and_inspects() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let item = |format: &str, fields: &[(&str, &str)]| Item {
        format: format.to_owned(),
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    let items = vec![
        item("uuidv5", &[("namespace", "dns"), ("name", "www.example.com")]),
        item("uid11-snowish", &[("ts", "86400000"), ("machine", "5"), ("seq", "7")]),
        item("uuidv8-draft01", &[("width", "36"), ("ts", "1"), ("seq", "1"), ("node", "1")]),
        item("uuidv9", &[]),
    ];
    let results = daemon.codec().encode(EncodeRequest { items }).await.expect("answered").into_inner().results;
    let outcomes = results.into_iter().map(|result| match result.outcome {
        Some(encode_result::Outcome::Encoded(made)) => made.text,
        Some(encode_result::Outcome::Refused(status)) => format!("{:?}", tonic::Code::from(status.code)),
        None => "nothing".to_owned(),
    });
    let outcomes: Vec<String> = outcomes.collect();
    let expected = ["2ed6657d-e927-568b-95e1-2665a8aea6a2", "113q8KFkGL6", "InvalidArgument", "InvalidArgument"];
    assert_eq!(outcomes, expected);
    let asked = InspectRequest {
        texts: vec!["113q8KFkGL6".to_owned()],
        format: "uid11-snowish".to_owned(),
        ..InspectRequest::default()
    };
    let inspected = daemon.codec().inspect(asked).await.expect("answered").into_inner().results;
    let Some(Outcome::Inspection(inspection)) = &inspected[0].outcome else { panic!("a snowish uid11 was refused") };
    assert_eq!(inspection.time, "2011-11-12T11:11:11.111Z");
    let machine = inspection.fields.iter().find(|field| field.name == "machine");
    assert_eq!(machine.map(|field| field.value.as_str()), Some("5"));
}

#[tokio::test]
async fn ok_calls_wait_until_the_clock_allows_the_count() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.allocator();
    let mut last = 0;
    // Request three seconds' worth of uuidv6 identifiers in less than three seconds. Each call waits for the clock, or
    // returns a retry delay.
    for _ in 0..6 {
        let reply = loop {
            match client.allocate(request("uuidv6", 5_000_000, Encoding::Lease)).await {
                Ok(reply) => break reply.into_inner(),
                Err(status) => assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}"),
            }
        };
        let Some(kent_proto::v1::allocate_response::Identifiers::Lease(lease)) = reply.identifiers else {
            panic!("expected a lease")
        };
        let first = u128::from(lease.first.expect("a position"));
        assert!(first >= last);
        last = first + 5_000_000;
    }
}

#[tokio::test]
async fn ok_a_deadline_is_honored() {
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
async fn ok_regions_of_each_space_issue_in_order() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let space = CreateSpaceRequest { space_id: "wide".to_owned(), bits: 128, ..CreateSpaceRequest::default() };
    regions.create_space(space).await.expect("made");
    for parent in ["spaces/default", "spaces/wide"] {
        let create = CreateRegionRequest {
            parent: parent.to_owned(),
            region_id: "r".to_owned(),
            suffix_bits: Some(20),
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
async fn ok_text_is_what_people_see() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let space = CreateSpaceRequest {
        space_id: "hex".to_owned(),
        bits: 40,
        text_form: kent_proto::v1::space::TextForm::Hex.into(),
        ..CreateSpaceRequest::default()
    };
    daemon.regions().create_space(space).await.expect("made");
    let create = CreateRegionRequest {
        parent: "spaces/hex".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(20),
        prefix: Some("1011".to_owned()),
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(create).await.expect("created");
    let ask = async |source, count| daemon.allocator().allocate(request(source, count, Encoding::Text)).await;
    let texts = async |source, count| match ask(source, count).await.expect("granted").into_inner().identifiers {
        Some(Identifiers::Text(text)) => text,
        other => panic!("expected text, got {other:?}"),
    };
    let region = texts("region:r@hex", 2).await;
    assert_eq!(region.ids, ["0xb000000000", "0xb000000001"]);
    assert_eq!((region.fence_subject, region.fence_token), (1, 1));
    for (source, length) in [("uuidv7", 36), ("xid", 11), ("uid11-fullrand", 11), ("serial:GBP", 36)] {
        let ids = texts(source, 3).await.ids;
        assert!(ids.iter().all(|id| id.len() == length), "{source}: {ids:?}");
    }
    assert_eq!(texts("uuidv7", 10_000).await.ids.len(), 10_000);
    let refused = ask("uuidv7", 10_001).await.expect_err("too many");
    assert_eq!(refused.message(), "count: is 10_001, but at most 10_000 identifiers fit as text in one reply");
}

#[tokio::test]
async fn ok_status_health_metrics_and_inspection_agree() {
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
    let inspected = daemon
        .codec()
        .inspect(InspectRequest { texts, ..InspectRequest::default() })
        .await
        .expect("answered")
        .into_inner()
        .results;
    let Some(Outcome::Inspection(inspection)) = &inspected[0].outcome else { panic!("a v7 UUID was refused") };
    assert_eq!((inspection.format.as_str(), inspection.time.as_str()), ("uuidv7", "2022-02-22T19:22:22.000Z"));
    assert!(matches!(&inspected[1].outcome, Some(Outcome::Refused(_))));
}
