//! The flight recorder: the latest notable events of this process, in memory of a fixed size.
//!
//! The recorder is global, like the log. Recording an event copies it into a ring and allocates nothing.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

use kent_ids::UnixNanos;
use tracing::error;

use super::{
    address::Address,
    clock::{Clock, SystemClock},
};

/// The number of events that are kept.
const EVENTS_MAX: usize = 4096;

/// The target of the recorder's events in the log. The log never suppresses these events as repetitions.
pub const TARGET: &str = "kentd::flight";

/// A grant that waits at least this long is notable. Strict grants always wait for a commit, but a commit takes less
/// time than this on most disks.
pub(crate) const LONG_WAIT: Duration = Duration::from_millis(10);

/// A commit that takes at least this long is notable.
pub(crate) const SLOW_COMMIT: Duration = Duration::from_millis(100);

/// The beginning of a name, in a fixed number of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl Name {
    const BYTES_MAX: usize = 47;

    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length.into()).unwrap_or_default();
        // OK because `from` cuts between characters.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut name = Self { bytes: [0; Self::BYTES_MAX], length: 0 };
        // `write_str` truncates a string that is too long.
        let _ = fmt::Write::write_str(&mut name, text);
        name
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let left = Self::BYTES_MAX.saturating_sub(start);
        let cut = text.get(..text.floor_char_boundary(left)).unwrap_or_default();
        let end = start + cut.len();
        if let Some(place) = self.bytes.get_mut(start..end) {
            place.copy_from_slice(cut.as_bytes());
            self.length = u8::try_from(end).unwrap_or(0);
        }
        Ok(())
    }
}

impl Name {
    /// Formats a value, and keeps the beginning of the result.
    pub(crate) fn of(value: &impl fmt::Display) -> Self {
        let mut name = Self::from("");
        // OK because writing to a name does not fail.
        let _ = fmt::Write::write_fmt(&mut name, format_args!("{value}"));
        name
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A notable event with its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A grant waited for the clock, a chunk, a budget or a commit.
    GrantWaited {
        /// The source.
        source: Name,
        /// The number of identifiers.
        count: u64,
        /// How long the grant waited.
        waited: Duration,
        /// Whether identifiers were granted in the end.
        granted: bool,
    },
    /// A commit was slow.
    SlowCommit {
        /// The first key that the commit writes.
        key: Name,
        /// How long the commit took.
        took: Duration,
    },
    /// A commit was rejected because a record had changed.
    Conflict {
        /// The key of the record.
        key: Name,
    },
    /// The clock went back by more than the tolerance.
    ClockBack {
        /// By how much the clock went back.
        by: Duration,
    },
    /// The clock is too far ahead to be trusted.
    ClockAhead {
        /// By how much the clock is ahead.
        by: Duration,
    },
    /// The clock is trusted again.
    ClockTrusted,
    /// A table was edited.
    Edit {
        /// The space.
        space: Name,
        /// The name of the operation.
        operation: &'static str,
        /// The region.
        region: Name,
        /// The revision of the table after the edit.
        revision: u64,
    },
    /// A connection was refused because of a limit.
    Refused {
        /// The address of the other end.
        peer: Address,
        /// The number of open connections that count towards the limit.
        connections: usize,
    },
    /// The daemon took a slot.
    SlotTaken {
        /// The number of the slot.
        slot: u8,
        /// The slot's new epoch.
        epoch: u64,
    },
    /// Another daemon has taken the slot.
    SlotLost {
        /// The number of the slot.
        slot: u8,
    },
    /// The daemon returned its slot.
    SlotReturned {
        /// The number of the slot.
        slot: u8,
    },
    /// The replica could not renew its announcement, whose lease on etcd may expire.
    OutOfTouch,
    /// The announcement of another replica is gone, because that replica stopped or the lease expired.
    ReplicaGone {
        /// The address of the replica.
        address: Name,
    },
}

impl Happened {
    /// The kind of the event.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::GrantWaited { .. } => "grant-waited",
            Self::SlowCommit { .. } => "slow-commit",
            Self::Conflict { .. } => "conflict",
            Self::ClockBack { .. } => "clock-back",
            Self::ClockAhead { .. } => "clock-ahead",
            Self::ClockTrusted => "clock-trusted",
            Self::Edit { .. } => "edit",
            Self::Refused { .. } => "refused-connection",
            Self::SlotTaken { .. } => "slot-taken",
            Self::SlotLost { .. } => "slot-lost",
            Self::SlotReturned { .. } => "slot-returned",
            Self::OutOfTouch => "out-of-touch",
            Self::ReplicaGone { .. } => "replica-gone",
        }
    }

    /// The names and values of the event's details.
    pub fn figures(&self) -> Vec<(&'static str, String)> {
        let millis = |duration: &Duration| format!("{:.3}", duration.as_secs_f64() * 1e3);
        match self {
            Self::GrantWaited { source, count, waited, granted } => vec![
                ("source", source.to_string()),
                ("count", count.to_string()),
                ("ms", millis(waited)),
                ("granted", granted.to_string()),
            ],
            Self::SlowCommit { key, took } => vec![("key", key.to_string()), ("ms", millis(took))],
            Self::Conflict { key } => vec![("key", key.to_string())],
            Self::ClockBack { by } | Self::ClockAhead { by } => vec![("ms", millis(by))],
            Self::ClockTrusted | Self::OutOfTouch => Vec::new(),
            Self::Edit { space, operation, region, revision } => vec![
                ("space", space.to_string()),
                ("operation", (*operation).to_owned()),
                ("region", region.to_string()),
                ("revision", revision.to_string()),
            ],
            Self::Refused { peer, connections } => {
                vec![("peer", peer.to_string()), ("connections", connections.to_string())]
            }
            Self::SlotTaken { slot, epoch } => vec![("slot", slot.to_string()), ("epoch", epoch.to_string())],
            Self::SlotLost { slot } | Self::SlotReturned { slot } => vec![("slot", slot.to_string())],
            Self::ReplicaGone { address } => vec![("address", address.to_string())],
        }
    }
}

/// An event and its time on the machine's wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// When it happened, by the wall clock.
    pub at: UnixNanos,
    /// What happened.
    pub happened: Happened,
}

/// The ring. The memory of the ring is allocated with the first event.
struct Ring {
    events: Vec<Recorded>,
    /// The number of events since the process started.
    total: u64,
    /// The number of events already written to the log.
    logged: u64,
}

static RING: Mutex<Ring> = Mutex::new(Ring { events: Vec::new(), total: 0, logged: 0 });

impl Ring {
    fn push(&mut self, event: Recorded) {
        if self.events.is_empty() {
            self.events.reserve_exact(EVENTS_MAX);
        }
        // OK because the remainder is below EVENTS_MAX.
        let place = usize::try_from(self.total % EVENTS_MAX as u64).unwrap_or(0);
        match self.events.get_mut(place) {
            Some(oldest) => *oldest = event,
            None => self.events.push(event),
        }
        self.total += 1; // OK because it does not overflow in the age of the universe
    }

    /// The events, oldest first.
    fn all(&self) -> impl Iterator<Item = &Recorded> {
        let is_full = self.events.len() == EVENTS_MAX;
        let oldest = if is_full { usize::try_from(self.total % EVENTS_MAX as u64).unwrap_or(0) } else { 0 };
        let (later, earlier) = self.events.split_at(oldest);
        earlier.iter().chain(later)
    }

    /// Takes the events that are not in the log yet, oldest first.
    fn take_unlogged(&mut self) -> Vec<Recorded> {
        let fresh = usize::try_from(self.total - self.logged).unwrap_or(usize::MAX).min(self.events.len());
        self.logged = self.total;
        self.all().skip(self.events.len() - fresh).copied().collect()
    }
}

/// Records an event.
pub fn record(happened: Happened) {
    let at = SystemClock::default().wall();
    ring().push(Recorded { at, happened });
}

/// Returns the events that are kept, oldest first, and the number of events since the process started.
pub fn events() -> (Vec<Recorded>, u64) {
    let ring = ring();
    (ring.all().copied().collect(), ring.total)
}

/// Writes the events that are not in the log yet, oldest first. Does nothing while another thread uses the recorder, or
/// if this thread panicked while it recorded an event.
pub(crate) fn log() {
    let events = match RING.try_lock() {
        Ok(mut ring) => ring.take_unlogged(),
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take_unlogged(),
        Err(TryLockError::WouldBlock) => return,
    };
    for Recorded { at, happened } in events {
        let figures: Vec<_> = happened.figures().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (time, figures) = (at.rfc3339(3).unwrap_or_default(), figures.join(" "));
        error!(target: TARGET, %time, kind = happened.kind(), figures, "recorded event");
    }
}

/// Adds a panic hook that writes the events to the log after the panic message.
pub fn log_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        log();
    }));
}

fn ring() -> MutexGuard<'static, Ring> {
    // OK because no code that holds the lock leaves the ring inconsistent.
    RING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(slot: u8) -> Recorded {
        Recorded { at: UnixNanos::new(0), happened: Happened::SlotLost { slot } }
    }

    fn slots(events: impl IntoIterator<Item = Recorded>) -> Vec<String> {
        events.into_iter().flat_map(|event| event.happened.figures()).map(|(_, slot)| slot).collect()
    }

    #[test]
    fn ok_the_ring_keeps_the_latest_events_in_order() {
        let mut ring = Ring { events: Vec::new(), total: 0, logged: 0 };
        (0..3).for_each(|slot| ring.push(lost(slot)));
        assert_eq!(slots(ring.all().copied()), ["0", "1", "2"]);
        (0..EVENTS_MAX).for_each(|_| ring.push(lost(7)));
        ring.push(lost(8));
        let kept = slots(ring.all().copied());
        assert_eq!((kept.len(), ring.total), (EVENTS_MAX, EVENTS_MAX as u64 + 4));
        assert_eq!((kept.first().map(String::as_str), kept.last().map(String::as_str)), (Some("7"), Some("8")));
        assert_eq!(ring.events.capacity(), EVENTS_MAX, "the memory is bounded");
    }

    #[test]
    fn ok_the_log_gets_each_event_once() {
        let mut ring = Ring { events: Vec::new(), total: 0, logged: 0 };
        (0..2).for_each(|slot| ring.push(lost(slot)));
        assert_eq!(slots(ring.take_unlogged()), ["0", "1"]);
        ring.push(lost(2));
        assert_eq!(slots(ring.take_unlogged()), ["2"]);
        assert!(ring.take_unlogged().is_empty());
    }

    #[test]
    fn ok_long_names_are_cut_between_characters() {
        for (text, expected) in [("", ""), ("orders", "orders")] {
            assert_eq!(Name::from(text).as_str(), expected);
        }
        let cut = Name::from(&*"é".repeat(40));
        assert_eq!(cut.as_str(), "é".repeat(23));
        assert_eq!(Name::of(&format_args!("{}@{}", "orders", "parts")).as_str(), "orders@parts");
    }
}
