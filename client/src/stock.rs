//! What a handle has in hand: blocks, when they were asked for, and when to fetch the next one.

use std::{collections::VecDeque, time::Duration};

use kent_ids::{Block, Id, Walk};
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::{config::Settings, error::Error};

/// The identifiers in hand. Everything here is local: what to fetch is said, not done.
#[derive(Debug)]
pub(crate) struct Stock {
    settings: Settings,
    walk: Option<Walk<StdRng>>,
    /// When the walk's block was asked for, if its identifiers age.
    asked: Option<Instant>,
    next: VecDeque<Fresh>,
    size: u64,
    asked_last: Option<Instant>,
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
    pub(crate) asked: Instant,
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

/// A block that lasts less than this makes the next one twice as large; one that lasts ten times as long, half as large.
const LASTS: Duration = Duration::from_secs(1);

impl Stock {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            size: settings.block_size,
            settings,
            walk: None,
            asked: None,
            next: VecDeque::new(),
            asked_last: None,
            fetching: false,
            failure: None,
            ended: 0,
            stats: Stats::default(),
        }
    }

    /// The next identifier in hand.
    pub(crate) fn take(&mut self) -> Option<Id> {
        if self.asked.is_some_and(|asked| asked.elapsed() > self.settings.max_age) {
            self.expire();
        }
        loop {
            if let Some(id) = self.walk.as_mut().and_then(Iterator::next) {
                self.stats.identifiers += 1;
                return Some(id);
            }
            self.advance()?;
        }
    }

    /// Begins with the next block that is not too old.
    fn advance(&mut self) -> Option<()> {
        self.walk = None;
        self.asked = None;
        let fresh = self.next.pop_front()?;
        self.asked = fresh.block.instant().map(|_| fresh.asked);
        self.walk = Some(fresh.block.walk(rand::make_rng()));
        if self.asked.is_some_and(|asked| asked.elapsed() > self.settings.max_age) {
            self.expire();
        }
        Some(())
    }

    fn expire(&mut self) {
        self.stats.expired += self.walk.take().map_or(0, |walk| walk.left());
        self.asked = None;
    }

    /// How many identifiers are in hand.
    pub(crate) fn left(&self) -> u64 {
        let waiting: u64 = self.next.iter().map(|fresh| fresh.block.count()).sum();
        self.walk.as_ref().map_or(0, Walk::left) + waiting
    }

    /// How many to fetch now, if a fetch is due and none is under way. Saying so begins it.
    pub(crate) fn begin_fetch(&mut self) -> Option<u64> {
        // OK because a share of a block's size is far below 2^53.
        let mark = (self.size as f64 * self.settings.low_water) as u64;
        if self.fetching || self.left() > mark {
            return None;
        }
        let lasted = self.asked_last.map(|asked| asked.elapsed());
        self.size = match lasted {
            Some(lasted) if lasted < LASTS => self.size.saturating_mul(2).min(self.settings.block_size_max),
            Some(lasted) if lasted > LASTS * 10 => (self.size / 2).max(self.settings.block_size),
            _ => self.size,
        };
        self.asked_last = Some(Instant::now());
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
                self.next.push_back(fresh);
            }
            Ok(None) => self.stats.fenced += 1,
            Err(error) => self.failure = Some(error),
        }
    }

    /// How many fetches have ended, and why the last one failed if it did.
    pub(crate) fn last_fetch(&self) -> (u64, Option<Error>) {
        (self.ended, self.failure.clone())
    }

    /// Counts identifiers that were fetched and given out without having been in hand.
    pub(crate) fn passed_through(&mut self, block: &Block) {
        self.stats.blocks += 1;
        self.stats.identifiers += block.count();
    }

    /// Counts a block that was refused as older than one already seen.
    pub(crate) fn refused(&mut self) {
        self.stats.fenced += 1;
    }

    /// What has been done so far.
    pub(crate) const fn stats(&self) -> Stats {
        self.stats
    }
}
