//! Records of counters, and of the restores that moved them.

use kent_ids::UnixNanos;
use kent_issue::Lapse;
use kent_regions::{Count, Pace};
use prost::Message;

use super::{Malformed, count_bytes, count_from, decode};
use crate::records;

/// A restore from a backup. Nothing is known about the time between the backup and the restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The time from the backup to the restore.
    pub lapse: Lapse,
    /// Whether tables may have been edited in that time.
    pub tables_edited: bool,
}

/// Encodes the record of all restores of a store, oldest first.
pub fn encode_restores(restores: &[Restored]) -> Vec<u8> {
    // OK because every time is within a few centuries of 1970.
    let nanos = |time: UnixNanos| i64::try_from(time.get()).unwrap_or(i64::MAX);
    let restore = |restored: &Restored| records::Restore {
        since: nanos(restored.lapse.since),
        until: nanos(restored.lapse.until),
        tables_edited: restored.tables_edited,
    };
    records::RestoresRecord { restores: restores.iter().map(restore).collect() }.encode_to_vec()
}

/// Decodes a record written by [`encode_restores`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_restores(value: &[u8]) -> Result<Vec<Restored>, Malformed> {
    let record: records::RestoresRecord = decode(value, "the record of restores")?;
    let restore = |restore: records::Restore| Restored {
        lapse: Lapse { since: UnixNanos::new(restore.since.into()), until: UnixNanos::new(restore.until.into()) },
        tables_edited: restore.tables_edited,
    };
    Ok(record.restores.into_iter().map(restore).collect())
}

/// The counter of a region or series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// All numbers below this value are issued, or in a chunk that a daemon holds.
    pub reserved: Count,
    /// The time until which the counter is paid: see [`kent_issue::pay`].
    pub paid: UnixNanos,
    /// Whether numbers from `reserved` on may have been issued. The counter issues nothing until an operator sets a
    /// floor.
    pub unsure: bool,
}

impl Counter {
    /// A counter from which nothing was reserved.
    pub const NEW: Self = Self { reserved: Count::ZERO, paid: UnixNanos::new(0), unsure: false };

    /// Returns the counter of a series that has no record and starts at `first`. A restore may have lost the record, so
    /// the counter skips everything that may have been issued.
    #[must_use]
    pub fn of_series(first: Count, restores: &[Restored], pace: Pace, capacity: Count) -> Self {
        let new = Self { reserved: first, ..Self::NEW };
        restores.iter().fold(new, |counter, restored| counter.after(&restored.lapse, pace, capacity))
    }

    /// Returns the counter of a new region in which all numbers below `next` count as issued. If a restore may have
    /// lost edits, the region may take the place of a lost region of any size and pace, so the counter needs a floor.
    #[must_use]
    pub fn of_region(next: Count, restores: &[Restored]) -> Self {
        Self { reserved: next, unsure: restores.iter().any(|restored| restored.tables_edited), ..Self::NEW }
    }

    /// Returns the counter after a restore. The counter moves past all numbers that may have been issued since the
    /// backup. If the counter would reach the `capacity`, it stays where it is and becomes unsure, because the region
    /// may have been expanded, even by its own policy.
    #[must_use]
    pub fn after(&self, lapse: &Lapse, pace: Pace, capacity: Count) -> Self {
        let (skipped, paid) = lapse.skip(pace, self.paid);
        let moved = self.reserved.checked_add(skipped).filter(|reserved| *reserved < capacity && !self.unsure);
        match moved {
            Some(reserved) => Self { reserved, paid, unsure: false },
            None => Self { paid, unsure: true, ..*self },
        }
    }
}

/// Encodes the record of a counter.
pub fn encode_counter(counter: &Counter) -> Vec<u8> {
    let record = records::CounterRecord {
        reserved: count_bytes(counter.reserved),
        // OK because every time is within a few centuries of 1970.
        paid_until: i64::try_from(counter.paid.get()).unwrap_or(i64::MAX),
        unsure: counter.unsure,
    };
    record.encode_to_vec()
}

/// Decodes a record written by [`encode_counter`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_counter(value: &[u8]) -> Result<Counter, Malformed> {
    let record: records::CounterRecord = decode(value, "a counter record")?;
    let paid = UnixNanos::new(record.paid_until.into());
    Ok(Counter { reserved: count_from(&record.reserved)?, paid, unsure: record.unsure })
}
