//! Daemons that wait for etcd at startup: they answer on the HTTP port, and end on a signal.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::{Child, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use kent_test_etcd::Etcd;
use tokio::time::Instant;

use super::harness::{data_dir, http_get, kentd};

/// A daemon that may not serve yet. It is killed when it is dropped.
struct Starting {
    child: Child,
    http: String,
}

/// The timeout of each wait. It is long enough for a busy machine, and shorter than the time for which the daemon waits
/// for etcd.
const LIMIT: Duration = Duration::from_secs(20);

impl Starting {
    fn new(data: &Path, store: &str) -> Self {
        let http = free_address();
        let mut command = kentd(data);
        command.args(["--store", store, "--http", &http, "--log", "error"]).stdout(Stdio::null());
        Self { child: command.spawn().expect("kentd starts"), http }
    }

    /// Waits until the HTTP port answers a path with this status, and returns the body.
    fn answer(&self, path: &str, status: u16) -> String {
        let began = Instant::now();
        loop {
            match http_get(&self.http, path, "*/*") {
                Some((found, _, body)) if found == status => return body,
                other => assert!(began.elapsed() < LIMIT, "{path} does not answer {status}: {other:?}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal, and waits until the process exits.
    fn end(mut self, signal: &str) -> ExitStatus {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", signal, &pid]).status().expect("kill runs");
        assert!(sent.success());
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(began.elapsed() < LIMIT, "SIG{signal} does not stop the daemon");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address at which nothing listens.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port").to_string()
}

#[test]
fn ok_a_daemon_that_waits_for_etcd_is_alive_and_ends_on_a_signal() {
    let (data, silent) = (data_dir(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let refusing = free_address();
    // The first address refuses connections. The second accepts them and never answers.
    for (etcd, signal) in [(refusing, "TERM"), (silent.local_addr().expect("bound").to_string(), "INT")] {
        let daemon = Starting::new(data.path(), &format!("etcd://{etcd}/kent"));
        assert_eq!(daemon.answer("/livez", 200), "ok\n");
        let reason = daemon.answer("/readyz", 503);
        assert!(reason.starts_with(&format!("not ready\nreason: waiting for etcd at etcd://{etcd}/kent")), "{reason}");
        assert_eq!(daemon.answer("/metrics", 503), daemon.answer("/readyz", 503));
        assert_eq!(daemon.end(signal).code(), Some(0), "SIG{signal}");
    }
}

#[test]
fn ok_a_daemon_that_waits_for_etcd_warns_less_and_less_often() {
    let (data, store) = (data_dir(), format!("etcd://{}/kent", free_address()));
    let log = data.path().join("log");
    let mut command = kentd(data.path());
    command.args(["--store", &store]).stdout(Stdio::null()).stderr(File::create(&log).expect("created"));
    let daemon = Starting { child: command.spawn().expect("kentd starts"), http: String::new() };
    let warnings = || {
        let text = fs::read_to_string(&log).expect("UTF-8");
        text.lines().filter(|line| line.contains("waiting for etcd")).map(str::to_owned).collect::<Vec<_>>()
    };
    let began = Instant::now();
    while warnings().len() < 3 {
        assert!(began.elapsed() < LIMIT, "{:?}", warnings());
        thread::sleep(Duration::from_millis(20));
    }
    // The third warning is about the fourth attempt.
    assert!(warnings()[2].contains("attempts=4"), "{:?}", warnings());
    assert!(daemon.end("TERM").success());
}

#[test]
fn ok_a_daemon_serves_as_soon_as_etcd_does() {
    let (data, etcd) = (data_dir(), Etcd::start(1));
    etcd.pause(0);
    let daemon = Starting::new(data.path(), &etcd.address("kent"));
    let reason = daemon.answer("/readyz", 503);
    assert!(reason.contains("waiting for etcd at etcd://"), "{reason}");
    etcd.resume(0);
    let ready = daemon.answer("/readyz", 200);
    assert!(ready.starts_with("ready\n"), "{ready}");
    assert!(daemon.answer("/metrics", 200).contains("\nkent_ready 1\n"));
    assert!(daemon.end("TERM").success());
}
