//! Turns at a strict counter: replicas that grant from the same counter commit one after the other.
//!
//! Each commit compares the counter, so of several commits at the same time, only one succeeds. Replicas whose commits
//! conflict therefore register, and then commit in turn, in the order of their IDs. Turns only save failed commits. If a
//! replica's view of the turns is wrong, or if it commits out of turn, the comparison still keeps its grants correct.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::{ops::Bound, time::Duration};

use crate::HolderId;

/// The time after which a replica commits out of turn, because the replica whose turn it is may have crashed.
pub const TURN_MAX: Duration = Duration::from_millis(400);

/// The additional time for each further replica that comes before, so that the waiting replicas do not all commit at
/// once, and the number of replicas for which it is added.
const OVERTAKE_AFTER: Duration = Duration::from_millis(50);
const OVERTAKE_STEPS: usize = 6;

/// A replica's view of the turns at one counter.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    registered: BTreeMap<HolderId, Turn>,
    /// While all records are read, the replicas whose records have changed since the read began.
    reading: Option<BTreeSet<HolderId>>,
    /// This replica, if it is registered.
    own: Option<HolderId>,
    /// The time of the last turn, or of our registration, on the steady clock.
    changed: Duration,
    /// Whether a commit of this replica conflicted although it had just read the counter.
    is_contended: bool,
    /// Whether this replica had a turn and committed nothing.
    is_passing: bool,
}

/// The last record of a registered replica.
#[derive(Clone, Copy, Debug)]
struct Turn {
    version: u64,
    /// Whether the replica has had a turn, or has only registered.
    is_over: bool,
}

/// The end of this replica's turn, which its commit records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// This replica.
    pub own: HolderId,
    /// The replicas that missed their turns, at most [`OVERTAKEN_MAX`]. The commit removes their records.
    pub overtaken: Vec<HolderId>,
}

/// The maximum number of replicas that one commit overtakes.
pub const OVERTAKEN_MAX: usize = 8;

/// What a replica does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStep {
    /// Commit what waits.
    Go,
    /// Register, and ask again.
    Register,
    /// Deregister, so that the other replicas do not wait for this one, and ask again.
    Deregister,
    /// Ask again after a change to the turns, or after this time.
    Wait(Duration),
}

impl Turns {
    /// Records that a replica registered or had a turn, by the version of its record. A record that arrives late changes
    /// nothing.
    pub fn seen(&mut self, replica: HolderId, version: u64, is_over: bool, now: Duration) {
        self.note(replica);
        if self.registered.get(&replica).is_none_or(|turn| turn.version < version) {
            // A registration does not extend the time that others have for their turns.
            if is_over || self.registered.is_empty() {
                self.changed = now;
            }
            self.registered.insert(replica, Turn { version, is_over });
        }
    }

    /// Records that a replica deregistered or was overtaken, by the version at which its record was removed.
    pub fn gone(&mut self, replica: HolderId, version: u64, now: Duration) {
        self.note(replica);
        if self.registered.get(&replica).is_none_or(|turn| turn.version < version) {
            if self.registered.remove(&replica).is_some() {
                self.changed = now;
            }
            if self.own == Some(replica) {
                (self.own, self.is_passing) = (None, false);
            }
        }
    }

    fn note(&mut self, replica: HolderId) {
        if let Some(changed) = &mut self.reading {
            changed.insert(replica);
        }
    }

    /// Call this before all records are read.
    pub fn begin_read(&mut self) {
        self.reading = Some(BTreeSet::new());
    }

    /// Like [`Turns::begin_read`], if any replica is registered. Returns whether one is.
    pub fn begin_read_if_used(&mut self) -> bool {
        let is_used = !self.registered.is_empty();
        if is_used {
            self.begin_read();
        }
        is_used
    }

    /// Replaces the view by the records that were read, each with its version and whether it is after a turn. Changes
    /// that arrived since [`Turns::begin_read`] are kept.
    pub fn end_read(&mut self, records: &[(HolderId, u64, bool)], now: Duration) {
        let changed = self.reading.take().unwrap_or_default();
        let is_current =
            |replica: &HolderId| changed.contains(replica) || records.iter().any(|(found, ..)| found == replica);
        let stale: Vec<_> = self.registered.keys().copied().filter(|replica| !is_current(replica)).collect();
        stale.into_iter().for_each(|replica| self.gone(replica, u64::MAX, now));
        for (replica, version, is_over) in records.iter().filter(|(replica, ..)| !changed.contains(replica)) {
            self.seen(*replica, *version, *is_over, now);
        }
    }

    /// Call this instead of [`Turns::end_read`] if the read failed.
    pub fn cancel_read(&mut self) {
        self.reading = None;
    }

    /// Records that this replica registered, after all records were read. If it has already been overtaken, it must
    /// register again.
    pub fn register(&mut self, own: HolderId, now: Duration) {
        self.own = Some(own).filter(|own| self.registered.contains_key(own));
        self.changed = now;
    }

    /// Records a conflict of a commit that compared a counter that was just read.
    pub const fn conflicted(&mut self) {
        self.is_contended = true;
    }

    /// Records that there was nothing to commit: all requests were refused or had been granted before.
    pub const fn passed(&mut self) {
        (self.is_contended, self.is_passing) = (false, self.own.is_some());
    }

    /// Records a commit of this replica, and the end of its turn if the commit recorded one.
    pub fn committed(&mut self, version: u64, end: Option<&TurnEnd>, now: Duration) {
        (self.is_contended, self.is_passing) = (false, false);
        if let Some(TurnEnd { own, overtaken }) = end {
            overtaken.iter().for_each(|replica| self.gone(*replica, version, now));
            self.seen(*own, version, true, now);
            self.own = Some(*own).filter(|own| self.registered.contains_key(own));
        }
    }

    /// Returns whether this replica is registered.
    pub const fn is_registered(&self) -> bool {
        self.own.is_some()
    }

    /// Returns what the next commit must record; `None` if this replica is not registered.
    pub fn end(&self, now: Duration) -> Option<TurnEnd> {
        let overtaken = match self.left(now).is_zero() {
            true => self.before_own().take(OVERTAKEN_MAX).collect(),
            false => Vec::new(),
        };
        Some(TurnEnd { own: self.own?, overtaken })
    }

    /// Returns the registered replicas that come before this one, beginning with the one whose turn it is.
    fn before_own(&self) -> impl Iterator<Item = HolderId> {
        let over = self.registered.iter().filter(|(_, turn)| turn.is_over);
        let last = over.max_by_key(|(_, turn)| turn.version).map(|(replica, _)| *replica);
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let up_to = last.map_or(Bound::Excluded(HolderId::new([0; 16])), Bound::Included);
        let after = self.registered.range((after, Bound::Unbounded));
        let all = after.chain(self.registered.range((Bound::Unbounded, up_to)));
        all.map(|(replica, _)| *replica).take_while(|replica| Some(*replica) != self.own)
    }

    /// Returns how long the replicas before this one still have for their turns.
    fn left(&self, now: Duration) -> Duration {
        let further = self.before_own().skip(1).take(OVERTAKE_STEPS).map(|_| OVERTAKE_AFTER);
        (TURN_MAX + further.sum::<Duration>()).saturating_sub(now.saturating_sub(self.changed))
    }

    /// Decides what this replica does next. `is_waiting` says whether any request waits.
    pub fn step(&self, is_waiting: bool, now: Duration) -> TurnStep {
        if self.own.is_none() {
            let is_alone = self.registered.is_empty() && !self.is_contended;
            return if is_alone || !is_waiting { TurnStep::Go } else { TurnStep::Register };
        }
        let (is_own_turn, left) = (self.before_own().next().is_none(), self.left(now));
        match is_own_turn || left.is_zero() {
            _ if self.is_passing => TurnStep::Deregister,
            true if is_waiting => TurnStep::Go,
            true => TurnStep::Deregister,
            false => TurnStep::Wait(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const NOW: Duration = Duration::from_secs(10);
    const NANO: Duration = Duration::from_nanos(1);

    fn replica(number: u8) -> HolderId {
        HolderId::new([number; 16])
    }

    /// Returns the view of replica `own`, after these records of replicas.
    fn view(own: u8, records: &[(u8, u64, bool)]) -> Turns {
        let mut turns = Turns::default();
        for (number, version, is_over) in records {
            turns.seen(replica(*number), *version, *is_over, NOW);
        }
        turns.register(replica(own), NOW);
        turns
    }

    fn numbers(replicas: impl IntoIterator<Item = HolderId>) -> Vec<u8> {
        replicas.into_iter().map(|replica| replica.bytes()[0]).collect()
    }

    fn before(own: u8, records: &[(u8, u64, bool)]) -> Vec<u8> {
        numbers(view(own, records).before_own())
    }

    const ALL: [(u8, u64, bool); 3] = [(1, 11, false), (2, 12, false), (3, 13, false)];

    #[test]
    fn ok_turns_are_in_the_order_of_ids_after_the_last_turn() {
        assert_eq!([1, 2, 3].map(|own| before(own, &ALL)), [vec![], vec![1], vec![1, 2]]);
        for (last, wanted) in [(1, [vec![2, 3], vec![], vec![2]]), (2, [vec![3], vec![3, 1], vec![]])] {
            let records = [&ALL[..], &[(last, 20, true)]].concat();
            assert_eq!([1, 2, 3].map(|own| before(own, &records)), wanted, "{last}");
        }
        // The turn before counts if the last one deregistered.
        let mut turns = view(3, &[&ALL[..], &[(1, 20, true), (2, 21, true)]].concat());
        assert_eq!(turns.before_own().count(), 0);
        turns.gone(replica(2), 22, NOW);
        assert_eq!(turns.before_own().count(), 0);
        let end = turns.end(NOW);
        assert_eq!(end, Some(TurnEnd { own: replica(3), overtaken: vec![] }));
        turns.committed(23, end.as_ref(), NOW);
        assert_eq!(numbers(turns.before_own()), [1]);
    }

    #[test]
    fn ok_a_replica_registers_only_if_commits_conflict() {
        let mut turns = Turns::default();
        assert_eq!(turns.step(true, NOW), TurnStep::Go);
        turns.conflicted();
        assert_eq!(turns.step(false, NOW), TurnStep::Go);
        assert_eq!(turns.step(true, NOW), TurnStep::Register);
        turns.committed(5, None, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Go, "the conflict was an exception");
        turns.conflicted();
        turns.passed();
        assert_eq!(turns.step(true, NOW), TurnStep::Go, "a full region is no reason to register");
        turns.seen(replica(1), 6, false, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Register, "another replica waits for its turn");
        turns.seen(replica(2), 7, false, NOW);
        turns.register(replica(2), NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Wait(TURN_MAX));
        turns.seen(replica(1), 8, true, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Go);
        assert_eq!(turns.step(false, NOW), TurnStep::Deregister);
        turns.passed();
        assert_eq!(turns.step(true, NOW), TurnStep::Deregister, "the others must not wait for refusals");
        turns.gone(replica(2), 9, NOW);
        turns.gone(replica(1), 10, NOW);
        assert_eq!(turns.step(true, NOW), TurnStep::Go);
    }

    #[test]
    fn ok_a_replica_overtakes_those_that_miss_their_turns() {
        let mut turns = view(3, &ALL);
        let patience = TURN_MAX + OVERTAKE_AFTER;
        assert_eq!(turns.step(true, NOW), TurnStep::Wait(patience));
        // A registration does not extend the time of the others.
        turns.seen(replica(4), 14, false, NOW + patience - NANO);
        assert_eq!(turns.step(true, NOW + patience - NANO), TurnStep::Wait(NANO));
        assert_eq!(turns.end(NOW + patience - NANO).map(|end| end.overtaken), Some(vec![]));
        let late = NOW + patience;
        assert_eq!((turns.step(true, late), turns.step(false, late)), (TurnStep::Go, TurnStep::Deregister));
        let end = turns.end(late);
        assert_eq!(end.as_ref().map(|end| numbers(end.overtaken.clone())), Some(vec![1, 2]));
        turns.committed(20, end.as_ref(), late);
        assert_eq!(numbers(turns.before_own()), [4], "the view does not wait for the store's message");
        let many: Vec<_> = (1..=40).map(|number| (number, u64::from(number), false)).collect();
        let most = TURN_MAX + OVERTAKE_AFTER * 6;
        assert_eq!(view(40, &many).step(true, NOW), TurnStep::Wait(most));
        let overtaken = view(40, &many).end(NOW + most).map(|end| end.overtaken.len());
        assert_eq!(overtaken, Some(OVERTAKEN_MAX));
    }

    #[test]
    fn ok_late_records_and_removals_change_nothing() {
        let mut turns = view(1, &[(1, 11, false), (2, 15, true)]);
        turns.seen(replica(2), 12, false, NOW + TURN_MAX);
        assert_eq!((turns.before_own().count(), turns.changed), (0, NOW));
        // Replica 1 deregistered at version 10, and registered again at version 11.
        turns.gone(replica(1), 10, NOW);
        assert!(turns.is_registered());
        turns.gone(replica(1), 12, NOW);
        assert!(!turns.is_registered(), "it was overtaken");
    }

    #[test]
    fn ok_a_read_replaces_the_view_but_not_what_arrived_since() {
        let mut turns = view(1, &[(1, 11, false), (2, 12, false), (3, 13, false), (4, 14, false)]);
        turns.begin_read();
        turns.gone(replica(2), 20, NOW);
        turns.seen(replica(5), 21, false, NOW);
        let read = [(1, 11, false), (2, 12, false), (3, 13, false), (6, 16, false)];
        turns.end_read(&read.map(|(number, version, is_over)| (replica(number), version, is_over)), NOW);
        assert_eq!(numbers(turns.registered.keys().copied()), [1, 3, 5, 6], "2 is gone since, and 4 was gone before");
        assert!(turns.is_registered());

        // This replica was overtaken before its registration was read.
        let mut turns = Turns::default();
        turns.begin_read();
        turns.gone(replica(1), 14, NOW);
        turns.end_read(&[(replica(1), 13, false), (replica(2), 12, false)], NOW);
        turns.register(replica(1), NOW);
        assert!(!turns.is_registered());
        assert_eq!(turns.step(true, NOW), TurnStep::Register);
    }
}
