//! `kill -9` at random moments under load from several clients: no identifier is ever issued twice.

use std::{
    fs::{self, File},
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use kent_proto::v1::{
    CreateRegionRequest, Encoding, allocate_stream_response::Outcome, allocator_client::AllocatorClient,
};
use rand::RngExt;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::harness::{Daemon, Ledger, data_dir, identifiers, keep_home, kentd_binary, request};

/// The number of crashes in the short and in the long test.
const ROUNDS: u32 = 12;
const ROUNDS_LONG: u32 = 400;

/// Sources of every kind, in both encodings, with block sizes from one to 1000.
pub(crate) const LOAD: [(&str, u64, Encoding); 11] = [
    ("uuidv7", 1, Encoding::Packed),
    ("uuidv7", 1000, Encoding::Lease),
    ("uuidv6", 1, Encoding::Lease),
    ("uuidv6", 1000, Encoding::Packed),
    ("xid", 1, Encoding::Lease),
    ("xid", 1000, Encoding::Packed),
    ("uid11-fullrand", 300, Encoding::Packed),
    ("serial:GBP$", 40, Encoding::Lease),
    ("uuidv7-draft01-us", 1000, Encoding::Packed),
    ("region:orders", 1, Encoding::Lease),
    ("region:orders", 700, Encoding::Packed),
];

#[tokio::test(flavor = "multi_thread")]
async fn ok_no_identifier_is_issued_twice_over_many_crashes() {
    crash_repeatedly(ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: several hundred crashes"]
async fn long_no_identifier_is_issued_twice_over_hundreds_of_crashes() {
    crash_repeatedly(ROUNDS_LONG).await;
}

async fn crash_repeatedly(rounds: u32) {
    let data = data_dir();
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    create_orders(data.path()).await;
    for round in 0..rounds {
        let daemon = Daemon::start(data.path());
        let mut clients = JoinSet::new();
        for (index, (source, count, encoding)) in LOAD.into_iter().enumerate() {
            let (client, ledger) = (daemon.allocator(), ledger.clone());
            // Half of the clients pipeline requests. The others send one request at a time.
            if index % 2 == round as usize % 2 {
                clients.spawn(stream(client, source, count, encoding, ledger));
            } else {
                clients.spawn(call(client, source, count, encoding, ledger));
            }
        }
        let moment = Duration::from_millis(rand::rng().random_range(5..400));
        tokio::time::sleep(moment).await;
        daemon.kill();
        while let Some(ended) = clients.join_next().await {
            ended.expect("a client found a duplicate or failed");
        }
    }
    let received = ledger.lock().expect("not poisoned").len();
    println!("{rounds} rounds, {received} identifiers received, no duplicates");
    assert!(received > rounds as usize * 1000, "the load was too small to show anything");
}

async fn create_orders(data: &std::path::Path) {
    let daemon = Daemon::start(data);
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "orders".to_owned(),
        suffix_bits: Some(50),
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(create).await.expect("created");
    daemon.kill();
}

/// Sends requests until the daemon is killed.
async fn call(
    mut client: AllocatorClient<Channel>,
    source: &'static str,
    count: u64,
    encoding: Encoding,
    ledger: Arc<Mutex<Ledger>>,
) {
    while let Ok(reply) = client.allocate(request(source, count, encoding)).await {
        let ids = identifiers(reply.get_ref());
        assert_eq!(ids.len() as u64, count);
        ledger.lock().expect("not poisoned").record(source, ids);
    }
}

/// Keeps 16 requests in flight until the daemon is killed. Records all responses that arrive.
async fn stream(
    mut client: AllocatorClient<Channel>,
    source: &'static str,
    count: u64,
    encoding: Encoding,
    ledger: Arc<Mutex<Ledger>>,
) {
    let (requests, receiver) = tokio::sync::mpsc::channel(16);
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let Ok(replies) = client.allocate_stream(outgoing).await else { return };
    let mut replies = replies.into_inner();
    loop {
        while requests.try_send(request(source, count, encoding)).is_ok() {}
        let Ok(Some(reply)) = replies.message().await else { return };
        if let Some(Outcome::Granted(granted)) = reply.outcome {
            ledger.lock().expect("not poisoned").record(source, identifiers(&granted));
        }
    }
}

#[tokio::test]
async fn ok_the_first_identifier_after_a_crash_carries_the_time_of_the_clock() {
    let data = data_dir();
    for _ in 0..3 {
        let daemon = Daemon::start(data.path());
        let now_ms = || std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
        let asked = now_ms();
        let reply = daemon.allocator().allocate(request("uuidv7", 1, Encoding::Packed)).await.expect("granted");
        let millis = identifiers(reply.get_ref())[0] >> 80;
        assert!((asked - 1000..=now_ms() + 1000).contains(&millis), "{millis} is not within a second of {asked}");
        daemon.kill();
    }
}

/// The database file can have hundreds of megabytes, and writing it again takes a second or more.
#[tokio::test]
async fn ok_a_start_after_a_crash_does_not_write_the_database_again() {
    let (data, logs) = (data_dir(), data_dir());
    let log = logs.path().join("log");
    let wrote_again = || {
        let mut command = Command::new(kentd_binary());
        command.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "info", "--data"]).arg(data.path());
        keep_home(command.stderr(File::create(&log).expect("created")));
        Daemon::spawn(&mut command).kill();
        let lines = fs::read_to_string(&log).expect("read");
        assert!(lines.contains("kentd"), "there is a log: {lines}");
        lines.contains("wrote the database again")
    };
    create_orders(data.path()).await;
    for _ in 0..2 {
        assert!(!wrote_again());
    }
    // The daemon cannot know whether what another program wrote has reached the disk.
    let database = File::options().write(true).open(data.path().join("db")).expect("opened");
    database.set_modified(SystemTime::UNIX_EPOCH).expect("touched");
    assert!(wrote_again());
    assert!(!wrote_again());
}
