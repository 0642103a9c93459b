//! Grants suffixes of regions: from chunks in memory or, for strict regions, by commits.

use std::{iter, num::NonZeroU64, pin::pin, sync::Arc, time::Duration};

use kent_access::Target;
use kent_ids::{Block, BlockError, Position, RegionConstants, Source, Suffixes};
use kent_issue::{Chunk, CounterRefusal, Run, Stored, StrictRefusal};
use kent_proto::{
    model::{AllocateInput, EditOptions, Encoding},
    stored::TextForm,
};
use kent_regions::{ChunkPolicy, Count, Edit, NotGranting, Refusal, RegionNumber};
use kent_store::{CommitError, Store};
use tokio::time;
use tracing::{debug, info, warn};

use super::{
    Limits, action, check_max, integers,
    outcome::{HeldChunk, TryGrant, Wait, request_id_not_allowed},
    refused::{exhausted, paced, refused, unsure},
};
use crate::{
    audit::{self, By, Event},
    auth::Caller,
    budgets::{Account, Charge},
    cluster::Cluster,
    error::{AllocateError, EditError, burst},
    host::{Environment, clock::Clock, deadline::WaitLimit, tasks::Tasks},
    issuing::{
        cell::{Attempt, Cell, Lead},
        pacing::Pacing,
        queue::{Outcome, PendingGrant, Queue, QueuedRequest, answer_in_batches},
        record::Record,
        requests::{Request, Requests},
        strict,
        turns::TurnsAt,
    },
    records::{
        counters::read_counter,
        failure::StoreFailure,
        keys::{self, RequestScope},
    },
    tables::{
        directory::Directory,
        edits::EditCommand,
        space::{RegionFacts, Space},
    },
};

/// Grants regions' suffixes.
#[derive(Clone, Debug)]
pub struct RegionGrants {
    store: Arc<dyn Store>,
    directory: Arc<Directory>,
    clock: Arc<dyn Clock>,
    chunk: Chunk,
    tasks: Tasks,
    pacing: Arc<Pacing>,
    requests: Arc<Requests>,
    /// The other replicas, or `None` if the store cannot be shared.
    cluster: Option<Arc<Cluster>>,
}

/// How long the next commit waits for more strict requests.
const GATHER: Duration = Duration::from_millis(1);

/// How often the leader of a queue checks for requests whose wait limit has passed.
const WAIT_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// The principal of edits that the daemon makes on its own.
const PRINCIPAL: &str = "kentd";

impl RegionGrants {
    /// The tables of the regions.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Creates the state for grants from the regions of `directory`.
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

    /// The text form of the identifiers of a space.
    pub(crate) fn text_form(&self, space: &str) -> Option<TextForm> {
        self.directory.find(space).ok().map(|space| space.text_form())
    }

    /// Grants a block of a region's suffixes from the chunk in memory, or returns the event that the caller has to wait
    /// for.
    pub(crate) fn try_grant(
        &self,
        (space_name, region): (&str, &str),
        request: &AllocateInput,
        caller: &Caller,
        limits: Limits,
        wait_limit: impl FnOnce() -> WaitLimit,
    ) -> Result<TryGrant<Block>, AllocateError> {
        let (count, request_id) = (request.count, request.request_id.as_str());
        let space = match self.directory.find(space_name) {
            Ok(space) => space,
            Err(missing) => {
                let target = Target::Region { space: space_name, number: None, first_name: region };
                caller.check(action(request), target, || (space_name, region))?;
                return Err(missing.into());
            }
        };
        self.check_touch()?;
        let (cut, charge) = match self.cut(&space, (space_name, region), request, caller, limits)? {
            Ok(cut) => cut,
            Err((account, number)) => {
                let strict = number.filter(|_| !request_id.is_empty()).map(|number| (space, number));
                return Ok(TryGrant::Wait(Wait::Budget(account, strict)));
            }
        };
        if cut.facts.chunk == ChunkPolicy::Strict {
            self.pacing.check_restored()?;
            let pending = self.enqueue(&space, &cut, (count, request_id, charge), caller, wait_limit());
            return Ok(TryGrant::Wait(Wait::Strict(pending)));
        }
        if !request_id.is_empty() {
            return Err(request_id_not_allowed().into());
        }
        match self.grant_from_chunk(&space, &cut, count)? {
            Some((block, now)) => {
                charge.keep();
                Ok(TryGrant::Granted(block, now))
            }
            None => Ok(TryGrant::Wait(Wait::Region(space, cut.facts.number))),
        }
    }

    /// Cuts `count` suffixes off the chunk in memory, if it holds enough. The table is locked during the cut, so no
    /// thread cuts from a region after a seal is applied to the table. Cuts nothing if the region is strict or the
    /// request has a request ID. Charges the caller's budgets, or returns the budget whose share on this replica is too
    /// small.
    fn cut(
        &self,
        space: &Space,
        (space_name, region): (&str, &str),
        request: &AllocateInput,
        caller: &Caller,
        limits: Limits,
    ) -> Result<Result<(Cut, Charge), TooSmall>, AllocateError> {
        let action = action(request);
        let cut = space.with_facts(region, |found| {
            let (number, first_name) = match &found {
                Some((facts, first_name)) => (Some(facts.number.0), *first_name),
                None => (None, region),
            };
            // Check the permission first, so that a refusal does not reveal whether the region exists.
            let target = Target::Region { space: space.key(), number, first_name };
            caller.check(action, target, || (space_name, region))?;
            let facts = match check(found.map(|(facts, _)| facts)) {
                Ok(facts) => facts,
                Err(reason) => return Ok(Err(reason)),
            };
            if request.encoding == Encoding::Packed {
                let width = u64::from(facts.constants.bits).div_ceil(8);
                check_max(request.count.get(), limits.packed_bytes / width, "packed in one reply")?;
            }
            let limit = match request.encoding {
                Encoding::Integers => {
                    let next = next_known(&facts, &space.cell(facts.number, self.chunk));
                    integers::limit(&facts.constants, next, request.count)?.min(facts.capacity)
                }
                Encoding::Lease | Encoding::Packed | Encoding::Text => facts.capacity,
            };
            let charge = match caller.charge_budgets(target, request.count.get()) {
                Ok(charge) => charge,
                Err(account) => {
                    let is_strict = facts.chunk == ChunkPolicy::Strict;
                    return Ok(Ok(Err((account, is_strict.then_some(facts.number)))));
                }
            };
            let cell = space.cell(facts.number, self.chunk);
            let is_cut = facts.chunk != ChunkPolicy::Strict && request.request_id.is_empty();
            let first = if is_cut { cell.cut(facts.stride().span(request.count.get()), limit) } else { None };
            Ok::<_, AllocateError>(Ok(Ok((Cut { facts, cell, first }, charge))))
        });
        cut?.map_err(|reason| refused(space, region.to_owned(), reason, caller))
    }

    /// Makes a block of the cut suffixes, if there are any, and returns the block with the time of the grant.
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
            self.tasks.spawn_work_local(ahead);
        }
        // Edits treat the suffixes of a chunk as issued, so a chunk is always inside the current region. A block
        // outside it is a bug, and must not be granted.
        let constants = facts.constants;
        let block = Block::region_from(constants, first, count.get()).map(Some).or_else(|_| {
            // An edit may have expanded the region since we read it, and the counter may have passed the region's old
            // end.
            match granting(space, facts.number) {
                Some(facts) => {
                    // The suffixes were cut for the old stride.
                    let constants = RegionConstants { suffixes: constants.suffixes, ..facts.constants };
                    Block::region_from(constants, first, count.get()).map(Some).map_err(AllocateError::Broken)
                }
                None => Ok(None),
            }
        })?;
        let Some(block) = block else { return Ok(None) };
        // Check again, because this thread may have been paused after it read the region. If the check fails, the cut
        // suffixes become a gap.
        self.check_touch()?;
        let now = self.clock.steady();
        cell.granted(count.get(), now);
        Ok(Some((block, now)))
    }

    /// Fails if this replica may have missed edits of other replicas.
    fn check_touch(&self) -> Result<(), AllocateError> {
        match self.cluster.as_ref().is_none_or(|cluster| cluster.is_in_touch()) {
            true => Ok(()),
            false => Err(AllocateError::OutOfTouch),
        }
    }

    /// Expands a region if its policy requires an expansion for `count` more suffixes. Returns true if this replica or
    /// another one expanded the region.
    async fn expand(&self, space: &Space, number: RegionNumber, count: NonZeroU64) -> bool {
        // The region may have been renamed since the request, and its old name may now be another region's.
        let due = space.read(|table| {
            let region = table.get(number)?;
            // A request above the burst is never granted.
            let is_due = region.expansion_due(count.get()).is_some()
                && region.policy().stride.span(count.get()) <= burst(region.pace);
            is_due.then(|| region.name.to_string())
        });
        let Some(region) = due else { return false };
        // Do not expand a region whose counter position is unknown because of a restore: such a region grants nothing.
        // If the read fails, the grant reports the store's error.
        let read = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await;
        if !read.is_ok_and(|read| !self.directory.is_unsure(&read)) {
            return false;
        }
        let command = EditCommand {
            space: space.name(),
            number: Some(number),
            // Another replica may expand the region first, so the plan checks again whether the expansion is due.
            edit: Edit::ExpandIfDue { name: region.clone(), count: count.get() },
            options: EditOptions { reason: "the region's policy".to_owned(), ..EditOptions::default() },
            principal: PRINCIPAL.to_owned(),
            caller: Caller::DAEMON,
            undoes: None,
        };
        let by = By::daemon();
        let resource = format!("region:{}/{region}", command.space);
        let event = Event::new("region.expand", &by, resource).note("the region's policy");
        match self.directory.edit(&command).await {
            Ok(edited) => {
                event.revision(Some(edited.plan.revision.0)).record(audit::Outcome::Done);
                info!(space = command.space, region, "region expanded because of its policy");
                true
            }
            Err(EditError::Refused { refusal, .. }) if matches!(*refusal, Refusal::NotDue { .. }) => true,
            Err(error) => {
                event.record(audit::Outcome::Failed);
                warn!(space = command.space, region, %error, "the region's policy requires an expansion, but it failed");
                false
            }
        }
    }

    /// Expands a region if its policy requires an expansion, first for all these requests together, and otherwise for
    /// one of them.
    async fn expand_for(&self, space: &Space, number: RegionNumber, requests: &[QueuedRequest]) -> bool {
        let total = requests.iter().fold(0, |total: u64, request| total.saturating_add(request.count.get()));
        for count in iter::once(total).chain(requests.iter().map(|request| request.count.get())) {
            if self.expand(space, number, NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN)).await {
                return true;
            }
        }
        false
    }

    /// Queues one attempt at a strict grant. A strict grant is durable before it is answered, and is made only once for
    /// each request ID.
    fn enqueue(
        &self,
        space: &Arc<Space>,
        Cut { facts, cell, .. }: &Cut,
        (count, request_id, charge): (NonZeroU64, &str, Charge),
        caller: &Caller,
        wait_limit: WaitLimit,
    ) -> PendingGrant {
        let scope = RequestScope { space: space.key(), number: Some(facts.number) };
        let request = Request::new(request_id, scope, caller.identity());
        let (pending, must_lead) =
            cell.with_queue(|queue| queue.add(QueuedRequest { count, request, charge }, wait_limit));
        if must_lead {
            // The leader continues if its caller disconnects, because other callers wait for the leader's commits.
            let leader = self.clone().commit_for_all(space.clone(), facts.number, cell.clone(), cell.lead());
            self.tasks.spawn_work_local(leader);
        }
        pending
    }

    /// Returns the block that was granted under a request ID, if there is one.
    pub(super) async fn granted_before(
        &self,
        space: &Space,
        number: RegionNumber,
        (count, request_id): (NonZeroU64, &str),
        caller: &Caller,
    ) -> Result<Option<Block>, AllocateError> {
        let scope = RequestScope { space: space.key(), number: Some(number) };
        let Some(request) = Request::new(request_id, scope, caller.identity()) else { return Ok(None) };
        let Some(facts) = granting(space, number) else { return Ok(None) };
        let Some(earlier) = strict::granted_before(&*self.store, &request).await? else { return Ok(None) };
        let run = earlier.check(count.get()).map_err(|refusal| match refusal {
            StrictRefusal::Reused { count } => AllocateError::Reused { count },
            _ => AllocateError::OthersId,
        })?;
        block_of(facts.constants, run).map(Some).map_err(AllocateError::Broken)
    }

    /// Commits for all waiting requests, until the queue is empty.
    async fn commit_for_all(self, space: Arc<Space>, number: RegionNumber, cell: Arc<Cell>, lead: Lead) {
        loop {
            if let (Some(cluster), Some(turns)) = (&self.cluster, self.turns(&space, number, &cell)) {
                turns.take(cluster.own()).await;
            }
            let now = self.clock.steady();
            // Read both under one lock: as soon as the queue has no leader, another caller may start one.
            let ((requests, mut waiters), is_led) = cell.with_queue(|queue| (queue.next(now), queue.is_led()));
            if !is_led {
                return lead.end();
            }
            if requests.is_empty() {
                continue;
            }
            let mut attempt = pin!(self.grant_together(&space, number, &cell, &requests));
            let granted = loop {
                match time::timeout(WAIT_CHECK_INTERVAL, attempt.as_mut()).await {
                    Ok(granted) => break granted,
                    Err(_) => {
                        let now = self.clock.steady();
                        // The commit is in progress and may still succeed.
                        waiters.iter_mut().for_each(|waiter| waiter.expire(now, AllocateError::OutcomeUnknown));
                        cell.with_queue(|queue| queue.expire(now));
                    }
                }
            };
            let outcomes: Vec<Outcome> = match granted {
                Ok(outcomes) => outcomes,
                Err(AllocateError::Store(failure)) => {
                    if matches!(failure, StoreFailure::Replaced { .. }) {
                        // The callers may have disconnected, so returning the error would not stop the daemon.
                        self.tasks.fail_replaced(&failure);
                    }
                    requests.iter().map(|_| Err(failure.clone().into())).collect()
                }
                // Each request gets the reason in its next attempt.
                Err(_) => requests.iter().map(|_| Ok(None)).collect(),
            };
            // The next commit can begin while the answers are sent.
            self.tasks.spawn_work_local(answer_in_batches(waiters, outcomes));
            Self::gather(&cell, requests.len()).await;
        }
    }

    /// The turns at a region's counter, if other replicas may commit to it.
    fn turns<'a>(&'a self, space: &'a Space, number: RegionNumber, cell: &'a Cell) -> Option<TurnsAt<'a>> {
        self.cluster.as_ref()?;
        Some(TurnsAt { store: &*self.store, clock: &*self.clock, space: space.key(), number, cell })
    }

    /// Waits briefly until half of the callers that were just answered have sent another request. Gathering
    /// requests saves commits, because a commit costs the same for one request as for many. The other callers can queue
    /// while the commit is in progress.
    async fn gather(cell: &Cell, answered: usize) {
        if let Some(gathered) = cell.with_queue(|queue| queue.gather(answered / 2)) {
            // OK because later requests share the following commit.
            let _ = time::timeout(GATHER, gathered).await;
        }
    }

    /// Attempts several grants in one commit.
    async fn grant_together(
        &self,
        space: &Arc<Space>,
        number: RegionNumber,
        cell: &Cell,
        requests: &[QueuedRequest],
    ) -> Result<Vec<Outcome>, AllocateError> {
        let try_again = || Ok(requests.iter().map(|_| Ok(None)).collect());
        // The region may have been renamed since the last attempt.
        let region = &*space.region_name(number);
        if granting(space, number).is_none() {
            return try_again();
        }
        self.pacing.check_restored()?;
        if self.expand_for(space, number, requests).await {
            return try_again();
        }
        let reserving = cell.reserving.lock().await;
        // The commit compares the versions of the records that this check has read, so the commit fails if the region
        // is sealed meanwhile.
        let guarded = space.guarded_facts(number).filter(|(facts, _)| facts.granting.is_ok());
        let Some((facts, guards)) = guarded else { return try_again() };
        // Return the rest of a chunk that was reserved before the region became strict, so that the rest does not
        // become a gap.
        space.give_back(&*self.store, facts.number, cell).await;
        let wall = i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX);
        let last = cell.with_queue(Queue::take_last);
        let checks = (&*self.pacing, &*self.requests);
        let record = Record { guards, ..record(space, &facts) };
        let turns = self.turns(space, facts.number, cell);
        let (has_read, end) = (last.is_none(), turns.and_then(|turns| turns.end()));
        let turn = turns.zip(end.as_ref());
        let attempted = strict::grant(&*self.store, (cell, &record), checks, requests, (last, turn), wall).await?;
        let now = self.clock.steady();
        match (attempted.left, &attempted.conflict) {
            (Some(left), _) => {
                let Stored { version, value } = left.counter;
                cell.with_queue(|queue| {
                    queue.set_last(left);
                    queue.turns.committed(version, end.as_ref(), now);
                });
                space.set_reserved(facts.number, Stored { version, value: Count::Below(value.below.get()) });
                cell.granted(attempted.count, now);
            }
            (None, None) => cell.with_queue(|queue| queue.turns.passed()),
            (None, Some(key)) if has_read && *key == record.key => cell.with_queue(|queue| queue.turns.conflicted()),
            (None, Some(_)) => {}
        }
        drop(reserving);
        match attempted.conflict {
            Some(key) if key == keys::region(space.key(), facts.number.0) => self.follow(space, &facts).await?,
            Some(key) if key == keys::FORGOTTEN => drop(self.requests.refresh_floor(&*self.store).await?),
            Some(key) if record.guards.iter().any(|(guard, _)| *guard == key) => self.follow_all(space).await?,
            _ => {}
        }
        let block = |run| {
            block_of(facts.constants, run).map(Some).map_err(|broken| {
                // The caller may have disconnected, so returning the error would not stop the daemon.
                self.tasks.fail_broken(&broken);
                AllocateError::Broken(broken)
            })
        };
        let outcome = |(request, granted): (&QueuedRequest, strict::Granted)| match granted {
            strict::Granted::From(first) => {
                request.charge.keep();
                block(Run { first, count: request.count.get(), stride: record.stride })
            }
            strict::Granted::Before(run) => block(run),
            strict::Granted::Refused(refusal) => Err(match refusal {
                StrictRefusal::Full { issued } => exhausted(space, region, &facts, issued, request.count),
                StrictRefusal::TooFast(refused) => {
                    AllocateError::too_fast(paced(space, region, &facts), facts.pace, request.count, refused)
                }
                StrictRefusal::Unsure => unsure(space, region),
                StrictRefusal::Reused { count } => AllocateError::Reused { count },
                StrictRefusal::OthersId => AllocateError::OthersId,
                StrictRefusal::Request(refusal) => refusal.into(),
            }),
            strict::Granted::Again => Ok(None),
            strict::Granted::Failed(StoreFailure::Commit(CommitError::Unknown(_))) => {
                request.charge.keep();
                Err(AllocateError::OutcomeUnknown)
            }
            strict::Granted::Failed(failure) => Err(failure.into()),
        };
        Ok(requests.iter().zip(attempted.granted).map(outcome).collect())
    }

    /// Waits for an edit of this daemon that is in progress. If there was no such edit, another replica edited the
    /// table, so this method reads the table again.
    async fn follow(&self, space: &Space, facts: &RegionFacts) -> Result<(), AllocateError> {
        let _editing = space.editing.lock().await;
        match space.versions(facts.number).1 == facts.version {
            true => self.directory.reload(space).await.map_err(|_| AllocateError::Contended { attempts: 1 }),
            false => Ok(()),
        }
    }

    /// Waits for edits of this daemon that are in progress, and reads the tables of this space and of its outer spaces
    /// again.
    async fn follow_all(&self, space: &Space) -> Result<(), AllocateError> {
        let contended = |_| AllocateError::Contended { attempts: 1 };
        self.directory.refresh(space).await.map_err(contended)?;
        for outer in space.around() {
            self.directory.refresh(outer).await.map_err(contended)?;
        }
        Ok(())
    }

    /// Prefetches the next chunk, so that grants do not wait for the store. If the prefetch fails, the next grant that
    /// needs a chunk reserves one.
    async fn reserve_ahead(self, space: Arc<Space>, number: RegionNumber) {
        let cell = space.cell(number, self.chunk);
        let _reserving = cell.reserving.lock().await;
        let Some(facts) = granting(&space, number) else { return };
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

    /// Reserves a chunk of at least `count` suffixes, unless another call did so in the meantime. The number identifies
    /// the region, because its name may now be another region's. If the region does not grant suffixes, each caller
    /// gets the reason when it tries again.
    pub(super) async fn reserve(
        self,
        space: Arc<Space>,
        number: RegionNumber,
        count: NonZeroU64,
    ) -> Result<(), AllocateError> {
        let cell = space.cell(number, self.chunk);
        if granting(&space, number).is_none() {
            return Ok(());
        }
        self.pacing.check_restored()?;
        if self.expand(&space, number, count).await {
            return Ok(());
        }
        let reserving = cell.reserving.lock().await;
        // An edit may have changed the region before we got the lock.
        let Some(facts) = granting(&space, number) else { return Ok(()) };
        if facts.chunk == ChunkPolicy::Strict {
            return Ok(());
        }
        cell.with(|counter| counter.set_policy(chunk(facts.chunk, self.chunk)));
        // An edit may have set a cap below the end of the chunk before this daemon knew that the chunk was durable.
        space.give_back_forbidden_of(&*self.store, number, &cell).await;
        if cell.with(|counter| counter.left()) >= facts.stride().span(count.get()) {
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
                // Release the counter's lock before waiting for the edit's lock, because edits take the two locks in
                // the opposite order.
                drop(reserving);
                self.follow(&space, &facts).await
            }
            Attempt::Conflict(_) => Ok(()),
            Attempt::Refused(CounterRefusal::Full { reserved, .. }) => {
                if facts.reserved < Count::Below(reserved.get()) && facts.expands {
                    // Another replica has filled the region. Once this replica knows that, the policy may expand the
                    // region.
                    space.refresh_reserved(&*self.store, facts.number).await?;
                    return Ok(());
                }
                Err(exhausted(&space, &space.region_name(number), &facts, reserved, count))
            }
            Attempt::Refused(CounterRefusal::TooFast(refused)) => Err(AllocateError::too_fast(
                paced(&space, &space.region_name(number), &facts),
                facts.pace,
                count,
                refused,
            )),
            Attempt::Unsure => Err(unsure(&space, &space.region_name(number))),
        }
    }

    /// Lists this daemon's chunks, for up to `most` counters.
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

    /// Returns the rest of every chunk to the store. The daemon must not grant anything afterward.
    pub(crate) async fn give_back_all(&self) {
        for space in self.directory.spaces() {
            for (number, cell) in space.cells() {
                let _reserving = cell.reserving.lock().await;
                space.give_back(&*self.store, number, &cell).await;
            }
        }
    }
}

/// The counter of a region, guarded by the region's record: a reservation fails if the region's capacity changes. A
/// seal of an enclosing region does not make a reservation fail, because each grant from the chunk checks for seals.
fn record(space: &Space, facts: &RegionFacts) -> Record {
    Record {
        key: keys::counter(space.key(), facts.number.0),
        guards: vec![(keys::region(space.key(), facts.number.0), facts.version)],
        first: Position::ZERO,
        capacity: facts.capacity,
        pace: facts.pace,
        stride: facts.stride(),
        is_of_table: true,
    }
}

/// Makes the block of a strict grant.
fn block_of(constants: RegionConstants, run: Run) -> Result<Block, BlockError> {
    let constants = RegionConstants { suffixes: Suffixes::Counted(run.stride), ..constants };
    Block::region_from(constants, run.first, run.count)
}

/// The chunk sizes of a region, according to its policy.
const fn chunk(policy: ChunkPolicy, default: Chunk) -> Chunk {
    match policy {
        ChunkPolicy::Within { min, max } => Chunk { min, max },
        ChunkPolicy::Adaptive | ChunkPolicy::Strict => default,
    }
}

/// Returns the facts of the region if the region grants suffixes. The reason for a refusal is left to [`refused`],
/// which reveals only what the caller may know.
fn granting(space: &Space, number: RegionNumber) -> Option<RegionFacts> {
    check(space.facts_of(number)).ok()
}

/// Checks that a region exists and grants suffixes.
fn check(found: Option<RegionFacts>) -> Result<RegionFacts, Option<NotGranting>> {
    let facts = found.ok_or(None)?;
    facts.granting.map(|()| facts).map_err(Some)
}

/// The state of a region when suffixes were cut off its chunk.
struct Cut {
    facts: RegionFacts,
    cell: Arc<Cell>,
    /// The first suffix that was cut, and whether the chunk is running low; `None` if nothing was cut.
    first: Option<(Position, bool)>,
}

/// The account whose share on this replica is too small, and the number of the region if it is strict.
type TooSmall = (Arc<Account>, Option<RegionNumber>);

/// The lowest suffix that the region may issue next, as far as this daemon knows.
fn next_known(facts: &RegionFacts, cell: &Cell) -> u128 {
    facts.reserved.get().map_or(u128::MAX, |reserved| reserved.saturating_sub(cell.with(|counter| counter.left())))
}
