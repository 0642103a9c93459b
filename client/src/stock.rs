//! What a handle has in hand: blocks, when they were asked for, and when to fetch the next one.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kent_ids::Block;

use crate::{age::Ages, clock, config::Settings, error::Error, lot::LOT_MAX};

/// The identifiers in hand. Everything here is local: what to fetch is said, not done.
#[derive(Debug)]
pub(crate) struct Stock {
    settings: Settings,
    ages: Arc<Ages>,
    /// Lots are cut off the first.
    blocks: VecDeque<Fresh>,
    size: u64,
    asked_last: Option<Duration>,
    fetching: bool,
    failure: Option<Error>,
    /// How many fetches have ended.
    ended: u64,
    /// Blocks that were refused since one was taken.
    refused: u32,
    stats: Stats,
}

/// A block that was just fetched.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) block: Block,
    pub(crate) asked: Duration,
}

/// What a handle has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Blocks that were fetched.
    pub blocks: u64,
    /// Identifiers that were given out.
    pub identifiers: u64,
    /// Identifiers that were thrown away since they had become too old.
    pub expired: u64,
    /// Blocks that were refused since a newer one of the same slot or region had been seen.
    pub fenced: u64,
}

/// A block is cut into so many lots at least, so that many threads share it.
const LOTS: u64 = 16;

/// Blocks that are refused in a row before that is an error. With a pause after each, it takes longer than the five seconds
/// after which a replica has looked at the store again.
const REFUSED_MAX: u32 = 300;

/// A block that lasts less than this makes the next one twice as large; one that lasts ten times as long, half as large.
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

    /// Cuts a lot for one thread: a part of the oldest block that is young enough, and when that was asked for if its
    /// identifiers age.
    pub(crate) fn cut_lot(&mut self) -> Option<(Block, Option<Duration>)> {
        let lot = (self.size / LOTS).clamp(1, LOT_MAX);
        self.cut(lot)
    }

    /// Cuts at most so many identifiers off.
    pub(crate) fn cut(&mut self, count: u64) -> Option<(Block, Option<Duration>)> {
        loop {
            let Fresh { block, asked } = self.blocks.pop_front()?;
            let ageing = block.instant().map(|_| asked);
            if ageing.is_some_and(|asked| !self.ages.is_young(asked)) {
                self.stats.expired += block.count();
                continue;
            }
            let (front, rest) = block.take_front(count);
            if let Some(block) = rest {
                self.blocks.push_front(Fresh { block, asked });
            }
            return Some((front, ageing));
        }
    }

    /// Counts identifiers that were thrown away elsewhere.
    pub(crate) fn expired(&mut self, count: u64) {
        self.stats.expired += count;
    }

    /// How many identifiers are there, without those that threads have in hand by themselves.
    pub(crate) fn left(&self) -> u64 {
        self.blocks.iter().map(|fresh| fresh.block.count()).sum()
    }

    /// How many to fetch now, if a fetch is due and none is under way. Saying so begins it.
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

    /// Takes note of how a fetch ended. `None` is a block that was refused as older than one already seen.
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

    /// How many fetches have ended, and why the last one failed if it did.
    pub(crate) fn last_fetch(&self) -> (u64, Option<Error>) {
        (self.ended, self.failure.clone())
    }

    /// Counts a block that was fetched and given out without having been in hand.
    pub(crate) fn passed_through(&mut self, block: &Block) {
        self.refused = 0;
        self.stats.blocks += 1;
        self.gave(block.count());
    }

    /// Counts identifiers that were given out, not by way of a lot.
    pub(crate) fn gave(&mut self, count: u64) {
        self.stats.identifiers += count;
    }

    /// Counts a block that was refused as older than one already seen. Too many in a row are an error: no other may ever come.
    pub(crate) fn refused(&mut self) -> Result<(), Error> {
        self.stats.fenced += 1;
        self.refused = self.refused.saturating_add(1);
        if self.refused < REFUSED_MAX { Ok(()) } else { Err(Error::Fenced { refused: self.refused }) }
    }

    /// What has been done so far, without what was given out by way of lots.
    pub(crate) const fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use kent_ids::{Position, RegionConstants};

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
    };
    const AT_ONCE: Duration = Duration::from_nanos(1);

    fn stock(max_age: Duration) -> Stock {
        Stock::new(SETTINGS, Ages::unwatched(max_age))
    }

    /// A block of a region's identifiers, which do not age.
    fn block(count: u64) -> Block {
        let constants = RegionConstants { base: 0, bits: 64, suffix_bits: 64, number: 7, revision: 1, scramble: None };
        Block::region(constants, Position::ZERO, count).expect("a block")
    }

    fn fetched(stock: &mut Stock, block: Block) {
        stock.end_fetch(Ok(Some(Fresh { block, asked: Duration::ZERO })));
    }

    #[test]
    fn ok_a_fetch_is_due_when_half_a_block_is_left_and_none_is_under_way() {
        let mut stock = stock(Duration::MAX);
        assert_eq!((stock.begin_fetch_at(LASTS), stock.begin_fetch_at(LASTS)), (Some(100), None));
        fetched(&mut stock, block(100));
        assert_eq!(stock.left(), 100);
        assert_eq!(stock.cut(49).map(|(block, _)| block.count()), Some(49));
        assert_eq!((stock.left(), stock.begin_fetch_at(LASTS * 3)), (51, None));
        assert!(stock.cut(1).is_some());
        assert_eq!((stock.left(), stock.begin_fetch_at(LASTS * 3)), (50, Some(100)));
    }

    #[test]
    fn ok_a_new_stock_is_due_whatever_the_clock_says() {
        assert_eq!(stock(Duration::MAX).begin_fetch(), Some(100));
    }

    #[test]
    fn ok_blocks_follow_the_rate_between_their_bounds() {
        let (mut stock, mut now) = (stock(Duration::MAX), LASTS);
        for (lasted, size) in [
            (LASTS, 100),
            (LASTS - AT_ONCE, 200),
            (LASTS, 200),
            (Duration::ZERO, 400),
            (Duration::ZERO, 500),
            (LASTS * 10, 500),
            (LASTS * 10 + AT_ONCE, 250),
            (LASTS * 11, 125),
            (LASTS * 11, 100),
        ] {
            now += lasted;
            assert_eq!(stock.begin_fetch_at(now), Some(size), "after {lasted:?}");
            fetched(&mut stock, block(size));
            stock.cut(size);
        }
    }

    #[test]
    fn ok_a_lot_is_a_sixteenth_of_a_block_within_bounds() {
        for (block_size, lot) in [(1, 1), (31, 1), (32, 2), (8192, 512), (1_000_000, 512)] {
            let mut stock = Stock::new(Settings { block_size, ..SETTINGS }, Ages::unwatched(Duration::MAX));
            fetched(&mut stock, block(block_size));
            assert_eq!(stock.cut_lot().map(|(block, _)| block.count()), Some(lot), "of {block_size}");
        }
    }

    #[test]
    fn ok_what_is_cut_goes_on_where_the_last_one_ended_and_says_its_age() {
        let mut stock = stock(Duration::MAX);
        stock.end_fetch(Ok(Some(Fresh { block: block(10), asked: LASTS })));
        stock.end_fetch(Ok(Some(Fresh { block: ageing(5), asked: LASTS * 2 })));
        let cut: Vec<_> = std::iter::from_fn(|| stock.cut(4)).map(|(block, asked)| (block.count(), asked)).collect();
        assert_eq!(cut, [(4, None), (4, None), (2, None), (4, Some(LASTS * 2)), (1, Some(LASTS * 2))]);
        assert_eq!((stock.left(), stock.stats().expired), (0, 0));
    }

    #[test]
    fn ok_what_is_too_old_is_counted_and_passed_over() {
        let mut stock = stock(AT_ONCE);
        fetched(&mut stock, ageing(5));
        fetched(&mut stock, ageing(3));
        fetched(&mut stock, block(2));
        assert_eq!(stock.cut(4).map(|(block, asked)| (block.count(), asked)), Some((2, None)));
        stock.expired(4);
        assert_eq!(stock.stats(), Stats { blocks: 3, expired: 12, ..Stats::default() });
    }

    #[test]
    fn err_refused_blocks_in_a_row_are_an_error_until_one_is_taken() {
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
            fetched(&mut stock, block(2));
            assert!(stock.last_fetch().1.is_none() && stock.refused().is_ok());
            stock.passed_through(&block(2));
        }
    }

    #[test]
    fn ok_the_end_of_a_fetch_is_counted_and_its_failure_kept_until_the_next() {
        let mut stock = stock(Duration::MAX);
        stock.end_fetch(Err(Error::Forked));
        assert!(matches!(stock.last_fetch(), (1, Some(Error::Forked))));
        stock.end_fetch(Ok(None));
        assert!(matches!(stock.last_fetch(), (2, None)));
        fetched(&mut stock, block(2));
        assert!(matches!(stock.last_fetch(), (3, None)));
        stock.passed_through(&block(20));
        stock.gave(300);
        stock.refused().expect("the first");
        assert_eq!(stock.stats(), Stats { blocks: 2, identifiers: 320, expired: 0, fenced: 2 });
    }
}
