//! Redis: INCRBY with an append-only file that is synced before each answer.

use std::{
    collections::VecDeque,
    iter,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpStream, runtime::Runtime, task::JoinSet};

use super::{Peer, free_port, listening, resp};
use crate::{
    contest::Slice,
    figures::now,
    lean, load,
    process::{Process, installed},
};

/// A Redis server started by the benchmark.
pub(crate) struct Redis {
    // Fields drop in this order: the server stops before its directory is removed.
    process: Process,
    _dir: TempDir,
    address: String,
}

impl Redis {
    pub(super) fn start() -> anyhow::Result<Self> {
        let program = installed("redis-server", &[]).context("redis-server is not installed")?;
        let (dir, address) = (tempfile::tempdir()?, free_port()?);
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--dir"]).arg(dir.path());
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
        let process = listening(command.stdout(Stdio::null()), address)?;
        Ok(Self { process, _dir: dir, address: address.to_string() })
    }
}

impl Peer for Redis {
    fn slice(&self, runtime: &Runtime, clients: usize, depth: usize, length: Duration) -> anyhow::Result<Slice> {
        let slice = async {
            let mut streams = Vec::new();
            for _ in 0..clients {
                let stream = TcpStream::connect(&self.address).await?;
                stream.set_nodelay(true)?;
                streams.push(stream);
            }
            let (mut tasks, began) = (JoinSet::new(), now());
            for stream in streams {
                tasks.spawn(client(stream, depth, began + length));
            }
            load::gather(tasks, began).await
        };
        self.process.watched(|| runtime.block_on(slice))
    }
}

/// Runs one client, which sends a new command after each answer.
async fn client(mut stream: TcpStream, depth: usize, end: Instant) -> anyhow::Result<Slice> {
    let command = resp::incrby("ids", 1000);
    let pipeline = command.repeat(depth);
    let (mut slice, mut received) = (Slice::default(), Vec::new());
    let mut sent = VecDeque::from(vec![now(); depth]);
    stream.write_all(&pipeline).await?;
    loop {
        lean::read(&mut stream, &mut received).await?;
        let (count, taken) = resp::integers(&received)?;
        if count == 0 {
            continue;
        }
        received.drain(..taken);
        let answered = now();
        sent.drain(..count).for_each(|sent| slice.call(answered - sent));
        slice.count += count as u64; // OK because a usize has at most 64 bits
        if answered >= end {
            return Ok(slice);
        }
        stream.write_all(&pipeline[..command.len() * count]).await?;
        sent.extend(iter::repeat_n(answered, count));
    }
}
