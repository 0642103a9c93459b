//! Handles: prefetched identifiers of one source.

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, future::maybe_done};
use kent_ids::Block;
use kent_proto::v1::AllocateRequest;
use thread_local::ThreadLocal;
use tokio::{sync::watch, time};
use tonic::Status;

use crate::{
    age::Ages,
    clock,
    connection::Connection,
    error::Error,
    fence::Fences,
    identifier::Identifier,
    lot::{Lot, OtherType, Tally, extend, new_tails},
    origin::Origin,
    source::{Source, lease},
    stock::{Fresh, Stats, Stock},
    tasks::Work,
};

/// A handle returns identifiers of one source. Cheap to clone: clones share the prefetched blocks, and each identifier
/// goes to only one clone.
///
/// A thread that takes identifiers one by one reserves a batch of them for itself: a sixteenth of a block, at most 512.
/// If the identifiers of the source ascend, so do those that one thread takes. There is no order between threads.
///
/// When the process forks, the prefetched identifiers belong to the parent. In the child, the handle returns no
/// identifiers and fails with [`Error::Forked`]. Create a new [`Client`](crate::Client) there.
///
/// ```no_run
/// # async fn example(client: kent_client::Client) -> Result<(), kent_client::Error> {
/// let events = client.uuid_v7();
/// let one = events.next().await?;       // waits only if nothing is prefetched
/// let another = events.try_next();      // never waits
/// let many = events.take(10_000).await?;
/// println!("{:?}, {} prefetched", events.stats(), events.in_hand());
/// # Ok(())
/// # }
/// ```
pub struct Handle<T: Send> {
    hands: Arc<Hands<T>>,
}

/// The state that the clones of a handle share, and the lot of each thread.
struct Hands<T: Send> {
    shared: Arc<Shared>,
    lots: ThreadLocal<RefCell<Lot<T>>>,
}

/// The state that the clones of a handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    origin: Origin,
    source: Arc<Source>,
    connection: Arc<Connection>,
    fences: Arc<Fences>,
    stock: Mutex<Stock>,
    ages: Arc<Ages>,
    /// The counters of all threads.
    tallies: Mutex<Vec<Arc<Tally>>>,
    /// The number of finished fetches.
    fetched: watch::Sender<u64>,
    /// The fetch in progress. It is aborted when the last clone of the handle is dropped.
    work: Mutex<Option<Work>>,
}

impl<T: Send> Handle<T> {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.hands.shared
    }
}

impl<T: Send> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self { hands: self.hands.clone() }
    }
}

impl<T: Send> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("source", &self.hands.shared.source.name()).finish_non_exhaustive()
    }
}

impl<T: Identifier> Handle<T> {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { hands: Arc::new(Hands { shared: Arc::new(shared), lots: ThreadLocal::new() }) }
    }

    /// Returns the next prefetched identifier, if there is one. Never waits, and starts a fetch when the stock is low.
    ///
    /// Call this method inside a tokio runtime. Outside of a runtime, it fetches nothing.
    #[inline]
    pub fn try_next(&self) -> Option<T> {
        match self.next_of_lot() {
            Some(id) => Some(id),
            None => {
                // OK because `next` reports errors, such as a missing runtime.
                let id = self.next_of_stock().ok().flatten();
                let _ = self.hands.shared.refill();
                id
            }
        }
    }

    /// Returns the next identifier, prefetched or from the daemon.
    ///
    /// # Errors
    ///
    /// [`Error`] if nothing is prefetched and the fetch fails.
    pub async fn next(&self) -> Result<T, Error> {
        if let Some(id) = self.next_of_lot() {
            return Ok(id);
        }
        let shared = &self.hands.shared;
        shared.origin.check()?;
        let mut fetched = shared.fetched.subscribe();
        loop {
            fetched.mark_unchanged();
            let ended = shared.lock().last_fetch().0;
            let (id, refilled) = (self.next_of_stock()?, shared.refill());
            if let Some(id) = id {
                return Ok(id);
            }
            refilled?;
            // OK because the sender lives as long as this handle.
            let _ = fetched.changed().await;
            shared.origin.check()?;
            let (now_ended, failure) = shared.lock().last_fetch();
            if let Some(error) = failure.filter(|_| now_ended > ended) {
                return Err(error);
            }
        }
    }

    /// Returns the next identifier of this thread's lot, if there is one and the clock need not be read for it.
    #[inline]
    fn next_of_lot(&self) -> Option<T> {
        self.hands.lots.get()?.borrow_mut().next(&self.hands.shared.ages)
    }

    /// Reads the clock and returns the next identifier, from a new lot if the thread's lot is empty.
    #[cold]
    fn next_of_stock(&self) -> Result<Option<T>, Error> {
        let shared = &self.hands.shared;
        shared.origin.check()?;
        let lot = self.hands.lots.get_or(|| RefCell::new(Lot::new(shared.origin.clone(), shared.new_tally())));
        let mut lot = lot.borrow_mut();
        loop {
            let expired = lot.check_age(&shared.ages);
            if let Some(id) = lot.take_checked() {
                return Ok(Some(id));
            }
            let cut = {
                let mut stock = shared.lock();
                stock.expired(expired);
                stock.cut_lot()
            };
            let Some((block, asked)) = cut else { return Ok(None) };
            lot.fill(&block, asked).map_err(|OtherType| unusable())?;
        }
    }

    /// Takes `count` distinct identifiers in the order of their blocks: first the prefetched ones, then the missing
    /// ones from blocks that it fetches.
    ///
    /// # Errors
    ///
    /// [`Error`] if some identifiers could not be fetched. The identifiers that this call has already taken are lost
    /// and leave a gap.
    pub async fn take(&self, count: usize) -> Result<Vec<T>, Error> {
        let shared = &self.hands.shared;
        shared.origin.check()?;
        let mut ids = Vec::with_capacity(count.min(RESERVE_MAX));
        let mut tails = new_tails();
        loop {
            let missing = (count - ids.len()) as u64; // OK because a usize has at most 64 bits
            let cut = if missing == 0 { None } else { shared.lock().cut(missing) };
            let Some((block, _)) = cut else { break };
            shared.lock().gave(block.count());
            extend(&mut ids, &block, &mut tails).map_err(|OtherType| unusable())?;
        }
        // OK because a usize has at most 64 bits.
        let fetch = |count: usize| Box::pin(maybe_done(shared.fetch(count.min(FETCH_MAX) as u64)));
        let mut missing = count - ids.len();
        let mut next = (missing > 0).then(|| fetch(missing));
        while let Some(mut fetched) = next.take() {
            fetched.as_mut().await;
            shared.origin.check()?;
            let fresh = fetched.as_mut().take_output().transpose()?.flatten();
            let got = fresh.as_ref().map_or(0, |fresh| fresh.block.count());
            missing = missing.saturating_sub(usize::try_from(got).unwrap_or(usize::MAX));
            if missing > 0 {
                // Start the next fetch now, so that it runs while the identifiers of this block are generated.
                let mut after = fetch(missing);
                after.as_mut().now_or_never();
                next = Some(after);
            }
            match fresh {
                Some(fresh) => {
                    shared.lock().passed_through(&fresh.block);
                    extend(&mut ids, &fresh.block, &mut tails).map_err(|OtherType| unusable())?;
                }
                None => shared.lock().refused()?,
            }
        }
        shared.refill()?;
        Ok(ids)
    }

    /// Returns the number of prefetched identifiers: 0 in a forked child.
    pub fn in_hand(&self) -> u64 {
        let shared = &self.hands.shared;
        if shared.origin.is_elsewhere() {
            return 0;
        }
        let of_threads: u64 = shared.tallies().iter().map(|tally| tally.left()).sum();
        shared.lock().left() + of_threads
    }

    /// Adds a block to the stock, for benchmarks without a daemon.
    #[doc(hidden)]
    pub fn add_block(&self, block: Block) {
        self.hands.shared.lock().end_fetch(Ok(Some(Fresh { block, asked: clock::now() })));
    }

    /// Returns the counters of the handle and its clones: all 0 in a forked child.
    pub fn stats(&self) -> Stats {
        let shared = &self.hands.shared;
        if shared.origin.is_elsewhere() {
            return Stats::default();
        }
        let by_threads: u64 = shared.tallies().iter().map(|tally| tally.taken()).sum();
        let stats = shared.lock().stats();
        Stats { identifiers: stats.identifiers + by_threads, ..stats }
    }
}

/// The maximum number of identifiers that `take` fetches in one call. The clock limits of the formats allow this many
/// without a long wait, and generating them takes about as long as fetching the next block.
const FETCH_MAX: usize = 1 << 18;
/// The maximum number of identifiers for which `take` allocates memory before they arrive.
const RESERVE_MAX: usize = 1_000_000;

pub(crate) fn unusable() -> Error {
    Error::Unusable { what: "the identifiers of the source are of a different type than the handle's".to_owned() }
}

impl Shared {
    pub(crate) fn new(source: &str, connection: Arc<Connection>, fences: Arc<Fences>) -> Self {
        let settings = *connection.settings();
        let source = Arc::new(Source::new(source, settings.follow_heirs));
        let (origin, ages) = (connection.origin().clone(), connection.ages().clone());
        let stock = Mutex::new(Stock::new(settings, ages.clone()));
        let (tallies, fetched, work) = (Mutex::default(), watch::Sender::new(0), Mutex::new(None));
        Self { origin, source, connection, fences, stock, ages, tallies, fetched, work }
    }

    /// Registers counters for a new thread, and returns them.
    fn new_tally(&self) -> Arc<Tally> {
        let tally = Arc::<Tally>::default();
        self.tallies().push(tally.clone());
        tally
    }

    fn tallies(&self) -> MutexGuard<'_, Vec<Arc<Tally>>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        // OK because every method of the stock leaves it consistent.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a fetch if one is due and none is in progress.
    fn refill(self: &Arc<Self>) -> Result<(), Error> {
        self.origin.check()?;
        // The lock is held until the new work is stored. Otherwise a thread could overwrite, and so abort, newer work
        // of another thread.
        let mut under_way = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = self.lock().begin_fetch() else { return Ok(()) };
        // With a strong reference, the work would keep the handle alive, and dropping the handle would not abort the
        // work.
        let weak = Arc::downgrade(self);
        let (source, connection, fences) = (self.source.clone(), self.connection.clone(), self.fences.clone());
        let work = Work::start(self.origin.clone(), async move {
            let outcome = fetch(&source, &connection, &fences, count).await;
            if let Some(shared) = weak.upgrade().filter(|shared| !shared.origin.is_elsewhere()) {
                shared.lock().end_fetch(outcome);
                shared.fetched.send_modify(|ended| *ended += 1);
            }
        });
        match work {
            Ok(work) => {
                *under_way = Some(work);
                Ok(())
            }
            Err(error) => {
                self.lock().end_fetch(Err(error.clone()));
                Err(error)
            }
        }
    }

    /// Fetches a block of `count` of the `needed` identifiers, bypassing the stock. If `request_id` is empty, the
    /// request has no request ID.
    pub(crate) async fn fetch_block(
        &self,
        (count, needed): (u64, u64),
        (request_id, tag): (String, Option<u64>),
        report: impl Fn(&Status),
    ) -> Result<Block, Error> {
        let call = async |source: Arc<str>| {
            let ask = AllocateRequest { request_id: request_id.clone(), needed, tag, ..lease(&source, count) };
            let admits = |block: &Block| {
                // A retry with a request ID returns the block of the first grant, whose revision can be older.
                let admitted = self.fences.admit(&source, block) || !ask.request_id.is_empty();
                if !admitted {
                    // OK because the timeout of the request limits the attempts.
                    let _ = self.lock().refused();
                }
                admitted
            };
            self.connection.allocate(&ask, admits, &report).await
        };
        let block = match request_id.is_empty() {
            true => self.source.ask(call).await?,
            // A request ID belongs to one region: the heir would grant a second block for the same ID.
            false => call(self.source.first.clone()).await?,
        };
        // If the program has forked in the meantime, the block belongs to the parent.
        self.origin.check()?;
        self.lock().passed_through(&block);
        Ok(block)
    }

    async fn fetch(&self, count: u64) -> Result<Option<Fresh>, Error> {
        fetch(&self.source, &self.connection, &self.fences, count).await
    }
}

/// The pause after a block from a replica that lags behind.
const LAG: Duration = Duration::from_millis(20);

/// Fetches a block. Returns `None` if the fences reject it. The block's age counts from the start of the request.
async fn fetch(source: &Source, connection: &Connection, fences: &Fences, count: u64) -> Result<Option<Fresh>, Error> {
    let asked = clock::now();
    let granted = source.ask(async |name| {
        let block: Block = connection.allocate(&lease(&name, count), |_| true, |_| ()).await?;
        Ok((block, name))
    });
    let (block, granted_by) = granted.await?;
    connection.origin().check()?;
    if fences.admit(&granted_by, &block) {
        return Ok(Some(Fresh { block, asked }));
    }
    // The replica that granted the block lags behind the others: ask another replica, after a pause.
    connection.leave(connection.current().0);
    time::sleep(LAG).await;
    Ok(None)
}
