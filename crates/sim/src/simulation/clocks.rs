//! How wrong the clocks of a run are.

use tokio::time::Instant;

use super::world::{Dice, Machine};

const MILLI: i128 = 1_000_000;
const SECOND: i128 = 1000 * MILLI;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 3600 * SECOND;
const YEAR: i128 = 365 * 24 * HOUR;
/// What a wall clock may be set to, as an offset to the truth.
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

/// How wrong the clocks of a run may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// They say anything: nothing but a restore asks anything of them.
    Wild,
    /// No two differ by more than an hour, `--clock-error`, which is what docs/restore.md assumes.
    Within,
    /// No two differ by more than a second, and restores are told so.
    Synchronized,
}

/// The same where no two clocks may differ by more than an hour. With what a machine is always ahead it makes 28 minutes at most.
const OFFSETS_WITHIN: [i128; 8] =
    [0, -10 * MILLI, -400 * MILLI, 3 * SECOND, -5 * MINUTE, 5 * MINUTE, -18 * MINUTE, 18 * MINUTE];
/// The same where no two clocks may differ by more than a second.
const OFFSETS_SYNCHRONIZED: [i128; 4] = [0, 0, -200 * MILLI, 200 * MILLI];

/// What the wall clock of one machine is always ahead of the truth.
const CONSTANT: [i128; 8] = [0, 0, 20 * MILLI, -300 * MILLI, 2 * SECOND, -5 * SECOND, 10 * 60 * SECOND, -HOUR];
/// By how many millionths it goes too fast.
const DRIFTS: [i128; 7] = [0, 0, 50, -50, 500, -20_000, 20_000];

/// The same in the other kinds of runs. Such runs last for hours, in which a drift must not add up to more than a minute.
const CONSTANT_WITHIN: [i128; 6] = [0, 20 * MILLI, -300 * MILLI, 2 * SECOND, -10 * MINUTE, 10 * MINUTE];
const CONSTANT_SYNCHRONIZED: [i128; 3] = [0, -200 * MILLI, 200 * MILLI];
const DRIFTS_WITHIN: [i128; 5] = [0, 50, -50, 500, -500];

/// The clock of one machine, which differs from those of others.
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
    /// What a clock may be set to.
    pub(crate) const fn offsets(self) -> &'static [i128] {
        match self {
            Self::Wild => &OFFSETS,
            Self::Within => &OFFSETS_WITHIN,
            Self::Synchronized => &OFFSETS_SYNCHRONIZED,
        }
    }
}
