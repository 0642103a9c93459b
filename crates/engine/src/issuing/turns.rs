//! Registers this replica for turns at a strict counter ([`kent_issue::Turns`]), and follows the turns of the others.
//!
//! A registered replica has a record in the store. The record is empty at first. After each turn, it contains the
//! counter, so that the replica whose turn is next need not read the counter.

use std::{pin::pin, time::Duration};

use kent_issue::{HolderId, Stored, TurnEnd, TurnStep};
use kent_proto::stored::{self, Malformed};
use kent_regions::RegionNumber;
use kent_store::{Key, ReadError, Store, Txn, Version, Versioned};
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

/// The turns at one counter.
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
                    if let Err(error) = self.expiring(self.register(own)).await {
                        debug!(%error, "cannot register for turns at a counter");
                        return;
                    }
                }
                TurnStep::Deregister => {
                    let gathering = if is_waiting { None } else { self.cell.with_queue(|queue| queue.gather(1)) };
                    let is_gathered = match gathering {
                        Some(gathered) => time::timeout(LINGER, gathered).await.is_ok(),
                        None => false,
                    };
                    if !is_gathered {
                        self.expiring(self.deregister(own)).await;
                    }
                }
                TurnStep::Wait(left) => {
                    // OK because the loop looks at the turns again in either case.
                    let _ = time::timeout(left.min(EXPIRE_INTERVAL), changed).await;
                }
            }
        }
    }

    /// Returns what the next commit must record about the turns; `None` if this replica is not registered.
    pub(crate) fn end(&self) -> Option<TurnEnd> {
        let now = self.clock.steady();
        self.cell.with_queue(|queue| queue.turns.end(now))
    }

    /// Adds the end of this replica's turn to a commit after which the counter has this value.
    pub(crate) fn add_to(&self, txn: Txn, end: &TurnEnd, counter: &stored::Counter) -> Txn {
        let key = |replica| keys::turn(self.space, self.number, replica);
        let txn = txn.put(key(end.own), stored::encode_counter(counter));
        end.overtaken.iter().fold(txn, |txn, replica| txn.delete(key(*replica)))
    }

    /// Waits for a call to the store. Meanwhile, answers requests whose wait limit passes.
    async fn expiring<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        loop {
            if let Ok(done) = time::timeout(EXPIRE_INTERVAL, call.as_mut()).await {
                return done;
            }
            let now = self.clock.steady();
            self.cell.with_queue(|queue| queue.expire(now));
        }
    }

    async fn register(&self, own: HolderId) -> Result<(), StoreFailure> {
        self.store.commit(Txn::new().put(keys::turn(self.space, self.number, own), [])).await?;
        // Replicas may have registered before this replica had a cell for the region.
        self.cell.with_queue(|queue| queue.turns.begin_read());
        let read = self.store.scan(&keys::turns(self.space, self.number)).await;
        let now = self.clock.steady();
        self.cell.turns_read(read, now)?;
        self.cell.with_queue(|queue| queue.turns.register(own, now));
        Ok(())
    }

    async fn deregister(&self, own: HolderId) {
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

    /// Ends a read of the records of all replicas that take turns at this counter.
    pub(crate) fn turns_read(
        &self,
        read: Result<Vec<(Key, Versioned)>, ReadError>,
        now: Duration,
    ) -> Result<(), StoreFailure> {
        let parsed = read.map_err(StoreFailure::from).and_then(|records| {
            let parse = |(key, record): &(Key, Versioned)| {
                Ok((keys::parse_turn(key)?.2, record.version.get(), !record.value.is_empty()))
            };
            records.iter().map(parse).collect::<Result<Vec<_>, StoreFailure>>()
        });
        self.with_queue(|queue| match &parsed {
            Ok(records) => queue.turns.end_read(records, now),
            Err(_) => queue.turns.cancel_read(),
        });
        self.turned.notify_waiters();
        parsed.map(drop)
    }
}
