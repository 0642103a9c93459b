//! The tokens, roles and budgets of the store, in memory.
//!
//! Every change compares and rewrites one record (`access/version`), so changes are made one after another. Other
//! replicas follow the changes through a watch, which reports this record after the other records of the same commit.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use kent_access::{Budget, BudgetId, Holder, Role, Token, TokenId};
use kent_proto::stored::{self, EditId};
use kent_store::{Change, CommitError, Store, Txn, Version, Versioned};
use tokio::sync::{Mutex, watch};

use crate::{
    host::entropy::{self, Entropy},
    records::{
        failure::StoreFailure,
        keys::{self, AccessKey},
    },
};

/// The tokens, roles and budgets.
#[derive(Debug)]
pub struct AccessTable {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    present: RwLock<Arc<Snapshot>>,
    /// Grows with every change.
    generation: AtomicU64,
    /// Publishes the generation.
    changed: watch::Sender<u64>,
    /// Set if `present` may lack a change; then the next refresh reads everything again.
    is_stale: AtomicBool,
    /// Held during a change.
    changing: Mutex<()>,
}

/// The tokens, roles and budgets at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The version of the record `access/version`. The snapshot includes all changes up to this version.
    version: Version,
    tokens: BTreeMap<TokenId, Arc<Token>>,
    roles: BTreeMap<String, Arc<Role>>,
    budgets: BTreeMap<(Holder, BudgetId), Arc<Budget>>,
}

/// A write that is part of a change.
#[derive(Clone, Debug)]
pub enum Write {
    /// Writes a token.
    Token(Box<Token>),
    /// Deletes a token.
    NoToken(TokenId),
    /// Writes a role.
    Role(Role),
    /// Deletes a role.
    NoRole(String),
    /// Writes a budget.
    Budget(Budget),
    /// Deletes a budget.
    NoBudget(Holder, BudgetId),
}

/// The maximum number of attempts at a change that conflicts with changes of other replicas.
const ATTEMPTS: u32 = 16;

impl Snapshot {
    /// The version of the last change that the snapshot includes.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn token(&self, id: TokenId) -> Option<&Arc<Token>> {
        self.tokens.get(&id)
    }

    /// All tokens, by ID.
    pub(crate) fn tokens(&self) -> &BTreeMap<TokenId, Arc<Token>> {
        &self.tokens
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles.get(name)
    }

    /// All roles, by name.
    pub(crate) fn roles(&self) -> impl ExactSizeIterator<Item = &Arc<Role>> {
        self.roles.values()
    }

    /// All budgets, by holder.
    pub(crate) fn budgets(&self) -> &BTreeMap<(Holder, BudgetId), Arc<Budget>> {
        &self.budgets
    }

    /// The budgets of one holder.
    pub(crate) fn budgets_of(&self, holder: &Holder) -> impl Iterator<Item = &Arc<Budget>> {
        let first = (holder.clone(), BudgetId::new([0; 8]));
        self.budgets.range(first..).take_while(move |((of, _), _)| of == holder).map(|(_, budget)| budget)
    }

    /// The writes that remove all budgets of a holder, as part of the change that removes the holder.
    pub(crate) fn no_budgets_of(&self, holder: &Holder) -> impl Iterator<Item = Write> {
        self.budgets_of(holder).map(|budget| Write::NoBudget(holder.clone(), budget.id()))
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::Token(token) => drop(self.tokens.insert(token.id, Arc::new(Token::clone(token)))),
            Write::NoToken(id) => drop(self.tokens.remove(id)),
            Write::Role(role) => drop(self.roles.insert(role.name.clone(), Arc::new(role.clone()))),
            Write::NoRole(name) => drop(self.roles.remove(name)),
            Write::Budget(budget) => {
                drop(self.budgets.insert((budget.holder().clone(), budget.id()), Arc::new(budget.clone())));
            }
            Write::NoBudget(holder, id) => drop(self.budgets.remove(&(holder.clone(), *id))),
        }
    }
}

impl AccessTable {
    /// Reads all tokens, roles and budgets.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or a record is malformed.
    pub async fn load(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>) -> Result<Self, StoreFailure> {
        let present = read(&*store).await?;
        Ok(Self {
            store,
            entropy,
            present: RwLock::new(Arc::new(present)),
            generation: AtomicU64::new(0),
            changed: watch::Sender::new(0),
            is_stale: AtomicBool::new(false),
            changing: Mutex::default(),
        })
    }

    /// The generation, which grows with every change.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Subscribes to the generation.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The current tokens, roles and budgets.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the change that `plan` derives from the current snapshot. Returns the version that includes the change. A
    /// plan without writes changes nothing.
    ///
    /// # Errors
    ///
    /// The errors of `plan`, and an error if the store does not answer.
    pub async fn change<E: From<StoreFailure>>(
        &self,
        plan: impl Fn(&Snapshot) -> Result<Vec<Write>, E>,
    ) -> Result<Version, E> {
        let _changing = self.changing.lock().await;
        let mut attempts = 0;
        loop {
            attempts += 1;
            if self.store.peers().is_some() {
                self.refresh().await?;
            }
            let present = self.snapshot();
            let writes = plan(&present)?;
            if writes.is_empty() {
                return Ok(present.version);
            }
            let change = EditId(entropy::bytes(&*self.entropy));
            let txn = Txn::new().expect(keys::ACCESS_VERSION, present.version);
            // The record `access/version` is written last, so that a watch reports it last.
            let txn = writes.iter().fold(txn, record).put(keys::ACCESS_VERSION, stored::encode_access(change));
            match self.store.commit(txn).await {
                Ok(made) => {
                    self.update(|snapshot| {
                        writes.iter().for_each(|write| snapshot.apply(write));
                        snapshot.version = made.version;
                    });
                    return Ok(made.version);
                }
                Err(CommitError::Conflict { .. }) if attempts < ATTEMPTS => {
                    self.is_stale.store(true, Ordering::Release);
                    self.refresh().await?;
                }
                Err(CommitError::Unknown(unknown)) => {
                    self.is_stale.store(true, Ordering::Release);
                    match self.last_change().await? {
                        Some((last, version)) if last == change => {
                            self.refresh().await?;
                            return Ok(version);
                        }
                        // The commit may still take effect.
                        _ => return Err(StoreFailure::from(CommitError::Unknown(unknown)).into()),
                    }
                }
                Err(error) => return Err(StoreFailure::from(error).into()),
            }
        }
    }

    /// Reads everything again if anything has changed.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or a record is malformed.
    pub(crate) async fn refresh(&self) -> Result<(), StoreFailure> {
        let version = self.last_change().await?.map_or(Version::ABSENT, |(_, version)| version);
        if !self.is_stale.load(Ordering::Acquire) && self.snapshot().version >= version {
            return Ok(());
        }
        // Clear the flag before the read, so that a change that cannot be applied during the read sets it again.
        self.is_stale.store(false, Ordering::Release);
        match read(&*self.store).await {
            Ok(read) => {
                self.update(|present| {
                    if read.version >= present.version {
                        *present = read;
                    }
                });
                Ok(())
            }
            Err(failure) => {
                self.is_stale.store(true, Ordering::Release);
                Err(failure)
            }
        }
    }

    /// Applies a change that another replica has made. Returns false if everything must be read again.
    pub(crate) fn follow(&self, change: &Change) -> bool {
        let followed = match change {
            Change::Put(key, versioned) => self.put(key, versioned),
            Change::Deleted(key, _) => match keys::parse_access(key) {
                Ok(AccessKey::Token(id)) => Ok(Some(Write::NoToken(id))),
                Ok(AccessKey::Role(name)) => Ok(Some(Write::NoRole(name.to_owned()))),
                Ok(AccessKey::Budget(holder, id)) => Ok(Some(Write::NoBudget(holder, id))),
                Ok(AccessKey::Version) | Err(_) => Err(()),
            },
            Change::Missed | Change::Unreadable(_) => Err(()),
        };
        match &followed {
            Ok(Some(write)) => self.update(|present| present.apply(write)),
            Ok(None) => {}
            Err(()) => self.is_stale.store(true, Ordering::Release),
        }
        followed.is_ok()
    }

    /// Decodes a record into a write. Returns `None` if the record is older than the snapshot, or if it is the record
    /// `access/version`.
    fn put(&self, key: &kent_store::Key, versioned: &Versioned) -> Result<Option<Write>, ()> {
        // Records of the snapshot's own version are applied as well, because some records of that commit may still be
        // missing.
        if versioned.version < self.snapshot().version {
            return Ok(None);
        }
        match keys::parse_access(key).map_err(drop)? {
            AccessKey::Token(id) => {
                let token = stored::decode_token(id, &versioned.value).map_err(drop)?;
                Ok(Some(Write::Token(Box::new(token))))
            }
            AccessKey::Role(name) => {
                stored::decode_role(name, &versioned.value).map(Write::Role).map(Some).map_err(drop)
            }
            AccessKey::Budget(holder, id) => {
                stored::decode_budget(id, holder, &versioned.value).map(Write::Budget).map(Some).map_err(drop)
            }
            AccessKey::Version => {
                // Do not confirm the change if one of its records could not be applied.
                if !self.is_stale.load(Ordering::Acquire) {
                    self.update(|present| present.version = present.version.max(versioned.version));
                }
                Ok(None)
            }
        }
    }

    /// The last change, and the version of its record.
    async fn last_change(&self) -> Result<Option<(EditId, Version)>, StoreFailure> {
        let Some(record) = self.store.get(&keys::ACCESS_VERSION).await? else { return Ok(None) };
        Ok(Some((stored::decode_access(&record.value)?, record.version)))
    }

    fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut present = self.present.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut present));
        // The generation grows under the lock, so that no caller is cached with the new generation and the previous
        // rights.
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        drop(present);
        self.changed.send_replace(generation);
    }
}

/// Reads all tokens, roles and budgets as of one version.
async fn read(store: &dyn Store) -> Result<Snapshot, StoreFailure> {
    loop {
        let version = async || {
            let record = store.get(&keys::ACCESS_VERSION).await?;
            Ok::<_, StoreFailure>(record.map_or(Version::ABSENT, |record| record.version))
        };
        let mut snapshot = Snapshot { version: version().await?, ..Snapshot::default() };
        for (key, record) in store.scan(&keys::ACCESS).await? {
            match keys::parse_access(&key)? {
                AccessKey::Token(id) => {
                    snapshot.apply(&Write::Token(Box::new(stored::decode_token(id, &record.value)?)))
                }
                AccessKey::Role(name) => snapshot.apply(&Write::Role(stored::decode_role(name, &record.value)?)),
                AccessKey::Budget(holder, id) => {
                    snapshot.apply(&Write::Budget(stored::decode_budget(id, holder, &record.value)?));
                }
                AccessKey::Version => {}
            }
        }
        // The records are read one after another. If they changed meanwhile, read them again.
        if version().await? == snapshot.version {
            return Ok(snapshot);
        }
    }
}

fn record(txn: Txn, write: &Write) -> Txn {
    match write {
        Write::Token(token) => txn.put(keys::token(token.id), stored::encode_token(token)),
        Write::NoToken(id) => txn.delete(keys::token(*id)),
        Write::Role(role) => txn.put(keys::role(&role.name), stored::encode_role(role)),
        Write::NoRole(name) => txn.delete(keys::role(name)),
        Write::Budget(budget) => txn.put(keys::budget(budget.holder(), budget.id()), stored::encode_budget(budget)),
        Write::NoBudget(holder, id) => txn.delete(keys::budget(holder, *id)).delete(keys::spent(*id)),
    }
}
