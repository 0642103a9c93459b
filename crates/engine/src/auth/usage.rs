//! The usage that counts against each principal's limits on this replica.
//!
//! All connections of a principal share one [`Usage`]. A [`Usage`] stays in memory while a connection holds it or
//! one of its token buckets is not full, so that a caller cannot reset its limits by reconnecting.

use std::{
    collections::HashMap,
    fmt,
    num::NonZeroU64,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_access::{Bucket, Charge, LimitKind, Limits, Rate};
use kent_ids::counted;

/// The usage of all principals.
#[derive(Debug)]
pub(super) struct Usages {
    /// The limits of principals that have no limits of their own.
    defaults: Limits,
    known: Mutex<Known>,
    refusals: Arc<Refusals>,
}

/// The number of refusals for each kind of limit.
#[derive(Debug, Default)]
struct Refusals([AtomicU64; LimitKind::ALL.len()]);

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<String, Arc<Usage>>,
    /// The number of principals that triggers the next sweep. A sweep forgets idle principals.
    sweep_at: usize,
}

/// The usage of one principal.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    ids: Bucket,
    calls: Bucket,
    streams: AtomicU64,
    connections: AtomicU64,
    refusals: Arc<Refusals>,
}

/// The rates of a principal's limits, computed once for all its calls.
#[derive(Debug)]
pub(super) struct Rates {
    ids: Option<Rate>,
    calls: Option<Rate>,
}

/// Counts a stream or connection of a principal as open until this value is dropped.
#[derive(Debug)]
pub struct Open {
    usage: Arc<Usage>,
    kind: OpenKind,
}

/// What an [`Open`] counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum OpenKind {
    Stream,
    Connection,
}

/// The limit that a call, a stream or a connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    pub(crate) kind: LimitKind,
    pub(crate) limit: NonZeroU64,
    /// The time until the limit admits the call; `None` unless the limit is a rate per second.
    pub(crate) wait: Option<Duration>,
}

/// The minimum number of principals for a sweep.
const SWEEP_MIN: usize = 1024;

impl Usages {
    pub(super) fn new(defaults: Limits) -> Self {
        Self { defaults, known: Mutex::default(), refusals: Arc::default() }
    }

    /// The limits of principals that have no limits of their own.
    pub(super) fn defaults(&self) -> Limits {
        self.defaults
    }

    /// The usage of a principal, at `now` on the steady clock.
    pub(super) fn of(&self, name: &str, now: Duration) -> Arc<Usage> {
        // OK because a panic cannot leave the map partly changed.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = known.by_name.get(name) {
            return usage.clone();
        }
        if known.by_name.len() >= known.sweep_at {
            // A count of 1 cannot grow meanwhile: only this method clones what the map holds, and this method holds the
            // lock.
            known.by_name.retain(|_, usage| Arc::strong_count(usage) > 1 || !usage.is_idle(now));
            known.sweep_at = SWEEP_MIN.max(2 * known.by_name.len());
        }
        let usage = Arc::new(Usage { refusals: self.refusals.clone(), ..Usage::default() });
        known.by_name.insert(name.to_owned(), usage.clone());
        usage
    }

    /// The number of refusals for each kind of limit.
    pub(super) fn refused(&self) -> impl Iterator<Item = (LimitKind, u64)> {
        LimitKind::ALL.into_iter().map(|kind| (kind, self.refusals.0[kind as usize].load(Relaxed)))
    }
}

impl Rates {
    pub(super) fn new(limits: &Limits) -> Self {
        let rate = |kind| limits.get(kind).map(Rate::new);
        Self { ids: rate(LimitKind::Ids), calls: rate(LimitKind::Calls) }
    }

    /// The rate of a limit per second.
    #[inline]
    pub(super) fn get(&self, kind: LimitKind) -> Option<&Rate> {
        if kind == LimitKind::Ids { self.ids.as_ref() } else { self.calls.as_ref() }
    }
}

impl Usage {
    /// Counts a stream or a connection as open, if the limits allow one more.
    ///
    /// # Errors
    ///
    /// [`Limited`].
    pub(super) fn open(self: &Arc<Self>, kind: OpenKind, limits: &Limits) -> Result<Open, Limited> {
        let opened = Open { usage: self.clone(), kind };
        let before = opened.count().fetch_add(1, Relaxed);
        let kind = match kind {
            OpenKind::Stream => LimitKind::Streams,
            OpenKind::Connection => LimitKind::Connections,
        };
        match limits.get(kind) {
            // Dropping `opened` undoes the count.
            Some(limit) if before >= limit.get() => Err(self.refuse(kind, limit, None)),
            _ => Ok(opened),
        }
    }

    /// Takes `count` from the bucket of a per-second limit.
    ///
    /// # Errors
    ///
    /// [`Limited`].
    #[inline]
    pub(super) fn charge(&self, kind: LimitKind, rate: &Rate, count: u64, now: Duration) -> Result<Charge, Limited> {
        let bucket = if kind == LimitKind::Ids { &self.ids } else { &self.calls };
        bucket.charge(rate, count, now).map_err(|wait| self.refuse(kind, rate.per_second(), Some(wait)))
    }

    /// Gives back identifiers that were not granted.
    pub(super) fn refund_ids(&self, charge: Charge, now: Duration) {
        self.ids.refund(charge, now);
    }

    #[cold]
    fn refuse(&self, kind: LimitKind, limit: NonZeroU64, wait: Option<Duration>) -> Limited {
        self.refusals.0[kind as usize].fetch_add(1, Relaxed);
        Limited { kind, limit, wait }
    }

    /// Whether the principal has nothing open and its buckets are full, so that its usage can be forgotten.
    fn is_idle(&self, now: Duration) -> bool {
        let open = self.streams.load(Relaxed) + self.connections.load(Relaxed);
        open == 0 && self.ids.is_full(now) && self.calls.is_full(now)
    }
}

impl Open {
    fn count(&self) -> &AtomicU64 {
        match self.kind {
            OpenKind::Stream => &self.usage.streams,
            OpenKind::Connection => &self.usage.connections,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Relaxed);
    }
}

/// Formats the predicate of a sentence whose subject is the principal.
impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        match self.kind {
            LimitKind::Ids => write!(f, "has used its limit of {} a second", counted(limit, "identifier"))?,
            LimitKind::Calls => write!(f, "has used its limit of {} a second", counted(limit, "call"))?,
            LimitKind::Streams => {
                write!(f, "has {} open, which is its limit: close one first", counted(limit, "AllocateStream call"))?;
            }
            LimitKind::Connections => {
                write!(
                    f,
                    "has {} open, which is its limit: use these, or close one first",
                    counted(limit, "connection")
                )?;
            }
        }
        match self.wait {
            // Round up, because an earlier retry would be refused again.
            Some(wait) => write!(f, "; retry in {:.1} s", wait.as_millis().div_ceil(100) as f64 / 10.0),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    fn limits(text: &str) -> Limits {
        text.parse().expect("limits")
    }

    #[test]
    fn ok_usage_is_kept_while_it_is_held_or_a_bucket_is_not_full() {
        let usages = Usages::new(Limits::default());
        let rate = Rate::new(NonZeroU64::MIN);
        let held = usages.of("held", NOW);
        let open = usages.of("open", NOW).open(OpenKind::Stream, &Limits::default()).expect("no limit");
        for name in ["ids", "calls"] {
            let kind = if name == "ids" { LimitKind::Ids } else { LimitKind::Calls };
            assert!(usages.of(name, NOW).charge(kind, &rate, 3, NOW).is_ok());
        }
        let sweep = |now| {
            for other in 0..2 * SWEEP_MIN {
                usages.of(&format!("{now:?} {other}"), now);
            }
            let known = usages.known.lock().expect("whole");
            assert!(known.by_name.len() <= SWEEP_MIN + 4, "{}", known.by_name.len());
            ["held", "open", "ids", "calls"].map(|name| known.by_name.contains_key(name))
        };
        assert_eq!(sweep(NOW), [true; 4]);
        assert_eq!(sweep(NOW + Duration::from_millis(2_999)), [true; 4]);
        assert_eq!(sweep(NOW + Duration::from_secs(3)), [true, true, false, false]);
        drop((held, open));
        assert_eq!(sweep(NOW + Duration::from_secs(4)), [false; 4]);
    }

    #[test]
    fn ok_streams_and_connections_are_open_until_they_are_dropped() {
        let usages = Usages::new(Limits::default());
        let (usage, limits) = (usages.of("a", NOW), limits("streams=2,connections=1"));
        let streams = [(); 2].map(|()| usage.open(OpenKind::Stream, &limits).expect("allowed"));
        let connection = usage.open(OpenKind::Connection, &limits).expect("allowed");
        let limited = usage.open(OpenKind::Stream, &limits).expect_err("one more");
        assert_eq!(limited.to_string(), "has 2 AllocateStream calls open, which is its limit: close one first");
        let limited = usage.open(OpenKind::Connection, &limits).expect_err("one more");
        assert_eq!((limited.kind, limited.wait), (LimitKind::Connections, None));
        drop((streams, connection));
        assert!([(); 2].map(|()| usage.open(OpenKind::Stream, &limits)).iter().all(Result::is_ok));
        let refused: Vec<_> = usages.refused().map(|(_, count)| count).collect();
        assert_eq!(refused, [0, 0, 1, 1]);
    }
}
