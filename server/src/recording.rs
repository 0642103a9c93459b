//! Records the figures of each second: the differences of counters that grants and commits update anyway. The figures
//! of other replicas come from their announcements.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kent_engine::{
    engine::Engine,
    figures::{OtherFigures, OwnFigures, Second, SourceFigures},
    host::{latency::Observed, watched::StoreMetrics},
    metrics::SourceTotals,
};
use tokio::time;
use tokio_util::sync::CancellationToken;

/// The interval between two records.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of sources that are recorded for each second.
const SOURCES_MAX: usize = 8;

/// Records the figures of each second until `stop` is canceled.
pub(crate) async fn keep(engine: Arc<Engine>, store: StoreMetrics, stop: CancellationToken) {
    let mut ticks = time::interval(INTERVAL);
    // Without this, the first tick is immediate.
    ticks.reset();
    ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    let mut counted = Counted::read(&engine, &store);
    for number in 1.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let present = Counted::read(&engine, &store);
        engine.figures().push(present.since(&counted, number, &engine));
        counted = present;
        if let Some(cluster) = engine.cluster() {
            cluster.set_figures(engine.figures().noted());
        }
    }
}

/// The counters at one moment.
struct Counted {
    sources: HashMap<Arc<str>, SourceTotals>,
    commits: Observed,
}

impl Counted {
    fn read(engine: &Engine, store: &StoreMetrics) -> Self {
        let totals = engine.metrics().granted().into_iter();
        Self { sources: totals.map(|totals| (totals.source.clone(), totals)).collect(), commits: store.commits() }
    }

    /// Returns the figures of the time since `earlier`.
    fn since(&self, earlier: &Self, number: u64, engine: &Engine) -> Second {
        let (mut own, mut sources) = (OwnFigures::default(), Vec::new());
        for totals in self.sources.values() {
            let before = earlier.sources.get(&totals.source);
            let (grants, identifiers) = before.map_or((0, 0), |before| (before.grants, before.identifiers));
            let source = totals.source.clone();
            let (grants, identifiers) = (totals.grants - grants, totals.identifiers - identifiers);
            if grants > 0 {
                own.grants += grants;
                own.identifiers = own.identifiers.saturating_add(identifiers);
                let latency = totals.latency.since(&before.map(|before| before.latency).unwrap_or_default());
                own.latency = own.latency.plus(&latency);
                sources.push(SourceFigures { source, grants, identifiers });
            }
        }
        sources.sort_by(|a, b| (b.grants, &a.source).cmp(&(a.grants, &b.source)));
        sources.truncate(SOURCES_MAX);
        own.commits = self.commits.since(&earlier.commits);
        own.slot = engine.slots().held().map(|held| (held.slot, held.window_left));
        let others = engine.cluster().map(|cluster| cluster.others()).unwrap_or_default().into_iter();
        let others = others.map(|(name, other)| OtherFigures {
            name,
            clock_ahead_ms: i64::try_from(other.ahead_nanos() / 1_000_000).unwrap_or(i64::MAX),
            address: other.note.address,
            noted: other.note.figures,
            slot: other.note.slot,
            reserved_until: other.note.reserved_until,
        });
        let unix_seconds = i64::try_from(engine.clock().wall().get() / 1_000_000_000).unwrap_or(i64::MAX);
        Second { number, unix_seconds, own, others: others.collect(), sources }
    }
}
