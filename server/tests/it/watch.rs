//! `kent watch` reconnects when the daemon restarts, and reports that a daemon does not answer.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Command, Stdio},
};

use kent_proto::v1::CreateRegionRequest;

use super::{
    harness::{Daemon, data_dir, kentd},
    operator::kent_binary,
};

async fn create(daemon: &Daemon, region: &str) {
    let (parent, region_id) = ("spaces/default".to_owned(), region.to_owned());
    let create = CreateRegionRequest { parent, region_id, suffix_bits: Some(10), ..Default::default() };
    daemon.regions().create_region(create).await.expect("created");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_watch_resumes_after_a_restart_of_the_daemon() {
    let data = data_dir();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").to_string();
    let start = || Daemon::spawn(kentd(data.path()).args(["--listen", &port]));
    let daemon = start();
    create(&daemon, "before").await;
    let mut watch = Command::new(kent_binary());
    watch.arg("watch").env("KENT_ENDPOINT", &port).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watch = watch.spawn().expect("kent runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut until = |text: &str| lines.by_ref().take_while(|line| !line.contains(text)).collect::<Vec<_>>();
    until("revision 1; changes follow");
    create(&daemon, "meanwhile").await;
    until("+ meanwhile");
    daemon.kill();
    let daemon = start();
    create(&daemon, "after").await;
    let between = until("+ after");
    // There is no second snapshot, and there are no duplicate changes.
    assert!(between.iter().all(|line| line.starts_with("revision 3")), "{between:?}");
    watch.kill().expect("killed");
    watch.wait().expect("ended");
}

#[test]
fn ok_a_watch_says_that_an_endpoint_does_not_answer() {
    // The kernel accepts connections to this address, and nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = silent.local_addr().expect("an address").to_string();
    for (option, begin) in [("", "warning: http://"), ("--json", "{\"warning\":")] {
        let mut watch = Command::new(kent_binary());
        watch.args(["watch"]).args(option.split_whitespace()).env("KENT_ENDPOINT", &endpoint);
        let mut watch = watch.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("kent runs");
        let mut line = String::new();
        BufReader::new(watch.stderr.take().expect("piped")).read_line(&mut line).expect("read");
        watch.kill().expect("killed");
        watch.wait().expect("ended");
        assert!(line.starts_with(begin) && line.contains(&endpoint), "{line}");
        assert!(line.contains("accepted the connection but has not answered"), "{line}");
    }
}
