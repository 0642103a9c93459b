//! The model of counters with a pace: daemons issue from a store that is backed up, lost and restored repeatedly, with
//! clock errors up to the bound in docs/restore.md.
//!
//! Calls `kent_issue::{pay, affordable, PaceClock, Lapse}` and `kent_proto::stored::Counter::after` in the same order
//! as `crates/engine/src/issuing/cell.rs` (`try_reserve`), `crates/engine/src/issuing/pacing.rs` (`check_restored`,
//! `bound`) and `server/src/maintenance/restore.rs` (`plan`).

use std::{num::NonZeroU64, time::Duration};

use kent_ids::UnixNanos;
use kent_issue::{BURST, Lapse, PaceClock, affordable, pay};
use kent_proto::stored::Counter;
use kent_regions::{Count, Pace};
use stateright::{Model, Property};

use super::Mutant;

/// The bounds of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceModel {
    /// The lengths of time steps in seconds.
    pub(crate) ticks: &'static [i64],
    pub(crate) budget: PaceBudget,
    pub(crate) mutant: Option<Mutant>,
}

/// The maximum number of each kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PaceBudget {
    pub(crate) ticks: u8,
    pub(crate) reservations: u8,
    pub(crate) backups: u8,
    pub(crate) restores: u8,
}

/// A state of the model. Times are in seconds, and the pace is one number per second.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PaceState {
    time: i64,
    /// The counter in the current store: how many numbers are reserved, and the counter's paid-until time.
    counter: (u128, UnixNanos),
    /// The time before which a restored store must issue nothing.
    until: Option<UnixNanos>,
    clocks: [PaceClock; 2],
    /// The newest backup: its time by the clock of the daemon that made it, the counter, and the number of restores
    /// from it.
    backup: Option<(UnixNanos, (u128, UnixNanos), u8)>,
    /// The reserved ranges: start and exclusive end.
    reserved: Vec<(u128, u128)>,
    left: PaceBudget,
    is_broken: bool,
}

/// A step. A clock is given as its offset from true time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PaceStep {
    Tick(i64),
    /// A daemon reserves all numbers that the pace allows, or half of them.
    Reserve(usize, i64, Part),
    Backup(i64),
    /// All daemons stop, and the backup is restored on a host with this clock offset.
    Restore(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    All,
    Half,
}

/// Clock offsets in seconds. Any two differ by at most `--clock-error`, and adjacent ones by less than the length of a
/// burst.
const CLOCKS: [i64; 3] = [-1000, 0, 1000];
const CLOCK_ERROR: Duration = Duration::from_secs(2000);
const SECOND: i128 = 1_000_000_000;
const BEGINNING: i64 = 1_800_000_000;
/// A capacity that no run reaches.
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
        // Join adjacent ranges, because only the union of all ranges matters.
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
        // A tick that lasts until a restored store may issue does not count against the budget.
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
                // Daemons are interchangeable, so their order does not matter.
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
            Property::sometimes("two stores restored from one backup issue", |_, state: &PaceState| {
                state.backup.is_some_and(|(.., times)| times > 1) && state.reserved.len() > 2
            }),
        ]
    }
}

/// Marks a tick that lasts until a restored store may issue, according to a correct clock.
const WAIT: i64 = i64::MAX;
