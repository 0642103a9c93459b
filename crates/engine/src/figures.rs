//! The daemon's metrics for every second of the last fifteen minutes, called figures, for consoles that show live
//! charts.
//!
//! The figures are kept in memory only. The module `recording` adds each second.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_ids::Slot;
use kent_proto::note::NoteFigures;
use tokio::sync::watch;

use crate::{host::latency::Observed, metrics::GRANT_LATENCY_FIRST};

/// The number of seconds that are kept: fifteen minutes. With eight sources and a few replicas, the figures need about
/// a megabyte.
const KEPT: usize = 900;
/// The number of seconds that an announcement sums up. A replica announces itself every five seconds.
const NOTED: usize = 5;

/// The figures of the last fifteen minutes.
#[derive(Debug)]
pub struct Figures {
    ring: Mutex<VecDeque<Arc<Second>>>,
    /// The number of the newest second.
    newest: watch::Sender<u64>,
}

/// The figures of one second.
#[derive(Debug)]
pub struct Second {
    /// The number of the second since the daemon started, from 1.
    pub number: u64,
    /// The end of the second, in seconds since 1970.
    pub unix_seconds: i64,
    /// This daemon's figures.
    pub own: OwnFigures,
    /// The other replicas' figures.
    pub others: Vec<OtherFigures>,
    /// The sources with the most grants, the busiest first.
    pub sources: Vec<SourceFigures>,
}

/// The figures of this daemon.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnFigures {
    /// The number of grants.
    pub grants: u64,
    /// The number of identifiers.
    pub identifiers: u64,
    /// The latencies of the grants.
    pub latency: Observed,
    /// The durations of the commits.
    pub commits: Observed,
    /// The slot, and the time for which it can issue identifiers without the store.
    pub slot: Option<(Slot, Duration)>,
}

/// The figures of another replica, from its latest announcement.
#[derive(Clone, Debug)]
pub struct OtherFigures {
    /// The name of the replica.
    pub name: String,
    /// The address at which clients reach the replica.
    pub address: String,
    /// The figures that the replica announced, if it has.
    pub noted: Option<NoteFigures>,
    /// The slot that the replica holds.
    pub slot: Option<Slot>,
    /// The end of its reservation of the slot, in seconds since 1970.
    pub reserved_until: i64,
    /// The lead of its clock over ours, in milliseconds.
    pub clock_ahead_ms: i64,
}

/// What one source granted in a second.
#[derive(Clone, Debug)]
pub struct SourceFigures {
    /// The source.
    pub source: Arc<str>,
    /// The number of grants.
    pub grants: u64,
    /// The number of identifiers.
    pub identifiers: u64,
}

impl Default for Figures {
    fn default() -> Self {
        Self { ring: Mutex::default(), newest: watch::Sender::new(0) }
    }
}

impl Figures {
    /// Subscribes to the number of the newest second.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Returns up to `most` of the kept seconds after the second `number`, oldest first.
    pub fn after(&self, number: u64, most: usize) -> Vec<Arc<Second>> {
        let ring = self.lock();
        let from = ring.partition_point(|second| second.number <= number);
        ring.range(from..).take(most).cloned().collect()
    }

    /// Returns the number of the newest kept second that ended at `unix_seconds` or before, or 0 if there is none.
    pub fn number_at(&self, unix_seconds: i64) -> u64 {
        // Numbers ascend, but after a clock step the ends of the seconds do not.
        self.lock().iter().rev().find(|second| second.unix_seconds <= unix_seconds).map_or(0, |second| second.number)
    }

    /// Adds a second, and removes the oldest one if the ring is full.
    pub fn push(&self, second: Second) {
        let number = second.number;
        let mut ring = self.lock();
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(Arc::new(second));
        drop(ring);
        self.newest.send_replace(number);
    }

    /// Sums up the last `NOTED` seconds, for the announcement to the other replicas.
    pub fn noted(&self) -> NoteFigures {
        let ring = self.lock();
        let last = || ring.iter().rev().take(NOTED).map(|second| &second.own);
        let observed =
            |of: fn(&OwnFigures) -> &Observed| last().fold(Observed::default(), |sum, own| sum.plus(of(own)));
        let sums = OwnFigures {
            latency: observed(|own| &own.latency),
            commits: observed(|own| &own.commits),
            ..OwnFigures::default()
        };
        NoteFigures {
            seconds: u32::try_from(last().count()).unwrap_or(u32::MAX),
            grants: last().map(|own| own.grants).sum(),
            identifiers: last().fold(0, |sum, own| sum.saturating_add(own.identifiers)),
            p50_micros: sums.grant_micros(0.5).map(whole),
            p99_micros: sums.grant_micros(0.99).map(whole),
            store_micros: sums.store_micros().map(whole),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Second>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole(micros: f64) -> u64 {
    micros.round() as u64 // OK because a cast of a float saturates
}

impl OwnFigures {
    /// Returns the quantile `share` of the grants' latencies, in microseconds, or `None` without grants.
    pub fn grant_micros(&self, share: f64) -> Option<f64> {
        self.latency.quantile(share, GRANT_LATENCY_FIRST)
    }

    /// Returns the mean duration of a commit, in microseconds, or `None` without commits.
    pub fn store_micros(&self) -> Option<f64> {
        self.commits.mean().map(|mean| mean.as_secs_f64() * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Second {
        let own = OwnFigures { grants: number, identifiers: 2 * number, ..OwnFigures::default() };
        Second { number, unix_seconds: 1000 + number.cast_signed(), own, others: Vec::new(), sources: Vec::new() }
    }

    #[test]
    fn ok_the_ring_keeps_the_last_fifteen_minutes() {
        let figures = Figures::default();
        let numbers = |after, most| -> Vec<u64> { figures.after(after, most).iter().map(|it| it.number).collect() };
        assert!(numbers(0, 10).is_empty());
        (1..=1000).for_each(|number| figures.push(second(number)));
        assert_eq!(numbers(0, 2000), (101..=1000).collect::<Vec<_>>());
        assert_eq!(numbers(997, 2), [998, 999]);
        assert!(numbers(1000, 2).is_empty());
        assert_eq!(*figures.newest().borrow(), 1000);
        let ends = [0, 1100, 1101, 1999, 2000, 5000];
        assert_eq!(ends.map(|unix_seconds| figures.number_at(unix_seconds)), [0, 0, 101, 999, 1000, 1000]);
        figures.push(Second { unix_seconds: 1500, ..second(1001) });
        assert_eq!(figures.number_at(1500), 1001, "the clock was set back");
    }

    #[test]
    fn ok_a_note_sums_up_the_last_seconds() {
        let figures = Figures::default();
        assert_eq!(figures.noted().seconds, 0);
        (1..=7).for_each(|number| figures.push(second(number)));
        let noted = figures.noted();
        assert_eq!((noted.seconds, noted.grants, noted.identifiers), (5, 25, 50));
        assert_eq!((noted.p50_micros, noted.store_micros), (None, None));
    }
}
