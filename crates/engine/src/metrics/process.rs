//! The metrics of the process, with the standard names of Prometheus client libraries.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::Level;
use crate::host::process::ProcessUse;

/// The metrics of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessMetrics {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    open_files: Gauge,
    open_files_max: Gauge,
    started: Level,
}

impl ProcessMetrics {
    /// Creates the metrics of a process; `started` is the time of its start since 1970.
    pub(super) fn new(started: Duration) -> Self {
        let metrics = Self::default();
        metrics.started.set(started.as_secs_f64());
        metrics
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let process = registry.sub_registry_with_prefix("process");
        process.register_with_unit("cpu", "Processor time that the process has used", Unit::Seconds, self.cpu.clone());
        process.register_with_unit("resident_memory", "Memory in use", Unit::Bytes, self.resident.clone());
        process.register("open_fds", "Open file descriptors", self.open_files.clone());
        process.register("max_fds", "Maximum number of open file descriptors", self.open_files_max.clone());
        process.register_with_unit(
            "start_time",
            "Time at which the daemon started, since 1970",
            Unit::Seconds,
            self.started.clone(),
        );
    }

    /// Sets the metrics. A metric whose value cannot be read keeps its last value.
    pub(crate) fn set(&self, now: &ProcessUse) {
        self.cpu.inner().store(now.cpu.as_secs_f64().to_bits(), Relaxed);
        let gauges = [
            (&self.resident, now.resident_bytes),
            (&self.open_files, now.open_files),
            (&self.open_files_max, now.open_files_max),
        ];
        for (gauge, value) in gauges {
            if let Some(value) = value.and_then(|value| i64::try_from(value).ok()) {
                gauge.set(value);
            }
        }
    }
}
