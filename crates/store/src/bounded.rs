//! Timeouts for a store, so that callers do not hang when the store hangs.
//!
//! A read that times out fails with `Unavailable`. A commit that times out fails with `Unknown`, because it may still
//! take effect.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time;

use crate::{
    CommitError, Committed, Images, Key, Page, Pages, Peers, ReadError, Servers, Stats, Store, StoreId, Txn,
    Unavailable, Unknown, Versioned,
};

/// A store with a timeout for each operation.
#[derive(Debug)]
pub struct Bounded {
    store: Arc<dyn Store>,
    limit: Duration,
}

impl Bounded {
    /// Adds a timeout of `limit` to `get`, `commit` and `close`, and to each page. A `scan` has no timeout, because its
    /// duration depends on the number of records.
    pub fn new(store: Arc<dyn Store>, limit: Duration) -> Self {
        Self { store, limit }
    }
}

#[async_trait]
impl Store for Bounded {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        let answer = time::timeout(self.limit, self.store.get(key)).await;
        answer.unwrap_or_else(|_| Err(Unavailable::backend(late(self.limit)).into()))
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        self.store.scan(prefix).await
    }

    async fn pages(&self, prefix: &Key) -> Result<Box<dyn Pages>, ReadError> {
        let pages = self.store.pages(prefix).await?;
        Ok(Box::new(BoundedPages { pages, limit: self.limit }))
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let answer = time::timeout(self.limit, self.store.commit(txn)).await;
        answer.unwrap_or_else(|_| Err(Unknown::new(late(self.limit)).into()))
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
        // OK because the process then ends, which releases all resources of the store.
        let _ = time::timeout(self.limit, self.store.close()).await;
    }
}

/// Pages with a timeout for each.
struct BoundedPages {
    pages: Box<dyn Pages>,
    limit: Duration,
}

#[async_trait]
impl Pages for BoundedPages {
    async fn next(&mut self) -> Result<Option<Page>, ReadError> {
        let answer = time::timeout(self.limit, self.pages.next()).await;
        answer.unwrap_or_else(|_| Err(Unavailable::backend(late(self.limit)).into()))
    }
}

fn late(limit: Duration) -> String {
    format!("no reply within {limit:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, MemoryStore, Version};

    const KEY: Key = Key::from_static("a");

    #[tokio::test(start_paused = true)]
    async fn a_commit_that_hangs_is_unknown_and_the_next_one_succeeds() {
        let memory = MemoryStore::new(StoreId::new([0; 16]));
        memory.inject(Fault::DelayBefore(Box::pin(std::future::pending())));
        let store = Bounded::new(Arc::new(memory), Duration::from_secs(10));
        let create = || Txn::new().expect(KEY, Version::ABSENT).put(KEY, b"1".to_vec());
        assert!(matches!(store.commit(create()).await, Err(CommitError::Unknown(_))));
        store.commit(create()).await.expect("the store works again");
        assert!(store.get(&KEY).await.expect("readable").is_some());
    }
}
