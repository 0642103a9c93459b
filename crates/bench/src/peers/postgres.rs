//! PostgreSQL: `nextval` of a sequence without a cache, with each call in its own transaction.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use tokio::{runtime::Runtime, task::JoinSet};
use tokio_postgres::{Client, Config, NoTls};

use super::{PAUSE, Peer, START, free_port};
use crate::{
    contest::Slice,
    figures::now,
    load,
    process::{Process, installed},
};

/// A PostgreSQL server started by the benchmark.
pub(crate) struct Postgres {
    // Fields drop in this order: the server stops before its directory is removed.
    _process: Process,
    _dir: TempDir,
    config: Config,
}

impl Postgres {
    pub(super) fn start() -> anyhow::Result<Self> {
        let program = |name| installed(name, &debian()).with_context(|| format!("{name} is not installed"));
        // initdb refuses to run as root, so a benchmark that runs as root starts it as the package's user.
        let user = user()?;
        let dir = tempfile::tempdir()?;
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid))?;
        }
        let data = dir.path().join("data");
        let mut initdb = command(&program("initdb")?, user, dir.path());
        initdb.args(["--auth", "trust", "--username", "bench", "--no-instructions", "--locale", "C", "--pgdata"]);
        let output = initdb.arg(&data).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
        ensure!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());

        let port = free_port()?.port();
        let mut postgres = command(&program("postgres")?, user, dir.path());
        postgres.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""]);
        // On SIGINT, PostgreSQL shuts down without waiting for its clients.
        let mut process = Process::start(postgres.stdout(Stdio::null()).stderr(Stdio::null()), "INT")?;
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("bench").dbname("postgres");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let began = now();
        while let Err(error) = runtime.block_on(prepare(&config)) {
            ensure!(process.is_running()? && began.elapsed() < START, "postgres does not answer: {error}");
            thread::sleep(PAUSE);
        }
        Ok(Self { _process: process, _dir: dir, config })
    }
}

/// Returns the directories of the server's programs on Debian.
fn debian() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).collect()
}

/// Returns the user and group that the package creates, if this process runs as root.
fn user() -> anyhow::Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let id = |option| -> anyhow::Result<u32> {
        let output = Command::new("id").args([option, "postgres"]).output()?;
        String::from_utf8(output.stdout)?.trim().parse().context("there is no user postgres to run the server")
    };
    Ok(Some((id("-u")?, id("-g")?)))
}

fn command(program: &Path, user: Option<(u32, u32)>, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

async fn prepare(config: &Config) -> anyhow::Result<()> {
    connect(config).await?.batch_execute("CREATE SEQUENCE IF NOT EXISTS ids INCREMENT 1000 CACHE 1").await?;
    Ok(())
}

/// Connects a client. Its connection runs in a task, which ends when the client is dropped.
async fn connect(config: &Config) -> anyhow::Result<Client> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::runtime::Handle::current().spawn(connection);
    Ok(client)
}

impl Peer for Postgres {
    fn slice(&self, runtime: &Runtime, clients: usize, depth: usize, length: Duration) -> anyhow::Result<Slice> {
        if depth > 1 {
            bail!("the PostgreSQL client sends one statement at a time");
        }
        runtime.block_on(async {
            let mut connected = Vec::new();
            for _ in 0..clients {
                connected.push(connect(&self.config).await?);
            }
            let (mut tasks, began) = (JoinSet::new(), now());
            for client in connected {
                tasks.spawn(query(client, began + length));
            }
            load::gather(tasks, began).await
        })
    }
}

async fn query(client: Client, end: Instant) -> anyhow::Result<Slice> {
    let statement = client.prepare("SELECT nextval('ids')").await?;
    let (mut slice, mut sent) = (Slice::default(), now());
    while sent < end {
        let _: i64 = client.query_one(&statement, &[]).await?.try_get(0)?;
        let answered = now();
        slice.call(answered - sent);
        slice.count += 1;
        sent = answered;
    }
    Ok(slice)
}
