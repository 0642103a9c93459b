//! The metrics of the regions that a setting selects: how full each is, and when it will be full.

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::{Level, SourceLabel};
use crate::fill::{Fill, Selected};

/// The metrics of regions.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegionMetrics {
    capacity: Family<SourceLabel, Level>,
    issued: Family<SourceLabel, Level>,
    reserved: Family<SourceLabel, Level>,
    full_in: Family<SourceLabel, Level>,
    omitted: Gauge,
}

impl RegionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("region_capacity", "Identifiers that the region may issue in total", self.capacity.clone());
        registry.register("region_issued", "Identifiers issued, or reserved by other replicas", self.issued.clone());
        registry.register("region_reserved", "Identifiers issued, or reserved by any replica", self.reserved.clone());
        registry.register_with_unit(
            "region_full_in",
            "Time until the region is full at this daemon's recent rate; absent if it grants nothing",
            Unit::Seconds,
            self.full_in.clone(),
        );
        registry.register(
            "region_metrics_omitted",
            "Regions that match --metrics-regions but are beyond the maximum number",
            self.omitted.clone(),
        );
    }

    /// Sets the metrics of the selected regions, and removes those of all others.
    pub(crate) fn set(&self, selected: &Selected) {
        for family in [&self.capacity, &self.issued, &self.reserved, &self.full_in] {
            family.clear();
        }
        for Fill { source, capacity, issued, reserved, full_in, .. } in &selected.regions {
            let label = SourceLabel::of(source);
            for (family, count) in [(&self.capacity, capacity), (&self.issued, issued), (&self.reserved, reserved)] {
                family.get_or_create(&label).set(count.to_f64());
            }
            if let Some(seconds) = full_in {
                self.full_in.get_or_create(&label).set(*seconds);
            }
        }
        self.omitted.set(i64::try_from(selected.omitted).unwrap_or(i64::MAX));
    }
}
