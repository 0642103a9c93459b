//! The processors of the threads that serve connections.

use std::{fs, path::Path, thread, time::Duration};

use tokio::time::Instant;

use super::harness::{Daemon, kentd_in_memory};

/// The timeout of the wait until the threads have chosen their processors.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns the processors that a thread may use, such as `0-3`, from its folder under /proc.
fn processors(thread: &Path) -> String {
    let status = fs::read_to_string(thread.join("status")).expect("a thread");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("Linux says it").trim().to_owned()
}

/// Returns the processors of each thread that serves connections.
fn serving(daemon: &Daemon) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("it runs");
    let folders = threads.map(|thread| thread.expect("a thread").path());
    let serves = |folder: &Path| {
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        ["grpc-", "http-", "redis-"].iter().any(|start| name.starts_with(start))
    };
    folders.filter(|folder| serves(folder)).map(|folder| processors(&folder)).collect()
}

#[test]
fn ok_pinned_threads_stay_on_one_processor() {
    let usable = processors(Path::new("/proc/thread-self"));
    for (pinning, is_expected) in [
        (&["--pin-threads"][..], &(|list: &String| list.parse::<usize>().is_ok()) as &dyn Fn(&String) -> bool),
        (&[], &|list| *list == usable),
    ] {
        let ports = ["--redis", "127.0.0.1:0", "--threads", "3"];
        let daemon = Daemon::spawn(kentd_in_memory().args(ports).args(pinning));
        let began = Instant::now();
        loop {
            let lists = serving(&daemon);
            if lists.len() == 9 && lists.iter().all(is_expected) {
                break;
            }
            assert!(began.elapsed() < LIMIT, "{pinning:?}: three threads for each of three ports run on {lists:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}
