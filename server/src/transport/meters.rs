//! The metrics of connections, for each port.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The metrics of one port. The port counts before the daemon can serve metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortMetrics {
    pub(crate) open: Gauge,
    pub(crate) refused_for_total: Counter,
    pub(crate) refused_for_address: Counter,
}

/// The metrics of all ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortsMetrics {
    open: Family<PortLabel, Gauge>,
    refused: Family<RefusedLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PortLabel {
    port: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabel {
    port: &'static str,
    limit: &'static str,
}

impl PortsMetrics {
    /// The metrics of a port.
    pub(crate) fn port(&self, port: &'static str) -> PortMetrics {
        let refused = |limit| self.refused.get_or_create(&RefusedLabel { port, limit }).clone();
        PortMetrics {
            open: self.open.get_or_create(&PortLabel { port }).clone(),
            refused_for_total: refused("total"),
            refused_for_address: refused("address"),
        }
    }

    pub(crate) fn register(&self, kent: &mut Registry) {
        kent.register("connections", "Open connections", self.open.clone());
        kent.register("connections_refused", "Connections beyond a limit", self.refused.clone());
    }
}
