//! Issuing time-based identifiers through a slot, and what to do when the clock moves.
//!
//! All time-based sources of a daemon share one slot and so one durable ceiling in time; each line of positions has a
//! [`Sequence`] of its own below it. A grant starts at the present tick or where the last one ended, whichever is later, and
//! never reaches further ahead of the clock than [`ClockPolicy::max_ahead`]. A small step back is absorbed by that; after a
//! larger one the slot is left for another, whose ticks lie in the past of the new clock.

use alloc::vec::Vec;
use core::{num::NonZeroU64, time::Duration};

use kent_ids::{Block, ClusterKey, Format, Line, Position, Slot, SlotConstants, UnixNanos, UnixSeconds};
use thiserror::Error;

use crate::{AllSlotsReserved, HolderId, Sequence, SlotPlan, SlotRecord, Stored, choose_slot};

/// How the daemon's clock is trusted, and how far ahead the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockPolicy {
    /// A step back of the wall clock up to this is absorbed; a larger one costs the slot.
    pub tolerance: Duration,
    /// No timestamp lies further ahead of the clock than this when it is granted.
    pub max_ahead: Duration,
    /// The window of a slot just taken; it doubles with each extension.
    pub window_first: Duration,
    /// The window of a daemon that has run for a while: how long the store may be away.
    pub window_last: Duration,
}

impl Default for ClockPolicy {
    /// 500 ms of tolerance, 1 s ahead, windows from 2 s to 60 s.
    fn default() -> Self {
        Self {
            tolerance: Duration::from_millis(500),
            max_ahead: Duration::from_secs(1),
            window_first: Duration::from_secs(2),
            window_last: Duration::from_secs(60),
        }
    }
}

/// What the daemon has seen of its wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clock {
    latest: Option<UnixNanos>,
    epoch: u64,
}

impl Clock {
    /// Takes note of a reading. If the clock went back by more than `tolerance`, a new epoch begins, and by how much it
    /// went back is returned.
    fn observe(&mut self, now: UnixNanos, tolerance: Duration) -> Option<Duration> {
        let back = self.latest.map_or(0, |latest| latest.get().saturating_sub(now.get()));
        if back > nanos(tolerance) {
            self.latest = Some(now);
            self.epoch += 1;
            return Some(duration(back));
        }
        self.latest = Some(self.latest.map_or(now, |latest| latest.max(now)));
        None
    }

    /// How many steps back beyond the tolerance there have been.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// A granted block, and the clock epoch in which it was granted.
#[derive(Clone, Debug)]
pub struct TimeGrant {
    /// The block.
    pub block: Block,
    /// Blocks of one source ascend while this stays the same.
    pub clock_epoch: u64,
}

/// Why nothing was granted. Nothing has changed, except that the slot may have been left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No slot is held: take one first.
    #[error("no slot is held")]
    NoSlot,
    /// The clock went back beyond the tolerance and the slot was left: take another.
    #[error("the clock went back by {} ms", back.as_millis())]
    ClockStepped {
        /// How far it went back.
        back: Duration,
    },
    /// The slot's window must be extended first.
    #[error("the window ended at Unix second {}", reserved_until.get())]
    WindowSpent {
        /// The durable ceiling in time.
        reserved_until: UnixSeconds,
    },
    /// The identifiers of the time up to `max_ahead` are used up: wait for the clock.
    #[error("the clock allows this in {} ms", wait.as_millis())]
    Ahead {
        /// How long until the clock allows the grant.
        wait: Duration,
    },
    /// The clock never allows so many at once.
    #[error("the clock never allows more than {max} identifiers at once")]
    TooMany {
        /// The most that one grant can hold.
        max: u64,
    },
    /// The wall clock is further ahead than anything explains, and there is nothing else to go on from.
    #[error("the clock is not believed: it is {} s further ahead than anything recorded explains", ahead.as_secs())]
    Quarantined {
        /// By how much it is ahead of what could be believed.
        ahead: Duration,
    },
    /// The format has no identifiers for this time.
    #[error("the clock is outside the time range of the format")]
    OutsideFormat,
}

impl Refusal {
    /// Whether the grant may be possible after a wait: for the clock, a slot or its window.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::NoSlot | Self::ClockStepped { .. } | Self::WindowSpent { .. } | Self::Ahead { .. } => true,
            Self::TooMany { .. } | Self::Quarantined { .. } | Self::OutsideFormat => false,
        }
    }
}

/// What an extension did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extended {
    /// The slot is ours up to this second.
    Until(UnixSeconds),
    /// The slot is somebody else's now: take another.
    Fenced,
}

/// Grants time-based identifiers below the durable ceiling of one slot.
///
/// Order of calls: [`plan_take`](Self::plan_take), commit, [`on_committed`](Self::on_committed); then
/// [`grant`](Self::grant) at will, with [`plan_extension`](Self::plan_extension), commit, `on_committed` in time before the
/// window ends. If the outcome of a commit is unknown or a conflict, read the record and call [`on_read`](Self::on_read).
/// At the end [`plan_give_back`](Self::plan_give_back), after which nothing is granted any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimeIssuer {
    policy: ClockPolicy,
    holder: HolderId,
    key: ClusterKey,
    clock: Clock,
    window: Duration,
    held: Option<Held>,
    tracks: Vec<Track>,
}

/// The slot that is held, and since which second its ticks are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    slot: Slot,
    stored: Stored<SlotRecord>,
    start: Option<UnixSeconds>,
}

/// The sequence of one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Track {
    key: &'static str,
    line: Line,
    sequence: Sequence,
}

impl TimeIssuer {
    /// The run of the daemon that issues.
    pub const fn holder(&self) -> HolderId {
        self.holder
    }

    /// An issuer that holds no slot yet, for the run of a daemon called `holder`.
    pub fn new(policy: ClockPolicy, holder: HolderId, key: ClusterKey) -> Self {
        let window = policy.window_first;
        Self { policy, holder, key, clock: Clock::default(), window, held: None, tracks: Vec::new() }
    }

    /// Plans to take a slot at `now`, given all slots that have a record, and the holders that are there as far as is known;
    /// `random` makes the node of a fresh one.
    ///
    /// # Errors
    ///
    /// [`AllSlotsReserved`] if every slot is spoken for.
    pub fn plan_take(
        &self,
        records: &[(Slot, Stored<SlotRecord>)],
        there: &[HolderId],
        now: UnixNanos,
        random: u64,
    ) -> Result<SlotPlan, AllSlotsReserved> {
        let (slot, read) = choose_slot(records, there, now)?;
        let until = self.horizon(now, self.policy.window_first);
        Ok(SlotPlan::take(slot, read, self.holder, now.ceil_seconds(), until, random))
    }

    /// Plans to move the slot's ceiling, if less than three quarters of the window are left at `now`.
    pub fn plan_extension(&self, now: UnixNanos) -> Option<SlotPlan> {
        let held = self.held?;
        let window = self.window.saturating_mul(2).min(self.policy.window_last);
        let due = self.window * 3 / 4 + self.policy.max_ahead;
        let left = held.stored.value.reserved_until.nanos().get() - now.get();
        let until = self.horizon(now, window);
        (left <= nanos(due) && until > held.stored.value.reserved_until)
            .then(|| SlotPlan::rewrite(held.slot, held.stored, now.ceil_seconds(), until))
    }

    /// Takes back a plan that is durable at `version`: only now does the ceiling move.
    pub fn on_committed(&mut self, plan: SlotPlan, version: u64, now: UnixNanos) {
        // A slot whose ticks lie where the clock is now must be left if the clock goes back from here.
        self.observe(now);
        let stored = Stored { version, value: *plan.record() };
        if self.holds(&stored.value, plan.slot()) {
            self.window = self.window.saturating_mul(2).min(self.policy.window_last);
            self.raise(stored);
        } else if self.held.is_none() && plan.start().is_none_or(|start| start.nanos() < now) {
            // A slot whose ticks are not yet past, since the clock went back after it was chosen, is left alone.
            self.window = self.policy.window_first;
            self.held = Some(Held { slot: plan.slot(), stored, start: plan.start() });
            self.open_tracks();
        }
    }

    /// Takes note of what the slot's record says, after a commit that conflicted or whose outcome is unknown.
    ///
    /// The slot is ours only while its record has the version that our last answered commit gave it. Any later one was not made by
    /// us for sure, also where it names us: a clone of this machine has our holder, our epoch and all that we remember.
    pub fn on_read(&mut self, slot: Slot, read: Option<Stored<SlotRecord>>) -> Extended {
        let ours = self.held.filter(|held| held.slot == slot).map(|held| held.stored.version);
        match read {
            Some(stored) if ours == Some(stored.version) => Extended::Until(stored.value.reserved_until),
            _ => {
                if self.held.is_some_and(|held| held.slot == slot) {
                    self.leave();
                }
                Extended::Fenced
            }
        }
    }

    /// Takes note of the clock; if it went back beyond the tolerance, leaves the slot and returns by how much.
    pub fn observe(&mut self, now: UnixNanos) -> Option<Duration> {
        let back = self.clock.observe(now, self.policy.tolerance)?;
        self.leave();
        // What was granted before lies in the future of the new clock: the sequences start anew in the new slot.
        self.tracks.clear();
        Some(back)
    }

    /// Grants a block of `count` identifiers of `format` at `now`.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn grant(&mut self, format: Format, count: NonZeroU64, now: UnixNanos) -> Result<TimeGrant, Refusal> {
        if let Some(back) = self.observe(now) {
            return Err(Refusal::ClockStepped { back });
        }
        let held = self.held.ok_or(Refusal::NoSlot)?;
        let max = self.max_count(format);
        if count.get() > max {
            return Err(Refusal::TooMany { max });
        }
        let line = *format.line();
        let floor = line.floor(now).ok_or(Refusal::OutsideFormat)?;
        let limit = self.limit(&line, now);
        let sequence = self.sequence(format, held);
        check_ahead(&line, sequence.next().max(floor), count, limit)?;
        let reserved_until = held.stored.value.reserved_until;
        let first = sequence.grant(floor, count.get()).map_err(|_| match line.end() == sequence.ceiling() {
            true => Refusal::OutsideFormat,
            false => Refusal::WindowSpent { reserved_until },
        })?;
        let block =
            Block::slot(format, self.constants(held), first, count.get()).map_err(|_| Refusal::OutsideFormat)?;
        Ok(TimeGrant { block, clock_epoch: self.clock.epoch })
    }

    /// Gives the slot's unused time back: the holder's last act. From here on nothing is granted, whatever the store answers.
    pub fn plan_give_back(&mut self) -> Option<SlotPlan> {
        let held = self.held?;
        let used = self.tracks.iter().filter_map(Track::last_second).max();
        let until = used.max(held.start).unwrap_or(UnixSeconds::new(0));
        self.leave();
        let seen = self.clock.latest.map_or(held.stored.value.seen, UnixNanos::ceil_seconds);
        (until < held.stored.value.reserved_until).then(|| SlotPlan::rewrite(held.slot, held.stored, seen, until))
    }

    /// The most identifiers of `format` that one grant can hold: those of `max_ahead`.
    fn max_count(&self, format: Format) -> u64 {
        let line = format.line();
        let ticks = self.policy.max_ahead.as_nanos() / u128::from(line.tick_nanos()) + 1;
        u64::try_from(ticks << line.counter_bits()).unwrap_or(u64::MAX)
    }

    /// The slot that is held, and its record.
    pub fn held(&self) -> Option<(Slot, &SlotRecord)> {
        self.held.as_ref().map(|held| (held.slot, &held.stored.value))
    }

    /// For how long the slot lasts without the store, counted from `now`.
    pub fn window_left(&self, now: UnixNanos) -> Duration {
        let until = self.held.map(|held| held.stored.value.reserved_until.nanos().get());
        duration(until.map_or(0, |until| until - now.get()))
    }

    /// What the daemon has seen of its clock.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The policy in force.
    pub const fn policy(&self) -> &ClockPolicy {
        &self.policy
    }

    /// The first second that a window of length `window`, and all that may be granted ahead of the clock, does not reach.
    fn horizon(&self, now: UnixNanos, window: Duration) -> UnixSeconds {
        now.offset(nanos(window + self.policy.max_ahead)).ceil_seconds()
    }

    /// The first position whose tick begins more than `max_ahead` after `now`.
    fn limit(&self, line: &Line, now: UnixNanos) -> Position {
        let last = line.floor(now.offset(nanos(self.policy.max_ahead)));
        last.map_or(line.end(), |last| Position::new(last.get() + (1 << line.counter_bits())))
    }

    fn holds(&self, record: &SlotRecord, slot: Slot) -> bool {
        self.held.is_some_and(|held| {
            let ours = &held.stored.value;
            held.slot == slot && ours.holder == record.holder && ours.epoch == record.epoch
        })
    }

    fn raise(&mut self, stored: Stored<SlotRecord>) {
        if let Some(held) = &mut self.held {
            held.stored = stored;
        }
        self.open_tracks();
    }

    /// Lets every sequence run up to the slot's ceiling, from no lower than the slot's start.
    fn open_tracks(&mut self) {
        let Some(held) = self.held else { return };
        for track in &mut self.tracks {
            track.sequence.raise(held.start_of(&track.line), held.ceiling_of(&track.line));
        }
    }

    fn leave(&mut self) {
        self.held = None;
        self.tracks.iter_mut().for_each(|track| track.sequence.close());
    }

    fn sequence(&mut self, format: Format, held: Held) -> &mut Sequence {
        let key = format.sequence_key();
        let index = self.tracks.iter().position(|track| track.key == key).unwrap_or_else(|| {
            let line = *format.line();
            let sequence = Sequence::new(held.start_of(&line), held.ceiling_of(&line));
            self.tracks.push(Track { key, line, sequence });
            self.tracks.len() - 1
        });
        &mut self.tracks[index].sequence // OK because the index was found or just pushed
    }

    fn constants(&self, held: Held) -> SlotConstants {
        let SlotRecord { node, clock_seq, epoch, .. } = held.stored.value;
        SlotConstants { slot: held.slot, epoch, node, clock_seq, key: self.key }
    }
}

impl Held {
    fn start_of(&self, line: &Line) -> Position {
        self.start.map_or(Position::ZERO, |start| line.after_second(start))
    }

    fn ceiling_of(&self, line: &Line) -> Position {
        line.after_second(self.stored.value.reserved_until)
    }
}

impl Track {
    /// The first whole second that is not before the last tick granted.
    fn last_second(&self) -> Option<UnixSeconds> {
        let last = self.sequence.next().get().checked_sub(1)?;
        Some(self.line.instant(Position::new(last)).ceil_seconds())
    }
}

/// Refuses a run that would reach `limit`, and says when the clock will allow it.
fn check_ahead(line: &Line, first: Position, count: NonZeroU64, limit: Position) -> Result<(), Refusal> {
    let last = Position::new(first.get() + u128::from(count.get() - 1));
    if last < limit {
        return Ok(());
    }
    // OK because the last allowed tick is the one before the limit's.
    let allowed = Position::new(limit.get() - 1);
    let wait = line.instant(last).get() - line.instant(allowed).get();
    Err(Refusal::Ahead { wait: duration(wait) })
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// A non-negative number of nanoseconds as a duration; negative ones are zero.
fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}
