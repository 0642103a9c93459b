//! The clock errors in a run.

use tokio::time::Instant;

use super::world::{Dice, Machine};

const MILLI: i128 = 1_000_000;
const SECOND: i128 = 1000 * MILLI;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 3600 * SECOND;
const YEAR: i128 = 365 * 24 * HOUR;
/// The offsets from true time that a fault may set.
const OFFSETS: [i128; 14] = [
    0,
    0,
    -10 * MILLI,
    -400 * MILLI,
    -2 * SECOND,
    -HOUR,
    -24 * HOUR,
    300 * MILLI,
    3 * SECOND,
    50 * 60 * SECOND,
    HOUR,
    2 * HOUR,
    24 * HOUR,
    10 * YEAR,
];

/// The bound on clock errors in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// No bound: only restores from a backup need one.
    Wild,
    /// No two clocks differ by more than an hour, the default of `--clock-error` in docs/restore.md.
    Within,
    /// No two clocks differ by more than a second, and restores get `--clock-error 1s`.
    Synchronized,
}

/// The offsets for [`Clocks::Within`]. Together with the constant offset of a machine, they add up to at most 28
/// minutes.
const OFFSETS_WITHIN: [i128; 8] =
    [0, -10 * MILLI, -400 * MILLI, 3 * SECOND, -5 * MINUTE, 5 * MINUTE, -18 * MINUTE, 18 * MINUTE];
/// The offsets for [`Clocks::Synchronized`].
const OFFSETS_SYNCHRONIZED: [i128; 4] = [0, 0, -200 * MILLI, 200 * MILLI];

/// Constant offsets of a machine's wall clock from true time.
const CONSTANT: [i128; 8] = [0, 0, 20 * MILLI, -300 * MILLI, 2 * SECOND, -5 * SECOND, 10 * 60 * SECOND, -HOUR];
/// Drift rates of a machine's wall clock, in parts per million.
const DRIFTS: [i128; 7] = [0, 0, 50, -50, 500, -20_000, 20_000];

/// Constant offsets and drift rates for the other bounds. Such runs simulate hours, during which the drift must not
/// exceed a minute.
const CONSTANT_WITHIN: [i128; 6] = [0, 20 * MILLI, -300 * MILLI, 2 * SECOND, -10 * MINUTE, 10 * MINUTE];
const CONSTANT_SYNCHRONIZED: [i128; 3] = [0, -200 * MILLI, 200 * MILLI];
const DRIFTS_WITHIN: [i128; 5] = [0, 50, -50, 500, -500];

/// Returns a random clock for one machine.
pub(crate) fn machine(boot: Instant, dice: &Dice, clocks: Clocks) -> Machine {
    let (constants, drifts): (&[i128], &[i128]) = match clocks {
        Clocks::Wild => (&CONSTANT, &DRIFTS),
        Clocks::Within => (&CONSTANT_WITHIN, &DRIFTS_WITHIN),
        Clocks::Synchronized => (&CONSTANT_SYNCHRONIZED, &[0]),
    };
    let constant = dice.pick(constants).copied().unwrap_or_default();
    Machine::new(boot, constant, dice.pick(drifts).copied().unwrap_or_default())
}

impl Clocks {
    /// Returns the offsets that a fault may set.
    pub(crate) const fn offsets(self) -> &'static [i128] {
        match self {
            Self::Wild => &OFFSETS,
            Self::Within => &OFFSETS_WITHIN,
            Self::Synchronized => &OFFSETS_SYNCHRONIZED,
        }
    }
}
