//! Edits of tables.
//!
//! An edit is first planned on the table in memory. Then the daemon returns the rest of its chunk, reads the counter
//! that the edit depends on, and plans the edit again. Then it commits the edit as the next revision, together with
//! every region that the edit changes. Only then does it apply the edit to the table in memory. An edit that depends on
//! issued suffixes holds the lock of the region's counter from before the first plan until after the commit.

use std::{borrow::Cow, sync::Arc};

use kent_access::{Action, Target};
use kent_ids::ClusterKey;
use kent_issue::Stored;
use kent_proto::{
    model::{EditOptions, Invalid, inner_space},
    stored::{self, AskClosed, AskOutcome, Declared, EditId, EditMade, HistoryEntry, SpaceFacts, TextForm, Unchanged},
};
use kent_regions::{Change, Count, Edit, Patch, Plan, Refusal, Region, RegionNumber, Revision, Table, Texts};
use kent_store::{CommitError, Txn, Unknown, Version};
use tokio::sync::MutexGuard;
use tracing::{info, warn};

use super::{
    asks::Answered,
    counted::{EditedCounter, lock_all},
    directory::Directory,
    history::{self, HistoryError},
    permitted::{check_plan, conceal, may_make},
    space::{Space, State, space_record},
    vacant::{Vacant, deleted},
};
use crate::{
    auth::Caller,
    error::{EditError, NoSuchSpace},
    host::flight::{self, Happened},
    issuing::requests::Request,
    records::{
        counters::{position, read_counter},
        failure::StoreFailure,
        keys::{self, RequestScope},
    },
};

/// An edit with its options and its author.
#[derive(Clone, Debug)]
pub struct EditCommand {
    /// The name of the space.
    pub space: String,
    /// The region's number, if it is known: the region may have been renamed meanwhile.
    pub number: Option<RegionNumber>,
    /// The edit.
    pub edit: Edit,
    /// The options of the edit.
    pub options: EditOptions,
    /// The author of the edit, for the history.
    pub principal: String,
    /// The author, whose permissions decide whether the edit is allowed.
    pub caller: Caller,
    /// For a reversal, the revision whose edit is reverted.
    pub undoes: Option<Revision>,
}

impl EditCommand {
    /// Returns the command with these texts for the region that the command creates.
    fn with_texts(&self, texts: &Texts) -> Self {
        let mut command = self.clone();
        if let Edit::Create { start, .. } = &mut command.edit {
            start.texts = texts.clone();
        }
        command
    }
}

/// The effect of an edit that was made, or planned in a dry run.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The space after the edit.
    pub space: Arc<Space>,
    /// The plan of the edit.
    pub plan: Plan,
    /// Whether the edit was made earlier, under the same request ID.
    pub again: bool,
}

/// The creation of a delegated region's space when the delegation starts, or the deletion of the space when the
/// delegation ends.
#[derive(Debug)]
pub(super) enum Inner {
    Made { key: String, place: Vacant, table: Box<Table>, constants: (ClusterKey, TextForm) },
    Deleted { space: Arc<Space>, version: Version, facts: SpaceFacts },
}

/// An edit that is about to be committed.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) plan: Plan,
    /// Identifies the edit if the store's answer is lost.
    pub(super) edit: EditId,
    /// The counters that the edit depends on, and that its commit compares.
    pub(super) counters: Vec<(RegionNumber, Stored<stored::Counter>)>,
    /// The spaces that the edit creates for delegations, or the space that it deletes at the end of a delegation.
    pub(super) inner: Vec<Inner>,
}

/// The outcome of a commit.
pub(super) enum CommitOutcome {
    Made(Version),
    /// Another edit changed the records first.
    Conflict,
    Unknown(Unknown),
}

/// The maximum number of attempts at an edit that conflicts with other edits.
pub(super) const ATTEMPTS: u32 = 5;

impl Directory {
    /// Plans an edit and, unless this is a dry run, commits the edit. With a request ID, the edit is made only once.
    pub(crate) async fn edit(&self, command: &EditCommand) -> Result<Edited, EditError> {
        self.check_named(&command.caller, &command.space, &command.edit)?;
        let space = self.find(&command.space)?;
        let _editing = self.begin_editing(&space).await?;
        let edit = &command.edit;
        for _ in 0..ATTEMPTS {
            let is_made = |entry: &HistoryEntry| is_same(entry, edit);
            let is_unchanged =
                |earlier: &Unchanged| earlier.operation == edit.operation() && earlier.region == edit.subject();
            if let Some(mut plan) =
                self.find_earlier_edit(&space, (&command.options, &command.caller), is_made, is_unchanged).await?
            {
                check_plan(&space, &command.caller, &plan)?;
                self.check_repeated(&space, command, &mut plan).await?;
                return Ok(Edited { space: space.clone(), plan, again: true });
            }
            if let Some(mut plan) = self.try_edit(&space, command).await? {
                if !command.options.validate_only {
                    self.give_back_forbidden(&space, &plan).await;
                    // The answer must not count returned numbers as issued. If a declaration changes nothing, the chunk is
                    // not returned, but the plan was made as if it were.
                    let declares = matches!(edit, Edit::Update { patch: Patch { next: Some(_), .. }, .. });
                    if matches!(edit, Edit::Update { .. }) && (!declares || plan.revision == plan.base) {
                        set_counters(&space, &mut plan.changes);
                    }
                }
                return Ok(Edited { space: space.clone(), plan, again: false });
            }
            self.reload(&space).await?;
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// Checks that a repeated command has nothing left to do, so that its answer is true: the numbers that it declares
    /// for new regions count as issued and, if the earlier edit changed nothing, the command would change nothing now.
    /// The record of an edit that changed nothing does not contain the edit, and other edits may have followed.
    async fn check_repeated(
        &self,
        space: &Arc<Space>,
        command: &EditCommand,
        earlier: &mut Plan,
    ) -> Result<(), EditError> {
        let other = || EditError::from(Invalid::new("request_id", "was used before with another value of --next"));
        let hold = |earlier: &Plan| space.read(|table| command.edit.floors_hold(table, &earlier.changes));
        if !hold(earlier) {
            // Another replica may have made the edit, and this replica may not know the counters yet.
            self.read_created(space, &earlier.changes).await?;
            if !hold(earlier) {
                return Err(other());
            }
            set_counters(space, &mut earlier.changes);
        }
        if earlier.revision != earlier.base {
            return Ok(());
        }
        let counters = self.counters_of(space, &command.edit);
        let now = EditCommand { options: EditOptions { expected: None, ..command.options.clone() }, ..command.clone() };
        match self.plan_edit(space, &now, &counters).await {
            Ok(plan) if plan.changes_nothing() => Ok(()),
            // The counter of the only daemon is already above the declared number. Another replica could hold a chunk
            // below the counter, but above the declared number.
            Err(EditError::NextTooLow { is_shared: false, .. }) => Ok(()),
            Ok(plan) if plan.changes.iter().any(Change::moves_counter) => Err(other()),
            Ok(_) => {
                let problem = "was used before, for an edit that changed nothing, but this edit would change something: use a new one";
                Err(Invalid::new("request_id", problem).into())
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for other edits of the space, and reads the edits of other replicas. Without this, the edit could fail
    /// because of an unknown region or a stale revision.
    pub(super) async fn begin_editing<'s>(&self, space: &'s Arc<Space>) -> Result<MutexGuard<'s, ()>, EditError> {
        let editing = space.editing.lock().await;
        if self.store.peers().is_some() {
            self.reload(space).await?;
        }
        match self.is_current(space) {
            true => Ok(editing),
            false => Err(NoSuchSpace { space: space.name() }.into()),
        }
    }

    /// Returns the effect of an edit that was made earlier under the same request ID, if there is one. Fails if that
    /// edit was a different one, or was made by another caller.
    pub(super) async fn find_earlier_edit(
        &self,
        space: &Space,
        (options, caller): (&EditOptions, &Caller),
        is_same: impl Fn(&HistoryEntry) -> bool,
        is_same_unchanged: impl Fn(&Unchanged) -> bool,
    ) -> Result<Option<Plan>, EditError> {
        let Some(request) = request(space, options, caller).filter(|_| !options.validate_only) else { return Ok(None) };
        let Some(record) = self.store.get(&request.key).await.map_err(StoreFailure::from)? else { return Ok(None) };
        let EditMade { revision, unchanged, caller } =
            stored::decode_request(&record.value).map_err(StoreFailure::from)?;
        // The message omits the operation and the revision, because this caller may not be allowed to know them.
        if *caller != *request.caller {
            let problem = "was used before, by another caller: use a new one";
            return Err(Invalid::new("request_id", problem).into());
        }
        let other = |operation: &str| {
            let problem = format!("was used before, for another edit ({operation} in revision {revision})");
            EditError::from(Invalid::new("request_id", problem))
        };
        if let Some(unchanged) = unchanged {
            return match is_same_unchanged(&unchanged) {
                true => Ok(Some(found_unchanged(space, revision, unchanged.number))),
                false => Err(other(&unchanged.operation)),
            };
        }
        if space.read(Table::revision) < revision {
            // The outcome of that edit's commit was unknown, and the commit took effect later.
            self.reload(space).await?;
        }
        let entry = match history::expected(&*self.store, space, revision).await {
            Ok(entry) => entry,
            Err(HistoryError::Forgotten(_)) => return Err(EditError::MadeAndForgotten { revision }),
            Err(HistoryError::Store(failure)) => return Err(failure.into()),
        };
        if !is_same(&entry) {
            return Err(other(&entry.operation));
        }
        // The history does not contain counters; use the current ones.
        let mut changes = entry.changes;
        set_counters(space, &mut changes);
        Ok(Some(Plan::made(revision, changes)))
    }

    /// Attempts the edit once; returns `None` if the edit was not made and can be tried again, because a record that it
    /// depends on changed meanwhile.
    pub(super) async fn try_edit(&self, space: &Arc<Space>, command: &EditCommand) -> Result<Option<Plan>, EditError> {
        let counters = self.counters_of(space, &command.edit);
        // This daemon reserves no chunk of these regions until the edit is committed or rejected.
        let reserving = lock_all(&counters).await;
        let (_asking, answered) = match command.options.answers {
            Some(number) => {
                let asking = self.asking.lock().await;
                (Some(asking), Some(self.answered(space, &command.caller, number).await?))
            }
            None => (None, None),
        };
        let command = &match &answered {
            Some(answered) => Cow::Owned(command.with_texts(answered.texts())),
            None => Cow::Borrowed(command),
        };
        let plan = self.plan_edit(space, command, &counters).await?;
        if command.options.validate_only {
            self.inner_of(space, command, &plan).await?;
            return Ok(Some(plan));
        }
        if plan.revision == plan.base {
            return self.record_unchanged(space, command, plan).await;
        }
        let draft = self.settle(space, command, &counters, plan).await?;
        let outcome = self.commit(space, command, &draft, answered.as_ref()).await?;
        // Every reservation compares the region's record, so a reservation planned before the edit fails. The lock is
        // released now, because reading the table again may return a chunk, which needs this lock.
        drop(reserving);
        self.adopt(space, command, draft, outcome).await
    }

    /// Gives back the chunks that the policies of the edited regions forbid.
    pub(super) async fn give_back_forbidden(&self, space: &Space, plan: &Plan) {
        for after in plan.changes.iter().filter_map(|change| change.after.as_ref()).filter(|it| it.may_forbid_chunks())
        {
            space.give_back_forbidden(&*self.store, after.number).await;
        }
    }

    /// Plans the edit as if the rest of this daemon's chunk were returned. Writes nothing, so that a rejected edit or a
    /// dry run does not return the chunk.
    pub(super) async fn plan_edit(
        &self,
        space: &Space,
        command: &EditCommand,
        counters: &[EditedCounter],
    ) -> Result<Plan, EditError> {
        let name = space.name();
        let mut rests = Vec::new();
        let mut is_unsure = false;
        for (number, cell) in counters {
            let key = keys::counter(space.key(), number.0);
            let read = read_counter(&*self.store, &key).await?;
            cell.check(&key, position(read.value.reserved))?;
            if self.needs_sure(&command.edit, *number, &read) {
                is_unsure = true;
                if !command.edit.names_a_floor() {
                    return Err(EditError::Unsure { space: name, region: space.region_name(*number) });
                }
            }
            rests.push((*number, cell.rest_of(read)));
        }
        let plan = space.read_as_if(&rests, |table| plan((&name, space.key()), table, command))?;
        check_plan(space, &command.caller, &plan)?;
        if counters.is_empty() {
            return self.check_sure(space, plan);
        }
        // A declaration that changes no number is still an edit if it confirms a counter whose position is unknown
        // after a restore.
        if !command.edit.names_a_floor() || is_unsure || !plan.changes_nothing() {
            return Ok(plan);
        }
        self.check_not_below(name, command, &plan)?;
        // Another replica may hold a chunk below the declared number. The edit makes that replica drop the chunk.
        let is_in_effect = self.store.peers().is_none() || self.is_just_declared(space, &plan).await?;
        Ok(if is_in_effect { plan.without_effect() } else { plan })
    }

    /// Refuses a declared number that is below the counter. On a shared store, the declaration would be an edit,
    /// because replicas may hold chunks of numbers below the counter. On an embedded store, the declaration would
    /// change nothing.
    fn check_not_below(&self, space: String, command: &EditCommand, plan: &Plan) -> Result<(), EditError> {
        let Edit::Update { name, patch: Patch { next: Some(next), .. } } = &command.edit else { return Ok(()) };
        match plan.subject() {
            Some(region) if *next < *region.issued => {
                let (region, counter, next) = (name.clone(), *region.issued, *next);
                Err(EditError::NextTooLow { space, region, next, counter, is_shared: self.store.peers().is_some() })
            }
            _ => Ok(()),
        }
    }

    /// Whether the table's last edit declared these numbers as issued, and no replica has reserved numbers since then.
    async fn is_just_declared(&self, space: &Space, plan: &Plan) -> Result<bool, EditError> {
        let Some(number) = plan.subject().map(|region| region.number) else { return Ok(false) };
        let counter = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await?;
        let last = history::versioned(&*self.store, space, plan.base).await?;
        Ok(last.is_some_and(|(entry, version)| entry.declared.is_some() && version.get() == counter.version))
    }

    /// Records the request ID of an edit that changes nothing, so that a retry changes nothing either. Returns `None`
    /// if the commit conflicts: another edit changed the table, or another request or a cleanup changed the records of
    /// request IDs.
    async fn record_unchanged(
        &self,
        space: &Space,
        command: &EditCommand,
        plan: Plan,
    ) -> Result<Option<Plan>, EditError> {
        let Some(request) = request(space, &command.options, &command.caller) else { return Ok(Some(plan)) };
        let Some(number) = plan.subject().map(|region| region.number) else { return Ok(Some(plan)) };
        let (operation, region) = (command.edit.operation().to_owned(), command.edit.subject().to_owned());
        let unchanged = Some(Unchanged { operation, region, number });
        let record =
            stored::encode_request(&EditMade { revision: plan.base, unchanged, caller: request.caller.to_string() });
        let (version, _) = space.versions(RegionNumber(0));
        let txn = Txn::new().expect(keys::space(space.key()), version);
        let txn = self.requests.record(&*self.store, txn, &request, record).await??;
        match self.store.commit(txn).await {
            Ok(_) => Ok(Some(plan)),
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// Refuses to import a delegated region after a restore that may have lost edits, because the region's numbers may
    /// have been issued.
    fn check_sure(&self, space: &Space, plan: Plan) -> Result<Plan, EditError> {
        let unsure = delegated(&plan).find(|_| self.may_have_lost_edits()).map(|region| region.name.to_string());
        unsure.map_or(Ok(plan), |region| Err(EditError::Unsure { space: space.name(), region }))
    }

    /// Returns the rest of this daemon's chunks, and plans the edit again. The edit then depends on the issued suffixes
    /// and not on the reserved ones. The plan uses exactly the counter that its commit compares, not a later value that
    /// a watch reports meanwhile.
    pub(super) async fn settle(
        &self,
        space: &Space,
        command: &EditCommand,
        edited: &[EditedCounter],
        first_plan: Plan,
    ) -> Result<Draft, EditError> {
        let mut counters = Vec::new();
        for (number, cell) in edited {
            space.give_back(&*self.store, *number, cell).await;
            let settled = space.refresh_reserved(&*self.store, *number).await?;
            cell.check(&keys::counter(space.key(), number.0), position(settled.value.reserved))?;
            counters.push((*number, settled));
        }
        let plan = match counters.is_empty() {
            true => first_plan,
            false => {
                let reserved: Vec<_> = counters.iter().map(|(number, read)| (*number, read.value.reserved)).collect();
                let name = space.name();
                let plan = space.read_as_if(&reserved, |table| plan((&name, space.key()), table, command))?;
                check_plan(space, &command.caller, &plan)?;
                plan
            }
        };
        let inner = self.inner_of(space, command, &plan).await?;
        Ok(Draft { plan, edit: self.new_edit(), counters, inner })
    }

    /// Commits the edit, if nothing that it depends on has changed.
    async fn commit(
        &self,
        space: &Space,
        command: &EditCommand,
        draft: &Draft,
        answered: Option<&Answered>,
    ) -> Result<CommitOutcome, EditError> {
        let txn = self.change(revise(Txn::new(), space, draft), space, draft, command);
        let txn = match answered {
            Some(answered) => {
                let how = AskOutcome::Made(command.edit.subject().to_owned());
                let (at, by, note) = (self.unix_ms(), command.principal.clone(), command.options.reason.clone());
                answered.close(txn, space.key(), draft.edit, AskClosed { how, at, by, note })
            }
            None => txn,
        };
        let txn = match request(space, &command.options, &command.caller) {
            Some(request) => {
                let caller = request.caller.to_string();
                let made = EditMade { revision: draft.plan.revision, unchanged: None, caller };
                let record = stored::encode_request(&made);
                self.requests.record(&*self.store, txn, &request, record).await??
            }
            None => txn,
        };
        let txn = draft.inner.iter().fold(txn, |txn, inner| match inner {
            Inner::Made { key, place, table, constants } => {
                place.fill(txn, key, space_record(table, None, draft.edit, *constants))
            }
            Inner::Deleted { space, version, facts } => {
                let (key, facts) = (keys::space(space.key()), SpaceFacts { last_edit: draft.edit, ..*facts });
                txn.expect(key.clone(), *version).put(key, stored::encode_space(&facts))
            }
        });
        match self.store.commit(txn).await {
            Ok(made) => Ok(CommitOutcome::Made(made.version)),
            Err(CommitError::Conflict { .. }) => Ok(CommitOutcome::Conflict),
            Err(CommitError::Unknown(unknown)) => Ok(CommitOutcome::Unknown(unknown)),
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// Applies the outcome of the commit to the table in memory. Returns `None` if the edit was not made and can be
    /// tried again.
    pub(super) async fn adopt(
        &self,
        space: &Space,
        command: &EditCommand,
        draft: Draft,
        outcome: CommitOutcome,
    ) -> Result<Option<Plan>, EditError> {
        let Draft { plan, edit, inner, .. } = draft;
        match outcome {
            CommitOutcome::Conflict => return Ok(None),
            CommitOutcome::Made(version) => {
                if let Err(refusal) = space.apply(&plan, version, edit) {
                    // The edit is in the store, but does not fit the counters in memory. The store takes precedence.
                    warn!(space = space.name(), %refusal, "a committed edit does not fit the table in memory");
                    if let Err(error) = self.reload(space).await {
                        // The edit was made. The next edit compares versions, so it conflicts and reads the table
                        // again.
                        warn!(space = space.name(), %error, "cannot read the table again; the next edit retries");
                    }
                }
                for inner in inner {
                    match inner {
                        Inner::Made { key, table, constants, .. } => {
                            self.insert(&key, State::fresh(*table, version, edit, constants))?;
                        }
                        Inner::Deleted { space, facts, .. } => self.remove(&space, facts.revision),
                    }
                }
                log_edit(space, command, &plan);
            }
            CommitOutcome::Unknown(unknown) => {
                let is_made = match self.reload(space).await {
                    Ok(()) if space.last_edit() != edit => false,
                    Ok(()) => self.adopt_inner(&inner, edit).await,
                    // The outcome stays unknown; an answer that nothing was done could be wrong.
                    Err(_) => false,
                };
                if !is_made {
                    return Err(StoreFailure::from(CommitError::Unknown(unknown)).into());
                }
            }
        }
        Ok(Some(plan))
    }

    /// Adopts the changes of inner spaces from the store. Returns false if one of the new spaces was not created by
    /// this edit, or cannot be read.
    async fn adopt_inner(&self, inner: &[Inner], edit: EditId) -> bool {
        for inner in inner {
            match inner {
                Inner::Made { key, .. } if self.adopt_space(key, edit).await.is_err() => return false,
                Inner::Made { .. } => {}
                Inner::Deleted { space, facts, .. } => self.remove(space, facts.revision),
            }
        }
        true
    }

    /// The spaces that the edit creates for delegations, or the space that it deletes at the end of a delegation.
    async fn inner_of(&self, space: &Space, command: &EditCommand, plan: &Plan) -> Result<Vec<Inner>, EditError> {
        if let (Edit::Undelegate { .. }, Some(region)) = (&command.edit, plan.subject()) {
            let key = keys::inner_space(space.key(), region.number.0);
            let inner = self.by_key(&key).ok_or(NoSuchSpace { space: key })?;
            let _editing = inner.editing.lock().await;
            self.check_unused(&inner).await.map_err(|error| match error {
                EditError::SpaceInUse(occupied) => {
                    EditError::SpaceInUse(Box::new(occupied.keeps_delegation(&region.name)))
                }
                error => error,
            })?;
            let ((version, _), facts) = (inner.versions(RegionNumber(0)), deleted(&inner, EditId::default()));
            return Ok(vec![Inner::Deleted { space: inner.clone(), version, facts }]);
        }
        let mut made = Vec::new();
        for region in delegated(plan) {
            let key = keys::inner_space(space.key(), region.number.0);
            if !keys::fits(&key) {
                return Err(EditError::TooDeep { region: region.name.to_string() });
            }
            self.check_spaces(&key)?;
            let taken = || EditError::SpaceTaken { space: inner_space(&space.name(), &region.name) };
            let place = self.vacant(&key).await?.ok_or_else(taken)?;
            let table = Box::new(place.table(&key, region.suffix)?);
            made.push(Inner::Made { key, place, table, constants: (self.new_key(), TextForm::Decimal) });
        }
        Ok(made)
    }

    /// Adds an edit's changes of regions, counters and the history to a commit, with the versions that they compare.
    pub(super) fn change(&self, mut txn: Txn, space: &Space, draft: &Draft, command: &EditCommand) -> Txn {
        let (Draft { plan, counters, edit, .. }, id) = (draft, space.key());
        let settled = |number: RegionNumber| counters.iter().find(|(of, _)| *of == number).map(|(_, settled)| *settled);
        for change in &plan.changes {
            let key = keys::region(id, change.number.0);
            let (_, version) = space.versions(change.number);
            txn = txn.expect(key.clone(), version);
            let Some(after) = &change.after else {
                // The commit compares the counter, so nothing has been reserved since the counter was read. Every
                // reservation compares the region's record, so nothing is reserved later. The counter's record, if any,
                // is kept: counters are never deleted.
                txn = txn.delete(key);
                continue;
            };
            txn = txn.put(key, stored::encode_region(after));
            // When a region closes, its all-zero subregion inherits the counter, if the counter has a record. When the
            // edit that closed the region is reverted, the region gets the counter back.
            let moved = plan.counter_move.filter(|moved| moved.to == change.number);
            let inherited = moved.and_then(|moved| settled(moved.from)).filter(|from| from.version != 0);
            let (key, reserved) = (keys::counter(id, change.number.0), *after.issued);
            let is_unsure = plan.unsure.contains(&change.number);
            match inherited {
                Some(from) => {
                    // If the region existed before, the version is compared below.
                    txn = if change.before.is_none() { txn.expect(key.clone(), Version::ABSENT) } else { txn };
                    txn = txn.put(key, stored::encode_counter(&stored::Counter { reserved, ..from.value }));
                }
                None if change.before.is_none() && (reserved != Count::ZERO || is_unsure) => {
                    let new = stored::Counter::of_region(reserved, &self.restores);
                    let new = stored::Counter { unsure: new.unsure || is_unsure, ..new };
                    txn = txn.expect(key.clone(), Version::ABSENT).put(key, stored::encode_counter(&new));
                }
                None => {}
            }
        }
        for (number, settled) in counters.iter().copied() {
            txn = txn.expect(keys::counter(id, number.0), Version::new(settled.version));
            if let Some((_, declared)) = plan.declared.filter(|(declared, _)| *declared == number) {
                let declared = stored::Counter { reserved: declared, unsure: false, ..settled.value };
                txn = txn.put(keys::counter(id, number.0), stored::encode_counter(&declared));
            }
            // A restore may have lost regions in the delegated region's space, and these regions may have issued the
            // delegated region's suffixes.
            let unsure = stored::Counter { unsure: true, ..settled.value };
            let is_undelegated = matches!(command.edit, Edit::Undelegate { .. });
            if is_undelegated && self.may_have_lost_edits() && settled.version != 0 {
                txn = txn.put(keys::counter(id, number.0), stored::encode_counter(&unsure));
            }
        }
        let declared = plan.declared.and_then(|(_, after)| {
            let before = *plan.changes.first()?.before.as_ref()?.issued;
            Some(Declared { before, after })
        });
        let entry = HistoryEntry {
            edit: *edit,
            // OK because the wall clock is within centuries of 1970; otherwise, a wrong time is recorded.
            unix_nanos: i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX),
            principal: command.principal.clone(),
            operation: command.edit.operation().to_owned(),
            reason: command.options.reason.clone(),
            request_id: command.options.request_id.clone(),
            changes: plan.changes.clone(),
            declared,
            follows: None,
            undoes: command.undoes,
        };
        history::record(txn, space, plan.revision, &entry)
    }
}

/// Adds the record of the space at an edit's revision to a commit. Of several edits in one commit, only the last one
/// writes it.
pub(super) fn revise(txn: Txn, space: &Space, Draft { plan, edit, .. }: &Draft) -> Txn {
    let (key, constants) = (keys::space(space.key()), space.constants());
    let record = space.read(|table| space_record(table, Some(plan), *edit, constants));
    let (version, _) = space.versions(RegionNumber(0));
    txn.expect(key.clone(), version).put(key, record)
}

/// Sets the counters of changed regions to their current values.
fn set_counters(space: &Space, changes: &mut [Change]) {
    space.read(|table| {
        for region in changes.iter_mut().flat_map(Change::sides_mut) {
            if let Some(present) = table.get(region.number) {
                region.issued = present.issued.clone();
            }
        }
    });
}

/// The request ID of an edit.
fn request(space: &Space, options: &EditOptions, caller: &Caller) -> Option<Request> {
    Request::new(&options.request_id, RequestScope { space: space.key(), number: None }, caller.identity())
}

/// Whether the history entry records this edit.
fn is_same(entry: &HistoryEntry, edit: &Edit) -> bool {
    let declared = entry.declared.map(|declared| declared.after);
    entry.undoes.is_none() && entry.operation == edit.operation() && edit.can_have_made(&entry.changes, declared)
}

/// The plan of an earlier edit that changed nothing.
fn found_unchanged(space: &Space, revision: Revision, number: RegionNumber) -> Plan {
    let found = space.read(|table| table.get(number).cloned());
    let changes = found.map(|region| Change::changed(region.clone(), region)).into_iter().collect();
    Plan::made(revision.next(), changes).without_effect()
}

/// The regions that a plan delegates.
fn delegated(plan: &Plan) -> impl Iterator<Item = &Region> {
    let regions = plan.changes.iter().filter_map(|change| change.after.as_ref());
    regions.filter(|region| plan.delegated.contains(&region.number))
}

fn log_edit(space: &Space, command: &EditCommand, plan: &Plan) {
    flight::record(Happened::Edit {
        space: space.name().as_str().into(),
        operation: command.edit.operation(),
        region: command.edit.subject().into(),
        revision: plan.revision.0,
    });
    info!(
        space = space.name(),
        operation = command.edit.operation(),
        region = command.edit.subject(),
        revision = plan.revision.0,
        "table edited"
    );
}

fn plan((space, key): (&str, &str), table: &Table, command: &EditCommand) -> Result<Plan, EditError> {
    let present = table.revision();
    let refused =
        |refusal, nearest| EditError::Refused { space: space.to_owned(), refusal: Box::new(refusal), nearest };
    let named = || table.named(command.edit.subject()).map(|region| region.number);
    if command.number.is_some_and(|number| named() != Ok(number)) {
        return Err(refused(Refusal::NoSuchRegion { name: command.edit.subject().to_owned() }, None));
    }
    match command.options.expected {
        Some(expected) if expected != present => {
            Err(EditError::Stale { space: space.to_owned(), expected: expected.0, present })
        }
        _ => table.plan(&command.edit).map_err(|refusal| {
            let nearest = nearest(table, key, command, &refusal).map(|edit| Box::new((edit, present)));
            refused(conceal(table, key, &command.caller, refusal), nearest)
        }),
    }
}

/// Returns the nearest edit that is legal and that the caller may make, unless that reveals regions that the caller may
/// not read.
fn nearest(table: &Table, key: &str, command: &EditCommand, refusal: &Refusal) -> Option<Edit> {
    let (edit, plan) = table.nearest(&command.edit, refusal)?;
    // A suggested place for a new region reveals that no other region is there.
    let is_placed = matches!(edit, Edit::Create { .. });
    let may_know = !is_placed || command.caller.may(Action::Read, Target::Table { space: key });
    (may_know && may_make(key, &command.caller, &plan)).then_some(edit)
}

#[cfg(test)]
mod tests {
    use kent_regions::{Order, Place, Start};

    use super::*;

    #[test]
    fn err_an_edit_by_number_does_not_change_a_region_that_took_over_the_name() {
        let mut table = Table::new(16).expect("a width");
        let mut make = |name: &str, prefix: &str| {
            let place = Place::At(prefix.parse().expect("a prefix"));
            let (name, next, order) = (name.to_owned(), Count::ZERO, Order::Sequential);
            let plan = table
                .plan(&Edit::Create { name, suffix: 4, place, start: Start { next, order, ..Start::default() } })
                .expect("legal");
            table.apply(&plan).expect("applied");
            plan.subject().expect("made").number
        };
        let (busy, other) = (make("busy", "01"), make("other", "10"));
        let planned = |number| {
            let (edit, options) = (Edit::Expand { name: "busy".to_owned(), by: 1 }, EditOptions::default());
            let (principal, caller, undoes) = (String::new(), Caller::DAEMON, None);
            let command = EditCommand { space: "s".to_owned(), number, edit, options, principal, caller, undoes };
            plan(("s", "s"), &table, &command).map(|plan| plan.subject().expect("changed").number)
        };
        assert_eq!(planned(None).expect("by name"), busy);
        assert_eq!(planned(Some(busy)).expect("by number"), busy);
        // The policy required the expansion of another region, whose name was `busy` at that time.
        assert!(matches!(planned(Some(other)), Err(EditError::Refused { .. })));
    }
}
