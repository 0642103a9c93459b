//! The model of counters that keep a pace: a store is drawn from, backed up, lost, and restored again and again, by clocks that are wrong
//! by as much as docs/restore.md allows.
//!
//! Drives `kent_issue::{pay, affordable, PaceClock, Lapse}` and `kent_proto::stored::Counter::after` in the order of
//! `server/src/issuing/cell.rs` (`try_reserve`), `server/src/issuing/pacing.rs` (`check_restored`, `bound`) and `server/src/maintenance/restore.rs` (`plan`).

use std::{num::NonZeroU64, time::Duration};

use kent_ids::UnixNanos;
use kent_issue::{BURST, Lapse, PaceClock, affordable, pay};
use kent_proto::stored::Counter;
use kent_regions::{Count, Pace};
use stateright::{Model, Property};

use super::Mutant;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceModel {
    /// How much time may pass at once, in seconds.
    pub(crate) ticks: &'static [i64],
    pub(crate) budget: PaceBudget,
    pub(crate) mutant: Option<Mutant>,
}

/// How often what may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PaceBudget {
    pub(crate) ticks: u8,
    pub(crate) reservations: u8,
    pub(crate) backups: u8,
    pub(crate) restores: u8,
}

/// A state of the whole. Times are in seconds, and a second is worth one number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PaceState {
    time: i64,
    /// The counter of the store that is in use, as far as it is not `NEW`: reserved, and paid until.
    counter: (u128, UnixNanos),
    /// Before this nothing is issued from the store, which was restored.
    until: Option<UnixNanos>,
    clocks: [PaceClock; 2],
    /// The newest backup: when it was taken by the clock of the daemon that made it, and the counter; and how often it was restored.
    backup: Option<(UnixNanos, (u128, UnixNanos), u8)>,
    /// What was reserved: from, and up to.
    reserved: Vec<(u128, u128)>,
    left: PaceBudget,
    is_broken: bool,
}

/// A step. Clocks are told by what they are ahead of the truth, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PaceStep {
    Tick(i64),
    /// A daemon reserves all that can be paid for, or half of it.
    Reserve(usize, i64, Part),
    Backup(i64),
    /// All daemons end, and the backup is restored on a host with this clock.
    Restore(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    All,
    Half,
}

/// They differ by `--clock-error` at the most, and by less than a burst from one to the next.
const CLOCKS: [i64; 3] = [-1000, 0, 1000];
const CLOCK_ERROR: Duration = Duration::from_secs(2000);
const SECOND: i128 = 1_000_000_000;
const BEGINNING: i64 = 1_800_000_000;
/// More than any run reserves.
const CAPACITY: Count = Count::Below(1 << 40);

fn pace() -> Pace {
    Pace::per_second(NonZeroU64::MIN)
}

fn nanos(seconds: i64) -> UnixNanos {
    UnixNanos::new(i128::from(seconds) * SECOND)
}

impl PaceState {
    fn clock(&self, ahead: i64) -> UnixNanos {
        nanos(BEGINNING + self.time + ahead)
    }

    fn reserve(&mut self, daemon: usize, ahead: i64, part: Part) -> Option<()> {
        let wall = self.clock(ahead);
        if self.until.is_some_and(|until| wall < until) {
            return None;
        }
        let (below, paid) = self.counter;
        let clock = &mut self.clocks[daemon];
        clock.read(Some(wall), Duration::from_secs(u64::try_from(self.time).ok()?));
        let now = clock.catch_up(paid);
        let most = affordable(pace(), paid, now);
        let count = if part == Part::All { most } else { most / 2 };
        if count == 0 {
            return None;
        }
        self.counter = (below + count, pay(pace(), paid, now, count).ok()?);
        let run = (below, below + count);
        self.is_broken |= self.reserved.iter().any(|(from, to)| run.0 < *to && *from < run.1);
        // Runs that follow each other are one: only what is covered matters.
        match self.reserved.iter_mut().find(|(_, to)| *to == run.0) {
            Some(before) => before.1 = run.1,
            None => self.reserved.push(run),
        }
        self.reserved.sort_unstable();
        Some(())
    }

    fn restore(&mut self, ahead: i64, mutant: Option<Mutant>) -> Option<()> {
        let now = self.clock(ahead);
        let (taken, counter, times) = self.backup?;
        let (reserved, paid) = counter;
        let mut lapse = Lapse::since_backup(taken, paid, now, CLOCK_ERROR).ok()?;
        match mutant {
            Some(Mutant::NoSlack) => lapse.since = taken,
            Some(Mutant::NoClockError) => lapse.until = now,
            _ => {}
        }
        let from = Counter { reserved: Count::Below(reserved), paid, unsure: false };
        let after = |lapse| from.after(&lapse, pace(), CAPACITY);
        let skips_to = after(match mutant {
            Some(Mutant::NoBurst) => Lapse { until: lapse.until.offset(-(BURST.as_nanos() as i128)), ..lapse },
            _ => lapse,
        });
        let below = if mutant == Some(Mutant::NoSkip) { reserved } else { skips_to.reserved.get()? };
        let paid = if mutant == Some(Mutant::RestoreUnpaid) { paid } else { after(lapse).paid };
        self.counter = (below, paid);
        self.until = Some(lapse.until);
        self.clocks = [PaceClock::default(); 2];
        self.backup = Some((taken, counter, times + 1));
        Some(())
    }
}

impl Model for PaceModel {
    type State = PaceState;
    type Action = PaceStep;

    fn init_states(&self) -> Vec<PaceState> {
        vec![PaceState {
            time: 0,
            counter: (0, UnixNanos::new(0)),
            until: None,
            clocks: [PaceClock::default(); 2],
            backup: None,
            reserved: Vec::new(),
            left: self.budget,
            is_broken: false,
        }]
    }

    fn actions(&self, state: &PaceState, actions: &mut Vec<PaceStep>) {
        let left = state.left;
        if left.ticks > 0 {
            actions.extend(self.ticks.iter().copied().map(PaceStep::Tick));
        }
        if left.reservations > 0 {
            for daemon in 0..state.clocks.len() {
                for ahead in CLOCKS {
                    actions.extend([Part::All, Part::Half].map(|part| PaceStep::Reserve(daemon, ahead, part)));
                }
            }
        }
        if left.backups > 0 {
            actions.extend(CLOCKS.map(PaceStep::Backup));
        }
        if left.restores > 0 && state.backup.is_some() {
            actions.extend(CLOCKS.map(PaceStep::Restore));
        }
        // Time that only passes before a restored store issues.
        if state.until.is_some() && left.reservations > 0 {
            actions.push(PaceStep::Tick(WAIT));
        }
    }

    fn next_state(&self, last: &PaceState, step: PaceStep) -> Option<PaceState> {
        let mut state = last.clone();
        match step {
            PaceStep::Tick(WAIT) => {
                let until = state.until.filter(|until| state.clock(0) < *until)?;
                let seconds = (until.get() - state.clock(0).get()).div_euclid(SECOND);
                state.time += i64::try_from(seconds).ok()?;
            }
            PaceStep::Tick(seconds) => {
                state.left.ticks -= 1;
                state.time += seconds;
            }
            PaceStep::Reserve(daemon, ahead, part) => {
                state.left.reservations -= 1;
                state.reserve(daemon, ahead, part)?;
                // Who is who makes no difference.
                state.clocks.sort_by_key(super::shared::hash);
            }
            PaceStep::Backup(ahead) => {
                state.left.backups -= 1;
                state.backup = Some((state.clock(ahead), state.counter, 0));
            }
            PaceStep::Restore(ahead) => {
                state.left.restores -= 1;
                state.restore(ahead, self.mutant)?;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no number is reserved twice", |_, state: &PaceState| !state.is_broken),
            Property::sometimes("two stores of one backup are drawn from", |_, state: &PaceState| {
                state.backup.is_some_and(|(.., times)| times > 1) && state.reserved.len() > 2
            }),
        ]
    }
}

/// Until a clock that is right is past the moment from which on a restored store issues.
const WAIT: i64 = i64::MAX;
