//! The metrics of connections, for each port.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The metrics of one port. The metrics are created before the daemon can serve them.
#[derive(Clone, Debug, Default)]
pub struct PortMetrics {
    pub(crate) open: Gauge,
    pub(crate) refused_for_total: Counter,
    pub(crate) refused_for_address: Counter,
    pub(crate) handshakes: HandshakeCounters,
}

/// The TLS handshakes of a port, by result.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandshakeCounters {
    pub(crate) done: Counter,
    pub(crate) failed: Counter,
    pub(crate) timed_out: Counter,
}

/// The metrics of all ports.
#[derive(Clone, Debug, Default)]
pub struct PortsMetrics {
    open: Family<PortLabel, Gauge>,
    open_max: Family<PortLabel, Gauge>,
    refused: Family<RefusedLabel, Counter>,
    handshakes: Family<HandshakeLabel, Counter>,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandshakeLabel {
    port: &'static str,
    result: &'static str,
}

impl PortsMetrics {
    /// Returns the metrics of a port with a maximum of `open_max` connections.
    pub fn port(&self, port: &'static str, open_max: usize) -> PortMetrics {
        self.open_max.get_or_create(&PortLabel { port }).set(i64::try_from(open_max).unwrap_or(i64::MAX));
        let handshakes = |result| self.handshakes.get_or_create(&HandshakeLabel { port, result }).clone();
        let refused = |limit| self.refused.get_or_create(&RefusedLabel { port, limit }).clone();
        PortMetrics {
            open: self.open.get_or_create(&PortLabel { port }).clone(),
            refused_for_total: refused("total"),
            refused_for_address: refused("address"),
            handshakes: HandshakeCounters {
                done: handshakes("done"),
                failed: handshakes("failed"),
                timed_out: handshakes("timeout"),
            },
        }
    }

    /// Registers the metrics.
    pub fn register(&self, kent: &mut Registry) {
        kent.register("connections", "Open connections", self.open.clone());
        kent.register("connections_max", "Maximum number of connections from the network", self.open_max.clone());
        kent.register("tls_handshakes", "TLS handshakes", self.handshakes.clone());
        kent.register("connections_refused", "Connections beyond a limit", self.refused.clone());
    }
}
