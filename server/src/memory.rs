//! Returns freed memory to the system.
//!
//! The allocator, mimalloc, keeps freed memory for a second. Later, it returns this memory when a thread needs a new page
//! or ends. A quiet daemon does neither, so it would keep the memory that its start has freed.

use std::{thread, time::Duration};

use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// The time from the start until memory is returned, and from then on the interval.
const FIRST: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_secs(60);

/// Returns freed memory to the system from time to time, until `stop` is canceled.
pub(crate) async fn keep_returning(stop: CancellationToken) {
    let mut ticks = time::interval_at(Instant::now() + FIRST, INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        // A thread that ends. OK because the next one follows if the system cannot start it.
        drop(thread::Builder::new().name("memory".to_owned()).spawn(|| {}));
    }
}
