//! Interned parts of states: equal values share one allocation, copies are pointers, and each hash is computed once.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher},
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ahash::RandomState;

/// An interned value, with its hash.
#[derive(Clone, Debug)]
pub(super) struct Shared<T> {
    hash: u64,
    value: Arc<T>,
}

/// A map from hashes to values, split into parts with separate locks to reduce contention.
#[derive(Debug)]
pub(super) struct Pool<T>([Mutex<HashMap<u64, T, BuildHash>>; PARTS]);

const PARTS: usize = 64;

/// A type whose values are interned in a pool. The pool keeps every value, because there are far fewer values than
/// states.
pub(super) trait Pooled: Hash + Eq + Sized + 'static {
    fn pool() -> &'static Pool<Arc<Self>>;
}

/// Implements [`Pooled`] for each of these types.
macro_rules! pooled {
    ($($shared:ty),* $(,)?) => {
        $(impl $crate::model::shared::Pooled for $shared {
            fn pool() -> &'static $crate::model::shared::Pool<std::sync::Arc<Self>> {
                static POOL: std::sync::LazyLock<$crate::model::shared::Pool<std::sync::Arc<$shared>>> =
                    std::sync::LazyLock::new(Default::default);
                &POOL
            }
        })*
    };
}
pub(super) use pooled;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl<T> Pool<T> {
    fn part(&self, hash: u64) -> MutexGuard<'_, HashMap<u64, T, BuildHash>> {
        // OK because the remainder is below a small constant.
        self.0[(hash % PARTS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Pool<T> {
    /// Returns the value for this hash, and creates it on first use.
    pub(super) fn get_or_create(&self, hash: u64, create: impl FnOnce() -> T) -> T {
        if let Some(known) = self.part(hash).get(&hash) {
            return known.clone();
        }
        let created = create();
        self.part(hash).insert(hash, created.clone());
        created
    }
}

impl<T: Pooled> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        let hash = hash(&value);
        let mut part = T::pool().part(hash);
        if let Some(known) = part.get(&hash).filter(|known| ***known == value) {
            return Self { hash, value: known.clone() };
        }
        let value = Arc::new(value);
        part.insert(hash, value.clone());
        Self { hash, value }
    }
}

impl<T: Pooled + Clone> Shared<T> {
    /// Changes the value for this owner only.
    pub(super) fn update<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut value = T::clone(&self.value);
        let changed = change(&mut value);
        *self = Self::new(value);
        changed
    }
}

impl<T> Shared<T> {
    pub(super) const fn hash_of(&self) -> u64 {
        self.hash
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.value, &other.value) || self.value == other.value)
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Returns a hash with fixed keys, which is the same in every run.
pub(super) fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(value)
}

/// A builder of [`Identity`] hashers, for keys that are already hashes.
#[derive(Clone, Copy, Debug, Default)]
struct BuildHash;

/// A hasher that returns the `u64` that was written to it.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u64);

impl BuildHasher for BuildHash {
    type Hasher = Identity;

    fn build_hasher(&self) -> Identity {
        Identity(0)
    }
}

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        // The lowest bits are the same for all hashes in a part, so rotate them to the other end.
        self.0.rotate_right(8)
    }

    fn write(&mut self, bytes: &[u8]) {
        // This method is not used, because keys are written as u64.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
