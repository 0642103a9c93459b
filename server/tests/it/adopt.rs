//! `kent adopt`: services move from other generators, and no identifier appears twice.

use std::{
    collections::HashSet,
    fs,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt, chown},
        process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, UNIX_EPOCH},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use kent_proto::v1::{Encoding, GetStatusRequest, RaiseFloorsRequest, RaisedFloor, raise_floors_request::Floor};
use kent_test_etcd::Etcd;
use tempfile::TempDir;
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_postgres::{Client, Config, NoTls};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    cluster::{eventually, replica},
    harness::{Daemon, data_dir, identifiers, request},
    operator::{Operator, run_at},
};

/// A PostgreSQL server of the test.
struct Postgres {
    server: Child,
    config: Config,
    _dir: TempDir,
}

impl Postgres {
    /// Starts a server. As root, runs it as the package's user, because PostgreSQL refuses to run as root.
    async fn start() -> Self {
        let programs = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs: Vec<PathBuf> = programs.map(|version| version.path().join("bin")).collect();
        let programs = programs.last().expect("this test needs PostgreSQL: apt-get install postgresql");
        let dir = data_dir();
        let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
        let id = |option| {
            let output = Command::new("id").args([option, "postgres"]).output().expect("id runs");
            String::from_utf8(output.stdout).expect("UTF-8").trim().parse::<u32>().expect("the user postgres")
        };
        let user = is_root.then(|| (id("-u"), id("-g")));
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid)).expect("the directory changes its owner");
        }
        let data = dir.path().join("data");
        let mut initdb = command("initdb");
        initdb.args(["--auth", "trust", "--username", "test", "--no-sync", "--locale", "C", "--pgdata"]).arg(&data);
        assert!(initdb.status().expect("initdb runs").success());
        let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port").port();
        let mut server = command("postgres");
        server.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-k", "", "-F", "-p", &port.to_string()]);
        let server = server.spawn().expect("postgres runs");
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("test").dbname("postgres");
        let this = Self { server, config, _dir: dir };
        let began = Instant::now();
        while this.config.connect(NoTls).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "PostgreSQL does not answer");
            sleep(Duration::from_millis(50)).await;
        }
        this
    }

    async fn connect(&self) -> Client {
        let (client, connection) = self.config.connect(NoTls).await.expect("PostgreSQL answers");
        Handle::current().spawn(connection);
        client
    }
}

impl Postgres {
    /// Creates the sequence `orders`. Returns a connection, and a function that takes the next number for a worker, each
    /// over a connection of its own, which caches numbers.
    async fn sequence(&self) -> (Client, impl Fn(usize) -> BoxFuture<'static, u128> + Clone + Send + use<>) {
        let admin = self.connect().await;
        admin.batch_execute("CREATE SEQUENCE orders CACHE 20").await.expect("a sequence");
        let clients = Arc::new(join_all((0..WORKERS).map(|_| self.connect())).await);
        let next = move |worker: usize| {
            let clients = clients.clone();
            async move {
                let row =
                    clients[worker].query_one("SELECT nextval('orders')", &[]).await.expect("the sequence goes on");
                u128::try_from(row.get::<_, i64>(0)).expect("positive")
            }
            .boxed()
        };
        (admin, next)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A file of floors.
fn file(lines: &[(&str, String)]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let line = |(source, floor): &(&str, String)| format!("{{\"source\": \"{source}\", \"floor\": \"{floor}\"}}\n");
    fs::write(file.path(), lines.iter().map(line).collect::<String>()).expect("the file is written");
    file
}

async fn draw(daemon: &Daemon, source: &str, count: u64) -> Result<Vec<u128>, Status> {
    let reply = daemon.allocator().allocate(request(source, count, Encoding::Packed)).await?;
    Ok(identifiers(reply.get_ref()))
}

/// What the workers of a service have received, and which of them have moved.
#[derive(Debug, Default)]
struct Service {
    old: Mutex<Vec<u128>>,
    new: Mutex<Vec<u128>>,
    moved: [AtomicBool; WORKERS],
    stop: AtomicBool,
}

const WORKERS: usize = 4;

impl Service {
    /// Runs the workers. Each takes identifiers from the old generator until it is moved, and then from `source`. In the
    /// middle of the run, calls `adopt`, and then moves the workers one after the other.
    async fn run<F: Future<Output = u128> + Send + 'static>(
        self: Arc<Self>,
        daemon: &Daemon,
        source: &'static str,
        old: impl Fn(usize) -> F + Clone + Send + 'static,
        adopt: impl Future<Output = ()>,
    ) {
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            let (service, old, mut allocator) = (self.clone(), old.clone(), daemon.allocator());
            workers.spawn(async move {
                while !service.stop.load(Relaxed) {
                    if service.moved[worker].load(Relaxed) {
                        let reply = allocator.allocate(request(source, 3, Encoding::Packed)).await.expect("granted");
                        service.new.lock().expect("a lock").extend(identifiers(reply.get_ref()));
                    } else {
                        let id = old(worker).await;
                        service.old.lock().expect("a lock").push(id);
                    }
                }
            });
        }
        self.reach(&self.old, 200).await;
        adopt.await;
        for worker in 0..WORKERS {
            let (old, new) = (self.old.lock().expect("a lock").len(), self.new.lock().expect("a lock").len());
            if worker > 0 {
                self.reach(&self.new, new + 100).await;
            }
            self.reach(&self.old, old + 50).await;
            self.moved[worker].store(true, Relaxed);
        }
        let new = self.new.lock().expect("a lock").len();
        self.reach(&self.new, new + 500).await;
        self.stop.store(true, Relaxed);
        while let Some(worker) = workers.join_next().await {
            worker.expect("no identifier is refused");
        }
        let (old, new) = (self.old.lock().expect("a lock"), self.new.lock().expect("a lock"));
        let all: HashSet<u128> = old.iter().chain(&*new).copied().collect();
        assert_eq!(all.len(), old.len() + new.len(), "an identifier appears twice");
    }

    /// Waits until a list has this length.
    async fn reach(&self, list: &Mutex<Vec<u128>>, length: usize) {
        let began = Instant::now();
        while list.lock().expect("a lock").len() < length {
            assert!(began.elapsed() < Duration::from_secs(60), "the workers stand still");
            sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_service_moves_from_a_postgresql_sequence_under_load() {
    let postgres = Postgres::start().await;
    let (admin, old) = postgres.sequence().await;
    let operator = Operator::new();
    operator.kent("space create orders --bits 63");
    operator.kent("region create ids --space orders --prefix 0 --suffix 40");
    let source = "region:ids@orders";
    let service = Arc::new(Service::default());
    let adopt = async {
        // The old sequence gets a limit, and Kent continues above it.
        let limit = 1_000_000;
        admin.batch_execute(&format!("ALTER SEQUENCE orders MAXVALUE {limit} NO CYCLE")).await.expect("a limit");
        let file = file(&[(source, limit.to_string())]);
        operator.kent(&format!("adopt {} --yes", file.path().display()));
    };
    service.clone().run(&operator.daemon, source, old, adopt).await;
    assert!(service.new.lock().expect("a lock").iter().all(|id| *id > 1_000_000));

    // The query of docs/migrating.md names the last number that a session may have cached.
    let query = "SELECT json_build_object('source', 'region:ids@' || sequencename, 'floor', last_value)::text FROM pg_sequences \
                 WHERE last_value IS NOT NULL";
    let line: String = admin.query_one(query, &[]).await.expect("one sequence").get(0);
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let last = service.old.lock().expect("a lock").iter().max().copied().expect("old numbers");
    assert_eq!(line["source"], source);
    assert!(line["floor"].as_u64().is_some_and(|floor| u128::from(floor) >= last), "{line} {last}");
}

/// A sequence and a region interleave: the sequence keeps the odd numbers, and the region issues the even ones.
#[tokio::test(flavor = "multi_thread")]
async fn ok_a_postgresql_sequence_goes_on_beside_kent_with_a_step() {
    let postgres = Postgres::start().await;
    let (admin, old) = postgres.sequence().await;
    let operator = Operator::new();
    operator.kent("space create orders --bits 63");
    operator.kent("region create ids --space orders --prefix 0 --suffix 40");
    let service = Arc::new(Service::default());
    let adopt = async {
        // The statements of docs/migrating.md: both continue above a number that no session has cached.
        admin.batch_execute("ALTER SEQUENCE orders INCREMENT BY 2 RESTART WITH 1000001").await.expect("a step");
        operator.kent("region set ids --space orders --step 2 --offset 0 --next 1_000_001");
    };
    service.clone().run(&operator.daemon, "region:ids@orders", old, adopt).await;
    let above = |list: &Mutex<Vec<u128>>, residue: u128| {
        let list = list.lock().expect("a lock");
        list.iter().filter(|id| **id > 1_000_000 && **id % 2 == residue).count()
    };
    let (odd, even) = (above(&service.old, 1), above(&service.new, 0));
    assert!(odd > 50, "the sequence issued {odd} odd numbers");
    assert_eq!((above(&service.old, 0), even), (0, service.new.lock().expect("a lock").len()));

    // The sequence is retired: Kent issues every number, above the last one of the sequence.
    operator.refused("region set ids --space orders --no-step", "BAD_INPUT");
    let last = admin.query_one("SELECT last_value FROM orders", &[]).await.expect("a sequence").get::<_, i64>(0);
    admin.batch_execute("DROP SEQUENCE orders").await.expect("dropped");
    operator.kent(&format!("region set ids --space orders --no-step --next {}", last + 1));
    let ids = draw(&operator.daemon, "region:ids@orders", 1000).await.expect("granted");
    let issued: HashSet<u128> = service.old.lock().expect("a lock").iter().copied().collect();
    assert!(ids.iter().all(|id| !issued.contains(id)) && ids.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

/// A Snowflake generator that Kent knows nothing about: 41 bits of milliseconds, 10 of the machine, 12 of a counter.
struct Snowflake {
    machine: u64,
    last: AtomicU64,
}

const EPOCH_MS: u64 = 1_288_834_974_657;

impl Snowflake {
    fn next(&self) -> u128 {
        let now = u64::try_from(UNIX_EPOCH.elapsed().expect("after 1970").as_millis()).expect("small") - EPOCH_MS;
        // The time and the counter of the last identifier, as one number.
        let next = |last: u64| Some((last + 1).max(now << 12));
        let taken = self.last.fetch_update(Relaxed, Relaxed, next).expect("always some");
        let taken = next(taken).expect("always some");
        u128::from((taken >> 12) << 22 | self.machine << 12 | taken & 0xfff)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_service_moves_from_a_snowflake_generator_under_load() {
    let operator = Operator::new();
    // The old generators keep the machine numbers below 960.
    let fields = "zero:1 time:41:1ms@2010-11-04T01:42:54.657Z slot:10:960 counter:12";
    let create = kent_proto::v1::CreateLayoutRequest {
        layout: Some(kent_proto::v1::Layout {
            name: "tickets".to_owned(),
            fields: fields.to_owned(),
            ..kent_proto::v1::Layout::default()
        }),
        validate_only: false,
    };
    let mut layouts = kent_proto::v1::layouts_client::LayoutsClient::new(operator.daemon.channel());
    layouts.create_layout(create).await.expect("a layout");
    let machine = |machine| Snowflake { machine, last: AtomicU64::new(0) };
    let generators: Arc<[Snowflake; WORKERS]> = Arc::new([machine(0), machine(1), machine(500), machine(959)]);
    let old = {
        let generators = generators.clone();
        move |worker: usize| {
            let generators = generators.clone();
            async move {
                sleep(Duration::from_micros(200)).await;
                generators[worker].next()
            }
        }
    };
    let service = Arc::new(Service::default());
    service.clone().run(&operator.daemon, "layout:tickets", old, async {}).await;

    // The generators have stopped: another layout takes over their machine numbers, above the last identifier.
    operator.kent("layout create all --preset snowflake-twitter");
    let last = generators.iter().map(Snowflake::next).max().expect("four generators");
    sleep(Duration::from_millis(600)).await;
    let file = file(&[("layout:all", last.to_string())]);
    let path = file.path().display();
    assert!(operator.kent(&format!("adopt {path} --yes")).ends_with("raised 1 source\n"));
    let ids = draw(&operator.daemon, "layout:all", 1000).await.expect("granted");
    assert!(ids.iter().all(|id| id >> 22 > last >> 22), "each time is later than that of the floor");
    assert!(operator.kent(&format!("adopt {path} --yes")).ends_with("all sources are above their floors already\n"));
}

async fn raise(daemon: &Daemon, floors: &[(&str, &str)]) -> Result<Vec<RaisedFloor>, Status> {
    let floor = |(source, floor): &(&str, &str)| Floor { source: (*source).to_owned(), floor: (*floor).to_owned() };
    let floors = RaiseFloorsRequest { floors: floors.iter().map(floor).collect(), ..RaiseFloorsRequest::default() };
    Ok(daemon.admin().raise_floors(floors).await?.into_inner().floors)
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_floors_hold_after_a_kill() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    // A chunk of numbers is in memory when the floor is raised.
    assert_eq!(draw(&daemon, "serial:GBP", 5).await.expect("granted").len(), 5);
    let raised = raise(&daemon, &[("serial:GBP", "400"), ("serial:EUR", "7"), ("xid", "2026-01-01T00:00:00Z")]).await;
    let raised = raised.expect("raised");
    let numbers: Vec<_> = raised.iter().map(|it| (it.before.as_str(), it.after.as_str(), it.changed)).collect();
    assert_eq!(numbers, [("6", "401", true), ("1", "8", true), ("", "2026-01-01T00:00:00.001Z", true)]);
    daemon.kill();
    let daemon = Daemon::start(data.path());
    for (series, first) in [("serial:GBP", 401), ("serial:EUR", 8)] {
        let id = draw(&daemon, series, 1).await.expect("granted")[0];
        assert_eq!(id & 0xffff_ffff, first, "{series}: {id:x}");
    }
    // A lower floor changes nothing.
    let again = raise(&daemon, &[("serial:GBP", "3")]).await.expect("raised");
    assert!(!again[0].changed, "{again:?}");
}

/// A dry run marks series that have issued nothing, and warns of floors that fill their sources.
#[test]
fn ok_floors_that_look_wrong_are_marked() {
    let operator = Operator::new();
    operator.kent("region create orders --suffix 20 --prefix 0");
    operator.kent("alloc serial:GBP -n 3");
    let full = ((1 << 20) - 1).to_string();
    let lines = file(&[
        ("serial:GBP", "GBP:2001".to_owned()),
        ("serial:gbp", "2001".to_owned()),
        ("region:orders", full.clone()),
    ]);
    let (code, out, err) = operator.run(&format!("adopt {} --dry-run", lines.path().display()));
    assert_eq!(code, 0, "{err}");
    let row =
        |source| out.lines().find(|line| line.starts_with(source)).map(|row| row.contains(" new ")).expect("a row");
    assert_eq!((row("serial:GBP"), row("serial:gbp"), row("region:orders")), (false, true, false), "{out}");
    assert!(err.contains("region:orders can issue nothing above this floor"), "{err}");

    for (source, floor, expected) in [
        ("uuidv7", "2026-01-01", "expected an identifier, or a time in UTC"),
        ("serial:GBP", "EUR:7", "expected a number such as 42, GBP:42, or a UUID of this series"),
    ] {
        let lines = file(&[(source, floor.to_owned())]);
        let (code, _, err) = operator.run(&format!("adopt {} --yes", lines.path().display()));
        assert!(code == 1 && err.contains(expected), "{source} {floor}: {err}");
    }
    let (code, _, err) = operator.run("adopt -");
    assert!(code == 2 && err.contains("add --yes to raise the floors"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn err_one_refused_floor_changes_nothing() {
    let operator = Operator::new();
    operator.kent("region create orders --suffix 20 --prefix 0");
    operator.kent("region create mixed --suffix 20 --order scrambled");
    for (source, floor, code, reason) in [
        ("uuidv7", "2100-01-01T00:00:00Z", Code::FailedPrecondition, "FLOOR_NOT_PASSED"),
        ("uuidv7", "orders", Code::InvalidArgument, "BAD_INPUT"),
        ("uid11-fullrand", "1", Code::InvalidArgument, "BAD_INPUT"),
        ("region:nosuch", "1", Code::NotFound, "NO_SUCH_REGION"),
        ("region:orders@nosuch", "1", Code::NotFound, "NO_SUCH_SPACE"),
        ("region:mixed", "5", Code::InvalidArgument, "BAD_INPUT"),
        ("region:orders", "a1", Code::InvalidArgument, "BAD_INPUT"),
        ("layout:nosuch", "1", Code::NotFound, "NO_SUCH_LAYOUT"),
        ("serial:EUR", "340282366920938463463374607431768211455", Code::FailedPrecondition, "NOTHING_ABOVE_FLOOR"),
        ("serial:GBP", "2", Code::InvalidArgument, "BAD_INPUT"),
    ] {
        let floors = [("region:orders", "100"), ("serial:GBP", "100"), (source, floor)];
        // The last case names the series twice, one of the others the region.
        let floors = if source == "region:orders" { &floors[1..] } else { &floors };
        let refused = raise(&operator.daemon, floors).await.expect_err(source);
        let given = refused.get_details_error_info().map(|info| info.reason).unwrap_or_default();
        assert_eq!((refused.code(), given.as_str()), (code, reason), "{source} {floor}: {refused}");
    }
    let id = draw(&operator.daemon, "serial:GBP", 1).await.expect("granted")[0];
    assert_eq!(id & 0xffff_ffff, 1, "nothing was changed");

    assert_eq!(draw(&operator.daemon, "region:orders", 1).await.expect("granted"), [0], "nothing was changed");

    let lines = file(&[("serial:GBP", "100".to_owned()), ("region:mixed", "5".to_owned())]);
    let (code, _, stderr) = operator.run(&format!("adopt {} --yes", lines.path().display()));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("region:mixed: the region issues its numbers in a scrambled order"), "{stderr}");
    let id = draw(&operator.daemon, "serial:GBP", 1).await.expect("granted")[0];
    assert_eq!(id & 0xffff_ffff, 2, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_after_a_kill_all_floors_of_a_request_are_raised_or_none() {
    let data = data_dir();
    let mut daemon = Daemon::start(data.path());
    let spaces = ["one", "two", "three"];
    for space in spaces {
        let (code, _, stderr) = run_at(daemon.grpc_address(), &format!("space create {space} --bits 63"));
        assert_eq!(code, 0, "{stderr}");
        let create = format!("region create ids --space {space} --prefix 0 --suffix 40");
        let (code, _, stderr) = run_at(daemon.grpc_address(), &create);
        assert_eq!(code, 0, "{stderr}");
    }
    let (mut raised, mut lost) = (0, 0);
    for round in 1..=24_u64 {
        // A lost floor must not be passed by the chunk that the kill before it has skipped.
        let floor = (round << 20).to_string();
        let sources = spaces.map(|space| format!("region:ids@{space}"));
        let mut floors: Vec<_> = sources.iter().map(|source| (source.as_str(), floor.as_str())).collect();
        floors.push(("serial:GBP", &floor));
        let answered = tokio::select! {
            answered = raise(&daemon, &floors) => answered.is_ok(),
            () = sleep(Duration::from_micros(300 * (round % 12))) => false,
        };
        daemon.kill();
        daemon = Daemon::start(data.path());
        let mut above = Vec::new();
        for source in sources.iter().map(String::as_str).chain(["serial:GBP"]) {
            let id = draw(&daemon, source, 1).await.expect("granted")[0];
            above.push(id & 0xffff_ffff > u128::from(round << 20));
        }
        assert!(above.iter().all(|is_above| *is_above == above[0]), "round {round}: {above:?}");
        assert!(above[0] || !answered, "round {round}: an answered floor was lost");
        if above[0] { raised += 1 } else { lost += 1 }
    }
    println!("{raised} requests were committed before the kill, {lost} were not");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_floors_hold_on_all_replicas() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let replicas: Vec<Daemon> = (0..2).map(|_| replica(&address, 5)).collect();
    let (code, _, stderr) = run_at(replicas[0].grpc_address(), "region create orders --prefix 0 --suffix 40");
    assert_eq!(code, 0, "{stderr}");
    // Only the other replica holds a chunk, and the floor is in the middle of it.
    let began = Instant::now();
    while draw(&replicas[1], "region:orders", 1).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(30), "the region does not arrive");
        sleep(Duration::from_millis(20)).await;
    }
    draw(&replicas[1], "serial:GBP", 1).await.expect("granted");
    let lines = file(&[("region:orders", "100".to_owned()), ("serial:EUR", "50".to_owned())]);
    for attempt in 0..2 {
        let (code, stdout, stderr) =
            run_at(replicas[0].grpc_address(), &format!("adopt {} --yes", lines.path().display()));
        assert_eq!(code, 0, "{attempt}: {stdout} {stderr}");
    }
    for daemon in &replicas {
        let ids = draw(daemon, "region:orders", 100).await.expect("granted");
        assert!(ids.iter().all(|id| *id > 100), "{ids:?}");
        let id = draw(daemon, "serial:EUR", 1).await.expect("granted")[0];
        assert!(id & 0xffff_ffff > 50, "{id:x}");
    }
    // Another replica may hold numbers of a series in use, and would not drop them.
    let refused = raise(&replicas[0], &[("serial:GBP", "500")]).await.expect_err("in use");
    assert_eq!(refused.get_details_error_info().map(|info| info.reason).unwrap_or_default(), "SERIES_IN_USE");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_floor_in_time_fences_the_other_replicas() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let replicas: Vec<Daemon> = (0..2).map(|_| replica(&address, 5)).collect();
    for daemon in &replicas {
        draw(daemon, "xid", 1).await.expect("granted");
    }
    let epochs = async || {
        let mut epochs = Vec::new();
        for daemon in &replicas {
            let slots = daemon.admin().get_status(GetStatusRequest {}).await.expect("a status").into_inner().slots;
            epochs.push(slots.first().map(|slot| (slot.slot, slot.slot_epoch)));
        }
        epochs
    };
    let before = epochs().await;
    let floor = Floor { source: "xid".to_owned(), floor: "2026-01-01T00:00:00Z".to_owned() };
    let floors = RaiseFloorsRequest { floors: vec![floor], ..RaiseFloorsRequest::default() };
    let answer = replicas[0].admin().raise_floors(floors).await.expect("raised").into_inner();
    // The other replica may grant from its slot until its window of five seconds ends, even if its clock is behind.
    assert_eq!(answer.effective_within_ms, 5000);
    sleep(Duration::from_millis(answer.effective_within_ms)).await;
    eventually("the other replica has taken a slot again", async || {
        let now = epochs().await;
        now[0] == before[0] && now[1].is_some() && now[1] != before[1]
    })
    .await;
    draw(&replicas[1], "xid", 1).await.expect("granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_floor_holds_for_a_series_whose_first_grant_runs_at_the_same_time() {
    let operator = Operator::new();
    let daemon = &operator.daemon;
    for number in 0..100 {
        let source = format!("serial:A{number:03}");
        let floor = [(source.as_str(), "500")];
        let (first, raised) = tokio::join!(draw(daemon, &source, 1), raise(daemon, &floor));
        first.expect("granted");
        raised.expect("raised");
        let id = draw(daemon, &source, 1).await.expect("granted")[0];
        assert!(id & 0xffff_ffff > 500, "{source}: {id:x}");
    }
}
