//! Lots: the identifiers that each thread holds for itself, so that threads take identifiers without contention.
//!
//! A lot is cut from the stock that all threads share, and all its identifiers are generated when it is filled. After a
//! thread has ended, a new thread can take over its lot.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_ids::{Block, Tails};
use rand::{rand_core::UnwrapErr, rngs::SysRng};

use crate::{
    age::{Age, Ages},
    clock,
    identifier::Identifier,
    origin::Origin,
};

/// The maximum number of identifiers in a lot: enough to amortize the cost of the lock, few enough that a thread holds
/// at most 8 KiB.
pub(crate) const LOT_MAX: u64 = 512;

/// If a thread takes identifiers at least this often, one read of the clock is enough for several of them.
const BURST: Duration = Duration::from_nanos(250);

/// The maximum number of identifiers that a thread takes without another read of the clock. If the process is stopped
/// in the middle of such a run, an identifier can be too old by the duration of the stop.
const RUN_MAX: u32 = 127;

/// The identifiers of one thread.
#[derive(Debug)]
pub(crate) struct Lot<T> {
    /// The process that owns the lot.
    origin: Origin,
    /// The identifiers, including those that were taken.
    ids: Vec<T>,
    /// How many identifiers the thread had taken when the lot was filled. The counter `taken` of the tally also says
    /// which identifier is next, so that taking one changes only one number in memory.
    filled_at: u64,
    /// The time at which the block was requested, if its identifiers age.
    asked: Option<Duration>,
    /// When the thread has taken this many identifiers, the clock must be read again.
    checked: u64,
    /// The published time after which the clock must be read again.
    until: u64,
    /// The time of the last read of the clock.
    looked: Duration,
    /// The number of identifiers that may follow the checked one without another read of the clock.
    run: u32,
    tails: Option<Tails>,
    tally: Arc<Tally>,
}

/// Counts the identifiers that a thread received and took. Only that thread writes these counters.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    given: AtomicU64,
    taken: AtomicU64,
}

/// An error: the identifiers do not have the handle's type.
pub(crate) struct OtherType;

impl<T: Identifier> Lot<T> {
    /// Returns an empty lot.
    pub(crate) fn new(origin: Origin, tally: Arc<Tally>) -> Self {
        let (ids, asked, looked) = (Vec::new(), None, Duration::ZERO);
        Self { origin, ids, filled_at: 0, asked, checked: 0, until: 0, looked, run: 0, tails: None, tally }
    }

    /// Returns the next identifier, if there is one and the clock need not be read for it.
    #[inline]
    pub(crate) fn next(&mut self, ages: &Ages) -> Option<T> {
        let taken = self.tally.taken();
        if taken >= self.checked || ages.lately() > self.until || self.origin.is_elsewhere() {
            return None;
        }
        self.take(taken)
    }

    /// Reads the clock and discards the lot if it is too old. Returns the number of discarded identifiers.
    pub(crate) fn check_age(&mut self, ages: &Arc<Ages>) -> u64 {
        if self.asked.is_some() { self.check_age_at(ages, clock::now()) } else { 0 }
    }

    fn check_age_at(&mut self, ages: &Arc<Ages>, now: Duration) -> u64 {
        let Some(asked) = self.asked else { return 0 };
        let served = self.run + 1;
        let is_burst = now.saturating_sub(self.looked) <= BURST * served;
        self.looked = now;
        (self.run, self.until) = match ages.of(asked, now) {
            Age::Old => return self.discard(),
            Age::YoungFor(until) if is_burst => ((served * 2 - 1).min(RUN_MAX), until),
            Age::Young | Age::YoungFor(_) => (0, 0),
        };
        self.checked = self.tally.taken() + 1 + u64::from(self.run);
        0
    }

    /// Returns the next identifier. The caller has checked the age.
    pub(crate) fn take_checked(&mut self) -> Option<T> {
        self.take(self.tally.taken())
    }

    /// Returns the next identifier of a thread that has taken this many.
    #[inline]
    fn take(&mut self, taken: u64) -> Option<T> {
        // OK because a lot has far fewer identifiers than a usize can count.
        let id = *self.ids.get((taken - self.filled_at) as usize)?;
        self.tally.taken.store(taken + 1, Relaxed);
        Some(id)
    }

    /// Fills the lot with a block. `asked` is when the block was requested, if its identifiers age.
    pub(crate) fn fill(&mut self, block: &Block, asked: Option<Duration>) -> Result<(), OtherType> {
        let tails = self.tails.get_or_insert_with(new_tails);
        self.ids.clear();
        (self.filled_at, self.asked) = (self.tally.taken(), asked);
        extend(&mut self.ids, block, tails)?;
        // If the identifiers age, the clock is read before the first one is taken.
        (self.checked, self.until) = if asked.is_some() { (0, 0) } else { (u64::MAX, u64::MAX) };
        self.tally.given.store(self.tally.given.load(Relaxed) + block.count(), Relaxed);
        Ok(())
    }

    fn discard(&mut self) -> u64 {
        // OK because a usize has at most 64 bits.
        let discarded = self.ids.len() as u64 - (self.tally.taken() - self.filled_at);
        self.ids.clear();
        self.filled_at = self.tally.taken();
        self.tally.given.store(self.tally.given.load(Relaxed) - discarded, Relaxed);
        discarded
    }
}

impl Tally {
    /// Returns the number of identifiers taken.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Returns the number of identifiers left.
    pub(crate) fn left(&self) -> u64 {
        self.given.load(Relaxed).saturating_sub(self.taken.load(Relaxed))
    }
}

/// Returns a generator of random tails, seeded by the operating system. A thread-local generator would produce the same
/// numbers in a forked child.
pub(crate) fn new_tails() -> Tails {
    Tails::from_rng(&mut UnwrapErr(SysRng))
}

/// Appends the identifiers of a block.
pub(crate) fn extend<T: Identifier>(ids: &mut Vec<T>, block: &Block, tails: &mut Tails) -> Result<(), OtherType> {
    let (kind, before) = (block.kind(), ids.len());
    block.values(tails, |values| T::extend(ids, kind, values));
    let made = (ids.len() - before) as u64; // OK because a usize has at most 64 bits
    if made == block.count() { Ok(()) } else { Err(OtherType) }
}

#[cfg(test)]
pub(crate) mod tests {
    use kent_ids::{ClockSeq, ClusterKey, Format, Node, Position, Slot, SlotConstants, SlotEpoch};
    use uuid::Uuid;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const QUICK: Duration = Duration::from_nanos(1);

    /// Returns a block of identifiers that age.
    pub(crate) fn block(count: u64) -> Block {
        block_of("uuidv7", 1, count)
    }

    pub(crate) fn block_of(format: &str, epoch: u64, count: u64) -> Block {
        let (format, slot) = (Format::by_token(format).expect("a format"), Slot::new(0).expect("a slot"));
        let constants = SlotConstants {
            slot,
            epoch: SlotEpoch::new(epoch),
            node: Node::for_slot(0, slot),
            clock_seq: ClockSeq::from_random(0),
            key: ClusterKey::new([0; 16]),
        };
        Block::slot(format, constants, Position::new(1 << 40), count).expect("a block")
    }

    /// Returns a lot of a thousand identifiers, requested one second after the start of the clock, and an `Ages` with a
    /// maximum of ten seconds.
    fn lot() -> (Lot<Uuid>, Arc<Ages>) {
        let mut lot = Lot::new(Origin::here(), Arc::default());
        lot.fill(&block(1000), Some(SECOND)).ok().expect("UUIDs");
        (lot, Ages::unwatched(SECOND * 10))
    }

    /// Takes identifiers until the clock must be read, and counts them.
    fn in_a_row(lot: &mut Lot<Uuid>, ages: &Ages) -> usize {
        std::iter::from_fn(|| lot.next(ages)).count()
    }

    #[test]
    fn ok_the_clock_is_read_before_the_first_identifier() {
        let (mut lot, ages) = lot();
        assert_eq!(in_a_row(&mut lot, &ages), 0);
        assert_eq!(lot.check_age_at(&ages, SECOND * 12), 1000);
        assert_eq!((lot.take_checked(), in_a_row(&mut lot, &ages), lot.tally.left()), (None, 0, 0));
    }

    #[test]
    fn ok_received_and_taken_identifiers_are_counted() {
        let (mut lot, _) = lot();
        assert_eq!((lot.tally.taken(), lot.tally.left()), (0, 1000));
        (0..3).for_each(|_| assert!(lot.take_checked().is_some()));
        assert_eq!((lot.tally.taken(), lot.tally.left()), (3, 997));
    }

    #[test]
    fn ok_identifiers_of_the_right_type_are_appended() {
        let (mut ids, mut tails) = (Vec::<Uuid>::new(), new_tails());
        for count in [3, 4] {
            assert!(extend(&mut ids, &block(count), &mut tails).is_ok());
        }
        assert!(extend(&mut ids, &block_of("xid", 1, 5), &mut tails).is_err());
        assert_eq!(ids.len(), 7);
    }

    #[test]
    fn ok_old_identifiers_are_discarded() {
        let (mut lot, _) = lot();
        assert_eq!((lot.check_age(&Ages::unwatched(QUICK)), lot.take_checked()), (1000, None));
    }

    #[test]
    fn ok_a_stop_is_noticed_although_the_published_time_does_not_advance() {
        let (mut lot, ages) = lot();
        for looks in 0..5 {
            assert_eq!(lot.check_age_at(&ages, SECOND * 2 + Duration::from_micros(looks)), 0);
            assert!(lot.take_checked().is_some());
            assert_eq!(in_a_row(&mut lot, &ages), 0, "slow takers read the clock each time");
        }
        assert_eq!(lot.check_age_at(&ages, SECOND * 11 + QUICK), 995);
        assert_eq!(in_a_row(&mut lot, &ages), 0);
    }

    #[test]
    fn ok_a_read_of_the_clock_serves_for_a_growing_part_of_a_burst() {
        let (mut lot, ages) = lot();
        let mut now = SECOND * 2;
        let mut rows = Vec::new();
        for _ in 0..9 {
            assert_eq!(lot.check_age_at(&ages, now), 0);
            assert!(lot.take_checked().is_some());
            rows.push(in_a_row(&mut lot, &ages));
            now += QUICK;
        }
        assert_eq!(rows, [0, 1, 3, 7, 15, 31, 63, 127, 127]);
        // The first rate is just fast enough, the second one just too slow.
        now += BURST * 128 - QUICK;
        assert_eq!((lot.check_age_at(&ages, now), lot.run), (0, 127));
        now += BURST * 128 + QUICK;
        assert_eq!((lot.check_age_at(&ages, now), lot.run), (0, 0));
    }

    #[test]
    fn ok_a_new_published_time_and_a_nearly_expired_age_end_a_burst() {
        let (mut lot, ages) = lot();
        assert_eq!((lot.check_age_at(&ages, SECOND * 2), lot.check_age_at(&ages, SECOND * 2)), (0, 0));
        assert_eq!((lot.run, lot.next(&ages).is_some()), (1, true));
        assert_eq!(lot.check_age_at(&ages, SECOND * 2), 0);
        ages.publish(SECOND * 2);
        assert_eq!(in_a_row(&mut lot, &ages), 0);
        let late = SECOND * 11 - Duration::from_millis(1);
        assert_eq!((lot.check_age_at(&ages, late), lot.check_age_at(&ages, late), lot.run), (0, 0, 0));
    }

    #[test]
    fn ok_identifiers_without_age_never_need_the_clock() {
        let (mut lot, ages) = lot();
        lot.fill(&block(100), None).ok().expect("UUIDs");
        ages.publish(SECOND * 100);
        assert_eq!((lot.check_age(&ages), in_a_row(&mut lot, &ages)), (0, 100));
    }
}
