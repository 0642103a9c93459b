//! The metrics of real daemons: their formats, names, labels and values, and the page that lists them.

use std::{collections::BTreeMap, io::Write, net::TcpStream, path::Path, time::Duration};

use futures_util::future::join_all;
use kent_proto::v1::{
    CreateRegionRequest, CreateSpaceRequest, CreateTokenRequest, Encoding, ExpandRegionRequest, NewBudget,
    WatchTableRequest, access_client::AccessClient,
};
use kent_test_etcd::Etcd;

use rcgen::SanType;
use tonic::Code;

use super::{
    harness::{Daemon, SPACE, data_dir, kentd, kentd_in_memory, request},
    tls::{Ca, Files, https, until},
};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

/// The samples of a metrics page: the values, by name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let sample = |line: &'_ str| line.rsplit_once(' ').expect("a sample").1.parse().expect("a number");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| (line.rsplit_once(' ').expect("a sample").0, sample(line))).collect()
}

async fn create(daemon: &Daemon, space: &str, region: &str, suffix_bits: u32) {
    let (parent, region_id) = (format!("spaces/{space}"), region.to_owned());
    let create =
        CreateRegionRequest { parent, region_id, suffix_bits: Some(suffix_bits), ..CreateRegionRequest::default() };
    daemon.regions().create_region(create).await.expect("created");
}

async fn take(daemon: &Daemon, source: &str, count: u64) {
    daemon.allocator().allocate(request(source, count, Encoding::Lease)).await.expect("granted");
}

#[tokio::test]
async fn ok_a_client_gets_the_format_that_it_accepts() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    take(&daemon, "xid", 7).await;
    for accept in ["text/plain", "text/plain;version=0.0.4", "*/*"] {
        let (code, head, text) = daemon.get_as("/metrics", accept);
        assert_eq!(code, 200);
        assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{accept}: {head}");
        assert!(
            text.contains("# TYPE kent_identifiers_total counter\nkent_identifiers_total{source=\"xid\"} 7\n"),
            "{text}"
        );
        assert!(text.contains("# TYPE kent_build_info gauge\nkent_build_info{version="), "{text}");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
    }
    let (code, head, text) = daemon.get_as("/metrics", OPEN_METRICS);
    assert_eq!(code, 200);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    assert!(text.contains("# TYPE kent_identifiers counter\nkent_identifiers_total{source=\"xid\"} 7\n"), "{text}");
    assert!(text.contains("# UNIT process_resident_memory_bytes bytes\n") && text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn ok_counts_are_counters_and_the_process_is_measured() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    create(&daemon, "default", "orders", 20).await;
    let text = daemon.get("/metrics").1;
    let samples = samples(&text);
    for name in
        ["kent_store_commits_total", "kent_store_conflicts_total", "kent_store_flushes_total", "kent_clock_steps_total"]
    {
        assert!(samples.contains_key(name) && text.contains(&format!("# TYPE {name} counter\n")), "{name}");
    }
    assert!(samples["kent_store_commits_total"] >= 1.0);
    assert!(samples["process_cpu_seconds_total"] > 0.0);
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    assert!(samples["process_open_fds"] >= 4.0 && samples["process_open_fds"] < samples["process_max_fds"]);
    let started = samples["process_start_time_seconds"];
    assert!(started > 1.7e9, "{started}");
    let again = daemon.get("/metrics").1;
    let same = self::samples(&again)["process_start_time_seconds"].total_cmp(&started).is_eq();
    assert!(same, "the start time has changed: {again}");
}

#[tokio::test]
async fn ok_labels_and_status_show_the_name_that_the_user_gave() {
    let data = data_dir();
    let operator = super::operator::Operator::new();
    operator.kent("alloc serial:GBP -n 3");
    operator.kent("alloc serial:gbp$");
    operator.kent("alloc serialD:GBP");
    // Both spellings name the same source.
    for source in ["serialA:GBP", "serial:GBP"] {
        take(&operator.daemon, source, 2).await;
    }
    operator.kent("region create orders --suffix 20");
    for source in ["region:orders", "region:orders@default"] {
        take(&operator.daemon, source, 2).await;
    }
    let (text, status) = (operator.daemon.get("/metrics").1, operator.kent("status"));
    let samples = samples(&text);
    assert_eq!(samples["kent_identifiers_total{source=\"serial:GBP\"}"], 7.0);
    assert_eq!(samples["kent_identifiers_total{source=\"region:orders\"}"], 4.0);
    for source in ["serial:GBP", "serial:GBP$", "serialD:GBP", "region:orders"] {
        assert!(samples.contains_key(&*format!("kent_chunk_left{{source=\"{source}\"}}")), "{text}");
        assert!(status.contains(&format!("\n{source} ")), "{status}");
    }
    for shown in [&text, &status, &operator.kent("series ls")] {
        assert!(!shown.contains("serialA") && !shown.contains("serialB"), "{shown}");
    }
    drop(data);
}

#[tokio::test]
async fn ok_regions_that_match_have_metrics() {
    let data = data_dir();
    let daemon = Daemon::spawn(kentd(data.path()).args(["--metrics-regions", "orders-*,*@parts"]));
    let space = CreateSpaceRequest { space_id: "parts".to_owned(), bits: 32, ..CreateSpaceRequest::default() };
    daemon.regions().create_space(space).await.expect("created");
    for (space, region) in
        [("default", "orders-eu"), ("default", "invoices"), ("parts", "bolts"), ("default", "orders-us")]
    {
        create(&daemon, space, region, 12).await;
    }
    let metric = |name: &str, source: &str| {
        let text = daemon.get("/metrics").1;
        samples(&text).get(&*format!("kent_region_{name}{{source=\"region:{source}\"}}")).copied()
    };
    assert_eq!(metric("capacity", "orders-eu"), Some(4096.0));
    assert_eq!((metric("issued", "orders-eu"), metric("full_in_seconds", "orders-eu")), (Some(0.0), None));
    assert_eq!((metric("capacity", "bolts@parts"), metric("capacity", "invoices")), (Some(4096.0), None));
    take(&daemon, "region:orders-eu", 1000).await;
    assert_eq!(metric("issued", "orders-eu"), Some(1000.0));
    assert!(metric("reserved", "orders-eu").is_some_and(|reserved| (1000.0..4096.0).contains(&reserved)));
    // The daemon averages the rate over at least a second, and over minutes if the test is slow.
    assert!(metric("full_in_seconds", "orders-eu").is_some_and(|seconds| (3.0..1e4).contains(&seconds)));
    take(&daemon, "region:orders-eu", 3096).await;
    assert_eq!(metric("full_in_seconds", "orders-eu"), Some(0.0));
    // Edits change the metrics.
    let name = "spaces/default/regions/orders-eu".to_owned();
    let expand = ExpandRegionRequest { name, by_bits: 1, ..ExpandRegionRequest::default() };
    daemon.regions().expand_region(expand).await.expect("expanded");
    assert_eq!(metric("capacity", "orders-eu"), Some(8192.0));
    create(&daemon, "default", "orders-cn", 4).await;
    // On a busy machine, the daemon waits briefly before it searches a table again.
    let found = (0..1000).find_map(|_| metric("capacity", "orders-cn"));
    assert_eq!(found, Some(16.0));
    assert!(daemon.get("/metrics").1.contains("\nkent_region_metrics_omitted 0\n"));
}

#[tokio::test]
async fn ok_no_more_than_a_thousand_regions_have_metrics() {
    let daemon = Daemon::spawn(kentd_in_memory().args(["--metrics-regions", "*@*"]));
    for first in (0..1003).step_by(59) {
        join_all((first..(first + 59).min(1003)).map(|number| {
            let daemon = &daemon;
            async move { create(daemon, "default", &format!("r{number}"), 4).await }
        }))
        .await;
    }
    let text = daemon.get("/metrics").1;
    let listed = samples(&text).keys().filter(|name| name.starts_with("kent_region_capacity{")).count();
    assert_eq!(listed, 1000);
    assert!(text.contains("\nkent_region_metrics_omitted 3\n"));
}

#[tokio::test]
async fn ok_calls_denials_and_the_store_are_measured() {
    let data = data_dir();
    let daemon = Daemon::spawn(kentd(data.path()).args(["--auth", "required"]));
    for _ in 0..3 {
        let create = CreateRegionRequest { parent: SPACE.to_owned(), ..CreateRegionRequest::default() };
        let denied = daemon.regions().create_region(create).await.expect_err("no credential");
        assert_eq!(denied.code(), Code::Unauthenticated);
    }
    let socket = format!("unix:{}", data.path().join("kent.sock").display());
    let local = kent_client::Client::builder().endpoint(socket).build().expect("valid");
    let local = local.connect().await.expect("connected");
    let watch = WatchTableRequest { parent: SPACE.to_owned(), ..WatchTableRequest::default() };
    let watching = local.regions().watch_table(watch).await.expect("watched");
    local.allocator().allocate(request("serial:GBP", 2, Encoding::Lease)).await.expect("granted");
    let text = daemon.get("/metrics").1;
    let samples = samples(&text);
    for (sample, expected) in [
        ("kent_denied_total{reason=\"NO_CREDENTIAL\"}", 3.0),
        ("kent_denied_total{reason=\"PERMISSION_DENIED\"}", 0.0),
        (
            "kent_call_duration_seconds_count{port=\"grpc\",method=\"kent.v1.Regions/CreateRegion\",code=\"UNAUTHENTICATED\"}",
            3.0,
        ),
        ("kent_call_duration_seconds_count{port=\"grpc\",method=\"kent.v1.Regions/WatchTable\",code=\"OK\"}", 1.0),
        ("kent_grant_waits_total{reason=\"chunk\"}", 1.0),
        ("kent_chunk_reservations_total{reason=\"on_demand\"}", 1.0),
        ("kent_watchers", 1.0),
        ("kent_slot_epoch", 1.0),
        ("kent_store_failures_total{work=\"commit\"}", 0.0),
    ] {
        assert_eq!(samples.get(sample), Some(&expected), "{sample}: {text}");
    }
    assert!(!text.contains("Allocator/Allocate\""), "the metrics of sources have these calls: {text}");
    let commits = samples["kent_store_duration_seconds_count{work=\"commit\"}"];
    assert!(commits >= 1.0 && samples["kent_store_duration_seconds_sum{work=\"commit\"}"] > 0.0, "{text}");
    let [size, free] = ["size", "free"].map(|part| samples[&*format!("kent_disk_{part}_bytes{{setting=\"data\"}}")]);
    assert!(0.0 < free && free <= size, "{free} of {size} bytes");
    drop(watching);
}

#[tokio::test]
async fn ok_the_audit_log_is_counted() {
    let data = data_dir();
    let (store, inner) = (data.path().join("store"), data.path().join("inner"));
    std::fs::create_dir(&inner).expect("created");
    let daemon = Daemon::spawn(kentd(&store).args(["--log", "off", "--audit"]).arg(inner.join("audit")));
    create(&daemon, "default", "a", 4).await;
    let counts = || {
        let text = daemon.get("/metrics").1;
        let samples = samples(&text);
        ["kent_audit_lines_total", "kent_audit_lost_total"].map(|name| samples[name])
    };
    let [lines, lost] = counts();
    assert!(lines >= 1.0);
    assert_eq!(lost, 0.0);
    std::fs::remove_dir_all(&inner).expect("removed");
    create(&daemon, "default", "b", 4).await;
    assert_eq!(counts(), [lines, 1.0]);
}

/// The metrics of a daemon whose HTTP port has TLS.
fn measured(daemon: &Daemon, ca: &Ca) -> String {
    let answer = https(daemon, ca, None, "GET /metrics");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_handshakes_and_the_ends_of_certificates_are_measured() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let mut files = Files::new(&ca.server(), Some(&ca), Some(&ca.revoke(&[])));
    let daemon = files.daemon(data.path());
    let value = |sample: &str| {
        let text = measured(&daemon, &ca);
        samples(&text).get(sample).copied().unwrap_or_else(|| panic!("{sample} is not in {text}"))
    };
    let expiry = |setting| value(&format!("kent_certificate_expiry_timestamp_seconds{{setting=\"{setting}\"}}"));
    let (first, list, authority) = (expiry("tls-cert"), expiry("tls-crl"), expiry("tls-client-ca"));
    // The certificate and the revocation list expire within about a day of the start. The CA certificate expires later.
    let started = value("process_start_time_seconds");
    assert!((started..started + 90_000.0).contains(&first) && (started..started + 90_000.0).contains(&list));
    assert!(authority > first + 90_000.0);
    let shorter = ca.sign(SanType::IpAddress([127, 0, 0, 1].into()), 3, Duration::from_secs(3600));
    files.exchange(&shorter.certificate, &shorter.key, Some(&ca), Some(&ca.revoke(&[])));
    until(async || expiry("tls-cert") < first - 80_000.0).await;
    let failed = "kent_tls_handshakes_total{port=\"grpc\",result=\"failed\"}";
    assert_eq!(value(failed), 0.0);
    let mut plain = TcpStream::connect(daemon.grpc_address()).expect("accepted");
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    until(async || value(failed) > 0.0).await;
    let done = "kent_tls_handshakes_total{port=\"http\",result=\"done\"}";
    assert!(value(done) >= 5.0);
}

/// The rows of the page's tables: name, type, labels and help.
fn documented() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let mut rows: Vec<String> = rows.map(str::to_owned).collect();
    rows.sort();
    rows
}

/// The rows that the page should have for a daemon's metrics.
fn rows(text: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut help = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').expect("a name and a text").1.trim_end_matches('.');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            rows.push(format!("| `{name}` | {kind} | {} | {help} |", labels(text, name, kind)));
        }
    }
    rows.sort();
    // The text has the metrics of two daemons, most of which are the same.
    rows.dedup();
    rows
}

/// The names of the labels of a family.
fn labels(text: &str, family: &str, kind: &str) -> String {
    let sample = if kind == "histogram" { format!("{family}_count") } else { family.to_owned() };
    let labeled = text.lines().find_map(|line| line.strip_prefix(&format!("{sample}{{")));
    let labels = labeled.and_then(|line| line.split_once('}')).map_or("", |(labels, _)| labels);
    let names = labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn ok_the_page_lists_all_metrics() {
    let (data, etcd) = (data_dir(), Etcd::start(1));
    let mut command = kentd(data.path());
    let daemon = Daemon::spawn(command.args(["--store", &etcd.address("kent"), "--metrics-regions", "*"]));
    // Give every metric with labels a sample.
    create(&daemon, "default", "orders", 20).await;
    take(&daemon, "region:orders", 5).await;
    let budgets = vec![NewBudget { resource: "uuidv7".to_owned(), total: 5 }];
    let (name, permissions) = ("test".to_owned(), vec!["lease:uuidv7".to_owned()]);
    let token = CreateTokenRequest { name, permissions, budgets, ..CreateTokenRequest::default() };
    AccessClient::new(daemon.channel()).create_token(token).await.expect("made");
    daemon.allocator().allocate(request("region:none", 1, Encoding::Lease)).await.expect_err("there is no such region");
    // A directory and certificates have metrics too.
    let (ca, data) = (Ca::new("kent"), data_dir());
    let secure = Files::new(&ca.server(), Some(&ca), None).daemon(data.path());
    let text = daemon.get("/metrics").1 + &measured(&secure, &ca);
    assert!(samples(&text).keys().any(|name| name.starts_with("kent_errors_total{")), "{text}");
    assert!(samples(&text).keys().any(|name| name.starts_with("kent_store_last_reached_timestamp_seconds")), "{text}");
    let expected = rows(&text);
    assert!(documented() == expected, "docs/metrics.md should have these rows:\n{}", expected.join("\n"));
}
