//! Checks that each alert has a test and a runbook, and that a real Prometheus fires it when a real daemon has the
//! problem.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use kent_proto::v1::Encoding;
use kent_test_etcd::Etcd;
use regex::Regex;
use serde_json::Value;
use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
};

use super::{
    backup::{restore, said},
    clocks::libfaketime,
    harness::{Daemon, create, data_dir, kentd, kentd_binary, kentd_in_memory, request},
    operator::run_at,
    prometheus::{Prometheus, Target},
    tls::{Ca, Files, until},
};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rules() -> String {
    fs::read_to_string(repository().join("deploy/prometheus/kent.rules.yml")).expect("the rules")
}

/// Returns the expression of each alert in the rules, by the alert's name.
fn alerts() -> BTreeMap<String, String> {
    let text = rules();
    let mut found = BTreeMap::new();
    for rule in text.split("- alert: ").skip(1) {
        let (name, rest) = rule.split_once('\n').expect("a name");
        let (_, rest) = rest.split_once("        expr: ").expect("an expression");
        let expression = match rest.strip_prefix("|\n") {
            // The expression is the block of lines that follows with deeper indentation.
            Some(block) => block.lines().take_while(|line| line.starts_with("          ")).collect(),
            None => rest.lines().next().expect("a line").to_owned(),
        };
        found.insert(name.to_owned(), expression);
    }
    found
}

#[test]
fn ok_every_alert_is_valid_and_tested_and_has_a_runbook() {
    for (command, file) in [("check", "kent.rules.yml"), ("test", "kent.rules.test.yml")] {
        let mut promtool = Command::new("promtool");
        promtool.args([command, "rules", file]).current_dir(repository().join("deploy/prometheus"));
        let output = promtool.output().expect("promtool is not installed: apt-get install prometheus");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let read = |path| fs::read_to_string(repository().join(path)).expect("a file");
    let (rules, tests, runbooks) = (rules(), read("deploy/prometheus/kent.rules.test.yml"), read("docs/runbooks.md"));
    let alerts = alerts();
    let named: BTreeSet<&str> = alerts.keys().map(String::as_str).collect();
    let of = |text: &'static str, lines: &str| -> BTreeSet<String> {
        lines.lines().filter_map(|line| line.trim().strip_prefix(text)).map(str::to_owned).collect()
    };
    assert_eq!(of("- alertname: ", &tests).iter().map(String::as_str).collect::<BTreeSet<_>>(), named, "the tests");
    assert_eq!(of("## ", &runbooks).iter().map(String::as_str).collect::<BTreeSet<_>>(), named, "the runbooks");
    let links: Vec<String> = of("runbook_url: docs/runbooks.md#", &rules).into_iter().collect();
    let expected: BTreeSet<String> = named.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(links, expected.into_iter().collect::<Vec<_>>(), "the links");
}

/// The alerts, and a Prometheus that scrapes a healthy daemon and daemons with different problems.
struct Scene {
    prometheus: Prometheus,
    alerts: BTreeMap<String, String>,
}

impl Scene {
    /// Whether the expression of an alert holds for a series with this label, regardless of the alert's `for` duration.
    fn fires(&self, alert: &str, (label, value): (&str, &str)) -> bool {
        self.holds(&self.alerts[alert], (label, value))
    }

    fn holds(&self, expression: &str, (label, value): (&str, &str)) -> bool {
        self.prometheus.query(expression).iter().any(|series| series["metric"][label] == value)
    }

    /// Repeats an action until an alert fires.
    async fn until_fires(&self, alert: &str, of: (&str, &str), action: impl AsyncFn()) {
        until(async || {
            action().await;
            self.fires(alert, of)
        })
        .await;
    }
}

/// Runs a command of `kent` that must succeed.
fn kent(endpoint: &str, words: &str) {
    let (code, _, error) = run_at(endpoint, words);
    assert_eq!(code, 0, "kent {words}: {error}");
}

fn socket(data: &Path) -> String {
    format!("unix:{}", data.join("kent.sock").display())
}

async fn nothing() {}

#[tokio::test(flavor = "multi_thread")]
async fn ok_alerts_fire_for_daemons_in_trouble_and_for_no_other() {
    let (dir, ca, mut etcd) = (data_dir(), Ca::new("kent"), Etcd::start(1));
    let [data, guarded_data, far_data] = ["data", "guarded", "far"].map(|name| dir.path().join(name));
    // A daemon with a wrong clock, an audit log that cannot be written, an old certificate, and regions that become
    // full.
    let (clock, audit) = (dir.path().join("clock"), dir.path().join("audit"));
    fs::write(&clock, "+0").expect("written");
    fs::create_dir(&audit).expect("created");
    let files = Files::new(&ca.server(), None, None);
    let mut command = files.command(&data);
    command.env("LD_PRELOAD", libfaketime()).env("FAKETIME_TIMESTAMP_FILE", &clock).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    command.args(["--log", "off", "--metrics-regions", "*", "--audit"]).arg(audit.join("log"));
    let troubled = Daemon::spawn(&mut command);
    let guarded =
        Daemon::spawn(kentd(&guarded_data).args(["--log", "off", "--auth", "required", "--connections", "10"]));
    let far =
        Daemon::spawn(kentd(&far_data).args(["--log", "off", "--window", "2s", "--store", &etcd.address("kent")]));
    let healthy = Daemon::spawn(kentd_in_memory().args(["--log", "off", "--metrics-regions", "*"]));
    let target = |instance, scheme, address| Target { instance, scheme, address };
    let scene = Scene {
        prometheus: Prometheus::start(
            &[
                target("troubled", "https", troubled.http_address()),
                target("guarded", "http", guarded.http_address()),
                target("far", "http", far.http_address()),
                target("healthy", "http", healthy.http_address()),
            ],
            &ca.pem,
        ),
        alerts: alerts(),
    };
    let prometheus = &scene.prometheus;
    until(async || prometheus.query("up == 1").len() == 4).await;
    is_scraped_as_open_metrics(prometheus);
    let healthy_at = healthy.grpc_address();
    // The region is so large that a chunk reserved between two scrapes does not make Prometheus predict a full region
    // within a week.
    kent(healthy_at, "region create orders --suffix 48");
    kent(healthy_at, "alloc region:orders -n 3");

    let local = socket(&data);
    kent(&local, "region create full --suffix 4");
    kent(&local, "alloc region:full -n 16");
    kent(&local, "region create nearly --suffix 4");
    kent(&local, "alloc region:nearly -n 15");
    let of_troubled = ("instance", "troubled");
    scene.until_fires("KentRegionFull", ("source", "region:full"), nothing).await;
    scene.until_fires("KentRegionNearlyFull", ("source", "region:nearly"), nothing).await;
    assert!(!scene.fires("KentRegionFull", ("source", "region:nearly")));
    scene.until_fires("KentCertificateEnds", of_troubled, nothing).await;
    scene
        .until_fires("KentHandshakesFail", of_troubled, async || {
            let mut plain = TcpStream::connect(troubled.grpc_address()).expect("connected");
            plain.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        })
        .await;
    fs::remove_dir_all(&audit).expect("removed");
    scene.until_fires("KentAuditLost", of_troubled, async || kent(&local, "region set full --label a=b")).await;
    // The test cannot fill the machine's disk, so it uses a threshold at which the alert fires for any disk.
    for alert in ["KentDiskNearlyFull", "KentDiskFull"] {
        let (parts, _) = scene.alerts[alert].rsplit_once("< ").expect("a threshold");
        let expression = format!("{parts} < 1.1");
        assert!(scene.holds(&expression, of_troubled), "{expression}");
    }
    set_clock(&clock, "-2h");
    scene.until_fires("KentClockStepped", of_troubled, nothing).await;
    set_clock(&clock, "+2d");
    scene.until_fires("KentClockAhead", of_troubled, nothing).await;

    let (local, token) = (socket(&guarded_data), dir.path().join("token"));
    kent(&local, &format!("token create shop --allow lease:uuidv7 --budget uuidv7=10 --out {}", token.display()));
    kent(&local, &format!("alloc uuidv7 -n 9 --token-file {}", token.display()));
    until(async || !prometheus.query("kent_budget_left == 1").is_empty()).await;
    assert!(!scene.fires("KentBudgetUsed", ("resource", "uuidv7")));
    kent(&local, &format!("alloc uuidv7 -n 1 --token-file {}", token.display()));
    scene.until_fires("KentBudgetUsed", ("resource", "uuidv7"), nothing).await;
    scene.until_fires("KentBudgetNearlyUsed", ("resource", "uuidv7"), nothing).await;
    let idle: Vec<_> = (0..9).map(|_| TcpStream::connect(guarded.grpc_address()).expect("connected")).collect();
    scene.until_fires("KentConnectionsNearLimit", ("instance", "guarded"), nothing).await;
    drop(idle);
    let mut stranger = guarded.allocator();
    for _ in 0..500 {
        let ask = request("uuidv7", 1, Encoding::Lease);
        stranger.allocate(ask).await.expect_err("no credential");
    }
    scene.until_fires("KentCallersDenied", ("reason", "NO_CREDENTIAL"), nothing).await;

    kent(healthy_at, "alloc region:orders -n 3");
    for _ in 0..2 {
        assert_ne!(run_at(healthy_at, "alloc region:missing").0, 0);
        // Rates need two scrapes.
        until_scraped(prometheus).await;
    }
    has_all_panels(prometheus);

    etcd.kill(0);
    let of_far = ("instance", "far");
    for alert in ["KentWindowShort", "KentNotReady", "KentStoreFails"] {
        scene.until_fires(alert, of_far, nothing).await;
    }
    let sooner = scene.alerts["KentStoreUnreachable"].replace("> 30", "> 3");
    until(async || scene.holds(&sooner, of_far)).await;
    assert!(!scene.holds("kent_store_last_reached_timestamp_seconds", ("instance", "troubled")));

    guarded.kill();
    scene.until_fires("KentDown", ("instance", "guarded"), nothing).await;
    for (alert, expression) in &scene.alerts {
        for series in ["instance", "source"].into_iter().zip(["healthy", "region:orders"]) {
            assert!(!scene.holds(expression, series), "{alert} fires for {series:?}");
        }
    }
    has_all_metrics(&scene);
    drop((troubled, far, healthy));
}

/// Alerts about limits, restarts, slots and slow stores.
#[tokio::test(flavor = "multi_thread")]
async fn ok_alerts_fire_for_daemons_at_their_limits_and_for_slow_stores() {
    let (dir, etcd) = (data_dir(), Etcd::start(1));
    let at = |name: &str| dir.path().join(name);
    let limited = Daemon::spawn(kentd(&at("limited")).args([
        "--log",
        "off",
        "--auth",
        "required",
        "--caller-limits",
        "calls=1/s",
    ]));
    let crowded = Daemon::spawn(kentd_in_memory().args(["--log", "off", "--metrics-regions", "*"]));
    let slow = Daemon::spawn(kentd(&at("slow")).args(["--log", "off", "--store", &etcd.address("kent")]));
    // This store is restored from a backup, so every slot is reserved for an hour.
    let old = Daemon::start(&at("old"));
    kent(old.grpc_address(), &format!("backup {}", at("backup").display()));
    old.kill();
    let restored = restore(&at("backup"), &at("restored"), &["--yes"]);
    assert!(restored.status.success(), "{}", said(&restored));
    let slotless = Daemon::spawn(kentd(&at("restored")).args(["--log", "off"]));
    // A daemon with a low limit on open files.
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 120; exec \"$@\"", "sh"]).arg(kentd_binary());
    few.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "off", "--store", "memory"]);
    let few = Daemon::spawn(&mut few);
    // A daemon that is restarted with the same address.
    let restart = |http: &str| Daemon::spawn(kentd(&at("restarted")).args(["--log", "off", "--http", http]));
    let first = restart("127.0.0.1:0");
    let restarted_at = first.http_address().to_owned();
    let target = |instance, address| Target { instance, scheme: "http", address };
    let scene = Scene {
        prometheus: Prometheus::start(
            &[
                target("limited", limited.http_address()),
                target("crowded", crowded.http_address()),
                target("slow", slow.http_address()),
                target("slotless", slotless.http_address()),
                target("few", few.http_address()),
                target("restarted", &restarted_at),
            ],
            &Ca::new("kent").pem,
        ),
        alerts: alerts(),
    };
    until(async || scene.prometheus.query("up == 1").len() == 6).await;
    scene.until_fires("KentNoSlot", ("instance", "slotless"), nothing).await;

    let (local, token) = (socket(&at("limited")), at("token"));
    kent(&local, &format!("token create shop --allow lease:uuidv7 --out {}", token.display()));
    let secret = fs::read_to_string(&token).expect("read");
    let bearer: MetadataValue<Ascii> = format!("Bearer {}", secret.trim()).parse().expect("ASCII");
    let call = async || {
        for _ in 0..20 {
            let mut ask = Request::new(request("uuidv7", 1, Encoding::Lease));
            ask.metadata_mut().insert("authorization", bearer.clone());
            // OK because the daemon is expected to refuse most calls.
            let _ = limited.allocator().allocate(ask).await;
        }
    };
    scene.until_fires("KentCallersLimited", ("instance", "limited"), call).await;

    for number in 0..=1000 {
        let mut region = create(&format!("r{number}"));
        region.suffix_bits = Some(8);
        crowded.regions().create_region(region).await.expect("created");
    }
    scene.until_fires("KentMetricsOmitted", ("instance", "crowded"), nothing).await;
    assert!(!scene.fires("KentRegionFullSoon", ("source", "region:r0")));
    let grow = async || kent(crowded.grpc_address(), "alloc region:r0 -n 1");
    scene.until_fires("KentRegionFullSoon", ("source", "region:r0"), grow).await;

    let idle = Mutex::new(Vec::new());
    scene
        .until_fires("KentFewFilesLeft", ("instance", "few"), async || {
            // OK because the daemon accepts only some of the connections.
            let opened = (0..5).filter_map(|_| TcpStream::connect(few.grpc_address()).ok());
            idle.lock().expect("unbroken").extend(opened);
        })
        .await;
    drop(idle);

    let slow_at = slow.grpc_address();
    kent(slow_at, "region create strict --suffix 20");
    kent(slow_at, "region set strict --strict");
    // Each grant waits for its commit while etcd is paused.
    let wait = async || {
        etcd.pause(0);
        let ask = request("region:strict", 1, Encoding::Lease);
        let granted = async { slow.allocator().allocate(ask).await };
        let resumed = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            etcd.resume(0);
        };
        // On a busy machine the grant may time out. Only the duration of the grant matters.
        let (_, ()) = tokio::join!(granted, resumed);
    };
    scene.until_fires("KentGrantsSlow", ("instance", "slow"), wait).await;
    scene.until_fires("KentStoreSlow", ("instance", "slow"), wait).await;
    etcd.pause(0);
    let fail = async || {
        let mut ask = Request::new(request("region:strict", 1, Encoding::Lease));
        ask.set_timeout(Duration::from_millis(200));
        slow.allocator().allocate(ask).await.expect_err("the store does not answer");
    };
    scene.until_fires("KentGrantsFail", ("instance", "slow"), fail).await;
    etcd.resume(0);

    let mut present = first;
    for _ in 0..3 {
        until_scraped(&scene.prometheus).await;
        present.kill();
        present = restart(&restarted_at);
    }
    scene.until_fires("KentRestartsOften", ("instance", "restarted"), nothing).await;
}

/// Sets a daemon's clock to the machine's clock plus this offset.
fn set_clock(file: &Path, offset: &str) {
    let new = file.with_extension("new");
    fs::write(&new, offset).expect("written");
    fs::rename(&new, file).expect("renamed");
}

/// Checks that the scrapes have no errors, and that the daemons answer in OpenMetrics, the only format that has units.
fn is_scraped_as_open_metrics(prometheus: &Prometheus) {
    let targets = prometheus.get("targets", &[]);
    for target in targets["activeTargets"].as_array().expect("targets") {
        assert_eq!((&target["health"], &target["lastError"]), (&"up".into(), &"".into()), "{target}");
        let instance = target["labels"]["instance"].as_str().expect("a name");
        let selector = format!("{{instance=\"{instance}\"}}");
        let about = [("metric", "process_resident_memory_bytes"), ("match_target", &*selector)];
        assert_eq!(prometheus.get("targets/metadata", &about)[0]["unit"], "bytes", "{instance}");
    }
}

/// Waits for the next scrape of each daemon.
async fn until_scraped(prometheus: &Prometheus) {
    let scraped = || -> BTreeSet<String> {
        let targets = prometheus.get("targets", &[]);
        let targets = targets["activeTargets"].as_array().expect("targets").iter();
        targets.map(|target| target["lastScrape"].to_string()).collect()
    };
    let before = scraped();
    until(async || scraped().is_disjoint(&before)).await;
}

/// Checks that each expression of the dashboard has series.
fn has_all_panels(prometheus: &Prometheus) {
    let text = fs::read_to_string(repository().join("deploy/grafana/kent.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut shown = 0;
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let expression =
                ["$job", "$instance"].iter().fold(expression.to_owned(), |text, name| text.replace(name, ".+"));
            let series = prometheus.query(&expression.replace("$__rate_interval", "5m"));
            assert!(!series.is_empty(), "{}: nothing for {expression}", panel["title"]);
            shown += 1;
        }
    }
    assert!(shown >= 30, "{shown} expressions");
}

/// Checks that the daemons export each metric that the alerts use.
fn has_all_metrics(scene: &Scene) {
    let names = scene.prometheus.get("label/__name__/values", &[]);
    let known: BTreeSet<&str> = names.as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let name = Regex::new(r"\b(kent|process)_\w+").expect("valid");
    for (alert, expression) in &scene.alerts {
        for name in name.find_iter(expression) {
            assert!(known.contains(name.as_str()), "{alert} uses {}", name.as_str());
        }
    }
}
