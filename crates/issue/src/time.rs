//! Issues time-based identifiers through a slot, and handles steps of the clock.
//!
//! All time-based sources of a daemon share one slot and one durable ceiling in time. Each line of positions has its
//! own [`Sequence`] below that ceiling. A grant starts at the current tick or at the end of the last grant, whichever
//! is later, and never reaches further ahead of the clock than [`ClockPolicy::max_ahead`]. So a small step back of the
//! clock is absorbed. After a larger step, the daemon leaves the slot and takes another one, whose reserved ticks are
//! all in the past by the corrected clock.

use alloc::vec::Vec;
use core::{num::NonZeroU64, time::Duration};

use kent_ids::{
    Block, BlockError, ClusterKey, Format, Line, Position, Slot, SlotConstants, UnixNanos, UnixSeconds, counted,
    layout::{Granted, Layout, LayoutConstants},
};
use thiserror::Error;

use crate::{AllSlotsReserved, HolderId, Sequence, SlotPlan, SlotRecord, Stored, choose_slot};

/// The limits of the daemon's clock, and the lengths of reserved windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockPolicy {
    /// The largest step back of the wall clock that is absorbed. After a larger step, the daemon leaves its slot.
    pub tolerance: Duration,
    /// The maximum time by which a timestamp may be ahead of the clock when it is granted.
    pub max_ahead: Duration,
    /// The length of a slot's first window. Each extension doubles the window, up to `window_last`.
    pub window_first: Duration,
    /// The length of the largest window: the time for which a daemon can issue while the store is unavailable.
    pub window_last: Duration,
}

impl Default for ClockPolicy {
    /// Returns the default policy: a tolerance of 500 ms, timestamps at most 1 s ahead of the clock, and windows from 2
    /// s to 60 s.
    fn default() -> Self {
        Self {
            tolerance: Duration::from_millis(500),
            max_ahead: Duration::from_secs(1),
            window_first: Duration::from_secs(2),
            window_last: Duration::from_secs(60),
        }
    }
}

/// The greatest reading of the daemon's wall clock since its last large step back, and the number of these steps, the
/// clock's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clock {
    latest: Option<UnixNanos>,
    epoch: u64,
}

impl Clock {
    /// Records a reading. If the clock went back by more than `tolerance`, begins a new epoch and returns the size of
    /// the step.
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

    /// Returns the number of steps back beyond the tolerance.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// A granted block, and the clock epoch in which it was granted.
#[derive(Clone, Debug)]
pub struct TimeGrant {
    /// The block.
    pub block: Block,
    /// Blocks of one source ascend as long as this epoch stays the same.
    pub clock_epoch: u64,
}

/// An error from a grant. A failed grant changes nothing, except that the daemon may leave its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The daemon holds no slot. It must take one first.
    #[error("the daemon holds no slot")]
    NoSlot,
    /// The clock went back beyond the tolerance, so the daemon left its slot. It must take another one.
    #[error("the clock went back by {} ms", back.as_millis())]
    ClockStepped {
        /// The size of the step.
        back: Duration,
    },
    /// The slot's window must be extended first.
    #[error("the window ended at Unix second {}", reserved_until.get())]
    WindowSpent {
        /// The durable ceiling in time.
        reserved_until: UnixSeconds,
    },
    /// The identifiers up to `max_ahead` are used up. The caller must wait for the clock.
    #[error("the identifiers of this time are used up: the clock allows more in {} ms", wait.as_millis())]
    Ahead {
        /// The time until the clock allows the grant.
        wait: Duration,
    },
    /// The request exceeds the maximum size of a grant.
    #[error("one request can have at most {}", counted(max, "identifier"))]
    TooMany {
        /// The largest number of identifiers in one grant.
        max: u64,
    },
    /// The wall clock is implausibly far ahead, and no other time is known.
    #[error("the clock is not trusted: it is {} s ahead of the latest plausible time", ahead.as_secs())]
    Quarantined {
        /// The time by which the clock is ahead of the latest plausible time.
        ahead: Duration,
    },
    /// The format or layout has no identifiers for this time.
    #[error("the clock is outside the time range of the identifiers")]
    OutsideFormat,
    /// The layout cannot hold the number of the daemon's slot.
    #[error(
        "the layout holds only the slots below {slots}, but this daemon has slot {slot}: restart the daemon once a slot below {slots} is free (`kent \
         status` shows the slots), or create a layout with a wider field slot or a smaller base"
    )]
    SlotBeyondLayout {
        /// The daemon's slot.
        slot: Slot,
        /// The number of slots that fit the layout.
        slots: u8,
    },
}

impl Refusal {
    /// Returns whether the grant may succeed after waiting for the clock, a slot or its window.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::NoSlot | Self::ClockStepped { .. } | Self::WindowSpent { .. } | Self::Ahead { .. } => true,
            Self::TooMany { .. } | Self::Quarantined { .. } | Self::OutsideFormat | Self::SlotBeyondLayout { .. } => {
                false
            }
        }
    }
}

/// The outcome of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extended {
    /// The daemon holds the slot up to this second.
    Until(UnixSeconds),
    /// Another commit has changed the slot's record. The daemon must take another slot.
    Fenced,
}

/// Grants time-based identifiers below the durable ceiling of one slot.
///
/// First call [`plan_take`](Self::plan_take), commit the plan, and call [`on_committed`](Self::on_committed). Then call
/// [`grant`](Self::grant) any number of times. Before the window ends, call [`plan_extension`](Self::plan_extension),
/// commit the plan, and call `on_committed`. After a conflict or an unknown outcome, read the record and call
/// [`on_read`](Self::on_read). At the end, call [`plan_give_back`](Self::plan_give_back), after which the issuer grants
/// nothing.
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

/// The slot that this daemon holds, and the second after which the slot's ticks belong to this daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    slot: Slot,
    stored: Stored<SlotRecord>,
    start: Option<UnixSeconds>,
}

/// A custom layout that is granted through a slot.
#[derive(Clone, Copy, Debug)]
pub struct TimedLayout<'l> {
    /// The layout's stable number. Each layout has its own sequence.
    pub number: u64,
    /// The layout.
    pub layout: &'l Layout,
    /// The value that the request supplies: 0 if the layout has no field for it.
    pub tag: u64,
}

/// What a sequence belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TrackKey {
    /// The formats with this [`sequence_key`](Format::sequence_key).
    Formats(&'static str),
    /// The layout with this number.
    Layout(u64),
}

/// The sequence of one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Track {
    key: TrackKey,
    line: Line,
    sequence: Sequence,
}

impl TimeIssuer {
    /// Returns the daemon run to which the issuer belongs.
    pub const fn holder(&self) -> HolderId {
        self.holder
    }

    /// Creates an issuer without a slot, for the daemon run `holder`.
    pub fn new(policy: ClockPolicy, holder: HolderId, key: ClusterKey) -> Self {
        let window = policy.window_first;
        Self { policy, holder, key, clock: Clock::default(), window, held: None, tracks: Vec::new() }
    }

    /// Plans to take a slot at `now`, given all slots that have a record, and the holders known to be alive. A new
    /// slot's node is made from `random`.
    ///
    /// # Errors
    ///
    /// Fails with [`AllSlotsReserved`] if every slot is reserved.
    pub fn plan_take(
        &self,
        records: &[(Slot, Stored<SlotRecord>)],
        alive: &[HolderId],
        now: UnixNanos,
        random: u64,
    ) -> Result<SlotPlan, AllSlotsReserved> {
        let (slot, read) = choose_slot(records, alive, now)?;
        let until = self.horizon(now, self.policy.window_first);
        Ok(SlotPlan::take(slot, read, self.holder, now.ceil_seconds(), until, random))
    }

    /// Plans to raise the slot's ceiling, if a slot is held and at most three quarters of the window are left at `now`.
    pub fn plan_extension(&self, now: UnixNanos) -> Option<SlotPlan> {
        let held = self.held?;
        let window = self.window.saturating_mul(2).min(self.policy.window_last);
        let due = self.window * 3 / 4 + self.policy.max_ahead;
        let left = held.stored.value.reserved_until.nanos().get() - now.get();
        let until = self.horizon(now, window);
        (left <= nanos(due) && until > held.stored.value.reserved_until)
            .then(|| SlotPlan::rewrite(held.slot, held.stored, now.ceil_seconds(), until))
    }

    /// Applies a plan that is durable at `version`. Only this call raises the ceiling.
    pub fn on_committed(&mut self, plan: SlotPlan, version: u64, now: UnixNanos) {
        // Records this reading, so that the daemon leaves the slot if the clock goes back after it.
        self.observe(now);
        let stored = Stored { version, value: *plan.record() };
        if self.holds(&stored.value, plan.slot()) {
            self.window = self.window.saturating_mul(2).min(self.policy.window_last);
            self.raise(stored);
        } else if self.held.is_none() && plan.start().is_none_or(|start| start.nanos() < now) {
            // The slot is used only if the ticks of earlier commits have passed. If the clock went back after the slot
            // was chosen, these ticks may be in the future again.
            self.window = self.policy.window_first;
            self.held = Some(Held { slot: plan.slot(), stored, start: plan.start() });
            self.open_tracks();
        }
    }

    /// Handles the slot's record, read after a conflict or an unknown outcome.
    ///
    /// The slot is ours only while its record has the version of our last answered commit. A later version may not be
    /// ours even if it has our holder ID: a clone of this machine has the same holder ID, epoch and memory.
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

    /// Records a reading of the clock. If the clock went back beyond the tolerance, leaves the slot and returns the
    /// size of the step.
    pub fn observe(&mut self, now: UnixNanos) -> Option<Duration> {
        let back = self.clock.observe(now, self.policy.tolerance)?;
        self.leave();
        // By the new clock, earlier grants are in the future, so the new slot gets new sequences.
        self.tracks.clear();
        Some(back)
    }

    /// Grants a block of `count` identifiers of `format` at `now`.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] if nothing is granted.
    pub fn grant(&mut self, format: Format, count: NonZeroU64, now: UnixNanos) -> Result<TimeGrant, Refusal> {
        let key = TrackKey::Formats(format.sequence_key());
        self.grant_run((key, format.line()), count, now, |constants, first| {
            Block::slot(format, constants, first, count.get())
        })
    }

    /// Grants a block of `count` identifiers of a custom layout at `now`.
    ///
    /// # Errors
    ///
    /// Fails with a [`Refusal`] if nothing is granted. A layout without a time fails with
    /// [`Refusal::OutsideFormat`].
    pub fn grant_layout(
        &mut self,
        TimedLayout { number, layout, tag }: TimedLayout<'_>,
        count: NonZeroU64,
        now: UnixNanos,
    ) -> Result<TimeGrant, Refusal> {
        let (line, slots) = (layout.line().ok_or(Refusal::OutsideFormat)?, layout.slots());
        if let Some((slot, _)) = self.held().filter(|(slot, _)| slot.get() >= slots) {
            return Err(Refusal::SlotBeyondLayout { slot, slots });
        }
        self.grant_run((TrackKey::Layout(number), line), count, now, |constants, first| {
            let constants = LayoutConstants { layout: layout.clone(), granted: Granted::Slot(constants), tag };
            Block::layout(constants, first, count.get())
        })
    }

    /// Grants a run of `count` positions of a line, and makes a block of it.
    #[inline]
    fn grant_run(
        &mut self,
        (key, line): (TrackKey, &Line),
        count: NonZeroU64,
        now: UnixNanos,
        block: impl FnOnce(SlotConstants, Position) -> Result<Block, BlockError>,
    ) -> Result<TimeGrant, Refusal> {
        if let Some(back) = self.observe(now) {
            return Err(Refusal::ClockStepped { back });
        }
        let held = self.held.ok_or(Refusal::NoSlot)?;
        let max = self.max_count(line);
        if count.get() > max {
            return Err(Refusal::TooMany { max });
        }
        let floor = line.floor(now).ok_or(Refusal::OutsideFormat)?;
        let limit = self.limit(line, now);
        let sequence = self.sequence(key, line, held);
        check_ahead(line, sequence.next().max(floor), count, limit)?;
        let reserved_until = held.stored.value.reserved_until;
        let first = sequence.grant(floor, count.get().into()).map_err(|_| match line.end() == sequence.ceiling() {
            true => Refusal::OutsideFormat,
            false => Refusal::WindowSpent { reserved_until },
        })?;
        let block = block(self.constants(held), first).map_err(|_| Refusal::OutsideFormat)?;
        Ok(TimeGrant { block, clock_epoch: self.clock.epoch })
    }

    /// Plans to give back the slot's unused time, if there is any. After this call, the issuer grants nothing, even if
    /// the commit fails.
    pub fn plan_give_back(&mut self) -> Option<SlotPlan> {
        let held = self.held?;
        let used = self.tracks.iter().filter_map(Track::last_second).max();
        let until = used.max(held.start).unwrap_or(UnixSeconds::new(0));
        self.leave();
        let seen = self.clock.latest.map_or(held.stored.value.seen, UnixNanos::ceil_seconds);
        (until < held.stored.value.reserved_until).then(|| SlotPlan::rewrite(held.slot, held.stored, seen, until))
    }

    /// Returns the largest number of positions of a line in one grant: all positions of the ticks up to `max_ahead`.
    fn max_count(&self, line: &Line) -> u64 {
        let ticks = self.policy.max_ahead.as_nanos() / u128::from(line.tick_nanos()) + 1;
        u64::try_from(ticks << line.counter_bits()).unwrap_or(u64::MAX)
    }

    /// Returns the slot that this daemon holds, and its record.
    pub fn held(&self) -> Option<(Slot, &SlotRecord)> {
        self.held.as_ref().map(|held| (held.slot, &held.stored.value))
    }

    /// Returns the remaining time of the slot's window at `now`.
    pub fn window_left(&self, now: UnixNanos) -> Duration {
        let until = self.held.map(|held| held.stored.value.reserved_until.nanos().get());
        duration(until.map_or(0, |until| until - now.get()))
    }

    /// Returns the state of the clock.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the policy.
    pub const fn policy(&self) -> &ClockPolicy {
        &self.policy
    }

    /// Returns the end of a window of length `window` that starts at `now`, plus `max_ahead`, rounded up to a second.
    fn horizon(&self, now: UnixNanos, window: Duration) -> UnixSeconds {
        now.offset(nanos(window + self.policy.max_ahead)).ceil_seconds()
    }

    /// Returns the first position whose tick begins more than `max_ahead` after `now`.
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

    /// Raises every sequence to the slot's start and ceiling.
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

    fn sequence(&mut self, key: TrackKey, line: &Line, held: Held) -> &mut Sequence {
        let index = self.tracks.iter().position(|track| track.key == key).unwrap_or_else(|| {
            let sequence = Sequence::new(held.start_of(line), held.ceiling_of(line));
            self.tracks.push(Track { key, line: *line, sequence });
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
    /// Returns the first whole second at or after the last granted tick.
    fn last_second(&self) -> Option<UnixSeconds> {
        let last = self.sequence.next().get().checked_sub(1)?;
        Some(self.line.instant(Position::new(last)).ceil_seconds())
    }
}

/// Rejects a run that would reach `limit`, with the time until the clock allows the run.
fn check_ahead(line: &Line, first: Position, count: NonZeroU64, limit: Position) -> Result<(), Refusal> {
    let last = Position::new(first.get() + u128::from(count.get() - 1));
    if last < limit {
        return Ok(());
    }
    // OK because the limit is the first position after the last allowed tick.
    let allowed = Position::new(limit.get() - 1);
    let wait = line.instant(last).get() - line.instant(allowed).get();
    Err(Refusal::Ahead { wait: duration(wait) })
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// Returns a number of nanoseconds as a duration; a negative number becomes zero.
fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}
