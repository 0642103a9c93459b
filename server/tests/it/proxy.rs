//! Lost responses: a proxy drops the response to one call in ten, along with its connection.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kent_client::{Client, Error};
use kent_proto::v1::{
    AllocateRequest, CreateRegionRequest, Encoding, ExpandRegionRequest, GetRegionRequest, ListHistoryRequest, Policy,
    UpdateRegionRequest, allocator_client::AllocatorClient, regions_client::RegionsClient,
};
use kent_test_etcd::Etcd;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Handle,
};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use super::harness::{Daemon, Ledger, data_dir, identifiers, kentd, request};

/// A proxy between clients and a daemon.
struct Proxy {
    address: SocketAddr,
    dropped: Arc<AtomicU64>,
}

impl Proxy {
    async fn start(daemon: &Daemon) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let (behind, dropped) = (daemon.grpc_address().to_owned(), Arc::new(AtomicU64::new(0)));
        let counted = dropped.clone();
        Handle::current().spawn(async move {
            let calls = Arc::new(AtomicU64::new(0));
            while let Ok((client, _)) = listener.accept().await {
                let Ok(daemon) = TcpStream::connect(&behind).await else { continue };
                Handle::current().spawn(pass(client, daemon, calls.clone(), counted.clone()));
            }
        });
        Self { address, dropped }
    }

    fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).expect("an address").connect_lazy()
    }
}

/// Forwards everything, but drops the response to one call in ten and closes the connection.
async fn pass(mut client: TcpStream, mut daemon: TcpStream, calls: Arc<AtomicU64>, dropped: Arc<AtomicU64>) {
    let (mut sent, mut received) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut sent) => match read {
                Ok(bytes @ 1..) => if daemon.write_all(&sent[..bytes]).await.is_err() { return },
                _ => return,
            },
            read = daemon.read(&mut received) => match read {
                Ok(bytes @ 1..) => {
                    // Short messages are HTTP/2 acknowledgments; responses to grants and edits are longer.
                    if bytes > 60 && calls.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
                        dropped.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    if client.write_all(&received[..bytes]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}

const ORDERS: &str = "spaces/default/regions/orders";

fn create(region: &str, request_id: &str) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(10),
        zone_bits: Some(20),
        request_id: request_id.to_owned(),
        ..CreateRegionRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_edits_and_strict_grants_are_made_once_despite_lost_responses() {
    let data = data_dir();
    let mut daemon = Daemon::start(data.path());
    let mut direct = daemon.regions();
    direct.create_region(create("orders", "")).await.expect("created");
    direct.create_region(create("invoices", "")).await.expect("created");
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let name = "spaces/default/regions/invoices".to_owned();
    let strict = UpdateRegionRequest { name, policy, ..UpdateRegionRequest::default() };
    direct.update_region(strict).await.expect("strict");

    let mut next_number = 0;
    for round in 0..2 {
        let proxy = Proxy::start(&daemon).await;
        let mut regions = RegionsClient::new(proxy.channel());
        let mut allocator = AllocatorClient::new(proxy.channel());
        for at in 0..40 {
            let id = format!("r{round}-{at}");
            // Retry until a response arrives.
            while regions.create_region(create(&id, &id)).await.is_err() {}
            let ask = AllocateRequest {
                request_id: format!("i{round}-{at}"),
                ..request("region:invoices", 3, Encoding::Packed)
            };
            let granted = loop {
                if let Ok(granted) = allocator.allocate(ask.clone()).await {
                    break granted;
                }
            };
            let invoices =
                GetRegionRequest { name: "spaces/default/regions/invoices".to_owned(), ..GetRegionRequest::default() };
            let base = base(&daemon.regions().get_region(invoices).await.expect("there").into_inner().prefix);
            let numbers: Vec<u128> = identifiers(granted.get_ref()).into_iter().map(|id| id - base).collect();
            assert_eq!(numbers, [next_number, next_number + 1, next_number + 2], "no gaps and no duplicates");
            next_number += 3;
        }
        let expand = ExpandRegionRequest {
            name: ORDERS.to_owned(),
            by_bits: 1,
            request_id: format!("x{round}"),
            ..ExpandRegionRequest::default()
        };
        for _ in 0..20 {
            while regions.expand_region(expand.clone()).await.is_err() {}
        }
        assert!(proxy.dropped.load(Ordering::Relaxed) >= 10, "too few responses were lost, so the test shows nothing");
        // A crash loses none of the grants and edits.
        daemon.kill();
        daemon = Daemon::spawn(&mut kentd(data.path()));
    }
    let orders = GetRegionRequest { name: ORDERS.to_owned(), ..GetRegionRequest::default() };
    let orders = daemon.regions().get_region(orders).await.expect("there").into_inner();
    assert_eq!(orders.suffix_bits, 12, "an expansion was not applied exactly once");
    let list =
        ListHistoryRequest { parent: "spaces/default".to_owned(), page_size: 1000, ..ListHistoryRequest::default() };
    let entries = daemon.regions().list_history(list).await.expect("a history").into_inner().entries;
    assert_eq!(entries.len(), 3 + 2 * 40 + 2);
}

/// The first 64-bit identifier under a prefix.
fn base(prefix: &str) -> u128 {
    let bits = u128::from_str_radix(prefix, 2).expect("zeros and ones");
    bits << (64 - prefix.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_each_request_id_is_granted_once_despite_lost_responses() {
    let data = data_dir();
    let mut daemon = Daemon::start(data.path());
    let policy = Some(Policy { strict: true, ..Policy::default() });
    daemon.regions().create_region(create("invoices", "")).await.expect("created");
    let name = "spaces/default/regions/invoices".to_owned();
    let strict = UpdateRegionRequest { name: name.clone(), policy, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(strict).await.expect("strict");
    let mut granted: Vec<Vec<u128>> = Vec::new();
    for round in 0..2 {
        let proxy = Proxy::start(&daemon).await;
        let client = Client::new(proxy.address.to_string()).expect("valid");
        let invoices = client.region("invoices");
        for at in 0..40 {
            let block =
                invoices.fetch_block(3).request_id(format!("{round}-{at}")).await.expect("no error reaches the caller");
            granted.push(block.into_iter().collect());
        }
        assert!(proxy.dropped.load(Ordering::Relaxed) >= 3, "too few responses were lost, so the test shows nothing");
        // A new revision and a crash change none of the grants.
        let expand = ExpandRegionRequest { name: name.clone(), by_bits: 1, ..ExpandRegionRequest::default() };
        daemon.regions().expand_region(expand).await.expect("expanded");
        daemon.kill();
        daemon = Daemon::spawn(&mut kentd(data.path()));
    }
    let numbers: Vec<u128> = granted.concat();
    assert!(numbers.is_sorted_by(|before, after| before + 1 == *after), "no gaps and no duplicates: {numbers:?}");

    let client = Client::new(daemon.grpc_address()).expect("valid");
    let invoices = client.region("invoices");
    // Fetch a new block first, so that the revision of the repeated blocks is older than the newest revision that the
    // client has seen.
    let block = invoices.fetch_block(1).await.expect("granted");
    assert_eq!(block.into_iter().next(), numbers.last().map(|last| last + 1));
    for (at, before) in granted.iter().enumerate() {
        let id = format!("{}-{}", at / 40, at % 40);
        let again = invoices.fetch_block(3).request_id(id).await.expect("granted before");
        assert_eq!(again.into_iter().collect::<Vec<_>>(), *before);
    }
    match invoices.fetch_block(4).request_id("0-0").await {
        Err(Error::Refused { code: Code::InvalidArgument, field, .. }) => assert_eq!(field, "request_id"),
        other => panic!("expected a refusal of another count, got {other:?}"),
    }
    match client.uuid_v7().fetch_block(3).request_id("0-0").await {
        Err(Error::Refused { field, .. }) => assert_eq!(field, "request_id"),
        other => panic!("expected a refusal for a format, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_an_edit_with_an_unanswered_commit_is_made_once() {
    let etcd = Etcd::start(1);
    let proxy = kent_test_etcd::Proxy::to(etcd.clients()[0]);
    let mut command = kentd(data_dir().path());
    command.args(["--store", &format!("etcd://{}/kent", proxy.address()), "--log", "error"]);
    let daemon = Daemon::spawn(&mut command);
    let mut regions = daemon.regions();
    regions.create_region(create("orders", "")).await.expect("created");
    let mut suffix_bits = 10;
    // An edit reads several times and then commits. Lose each of the responses once.
    for passing in 0..8 {
        let lost = proxy.lost();
        proxy.lose_answer_after(passing);
        // The edit has no request ID, so only its random identity can show that it was applied.
        let expand = ExpandRegionRequest { name: ORDERS.to_owned(), by_bits: 1, ..ExpandRegionRequest::default() };
        let answer = regions.expand_region(expand).await;
        let get = GetRegionRequest { name: ORDERS.to_owned(), ..GetRegionRequest::default() };
        let now = loop {
            // The lost response may belong to another call.
            match regions.get_region(get.clone()).await {
                Ok(region) if proxy.lost() > lost => break region.into_inner().suffix_bits,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let made = now - suffix_bits;
        assert!(made <= 1 && (made == 1 || answer.is_err()), "{made} times, after {passing} answers: {answer:?}");
        suffix_bits = now;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_clients_see_no_duplicates_despite_lost_responses() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    daemon.regions().create_region(create("orders", "")).await.expect("created");
    let expand = ExpandRegionRequest { name: ORDERS.to_owned(), by_bits: 20, ..ExpandRegionRequest::default() };
    daemon.regions().expand_region(expand).await.expect("expanded");
    let proxy = Proxy::start(&daemon).await;
    let client =
        Client::builder().endpoint(proxy.address.to_string()).block_size(50).block_size_max(50).build().expect("valid");
    let (sevens, orders) = (client.uuid_v7(), client.region("orders"));
    let mut ledger = Ledger::default();
    for _ in 0..5000 {
        ledger.record("uuidv7", [sevens.next().await.expect("no error reaches the caller").as_u128()]);
        ledger.record("region:orders", [orders.next().await.expect("no error reaches the caller")]);
    }
    // Identifiers of a canceled stream are not issued to other clients.
    for _ in 0..30 {
        let mut allocator = daemon.allocator();
        let requests = tokio_stream::iter((0..20).map(|_| request("region:orders", 100, Encoding::Packed)));
        let mut replies = allocator.allocate_stream(requests).await.expect("a stream").into_inner();
        for _ in 0..3 {
            let reply = replies.message().await.expect("no error").expect("an answer");
            let Some(kent_proto::v1::allocate_stream_response::Outcome::Granted(granted)) = reply.outcome else {
                panic!("refused")
            };
            ledger.record("region:orders", identifiers(&granted));
        }
    }
    assert!(proxy.dropped.load(Ordering::Relaxed) > 5, "too few responses were lost, so the test shows nothing");
    assert_eq!(ledger.len(), 10_000 + 30 * 300);
}
