//! ferroid-tonic-server: Snowflake identifiers, streamed as chunks of bytes.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::runtime::Runtime;

use super::{free_port, listening};
use crate::{contest::Slice, figures::now, load, process::Process};

/// The code generated from ferroid.proto.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod proto {
    include!("generated/ferroid.rs");
}

/// A ferroid-tonic-server started by the benchmark.
pub(crate) struct Ferroid {
    _process: Process,
    address: String,
    count: u64,
}

/// Settings as environment variables, and the number of identifiers per request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    variables: &'static [(&'static str, &'static str)],
    count: u64,
}

/// A million identifiers per request, from 128 workers. Each worker generates at most 4096 identifiers per millisecond.
pub(crate) const USUAL: Settings = Settings { variables: &[("NUM_WORKERS", "128")], count: 1_000_000 };
/// The fastest settings found: one request for the maximum count, more workers, and larger chunks.
pub(crate) const FASTEST: Settings =
    Settings { variables: &[("NUM_WORKERS", "512"), ("IDS_PER_CHUNK", "4096")], count: 1_000_000_000 };

impl Ferroid {
    /// Starts ferroid-tonic-server.
    pub(crate) fn start(program: &Path, settings: Settings) -> anyhow::Result<Self> {
        let address = free_port()?;
        let mut command = Command::new(program);
        command.args(["--server-addr", &address.to_string(), "--shutdown-timeout", "1"]);
        command.envs(settings.variables.iter().copied());
        let process = listening(command.stdout(Stdio::null()), address)?;
        Ok(Self { _process: process, address: address.to_string(), count: settings.count })
    }

    /// Streams identifiers to one client for a slice, and counts their bytes.
    pub(crate) fn slice(&self, runtime: &Runtime, length: Duration) -> anyhow::Result<Slice> {
        runtime.block_on(async {
            let channel = load::connect(&self.address).await?;
            let mut client = proto::id_generator_client::IdGeneratorClient::new(channel);
            let mut slice = Slice::default();
            let began = now();
            while slice.took < length {
                let mut chunks = client.stream_ids(proto::StreamIdsRequest { count: self.count }).await?.into_inner();
                while slice.took < length
                    && let Some(chunk) = chunks.message().await?
                {
                    slice.count += chunk.packed_ids.len() as u64; // OK because a usize has at most 64 bits
                    slice.took = began.elapsed();
                }
            }
            load::settle(1).await;
            Ok(slice)
        })
    }
}
