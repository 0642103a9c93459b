//! Counters of regions and series, and the restores that moved them.

use kent_ids::UnixNanos;
use kent_issue::Lapse;
use kent_regions::{Count, Pace};
use prost::Message;

use super::{Malformed, count_bytes, count_from, decode};
use crate::records;

/// A restore: what happened in between is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// From the backup to the restore.
    pub lapse: Lapse,
    /// Whether tables may have been edited meanwhile.
    pub tables_edited: bool,
}

/// The record of every restore that a store came through, oldest first.
pub fn encode_restores(restores: &[Restored]) -> Vec<u8> {
    // OK because a time is within some centuries of 1970.
    let nanos = |time: UnixNanos| i64::try_from(time.get()).unwrap_or(i64::MAX);
    let restore = |restored: &Restored| records::Restore {
        since: nanos(restored.lapse.since),
        until: nanos(restored.lapse.until),
        tables_edited: restored.tables_edited,
    };
    records::RestoresRecord { restores: restores.iter().map(restore).collect() }.encode_to_vec()
}

/// Reads [`encode_restores`]'s record.
///
/// # Errors
///
/// [`Malformed`].
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
    /// Numbers below this are issued, or in the chunk of a daemon.
    pub reserved: Count,
    /// Until when they are paid for; see [`kent_issue::pay`].
    pub paid: UnixNanos,
    /// Nothing is issued, since more may have been issued than is known, until an operator names a floor.
    pub unsure: bool,
}

impl Counter {
    /// A counter that never moved.
    pub const NEW: Self = Self { reserved: Count::ZERO, paid: UnixNanos::new(0), unsure: false };

    /// A series' counter that has no record, of which the first number is `first`. After restores it may be one that was lost: it
    /// is where that can have come to.
    #[must_use]
    pub fn of_series(first: Count, restores: &[Restored], pace: Pace, capacity: Count) -> Self {
        let new = Self { reserved: first, ..Self::NEW };
        restores.iter().fold(new, |counter, restored| counter.after(&restored.lapse, pace, capacity))
    }

    /// A new region's counter, whose numbers below `next` count as issued. If a restore may have lost edits, a lost region may have
    /// been in its place, of any size and pace: only a floor tells where it goes on.
    #[must_use]
    pub fn of_region(next: Count, restores: &[Restored]) -> Self {
        Self { reserved: next, unsure: restores.iter().any(|restored| restored.tables_edited), ..Self::NEW }
    }

    /// The counter after a restore: moved past whatever it may have issued meanwhile or, if that is more than the `capacity`,
    /// left where it is until an operator names a floor. A full one may have been expanded, also by its own policy.
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

/// A counter's record.
pub fn encode_counter(counter: &Counter) -> Vec<u8> {
    let record = records::CounterRecord {
        reserved: count_bytes(counter.reserved),
        // OK because a time is within some centuries of 1970.
        paid_until: i64::try_from(counter.paid.get()).unwrap_or(i64::MAX),
        unsure: counter.unsure,
    };
    record.encode_to_vec()
}

/// Reads [`encode_counter`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_counter(value: &[u8]) -> Result<Counter, Malformed> {
    let record: records::CounterRecord = decode(value, "a counter record")?;
    let paid = UnixNanos::new(record.paid_until.into());
    Ok(Counter { reserved: count_from(&record.reserved)?, paid, unsure: record.unsure })
}
