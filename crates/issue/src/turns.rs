//! Turns at a strict counter: replicas that grant from the same counter commit one after the other.
//!
//! Each commit compares the counter, so of several commits at the same time, only one succeeds. Replicas whose commits
//! conflict therefore register, and then commit in turn, in the order of their IDs. Turns only save failed commits. If a
//! replica's view of the turns is wrong, or if it commits out of turn, the comparison still keeps its grants correct.

use alloc::collections::BTreeMap;
use core::{ops::Bound, time::Duration};

use crate::HolderId;

/// The time after which a replica commits out of turn, because the replica whose turn it is may have crashed.
pub const TURN_MAX: Duration = Duration::from_millis(400);

/// The additional time for each further replica that comes before, so that the waiting replicas do not all commit at
/// once.
const OVERTAKE_AFTER: Duration = Duration::from_millis(50);

/// A replica's view of the turns at one counter.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    registered: BTreeMap<HolderId, Turn>,
    /// The versions at which replicas were gone, while their records are read.
    departed: Option<BTreeMap<HolderId, u64>>,
    /// This replica, if it is registered.
    own: Option<HolderId>,
    /// The time of the last change to the turns, on the steady clock.
    changed: Duration,
    /// Whether a commit of this replica conflicted although it had just read the counter.
    is_contended: bool,
}

/// The last record of a registered replica.
#[derive(Clone, Copy, Debug)]
struct Turn {
    version: u64,
    /// Whether the replica has had a turn, or has only registered.
    is_over: bool,
}

/// What a replica does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStep {
    /// Commit what waits.
    Go,
    /// Register, and ask again.
    Register,
    /// Deregister, because nothing waits, and ask again.
    Deregister,
    /// Ask again after a change to the turns, or after this time.
    Wait(Duration),
}

impl Turns {
    /// Records that another replica, or this one, registered or had a turn, by the version of its record. Records that
    /// arrive late, or are read late, change nothing.
    pub fn seen(&mut self, replica: HolderId, version: u64, is_over: bool, now: Duration) {
        let departed = self.departed.as_ref().and_then(|departed| departed.get(&replica)).copied();
        let known = self.registered.get(&replica).map(|turn| turn.version);
        if known.max(departed).is_none_or(|known| known < version) {
            self.registered.insert(replica, Turn { version, is_over });
            self.changed = now;
        }
    }

    /// Records that this replica registered.
    pub fn register(&mut self, own: HolderId, version: u64, now: Duration) {
        self.own = Some(own);
        self.seen(own, version, false, now);
    }

    /// Records that a replica deregistered or was overtaken, by the version at which its record was removed.
    pub fn gone(&mut self, replica: HolderId, version: u64, now: Duration) {
        if let Some(departed) = &mut self.departed {
            departed.insert(replica, version);
        }
        if self.registered.get(&replica).is_some_and(|turn| turn.version < version) {
            self.registered.remove(&replica);
            self.own = self.own.filter(|own| *own != replica);
            self.changed = now;
        }
    }

    /// Call this before the records of all replicas are read. Until [`Turns::end_read`], a record that was read does
    /// not bring back a replica that is gone since.
    pub fn begin_read(&mut self) {
        self.departed = Some(BTreeMap::new());
    }

    /// Call this after the records of all replicas were read and passed to [`Turns::seen`].
    pub fn end_read(&mut self) {
        self.departed = None;
    }

    /// Records a conflict of a commit that compared a counter that was just read.
    pub const fn conflicted(&mut self) {
        self.is_contended = true;
    }

    /// Records a commit of this replica, which is its turn if it is registered.
    pub fn committed(&mut self, version: u64, now: Duration) {
        self.is_contended = false;
        if let Some(own) = self.own {
            self.seen(own, version, true, now);
        }
    }

    /// Returns this replica's ID if it is registered.
    pub const fn own(&self) -> Option<HolderId> {
        self.own
    }

    /// Returns the registered replicas that come before this one, beginning with the one whose turn it is.
    pub fn before_own(&self) -> impl Iterator<Item = HolderId> {
        let over = self.registered.iter().filter(|(_, turn)| turn.is_over);
        let last = over.max_by_key(|(_, turn)| turn.version).map(|(replica, _)| *replica);
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let up_to = last.map_or(Bound::Excluded(HolderId::new([0; 16])), Bound::Included);
        let after = self.registered.range((after, Bound::Unbounded));
        let all = after.chain(self.registered.range((Bound::Unbounded, up_to)));
        all.map(|(replica, _)| *replica).take_while(|replica| Some(*replica) != self.own)
    }

    /// Decides what this replica does next. `is_waiting` says whether any request waits.
    pub fn step(&self, is_waiting: bool, now: Duration) -> TurnStep {
        let unchanged = now.saturating_sub(self.changed);
        if self.own.is_none() {
            let is_alone = self.registered.is_empty() && !self.is_contended;
            return if is_alone || !is_waiting { TurnStep::Go } else { TurnStep::Register };
        }
        let before = self.before_own().count().min(u32::MAX as usize) as u32; // OK because it is at most u32::MAX
        let patience = TURN_MAX + OVERTAKE_AFTER.saturating_mul(before.saturating_sub(1));
        match patience.checked_sub(unchanged).filter(|left| before > 0 && !left.is_zero()) {
            Some(left) => TurnStep::Wait(left),
            None if is_waiting => TurnStep::Go,
            None => TurnStep::Deregister,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    const NOW: Duration = Duration::from_secs(10);

    fn replica(number: u8) -> HolderId {
        HolderId::new([number; 16])
    }

    /// Returns the view of replica `own`, after these records of replicas.
    fn view(own: u8, records: &[(u8, u64, bool)]) -> Turns {
        let mut turns = Turns { own: Some(replica(own)), ..Turns::default() };
        for (number, version, is_over) in records {
            turns.seen(replica(*number), *version, *is_over, NOW);
        }
        turns
    }

    fn before(own: u8, records: &[(u8, u64, bool)]) -> Vec<u8> {
        view(own, records).before_own().map(|replica| replica.bytes()[0]).collect()
    }

    #[test]
    fn ok_turns_are_in_the_order_of_ids_after_the_last_turn() {
        let all = [(1, 11, false), (2, 12, false), (3, 13, false)];
        assert_eq!([1, 2, 3].map(|own| before(own, &all)), [vec![], vec![1], vec![1, 2]]);
        for (last, wanted) in [(1, [vec![2, 3], vec![], vec![2]]), (2, [vec![3], vec![3, 1], vec![]])] {
            let records = [&all[..], &[(last, 20, true)]].concat();
            assert_eq!([1, 2, 3].map(|own| before(own, &records)), wanted, "{last}");
        }
        // The turn before counts if the last one deregistered.
        let mut turns = view(3, &[&all[..], &[(1, 20, true), (2, 21, true)]].concat());
        assert_eq!(turns.before_own().count(), 0);
        turns.gone(replica(2), 22, NOW);
        assert_eq!(turns.before_own().count(), 0);
        turns.committed(23, NOW);
        assert_eq!(turns.before_own().collect::<Vec<_>>(), [replica(1)]);
    }

    #[test]
    fn ok_a_replica_registers_only_if_commits_conflict() {
        let mut turns = Turns::default();
        assert_eq!(turns.step(true, NOW), TurnStep::Go);
        turns.conflicted();
        assert_eq!(turns.step(false, NOW), TurnStep::Go);
        assert_eq!(turns.step(true, NOW), TurnStep::Register);
        turns.committed(5, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Go, "the conflict was an exception");
        turns.seen(replica(1), 6, false, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Register, "another replica waits for its turn");
        turns.register(replica(2), 7, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Wait(TURN_MAX));
        turns.seen(replica(1), 8, true, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Go);
        assert_eq!(turns.step(false, NOW), TurnStep::Deregister);
        turns.gone(replica(2), 9, NOW);
        turns.gone(replica(1), 10, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Go);
    }

    #[test]
    fn ok_a_replica_overtakes_those_that_miss_their_turns() {
        let turns = view(3, &[(1, 11, false), (2, 12, false), (3, 13, false)]);
        let patience = TURN_MAX + OVERTAKE_AFTER;
        assert_eq!(turns.step(true, NOW), TurnStep::Wait(patience));
        let nano = Duration::from_nanos(1);
        assert_eq!(turns.step(true, NOW + patience - nano), TurnStep::Wait(nano));
        assert_eq!(turns.step(true, NOW + patience), TurnStep::Go);
        assert_eq!(turns.step(false, NOW + patience), TurnStep::Deregister);
    }

    #[test]
    fn ok_old_records_change_nothing() {
        let mut turns = view(1, &[(1, 11, false), (2, 15, true)]);
        turns.seen(replica(2), 12, false, NOW + TURN_MAX);
        assert_eq!((turns.before_own().count(), turns.changed), (0, NOW));
        // Replica 1 deregistered at version 10, and registered again at version 11.
        turns.gone(replica(1), 10, NOW);
        assert_eq!(turns.own(), Some(replica(1)));
        turns.begin_read();
        turns.gone(replica(2), 20, NOW);
        turns.seen(replica(2), 15, true, NOW);
        assert_eq!(turns.registered.len(), 1, "replica 2 is gone");
        turns.seen(replica(2), 21, false, NOW);
        turns.end_read();
        assert_eq!(turns.registered.len(), 2, "replica 2 registered again");
    }
}
