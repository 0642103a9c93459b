//! Moves the contents of a store into another store. Some moves are interrupted and repeated.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use kent_ids::UnixNanos;
use kent_store::{MemoryStore, StoreId};
use kentd::{Environment, MigrateError, Migration, Node, clock::Clock};
use tokio::time;

use super::super::{
    link::{Backend, Link},
    run::{Run, TRIES},
};

/// The time after which the announcements of crashed daemons have expired.
const EXPIRED: Duration = Duration::from_secs(80);

/// Stops all daemons and moves the store's contents into another store. A move makes no assumption about clocks.
pub(crate) async fn migrate(run: &Arc<Run>) {
    run.crash_all().await;
    let _exclusive = run.gate.write().await;
    run.crash_all().await;
    time::sleep(EXPIRED).await;
    // The archive must end first, as operators end it with `--no-archive`.
    let old = run.backend().without_archive();
    let new = old.with_store(MemoryStore::new(StoreId::new(run.dice.bytes())));
    let Some(until) = moved(run, &old, &new).await else {
        return run.violation("a move does not finish".to_owned());
    };
    run.faults.moves.count();
    if Node::start(environment(run, &old), run.config()).await.is_ok() {
        run.violation("a daemon starts on a moved store".to_owned());
    }
    run.replace_store(new, until);
    run.start_all().await;
}

/// Repeats the move until it succeeds. Returns the time until which slots are reserved.
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
            // An interrupted attempt has already applied its last step.
            Ok(Err(MigrateError::NotEmpty { .. } | MigrateError::MovedBefore { .. })) => {
                return Node::start(environment(run, new), run.config()).await.is_ok().then_some(until);
            }
            Ok(Err(_)) | Err(_) => time::sleep(run.dice.millis(100, 2000)).await,
        }
    }
    None
}

/// Returns the environment of a daemon on a store without faults.
fn environment(run: &Run, backend: &Backend) -> Environment {
    let store = Arc::new(backend.memory.reopen());
    Environment { store, clock: run.any_machine(), entropy: Arc::new(run.dice.clone()) }
}
