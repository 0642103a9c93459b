//! The spaces of a store, and edits of their tables.
//!
//! The tables are kept in memory as the store has them. An edit is planned on the table, committed under the revision that it
//! was planned on together with every region that it changes, and only then applied. An edit that depends on what is issued
//! holds the region's counter still meanwhile.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use kent_issue::Chunk;
use kent_proto::stored::{self, EditId};
use kent_regions::{Count, Edit, Plan, Refusal, RegionNumber, Revision, Table};
use kent_store::{CommitError, Store, Txn, Version};
use rand::Rng;
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::{
    cell::{Cell, read_counter},
    counters,
    engine::LoadError,
    error::{EditError, NoSuchSpace, StoreFailure},
    keys,
    space::{Space, State, space_record},
};

/// The spaces of a store.
#[derive(Debug)]
pub(crate) struct Directory {
    store: Arc<dyn Store>,
    chunk: Chunk,
    spaces: RwLock<BTreeMap<String, Arc<Space>>>,
    /// Held while a space is made.
    making: Mutex<()>,
}

/// An edit, and under which circumstances it is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) space: String,
    pub(crate) edit: Edit,
    /// Whether only the plan is wanted.
    pub(crate) validate_only: bool,
    /// The revision that the author saw.
    pub(crate) expected: Option<Revision>,
}

/// The width of the space `default`, which every store has.
const DEFAULT_BITS: u32 = 64;

/// An edit that meets others is tried so often.
const ATTEMPTS: u32 = 5;

impl Directory {
    /// Reads and checks all tables; makes the default space if the store is new.
    pub(crate) async fn load(store: Arc<dyn Store>, chunk: Chunk) -> Result<Self, LoadError> {
        let records = store.scan(&keys::SPACES).await.map_err(StoreFailure::from)?;
        let directory = Self { store, chunk, spaces: RwLock::default(), making: Mutex::default() };
        for (key, _) in &records {
            let name = keys::parse_space(key).map_err(StoreFailure::from)?;
            directory.insert(name, State::load(&*directory.store, name).await?);
        }
        let table = Table::new(DEFAULT_BITS).map_err(|_| LoadError::NoDefaultSpace)?;
        match directory.create_space(kent_ids::DEFAULT_SPACE, table, false).await {
            Ok(_) | Err(EditError::SpaceTaken { .. }) => Ok(directory),
            Err(EditError::Store(failure)) => Err(failure.into()),
            Err(_) => Err(LoadError::NoDefaultSpace),
        }
    }

    /// The space of this name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Space>, NoSuchSpace> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(name).cloned().ok_or_else(|| NoSuchSpace { space: name.to_owned() })
    }

    /// All spaces, by name.
    pub(crate) fn spaces(&self) -> Vec<Arc<Space>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Makes a space with this table; a dry run only says whether it could.
    pub(crate) async fn create_space(
        &self,
        name: &str,
        table: Table,
        validate_only: bool,
    ) -> Result<Arc<Space>, EditError> {
        let _making = self.making.lock().await;
        if self.find(name).is_ok() {
            return Err(EditError::SpaceTaken { space: name.to_owned() });
        }
        let edit = new_edit();
        if validate_only {
            return Ok(Arc::new(Space::new(name, State::fresh(table, Version::ABSENT, edit))));
        }
        let key = keys::space(name);
        let txn = Txn::new().expect(key.clone(), Version::ABSENT).put(key, space_record(&table, None, edit));
        match self.store.commit(txn).await {
            Ok(made) => {
                info!(space = name, bits = table.bits(), "space made");
                Ok(self.insert(name, State::fresh(table, made.version, edit)))
            }
            Err(CommitError::Unknown(_) | CommitError::Conflict { .. }) => self.adopt(name, edit).await,
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// Takes in a space that the store has although we do not know it; it is ours if our edit made it.
    async fn adopt(&self, name: &str, edit: EditId) -> Result<Arc<Space>, EditError> {
        let state = State::load(&*self.store, name).await.map_err(EditError::from)?;
        let space = self.insert(name, state);
        match space.last_edit() == edit {
            true => Ok(space),
            false => Err(EditError::SpaceTaken { space: name.to_owned() }),
        }
    }

    fn insert(&self, name: &str, state: State) -> Arc<Space> {
        let space = Arc::new(Space::new(name, state));
        self.spaces.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), space.clone());
        space
    }

    /// Plans an edit and, unless it is a dry run, makes it.
    pub(crate) async fn edit(&self, order: &Order) -> Result<(Arc<Space>, Plan), EditError> {
        let space = self.find(&order.space)?;
        let _editing = space.editing.lock().await;
        for _ in 0..ATTEMPTS {
            if let Some(plan) = self.try_edit(&space, order).await? {
                return Ok((space.clone(), plan));
            }
            self.reload(&space).await?;
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// One attempt; `None` if somebody else changed the records meanwhile.
    async fn try_edit(&self, space: &Space, order: &Order) -> Result<Option<Plan>, EditError> {
        let still = self.hold_still(space, &order.edit);
        // Nothing is reserved of the region before the edit is made or refused.
        let _reserving = match &still {
            Some((_, cell)) => Some(cell.reserving.lock().await),
            None => None,
        };
        let counter = match &still {
            Some((number, cell)) => Some((*number, self.settle(space, *number, cell).await?)),
            None => None,
        };
        let plan = plan(space, order)?;
        if order.validate_only {
            return Ok(Some(plan));
        }
        let edit = new_edit();
        let txn = transaction(space, &plan, counter, edit);
        match self.store.commit(txn).await {
            Ok(made) => {
                if let Err(refusal) = space.apply(&plan, made.version, edit) {
                    // The store has the edit; what was counted meanwhile does not fit it. The store is right.
                    warn!(space = space.name(), %refusal, "a durable edit did not fit the table in memory");
                    self.reload(space).await?;
                }
                log_edit(space, order, &plan);
                Ok(Some(plan))
            }
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(CommitError::Unknown(unknown)) => {
                self.reload(space).await?;
                match space.last_edit() == edit {
                    true => Ok(Some(plan)),
                    false => Err(StoreFailure::from(CommitError::Unknown(unknown)).into()),
                }
            }
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// The counter that an edit depends on.
    fn hold_still(&self, space: &Space, edit: &Edit) -> Option<(RegionNumber, Arc<Cell>)> {
        let (Edit::Shrink { name, .. } | Edit::Subdivide { name, .. }) = edit else { return None };
        let number = space.read(|table| table.named(name).map(|region| region.number)).ok()?;
        Some((number, space.cell(number, self.chunk)))
    }

    /// Gives the rest of our chunk back, so that the edit meets what is issued and not what is reserved.
    async fn settle(&self, space: &Space, number: RegionNumber, cell: &Cell) -> Result<(Version, Count), StoreFailure> {
        counters::give_back(&*self.store, space, number, cell).await;
        let read = read_counter(&*self.store, &keys::counter(space.name(), number.0)).await?;
        space.set_reserved(number, read.value);
        Ok((Version::new(read.version), read.value))
    }

    /// Replaces a table in memory by what the store says.
    pub(crate) async fn reload(&self, space: &Space) -> Result<(), EditError> {
        warn!(space = space.name(), "reading the table again, since the store has moved on or did not answer");
        space.replace(State::load(&*self.store, space.name()).await.map_err(EditError::from)?);
        Ok(())
    }
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

fn plan(space: &Space, order: &Order) -> Result<Plan, EditError> {
    space.read(|table| {
        let present = table.revision();
        match order.expected {
            Some(expected) if expected != present => {
                Err(EditError::Stale { space: space.name().to_owned(), expected: expected.0, present })
            }
            _ => check_width(table, &order.edit)
                .and_then(|()| table.plan(&order.edit))
                .map_err(|refusal| refused(space, refusal)),
        }
    })
}

/// A suffix wider than the identifiers is a mistake of the caller's, whatever blocks are free.
fn check_width(table: &Table, edit: &Edit) -> Result<(), Refusal> {
    match edit {
        Edit::Create { suffix, .. } if *suffix > table.bits() => {
            Err(Refusal::SuffixBits { bits: *suffix, max: table.bits() })
        }
        _ => Ok(()),
    }
}

fn refused(space: &Space, refusal: Refusal) -> EditError {
    EditError::Refused { space: space.name().to_owned(), refusal: Box::new(refusal) }
}

/// What a plan writes, and what must not have changed since it was made.
fn transaction(space: &Space, plan: &Plan, counter: Option<(RegionNumber, (Version, Count))>, edit: EditId) -> Txn {
    let name = space.name();
    let record = space.read(|table| space_record(table, Some(plan), edit));
    let (version, _) = space.versions(RegionNumber(0));
    let mut txn = Txn::new().expect(keys::space(name), version).put(keys::space(name), record);
    for change in &plan.changes {
        let key = keys::region(name, change.after.number.0);
        let (_, version) = space.versions(change.after.number);
        txn = txn.expect(key.clone(), version).put(key, stored::encode_region(&change.after));
        if change.before.is_none() && change.after.issued != Count::ZERO {
            let key = keys::counter(name, change.after.number.0);
            txn = txn.expect(key.clone(), Version::ABSENT).put(key, stored::encode_counter(change.after.issued));
        }
    }
    match counter {
        Some((number, (version, _))) => txn.expect(keys::counter(name, number.0), version),
        None => txn,
    }
}

/// An identity for an edit, by which it is known again if the store's answer is lost.
fn new_edit() -> EditId {
    let mut octets = [0; 16];
    rand::rng().fill_bytes(&mut octets);
    EditId(octets)
}
