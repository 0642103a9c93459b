//! The daemon's metrics, for Prometheus.
//!
//! The counters of a source are looked up once and then kept, so that a grant costs a few atomic additions and no map
//! lookup. `docs/metrics.md` lists all metrics; a test compares it with the metrics of a real daemon.

mod budgets;
mod disks;
mod process;
mod regions;
mod text;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_access::LimitKind;
use kent_ids::Source;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::{Registry, Unit},
};

pub use self::text::Exposition;
use self::{budgets::BudgetMetrics, disks::DiskMetrics, process::ProcessMetrics, regions::RegionMetrics};
use crate::{
    audit::AuditCounts,
    host::latency::{Latency, Observed},
};

/// A gauge that may be a fraction.
type Level = Gauge<f64, AtomicU64>;

/// The empty label set of a family with at most one metric.
type NoLabel = [(&'static str, &'static str); 0];

/// All metrics of one daemon.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    grants: Family<SourceLabel, Counter>,
    identifiers: Family<SourceLabel, Counter>,
    errors: Family<ErrorLabel, Counter>,
    latency: Family<SourceLabel, GrantLatency>,
    edits: Family<EditLabel, Counter>,
    waits: Family<ReasonLabel, Counter>,
    gauges: Gauges,
    totals: Totals,
    disks: DiskMetrics,
    process: ProcessMetrics,
    regions: RegionMetrics,
    budgets: BudgetMetrics,
    sources: Mutex<HashMap<Arc<str>, Arc<SourceMetrics>>>,
}

/// The counters of one source.
#[derive(Debug)]
pub struct SourceMetrics {
    grants: Counter,
    identifiers: Counter,
    latency: GrantLatency,
}

/// A histogram of grant latencies, with bucket bounds from 1 microsecond to 4 seconds.
type GrantLatency = Latency<GRANT_LATENCY_FIRST>;

/// The first bucket bound of the grant latencies, in microseconds.
pub(crate) const GRANT_LATENCY_FIRST: u64 = 1;

/// What a source has granted since the daemon started.
#[derive(Clone, Debug)]
pub struct SourceTotals {
    /// The source.
    pub source: Arc<str>,
    /// The number of grants.
    pub grants: u64,
    /// The number of identifiers.
    pub identifiers: u64,
    /// The times that grants took.
    pub latency: Observed,
}

/// The gauges, which are set when the metrics are rendered.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// The time for which time-based identifiers can be issued without the store, in seconds.
    pub(crate) window_left: Level,
    /// The time of the last refresh of all tables, in seconds since 1970; absent if the store is not shared.
    store_last_reached: Family<NoLabel, Level>,
    /// The slot that the daemon holds, or -1.
    pub(crate) slot: Gauge,
    /// The fencing token of the slot, or 0.
    pub(crate) slot_epoch: Gauge,
    pub(crate) clock_quarantined: Gauge,
    /// The number of identifiers left in each chunk that the daemon holds.
    chunk_left: Family<SourceLabel, Level>,
    /// 1 if the daemon can grant from every source, otherwise 0.
    pub(crate) ready: Gauge,
    /// The number of open `AllocateStream` calls.
    pub(crate) streams: Gauge,
    /// The number of open `WatchTable`, `WatchLayouts` and `WatchConsole` calls.
    pub(crate) watchers: Gauge,
}

/// Counters that other parts of the daemon keep, copied when the metrics are rendered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    clock_steps: Counter,
    chunk_reservations: Family<ReasonLabel, Counter>,
    limited: Family<LimitLabel, Counter>,
    denied: Family<ReasonLabel, Counter>,
    audit_lines: Counter,
    audit_lost: Counter,
    store_commits: Counter,
    store_conflicts: Counter,
    store_flushes: Counter,
    store_flush_seconds: Counter<f64, AtomicU64>,
    store_checkpoints: Counter,
}

/// The label that names a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
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

/// The label that names a kind of limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// The maximum number of sources with separate counters. The other sources share one set of counters, so that a million
/// regions do not create a million time series.
const SOURCES_MAX: usize = 1000;

/// The label of sources without separate counters.
const OTHER: &str = "other";

impl Metrics {
    /// Creates metrics that are all zero. `started` is the start of the daemon, as a time since 1970.
    pub(crate) fn new(started: Duration) -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            grants: Family::default(),
            identifiers: Family::default(),
            errors: Family::default(),
            latency: Family::default(),
            edits: Family::default(),
            waits: Family::default(),
            gauges: Gauges::default(),
            totals: Totals::default(),
            disks: DiskMetrics::default(),
            process: ProcessMetrics::new(started),
            regions: RegionMetrics::default(),
            budgets: BudgetMetrics::default(),
            sources: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.process.register(&mut registry);
        let kent = registry.sub_registry_with_prefix("kent");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        kent.register("build", "Version of the daemon's software", version);
        kent.register("grants", "Blocks granted", self.grants.clone());
        kent.register("identifiers", "Identifiers granted", self.identifiers.clone());
        kent.register("errors", "Requests for identifiers that failed", self.errors.clone());
        let seconds = || Unit::Seconds;
        kent.register_with_unit("grant_latency", "Time from request to grant", seconds(), self.latency.clone());
        kent.register("edits", "Edits of prefix tables", self.edits.clone());
        let (gauges, totals) = (&self.gauges, &self.totals);
        kent.register_with_unit(
            "window_left",
            "How long time-based identifiers can be issued without the store",
            seconds(),
            gauges.window_left.clone(),
        );
        kent.register_with_unit(
            "store_last_reached_timestamp",
            "Time at which a shared store was last reached, since 1970",
            seconds(),
            gauges.store_last_reached.clone(),
        );
        kent.register("slot", "Slot that the daemon holds, or -1", gauges.slot.clone());
        kent.register("clock_steps", "Clock steps beyond the tolerance", totals.clock_steps.clone());
        kent.register(
            "clock_quarantined",
            "1 while the wall clock is further ahead than the daemon accepts",
            gauges.clock_quarantined.clone(),
        );
        kent.register(
            "chunk_left",
            "Identifiers left in the daemon's chunk of a region or series",
            gauges.chunk_left.clone(),
        );
        kent.register("store_commits", "Durable commits", totals.store_commits.clone());
        kent.register(
            "store_conflicts",
            "Commits rejected because of a conflicting change",
            totals.store_conflicts.clone(),
        );
        kent.register("store_flushes", "Flushes of the store; commits share them", totals.store_flushes.clone());
        kent.register_with_unit(
            "store_flush",
            "Total time of the flushes of the embedded store",
            seconds(),
            totals.store_flush_seconds.clone(),
        );
        kent.register(
            "store_checkpoints",
            "Times that the embedded store wrote its full write-ahead log to the database",
            totals.store_checkpoints.clone(),
        );
        kent.register("ready", "1 if the daemon can grant from every source", gauges.ready.clone());
        kent.register("streams", "Open AllocateStream calls", gauges.streams.clone());
        kent.register("limited", "Calls refused because of a limit of their caller", totals.limited.clone());
        kent.register("grant_waits", "Requests for identifiers that had to wait", self.waits.clone());
        kent.register(
            "chunk_reservations",
            "Chunks reserved in the store, for regions and series",
            totals.chunk_reservations.clone(),
        );
        kent.register("slot_epoch", "Fencing token of the slot, or 0", gauges.slot_epoch.clone());
        kent.register("watchers", "Open WatchTable, WatchLayouts and WatchConsole calls", gauges.watchers.clone());
        kent.register(
            "denied",
            "Calls refused because of their credentials, permissions or limits",
            totals.denied.clone(),
        );
        kent.register("audit_lines", "Lines written to the audit log", totals.audit_lines.clone());
        kent.register("audit_lost", "Lines that the audit log lost", totals.audit_lost.clone());
        self.disks.register(kent);
        self.regions.register(kent);
        self.budgets.register(kent);
    }

    /// Returns the counters of a source, which must exist.
    pub fn source(&self, source: &str) -> Arc<SourceMetrics> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sources.get(source) {
            return known.clone();
        }
        let is_counted = sources.len() < SOURCES_MAX;
        let label = if is_counted { SourceLabel::of_text(source) } else { SourceLabel { source: OTHER.to_owned() } };
        let made = Arc::new(SourceMetrics {
            grants: self.grants.get_or_create(&label).clone(),
            identifiers: self.identifiers.get_or_create(&label).clone(),
            latency: self.latency.get_or_create(&label).clone(),
        });
        if is_counted {
            sources.insert(source.into(), made.clone());
        }
        made
    }

    /// Returns what each source has granted. The last entry counts the sources without separate counters, if there are
    /// any.
    pub fn granted(&self) -> Vec<SourceTotals> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals: Vec<_> = sources.iter().map(|(source, counts)| counts.totals(source.clone())).collect();
        drop(sources);
        let other = SourceLabel { source: OTHER.to_owned() };
        if let (Some(grants), Some(identifiers), Some(latency)) =
            (self.grants.get(&other), self.identifiers.get(&other), self.latency.get(&other))
        {
            let (grants, identifiers, latency) = (grants.clone(), identifiers.clone(), latency.clone());
            totals.push(SourceMetrics { grants, identifiers, latency }.totals(OTHER.into()));
        }
        totals
    }

    /// Counts a failed request by its gRPC code. Sources that never granted anything share a label, so that invented
    /// names do not create time series.
    pub fn refused(&self, source: &str, code: &'static str) {
        let known = self.sources.lock().unwrap_or_else(PoisonError::into_inner).contains_key(source);
        let source = if known { SourceLabel::of_text(source).source } else { OTHER.to_owned() };
        self.errors.get_or_create(&ErrorLabel { source, code }).inc();
    }

    /// Counts a request that has to wait, and for what.
    pub fn waited(&self, reason: &'static str) {
        self.waits.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts an edit.
    pub fn edited(&self, operation: &'static str, outcome: &'static str) {
        self.edits.get_or_create(&EditLabel { operation, outcome }).inc();
    }

    /// The gauges, to be set before the metrics are rendered.
    pub fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// The counters of other parts of the daemon, to be set before the metrics are rendered.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The metrics of the disks, to be set before the metrics are rendered.
    pub(crate) fn disks(&self) -> &DiskMetrics {
        &self.disks
    }

    /// The metrics of the process, to be set before the metrics are rendered.
    pub(crate) fn process(&self) -> &ProcessMetrics {
        &self.process
    }

    /// The metrics of regions, to be set before the metrics are rendered.
    pub(crate) fn regions(&self) -> &RegionMetrics {
        &self.regions
    }

    /// The metrics of budgets, to be set before the metrics are rendered.
    pub(crate) fn budgets(&self) -> &BudgetMetrics {
        &self.budgets
    }

    /// Registers the metrics of parts of the daemon that are created before the `Metrics`.
    pub fn add(&self, register: impl FnOnce(&mut Registry)) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        register(registry.sub_registry_with_prefix("kent"));
    }

    /// Renders all metrics in a text format.
    pub(crate) fn render(&self, exposition: Exposition) -> String {
        exposition.render(&self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SourceMetrics {
    fn totals(&self, source: Arc<str>) -> SourceTotals {
        let (grants, identifiers) = (self.grants.get(), self.identifiers.get());
        SourceTotals { source, grants, identifiers, latency: self.latency.observed() }
    }

    /// Counts a grant of `count` identifiers.
    pub fn granted(&self, count: u64, took: Duration) {
        self.grants.inc();
        self.identifiers.inc_by(count);
        self.latency.observe(took);
    }
}

impl SourceLabel {
    fn of(source: &Source) -> Self {
        Self { source: source.to_string() }
    }

    /// The label of a source that a caller named: all spellings of one source have the same label.
    fn of_text(source: &str) -> Self {
        source.parse().map_or_else(|_| Self { source: source.to_owned() }, |source| Self::of(&source))
    }
}

impl Gauges {
    /// Counts an `AllocateStream` call until the guard is dropped; returns `None` if `max` calls are already open.
    pub fn open_stream(&self, max: usize) -> Option<StreamGuard> {
        let open = self.streams.inc();
        let guard = StreamGuard { streams: self.streams.clone() };
        usize::try_from(open).is_ok_and(|open| open < max).then_some(guard)
    }

    /// Sets the number of identifiers left in each chunk, and removes the metrics of chunks that the daemon no longer
    /// holds.
    pub(crate) fn set_chunks<'c>(&self, chunks: impl Iterator<Item = (&'c Source, u128)>) {
        self.chunk_left.clear();
        for (source, left) in chunks {
            self.chunk_left.get_or_create(&SourceLabel::of(source)).set(left as f64);
        }
    }

    /// Sets the time since 1970 at which a shared store was last reached.
    pub(crate) fn set_store_last_reached(&self, at: Option<Duration>) {
        self.store_last_reached.clear();
        if let Some(at) = at {
            self.store_last_reached.get_or_create(&[]).set(at.as_secs_f64());
        }
    }
}

impl Totals {
    /// Sets the number of clock steps.
    pub(crate) fn set_clock_steps(&self, steps: u64) {
        self.clock_steps.inner().store(steps, Relaxed);
    }

    /// Sets how many calls the limits of each kind have refused.
    pub(crate) fn set_limited(&self, refused: impl Iterator<Item = (LimitKind, u64)>) {
        for (kind, count) in refused {
            self.limited.get_or_create(&LimitLabel { limit: kind.name() }).inner().store(count, Relaxed);
        }
    }

    /// Sets how often callers were denied for each reason.
    pub(crate) fn set_denied(&self, denials: impl Iterator<Item = (&'static str, u64)>) {
        set_by_reason(&self.denied, denials);
    }

    /// Sets how often chunks were reserved for each reason.
    pub(crate) fn set_chunk_reservations(&self, reservations: impl Iterator<Item = (&'static str, u64)>) {
        set_by_reason(&self.chunk_reservations, reservations);
    }

    /// Sets the counters of the audit log.
    pub(crate) fn set_audit(&self, counts: AuditCounts) {
        self.audit_lines.inner().store(counts.written, Relaxed);
        self.audit_lost.inner().store(counts.lost, Relaxed);
    }

    /// Sets the counters of the store.
    pub(crate) fn set_store(&self, stats: kent_store::Stats) {
        self.store_commits.inner().store(stats.commits, Relaxed);
        self.store_conflicts.inner().store(stats.conflicts, Relaxed);
        self.store_flushes.inner().store(stats.flushes, Relaxed);
        self.store_flush_seconds.inner().store(stats.flush_time.as_secs_f64().to_bits(), Relaxed);
        self.store_checkpoints.inner().store(stats.checkpoints, Relaxed);
    }
}

fn set_by_reason(family: &Family<ReasonLabel, Counter>, counts: impl Iterator<Item = (&'static str, u64)>) {
    for (reason, count) in counts {
        family.get_or_create(&ReasonLabel { reason }).inner().store(count, Relaxed);
    }
}

/// An open `AllocateStream` call.
#[derive(Debug)]
pub struct StreamGuard {
    streams: Gauge,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.streams.dec();
    }
}
