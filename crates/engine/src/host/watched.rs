//! A store that measures its operations, and records slow and rejected commits in the flight recorder.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use kent_store::{
    CommitError, Committed, Images, Key, Pages, Peers, ReadError, Servers, Stats, Store, StoreId, Txn, Versioned,
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::{Registry, Unit},
};

use super::{
    call,
    clock::Clock,
    flight::{self, Happened, Name, SLOW_COMMIT},
    latency::{Latency, Observed},
};

/// The kind of operation that makes data durable.
const COMMIT: &str = "commit";

/// A store whose operations are timed with a clock.
#[derive(Debug)]
pub struct Watched {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    read: Work,
    scan: Work,
    commit: Work,
}

/// The metrics of all operations of a store. The metrics are created before the daemon can serve them.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    duration: Family<WorkLabel, StoreLatency>,
    failures: Family<WorkLabel, Counter>,
}

/// The durations of one kind of operation, in buckets with bounds from 16 microseconds to 67 seconds.
type StoreLatency = Latency<STORE_LATENCY_FIRST>;

/// The first bound of the durations of store operations, in microseconds.
pub(crate) const STORE_LATENCY_FIRST: u64 = 16;

/// The label that names a kind of operation.
type WorkLabel = [(&'static str, &'static str); 1];

/// The metrics of one kind of operation.
#[derive(Debug)]
struct Work {
    /// The name of these operations in traces.
    name: &'static str,
    duration: StoreLatency,
    failures: Counter,
}

impl Watched {
    /// Watches a store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, metrics: &StoreMetrics) -> Self {
        let works = [("read", "store read"), ("scan", "store scan"), (COMMIT, "store commit")];
        let [read, scan, commit] = works.map(|(work, name)| metrics.work(work, name));
        Self { store, clock, read, scan, commit }
    }

    /// Measures an operation. Returns the operation's answer and duration.
    async fn measured<T, E: fmt::Display>(
        &self,
        work: &Work,
        operation: impl Future<Output = Result<T, E>>,
        has_failed: impl FnOnce(&E) -> bool,
    ) -> (Result<T, E>, Duration) {
        let mut part = call::trace().map(|trace| trace.part(work.name));
        let began = self.clock.steady();
        let answer = operation.await;
        let took = self.clock.steady().saturating_sub(began);
        work.duration.observe(took);
        if let (Some(part), Err(error)) = (&mut part, &answer) {
            part.fail(&error.to_string());
        }
        if answer.as_ref().is_err_and(has_failed) {
            work.failures.inc();
        }
        (answer, took)
    }
}

impl StoreMetrics {
    /// The durations of all commits.
    pub fn commits(&self) -> Observed {
        self.duration.get_or_create(&[("work", COMMIT)]).observed()
    }

    fn work(&self, work: &'static str, name: &'static str) -> Work {
        let label = [("work", work)];
        Work {
            name,
            duration: self.duration.get_or_create(&label).clone(),
            failures: self.failures.get_or_create(&label).clone(),
        }
    }

    /// Registers the metrics.
    pub fn register(&self, kent: &mut Registry) {
        kent.register_with_unit(
            "store_duration",
            "Duration of store operations, including those that failed",
            Unit::Seconds,
            self.duration.clone(),
        );
        kent.register("store_failures", "Store operations that failed, except conflicts", self.failures.clone());
    }
}

#[tonic::async_trait]
impl Store for Watched {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.measured(&self.read, self.store.get(key), |_| true).await.0
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        self.measured(&self.scan, self.store.scan(prefix), |_| true).await.0
    }

    async fn pages(&self, prefix: &Key) -> Result<Box<dyn Pages>, ReadError> {
        self.store.pages(prefix).await
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let key = txn.writes().first().map(|(key, _)| Name::from(key.as_str()));
        let has_failed = |error: &CommitError| !matches!(error, CommitError::Conflict { .. });
        let (answer, took) = self.measured(&self.commit, self.store.commit(txn), has_failed).await;
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

    fn images(&self) -> Option<Arc<dyn Images>> {
        self.store.images()
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use kent_ids::UnixNanos;
    use kent_store::{MemoryStore, Version};

    use super::*;

    /// A clock that advances by a fixed number of milliseconds with each reading.
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
            let (clock, metrics) = (Stepping { step, now: AtomicU64::new(0) }, StoreMetrics::default());
            let store = Watched::new(memory, Arc::new(clock), &metrics);
            let key = Key::new(key).expect("a key");
            let create = || Txn::new().expect(key.clone(), Version::ABSENT).put(key.clone(), b"1".to_vec());
            store.commit(create()).await.expect("committed");
            store.commit(create()).await.expect_err("it exists");
            assert_eq!(recorded(key.as_str()), expected, "{step} ms");
        }
    }
}
