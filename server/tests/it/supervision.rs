//! The daemon's reports to a service manager. The test takes the place of systemd, and receives them on a socket.

use std::{os::unix::net::UnixDatagram, path::Path, time::Duration};

use super::harness::{Daemon, data_dir, kentd};

/// The socket that systemd would read.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("bound");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        Self(socket)
    }

    /// The next report of the daemon.
    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let count = self.0.recv(&mut bytes).expect("a report within the timeout");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    /// Reads reports until one satisfies the condition.
    fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> String {
        // Each report must arrive within the timeout of the socket.
        let found = (0..1000).map(|_| self.next()).find(|report| wanted(report));
        found.expect("such a report")
    }
}

#[test]
fn ok_the_service_manager_is_notified_of_start_health_and_stop() {
    let (data, dir) = (data_dir(), data_dir());
    let path = dir.path().join("notify");
    let manager = Manager::listen(&path);
    let mut command = kentd(data.path());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let daemon = Daemon::spawn(&mut command);

    let ready = manager.next();
    assert!(ready.contains("READY=1") && ready.contains("STATUS=serving gRPC on 127.0.0.1:"), "{ready}");
    for _ in 0..3 {
        let alive = manager.next();
        assert!(alive.contains("WATCHDOG=1") && alive.contains("STATUS=serving"), "{alive}");
    }

    // A daemon that hangs does not report that it is alive.
    daemon.pause();
    manager.0.set_nonblocking(true).expect("set");
    let mut bytes = [0; 4096];
    while manager.0.recv(&mut bytes).is_ok() {}
    std::thread::sleep(Duration::from_millis(600));
    assert!(manager.0.recv(&mut bytes).is_err(), "a report of a suspended daemon");
    manager.0.set_nonblocking(false).expect("set");
    daemon.resume();
    manager.wait_for(|report| report.contains("WATCHDOG=1"));

    daemon.signal("TERM");
    let stopping = manager.wait_for(|report| report.contains("STOPPING=1"));
    assert!(stopping.contains("STATUS=draining"), "{stopping}");
}

#[test]
fn ok_a_daemon_without_a_watchdog_reports_only_its_start_and_stop() {
    let (data, dir) = (data_dir(), data_dir());
    let path = dir.path().join("notify");
    let manager = Manager::listen(&path);
    let mut command = kentd(data.path());
    command.env("NOTIFY_SOCKET", &path).env_remove("WATCHDOG_USEC");
    let daemon = Daemon::spawn(&mut command);
    assert!(manager.next().contains("READY=1"));
    daemon.signal("TERM");
    assert!(manager.next().contains("STOPPING=1"));
}
