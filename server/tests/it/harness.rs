//! Starts and stops real daemons, and records every identifier that they issue.

use std::{
    collections::{HashMap, HashSet},
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
};

use kent_ids::{Block, Format, Id};
use kent_proto::v1::{
    AllocateRequest, AllocateResponse, CreateRegionRequest, Encoding, admin_client::AdminClient,
    allocate_response::Identifiers, allocator_client::AllocatorClient, codec_client::CodecClient,
    regions_client::RegionsClient,
};
use tonic::transport::{Channel, Endpoint};

/// The binary `kentd`.
pub(crate) fn kentd_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built("kentd"))
}

/// A binary that cargo has built in the directory of these tests. `cargo it` and a test run of the whole workspace
/// build all binaries.
pub(crate) fn built(name: &str) -> PathBuf {
    let tests = env::current_exe().expect("the path of the tests");
    let binary = tests.ancestors().nth(2).expect("in the target directory").join(name);
    let modified = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let built = modified(&binary).unwrap_or_else(|| panic!("{} is missing: run `cargo it`", binary.display()));
    // `cargo build` lists the sources in the `.d` file. `cargo test` does not list them there, but has just built the
    // binary.
    let sources = fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let newer = sources.split_whitespace().skip(1).find(|source| modified(Path::new(source)) > Some(built));
    assert_eq!(newer, None, "{} is older than its source: run `cargo it`", binary.display());
    binary
}

/// A daemon under test. It is killed when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    greeting: String,
    grpc: String,
    http: String,
    redis: Option<String>,
}

/// A directory for a store, which is removed at the end of the test.
pub(crate) fn data_dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The command line of a daemon with this store and free ports.
pub(crate) fn kentd(data: &Path) -> Command {
    let mut command = kentd_on("sled");
    command.arg("--data").arg(data);
    command
}

/// The command line of a daemon whose store is in memory.
pub(crate) fn kentd_in_memory() -> Command {
    kentd_on("memory")
}

fn kentd_on(store: &str) -> Command {
    let mut command = Command::new(kentd_binary());
    // The address is set by KENT_LISTEN, because a test may add --listen, which can be given only once.
    command.env("KENT_LISTEN", "127.0.0.1:0");
    command.args(["--http", "127.0.0.1:0", "--log", "warn", "--store", store]);
    keep_home(&mut command);
    command
}

/// Copies the environment variables of a daemon's command to another command that runs the daemon.
pub(crate) fn copy_environment(daemon: &Command, to: &mut Command) {
    for (name, value) in daemon.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// The state directory of the daemons of all tests, with their witnesses.
pub(crate) fn state_home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("state")
}

/// Keeps the witnesses of stores in the target directory instead of the user's home.
pub(crate) fn keep_home(command: &mut Command) {
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", state_home());
}

impl Daemon {
    /// Starts a daemon on the store in `data`, and waits until it serves.
    pub(crate) fn start(data: &Path) -> Self {
        Self::spawn(&mut kentd(data))
    }

    /// Starts a daemon by its command line, and waits until it serves.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::try_spawn(command).expect("kentd prints its addresses")
    }

    /// Starts a daemon by its command line, and waits until it serves. Returns `None` if the daemon ends first.
    pub(crate) fn try_spawn(command: &mut Command) -> Option<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("kentd starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("kentd's output is read");
        if line.is_empty() {
            child.wait().expect("ended");
            return None;
        }
        // "kentd serves gRPC on ADDR and HTTP on ADDR", or "kentd serves gRPC on ADDR, HTTP on ADDR and Redis on ADDR"
        let addresses: Vec<&str> = line.split_whitespace().filter(|word| word.contains(':')).collect();
        assert!((2..=3).contains(&addresses.len()), "kentd printed {line:?}");
        let redis = addresses.get(2).map(|address| (*address).to_owned());
        // If the gRPC port has several addresses, this is the first one.
        let grpc = addresses[0].split(',').next().unwrap_or_default();
        Some(Self { grpc: grpc.to_owned(), http: addresses[1].to_owned(), redis, greeting: line, child })
    }

    /// Kills the process immediately, like a power failure.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Waits until the process has ended by itself, while the runtime continues to serve connections.
    pub(crate) async fn wait(mut self) -> ExitStatus {
        let ended = tokio::task::spawn_blocking(move || self.child.wait().expect("ended"));
        ended.await.expect("waited")
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs");
        assert!(status.success());
    }

    /// Suspends the process.
    pub(crate) fn pause(&self) {
        kent_test_etcd::pause(&self.child);
    }

    /// Resumes the process after a pause.
    pub(crate) fn resume(&self) {
        kent_test_etcd::resume(&self.child);
    }

    /// The process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The line that the daemon prints once it serves.
    pub(crate) fn greeting(&self) -> &str {
        &self.greeting
    }

    /// The address of the gRPC port.
    pub(crate) fn grpc_address(&self) -> &str {
        &self.grpc
    }

    /// The address of the HTTP port.
    pub(crate) fn http_address(&self) -> &str {
        &self.http
    }

    /// The address of the Redis port, which the daemon must have.
    pub(crate) fn redis_address(&self) -> &str {
        self.redis.as_deref().expect("a Redis port")
    }

    pub(crate) fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.grpc)).expect("an address").connect_lazy()
    }

    pub(crate) fn allocator(&self) -> AllocatorClient<Channel> {
        AllocatorClient::new(self.channel())
    }

    pub(crate) fn regions(&self) -> RegionsClient<Channel> {
        RegionsClient::new(self.channel())
    }

    pub(crate) fn codec(&self) -> CodecClient<Channel> {
        CodecClient::new(self.channel())
    }

    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel())
    }

    /// Sends GET for a path to the HTTP port. Returns the status and the body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.get_as(path, "*/*");
        (status, body)
    }

    /// Like [`Daemon::get`], with an `Accept` header. Returns the status, the head and the body.
    pub(crate) fn get_as(&self, path: &str, accept: &str) -> (u16, String, String) {
        http_get(&self.http, path, accept).expect("answered")
    }
}

/// Sends GET for a path to an HTTP port. Returns the status, the head and the body, or `None` if nothing answers.
pub(crate) fn http_get(address: &str, path: &str, accept: &str) -> Option<(u16, String, String)> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: kent\r\nAccept: {accept}\r\nConnection: close\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let status = reply.split(' ').nth(1)?.parse().ok()?;
    let (head, body) = reply.split_once("\r\n\r\n")?;
    Some((status, head.to_ascii_lowercase(), body.to_owned()))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request for `count` identifiers.
pub(crate) fn request(source: &str, count: u64, encoding: Encoding) -> AllocateRequest {
    AllocateRequest { source: source.to_owned(), count, encoding: encoding.into(), ..AllocateRequest::default() }
}

/// The resource name of the default space.
pub(crate) const SPACE: &str = "spaces/default";

/// The resource name of a region of the default space.
pub(crate) fn name(region: &str) -> String {
    format!("{SPACE}/regions/{region}")
}

/// A request for a region of the default space, with a suffix of 20 bits.
pub(crate) fn create(region: &str) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(20),
        ..CreateRegionRequest::default()
    }
}

/// The identifiers of a reply, in order, as numbers.
pub(crate) fn identifiers(reply: &AllocateResponse) -> Vec<u128> {
    match reply.identifiers.as_ref().expect("identifiers") {
        Identifiers::Lease(lease) => expand(&Block::try_from(lease.clone()).expect("a valid block")),
        Identifiers::Packed(packed) => {
            let width = usize::try_from(packed.width).expect("small");
            packed.data.clone().into_bytes().chunks_exact(width).map(number).collect()
        }
        Identifiers::Text(_) => panic!("expected numbers, got text"),
    }
}

/// The identifiers of a block. The random tails are arbitrary, because identifiers must be unique without them.
fn expand(block: &Block) -> Vec<u128> {
    block.walk(rand::rng()).map(|id: Id| id.to_u128()).collect()
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// All received identifiers, by source.
#[derive(Default)]
pub(crate) struct Ledger {
    seen: HashSet<(u16, u128)>,
    /// The number by which `seen` refers to each source. Numbers save memory: the long tests record a hundred million
    /// identifiers.
    sources: HashMap<String, u16>,
}

impl Ledger {
    /// Records identifiers. Panics if any of them was received before.
    pub(crate) fn record(&mut self, source: &str, ids: impl IntoIterator<Item = u128>) {
        // Record only the part that must be unique, because random tails would hide a position granted twice.
        let tail_bits = Format::by_token(source).map_or(0, |format| format.tail_bits());
        let fresh = u16::try_from(self.sources.len()).expect("few sources");
        let number = *self.sources.entry(source.to_owned()).or_insert(fresh);
        for id in ids {
            let essence = id >> tail_bits;
            assert!(self.seen.insert((number, essence)), "{source}: {id:#x} was issued twice");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }
}
