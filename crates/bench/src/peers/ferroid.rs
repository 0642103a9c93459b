//! ferroid-tonic-server: Snowflake identifiers as a stream of chunks of octets.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use tokio::runtime::Runtime;

use super::{free_port, listening};
use crate::{contest::Slice, figures::now, load, process::Process};

/// Generated code.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod proto {
    tonic::include_proto!("ferroid");
}

/// A server of our own.
pub(crate) struct Ferroid {
    _process: Process,
    address: String,
}

/// A worker makes 4096 identifiers in a millisecond at the most. So many workers are not what bounds the stream. Its own
/// environment variables, NUM_WORKERS and IDS_PER_CHUNK, replace these.
const SETTINGS: [(&str, &str); 2] = [("NUM_WORKERS", "512"), ("IDS_PER_CHUNK", "4096")];
/// The most that one request can ask for.
const COUNT: u64 = 1_000_000_000;

impl Ferroid {
    /// Starts the program.
    pub(crate) fn start(program: &Path) -> anyhow::Result<Self> {
        let address = free_port()?;
        let mut command = Command::new(program);
        command.args(["--server-addr", &address.to_string(), "--shutdown-timeout", "1"]);
        command.envs(SETTINGS.into_iter().filter(|(name, _)| env::var_os(name).is_none()));
        let process = listening(command.stdout(Stdio::null()), address)?;
        Ok(Self { _process: process, address: address.to_string() })
    }

    /// Octets of identifiers to one client, for a while.
    pub(crate) fn slice(&self, runtime: &Runtime, length: Duration) -> anyhow::Result<Slice> {
        runtime.block_on(async {
            let channel = load::connect(&self.address).await?;
            let mut client = proto::id_generator_client::IdGeneratorClient::new(channel);
            let mut slice = Slice::default();
            let began = now();
            let mut chunks = client.stream_ids(proto::StreamIdsRequest { count: COUNT }).await?.into_inner();
            while slice.took < length {
                let chunk = chunks.message().await?.context("the stream ended")?;
                slice.count += chunk.packed_ids.len() as u64; // OK because a usize has 64 bits at most
                slice.took = began.elapsed();
            }
            drop(chunks);
            load::settle(1).await;
            Ok(slice)
        })
    }
}
