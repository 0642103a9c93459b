//! Registers this replica for turns at a strict counter ([`kent_issue::Turns`]), and follows the turns of the others.
//!
//! A registered replica has a record in the store. The record is empty at first. After each turn, it contains the
//! counter, so that the replica whose turn is next need not read the counter.

use std::time::Duration;

use kent_issue::{HolderId, Stored, TurnStep};
use kent_proto::stored::{self, Malformed};
use kent_regions::RegionNumber;
use kent_store::{Key, Store, Txn, Version, Versioned};
use tokio::time;
use tracing::debug;

use crate::{
    host::clock::Clock,
    issuing::cell::Cell,
    records::{failure::StoreFailure, keys},
};

/// How long a replica whose turn it is waits for requests before it deregisters. Callers that were just answered often
/// send another request.
const LINGER: Duration = Duration::from_millis(1);

/// How often a waiting replica checks for requests whose wait limit has passed.
const EXPIRE_INTERVAL: Duration = Duration::from_millis(2);

/// The maximum number of crashed replicas whose records one commit removes.
const OVERTAKEN_MAX: usize = 8;

/// The records of turns at one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnsAt<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) clock: &'a dyn Clock,
    /// The key of the region's space.
    pub(crate) space: &'a str,
    pub(crate) number: RegionNumber,
    pub(crate) cell: &'a Cell,
}

/// What the store says about a replica's turns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn<'a> {
    /// The record of a registered replica.
    Record(&'a Versioned),
    /// The replica deregistered, or was overtaken, at this version.
    Gone(Version),
}

/// The writes by which a commit ends this replica's turn.
#[derive(Debug)]
pub(crate) struct TurnWrites {
    own: Key,
    overtaken: Vec<Key>,
}

impl TurnWrites {
    /// Adds the writes to a commit after which the counter has this value.
    pub(crate) fn add_to(self, txn: Txn, counter: &stored::Counter) -> Txn {
        let txn = txn.put(self.own, stored::encode_counter(counter));
        self.overtaken.into_iter().fold(txn, Txn::delete)
    }
}

impl TurnsAt<'_> {
    /// Waits until this replica should commit, or has nothing to commit and is not registered. If the store fails, this
    /// replica does not wait: its next commit reports the failure.
    pub(crate) async fn take(&self, own: HolderId) {
        loop {
            let now = self.clock.steady();
            // A change after this line ends the wait below.
            let changed = self.cell.turned.notified();
            let (step, is_waiting) = self.cell.with_queue(|queue| {
                queue.expire(now);
                (queue.turns.step(!queue.is_empty(), now), !queue.is_empty())
            });
            match step {
                TurnStep::Go => return,
                TurnStep::Register => {
                    if let Err(error) = self.register(own).await {
                        debug!(%error, "cannot register for turns at a counter");
                        return;
                    }
                }
                TurnStep::Deregister => {
                    let gathered = self.cell.with_queue(|queue| queue.gather(1));
                    if let Some(gathered) = gathered
                        && time::timeout(LINGER, gathered).await.is_err()
                    {
                        self.deregister(own).await;
                    }
                }
                TurnStep::Wait(left) => {
                    let left = if is_waiting { left.min(EXPIRE_INTERVAL) } else { left };
                    // OK because the loop looks at the turns again in either case.
                    let _ = time::timeout(left, changed).await;
                }
            }
        }
    }

    /// Returns the writes by which a commit ends this replica's turn, or `None` if this replica is not registered.
    pub(crate) fn writes(&self) -> Option<TurnWrites> {
        self.cell.with_queue(|queue| {
            let own = keys::turn(self.space, self.number, queue.turns.own()?);
            let overtaken = queue.turns.before_own().take(OVERTAKEN_MAX);
            let overtaken = overtaken.map(|replica| keys::turn(self.space, self.number, replica)).collect();
            Some(TurnWrites { own, overtaken })
        })
    }

    async fn register(&self, own: HolderId) -> Result<(), StoreFailure> {
        let key = keys::turn(self.space, self.number, own);
        let made = self.store.commit(Txn::new().put(key, [])).await?;
        // Replicas may have registered before this replica had a cell for the region.
        self.cell.with_queue(|queue| queue.turns.begin_read());
        let all = self.store.scan(&keys::turns(self.space, self.number)).await;
        let now = self.clock.steady();
        self.cell.with_queue(|queue| queue.turns.register(own, made.version.get(), now));
        for (key, record) in all? {
            self.cell.turn_changed(keys::parse_turn(&key)?.2, Turn::Record(&record), now)?;
        }
        self.cell.with_queue(|queue| queue.turns.end_read());
        Ok(())
    }

    /// Lets the other replicas go on without this one.
    pub(crate) async fn deregister(&self, own: HolderId) {
        let gone = self.store.commit(Txn::new().delete(keys::turn(self.space, self.number, own))).await;
        // If the commit failed, the other replicas overtake this one after a while, and remove its record.
        let version = gone.map_or(u64::MAX, |gone| gone.version.get());
        let now = self.clock.steady();
        self.cell.with_queue(|queue| queue.turns.gone(own, version, now));
    }
}

impl Cell {
    /// Follows a change to a replica's turns.
    pub(crate) fn turn_changed(&self, replica: HolderId, turn: Turn<'_>, now: Duration) -> Result<(), Malformed> {
        match turn {
            Turn::Record(Versioned { version, value }) => {
                let is_over = !value.is_empty();
                self.with_queue(|queue| queue.turns.seen(replica, version.get(), is_over, now));
                if is_over {
                    self.saw(Stored { version: version.get(), value: stored::decode_counter(value)? });
                }
            }
            Turn::Gone(version) => self.with_queue(|queue| queue.turns.gone(replica, version.get(), now)),
        }
        self.turned.notify_waiters();
        Ok(())
    }
}
