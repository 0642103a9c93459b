//! Retention of records: request IDs of grants and edits, and the edits of a table.
//!
//! A durable *floor* is raised before records below it are removed. So a request ID without a record is new if it is
//! above the floor, and may have been forgotten if it is below. This rule does not depend on any clock.

use core::time::Duration;

use kent_ids::{UnixNanos, Uuid, dce, grouped};
use thiserror::Error;

/// A request ID that contains its creation time: a UUID of version 7, in any spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatedRequest(Uuid);

impl DatedRequest {
    /// Parses a request ID. Returns `None` if it is not a UUID of version 7.
    pub fn parse(request_id: &str) -> Option<Self> {
        Uuid::try_parse(request_id).ok().filter(|uuid| dce::version(*uuid) == Some(7)).map(Self)
    }

    /// Returns the creation time, by the clock of the creator: the first 48 bits are milliseconds since 1970.
    pub const fn time(self) -> UnixNanos {
        UnixNanos::new((self.0.as_u128() >> 80) as i128 * NANOS_PER_MILLI) // OK because 48 bits are left
    }

    /// Returns the bits of the UUID. Later request IDs have greater bits.
    pub const fn bits(self) -> u128 {
        self.0.as_u128()
    }
}

/// The maximum time by which a dated request ID may be ahead of the clock. The clock of its creator may be wrong, or
/// set to the wrong time zone.
pub const REQUEST_AHEAD_MAX: Duration = Duration::from_secs(86_400);

/// The retention of request IDs, and the limit on their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// The time for which a dated request ID is kept.
    pub retention: Duration,
    /// The maximum number of undated request IDs per region and, for edits, per space. They are kept permanently.
    pub undated_max: u64,
}

impl Default for RequestPolicy {
    /// Returns the default policy: a retention of 30 days, and a maximum of ten million undated request IDs.
    fn default() -> Self {
        Self { retention: Duration::from_secs(30 * 86_400), undated_max: 10_000_000 }
    }
}

/// An error from checking a new request ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum RequestRefusal {
    /// The request ID is older than the retention, so its grant may have been forgotten.
    #[error(
        "request_id was made at {}, but request_ids from before {} are forgotten (kentd --request-retention), so it may have been \
         used already: make a new one (kent alloc uuidv7)",
        time.rfc3339(0).unwrap_or_default(),
        oldest.rfc3339(0).unwrap_or_default()
    )]
    TooOld {
        /// The creation time.
        time: UnixNanos,
        /// Request IDs made before this time are forgotten.
        oldest: UnixNanos,
    },
    /// The request ID's creation time is too far in the future, so it would be kept too long.
    #[error(
        "request_id was made at {}, more than a day ahead of the clock ({}): make it with a correct clock",
        time.rfc3339(0).unwrap_or_default(),
        now.rfc3339(0).unwrap_or_default()
    )]
    TooNew {
        /// The creation time.
        time: UnixNanos,
        /// The current time.
        now: UnixNanos,
    },
    /// The maximum number of undated request IDs is reached.
    #[error(
        "{} request_ids without a time are stored, the maximum (kentd --requests-max): use UUIDs of version 7, which expire \
         (kent alloc uuidv7)",
        grouped(max)
    )]
    TooMany {
        /// The maximum number.
        max: u64,
    },
}

impl RequestPolicy {
    /// Checks whether a dated request ID without a record may be used, given the floor and the time (`None` if no
    /// time is known). The commit must compare the floor's version.
    ///
    /// # Errors
    ///
    /// Fails with a [`RequestRefusal`] if the request ID must not be used.
    pub fn check_dated(
        &self,
        request: DatedRequest,
        floor: UnixNanos,
        now: Option<UnixNanos>,
    ) -> Result<(), RequestRefusal> {
        let time = request.time();
        // A request ID whose retention has already passed would be forgotten immediately.
        let oldest = now.map_or(floor, |now| floor.max(self.due(now)));
        match now {
            _ if time < oldest => Err(RequestRefusal::TooOld { time, oldest }),
            Some(now) if time > now.offset(nanos(REQUEST_AHEAD_MAX)) => Err(RequestRefusal::TooNew { time, now }),
            _ => Ok(()),
        }
    }

    /// Checks whether one more undated request ID can be stored, if `kept` are stored already. The commit must increase
    /// their number.
    ///
    /// # Errors
    ///
    /// Fails with a [`RequestRefusal`] if the request ID must not be used.
    pub const fn check_undated(&self, kept: u64) -> Result<(), RequestRefusal> {
        if kept < self.undated_max { Ok(()) } else { Err(RequestRefusal::TooMany { max: self.undated_max }) }
    }

    /// Returns the floor that must be durable before the oldest dated request ID is removed. Returns `None` if that
    /// request ID is still kept, if the floor is high enough, or if no time is known (`now` is `None`).
    pub fn raised(&self, floor: UnixNanos, oldest: DatedRequest, now: Option<UnixNanos>) -> Option<UnixNanos> {
        let due = self.due(now?);
        (oldest.time() < due && floor < due).then_some(due)
    }

    /// Returns the time before which request IDs are no longer kept.
    fn due(&self, now: UnixNanos) -> UnixNanos {
        now.offset(-nanos(self.retention))
    }
}

/// The forgotten edits of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// The edits up to this revision are forgotten; 0 if no edit is forgotten. The table can be shown at this revision
    /// and later ones.
    pub through: u64,
    /// The number of revisions above `through` that no edit made, because a restore or a migration skipped them.
    pub passed_over: u64,
}

impl Forgotten {
    /// Returns the number of edits beyond `kept_max` that a table at revision `present` keeps.
    pub const fn excess(&self, present: u64, kept_max: u64) -> u64 {
        present.saturating_sub(self.through).saturating_sub(self.passed_over).saturating_sub(kept_max)
    }

    /// Forgets the next edit, which made `revision` from the revision `follows`. The default of `follows` is the
    /// revision just before `revision`.
    #[must_use]
    pub const fn and(self, revision: u64, follows: Option<u64>) -> Self {
        let before = match follows {
            Some(follows) => follows,
            None => revision.saturating_sub(1),
        };
        let gap = revision.saturating_sub(before).saturating_sub(1);
        Self { through: revision, passed_over: self.passed_over.saturating_sub(gap) }
    }
}

const NANOS_PER_MILLI: i128 = 1_000_000;

/// Returns the duration in nanoseconds. The result is less than 2^94.
fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const NOW: i128 = 1_800_000_000;
    const DAY: i128 = 86_400;

    fn seconds(seconds: i128) -> UnixNanos {
        UnixNanos::new(seconds * 1_000_000_000)
    }

    /// Returns a request ID made `after` seconds after `NOW`.
    fn made(after: i128) -> DatedRequest {
        let millis = (NOW + after) * 1000;
        let digits = format!("{millis:012x}");
        DatedRequest::parse(&format!("{}-{}-7000-8000-000000000001", &digits[..8], &digits[8..])).expect("a UUIDv7")
    }

    #[test]
    fn ok_a_dated_request_id_is_a_uuid_of_version_7_in_any_spelling() {
        let request = DatedRequest::parse("017f22e2-79b0-7cc3-98c4-dc0c0c07398f").expect("the example of RFC 9562");
        assert_eq!(request.time().rfc3339(3).as_deref(), Some("2022-02-22T19:22:22.000Z"));
        assert_eq!(request.bits(), 0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f);
        for same in ["017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "017f22e279b07cc398c4dc0c0c07398f"] {
            assert_eq!(DatedRequest::parse(same), Some(request));
        }
        for other in [
            "",
            "order-17",
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        ] {
            assert_eq!(DatedRequest::parse(other), None, "{other}");
        }
    }

    /// Each row has the times of the request ID, the floor and the clock in seconds from `NOW`, and the expected
    /// result.
    #[test]
    fn ok_and_err_dated_request_ids() {
        let policy = RequestPolicy::default();
        for (time, floor, now, expected) in [
            (0, -40 * DAY, Some(0), "ok"),
            (-30 * DAY, -40 * DAY, Some(0), "ok"),
            (-30 * DAY - 1, -40 * DAY, Some(0), "old"),
            (DAY, -40 * DAY, Some(0), "ok"),
            (DAY + 1, -40 * DAY, Some(0), "new"),
            // Below the floor, all request IDs are forgotten, even if the clock was set back.
            (-1, 0, Some(-100 * DAY), "old"),
            (-1, 0, None, "old"),
            (0, 0, None, "ok"),
            // Without a clock, no request ID is too new.
            (1000 * DAY, 0, None, "ok"),
        ] {
            let now = now.map(|now| seconds(NOW + now));
            let found = match policy.check_dated(made(time), seconds(NOW + floor), now) {
                Ok(()) => "ok",
                Err(RequestRefusal::TooOld { .. }) => "old",
                Err(RequestRefusal::TooNew { .. }) => "new",
                Err(RequestRefusal::TooMany { .. }) => "many",
            };
            assert_eq!(found, expected, "{time} {floor} {now:?}");
        }
    }

    #[test]
    fn ok_request_ids_below_the_raised_floor_are_rejected() {
        let policy = RequestPolicy::default();
        let raised = |floor: i128, oldest: i128, now: Option<i128>| {
            let now = now.map(|now| seconds(NOW + now));
            policy.raised(seconds(NOW + floor), made(oldest), now).map(|raised| raised.get() / 1_000_000_000 - NOW)
        };
        assert_eq!(raised(-50 * DAY, -31 * DAY, Some(0)), Some(-30 * DAY));
        assert_eq!(raised(-50 * DAY, -30 * DAY, Some(0)), None, "the oldest request ID is still kept");
        assert_eq!(raised(-20 * DAY, -31 * DAY, Some(0)), None, "the floor is already higher");
        assert_eq!(raised(-30 * DAY, -31 * DAY, Some(0)), None, "the floor is already that high");
        assert_eq!(raised(-50 * DAY, -31 * DAY, None), None, "the time is not known");
        assert_eq!(raised(0, -200 * DAY, Some(-100 * DAY)), None, "a floor never goes back");
        let floor = seconds(NOW - 30 * DAY);
        assert!(policy.check_dated(made(-31 * DAY), floor, None).is_err());
    }

    #[test]
    fn err_more_undated_request_ids_than_are_kept() {
        let policy = RequestPolicy { undated_max: 2, ..RequestPolicy::default() };
        assert_eq!([0, 1, 2, 3].map(|kept| policy.check_undated(kept).is_ok()), [true, true, false, false]);
    }

    #[test]
    fn ok_edits_are_counted_across_a_restore() {
        let none = Forgotten::default();
        assert_eq!([none.excess(99, 100), none.excess(100, 100), none.excess(107, 100)], [0, 0, 7]);
        // Edits 1 to 5, then a restore that continues at revision 1005, then edit 1006.
        let restored = Forgotten { through: 0, passed_over: 999 };
        assert_eq!(restored.excess(1006, 4), 3);
        let forgotten = (1..=5).fold(restored, |forgotten, revision| forgotten.and(revision, None));
        assert_eq!(forgotten, Forgotten { through: 5, passed_over: 999 });
        assert_eq!(forgotten.excess(1006, 0), 2);
        let forgotten = forgotten.and(1005, Some(5));
        assert_eq!(forgotten, Forgotten { through: 1005, passed_over: 0 });
        assert_eq!(forgotten.excess(1006, 0), 1);
    }
}
