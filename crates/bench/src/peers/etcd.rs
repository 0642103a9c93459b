//! etcd: a counter raised by compare and swap.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kent_store::{CommitError, EtcdOptions, EtcdStore, Key, SCHEMA, Store, Txn, Version};
use kent_test_etcd::Etcd as Cluster;
use tokio::{runtime::Runtime, task::JoinSet};

use super::Peer;
use crate::{contest::Slice, figures::now, load, process::installed};

/// An etcd cluster of one member, started by the benchmark.
pub(crate) struct Etcd(Cluster);

const KEY: Key = Key::from_static("ids");

impl Etcd {
    pub(super) fn start() -> anyhow::Result<Self> {
        installed("etcd", &[]).context("etcd is not installed")?;
        Ok(Self(Cluster::start(1)))
    }

    async fn open(&self) -> anyhow::Result<EtcdStore> {
        let address = self.0.address("bench").parse()?;
        Ok(EtcdStore::open(EtcdOptions { address, tls: None, credentials: None, new_id: [1; 16], schema: SCHEMA })
            .await?)
    }
}

impl Peer for Etcd {
    fn slice(&self, runtime: &Runtime, clients: usize, depth: usize, length: Duration) -> anyhow::Result<Slice> {
        if depth > 1 {
            bail!("compare and swap is not pipelined");
        }
        runtime.block_on(async {
            let mut stores = Vec::new();
            for _ in 0..clients {
                stores.push(self.open().await?);
            }
            let (mut tasks, began) = (JoinSet::new(), now());
            for store in stores {
                tasks.spawn(raise(store, began + length));
            }
            load::gather(tasks, began).await
        })
    }
}

/// Raises the counter until `end`. Counts only its own successful commits.
async fn raise(store: EtcdStore, end: Instant) -> anyhow::Result<Slice> {
    let (mut slice, mut sent) = (Slice::default(), now());
    let (mut version, mut count) = read(&store).await?;
    while sent < end {
        count += 1000;
        match store.commit(Txn::new().expect(KEY, version).put(KEY, count.to_be_bytes())).await {
            Ok(committed) => {
                version = committed.version;
                let answered = now();
                slice.call(answered - sent);
                slice.count += 1;
                sent = answered;
            }
            Err(CommitError::Conflict { .. }) => (version, count) = read(&store).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(slice)
}

async fn read(store: &EtcdStore) -> anyhow::Result<(Version, u64)> {
    match store.get(&KEY).await? {
        Some(held) => Ok((held.version, u64::from_be_bytes(held.value.as_slice().try_into()?))),
        None => Ok((Version::ABSENT, 0)),
    }
}
