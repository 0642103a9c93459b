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
        // OK because a share of a block's size is far below 2^53.
        let mark = (self.size as f64 * self.settings.low_water) as u64;
        if self.fetching || self.left() > mark {
            return None;
        }
        let now = clock::now();
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
                self.stats.blocks += 1;
                self.blocks.push_back(fresh);
            }
            Ok(None) => self.stats.fenced += 1,
            Err(error) => self.failure = Some(error),
        }
    }

    /// How many fetches have ended, and why the last one failed if it did.
    pub(crate) fn last_fetch(&self) -> (u64, Option<Error>) {
        (self.ended, self.failure.clone())
    }

    /// Counts a block that was fetched and given out without having been in hand.
    pub(crate) fn passed_through(&mut self, block: &Block) {
        self.stats.blocks += 1;
        self.gave(block.count());
    }

    /// Counts identifiers that were given out, not by way of a lot.
    pub(crate) fn gave(&mut self, count: u64) {
        self.stats.identifiers += count;
    }

    /// Counts a block that was refused as older than one already seen.
    pub(crate) fn refused(&mut self) {
        self.stats.fenced += 1;
    }

    /// What has been done so far, without what was given out by way of lots.
    pub(crate) const fn stats(&self) -> Stats {
        self.stats
    }
}
