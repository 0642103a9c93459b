//! Reports to the service manager, such as systemd: that the daemon serves, that it stops, and that it still works.
//!
//! The manager names its socket in NOTIFY_SOCKET and, with a watchdog, an interval in WATCHDOG_USEC
//! ([sd_notify(3)](https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html)). Without these variables
//! nothing is sent.

use std::{future, io, time::Duration};

use sd_notify::NotifyState;
use tokio::time::{self, MissedTickBehavior};
use tracing::warn;

use crate::daemon::Daemon;

/// Reports that the daemon serves.
pub(super) fn report_serving(daemon: &Daemon) {
    report(sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status(daemon))]));
}

/// Reports that the daemon is stopping.
pub(super) fn report_stopping() {
    report(sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("draining")]));
}

/// Reports twice per watchdog interval that the daemon works, and whether it can grant. A daemon that hangs reports
/// nothing, so the manager restarts it. This function never returns.
pub(super) async fn report_alive(daemon: &Daemon) {
    let Some(interval) = sd_notify::watchdog_enabled() else { return future::pending().await };
    let mut ticks = time::interval((interval / 2).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Reading the status takes the locks that grants take: a deadlock there stops these reports.
        let status = status(daemon);
        report(sd_notify::notify(&[NotifyState::Watchdog, NotifyState::Status(&status)]));
    }
}

/// Returns what `systemctl status` shows about the daemon.
fn status(daemon: &Daemon) -> String {
    let redis = daemon.redis_address().map_or_else(String::new, |address| format!(", Redis on {address}"));
    let addresses = format!("gRPC on {}, HTTP on {}{redis}", daemon.grpc_addresses(), daemon.http_address());
    match daemon.reasons_not_ready().first() {
        None => format!("serving {addresses}"),
        Some(reason) => format!("not ready: {reason}; {addresses}"),
    }
}

fn report(sent: io::Result<()>) {
    if let Err(error) = sent {
        warn!(%error, "cannot reach the service manager (NOTIFY_SOCKET)");
    }
}
