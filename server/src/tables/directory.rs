//! The spaces of a store, and edits of their tables.
//!
//! The tables are kept in memory as the store has them. An edit is planned on the table, committed under the revision that it
//! was planned on together with every region that it changes, and only then applied. An edit that depends on what is issued
//! holds the region's counter still meanwhile.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use kent_ids::ClusterKey;
use kent_issue::{Chunk, Stored};
use kent_proto::{
    model::{EditOptions, Invalid},
    stored::{self, EditId, HistoryEntry, Malformed, Restored, SpaceFacts, TextForm},
};
use kent_regions::{Count, Edit, Patch, Plan, Refusal, RegionNumber, Revision, Table};
use kent_store::{CommitError, Key, Store, Txn, Version, Versioned};
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::{
    error::{EditError, NoSuchSpace},
    host::{
        Surroundings,
        clock::Clock,
        entropy::{self, Entropy},
    },
    issuing::{
        cell::Cell,
        requests::{Request, Requests},
    },
    records::{
        counters::{read_counter, restores},
        failure::{LoadError, StoreFailure},
        keys::{self, Requested},
    },
    tables::{
        history::{self, NoHistory},
        space::{Space, State, space_record},
    },
};

/// The spaces of a store.
#[derive(Debug)]
pub(crate) struct Directory {
    store: Arc<dyn Store>,
    chunk: Chunk,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    requests: Arc<Requests>,
    /// What the store came through, oldest first.
    restores: Vec<Restored>,
    /// By key.
    spaces: RwLock<BTreeMap<String, Arc<Space>>>,
    /// Held while a space is made.
    making: Mutex<()>,
}

/// An edit, and under which circumstances it is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Order {
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

/// The width of the space `default`, which every store has.
const DEFAULT_BITS: u32 = 64;

/// The most spaces, those of delegated regions included: each is a table in memory for ever, and reports list them all. Several
/// replicas may together make a few more.
const SPACES_MAX: usize = 10_000;

/// An edit that meets others is tried so often.
const ATTEMPTS: u32 = 5;

/// Up to so many edits of others are applied one by one; with more, the whole table is read.
const STEPS_MAX: u64 = 1000;

impl Directory {
    /// Reads and checks all tables; makes the default space if the store is new.
    pub(crate) async fn load(
        surroundings: Surroundings,
        chunk: Chunk,
        requests: Arc<Requests>,
    ) -> Result<Self, LoadError> {
        let Surroundings { store, clock, entropy } = surroundings;
        let records = store.scan(&keys::SPACES).await.map_err(StoreFailure::from)?;
        let restores = restores(&*store).await?;
        let (spaces, making) = (RwLock::default(), Mutex::default());
        let directory = Self { store, chunk, clock, entropy, requests, restores, spaces, making };
        // A space's key begins with that of the space around it, so that comes first.
        for (key, _) in &records {
            let key = keys::parse_space(key).map_err(StoreFailure::from)?;
            directory.insert(key, State::load(&*directory.store, key).await?)?;
        }
        let table = Table::new(DEFAULT_BITS).map_err(|_| LoadError::NoDefaultSpace)?;
        match directory.create_space(kent_ids::DEFAULT_SPACE, table, TextForm::Decimal, false).await {
            Ok(_) | Err(EditError::SpaceTaken { .. }) => Ok(directory),
            Err(EditError::Store(failure)) => Err(failure.into()),
            Err(_) => Err(LoadError::NoDefaultSpace),
        }
    }

    /// The space of this name: for a delegated region's, a path through the tables.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Space>, NoSuchSpace> {
        let missing = || NoSuchSpace { space: name.to_owned() };
        let mut names = name.split('/');
        let mut space = names.next().and_then(|root| self.by_key(root)).ok_or_else(missing)?;
        for region in names {
            let number = space.read(|table| table.named(region).map(|region| region.number)).map_err(|_| missing())?;
            space = self.inner(&space, number).ok_or_else(missing)?;
        }
        Ok(space)
    }

    /// The space of a delegated region's suffixes.
    pub(crate) fn inner(&self, space: &Space, number: RegionNumber) -> Option<Arc<Space>> {
        self.by_key(&keys::inner_space(space.key(), number.0))
    }

    /// The space whose records hang on this key.
    pub(crate) fn by_key(&self, key: &str) -> Option<Arc<Space>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All spaces, by name.
    pub(crate) fn spaces(&self) -> Vec<Arc<Space>> {
        let mut spaces: Vec<_> = self.spaces.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        spaces.sort_by_cached_key(|space| space.name());
        spaces
    }

    /// Makes a space with this table; a dry run only says whether it could.
    pub(crate) async fn create_space(
        &self,
        name: &str,
        table: Table,
        text_form: TextForm,
        validate_only: bool,
    ) -> Result<Arc<Space>, EditError> {
        let _making = self.making.lock().await;
        if self.by_key(name).is_some() {
            return Err(EditError::SpaceTaken { space: name.to_owned() });
        }
        self.check_spaces()?;
        let (edit, constants) = (self.new_edit(), (self.new_key(), text_form));
        if validate_only {
            let state = State::fresh(table, Version::ABSENT, edit, constants);
            return Ok(Arc::new(Space::new(name.to_owned(), None, state)));
        }
        let key = keys::space(name);
        let record = space_record(&table, None, edit, constants);
        match self.store.commit(Txn::new().expect(key.clone(), Version::ABSENT).put(key, record)).await {
            Ok(made) => {
                info!(space = name, bits = table.bits(), "space made");
                Ok(self.insert(name, State::fresh(table, made.version, edit, constants))?)
            }
            Err(CommitError::Unknown(_) | CommitError::Conflict { .. }) => self.adopt(name, edit).await,
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// Whether one more space can be made.
    fn check_spaces(&self) -> Result<(), EditError> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner).len();
        if spaces < SPACES_MAX { Ok(()) } else { Err(EditError::TooManySpaces { max: SPACES_MAX }) }
    }

    /// Takes in a space that the store has although we do not know it; it is ours if our edit made it.
    async fn adopt(&self, name: &str, edit: EditId) -> Result<Arc<Space>, EditError> {
        let state = State::load(&*self.store, name).await.map_err(EditError::from)?;
        let space = self.insert(name, state)?;
        match space.last_edit() == edit {
            true => Ok(space),
            false => Err(EditError::SpaceTaken { space: name.to_owned() }),
        }
    }

    fn insert(&self, key: &str, state: State) -> Result<Arc<Space>, StoreFailure> {
        let outer = match keys::parse_inner_space(key)? {
            None => None,
            Some((outer, number)) => {
                let missing = Malformed { what: "the space around a delegated region is gone" };
                Some((self.by_key(outer).ok_or(missing)?, RegionNumber(number)))
            }
        };
        let space = Arc::new(Space::new(key.to_owned(), outer, state));
        self.spaces.write().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), space.clone());
        Ok(space)
    }

    /// Plans an edit and, unless it is a dry run, makes it; once, if it has a request_id.
    pub(crate) async fn edit(&self, order: &Order) -> Result<Edited, EditError> {
        let space = self.find(&order.space)?;
        let _editing = space.editing.lock().await;
        if self.store.peers().is_some() {
            // What another replica has just made is not refused as unknown or stale.
            self.reload(&space).await?;
        }
        for _ in 0..ATTEMPTS {
            if let Some(plan) = self.made_already(&space, order).await? {
                return Ok(Edited { space: space.clone(), plan, again: true });
            }
            if let Some(plan) = self.try_edit(&space, order).await? {
                return Ok(Edited { space: space.clone(), plan, again: false });
            }
            self.reload(&space).await?;
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// What the edit did when it was made under the same request_id.
    async fn made_already(&self, space: &Space, order: &Order) -> Result<Option<Plan>, EditError> {
        let Some(request) = request(space, order).filter(|_| !order.options.validate_only) else { return Ok(None) };
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
            entry.operation == order.edit.operation() && subject.name == order.edit.subject()
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
    async fn try_edit(&self, space: &Arc<Space>, order: &Order) -> Result<Option<Plan>, EditError> {
        let still = self.hold_still(space, &order.edit);
        // Nothing is reserved of the region before the edit is made or refused.
        let _reserving = match &still {
            Some((_, cell)) => Some(cell.reserving.lock().await),
            None => None,
        };
        let counter = match &still {
            Some((number, cell)) => {
                // An edit that is refused, or a dry run, does not even give the rest of the chunk back.
                let read = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await?;
                let rest = cell.rest_of(read);
                if read.value.unsure && !order.edit.names_a_floor() {
                    return Err(EditError::Unsure { region: space.region_name(*number) });
                }
                let name = space.name();
                let rehearsed = space.read_as_if(*number, rest, |table| plan(&name, table, order))?;
                if order.options.validate_only {
                    return Ok(Some(rehearsed));
                }
                Some((*number, self.settle(space, *number, cell).await?))
            }
            None => None,
        };
        let name = space.name();
        let plan = |table: &Table| plan(&name, table, order);
        // A counter that a follower hears of meanwhile has no part in it: the plan is made of what its commit compares.
        let plan = match &counter {
            Some((number, settled)) => space.read_as_if(*number, settled.value.reserved, plan)?,
            None => space.read(plan)?,
        };
        if order.options.validate_only {
            return Ok(Some(plan));
        }
        let edit = self.new_edit();
        let inner = self.inner_of(space, &plan)?;
        let txn = self.transaction(space, &plan, counter, edit, order);
        let txn = match request(space, order) {
            Some(request) => {
                let record = stored::encode_request(plan.revision);
                self.requests.record(&*self.store, txn, &request, record).await??
            }
            None => txn,
        };
        let txn = match &inner {
            Some(inner) => {
                let key = keys::space(&inner.key);
                let record = space_record(&inner.table, None, edit, inner.constants);
                txn.expect(key.clone(), Version::ABSENT).put(key, record)
            }
            None => txn,
        };
        match self.store.commit(txn).await {
            Ok(made) => {
                if let Err(refusal) = space.apply(&plan, made.version, edit) {
                    // The store has the edit; what was counted meanwhile does not fit it. The store is right.
                    warn!(space = space.name(), %refusal, "a durable edit did not fit the table in memory");
                    self.reload(space).await?;
                }
                if let Some(inner) = inner {
                    self.insert(&inner.key, State::fresh(inner.table, made.version, edit, inner.constants))?;
                }
                log_edit(space, order, &plan);
                Ok(Some(plan))
            }
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(CommitError::Unknown(unknown)) => {
                self.reload(space).await?;
                if space.last_edit() != edit {
                    return Err(StoreFailure::from(CommitError::Unknown(unknown)).into());
                }
                if let Some(inner) = inner {
                    self.adopt(&inner.key, edit).await?;
                }
                Ok(Some(plan))
            }
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// The counter that an edit depends on.
    fn hold_still(&self, space: &Space, edit: &Edit) -> Option<(RegionNumber, Arc<Cell>)> {
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

    /// Gives the rest of our chunk back, so that the edit meets what is issued and not what is reserved.
    async fn settle(
        &self,
        space: &Space,
        number: RegionNumber,
        cell: &Cell,
    ) -> Result<Stored<stored::Counter>, StoreFailure> {
        space.give_back(&*self.store, number, cell).await;
        space.learn_reserved(&*self.store, number).await
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
    fn transaction(
        &self,
        space: &Space,
        plan: &Plan,
        counter: Option<(RegionNumber, Stored<stored::Counter>)>,
        edit: EditId,
        order: &Order,
    ) -> Txn {
        let id = space.key();
        let constants = space.constants();
        let record = space.read(|table| space_record(table, Some(plan), edit, constants));
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
        if let Some((number, settled)) = counter {
            txn = txn.expect(keys::counter(id, number.0), Version::new(settled.version));
            if let Some((_, declared)) = plan.declared.filter(|(declared, _)| *declared == number) {
                let declared = stored::Counter { reserved: declared, unsure: false, ..settled.value };
                txn = txn.put(keys::counter(id, number.0), stored::encode_counter(&declared));
            }
        }
        let entry = HistoryEntry {
            // OK because the wall clock is within some centuries of 1970; a wrong one is still recorded.
            unix_nanos: i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX),
            principal: order.principal.clone(),
            operation: order.edit.operation().to_owned(),
            reason: order.options.reason.clone(),
            request_id: order.options.request_id.clone(),
            changes: plan.changes.clone(),
            follows: None,
        };
        history::record(txn, space, plan.revision, &entry)
    }

    /// A key for a space's scrambled order.
    fn new_key(&self) -> ClusterKey {
        ClusterKey::new(entropy::octets(&*self.entropy))
    }

    /// An identity for an edit, by which it is known again if the store's answer is lost.
    fn new_edit(&self) -> EditId {
        EditId(entropy::octets(&*self.entropy))
    }

    /// Brings a table in memory up to what the store says. The caller holds `editing`.
    pub(crate) async fn reload(&self, space: &Space) -> Result<(), EditError> {
        let read = self.store.get(&keys::space(space.key())).await.map_err(StoreFailure::from)?;
        let missing = Malformed { what: "a space that was there is gone" };
        let record = read.ok_or_else(|| StoreFailure::from(missing))?;
        self.catch_up(space, &record).await.map(drop).map_err(EditError::from)
    }

    /// Makes sure that a table is at least what the store says now.
    pub(crate) async fn refresh(&self, space: &Space) -> Result<(), EditError> {
        let _editing = space.editing.lock().await;
        self.reload(space).await
    }

    /// Takes in what the record of a space says that another replica has written: a new space, or edits of one. True if a
    /// region was sealed.
    pub(crate) async fn follow(&self, key: &Key, record: &Versioned) -> Result<bool, LoadError> {
        let key = keys::parse_space(key).map_err(StoreFailure::from)?;
        let space = match self.by_key(key) {
            Some(space) => space,
            None => {
                let _making = self.making.lock().await;
                // It may have been made here meanwhile.
                if self.by_key(key).is_none() {
                    self.insert(key, State::load(&*self.store, key).await?)?;
                }
                return Ok(false);
            }
        };
        if space.versions(RegionNumber(0)).0 >= record.version {
            return Ok(false);
        }
        let _editing = space.editing.lock().await;
        self.catch_up(&space, record).await
    }

    /// Applies the edits up to a record of the space, one after the other as its history tells, or reads the whole table if
    /// they are too many. True if a region was sealed.
    async fn catch_up(&self, space: &Space, record: &Versioned) -> Result<bool, LoadError> {
        let facts = stored::decode_space(&record.value).map_err(StoreFailure::from)?;
        let mut sealed = false;
        while space.versions(RegionNumber(0)).0 < record.version {
            let present = space.read(Table::revision);
            let missing = facts.revision.0.saturating_sub(present.0);
            let step = match missing {
                1..=STEPS_MAX => self.step(space, Revision(present.0 + 1), &facts).await?,
                _ => None,
            };
            match step {
                Some(step_sealed) => sealed |= step_sealed,
                None => {
                    info!(space = space.name(), missing, "reading the whole table again");
                    space.replace(State::load(&*self.store, space.key()).await?);
                    return Ok(true);
                }
            }
        }
        Ok(sealed)
    }

    /// Applies one edit that another replica has made. `None` if it cannot be applied, otherwise whether it sealed a region.
    async fn step(&self, space: &Space, revision: Revision, facts: &SpaceFacts) -> Result<Option<bool>, LoadError> {
        let Some((entry, version)) = history::versioned(&*self.store, space, revision).await? else { return Ok(None) };
        if entry.follows.is_some() {
            return Ok(None);
        }
        let sealed = sealed(&entry.changes);
        let plan = Plan::made(revision, entry.changes);
        // Only the author of the latest edit is known, and only there does it matter.
        let edit = if revision == facts.revision { facts.last_edit } else { EditId::default() };
        if space.apply(&plan, version, edit).is_err() {
            return Ok(None);
        }
        // History keeps no counters.
        for change in &plan.changes {
            space.learn_reserved(&*self.store, change.after.number).await?;
        }
        Ok(Some(sealed))
    }
}

/// The request_id under which an edit is wanted.
fn request(space: &Space, order: &Order) -> Option<Request> {
    Request::new(&order.options.request_id, Requested { space: space.key(), number: None })
}

fn log_edit(space: &Space, order: &Order, plan: &Plan) {
    info!(
        space = space.name(),
        operation = order.edit.operation(),
        region = order.edit.subject(),
        revision = plan.revision.0,
        "table edited"
    );
}

fn plan(space: &str, table: &Table, order: &Order) -> Result<Plan, EditError> {
    let present = table.revision();
    let refused = |refusal| EditError::Refused { space: space.to_owned(), refusal: Box::new(refusal) };
    let named = || table.named(order.edit.subject()).map(|region| region.number);
    if order.number.is_some_and(|number| named() != Ok(number)) {
        return Err(refused(Refusal::NoSuchRegion { name: order.edit.subject().to_owned() }));
    }
    match order.options.expected {
        Some(expected) if expected != present => {
            Err(EditError::Stale { space: space.to_owned(), expected: expected.0, present })
        }
        _ => table.plan(&order.edit).map_err(refused),
    }
}

/// Whether somebody may wait for us to know of these changes: of a region that is sealed, also if it was before.
fn sealed(changes: &[kent_regions::Change]) -> bool {
    changes.iter().any(|change| change.after.sealed)
}

/// The space of a region that is being delegated.
struct Inner {
    key: String,
    table: Table,
    constants: (ClusterKey, TextForm),
}

#[cfg(test)]
mod tests {
    use kent_regions::{Order as IssueOrder, Place};

    use super::*;

    #[test]
    fn err_an_edit_of_a_region_by_its_number_does_not_hit_another_of_its_old_name() {
        let mut table = Table::new(16).expect("a width");
        let mut make = |name: &str, prefix: &str| {
            let place = Place::At(prefix.parse().expect("a prefix"));
            let (name, next, order) = (name.to_owned(), Count::ZERO, IssueOrder::Sequential);
            let plan = table.plan(&Edit::Create { name, suffix: 4, place, next, order, pace: None }).expect("legal");
            table.apply(&plan).expect("applied");
            plan.subject().expect("made").number
        };
        let (busy, other) = (make("busy", "01"), make("other", "10"));
        let planned = |number| {
            let (edit, options) = (Edit::Expand { name: "busy".to_owned(), by: 1 }, EditOptions::default());
            let order = Order { space: "s".to_owned(), number, edit, options, principal: String::new() };
            plan("s", &table, &order).map(|plan| plan.subject().expect("changed").number)
        };
        assert_eq!(planned(None).expect("by name"), busy);
        assert_eq!(planned(Some(busy)).expect("by number"), busy);
        // As if `other` had been called `busy` when its policy asked for the expansion.
        assert!(matches!(planned(Some(other)), Err(EditError::Refused { .. })));
    }
}
