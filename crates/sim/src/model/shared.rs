//! Parts of a state that many states share: equal values are one value, a copy costs a pointer, and the hash is taken once.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

/// A value behind a pointer, with its hash.
#[derive(Clone, Debug)]
pub(super) struct Shared<T> {
    hash: u64,
    value: Arc<T>,
}

/// All values of a type that there have been, by their hashes. There are far fewer of them than states.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<HashMap<u64, Arc<T>>>);

/// What is shared.
pub(super) trait Pooled: Hash + Eq + Sized + 'static {
    fn pool() -> &'static Pool<Self>;
}

/// Gives each of these types a pool.
macro_rules! pooled {
    ($($shared:ty),* $(,)?) => {
        $(impl $crate::model::shared::Pooled for $shared {
            fn pool() -> &'static $crate::model::shared::Pool<Self> {
                static POOL: std::sync::LazyLock<$crate::model::shared::Pool<$shared>> =
                    std::sync::LazyLock::new(Default::default);
                &POOL
            }
        })*
    };
}
pub(super) use pooled;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Pooled> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        let hash = hash(&value);
        let mut pool = T::pool().0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pool.get(&hash).filter(|known| ***known == value).cloned();
        let value = known.unwrap_or_else(|| {
            let value = Arc::new(value);
            pool.insert(hash, value.clone());
            value
        });
        Self { hash, value }
    }
}

impl<T: Pooled + Clone> Shared<T> {
    /// Changes the value, for this owner only.
    pub(super) fn update<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut value = T::clone(&self.value);
        let changed = change(&mut value);
        *self = Self::new(value);
        changed
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

/// The same in every run: the keys of a new `DefaultHasher` are fixed.
pub(super) fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
