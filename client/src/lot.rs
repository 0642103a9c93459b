//! Lots: what each thread has in hand by itself, so that taking an identifier touches nothing that other threads touch.
//!
//! A lot is cut off the stock that all threads share, and its identifiers are made at once. When a thread ends, the next one
//! that begins goes on with its lot.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use kent_ids::{Block, Tails};
use tokio::time::Instant;

use crate::{age::Ages, handle::Identifier};

/// The most identifiers of a lot: enough to spread the cost of a lock, few enough that a thread keeps 8 KiB.
pub(crate) const LOT_MAX: u64 = 512;

/// What one thread has in hand.
#[derive(Debug)]
pub(crate) struct Lot<T> {
    /// The next one is the last.
    ids: Vec<T>,
    /// When the block was asked for, if its identifiers age, and until when they are surely young enough.
    asked: Option<Instant>,
    good_until: u64,
    tails: Option<Tails>,
    tally: Arc<Tally>,
}

/// What a thread was given and has taken so far. Only that thread writes it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    given: AtomicU64,
    taken: AtomicU64,
}

/// Identifiers of another type than the handle gives out.
pub(crate) struct OtherType;

impl<T: Identifier> Lot<T> {
    /// An empty lot.
    pub(crate) fn new(tally: Arc<Tally>) -> Self {
        Self { ids: Vec::new(), asked: None, good_until: 0, tails: None, tally }
    }

    /// The next identifier, if one is in hand and surely young enough.
    #[inline]
    pub(crate) fn next(&mut self, ages: &Ages) -> Option<T> {
        if ages.lately() > self.good_until {
            return None;
        }
        self.pop()
    }

    /// Looks at the clock: throws away what is too old, and says how many those were.
    pub(crate) fn check_age(&mut self, ages: &Arc<Ages>) -> u64 {
        let Some(asked) = self.asked else { return 0 };
        match ages.good_until(asked) {
            Some(good_until) => {
                self.good_until = good_until;
                0
            }
            None => self.discard(),
        }
    }

    /// The next identifier; the caller has looked at the clock.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let id = self.ids.pop()?;
        add(&self.tally.taken, 1);
        Some(id)
    }

    /// Takes a block in hand, which was asked for then if its identifiers age.
    pub(crate) fn fill(&mut self, block: &Block, asked: Option<Instant>) -> Result<(), OtherType> {
        let tails = self.tails.get_or_insert_with(|| Tails::from_rng(&mut rand::rng()));
        self.ids.clear();
        extend(&mut self.ids, block, tails)?;
        self.ids.reverse();
        self.asked = asked;
        self.good_until = if asked.is_some() { 0 } else { u64::MAX };
        add(&self.tally.given, block.count());
        Ok(())
    }

    fn discard(&mut self) -> u64 {
        let discarded = self.ids.len() as u64; // OK because a usize has 64 bits at most
        self.ids.clear();
        self.tally.given.store(self.tally.given.load(Relaxed) - discarded, Relaxed);
        discarded
    }
}

impl Tally {
    /// How many were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// How many are in hand.
    pub(crate) fn left(&self) -> u64 {
        self.given.load(Relaxed).saturating_sub(self.taken.load(Relaxed))
    }
}

/// Adds to a number that only the calling thread writes.
#[inline]
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}

/// Appends the identifiers of a block.
pub(crate) fn extend<T: Identifier>(ids: &mut Vec<T>, block: &Block, tails: &mut Tails) -> Result<(), OtherType> {
    let (kind, before) = (block.kind(), ids.len());
    block.values(tails, |values| T::extend(ids, kind, values));
    let made = (ids.len() - before) as u64; // OK because a usize has 64 bits at most
    if made == block.count() { Ok(()) } else { Err(OtherType) }
}
