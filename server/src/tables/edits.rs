//! Edits of tables.
//!
//! An edit is rehearsed on the table; then what it depends on is settled, it is committed under the revision that it was planned on
//! together with every region that it changes, and only then adopted by the table in memory. An edit that depends on what is
//! issued holds the region's counter still meanwhile.

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
    history::{self, NoHistory},
    space::{Space, State, space_record},
};
use crate::{
    error::EditError,
    issuing::{cell::Cell, requests::Request},
    records::{
        counters::read_counter,
        failure::StoreFailure,
        keys::{self, Requested},
    },
};

/// An edit, and under which circumstances it is wanted.
#[derive(Clone, Debug)]
pub(crate) struct EditCommand {
    pub(crate) space: String,
    /// The region that it is about, where that is known by its number: it may have been renamed meanwhile.
    pub(crate) number: Option<RegionNumber>,
    pub(crate) edit: Edit,
    pub(crate) options: EditOptions,
    /// Who wants it.
    pub(crate) principal: String,
}

/// What an edit did, or would do.
#[derive(Clone, Debug)]
pub(crate) struct Edited {
    pub(crate) space: Arc<Space>,
    pub(crate) plan: Plan,
    /// Whether the edit was made earlier already, under the same request_id.
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
    /// By which it is known again if the store's answer is lost.
    edit: EditId,
    /// What it depends on, which its commit compares.
    counter: Option<(RegionNumber, Stored<stored::Counter>)>,
    /// The space that a delegation makes.
    inner: Option<Inner>,
}

/// A region whose counter an edit depends on.
type Still = (RegionNumber, Arc<Cell>);

/// What became of a commit.
enum Fate {
    Made(Version),
    /// Somebody else changed the records first.
    Conflict,
    Unknown(Unknown),
}

/// An edit that meets others is tried so often.
const ATTEMPTS: u32 = 5;

impl Directory {
    /// Plans an edit and, unless it is a dry run, makes it; once, if it has a request_id.
    pub(crate) async fn edit(&self, command: &EditCommand) -> Result<Edited, EditError> {
        let space = self.find(&command.space)?;
        let _editing = space.editing.lock().await;
        if self.store.peers().is_some() {
            // What another replica has just made is not refused as unknown or stale.
            self.reload(&space).await?;
        }
        for _ in 0..ATTEMPTS {
            if let Some(plan) = self.made_already(&space, command).await? {
                return Ok(Edited { space: space.clone(), plan, again: true });
            }
            if let Some(plan) = self.try_edit(&space, command).await? {
                return Ok(Edited { space: space.clone(), plan, again: false });
            }
            self.reload(&space).await?;
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// What the edit did when it was made under the same request_id.
    async fn made_already(&self, space: &Space, command: &EditCommand) -> Result<Option<Plan>, EditError> {
        let Some(request) = request(space, command).filter(|_| !command.options.validate_only) else { return Ok(None) };
        let Some(record) = self.store.get(&request.key).await.map_err(StoreFailure::from)? else { return Ok(None) };
        let revision = stored::decode_request(&record.value).map_err(StoreFailure::from)?;
        if space.read(Table::revision) < revision {
            // Its commit was thought lost, and came through later.
            self.reload(space).await?;
        }
        let entry = match history::expected(&*self.store, space, revision).await {
            Ok(entry) => entry,
            Err(NoHistory::Forgotten(_)) => return Err(EditError::MadeAndForgotten { revision }),
            Err(NoHistory::Store(failure)) => return Err(failure.into()),
        };
        let same = entry.changes.first().is_some_and(|change| {
            let subject = change.before.as_ref().unwrap_or(&change.after);
            entry.operation == command.edit.operation() && subject.name == command.edit.subject()
        });
        if !same {
            let problem = format!("was used before, for another edit ({} in revision {revision})", entry.operation);
            return Err(Invalid::new("request_id", problem).into());
        }
        // History keeps no counters: they are as they are now.
        let mut changes = entry.changes;
        space.read(|table| {
            for region in changes.iter_mut().flat_map(|change| change.before.iter_mut().chain([&mut change.after])) {
                region.issued = table.get(region.number).map_or(region.issued, |present| present.issued);
            }
        });
        Ok(Some(Plan::made(revision, changes)))
    }

    /// One attempt; `None` if somebody else changed the records meanwhile.
    async fn try_edit(&self, space: &Arc<Space>, command: &EditCommand) -> Result<Option<Plan>, EditError> {
        let still = self.hold_still(space, &command.edit);
        // Nothing is reserved of the region before the edit is made or refused.
        let _reserving = match &still {
            Some((_, cell)) => Some(cell.reserving.lock().await),
            None => None,
        };
        let rehearsed = self.rehearse(space, command, still.as_ref()).await?;
        if command.options.validate_only {
            return Ok(Some(rehearsed));
        }
        let draft = self.settle(space, command, still.as_ref(), rehearsed).await?;
        let fate = self.commit(space, command, &draft).await?;
        self.adopt(space, command, draft, fate).await
    }

    /// The counter that an edit depends on.
    fn hold_still(&self, space: &Space, edit: &Edit) -> Option<Still> {
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

    /// Plans the edit as if the rest of our chunk were given back. Nothing is written: an edit that is refused, or a dry run, does
    /// not even give it back.
    async fn rehearse(&self, space: &Space, command: &EditCommand, still: Option<&Still>) -> Result<Plan, EditError> {
        let name = space.name();
        let Some((number, cell)) = still else { return space.read(|table| plan(&name, table, command)) };
        let read = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await?;
        // A counter that has no record may have been lost, as for grants. After the other edits it still has none; the space of a
        // delegated region would begin anew.
        let is_unsure = match (read.version, &command.edit) {
            (0, Edit::Delegate { .. }) => stored::Counter::of_region(Count::ZERO, &self.restores).unsure,
            _ => read.value.unsure,
        };
        if is_unsure && !command.edit.names_a_floor() {
            return Err(EditError::Unsure { region: space.region_name(*number) });
        }
        space.read_as_if(*number, cell.rest_of(read), |table| plan(&name, table, command))
    }

    /// Gives the rest of our chunk back, so that the edit meets what is issued and not what is reserved, and plans it again. A
    /// counter that a follower hears of meanwhile has no part in it: the plan is made of what its commit compares.
    async fn settle(
        &self,
        space: &Space,
        command: &EditCommand,
        still: Option<&Still>,
        rehearsed: Plan,
    ) -> Result<Draft, EditError> {
        let (plan, counter) = match still {
            None => (rehearsed, None),
            Some((number, cell)) => {
                space.give_back(&*self.store, *number, cell).await;
                let settled = space.learn_reserved(&*self.store, *number).await?;
                let name = space.name();
                let plan = space.read_as_if(*number, settled.value.reserved, |table| plan(&name, table, command))?;
                (plan, Some((*number, settled)))
            }
        };
        let inner = self.inner_of(space, &plan)?;
        Ok(Draft { plan, edit: self.new_edit(), counter, inner })
    }

    /// Makes the edit durable, if nothing that it rests on has changed.
    async fn commit(&self, space: &Space, command: &EditCommand, draft: &Draft) -> Result<Fate, EditError> {
        let txn = self.transaction(space, draft, command);
        let txn = match request(space, command) {
            Some(request) => {
                let record = stored::encode_request(draft.plan.revision);
                self.requests.record(&*self.store, txn, &request, record).await??
            }
            None => txn,
        };
        let txn = match &draft.inner {
            Some(inner) => {
                let key = keys::space(&inner.key);
                let record = space_record(&inner.table, None, draft.edit, inner.constants);
                txn.expect(key.clone(), Version::ABSENT).put(key, record)
            }
            None => txn,
        };
        match self.store.commit(txn).await {
            Ok(made) => Ok(Fate::Made(made.version)),
            Err(CommitError::Conflict { .. }) => Ok(Fate::Conflict),
            Err(CommitError::Unknown(unknown)) => Ok(Fate::Unknown(unknown)),
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// Takes what is durable into memory. `None` if the edit was not made, and can be tried again.
    async fn adopt(
        &self,
        space: &Space,
        command: &EditCommand,
        draft: Draft,
        fate: Fate,
    ) -> Result<Option<Plan>, EditError> {
        let Draft { plan, edit, inner, .. } = draft;
        match fate {
            Fate::Conflict => return Ok(None),
            Fate::Made(version) => {
                if let Err(refusal) = space.apply(&plan, version, edit) {
                    // The store has the edit; what was counted meanwhile does not fit it. The store is right.
                    warn!(space = space.name(), %refusal, "a durable edit did not fit the table in memory");
                    if let Err(error) = self.reload(space).await {
                        // The edit is made. Whatever is committed next compares versions, and reads the table again.
                        warn!(space = space.name(), %error, "the table could not be read again yet");
                    }
                }
                if let Some(inner) = inner {
                    self.insert(&inner.key, State::fresh(inner.table, version, edit, inner.constants))?;
                }
                log_edit(space, command, &plan);
            }
            Fate::Unknown(unknown) => {
                let is_made = match self.reload(space).await {
                    Ok(()) if space.last_edit() != edit => false,
                    Ok(()) => match &inner {
                        Some(inner) => self.adopt_space(&inner.key, edit).await.is_ok(),
                        None => true,
                    },
                    // As unknown as before: to say that nothing was done would be wrong.
                    Err(_) => false,
                };
                if !is_made {
                    return Err(StoreFailure::from(CommitError::Unknown(unknown)).into());
                }
            }
        }
        Ok(Some(plan))
    }

    /// The space that a delegation makes.
    fn inner_of(&self, space: &Space, plan: &Plan) -> Result<Option<Inner>, EditError> {
        let Some(region) = plan.delegated.and_then(|_| plan.subject()) else { return Ok(None) };
        self.check_spaces()?;
        let key = keys::inner_space(space.key(), region.number.0);
        if !keys::fits(&key) {
            return Err(EditError::TooDeep { region: region.name.clone() });
        }
        let problem = |bad: kent_regions::BadWidth| Invalid::new("name", bad);
        let table = Table::new(region.suffix.into()).map_err(problem)?;
        Ok(Some(Inner { key, table, constants: (self.new_key(), TextForm::Decimal) }))
    }

    /// What a plan writes, and what must not have changed since it was made.
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
            // The heir of a region that closes goes on from its counter, if that has a record.
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
            // OK because the wall clock is within some centuries of 1970; a wrong one is still recorded.
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

/// The request_id under which an edit is wanted.
fn request(space: &Space, command: &EditCommand) -> Option<Request> {
    Request::new(&command.options.request_id, Requested { space: space.key(), number: None })
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
    fn err_an_edit_of_a_region_by_its_number_does_not_hit_another_of_its_old_name() {
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
        // As if `other` had been called `busy` when its policy asked for the expansion.
        assert!(matches!(planned(Some(other)), Err(EditError::Refused { .. })));
    }
}
