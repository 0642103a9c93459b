//! The stock of a handle: its prefetched blocks, their ages, and when to fetch the next one.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kent_ids::Block;

use crate::{age::Ages, clock, config::Settings, error::Error, lot::LOT_MAX};

/// The prefetched blocks of a handle. The stock decides when to fetch and how much. The handle makes the calls.
#[derive(Debug)]
pub(crate) struct Stock {
    settings: Settings,
    ages: Arc<Ages>,
    /// Lots are cut from the first block.
    blocks: VecDeque<Fresh>,
    /// The number of identifiers to fetch next.
    size: u64,
    /// The time at which the last fetch started.
    asked_last: Option<Duration>,
    fetching: bool,
    failure: Option<Error>,
    /// The number of finished fetches.
    ended: u64,
    /// The number of consecutive blocks that the fences rejected.
    refused: u32,
    stats: Stats,
}

/// A fetched block and when it was requested.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) block: Block,
    pub(crate) asked: Duration,
}

/// The counters of a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of blocks that were fetched.
    pub blocks: u64,
    /// The number of identifiers that were returned to callers.
    pub identifiers: u64,
    /// The number of identifiers that were discarded because they were too old.
    pub expired: u64,
    /// The number of blocks that were rejected because a higher fencing token of the same slot or region had already
    /// been seen.
    pub fenced: u64,
}

/// A block is cut into at least this many lots, if it has enough identifiers, so that many threads can share it.
const LOTS: u64 = 16;

/// After this many rejected blocks in a row, the handle fails. With the pauses in between, that takes longer than the
/// five seconds after which a lagging replica compares its tables with the store again.
const REFUSED_MAX: u32 = 300;

/// If a block lasts less than this time, the next block is twice as large. If a block lasts more than ten times as
/// long, the next block is half as large.
const LASTS: Duration = Duration::from_secs(1);

impl Stock {
    pub(crate) fn new(settings: Settings, ages: Arc<Ages>) -> Self {
        Self {
            size: settings.block_size,
            settings,
            ages,
            blocks: VecDeque::new(),
            asked_last: None,
            fetching: false,
            failure: None,
            ended: 0,
            refused: 0,
            stats: Stats::default(),
        }
    }

    /// Cuts a lot for one thread from the oldest block that is young enough. Also returns when the block was requested, if its
    /// identifiers age.
    pub(crate) fn cut_lot(&mut self) -> Option<(Block, Option<Duration>)> {
        let lot = (self.size / LOTS).clamp(1, LOT_MAX);
        self.cut(lot)
    }

    /// Cuts at most `count` identifiers from the first block that is young enough, and discards the blocks before it.
    pub(crate) fn cut(&mut self, count: u64) -> Option<(Block, Option<Duration>)> {
        loop {
            let Fresh { block, asked } = self.blocks.pop_front()?;
            let aging = block.instant().map(|_| asked);
            if aging.is_some_and(|asked| !self.ages.is_young(asked)) {
                self.stats.expired += block.count();
                continue;
            }
            let (front, rest) = block.take_front(count);
            if let Some(block) = rest {
                self.blocks.push_front(Fresh { block, asked });
            }
            return Some((front, aging));
        }
    }

    /// Counts identifiers that a lot has discarded.
    pub(crate) fn expired(&mut self, count: u64) {
        self.stats.expired += count;
    }

    /// Returns the number of identifiers in the stock, without those in lots.
    pub(crate) fn left(&self) -> u64 {
        self.blocks.iter().map(|fresh| fresh.block.count()).sum()
    }

    /// Starts a fetch if the stock is low and no other fetch is in progress. Returns how many identifiers to fetch.
    pub(crate) fn begin_fetch(&mut self) -> Option<u64> {
        self.begin_fetch_at(clock::now())
    }

    fn begin_fetch_at(&mut self, now: Duration) -> Option<u64> {
        // OK because a share of a block's size is far below 2^53.
        let mark = (self.size as f64 * self.settings.low_water) as u64;
        if self.fetching || self.left() > mark {
            return None;
        }
        let lasted = self.asked_last.map(|asked| now.saturating_sub(asked));
        self.size = match lasted {
            Some(lasted) if lasted < LASTS => self.size.saturating_mul(2).min(self.settings.block_size_max),
            Some(lasted) if lasted > LASTS * 10 => (self.size / 2).max(self.settings.block_size),
            _ => self.size,
        };
        self.asked_last = Some(now);
        self.fetching = true;
        Some(self.size)
    }

    /// Records the result of a fetch. `None` means that the fences rejected the block.
    pub(crate) fn end_fetch(&mut self, outcome: Result<Option<Fresh>, Error>) {
        self.fetching = false;
        self.ended += 1;
        self.failure = None;
        match outcome {
            Ok(Some(fresh)) => {
                self.refused = 0;
                self.stats.blocks += 1;
                self.blocks.push_back(fresh);
            }
            Ok(None) => self.failure = self.refused().err(),
            Err(error) => self.failure = Some(error),
        }
    }

    /// Returns the number of finished fetches, and the error of the last one if it failed.
    pub(crate) fn last_fetch(&self) -> (u64, Option<Error>) {
        (self.ended, self.failure.clone())
    }

    /// Counts a block that was fetched for a caller and was never in the stock.
    pub(crate) fn passed_through(&mut self, block: &Block) {
        self.refused = 0;
        self.stats.blocks += 1;
        self.gave(block.count());
    }

    /// Counts identifiers that were returned to a caller without a lot.
    pub(crate) fn gave(&mut self, count: u64) {
        self.stats.identifiers += count;
    }

    /// Counts a block that the fences rejected. Fails after too many rejected blocks in a row, because a newer block
    /// may never arrive.
    pub(crate) fn refused(&mut self) -> Result<(), Error> {
        self.stats.fenced += 1;
        self.refused = self.refused.saturating_add(1);
        if self.refused < REFUSED_MAX { Ok(()) } else { Err(Error::Fenced { refused: self.refused }) }
    }

    /// Returns the counters. They do not include identifiers that were returned from lots.
    pub(crate) const fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use kent_ids::{Position, RegionConstants, Suffixes};

    use super::*;
    use crate::lot::tests::block as ageing;

    const SETTINGS: Settings = Settings {
        connect_timeout: LASTS,
        attempt_timeout: LASTS,
        request_timeout: LASTS,
        block_size: 100,
        block_size_max: 500,
        low_water: 0.5,
        max_age: LASTS,
        discover: false,
        follow_heirs: false,
        needs_privacy: false,
    };
    const NANOSECOND: Duration = Duration::from_nanos(1);

    fn stock(max_age: Duration) -> Stock {
        Stock::new(SETTINGS, Ages::unwatched(max_age))
    }

    /// Returns a block of a region, whose identifiers do not age.
    fn block(count: u64) -> Block {
        let constants =
            RegionConstants { base: 0, bits: 64, suffix_bits: 64, number: 7, revision: 1, suffixes: Suffixes::EVERY };
        Block::region(constants, Position::ZERO, count).expect("a block")
    }

    fn add(stock: &mut Stock, block: Block) {
        stock.end_fetch(Ok(Some(Fresh { block, asked: Duration::ZERO })));
    }

    #[test]
    fn ok_a_fetch_is_due_when_half_a_block_is_left_and_none_is_in_progress() {
        let mut stock = stock(Duration::MAX);
        assert_eq!((stock.begin_fetch_at(LASTS), stock.begin_fetch_at(LASTS)), (Some(100), None));
        add(&mut stock, block(100));
        assert_eq!(stock.left(), 100);
        assert_eq!(stock.cut(49).map(|(block, _)| block.count()), Some(49));
        assert_eq!((stock.left(), stock.begin_fetch_at(LASTS * 3)), (51, None));
        assert!(stock.cut(1).is_some());
        assert_eq!((stock.left(), stock.begin_fetch_at(LASTS * 3)), (50, Some(100)));
    }

    #[test]
    fn ok_an_empty_stock_is_due_at_any_time() {
        assert_eq!(stock(Duration::MAX).begin_fetch(), Some(100));
    }

    #[test]
    fn ok_the_block_size_follows_the_rate_within_its_bounds() {
        let (mut stock, mut now) = (stock(Duration::MAX), LASTS);
        for (lasted, size) in [
            (LASTS, 100),
            (LASTS - NANOSECOND, 200),
            (LASTS, 200),
            (Duration::ZERO, 400),
            (Duration::ZERO, 500),
            (LASTS * 10, 500),
            (LASTS * 10 + NANOSECOND, 250),
            (LASTS * 11, 125),
            (LASTS * 11, 100),
        ] {
            now += lasted;
            assert_eq!(stock.begin_fetch_at(now), Some(size), "after {lasted:?}");
            add(&mut stock, block(size));
            stock.cut(size);
        }
    }

    #[test]
    fn ok_a_lot_is_a_sixteenth_of_a_block_within_bounds() {
        for (block_size, lot) in [(1, 1), (31, 1), (32, 2), (8192, 512), (1_000_000, 512)] {
            let mut stock = Stock::new(Settings { block_size, ..SETTINGS }, Ages::unwatched(Duration::MAX));
            add(&mut stock, block(block_size));
            assert_eq!(stock.cut_lot().map(|(block, _)| block.count()), Some(lot), "of {block_size}");
        }
    }

    #[test]
    fn ok_cuts_are_contiguous_and_have_an_age() {
        let mut stock = stock(Duration::MAX);
        stock.end_fetch(Ok(Some(Fresh { block: block(10), asked: LASTS })));
        stock.end_fetch(Ok(Some(Fresh { block: ageing(5), asked: LASTS * 2 })));
        let cut: Vec<_> = std::iter::from_fn(|| stock.cut(4)).map(|(block, asked)| (block.count(), asked)).collect();
        assert_eq!(cut, [(4, None), (4, None), (2, None), (4, Some(LASTS * 2)), (1, Some(LASTS * 2))]);
        assert_eq!((stock.left(), stock.stats().expired), (0, 0));
    }

    #[test]
    fn ok_old_identifiers_are_discarded_and_counted() {
        let mut stock = stock(NANOSECOND);
        add(&mut stock, ageing(5));
        add(&mut stock, ageing(3));
        add(&mut stock, block(2));
        assert_eq!(stock.cut(4).map(|(block, asked)| (block.count(), asked)), Some((2, None)));
        stock.expired(4);
        assert_eq!(stock.stats(), Stats { blocks: 3, expired: 12, ..Stats::default() });
    }

    #[test]
    fn err_many_rejected_blocks_in_a_row() {
        let mut stock = stock(Duration::MAX);
        for _ in 0..2 {
            for _ in 1..REFUSED_MAX {
                stock.end_fetch(Ok(None));
                assert!(stock.last_fetch().1.is_none());
            }
            for refused in REFUSED_MAX..REFUSED_MAX + 2 {
                stock.end_fetch(Ok(None));
                assert!(matches!(stock.last_fetch().1, Some(Error::Fenced { refused: said }) if said == refused));
            }
            add(&mut stock, block(2));
            assert!(stock.last_fetch().1.is_none() && stock.refused().is_ok());
            stock.passed_through(&block(2));
        }
    }

    #[test]
    fn ok_finished_fetches_are_counted_and_the_last_error_is_kept() {
        let mut stock = stock(Duration::MAX);
        stock.end_fetch(Err(Error::Forked));
        assert!(matches!(stock.last_fetch(), (1, Some(Error::Forked))));
        stock.end_fetch(Ok(None));
        assert!(matches!(stock.last_fetch(), (2, None)));
        add(&mut stock, block(2));
        assert!(matches!(stock.last_fetch(), (3, None)));
        stock.passed_through(&block(20));
        stock.gave(300);
        stock.refused().expect("the first");
        assert_eq!(stock.stats(), Stats { blocks: 2, identifiers: 320, expired: 0, fenced: 2 });
    }
}
