//! Custom layouts as sources.
//!
//! A layout is one record in the store. Before the first grant, the record is marked as used, in a commit that compares
//! its version. From then on, the layout cannot be deleted, so its name never gets other fields, and a daemon can keep
//! the layout in memory without following changes. The identifiers are made unique by slots and windows, like those of
//! formats.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use kent_ids::{
    UnixNanos,
    layout::{Layout, Safe, Spelling, Unsafe},
};
use kent_proto::{
    model::{AllocateInput, Encoding, Invalid, LayoutInput},
    stored::{self, LayoutChange, LayoutOperation, StoredLayout},
};
use kent_store::{CommitError, Committed, Store, Txn, Version};
use tokio::{
    sync::{Mutex, MutexGuard, watch},
    time,
};
use tracing::info;

use super::check_max;
use crate::{
    error::{AllocateError, LayoutError},
    issuing::timed::UsedLayout,
    records::{failure::StoreFailure, keys},
};

mod history;

/// Creates layouts, and keeps those in memory from which this daemon grants.
#[derive(Clone, Debug)]
pub struct LayoutGrants {
    store: Arc<dyn Store>,
    /// The version of the record of the cluster key. A store that replaced this one has another version, and must not get
    /// layouts from a replica that hung meanwhile.
    founded: Version,
    /// The layouts that are marked as used in the store, by name.
    used: Arc<RwLock<BTreeMap<String, Arc<UsedLayout>>>>,
    /// Held while this daemon commits an edit, because each edit rewrites the revision of all layouts.
    editing: Arc<Mutex<()>>,
    /// Notified after each edit, also of another replica.
    edited: watch::Sender<()>,
}

/// A layout, as operators see it.
#[derive(Clone, Debug)]
pub struct ListedLayout {
    /// The name of the layout.
    pub name: String,
    /// Its record.
    pub stored: StoredLayout,
    /// What the layout can issue from now on; `None` if it is no longer safe, because its time has ended or the daemons
    /// use more slots than fit it.
    pub safe: Option<Safe>,
}

/// The maximum number of layouts. Each takes a few kilobytes of memory in every daemon that grants from it.
const LAYOUTS_MAX: usize = 256;

/// The maximum number of attempts at a change that conflicts with changes of other replicas.
const ATTEMPTS: u32 = 16;

/// The pause before the second attempt. Each pause is longer by this time than the one before.
const PAUSE: Duration = Duration::from_millis(5);

impl LayoutGrants {
    /// Checks that the records of all layouts and of their edits are readable. Starts with no layout in memory.
    pub(crate) async fn load(
        store: Arc<dyn Store>,
        founded: Version,
        edited: watch::Sender<()>,
    ) -> Result<Self, StoreFailure> {
        let grants = Self { store, founded, used: Arc::default(), editing: Arc::default(), edited };
        grants.read_all().await?;
        grants.edits().await?;
        Ok(grants)
    }

    /// Returns a layout from which this daemon may grant without reading the store.
    pub(crate) fn used(&self, name: &str) -> Option<Arc<UsedLayout>> {
        self.used.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Reads a layout, and marks it as used, so that this daemon may grant from it. A request with a wrong tag or too many
    /// identifiers is refused before that. If another replica edits a layout at the same time, this may have no effect;
    /// the caller then tries again.
    pub(super) async fn open(
        self,
        name: String,
        (request, packed_bytes): (AllocateInput, u64),
        by: (String, UnixNanos),
    ) -> Result<(), AllocateError> {
        let mut editing = self.editing.lock().await;
        // The call that held the lock before may have had the same purpose.
        if self.used(&name).is_some() {
            return Ok(());
        }
        let Some((stored, version)) = self.read(&name).await? else {
            return Err(AllocateError::NoSuchLayout { name });
        };
        if !stored.used {
            check(&request, &stored.layout, packed_bytes)?;
            let used = StoredLayout { used: true, ..stored.clone() };
            if !self.put(&mut editing, &name, version, (LayoutOperation::Use, used), by).await? {
                // The next attempt reads the record again: if the answer was lost, it tells whether the mark is there.
                return Ok(());
            }
        }
        self.insert(name, stored);
        Ok(())
    }

    /// Creates a layout, or only checks it. An equal layout that already exists under this name is returned as it is.
    pub async fn create(
        &self,
        input: LayoutInput,
        (author, now): (String, UnixNanos),
    ) -> Result<ListedLayout, LayoutError> {
        let LayoutInput { name, layout, spelling, description, validate_only } = input;
        let in_use = self.slots_in_use(now).await?;
        let safe = layout.check(in_use, now);
        let created_ms = i64::try_from(now.get() / 1_000_000).unwrap_or(i64::MAX);
        let created_by = author.clone();
        let new = StoredLayout { layout, spelling, description, created_by, created_ms, used: false };
        for attempt in 0..ATTEMPTS {
            time::sleep(PAUSE * attempt).await;
            let mut editing = self.editing.lock().await;
            if let Some((stored, _)) = self.read(&name).await? {
                let is_same = (&stored.layout, &stored.spelling) == (&new.layout, &new.spelling);
                return match is_same {
                    true => Ok(ListedLayout { name, stored, safe: safe.ok() }),
                    false => Err(LayoutError::Exists { name }),
                };
            }
            let safe = match safe? {
                safe @ Safe::Timed { .. } => safe,
                Safe::Counted { .. } => return Err(LayoutError::NoTime),
            };
            if self.read_all().await?.len() >= LAYOUTS_MAX {
                return Err(LayoutError::TooMany { max: LAYOUTS_MAX });
            }
            let (by, created) = ((author.clone(), now), (LayoutOperation::Create, new.clone()));
            if validate_only || self.put(&mut editing, &name, Version::ABSENT, created, by).await? {
                if !validate_only {
                    info!(layout = name, fields = %new.layout, "layout created");
                }
                return Ok(ListedLayout { name, stored: new, safe: Some(safe) });
            }
        }
        Err(LayoutError::Contended { attempts: ATTEMPTS })
    }

    /// Deletes a layout from which nothing was issued.
    pub async fn delete(&self, name: &str, (author, now): (String, UnixNanos)) -> Result<ListedLayout, LayoutError> {
        let mut tried: Option<(ListedLayout, Version)> = None;
        for attempt in 0..ATTEMPTS {
            time::sleep(PAUSE * attempt).await;
            let mut editing = self.editing.lock().await;
            let read = self.read(name).await?;
            // If the answer of an earlier attempt was lost, and that version is gone, then the attempt succeeded.
            let is_gone = |(_, version): &mut (_, Version)| read.as_ref().is_none_or(|(_, now)| now != version);
            if let Some((listed, _)) = tried.take_if(is_gone)
                && read.as_ref().is_none_or(|(now, _)| !now.used)
            {
                return Ok(listed);
            }
            let (stored, version) = read.ok_or_else(|| LayoutError::NoSuchLayout { name: name.to_owned() })?;
            if stored.used {
                return Err(LayoutError::Used { name: name.to_owned() });
            }
            let key = keys::layout(name);
            let txn = Txn::new().expect(key.clone(), version).delete(key);
            let (operation, name, layout) = (LayoutOperation::Delete, name.to_owned(), Box::new(stored.clone()));
            let deleted = LayoutChange::One { operation, name: name.clone(), layout };
            let commit = self.commit(&mut editing, txn, deleted, (author.clone(), now)).await?;
            let safe = stored.layout.check(0, now).ok();
            let listed = ListedLayout { name, stored, safe };
            match commit {
                Ok(_) => {
                    info!(layout = listed.name, "layout deleted");
                    return Ok(listed);
                }
                Err(CommitError::Conflict { key, .. }) if key == keys::CLUSTER => {
                    return Err(StoreFailure::other_store().into());
                }
                Err(CommitError::Conflict { .. }) => {}
                Err(CommitError::Unknown(_)) => tried = Some((listed, version)),
                Err(error) => return Err(StoreFailure::from(error).into()),
            }
        }
        Err(LayoutError::Contended { attempts: ATTEMPTS })
    }

    /// Returns one layout.
    pub async fn get(&self, name: &str, now: UnixNanos) -> Result<ListedLayout, LayoutError> {
        let missing = || LayoutError::NoSuchLayout { name: name.to_owned() };
        let (stored, _) = self.read(name).await?.ok_or_else(missing)?;
        let safe = stored.layout.check(self.slots_in_use(now).await?, now).ok();
        Ok(ListedLayout { name: name.to_owned(), stored, safe })
    }

    /// Returns all layouts, by name.
    pub async fn list(&self, now: UnixNanos) -> Result<Vec<ListedLayout>, LayoutError> {
        let in_use = self.slots_in_use(now).await?;
        let listed = |(name, stored): (String, StoredLayout)| {
            let safe = stored.layout.check(in_use, now).ok();
            ListedLayout { name, stored, safe }
        };
        Ok(self.read_all().await?.into_iter().map(listed).collect())
    }

    /// The number of slots that a new layout must be able to hold: one more than the highest slot that is reserved now.
    async fn slots_in_use(&self, now: UnixNanos) -> Result<u8, StoreFailure> {
        let mut in_use = 1;
        for (key, versioned) in self.store.scan(&keys::SLOTS).await? {
            if stored::decode_slot(&versioned.value)?.reserved_until.nanos() > now {
                in_use = in_use.max(keys::parse_slot(&key)?.get() + 1);
            }
        }
        Ok(in_use)
    }

    /// Returns the fields and the text form of a layout, if it exists.
    pub(super) async fn find(&self, name: &str) -> Result<Option<(Layout, Spelling)>, StoreFailure> {
        Ok(self.read(name).await?.map(|(stored, _)| (stored.layout, stored.spelling)))
    }

    async fn read(&self, name: &str) -> Result<Option<(StoredLayout, Version)>, StoreFailure> {
        let Some(read) = self.store.get(&keys::layout(name)).await? else { return Ok(None) };
        Ok(Some((stored::decode_layout(&read.value)?, read.version)))
    }

    async fn read_all(&self) -> Result<Vec<(String, StoredLayout)>, StoreFailure> {
        let mut all = Vec::new();
        for (key, read) in self.store.scan(&keys::LAYOUTS).await? {
            all.push((keys::parse_layout(&key)?.to_owned(), stored::decode_layout(&read.value)?));
        }
        Ok(all)
    }

    /// Writes the record of a layout. Returns false if another daemon changed a layout first, or if the outcome is
    /// unknown. The caller then reads the record again.
    async fn put(
        &self,
        editing: &mut MutexGuard<'_, ()>,
        name: &str,
        version: Version,
        (operation, layout): (LayoutOperation, StoredLayout),
        by: (String, UnixNanos),
    ) -> Result<bool, StoreFailure> {
        let key = keys::layout(name);
        let txn = Txn::new().expect(key.clone(), version).put(key, stored::encode_layout(&layout));
        let change = LayoutChange::One { operation, name: name.to_owned(), layout: Box::new(layout) };
        match self.commit(editing, txn, change, by).await? {
            Ok(_) => Ok(true),
            Err(CommitError::Conflict { key, .. }) if key == keys::CLUSTER => Err(StoreFailure::other_store()),
            Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Commits an edit, unless the record of the revision cannot be read. The caller holds the lock `editing`.
    async fn commit(
        &self,
        _editing: &mut MutexGuard<'_, ()>,
        txn: Txn,
        change: LayoutChange,
        by: (String, UnixNanos),
    ) -> Result<Result<Committed, CommitError>, StoreFailure> {
        let txn = self.record(txn, change, by).await?;
        let committed = self.store.commit(txn.expect(keys::CLUSTER, self.founded)).await;
        if !matches!(committed, Err(CommitError::Conflict { .. })) {
            self.edited.send_replace(());
        }
        Ok(committed)
    }

    fn insert(&self, name: String, stored: StoredLayout) {
        let mut used = self.used.write().unwrap_or_else(PoisonError::into_inner);
        let number = used.len() as u64; // OK because layouts are never removed, and there are few
        let StoredLayout { layout, spelling, .. } = stored;
        used.entry(name.clone()).or_insert_with(|| Arc::new(UsedLayout { name, number, layout, spelling }));
    }
}

/// Checks a request for identifiers of a layout, and returns the value that the request supplies: see [`tag_of`].
pub(super) fn check(request: &AllocateInput, layout: &Layout, packed_bytes: u64) -> Result<u64, Invalid> {
    if request.encoding == Encoding::Packed {
        let width = u64::from(layout.bits().div_ceil(8));
        check_max(request.count.get(), packed_bytes / width, "packed in one reply")?;
    }
    tag_of(request, layout)
}

/// Returns the value that a request supplies for the field `shard` or `tag`: 0 if the layout has no such field.
fn tag_of(request: &AllocateInput, layout: &Layout) -> Result<u64, Invalid> {
    match (layout.tag_bits(), request.tag) {
        (None, None) => Ok(0),
        (None, Some(_)) => Err(Invalid::new("tag", "is given, but the layout has no field shard or tag")),
        (Some(bits), Some(tag)) if tag.checked_shr(bits.into()).unwrap_or(0) == 0 => Ok(tag),
        (Some(bits), given) => {
            let max = u64::MAX >> (64 - u32::from(bits));
            let problem = given.map_or_else(|| "is missing".to_owned(), |tag| format!("is {tag}"));
            Err(Invalid::new("tag", format!("{problem}, but this layout needs a value from 0 to {max}")))
        }
    }
}

impl From<Unsafe> for LayoutError {
    fn from(reason: Unsafe) -> Self {
        Self::Unsafe(reason)
    }
}
