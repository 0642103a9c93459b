//! The spaces of a store, with their tables in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use kent_ids::ClusterKey;
use kent_issue::Chunk;
use kent_proto::stored::{Counter, EditId, Malformed, Restored, TextForm};
use kent_regions::{Count, RegionNumber, Revision, Table};
use kent_store::{CommitError, Store, Txn, Version};
use tokio::sync::Mutex;
use tracing::info;

use crate::{
    error::{EditError, NoSuchSpace},
    host::{
        Environment,
        clock::Clock,
        entropy::{self, Entropy},
    },
    issuing::requests::Requests,
    records::{
        counters::restores,
        failure::{LoadError, StoreFailure},
        keys,
    },
    tables::space::{Space, State, space_record},
};

/// The spaces of a store.
#[derive(Debug)]
pub struct Directory {
    pub(super) store: Arc<dyn Store>,
    pub(super) chunk: Chunk,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) requests: Arc<Requests>,
    /// The restores in the history of the store, oldest first.
    pub(super) restores: Vec<Restored>,
    /// The spaces, by key.
    spaces: RwLock<BTreeMap<String, Arc<Space>>>,
    /// The keys of deleted spaces, whose records stay.
    deleted: RwLock<BTreeSet<String>>,
    /// Held during the creation of a space.
    pub(super) making: Mutex<()>,
    /// Held while requests for regions are changed.
    pub(super) asking: Mutex<()>,
}

/// The width of the space `default`, which every store has.
const DEFAULT_BITS: u32 = 64;

/// The maximum number of spaces, including the spaces of delegated regions and the records of deleted spaces. Each
/// space has a table in memory, and each record stays permanently. Replicas that create spaces at the same time can
/// exceed the maximum slightly.
const SPACES_MAX: usize = 10_000;

impl Directory {
    /// Reads and checks all tables, and creates the default space in a new store.
    pub(crate) async fn load(
        environment: Environment,
        chunk: Chunk,
        requests: Arc<Requests>,
    ) -> Result<Self, LoadError> {
        let Environment { store, clock, entropy } = environment;
        let records = store.scan(&keys::SPACES).await.map_err(StoreFailure::from)?;
        let restores = restores(&*store).await?;
        let (spaces, deleted) = (RwLock::default(), RwLock::default());
        let (making, asking) = (Mutex::default(), Mutex::default());
        let directory = Self { store, chunk, clock, entropy, requests, restores, spaces, deleted, making, asking };
        // A space's key begins with the key of the outer space, so outer spaces come first.
        for (key, record) in &records {
            directory.load_space(keys::parse_space(key).map_err(StoreFailure::from)?, record).await?;
        }
        let table = Table::new(DEFAULT_BITS).map_err(|_| LoadError::NoDefaultSpace)?;
        match directory.create_space(kent_ids::DEFAULT_SPACE, table, TextForm::Decimal, false).await {
            Ok(_) | Err(EditError::SpaceTaken { .. }) => Ok(directory),
            Err(EditError::Store(failure)) => Err(failure.into()),
            Err(_) => Err(LoadError::NoDefaultSpace),
        }
    }

    /// Finds a space by name. The name of a delegated region's space is a path: the name of the outermost space and the
    /// names of the delegated regions.
    pub fn find(&self, name: &str) -> Result<Arc<Space>, NoSuchSpace> {
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
    pub fn inner(&self, space: &Space, number: RegionNumber) -> Option<Arc<Space>> {
        self.by_key(&keys::inner_space(space.key(), number.0))
    }

    /// Finds a space by the key of its records.
    pub fn by_key(&self, key: &str) -> Option<Arc<Space>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All spaces, sorted by name.
    pub fn spaces(&self) -> Vec<Arc<Space>> {
        let mut spaces: Vec<_> = self.spaces.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        spaces.sort_by_cached_key(|space| space.name());
        spaces
    }

    /// Creates a space with this table. A dry run only checks whether the space can be created.
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
        let (edit, constants) = (self.new_edit(), (self.new_key(), text_form));
        let Some(vacant) = self.vacant(name).await? else { return self.adopt_space(name, edit).await };
        self.check_spaces(name)?;
        let table = vacant.table(name, table.bits())?;
        if validate_only {
            let state = State::fresh(table, Version::ABSENT, edit, constants);
            return Ok(Arc::new(Space::new(name.to_owned(), None, state)));
        }
        let record = space_record(&table, None, edit, constants);
        match self.store.commit(vacant.fill(Txn::new(), name, record)).await {
            Ok(made) => {
                info!(space = name, bits = table.bits(), "space created");
                Ok(self.insert(name, State::fresh(table, made.version, edit, constants))?)
            }
            Err(CommitError::Conflict { .. }) => self.adopt_space(name, edit).await,
            Err(CommitError::Unknown(unknown)) => match self.vacant(name).await {
                Ok(None) => self.adopt_space(name, edit).await,
                // The commit may still take effect.
                Ok(Some(_)) | Err(_) => Err(StoreFailure::from(CommitError::Unknown(unknown)).into()),
            },
            Err(error) => Err(StoreFailure::from(error).into()),
        }
    }

    /// Fails if the maximum number of spaces already exists, unless the new space takes the place of a deleted one.
    pub(super) fn check_spaces(&self, key: &str) -> Result<(), EditError> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner).len();
        let deleted = self.deleted.read().unwrap_or_else(PoisonError::into_inner);
        let is_free = deleted.contains(key) || spaces + deleted.len() < SPACES_MAX;
        if is_free { Ok(()) } else { Err(EditError::TooManySpaces { max: SPACES_MAX }) }
    }

    /// Whether callers still find this space under its key. If not, the space was deleted meanwhile.
    pub(super) fn is_current(&self, space: &Arc<Space>) -> bool {
        self.by_key(space.key()).is_some_and(|current| Arc::ptr_eq(&current, space))
    }

    /// Removes a space from memory after its record was marked as deleted at `revision`.
    pub(super) fn remove(&self, space: &Space, revision: Revision) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        // Another space of this name may have been created meanwhile.
        if spaces.get(space.key()).is_some_and(|current| std::ptr::eq(&**current, space)) {
            spaces.remove(space.key());
            drop(spaces);
            self.mark_deleted(space.key());
            space.delete(revision);
            info!(space = space.key(), "space deleted");
        }
    }

    pub(super) fn mark_deleted(&self, key: &str) {
        self.deleted.write().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
    }

    /// Adds a space from the store that is not in memory yet. Fails if another edit created the space.
    pub(super) async fn adopt_space(&self, name: &str, edit: EditId) -> Result<Arc<Space>, EditError> {
        let state = State::load(&*self.store, name).await.map_err(EditError::from)?;
        let state = state.ok_or_else(|| NoSuchSpace { space: name.to_owned() })?;
        let space = self.insert(name, state)?;
        match space.last_edit() == edit {
            true => Ok(space),
            false => Err(EditError::SpaceTaken { space: name.to_owned() }),
        }
    }

    /// Adds a space, unless another task has added it meanwhile, so that all callers share one `Space`.
    pub fn insert(&self, key: &str, state: State) -> Result<Arc<Space>, StoreFailure> {
        Ok(self.add(self.space_of(key, state)?))
    }

    /// Makes a space that is not in memory yet.
    pub(super) fn space_of(&self, key: &str, state: State) -> Result<Arc<Space>, StoreFailure> {
        let outer = match keys::parse_inner_space(key)? {
            None => None,
            Some((outer, number)) => {
                let missing = Malformed { what: "the space around a delegated region is missing" };
                Some((self.by_key(outer).ok_or(missing)?, RegionNumber(number)))
            }
        };
        Ok(Arc::new(Space::new(key.to_owned(), outer, state)))
    }

    /// Adds a space, unless another one with its key has been added meanwhile. Returns the one that is in memory.
    pub(super) fn add(&self, space: Arc<Space>) -> Arc<Space> {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        self.deleted.write().unwrap_or_else(PoisonError::into_inner).remove(space.key());
        spaces.entry(space.key().to_owned()).or_insert(space).clone()
    }

    /// Reads a region's counter from the store. After a restore that may have lost edits, the position of a missing
    /// counter is unknown.
    pub async fn read_counter(&self, space: &Space, number: RegionNumber) -> Result<Counter, StoreFailure> {
        let read = space.refresh_reserved(&*self.store, number).await?;
        Ok(if read.version == 0 { Counter::of_region(Count::ZERO, &self.restores) } else { read.value })
    }

    /// Draws a key for a space's scrambled order.
    pub(super) fn new_key(&self) -> ClusterKey {
        ClusterKey::new(entropy::bytes(&*self.entropy))
    }

    /// Draws an ID for an edit. If the store's answer is lost, the ID shows whether the edit was made.
    pub(super) fn new_edit(&self) -> EditId {
        EditId(entropy::bytes(&*self.entropy))
    }
}
