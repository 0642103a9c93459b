//! Handles: identifiers of one source, in hand before they are needed.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_ids::{Block, Id, Uid11};
use tokio::{
    sync::watch,
    time::{self, Instant},
};
use uuid::Uuid;

use crate::{
    connection::Connection,
    error::Error,
    fence::Fences,
    stock::{Fresh, Stats, Stock},
    tasks::Work,
};

/// What a handle gives out.
pub trait Identifier: Sized + Send + 'static {
    /// The identifier as this type, or `None` if the source gives out something else.
    fn from_id(id: Id) -> Option<Self>;
}

impl Identifier for Id {
    fn from_id(id: Id) -> Option<Self> {
        Some(id)
    }
}

impl Identifier for Uuid {
    fn from_id(id: Id) -> Option<Self> {
        if let Id::Uuid(uuid) = id { Some(uuid) } else { None }
    }
}

impl Identifier for Uid11 {
    fn from_id(id: Id) -> Option<Self> {
        if let Id::Uid11(uid11) = id { Some(uid11) } else { None }
    }
}

impl Identifier for u128 {
    fn from_id(id: Id) -> Option<Self> {
        if let Id::Number { value, .. } = id { Some(value) } else { None }
    }
}

/// The identifiers of one source. Cheap to clone; clones share what is in hand, and each identifier goes to one of them.
pub struct Handle<T> {
    shared: Arc<Shared>,
    gives: PhantomData<fn() -> T>,
}

/// What the clones of a handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    source: String,
    connection: Arc<Connection>,
    fences: Arc<Fences>,
    stock: Mutex<Stock>,
    /// Counts fetches that have ended.
    fetched: watch::Sender<u64>,
    /// The fetch under way. It is given up with the last clone of the handle.
    work: Mutex<Option<Work>>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), gives: PhantomData }
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("source", &self.shared.source).finish_non_exhaustive()
    }
}

impl<T: Identifier> Handle<T> {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), gives: PhantomData }
    }

    /// The next identifier if one is in hand. It never waits; a fetch is begun when the stock runs low.
    ///
    /// Call it inside a tokio runtime: outside, it gives what is in hand and fetches nothing.
    pub fn try_next(&self) -> Option<T> {
        let id = self.shared.lock().take();
        // OK because without a runtime there is nothing to fetch with; `next` says so.
        let _ = self.shared.refill();
        T::from_id(id?)
    }

    /// The next identifier, from the stock in hand or else from the daemon.
    ///
    /// # Errors
    ///
    /// [`Error`], only when nothing is in hand and none could be fetched.
    pub async fn next(&self) -> Result<T, Error> {
        let mut fetched = self.shared.fetched.subscribe();
        loop {
            fetched.mark_unchanged();
            let (id, ended) = {
                let mut stock = self.shared.lock();
                (stock.take(), stock.last_fetch().0)
            };
            self.shared.refill()?;
            if let Some(id) = id {
                return T::from_id(id).ok_or_else(unusable);
            }
            // OK because the sender lives as long as this handle.
            let _ = fetched.changed().await;
            let (now_ended, failure) = self.shared.lock().last_fetch();
            if let Some(error) = failure.filter(|_| now_ended > ended) {
                return Err(error);
            }
        }
    }

    /// `count` identifiers, distinct and in the order of their blocks: what is in hand, and for the rest blocks of just the
    /// missing size.
    ///
    /// # Errors
    ///
    /// [`Error`] if not all could be fetched; those that were are a gap then.
    pub async fn take(&self, count: usize) -> Result<Vec<T>, Error> {
        let mut ids = Vec::with_capacity(count.min(TAKE_AT_ONCE));
        {
            let mut stock = self.shared.lock();
            while ids.len() < count
                && let Some(id) = stock.take()
            {
                ids.push(T::from_id(id).ok_or_else(unusable)?);
            }
        }
        while ids.len() < count {
            let missing = (count - ids.len()).min(TAKE_AT_ONCE) as u64; // OK because a usize has 64 bits at most
            let Some(fresh) = self.shared.fetch(missing).await? else {
                self.shared.lock().refused();
                continue;
            };
            self.shared.lock().passed_through(&fresh.block);
            for id in fresh.block.walk(rand::make_rng::<rand::rngs::StdRng>()) {
                ids.push(T::from_id(id).ok_or_else(unusable)?);
            }
        }
        self.shared.refill()?;
        Ok(ids)
    }

    /// How many identifiers are in hand.
    pub fn in_hand(&self) -> u64 {
        self.shared.lock().left()
    }

    /// What the handle and its clones have done so far.
    pub fn stats(&self) -> Stats {
        self.shared.lock().stats()
    }
}

/// `take` fetches so many at once at the most: the daemon's clock allows as many of every format within a moment.
const TAKE_AT_ONCE: usize = 1_000_000;

fn unusable() -> Error {
    Error::Unusable { what: "the source gives out identifiers of another kind than the handle".to_owned() }
}

impl Shared {
    pub(crate) fn new(source: String, connection: Arc<Connection>, fences: Arc<Fences>) -> Self {
        let stock = Mutex::new(Stock::new(*connection.settings()));
        Self { source, connection, fences, stock, fetched: watch::Sender::new(0), work: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        // OK because every method of the stock leaves it whole.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a fetch if one is due and none is under way.
    fn refill(self: &Arc<Self>) -> Result<(), Error> {
        let Some(count) = self.lock().begin_fetch() else { return Ok(()) };
        // The work must not keep the handle alive, or nobody would ever give it up.
        let weak = Arc::downgrade(self);
        let (source, connection, fences) = (self.source.clone(), self.connection.clone(), self.fences.clone());
        let work = Work::start(async move {
            let outcome = fetch(&source, &connection, &fences, count).await;
            if let Some(shared) = weak.upgrade() {
                shared.lock().end_fetch(outcome);
                shared.fetched.send_modify(|ended| *ended += 1);
            }
        });
        match work {
            Ok(work) => {
                *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
                Ok(())
            }
            Err(error) => {
                self.lock().end_fetch(Err(error.clone()));
                Err(error)
            }
        }
    }

    async fn fetch(&self, count: u64) -> Result<Option<Fresh>, Error> {
        fetch(&self.source, &self.connection, &self.fences, count).await
    }
}

/// How long a replica that was found to lag behind is given.
const LAG: Duration = Duration::from_millis(20);

/// Fetches a block; `None` if it is older than one already seen. Its age counts from when it was asked for.
async fn fetch(source: &str, connection: &Connection, fences: &Fences, count: u64) -> Result<Option<Fresh>, Error> {
    let asked = Instant::now();
    let block: Block = connection.allocate(source, count).await?;
    if fences.admit(source, &block) {
        return Ok(Some(Fresh { block, asked }));
    }
    // Whoever granted it lags behind the others: another one is asked next, and not at once.
    connection.leave(connection.current().0);
    time::sleep(LAG).await;
    Ok(None)
}
