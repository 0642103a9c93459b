//! Moves of a store into another one, broken off and made again.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use kent_ids::UnixNanos;
use kent_store::{MemoryStore, StoreId};
use kentd::{Environment, MigrateError, Migration, Node, clock::Clock};
use tokio::time;

use super::super::{
    actors::TRIES,
    link::{Backend, Link},
    run::Run,
};

/// What a daemon announced is forgotten by then.
const FORGOTTEN: Duration = Duration::from_secs(80);

/// All daemons end, and the store is moved into another one. That asks nothing of the clocks.
pub(crate) async fn migrate(run: &Arc<Run>) {
    run.crash_all().await;
    let _alone = run.gate.write().await;
    run.crash_all().await;
    time::sleep(FORGOTTEN).await;
    // An archive has to end first, as `--no-archive` does it.
    let old = run.backend().without_archive();
    let new = old.with_store(MemoryStore::new(StoreId::new(run.dice.bytes())));
    let Some(until) = moved(run, &old, &new).await else {
        return run.violation("a move does not come to an end".to_owned());
    };
    run.faults.moves.count();
    if Node::start(environment(run, &old), run.config()).await.is_ok() {
        run.violation("a daemon starts on a store that was moved".to_owned());
    }
    run.replace_store(new, until);
    run.start_all().await;
}

/// Moves, as often as it takes, and says until when slots are reserved.
async fn moved(run: &Run, old: &Backend, new: &Backend) -> Option<UnixNanos> {
    let (host, mut until) = (run.any_machine(), UnixNanos::new(0));
    for _ in 0..TRIES {
        let link = |of: &Backend| Arc::new(Link::new(of.clone(), Arc::new(AtomicBool::new(false))));
        let limit = if run.dice.per_mille(300) { run.dice.millis(1, 300) } else { Duration::from_secs(1000) };
        let moving = async {
            let entropy = Arc::new(run.dice.clone());
            let plan = Migration::plan_between(link(old), link(new), "new".to_owned(), host.wall(), entropy).await?;
            until = until.max(plan.restore.reserved_until.nanos());
            plan.make(|_, _| {}).await
        };
        match time::timeout(limit, moving).await {
            Ok(Ok(())) => return Some(until),
            // The last step of an attempt that was broken off came through all the same.
            Ok(Err(MigrateError::NotEmpty { .. } | MigrateError::MovedBefore { .. })) => {
                return Node::start(environment(run, new), run.config()).await.is_ok().then_some(until);
            }
            Ok(Err(_)) | Err(_) => time::sleep(run.dice.millis(100, 2000)).await,
        }
    }
    None
}

/// A daemon's, on a store without faults.
fn environment(run: &Run, backend: &Backend) -> Environment {
    let store = Arc::new(backend.memory.reopen());
    Environment { store, clock: run.any_machine(), entropy: Arc::new(run.dice.clone()) }
}
