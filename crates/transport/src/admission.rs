//! Limits the connections of a port: in total, and from each address.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kent_engine::host::{
    address::{Address, Host},
    flight::{self, Happened},
};
use tracing::warn;

use super::meters::{HandshakeCounters, PortMetrics};

/// The limits of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of connections, except those over Unix sockets.
    pub total: usize,
    /// The maximum number of connections from one IP address, or over Unix sockets from one user.
    pub each: usize,
}

/// Counts the connections of a port, and refuses those beyond its limits.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    metrics: PortMetrics,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The number of connections. Connections over Unix sockets are not counted, so that a flood from the network does
    /// not lock out the users of this machine.
    total: usize,
    /// The number of connections from each host.
    hosts: HashMap<Host, usize>,
}

/// A connection's permit, which is released when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    admission: Admission,
    host: Host,
}

impl Admission {
    /// Creates the limits of a port, without connections.
    pub fn new(limits: Limits, metrics: PortMetrics) -> Self {
        Self(Arc::new(Inner { limits, metrics, open: Mutex::default() }))
    }

    /// The counters of the port's TLS handshakes.
    pub(super) fn handshakes(&self) -> &HandshakeCounters {
        &self.0.metrics.handshakes
    }

    /// Creates an admission without limits.
    pub(crate) fn unlimited() -> Self {
        Self::new(Limits { total: usize::MAX, each: usize::MAX }, PortMetrics::default())
    }

    /// Takes a permit for a connection from this address, if the limits allow one more.
    pub(crate) fn admit(&self, address: &Address) -> Option<Seat> {
        let Inner { limits, metrics, .. } = &*self.0;
        let (host, mut open) = (address.host(), self.open());
        let (total, own) = (open.total, open.hosts.get(&host).copied().unwrap_or(0));
        let is_counted = matches!(host, Host::Ip(_));
        if own >= limits.each {
            metrics.refused_for_address.inc();
            drop(open);
            flight::record(Happened::Refused { peer: *address, connections: own });
            warn!(peer = %address, connections = own, "refused a connection: its address has too many (connections-per-address)");
            return None;
        }
        if is_counted && total >= limits.total {
            metrics.refused_for_total.inc();
            drop(open);
            flight::record(Happened::Refused { peer: *address, connections: total });
            warn!(peer = %address, connections = total, "refused a connection: the port has too many (connections)");
            return None;
        }
        *open.hosts.entry(host).or_default() += 1; // OK because it is below the limit
        open.total += usize::from(is_counted);
        metrics.open.inc();
        Some(Seat { admission: self.clone(), host })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // OK because no code that holds the lock leaves the state inconsistent.
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.admission.open();
        if let Entry::Occupied(mut own) = open.hosts.entry(self.host) {
            *own.get_mut() -= 1; // OK because this connection is counted
            if *own.get() == 0 {
                own.remove();
            }
        }
        open.total -= usize::from(matches!(self.host, Host::Ip(_))); // OK because this connection is counted
        self.admission.0.metrics.open.dec();
    }
}

#[cfg(test)]
mod tests {
    use kent_engine::host::address::Process;

    use super::*;

    fn tcp(ip: &str, port: u16) -> Address {
        Address::Tcp((ip.parse::<std::net::IpAddr>().expect("an address"), port).into())
    }

    fn unix(uid: u32) -> Address {
        Address::Unix(Process { pid: None, uid, gid: 0 })
    }

    #[test]
    fn ok_and_err_places_are_limited_in_total_and_for_each_address() {
        let metrics = PortMetrics::default();
        let admission = Admission::new(Limits { total: 3, each: 2 }, metrics.clone());
        let first = admission.admit(&tcp("10.0.0.1", 1)).expect("free");
        let mapped = admission.admit(&tcp("::ffff:10.0.0.1", 2)).expect("free");
        assert!(admission.admit(&tcp("10.0.0.1", 3)).is_none());
        let other = admission.admit(&tcp("10.0.0.2", 1)).expect("free");
        assert!(admission.admit(&tcp("10.0.0.3", 1)).is_none());
        assert_eq!((metrics.refused_for_address.get(), metrics.refused_for_total.get()), (1, 1));
        // Connections over Unix sockets have a separate limit, which connections from the network do not use up.
        let local = [admission.admit(&unix(7)), admission.admit(&unix(7))];
        assert!(local.iter().all(Option::is_some) && admission.admit(&unix(7)).is_none());
        assert_eq!(metrics.open.get(), 5);
        drop(first);
        assert!(admission.admit(&tcp("10.0.0.3", 1)).is_some());
        drop((mapped, other, local));
        assert_eq!(metrics.open.get(), 0);
        assert!(admission.open().hosts.is_empty());
    }
}
