//! Slots: numbered durable records through which daemons issue time-based identifiers.
//!
//! A slot's record states the whole second up to which its ticks are reserved. Every commit moves `reserved_until` from
//! r to r', and the ticks of (r, r'] belong only to the daemon that made this commit. Two daemons can therefore never
//! issue the same tick of the same slot: if a second daemon takes over the slot, its commit starts above the first
//! daemon's `reserved_until`, and the first daemon's next commit fails on a version mismatch. This guarantee needs no
//! clock, lease or timeout.

use core::{fmt, str::FromStr};

use kent_ids::{ClockSeq, Node, Slot, SlotEpoch, UnixNanos, UnixSeconds};
use thiserror::Error;

use crate::Stored;

/// The identity of one run of one daemon: 16 random bytes, generated when the run starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId([u8; 16]);

impl HolderId {
    /// Creates the holder ID with these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

/// An error from parsing a [`HolderId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a holder ID has exactly 32 hexadecimal digits")]
pub struct BadHolder;

impl FromStr for HolderId {
    type Err = BadHolder;

    fn from_str(text: &str) -> Result<Self, BadHolder> {
        // `from_str_radix` alone would accept a sign.
        let is_hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex).ok_or(BadHolder)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HolderId({self})")
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The durable record of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotRecord {
    /// The node field of UUID versions 1 and 6. It is generated once; its last six bits are the slot's number.
    pub node: Node,
    /// The clock sequence, which is incremented whenever the slot gets another holder. DCE 1.1 requires this after a
    /// loss of state and after a step back of the clock.
    pub clock_seq: ClockSeq,
    /// The epoch, which is the fencing token of every block. It grows whenever the slot gets another holder.
    pub epoch: SlotEpoch,
    /// The daemon run that holds the slot.
    pub holder: HolderId,
    /// All ticks up to and including the tick that begins at this second are reserved.
    pub reserved_until: UnixSeconds,
    /// The time of the holder's clock when the holder wrote the record. A daemon that starts later compares its clock
    /// with this time. This time does not affect which ticks may be issued.
    pub seen: UnixSeconds,
}

impl SlotRecord {
    /// Returns the record of a slot that no daemon has held, with its ticks reserved through `until`. Its node field and
    /// clock sequence are made from `random`. `nobody` is a holder ID that belongs to no daemon.
    pub fn unheld(slot: Slot, until: UnixSeconds, nobody: HolderId, random: u64) -> Self {
        Self {
            node: Node::for_slot(random, slot),
            clock_seq: ClockSeq::from_random(random >> 48),
            epoch: SlotEpoch::new(0),
            holder: nobody,
            reserved_until: until,
            seen: until,
        }
    }

    /// Returns the latest time in the record.
    pub fn latest(&self) -> UnixSeconds {
        self.reserved_until.max(self.seen)
    }
}

/// A write to a slot's record. The commit must compare the version that was read.
#[must_use = "a slot's record must be committed before anything is issued from it"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotPlan {
    slot: Slot,
    guard: u64,
    record: SlotRecord,
    /// The second up to which ticks belong to an earlier commit; `None` if the slot was never used.
    start: Option<UnixSeconds>,
}

impl SlotPlan {
    /// Returns a plan that takes the slot for `holder` and reserves its ticks up to `until`. Without a record, the slot
    /// is new. A new slot's node field and clock sequence are made from `random`.
    pub(crate) fn take(
        slot: Slot,
        read: Option<Stored<SlotRecord>>,
        holder: HolderId,
        seen: UnixSeconds,
        until: UnixSeconds,
        random: u64,
    ) -> Self {
        match read {
            None => {
                let new = SlotRecord::unheld(slot, until, holder, random);
                Self { slot, guard: 0, record: SlotRecord { epoch: SlotEpoch::new(1), seen, ..new }, start: None }
            }
            Some(Stored { version, value }) => {
                let record = SlotRecord {
                    clock_seq: value.clock_seq.next(),
                    epoch: value.epoch.next(),
                    holder,
                    reserved_until: until.max(value.reserved_until),
                    seen,
                    ..value
                };
                Self { slot, guard: version, record, start: Some(value.reserved_until) }
            }
        }
    }

    /// Returns a plan that rewrites the record of a slot that this daemon holds, with another `reserved_until`.
    pub(crate) fn rewrite(
        slot: Slot,
        held: Stored<SlotRecord>,
        seen: UnixSeconds,
        reserved_until: UnixSeconds,
    ) -> Self {
        let record = SlotRecord { reserved_until, seen, ..held.value };
        Self { slot, guard: held.version, record, start: Some(held.value.reserved_until) }
    }

    /// Returns a plan that reserves the slot's ticks through `until`, so that no daemon issues them, or `None` if they are
    /// reserved already and `fences` is false. The plan also fences the daemon that holds the slot: it cannot extend its
    /// window, and has to take a slot again. A new slot's record is made from `nobody` and `random`: see
    /// [`SlotRecord::unheld`].
    pub fn reserve(
        slot: Slot,
        read: Option<Stored<SlotRecord>>,
        until: UnixSeconds,
        fences: bool,
        (nobody, random): (HolderId, u64),
    ) -> Option<Self> {
        match read {
            Some(stored) if stored.value.reserved_until >= until && !fences => None,
            Some(stored) => {
                Some(Self::rewrite(slot, stored, stored.value.seen, until.max(stored.value.reserved_until)))
            }
            None => {
                let record = SlotRecord::unheld(slot, until, nobody, random);
                Some(Self { slot, guard: 0, record, start: None })
            }
        }
    }

    /// Returns the slot.
    pub const fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns the version that the record must have when the plan is committed; 0 if the record must not exist.
    pub const fn guard(&self) -> u64 {
        self.guard
    }

    /// Returns the record to write.
    pub const fn record(&self) -> &SlotRecord {
        &self.record
    }

    /// Returns the second up to which ticks belong to an earlier commit, or `None` if the slot was never used.
    pub(crate) const fn start(&self) -> Option<UnixSeconds> {
        self.start
    }
}

/// The error when every slot is reserved beyond the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all {} slots are reserved; the first reservation ends at {}", Slot::COUNT, earliest.nanos().rfc3339(0).unwrap_or_default())]
pub struct AllSlotsReserved {
    /// The end of the reservation that ends first.
    pub earliest: UnixSeconds,
}

/// Chooses the slot to take at `now`, in this order of preference: the lowest slot whose reservation has passed and
/// whose holder is not alive, the lowest new slot, and last the lowest slot whose reservation has passed. `records` are
/// the slots that have a record, and `alive` are the holders known to be alive. Safety does not depend on `alive`: a
/// live daemon whose slot is taken only has to take another slot.
///
/// # Errors
///
/// Fails with [`AllSlotsReserved`] if every slot is reserved at `now`.
pub fn choose_slot(
    records: &[(Slot, Stored<SlotRecord>)],
    alive: &[HolderId],
    now: UnixNanos,
) -> Result<(Slot, Option<Stored<SlotRecord>>), AllSlotsReserved> {
    let past = || records.iter().filter(|(_, stored)| stored.value.reserved_until.nanos() < now);
    let lowest = |(slot, _): &&(Slot, Stored<SlotRecord>)| slot.get();
    let abandoned = past().filter(|(_, stored)| !alive.contains(&stored.value.holder)).min_by_key(lowest);
    let fresh = || Slot::all().find(|slot| records.iter().all(|(used, _)| used != slot));
    match (abandoned, fresh()) {
        (Some((slot, stored)), _) => Ok((*slot, Some(*stored))),
        (None, Some(slot)) => Ok((slot, None)),
        (None, None) => match past().min_by_key(lowest) {
            Some((slot, stored)) => Ok((*slot, Some(*stored))),
            None => Err(AllSlotsReserved { earliest: earliest_end(records, now) }),
        },
    }
}

fn earliest_end(records: &[(Slot, Stored<SlotRecord>)], now: UnixNanos) -> UnixSeconds {
    records.iter().map(|(_, stored)| stored.value.reserved_until).min().unwrap_or(now.ceil_seconds())
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec::Vec};

    use super::*;

    fn record(slot: u8, reserved_until: i64) -> (Slot, Stored<SlotRecord>) {
        let slot = Slot::new(slot).expect("a slot");
        let value = SlotRecord {
            node: Node::for_slot(0, slot),
            clock_seq: ClockSeq::from_random(7),
            epoch: SlotEpoch::new(3),
            holder: HolderId::new([1; 16]),
            reserved_until: UnixSeconds::new(reserved_until),
            seen: UnixSeconds::new(reserved_until),
        };
        (slot, Stored { version: 9, value })
    }

    fn check(records: &[(u8, i64)], now_ms: i128, expected: Result<(u8, bool), i64>) {
        let records: Vec<_> = records.iter().map(|&(slot, until)| record(slot, until)).collect();
        let chosen = choose_slot(&records, &[], UnixNanos::new(now_ms * 1_000_000))
            .map(|(slot, read)| (slot.get(), read.is_some()))
            .map_err(|refusal| refusal.earliest.get());
        assert_eq!(chosen, expected);
    }

    #[test]
    fn ok_a_slot_with_a_past_reservation_comes_first_then_a_new_one() {
        check(&[], 5_000, Ok((0, false)));
        check(&[(0, 4)], 5_000, Ok((0, true)));
        check(&[(0, 5)], 5_000, Ok((1, false)));
        check(&[(0, 5)], 5_001, Ok((0, true)));
        check(&[(0, 60), (3, 4)], 5_000, Ok((3, true)));
        check(&[(0, 60), (1, 60)], 5_000, Ok((2, false)));
    }

    #[test]
    fn err_if_all_slots_are_reserved_says_until_when() {
        let all: Vec<(u8, i64)> = (0..64).map(|slot| (slot, 100 + i64::from(slot))).collect();
        check(&all, 5_000, Err(100));
        check(&all, 100_500, Ok((0, true)));
    }

    #[test]
    fn ok_taking_a_used_slot_starts_above_its_ceiling_and_changes_the_epoch() {
        let (slot, stored) = record(5, 100);
        let plan =
            SlotPlan::take(slot, Some(stored), HolderId::new([2; 16]), UnixSeconds::new(80), UnixSeconds::new(90), 0);
        assert_eq!(plan.guard(), 9);
        assert_eq!(plan.start(), Some(UnixSeconds::new(100)));
        assert_eq!(plan.record().reserved_until, UnixSeconds::new(100), "a ceiling never goes down");
        assert_eq!(plan.record().epoch, SlotEpoch::new(4));
        assert_eq!(plan.record().clock_seq, ClockSeq::from_random(8));
        assert_eq!(plan.record().node, stored.value.node);
        assert_eq!((plan.record().holder, plan.record().seen), (HolderId::new([2; 16]), UnixSeconds::new(80)));
    }

    #[test]
    fn ok_reserving_for_nobody_raises_only_lower_ceilings() {
        let (slot, stored) = record(5, 100);
        let reserve = |read, until, fences| {
            SlotPlan::reserve(slot, read, UnixSeconds::new(until), fences, (HolderId::new([7; 16]), 1))
        };
        assert!(reserve(Some(stored), 100, false).is_none());
        let fenced = reserve(Some(stored), 90, true).expect("a plan");
        assert_eq!((*fenced.record(), fenced.guard()), (stored.value, 9), "only the version changes");
        let raised = reserve(Some(stored), 101, false).expect("a plan");
        assert_eq!(*raised.record(), SlotRecord { reserved_until: UnixSeconds::new(101), ..stored.value });
        assert_eq!(raised.guard(), 9);
        let new = reserve(None, 101, false).expect("a plan");
        assert_eq!((new.guard(), new.record().epoch), (0, SlotEpoch::new(0)));
        assert_eq!(new.record().latest(), UnixSeconds::new(101));
        // The first holder of the slot issues only after the reserved second.
        let read = Stored { version: 10, value: *new.record() };
        let taken =
            SlotPlan::take(slot, Some(read), HolderId::new([2; 16]), UnixSeconds::new(102), UnixSeconds::new(103), 0);
        assert_eq!((taken.start(), taken.record().epoch), (Some(UnixSeconds::new(101)), SlotEpoch::new(1)));
    }

    #[test]
    fn ok_a_new_slot_is_made_of_random_bits() {
        let (slot, _) = record(5, 0);
        let (holder, random) = (HolderId::new([2; 16]), 0x1234_5678_9abc_def0);
        let plan = SlotPlan::take(slot, None, holder, UnixSeconds::new(80), UnixSeconds::new(90), random);
        assert_eq!((plan.slot(), plan.guard(), plan.start()), (slot, 0, None));
        let expected = SlotRecord {
            node: Node::for_slot(random, slot),
            clock_seq: ClockSeq::from_random(0x1234),
            epoch: SlotEpoch::new(1),
            holder,
            reserved_until: UnixSeconds::new(90),
            seen: UnixSeconds::new(80),
        };
        assert_eq!(*plan.record(), expected);
    }

    #[test]
    fn ok_the_slot_of_a_live_holder_is_the_last_choice() {
        let choose = |records: &[(Slot, Stored<SlotRecord>)]| {
            let chosen =
                choose_slot(records, &[HolderId::new([1; 16])], UnixNanos::new(5_000_000_000)).expect("a slot");
            (chosen.0.get(), chosen.1.is_some())
        };
        assert_eq!(choose(&[record(0, 4)]), (1, false), "a new slot is preferred");
        let mut all: Vec<_> = (0..64).rev().map(|slot| record(slot, 4)).collect();
        assert_eq!(choose(&all), (0, true), "a live holder's slot is better than none");
        all[20].1.value.holder = HolderId::new([2; 16]);
        assert_eq!(choose(&all), (43, true), "its holder is not alive");
    }

    #[test]
    fn ok_the_latest_time_of_a_record_is_the_later_of_its_two() {
        for (reserved_until, seen) in [(100, 120), (120, 100)] {
            let record = SlotRecord { seen: UnixSeconds::new(seen), ..record(0, reserved_until).1.value };
            assert_eq!(record.latest(), UnixSeconds::new(120));
        }
    }

    #[test]
    fn ok_a_holder_reads_as_it_is_written() {
        let holder = HolderId::new(core::array::from_fn(|at| 0x0f + 0x10 * at as u8));
        assert_eq!(holder.to_string(), "0f1f2f3f4f5f6f7f8f9fafbfcfdfefff");
        assert_eq!(holder.to_string().parse(), Ok(holder));
        assert_eq!(holder.bytes()[..2], [0x0f, 0x1f]);
    }

    #[test]
    fn err_a_holder_is_32_digits() {
        let digits = "0f1f2f3f4f5f6f7f8f9fafbfcfdfefff";
        for text in
            ["", &digits[1..], &[digits, "0"].concat(), &["+", &digits[1..]].concat(), &["g", &digits[1..]].concat()]
        {
            assert_eq!(text.parse::<HolderId>(), Err(BadHolder), "{text}");
        }
    }
}
