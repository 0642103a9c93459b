//! Granting regions' suffixes: counters in memory, chunks from the store.

use std::{num::NonZeroU64, sync::Arc};

use kent_ids::{Block, Position, Source};
use kent_issue::Chunk;
use kent_regions::{Count, Kind, RegionNumber};
use kent_store::Store;
use tokio::time;
use tracing::debug;

use crate::{
    cell::{Attempt, Cell, Record},
    clock::Clock,
    deadline::Patience,
    directory::Directory,
    error::{AllocateError, Exhausted, NoSuchRegion},
    keys,
    space::{RegionFacts, Space},
    tasks::Tasks,
};

/// Grants regions' suffixes.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    store: Arc<dyn Store>,
    directory: Arc<Directory>,
    clock: Arc<dyn Clock>,
    chunk: Chunk,
    tasks: Tasks,
}

/// What is left of a chunk that this daemon holds.
#[derive(Clone, Debug)]
pub(crate) struct HeldChunk {
    /// Of what.
    pub(crate) source: Source,
    /// How many positions.
    pub(crate) left: u128,
}

/// A reservation that meets others is tried so often.
pub(crate) const ATTEMPTS: u32 = 16;

impl Counters {
    /// Counters of the regions of `directory`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        directory: Arc<Directory>,
        clock: Arc<dyn Clock>,
        chunk: Chunk,
        tasks: Tasks,
    ) -> Self {
        Self { store, directory, clock, chunk, tasks }
    }

    /// Grants a block of a region's suffixes, reserving a chunk if the one in hand does not hold enough.
    pub(crate) async fn grant(
        &self,
        space: &str,
        region: &str,
        count: NonZeroU64,
        patience: Patience,
    ) -> Result<Block, AllocateError> {
        let space = self.directory.find(space)?;
        for _ in 0..ATTEMPTS {
            let facts = facts(&space, region)?;
            let cell = space.cell(facts.number, self.chunk);
            if let Some(block) = grant_in_hand(&facts, &cell, count)? {
                return Ok(block);
            }
            // A reservation goes on although its caller goes away: what it reserves is then there for the next one.
            let reservation = self.clone().reserve(space.clone(), region.to_owned(), cell, count);
            let reservation = self.tasks.spawn_work(reservation);
            match time::timeout(patience.left(self.clock.steady()), reservation).await {
                Ok(Ok(reserved)) => reserved?,
                Ok(Err(_)) | Err(_) => return Err(AllocateError::Late),
            }
        }
        Err(AllocateError::Contended { attempts: ATTEMPTS })
    }

    /// Reserves a chunk that holds `count`, unless somebody else did while we waited our turn.
    async fn reserve(
        self,
        space: Arc<Space>,
        region: String,
        cell: Arc<Cell>,
        count: NonZeroU64,
    ) -> Result<(), AllocateError> {
        let reserving = cell.reserving.lock().await;
        // An edit may have come first.
        let facts = facts(&space, &region)?;
        if cell.with(|counter| counter.left()) >= count.get().into() {
            return Ok(());
        }
        let record = Record {
            key: keys::counter(space.name(), facts.number.0),
            // No chunk is cut from a region whose capacity just changed.
            guard: Some((keys::region(space.name(), facts.number.0), facts.version)),
            first: Position::ZERO,
            capacity: facts.capacity,
        };
        match cell.try_reserve(&*self.store, &record, count, self.clock.steady()).await? {
            Attempt::Reserved(reserved) => {
                space.set_reserved(facts.number, reserved);
                debug!(space = space.name(), region, %reserved, "chunk reserved");
                Ok(())
            }
            Attempt::Conflict(key) if key != record.key => {
                // An edit of ours is applied when its lock is free; if there was none, the store has moved on without us.
                // An edit takes its lock first and this one second, so this one is not kept while waiting for that.
                drop(reserving);
                let _editing = space.editing.lock().await;
                match space.versions(facts.number).1 == facts.version {
                    true => self.directory.reload(&space).await.map_err(|_| AllocateError::Contended { attempts: 1 }),
                    false => Ok(()),
                }
            }
            Attempt::Conflict(_) => Ok(()),
            Attempt::Full(full) => Err(exhausted(&space, &region, &facts, full.reserved, count)),
        }
    }

    /// The chunks that this daemon holds.
    pub(crate) fn held(&self) -> Vec<HeldChunk> {
        let spaces = self.directory.spaces();
        let chunks = spaces.iter().flat_map(|space| {
            space.cells().into_iter().filter_map(|(number, cell)| {
                let left = cell.with(|counter| counter.left());
                let region = space.read(|table| table.get(number).map(|region| region.name.clone()))?;
                let source = Source::Region { name: region, space: space.name().to_owned() };
                (left > 0).then_some(HeldChunk { source, left })
            })
        });
        chunks.collect()
    }

    /// Gives the rest of every chunk back. Nothing is granted from them any more.
    pub(crate) async fn give_back_all(&self) {
        for space in self.directory.spaces() {
            for (number, cell) in space.cells() {
                let _reserving = cell.reserving.lock().await;
                give_back(&*self.store, &space, number, &cell).await;
            }
        }
    }
}

/// Gives the rest of the chunk in hand back: see [`Cell::give_back`].
pub(crate) async fn give_back(store: &dyn Store, space: &Space, number: RegionNumber, cell: &Cell) {
    if let Some(reserved) = cell.give_back(store, &keys::counter(space.name(), number.0)).await {
        space.set_reserved(number, reserved);
    }
}

fn facts(space: &Space, region: &str) -> Result<RegionFacts, AllocateError> {
    let (space_name, region) = (space.name().to_owned(), region.to_owned());
    match space.facts(&region) {
        Err(_) => Err(NoSuchRegion { space: space_name, region }.into()),
        Ok(facts) if facts.kind == Kind::Closed => Err(AllocateError::Closed { space: space_name, region }),
        Ok(facts) => Ok(facts),
    }
}

/// A block from the chunk in hand, if it holds enough.
fn grant_in_hand(facts: &RegionFacts, cell: &Cell, count: NonZeroU64) -> Result<Option<Block>, AllocateError> {
    let Ok(first) = cell.with(|counter| counter.grant(count.get())) else { return Ok(None) };
    // A chunk counts as issued, so no edit takes it away: a block that does not fit is a bug, and must not be given out.
    Block::region(facts.constants, first, count.get()).map(Some).map_err(AllocateError::Broken)
}

fn exhausted(space: &Space, region: &str, facts: &RegionFacts, reserved: Position, count: NonZeroU64) -> AllocateError {
    AllocateError::Exhausted(Exhausted {
        space: space.name().to_owned(),
        region: region.to_owned(),
        capacity: Count::power_of_two(facts.constants.suffix_bits).to_string(),
        reserved: reserved.to_string(),
        asked: count.get(),
        expandable_bits: facts.expandable_bits,
    })
}
