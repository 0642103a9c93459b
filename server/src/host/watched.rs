//! A store whose slow and rejected commits the flight recorder notes.

use std::sync::Arc;

use kent_store::{
    CommitError, Committed, Key, Pages, Peers, ReadError, Servers, Stats, Store, StoreId, Txn, Versioned,
};

use super::{
    clock::Clock,
    flight::{self, Happened, Name, SLOW_COMMIT},
};

/// A store and the clock that measures its commits.
#[derive(Debug)]
pub(crate) struct Watched {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Watched {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }
}

#[tonic::async_trait]
impl Store for Watched {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.store.get(key).await
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        self.store.scan(prefix).await
    }

    async fn pages(&self, prefix: &Key) -> Result<Box<dyn Pages>, ReadError> {
        self.store.pages(prefix).await
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let (began, key) = (self.clock.steady(), txn.writes().first().map(|(key, _)| Name::from(key.as_str())));
        let answer = self.store.commit(txn).await;
        let took = self.clock.steady().saturating_sub(began);
        if took >= SLOW_COMMIT {
            flight::record(Happened::SlowCommit { key: key.unwrap_or_else(|| Name::from("")), took });
        }
        if let Err(CommitError::Conflict { key, .. }) = &answer {
            flight::record(Happened::Conflict { key: key.as_str().into() });
        }
        answer
    }

    fn peers(&self) -> Option<&dyn Peers> {
        self.store.peers()
    }

    async fn servers(&self) -> Option<Servers> {
        self.store.servers().await
    }

    fn store_id(&self) -> StoreId {
        self.store.store_id()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use kent_ids::UnixNanos;
    use kent_store::{MemoryStore, Version};

    use super::*;

    /// A clock that advances by this many milliseconds with each reading.
    #[derive(Debug)]
    struct Stepping {
        step: u64,
        now: AtomicU64,
    }

    impl Clock for Stepping {
        fn wall(&self) -> UnixNanos {
            UnixNanos::new(0)
        }

        fn steady(&self) -> Duration {
            Duration::from_millis(self.now.fetch_add(self.step, Ordering::Relaxed))
        }
    }

    fn recorded(key: &str) -> Vec<&'static str> {
        let of_key = |event: &flight::Recorded| event.happened.figures().contains(&("key", key.to_owned()));
        flight::events().0.iter().filter(|event| of_key(event)).map(|event| event.happened.kind()).collect()
    }

    #[tokio::test]
    async fn ok_slow_and_rejected_commits_are_recorded() {
        for (step, key, expected) in [
            (99, "of-a-quick-commit", ["conflict"].as_slice()),
            (100, "of-a-slow-commit", &["slow-commit", "slow-commit", "conflict"]),
        ] {
            let memory = Arc::new(MemoryStore::new(StoreId::new([0; 16])));
            let store = Watched::new(memory, Arc::new(Stepping { step, now: AtomicU64::new(0) }));
            let key = Key::new(key).expect("a key");
            let create = || Txn::new().expect(key.clone(), Version::ABSENT).put(key.clone(), b"1".to_vec());
            store.commit(create()).await.expect("committed");
            store.commit(create()).await.expect_err("it exists");
            assert_eq!(recorded(key.as_str()), expected, "{step} ms");
        }
    }
}
