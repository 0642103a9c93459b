//! Granting regions' suffixes: counters in memory, chunks from the store.

use std::{num::NonZeroU64, pin::pin, sync::Arc, time::Duration};

use kent_ids::{Block, Position, Source};
use kent_issue::{Chunk, CounterRefusal, Stored, StrictRefusal};
use kent_proto::model::EditOptions;
use kent_regions::{ChunkPolicy, Count, Edit, NotGranting, Refusal, RegionNumber};
use kent_store::Store;
use tokio::time;
use tracing::{debug, info, warn};

use super::outcome::{HeldChunk, Tried, Wait, only_strict};
use crate::{
    cluster::Cluster,
    error::{AllocateError, EditError, Exhausted, NoSuchRegion},
    host::{Environment, clock::Clock, deadline::Patience, tasks::Tasks},
    issuing::{
        cell::{Attempt, Cell},
        pacing::Pacing,
        queue::{Ask, Outcome, Promise, Queue, answer_in_turns},
        record::Record,
        requests::{Request, Requests},
        strict,
    },
    records::keys::{self, Requested},
    tables::{
        directory::Directory,
        edits::EditCommand,
        space::{RegionFacts, Space},
    },
};

/// Grants regions' suffixes.
#[derive(Clone, Debug)]
pub(crate) struct RegionGrants {
    store: Arc<dyn Store>,
    directory: Arc<Directory>,
    clock: Arc<dyn Clock>,
    chunk: Chunk,
    tasks: Tasks,
    pacing: Arc<Pacing>,
    requests: Arc<Requests>,
    /// Where there can be other replicas.
    cluster: Option<Arc<Cluster>>,
}

/// How long a commit for several waits for the next several.
const GATHER: Duration = Duration::from_millis(1);

/// How often it is looked, at least, who has waited long enough for a commit.
const PATIENCE_STEP: Duration = Duration::from_millis(2);

/// Who makes the edits that the daemon makes by itself.
const PRINCIPAL: &str = "kentd";

impl RegionGrants {
    /// Counters of the regions of `directory`.
    pub(crate) fn new(
        environment: Environment,
        directory: Arc<Directory>,
        chunk: Chunk,
        tasks: Tasks,
        (pacing, requests): (Arc<Pacing>, Arc<Requests>),
        cluster: Option<Arc<Cluster>>,
    ) -> Self {
        let Environment { store, clock, .. } = environment;
        Self { store, directory, clock, chunk, tasks, pacing, requests, cluster }
    }

    /// Grants a block of a region's suffixes from the chunk in hand; or says that a chunk, or a commit, has to be waited for.
    pub(crate) fn try_grant(
        &self,
        space: &str,
        region: &str,
        count: NonZeroU64,
        request_id: &str,
        patience: impl FnOnce() -> Patience,
    ) -> Result<Tried<Block>, AllocateError> {
        let space = self.directory.find(space)?;
        self.check_touch()?;
        let cut = self.cut(&space, region, count, request_id)?;
        if cut.facts.chunk == ChunkPolicy::Strict {
            let promise = self.ask(&space, &cut.facts, &cut.cell, count, request_id, patience());
            return Ok(Tried::Wait(Wait::Promise(promise)));
        }
        if !request_id.is_empty() {
            return Err(only_strict().into());
        }
        match self.grant_from_chunk(&space, &cut, count)? {
            Some((block, now)) => Ok(Tried::Granted(block, now)),
            None => Ok(Tried::Wait(Wait::Region(space, cut.facts.number))),
        }
    }

    /// Cuts `count` suffixes off the chunk in hand, if it holds enough. The table stands still meanwhile: once a seal is applied,
    /// nothing is cut by a thread that looked before. Nothing is cut for a strict region, nor for a request_id.
    fn cut(&self, space: &Space, region: &str, count: NonZeroU64, request_id: &str) -> Result<Cut, AllocateError> {
        let cut = space.with_facts(region, |found| {
            let facts = check(found)?;
            let cell = space.cell(facts.number, self.chunk);
            let is_cut = facts.chunk != ChunkPolicy::Strict && request_id.is_empty();
            let first = if is_cut { cell.cut(count) } else { None };
            Ok(Cut { facts, cell, first })
        });
        cut.map_err(|refuse: Refuse| refuse(space.name(), region.to_owned()))
    }

    /// Grants the block that was cut off the chunk in hand, if it held enough, and says when.
    fn grant_from_chunk(
        &self,
        space: &Arc<Space>,
        cut: &Cut,
        count: NonZeroU64,
    ) -> Result<Option<(Block, Duration)>, AllocateError> {
        let Cut { facts, cell, first } = cut;
        let Some((first, is_low)) = *first else { return Ok(None) };
        if is_low && cell.begin_ahead() {
            let ahead = self.clone().reserve_ahead(space.clone(), facts.number);
            self.tasks.spawn_work_aboard(ahead);
        }
        // A chunk counts as issued, so no edit takes it away: a block that does not fit is a bug, and must not be given out.
        let block = Block::region(facts.constants, first, count.get()).or_else(|_| {
            // Since we looked, an edit may have made the region larger, and others gone on beyond what it was.
            let facts = facts_of(space, facts.number)?;
            Block::region(facts.constants, first, count.get()).map_err(AllocateError::Broken)
        })?;
        // Whoever was paused since it looked at the region has cut a gap, not a block.
        self.check_touch()?;
        let now = self.clock.steady();
        cell.granted(count.get(), now);
        Ok(Some((block, now)))
    }

    /// Whether others' edits are known well enough.
    fn check_touch(&self) -> Result<(), AllocateError> {
        match self.cluster.as_ref().is_none_or(|cluster| cluster.is_in_touch()) {
            true => Ok(()),
            false => Err(AllocateError::OutOfTouch),
        }
    }

    /// Expands a region by itself if its policy says so, once it is as full as that with `count` more. True if it did.
    async fn expand(&self, space: &Space, number: RegionNumber, count: NonZeroU64) -> bool {
        // It may have another name than the one it was asked for by, and another region that one.
        let due = space.read(|table| {
            let region = table.get(number)?;
            region.expansion_due(count.get()).map(|_| region.name.clone())
        });
        let Some(region) = due else { return false };
        let command = EditCommand {
            space: space.name(),
            number: Some(number),
            // Others may see to it as well: it is looked at again where it is planned.
            edit: Edit::ExpandIfDue { name: region.clone(), count: count.get() },
            options: EditOptions { reason: "the region's policy".to_owned(), ..EditOptions::default() },
            principal: PRINCIPAL.to_owned(),
        };
        match self.directory.edit(&command).await {
            Ok(_) => {
                info!(space = command.space, region, "region expanded by its policy");
                true
            }
            Err(EditError::Refused { refusal, .. }) if matches!(*refusal, Refusal::NotDue { .. }) => true,
            Err(error) => {
                warn!(space = command.space, region, %error, "region not expanded by its policy");
                false
            }
        }
    }

    /// Asks for one attempt at a grant that is durable before it is answered, and made once for a request_id.
    fn ask(
        &self,
        space: &Arc<Space>,
        facts: &RegionFacts,
        cell: &Arc<Cell>,
        count: NonZeroU64,
        request_id: &str,
        patience: Patience,
    ) -> Promise {
        let request = Request::new(request_id, Requested { space: space.key(), number: Some(facts.number) });
        let (promise, must_lead) = cell.with_queue(|queue| queue.add(Ask { count, request }, patience));
        if must_lead {
            // What is under way goes on although its caller goes away: others wait for it, too.
            let leader = self.clone().commit_for_all(space.clone(), facts.number, cell.clone());
            self.tasks.spawn_work_aboard(leader);
        }
        promise
    }

    /// Commits for those who wait, until nobody does.
    async fn commit_for_all(self, space: Arc<Space>, number: RegionNumber, cell: Arc<Cell>) {
        loop {
            let now = self.clock.steady();
            let (asks, mut waiters) = cell.with_queue(|queue| queue.next(now));
            if asks.is_empty() {
                return;
            }
            let mut attempt = pin!(self.grant_together(&space, number, &cell, &asks));
            let granted = loop {
                match time::timeout(PATIENCE_STEP, attempt.as_mut()).await {
                    Ok(granted) => break granted,
                    Err(_) => {
                        let now = self.clock.steady();
                        waiters.iter_mut().for_each(|waiter| waiter.end_waiting(now));
                        cell.with_queue(|queue| queue.end_waiting(now));
                    }
                }
            };
            let outcomes: Vec<Outcome> = match granted {
                Ok(outcomes) => outcomes,
                Err(AllocateError::Store(failure)) => asks.iter().map(|_| Err(failure.clone().into())).collect(),
                // Whatever is wrong with the region, each finds out for itself.
                Err(_) => asks.iter().map(|_| Ok(None)).collect(),
            };
            // Meanwhile the next commit can begin.
            self.tasks.spawn_work_aboard(answer_in_turns(waiters, outcomes));
            Self::gather(&cell, asks.len()).await;
        }
    }

    /// Lets a quarter of those who were just answered together ask again, for a moment: a commit costs the same for one as for
    /// many, and while it is under way the others have the time to ask.
    async fn gather(cell: &Cell, answered: usize) {
        if let Some(gathered) = cell.with_queue(|queue| queue.gather(answered / 4)) {
            // OK because those who have not asked again by then share the commit after the next.
            let _ = time::timeout(GATHER, gathered).await;
        }
    }

    /// One attempt at several grants in one commit.
    async fn grant_together(
        &self,
        space: &Arc<Space>,
        number: RegionNumber,
        cell: &Cell,
        asks: &[Ask],
    ) -> Result<Vec<Outcome>, AllocateError> {
        // It may have another name than the time before.
        let region = &*space.region_name(number);
        facts_of(space, number)?;
        let total = asks.iter().fold(0, |total: u64, ask| total.saturating_add(ask.count.get()));
        if self.expand(space, number, NonZeroU64::new(total).unwrap_or(NonZeroU64::MIN)).await {
            return Ok(asks.iter().map(|_| Ok(None)).collect());
        }
        self.pacing.check_restored()?;
        let reserving = cell.reserving.lock().await;
        let facts = facts_of(space, number)?;
        // What is left of a chunk from before the region was strict would be a gap.
        space.give_back(&*self.store, facts.number, cell).await;
        let wall = i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX);
        let last = cell.with_queue(Queue::take_last);
        let judges = (&*self.pacing, &*self.requests);
        let attempted = strict::grant(&*self.store, &record(space, &facts), judges, asks, last, wall).await?;
        if let Some(left) = attempted.left {
            cell.with_queue(|queue| queue.set_last(left));
            let Stored { version, value } = left.counter;
            space.set_reserved(facts.number, Stored { version, value: Count::Below(value.below.get()) });
            cell.granted(attempted.count, self.clock.steady());
        }
        drop(reserving);
        match attempted.conflict {
            Some(key) if key == keys::region(space.key(), facts.number.0) => self.follow(space, &facts).await?,
            Some(key) if key == keys::FORGOTTEN => drop(self.requests.learn_floor(&*self.store).await?),
            _ => {}
        }
        let block = |first, count| {
            Block::region(facts.constants, first, count).map(Some).map_err(|broken| {
                // Whoever asked may have gone, and would not tell.
                self.tasks.fail_broken(&broken);
                AllocateError::Broken(broken)
            })
        };
        let outcome = |(ask, granted): (&Ask, strict::Granted)| match granted {
            strict::Granted::From(first) => block(first, ask.count.get()),
            strict::Granted::Refused(refusal) => Err(match refusal {
                StrictRefusal::Full { issued } => exhausted(space, region, &facts, issued, ask.count),
                StrictRefusal::TooFast(refused) => {
                    AllocateError::too_fast(subject(space, region), facts.pace, ask.count, refused)
                }
                StrictRefusal::Unsure => unsure(space, region),
                StrictRefusal::Reused { count } => AllocateError::Reused { count },
                StrictRefusal::Request(refusal) => refusal.into(),
            }),
            strict::Granted::Again => Ok(None),
            strict::Granted::Failed(failure) => Err(failure.into()),
        };
        Ok(asks.iter().zip(attempted.granted).map(outcome).collect())
    }

    /// Waits for an edit of ours that is under way, or reads the table again if the store has moved on without us.
    async fn follow(&self, space: &Space, facts: &RegionFacts) -> Result<(), AllocateError> {
        let _editing = space.editing.lock().await;
        match space.versions(facts.number).1 == facts.version {
            true => self.directory.reload(space).await.map_err(|_| AllocateError::Contended { attempts: 1 }),
            false => Ok(()),
        }
    }

    /// Reserves the chunk after the one that is used, so that nobody waits for the store in between. If that does not come off, it
    /// is left to those who need it.
    async fn reserve_ahead(self, space: Arc<Space>, number: RegionNumber) {
        let cell = space.cell(number, self.chunk);
        let _reserving = cell.reserving.lock().await;
        let Ok(facts) = facts_of(&space, number) else { return };
        if facts.chunk == ChunkPolicy::Strict {
            return;
        }
        cell.with(|counter| counter.set_policy(chunk(facts.chunk, self.chunk)));
        let ahead =
            cell.try_reserve_ahead(&*self.store, &self.pacing, &record(&space, &facts), self.clock.steady()).await;
        if let Ok(Some(reserved)) = ahead {
            space.set_reserved(facts.number, reserved);
            cell.end_ahead();
            debug!(space = space.key(), region = number.0, reserved = %reserved.value, "chunk reserved ahead");
        }
    }

    /// Reserves a chunk that holds `count`, unless somebody else did while we waited our turn.
    /// The region is known by its number: its name may be another region's by now, whose numbers are not this one's.
    pub(super) async fn reserve(
        self,
        space: Arc<Space>,
        number: RegionNumber,
        count: NonZeroU64,
    ) -> Result<(), AllocateError> {
        let cell = space.cell(number, self.chunk);
        facts_of(&space, number)?;
        if self.expand(&space, number, count).await {
            return Ok(());
        }
        self.pacing.check_restored()?;
        let reserving = cell.reserving.lock().await;
        // An edit may have come first.
        let facts = facts_of(&space, number)?;
        if facts.chunk == ChunkPolicy::Strict {
            return Ok(());
        }
        cell.with(|counter| counter.set_policy(chunk(facts.chunk, self.chunk)));
        if cell.with(|counter| counter.left()) >= count.get().into() {
            return Ok(());
        }
        let record = record(&space, &facts);
        match cell.try_reserve(&*self.store, &self.pacing, &record, count, self.clock.steady()).await? {
            Attempt::Reserved(reserved) => {
                space.set_reserved(facts.number, reserved);
                cell.end_ahead();
                debug!(space = space.key(), region = number.0, reserved = %reserved.value, "chunk reserved");
                Ok(())
            }
            Attempt::Conflict(key) if key != record.key => {
                // An edit of ours is applied when its lock is free; if there was none, the store has moved on without us.
                // An edit takes its lock first and this one second, so this one is not kept while waiting for that.
                drop(reserving);
                self.follow(&space, &facts).await
            }
            Attempt::Conflict(_) => Ok(()),
            Attempt::Refused(CounterRefusal::Full { reserved, .. }) => {
                if facts.reserved < Count::Below(reserved.get()) && facts.expands {
                    // Another replica has filled it: with that known, its policy may expand it.
                    space.learn_reserved(&*self.store, facts.number).await?;
                    return Ok(());
                }
                Err(exhausted(&space, &space.region_name(number), &facts, reserved, count))
            }
            Attempt::Refused(CounterRefusal::TooFast(refused)) => {
                Err(AllocateError::too_fast(subject(&space, &space.region_name(number)), facts.pace, count, refused))
            }
            Attempt::Unsure => Err(unsure(&space, &space.region_name(number))),
        }
    }

    /// Chunks that this daemon holds, of the first so many counters that it has used.
    pub(crate) fn held(&self, most: usize) -> Vec<HeldChunk> {
        let spaces = self.directory.spaces();
        let cells = spaces.iter().flat_map(|space| space.cells().map(move |(number, cell)| (space, number, cell)));
        let chunks = cells.take(most).filter_map(|(space, number, cell)| {
            let left = cell.with(|counter| counter.left());
            let source = || Source::Region { name: space.region_name(number), space: space.name() };
            (left > 0).then(|| HeldChunk { source: source(), left })
        });
        chunks.collect()
    }

    /// Gives the rest of every chunk back. Nothing is granted from them any more.
    pub(crate) async fn give_back_all(&self) {
        for space in self.directory.spaces() {
            for (number, cell) in space.cells() {
                let _reserving = cell.reserving.lock().await;
                space.give_back(&*self.store, number, &cell).await;
            }
        }
    }
}

/// A region's counter, which no chunk is cut from if the region's capacity has just changed.
fn record(space: &Space, facts: &RegionFacts) -> Record {
    Record {
        key: keys::counter(space.key(), facts.number.0),
        guard: Some((keys::region(space.key(), facts.number.0), facts.version)),
        first: Position::ZERO,
        capacity: facts.capacity,
        pace: facts.pace,
        is_of_table: true,
    }
}

/// The sizes of a region's chunks.
const fn chunk(policy: ChunkPolicy, usual: Chunk) -> Chunk {
    match policy {
        ChunkPolicy::Within { min, max } => Chunk { min, max },
        ChunkPolicy::Adaptive | ChunkPolicy::Strict => usual,
    }
}

/// What a grant must know of the region of this number, if it can be granted from.
fn facts_of(space: &Space, number: RegionNumber) -> Result<RegionFacts, AllocateError> {
    usable(space, space.facts_of(number), || space.region_name(number))
}

/// The names are made only where there is something to say.
fn usable(
    space: &Space,
    found: Option<RegionFacts>,
    region: impl FnOnce() -> String,
) -> Result<RegionFacts, AllocateError> {
    check(found).map_err(|refuse| refuse(space.name(), region()))
}

/// Makes the refusal, given the space and the region.
type Refuse = fn(String, String) -> AllocateError;

/// Whether a region can be granted from.
fn check(found: Option<RegionFacts>) -> Result<RegionFacts, Refuse> {
    match found {
        None => Err(|space, region| NoSuchRegion { space, region }.into()),
        Some(RegionFacts { granting: Err(why), .. }) => Err(match why {
            NotGranting::Closed => |space, region| AllocateError::Closed { space, region },
            NotGranting::Delegated => |space, region| AllocateError::Delegated { space, region },
            NotGranting::External => |space, region| AllocateError::External { space, region },
            NotGranting::Sealed => |space, region| AllocateError::Sealed { space, region },
        }),
        Some(facts) => Ok(facts),
    }
}

/// What a region was when suffixes were cut off its chunk, and the first of them with whether the chunk is low; none if it did not
/// hold enough.
struct Cut {
    facts: RegionFacts,
    cell: Arc<Cell>,
    first: Option<(Position, bool)>,
}

/// A region as people name it in a source.
fn subject(space: &Space, region: &str) -> String {
    Source::Region { name: region.to_owned(), space: space.name() }.to_string()
}

fn unsure(space: &Space, region: &str) -> AllocateError {
    AllocateError::Unsure { subject: subject(space, region), region: Some(region.to_owned()) }
}

fn exhausted(space: &Space, region: &str, facts: &RegionFacts, reserved: Position, count: NonZeroU64) -> AllocateError {
    AllocateError::Exhausted(Exhausted {
        space: space.name(),
        region: region.to_owned(),
        capacity: facts.limit.to_string(),
        reserved: reserved.to_string(),
        asked: count.get(),
        expandable_bits: facts.expandable_bits,
    })
}
