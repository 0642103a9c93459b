//! The archive of a simulated store. It models what `kentd --archive` has written by the moment the store is lost.
//!
//! As in `kent_store`, commits are applied one at a time. A commit becomes visible and is answered once both the store
//! and the archive have it. The archive may or may not have a commit that was in flight when the store was lost.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kent_store::{CommitError, Committed, Key, MemoryStore, ReadError, Store, Txn, Unavailable, Unknown, Version};
use tokio::time;

use super::{mutant::Mutant, world::Dice};

/// The archive of one store.
#[derive(Debug)]
pub(crate) struct Archive {
    dice: Dice,
    pace: Pace,
    mutant: Option<Mutant>,
    /// Whether faults are injected.
    foul: Arc<AtomicBool>,
    /// Held by one commit at a time.
    turn: tokio::sync::Mutex<()>,
    kept: Mutex<Contents>,
}

/// The speed of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The archive receives every commit immediately.
    Prompt,
    /// The archive is as slow as a network share that sometimes hangs.
    Slow,
}

/// The records of an archive.
#[derive(Debug, Default)]
struct Contents {
    records: BTreeMap<Key, Vec<u8>>,
    /// Writes that were acknowledged but are not archived yet, for [`Mutant::EarlyAnswer`].
    late: VecDeque<Writes>,
    /// Whether the archive is currently unwritable.
    is_away: bool,
    /// Whether the store is lost. The archive then receives no more commits.
    is_over: bool,
}

type Writes = Vec<(Key, Option<Vec<u8>>)>;

/// The number of commits by which an archive lags with [`Mutant::EarlyAnswer`].
const LATE: usize = 3;

impl Archive {
    /// Creates an archive with the contents of a store.
    pub(crate) async fn begin(
        memory: &MemoryStore,
        dice: Dice,
        pace: Pace,
        foul: Arc<AtomicBool>,
        mutant: Option<Mutant>,
    ) -> Result<Self, ReadError> {
        let records =
            memory.scan(&Key::ROOT).await?.into_iter().map(|(key, versioned)| (key, versioned.value)).collect();
        let kept = Mutex::new(Contents { records, ..Contents::default() });
        Ok(Self { dice, pace, mutant, foul, turn: tokio::sync::Mutex::default(), kept })
    }

    /// Commits to the store and the archive.
    pub(crate) async fn commit(&self, memory: &MemoryStore, txn: Txn) -> Result<Committed, CommitError> {
        let _turn = self.turn.lock().await;
        self.check_there()?;
        if txn.writes().is_empty() || !holds(memory, &txn).await? {
            return memory.commit(txn).await;
        }
        let writes = txn.writes().to_vec();
        if self.mutant == Some(Mutant::EarlyAnswer) {
            self.lock().keep_later(writes);
            return memory.commit(txn).await;
        }
        let is_first = self.pace == Pace::Prompt || self.dice.per_mille(500);
        if is_first {
            self.lock().keep(writes.clone());
        }
        time::sleep(self.wait()).await;
        if self.is_over() {
            return Err(Unknown::new("the store was lost").into());
        }
        if !is_first {
            self.lock().keep(writes);
        }
        memory.commit(txn).await
    }

    /// Fails if the archive is unwritable.
    pub(crate) fn check_there(&self) -> Result<(), Unavailable> {
        let kept = self.lock();
        if kept.is_away || kept.is_over { Err(Unavailable::backend("the archive cannot be written")) } else { Ok(()) }
    }

    /// Returns whether the store is lost.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Makes the archive unwritable, or writable again.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    /// Marks the store as lost, and returns the contents of the archive.
    pub(crate) fn lose(&self) -> Vec<(Key, Vec<u8>)> {
        let mut kept = self.lock();
        kept.is_over = true;
        kept.records.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn wait(&self) -> Duration {
        match self.pace {
            Pace::Slow if self.foul.load(Ordering::SeqCst) && self.dice.per_mille(20) => self.dice.millis(100, 3000),
            Pace::Slow => self.dice.millis(1, 30),
            Pace::Prompt => Duration::ZERO,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn keep(&mut self, writes: Writes) {
        for (key, value) in writes {
            match value {
                Some(value) => drop(self.records.insert(key, value)),
                None => drop(self.records.remove(&key)),
            }
        }
    }

    fn keep_later(&mut self, writes: Writes) {
        self.late.push_back(writes);
        if self.late.len() > LATE
            && let Some(writes) = self.late.pop_front()
        {
            self.keep(writes);
        }
    }
}

/// Returns whether the guards of a transaction hold.
async fn holds(memory: &MemoryStore, txn: &Txn) -> Result<bool, ReadError> {
    for (key, expected) in txn.guards() {
        let version = memory.get(key).await?.map_or(Version::ABSENT, |versioned| versioned.version);
        if version != *expected {
            return Ok(false);
        }
    }
    Ok(true)
}
