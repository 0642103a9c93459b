//! The daemon's metrics, for Prometheus.
//!
//! The counters of a source are looked up once and then kept, so that a grant costs a few atomic additions and no map lookup.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use kent_ids::Source;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

/// All metrics of one daemon.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    grants: Family<SourceLabel, Counter>,
    identifiers: Family<SourceLabel, Counter>,
    errors: Family<ErrorLabel, Counter>,
    latency: Family<SourceLabel, Histogram, fn() -> Histogram>,
    edits: Family<EditLabel, Counter>,
    gauges: Gauges,
    sources: Mutex<HashMap<String, Arc<SourceMetrics>>>,
}

/// The counters of one source.
#[derive(Debug)]
pub(crate) struct SourceMetrics {
    grants: Counter,
    identifiers: Counter,
    latency: Histogram,
}

/// The gauges, which are set when the metrics are rendered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    /// The time for which time-based identifiers can be issued without the store, in seconds.
    pub(crate) window_left_seconds: Gauge<f64, AtomicU64>,
    /// The time since the last refresh of all tables, in seconds.
    pub(crate) store_reached_ago_seconds: Gauge<f64, AtomicU64>,
    /// The slot that the daemon holds, or -1.
    pub(crate) slot: Gauge,
    /// The number of clock steps beyond the tolerance.
    pub(crate) clock_steps: Gauge,
    pub(crate) clock_quarantined: Gauge,
    /// The number of identifiers left in each chunk that the daemon holds.
    pub(crate) chunk_left: Family<SourceLabel, Gauge<f64, AtomicU64>>,
    /// The number of durable commits.
    pub(crate) store_commits: Gauge,
    /// The number of commits that failed on a version conflict.
    pub(crate) store_conflicts: Gauge,
    /// The number of flushes; commits share them.
    pub(crate) store_flushes: Gauge,
    /// 1 if the daemon can grant from every source.
    pub(crate) ready: Gauge,
    /// The number of open `AllocateStream` calls.
    pub(crate) streams: Gauge,
}

/// The label that names a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SourceLabel {
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabel {
    source: String,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EditLabel {
    operation: &'static str,
    outcome: &'static str,
}

/// The maximum number of sources with counters of their own; the others share one set, so that a million regions do not make a
/// million time series.
const SOURCES_MAX: usize = 1000;

/// The label of sources without counters of their own.
const OTHER: &str = "other";

impl Metrics {
    /// Creates metrics that are all zero.
    pub(crate) fn new() -> Self {
        let latency: Family<SourceLabel, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(latency_histogram);
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("kent")),
            grants: Family::default(),
            identifiers: Family::default(),
            errors: Family::default(),
            latency,
            edits: Family::default(),
            gauges: Gauges::default(),
            sources: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register("grants", "Blocks granted", self.grants.clone());
        registry.register("identifiers", "Identifiers granted", self.identifiers.clone());
        registry.register("errors", "Requests for identifiers that failed", self.errors.clone());
        let seconds = Unit::Seconds;
        registry.register_with_unit("grant_latency", "Time from request to grant", seconds, self.latency.clone());
        registry.register("edits", "Edits of prefix tables", self.edits.clone());
        let gauges = &self.gauges;
        registry.register(
            "window_left_seconds",
            "How long time-based identifiers can be issued without the store",
            gauges.window_left_seconds.clone(),
        );
        let reached = gauges.store_reached_ago_seconds.clone();
        registry.register("store_reached_ago_seconds", "Time since a shared store was last reached", reached);
        registry.register("slot", "Slot that the daemon holds, or -1", gauges.slot.clone());
        registry.register("clock_steps", "Clock steps beyond the tolerance", gauges.clock_steps.clone());
        registry.register(
            "clock_quarantined",
            "1 while the wall clock is further ahead than the daemon accepts",
            gauges.clock_quarantined.clone(),
        );
        registry.register(
            "chunk_left",
            "Identifiers left in the daemon's chunk of a region or series",
            gauges.chunk_left.clone(),
        );
        registry.register("store_commits", "Durable commits since the start", gauges.store_commits.clone());
        registry.register("store_conflicts", "Conflicting commits since the start", gauges.store_conflicts.clone());
        registry.register("store_flushes", "Flushes since the start", gauges.store_flushes.clone());
        registry.register("ready", "1 if the daemon can grant from every source", gauges.ready.clone());
        registry.register("streams", "Open AllocateStream calls", gauges.streams.clone());
    }

    /// The counters of a source that exists.
    pub(crate) fn source(&self, source: &str) -> Arc<SourceMetrics> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sources.get(source) {
            return known.clone();
        }
        let name = if sources.len() < SOURCES_MAX { source } else { OTHER };
        let label = SourceLabel { source: name.to_owned() };
        let made = Arc::new(SourceMetrics {
            grants: self.grants.get_or_create(&label).clone(),
            identifiers: self.identifiers.get_or_create(&label).clone(),
            latency: self.latency.get_or_create(&label).clone(),
        });
        if name == source {
            sources.insert(source.to_owned(), made.clone());
        }
        made
    }

    /// Counts a failed request by its gRPC code. Sources that never granted anything share a label, so that invented names do not
    /// make time series.
    pub(crate) fn refused(&self, source: &str, code: &'static str) {
        let known = self.sources.lock().unwrap_or_else(PoisonError::into_inner).contains_key(source);
        let source = if known { source } else { OTHER }.to_owned();
        self.errors.get_or_create(&ErrorLabel { source, code }).inc();
    }

    /// Counts an edit.
    pub(crate) fn edited(&self, operation: &'static str, outcome: &'static str) {
        self.edits.get_or_create(&EditLabel { operation, outcome }).inc();
    }

    /// The gauges, to be set before the metrics are rendered.
    pub(crate) fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// All metrics in the OpenMetrics text format.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // OK because writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl SourceMetrics {
    /// Counts a grant of `count` identifiers.
    pub(crate) fn granted(&self, count: u64, took: Duration) {
        self.grants.inc();
        self.identifiers.inc_by(count);
        self.latency.observe(took.as_secs_f64());
    }
}

impl Gauges {
    /// Counts an `AllocateStream` call until the guard is dropped; returns `None` if there are `max` already.
    pub(crate) fn open_stream(&self, max: usize) -> Option<StreamGuard> {
        let open = self.streams.inc();
        let guard = StreamGuard { streams: self.streams.clone() };
        usize::try_from(open).is_ok_and(|open| open < max).then_some(guard)
    }

    /// Sets the rest of each chunk, and removes chunks that are gone.
    pub(crate) fn set_chunks<'c>(&self, chunks: impl Iterator<Item = (&'c Source, u128)>) {
        self.chunk_left.clear();
        for (source, left) in chunks {
            let label = SourceLabel { source: source.to_string() };
            self.chunk_left.get_or_create(&label).set(left as f64);
        }
    }
}

/// An open `AllocateStream` call.
#[derive(Debug)]
pub(crate) struct StreamGuard {
    streams: Gauge,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.streams.dec();
    }
}

/// Buckets from 1 microsecond to 4 seconds, each four times the one before.
fn latency_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 4.0, 12))
}
