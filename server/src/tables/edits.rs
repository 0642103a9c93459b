//! Edits of tables.
//!
//! An edit is first planned on the table in memory. Then the counter that it depends on is settled, and the edit is committed under
//! the revision of the plan, together with every region that it changes. Only then is it applied to the table in memory. An edit
//! that depends on issued suffixes locks the region's counter meanwhile.

use std::sync::Arc;

use kent_ids::ClusterKey;
use kent_issue::Stored;
use kent_proto::{
    model::{EditOptions, Invalid},
    stored::{self, EditId, HistoryEntry, TextForm},
};
use kent_regions::{Count, Edit, Patch, Plan, Refusal, RegionNumber, Table};
use kent_store::{CommitError, Txn, Unknown, Version};
use tracing::{info, warn};

use super::{
    directory::Directory,
    history::{self, HistoryError},
    space::{Space, State, space_record},
};
use crate::{
    error::EditError,
    issuing::{cell::Cell, requests::Request},
    records::{
        counters::read_counter,
        failure::StoreFailure,
        keys::{self, RequestScope},
    },
};

/// An edit with its options and its author.
#[derive(Clone, Debug)]
pub(crate) struct EditCommand {
    pub(crate) space: String,
    /// The region's number, if the caller knows it; the region may have been renamed meanwhile.
    pub(crate) number: Option<RegionNumber>,
    pub(crate) edit: Edit,
    pub(crate) options: EditOptions,
    /// The author of the edit.
    pub(crate) principal: String,
}

/// The effect of an edit that was made or rehearsed.
#[derive(Clone, Debug)]
pub(crate) struct Edited {
    pub(crate) space: Arc<Space>,
    pub(crate) plan: Plan,
    /// Whether the edit was made earlier, under the same request ID.
    pub(crate) again: bool,
}

/// The space of a region that is being delegated.
struct Inner {
    key: String,
    table: Table,
    constants: (ClusterKey, TextForm),
}

/// An edit that is about to be committed.
struct Draft {
    plan: Plan,
    /// Identifies the edit if the store's answer is lost.
    edit: EditId,
    /// The counter that it depends on, which its commit compares.
    counter: Option<(RegionNumber, Stored<stored::Counter>)>,
    /// The spaces of the regions that it delegates.
    inner: Vec<Inner>,
}

/// The region whose counter an edit depends on, and its counter.
type EditedCounter = (RegionNumber, Arc<Cell>);

/// The outcome of a commit.
enum CommitOutcome {
    Made(Version),
    /// Another edit changed the records first.
    Conflict,
    Unknown(Unknown),
}

/// The maximum number of attempts at an edit that conflicts with others.
const ATTEMPTS: u32 = 5;

impl Directory {
    /// Plans an edit and, unless it is a dry run, commits it. With a request ID it is made only once.
    pub(crate) async fn edit(&self, command: &EditCommand) -> Result<Edited, EditError> {
        let space = self.find(&command.space)?;
        let _editing = space.editing.lock().await;
        if self.store.peers().is_some() {
            // Read other replicas' latest edits first, so that the edit is not rejected as unknown or stale because of them.
            self.reload(&space).await?;
        }
        for _ in 0..ATTEMPTS {
            if let Some(plan) = self.find_earlier_edit(&space, command).await? {
                return Ok(Edited { space: space.clone(), plan, again: true });
            }
            if let Some(plan) = self.try_edit(&space, command).await? {
                return Ok(Edited { space: space.clone(), plan, again: false });
            }
            self.reload(&space).await?;
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// Returns the effect of the edit if it was made earlier under the same request ID.
    async fn find_earlier_edit(&self, space: &Space, command: &EditCommand) -> Result<Option<Plan>, EditError> {
        let Some(request) = request(space, command).filter(|_| !command.options.validate_only) else { return Ok(None) };
        let Some(record) = self.store.get(&request.key).await.map_err(StoreFailure::from)? else { return Ok(None) };
        let revision = stored::decode_request(&record.value).map_err(StoreFailure::from)?;
        if space.read(Table::revision) < revision {
            // Its commit seemed lost, and arrived later.
            self.reload(space).await?;
        }
        let entry = match history::expected(&*self.store, space, revision).await {
            Ok(entry) => entry,
            Err(HistoryError::Forgotten(_)) => return Err(EditError::MadeAndForgotten { revision }),
            Err(HistoryError::Store(failure)) => return Err(failure.into()),
        };
        let same = entry.changes.first().is_some_and(|change| {
            let subject = change.before.as_ref().unwrap_or(&change.after);
            entry.operation == command.edit.operation() && subject.name == command.edit.subject()
        });
        if !same {
            let problem = format!("was used before, for another edit ({} in revision {revision})", entry.operation);
            return Err(Invalid::new("request_id", problem).into());
        }
        // The history does not contain counters; use the current ones.
        let mut changes = entry.changes;
        space.read(|table| {
            for region in changes.iter_mut().flat_map(|change| change.before.iter_mut().chain([&mut change.after])) {
                region.issued = table.get(region.number).map_or(region.issued, |present| present.issued);
            }
        });
        Ok(Some(Plan::made(revision, changes)))
    }

    /// Attempts the edit once; returns `None` if another edit changed the records meanwhile.
    async fn try_edit(&self, space: &Arc<Space>, command: &EditCommand) -> Result<Option<Plan>, EditError> {
        let counter = self.counter_of(space, &command.edit);
        // No chunk of the region is reserved until the edit is made or rejected.
        let _reserving = match &counter {
            Some((_, cell)) => Some(cell.reserving.lock().await),
            None => None,
        };
        let plan = self.plan_edit(space, command, counter.as_ref()).await?;
        if command.options.validate_only {
            return Ok(Some(plan));
        }
        let draft = self.settle(space, command, counter.as_ref(), plan).await?;
        let outcome = self.commit(space, command, &draft).await?;
        self.adopt(space, command, draft, outcome).await
    }

    /// The counter that an edit depends on.
    fn counter_of(&self, space: &Space, edit: &Edit) -> Option<EditedCounter> {
        let (Edit::Shrink { name, .. }
        | Edit::Subdivide { name, .. }
        | Edit::Delegate { name }
        | Edit::Update { name, patch: Patch { next: Some(_), .. } }) = edit
        else {
            return None;
        };
        let number = space.read(|table| table.named(name).map(|region| region.number)).ok()?;
        Some((number, space.cell(number, self.chunk)))
    }

    /// Plans the edit as if the rest of this daemon's chunk were returned. It writes nothing: a rejected edit or a dry run does not
    /// return the chunk.
    async fn plan_edit(
        &self,
        space: &Space,
        command: &EditCommand,
        counter: Option<&EditedCounter>,
    ) -> Result<Plan, EditError> {
        let name = space.name();
        let Some((number, cell)) = counter else {
            let plan = space.read(|table| plan(&name, table, command))?;
            return self.check_sure(space, plan);
        };
        let read = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await?;
        // After a restore, a missing counter may have been lost. Most edits leave the counter missing, so a later grant still
        // checks this; but a delegation starts a new space, so it is checked here.
        let is_unsure = match (read.version, &command.edit) {
            (0, Edit::Delegate { .. }) => stored::Counter::of_region(Count::ZERO, &self.restores).unsure,
            _ => read.value.unsure,
        };
        if is_unsure && !command.edit.names_a_floor() {
            return Err(EditError::Unsure { space: space.name(), region: space.region_name(*number) });
        }
        space.read_as_if(*number, cell.rest_of(read), |table| plan(&name, table, command))
    }

    /// Refuses to import a delegated region after a restore that may have lost edits: its numbers may have been issued.
    fn check_sure(&self, space: &Space, plan: Plan) -> Result<Plan, EditError> {
        let is_unsure = || stored::Counter::of_region(Count::ZERO, &self.restores).unsure;
        let mut changes = plan.changes.iter().map(|change| &change.after);
        match changes.find(|region| plan.delegated.contains(&region.number) && is_unsure()) {
            Some(region) => Err(EditError::Unsure { space: space.name(), region: region.name.clone() }),
            None => Ok(plan),
        }
    }

    /// Returns the rest of this daemon's chunk, so that the edit depends on the issued suffixes and not on the reserved
    /// ones, and plans the edit again. The plan uses exactly the counter that its commit compares, not a later value that a
    /// follower reports meanwhile.
    async fn settle(
        &self,
        space: &Space,
        command: &EditCommand,
        counter: Option<&EditedCounter>,
        first_plan: Plan,
    ) -> Result<Draft, EditError> {
        let (plan, counter) = match counter {
            None => (first_plan, None),
            Some((number, cell)) => {
                space.give_back(&*self.store, *number, cell).await;
                let settled = space.refresh_reserved(&*self.store, *number).await?;
                let name = space.name();
                let plan = space.read_as_if(*number, settled.value.reserved, |table| plan(&name, table, command))?;
                (plan, Some((*number, settled)))
            }
        };
        let inner = self.inner_of(space, &plan)?;
        Ok(Draft { plan, edit: self.new_edit(), counter, inner })
    }

    /// Commits the edit, if nothing that it depends on has changed.
    async fn commit(&self, space: &Space, command: &EditCommand, draft: &Draft) -> Result<CommitOutcome, EditError> {
        let txn = self.transaction(space, draft, command);
        let txn = match request(space, command) {
            Some(request) => {
                let record = stored::encode_request(draft.plan.revision);
                self.requests.record(&*self.store, txn, &request, record).await??
            }
            None => txn,
        };
        let txn = draft.inner.iter().fold(txn, |txn, inner| {
            let key = keys::space(&inner.key);
            let record = space_record(&inner.table, None, draft.edit, inner.constants);
            txn.expect(key.clone(), Version::ABSENT).put(key, record)
        });
        match self.store.commit(txn).await {
            Ok(made) => Ok(CommitOutcome::Made(made.version)),
            Err(CommitError::Conflict { .. }) => Ok(CommitOutcome::Conflict),
            Err(CommitError::Unknown(unknown)) => Ok(CommitOutcome::Unknown(unknown)),
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// Applies the outcome of the commit in memory. Returns `None` if the edit was not made and can be tried again.
    async fn adopt(
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
                    // The store has the edit, and the counters in memory do not fit it. The store is right.
                    warn!(space = space.name(), %refusal, "a committed edit does not fit the table in memory");
                    if let Err(error) = self.reload(space).await {
                        // The edit is made. The next commit compares versions, and reads the table again.
                        warn!(space = space.name(), %error, "cannot read the table again yet");
                    }
                }
                for inner in inner {
                    self.insert(&inner.key, State::fresh(inner.table, version, edit, inner.constants))?;
                }
                log_edit(space, command, &plan);
            }
            CommitOutcome::Unknown(unknown) => {
                let is_made = match self.reload(space).await {
                    Ok(()) if space.last_edit() != edit => false,
                    Ok(()) => self.adopt_spaces(&inner, edit).await,
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

    /// Adds the spaces of delegated regions from the store. Returns whether this edit created them all.
    async fn adopt_spaces(&self, inner: &[Inner], edit: EditId) -> bool {
        for inner in inner {
            if self.adopt_space(&inner.key, edit).await.is_err() {
                return false;
            }
        }
        true
    }

    /// The spaces of the regions that an edit delegates.
    fn inner_of(&self, space: &Space, plan: &Plan) -> Result<Vec<Inner>, EditError> {
        let regions = plan.changes.iter().map(|change| &change.after);
        let delegated = regions.filter(|region| plan.delegated.contains(&region.number));
        let inner = delegated.map(|region| {
            self.check_spaces()?;
            let key = keys::inner_space(space.key(), region.number.0);
            if !keys::fits(&key) {
                return Err(EditError::TooDeep { region: region.name.clone() });
            }
            let problem = |bad: kent_regions::BadWidth| Invalid::new("name", bad);
            let table = Table::new(region.suffix.into()).map_err(problem)?;
            Ok(Inner { key, table, constants: (self.new_key(), TextForm::Decimal) })
        });
        inner.collect()
    }

    /// Builds the commit of a plan: its writes, and the versions that it compares.
    fn transaction(&self, space: &Space, draft: &Draft, command: &EditCommand) -> Txn {
        let (Draft { plan, edit, counter, .. }, id) = (draft, space.key());
        let constants = space.constants();
        let record = space.read(|table| space_record(table, Some(plan), *edit, constants));
        let (version, _) = space.versions(RegionNumber(0));
        let mut txn = Txn::new().expect(keys::space(id), version).put(keys::space(id), record);
        for change in &plan.changes {
            let key = keys::region(id, change.after.number.0);
            let (_, version) = space.versions(change.after.number);
            txn = txn.expect(key.clone(), version).put(key, stored::encode_region(&change.after));
            // When a region closes, its all-zero subregion inherits its counter, if that has a record.
            let is_heir = plan.counter_move.is_some_and(|moved| moved.to == change.after.number);
            let inherited = counter.filter(|(_, settled)| is_heir && settled.version != 0);
            if change.before.is_none() && (inherited.is_some() || change.after.issued != Count::ZERO) {
                let key = keys::counter(id, change.after.number.0);
                let reserved = change.after.issued;
                let new = stored::Counter::of_region(reserved, &self.restores);
                let made = inherited.map_or(new, |(_, settled)| stored::Counter { reserved, ..settled.value });
                txn = txn.expect(key.clone(), Version::ABSENT).put(key, stored::encode_counter(&made));
            }
        }
        if let Some((number, settled)) = *counter {
            txn = txn.expect(keys::counter(id, number.0), Version::new(settled.version));
            if let Some((_, declared)) = plan.declared.filter(|(declared, _)| *declared == number) {
                let declared = stored::Counter { reserved: declared, unsure: false, ..settled.value };
                txn = txn.put(keys::counter(id, number.0), stored::encode_counter(&declared));
            }
        }
        let entry = HistoryEntry {
            // OK because the wall clock is within centuries of 1970; a wrong time is still recorded.
            unix_nanos: i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX),
            principal: command.principal.clone(),
            operation: command.edit.operation().to_owned(),
            reason: command.options.reason.clone(),
            request_id: command.options.request_id.clone(),
            changes: plan.changes.clone(),
            declared: plan.declared.is_some(),
            follows: None,
        };
        history::record(txn, space, plan.revision, &entry)
    }
}

/// The request ID of an edit.
fn request(space: &Space, command: &EditCommand) -> Option<Request> {
    Request::new(&command.options.request_id, RequestScope { space: space.key(), number: None })
}

fn log_edit(space: &Space, command: &EditCommand, plan: &Plan) {
    info!(
        space = space.name(),
        operation = command.edit.operation(),
        region = command.edit.subject(),
        revision = plan.revision.0,
        "table edited"
    );
}

fn plan(space: &str, table: &Table, command: &EditCommand) -> Result<Plan, EditError> {
    let present = table.revision();
    let refused = |refusal| EditError::Refused { space: space.to_owned(), refusal: Box::new(refusal) };
    let named = || table.named(command.edit.subject()).map(|region| region.number);
    if command.number.is_some_and(|number| named() != Ok(number)) {
        return Err(refused(Refusal::NoSuchRegion { name: command.edit.subject().to_owned() }));
    }
    match command.options.expected {
        Some(expected) if expected != present => {
            Err(EditError::Stale { space: space.to_owned(), expected: expected.0, present })
        }
        _ => table.plan(&command.edit).map_err(refused),
    }
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
            let command = EditCommand { space: "s".to_owned(), number, edit, options, principal: String::new() };
            plan("s", &table, &command).map(|plan| plan.subject().expect("changed").number)
        };
        assert_eq!(planned(None).expect("by name"), busy);
        assert_eq!(planned(Some(busy)).expect("by number"), busy);
        // As if `other` had had the name `busy` when its policy required the expansion.
        assert!(matches!(planned(Some(other)), Err(EditError::Refused { .. })));
    }
}
