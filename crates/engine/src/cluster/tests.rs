//! Each watch of the store is followed independently.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use kent_store::{Change, MemoryStore, StoreId, Version, Watch};
use tokio::task;
use tokio_util::sync::CancellationToken;
use tonic::async_trait;

use super::Watches;
use crate::{
    engine::{Engine, EngineSettings, Place},
    host::{Environment, clock::SystemClock, entropy::SystemEntropy, tasks::Tasks},
};

/// A watch that returns a change after every `times` polls, and counts the changes.
struct Polled {
    times: u32,
    returned: Arc<AtomicU32>,
}

#[async_trait]
impl Watch for Polled {
    async fn next(&mut self) -> Change {
        for _ in 0..self.times {
            task::yield_now().await;
        }
        self.returned.fetch_add(1, Ordering::Relaxed);
        Change::Missed
    }

    fn continues(&self, _: Version) -> bool {
        false
    }
}

#[tokio::test]
async fn ok_a_reconnecting_watch_is_not_interrupted_by_the_others() {
    let environment = Environment {
        store: Arc::new(MemoryStore::new(StoreId::new([3; 16]))),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
    };
    let place = Place { kind: "memory", location: String::new(), address: String::new(), directories: Vec::new() };
    let tasks = Tasks::on_this_runtime();
    let engine = Engine::load(environment, EngineSettings::for_tests(), place, &tasks).await.expect("it starts");
    let cluster = engine.cluster().expect("replicas share the store").clone();

    let [spaces, access, counters, turns, layouts, present] = [(); 6].map(|()| Arc::<AtomicU32>::default());
    let watch = |times, returned: &Arc<AtomicU32>| Box::new(Polled { times, returned: returned.clone() });
    // Reconnecting takes longer than the intervals between the other watches' changes.
    let watches = Watches {
        spaces: watch(50, &spaces),
        access: watch(1, &access),
        counters: watch(1, &counters),
        turns: watch(1, &turns),
        layouts: watch(1, &layouts),
        present: watch(1, &present),
    };
    let stop = CancellationToken::new();
    let following = tasks.spawn_work(cluster.follow(watches, stop.clone()));
    for _ in 0..10_000 {
        task::yield_now().await;
    }
    stop.cancel();
    following.await.expect("it ends");
    let changes =
        [&spaces, &access, &counters, &turns, &layouts, &present].map(|returned| returned.load(Ordering::Relaxed));
    assert!(!changes.contains(&0), "each watch returns changes: {changes:?}");
    tasks.stop().await;
}
