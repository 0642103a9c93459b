//! Handles: identifiers of one source, in hand before they are needed.

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, future::maybe_done};
use kent_ids::Block;
use kent_proto::v1::{AllocateRequest, Encoding};
use thread_local::ThreadLocal;
use tokio::{sync::watch, time};

use crate::{
    age::Ages,
    clock,
    connection::Connection,
    error::Error,
    fence::Fences,
    identifier::Identifier,
    lot::{Lot, OtherType, Tally, extend, new_tails},
    origin::Origin,
    stock::{Fresh, Stats, Stock},
    tasks::Work,
};

/// The identifiers of one source. Cheap to clone; clones share what is in hand, and each identifier goes to one of them.
///
/// A thread that takes identifiers one by one has some of the shared ones for itself, a sixteenth of a block and at most 512:
/// what one thread takes ascends as the source does, and what two threads take is not in order between them.
///
/// What is in hand when the process forks is the parent's. In the child the handle gives out nothing, says [`Error::Forked`], and
/// never will again: make a new [`Client`](crate::Client) there.
///
/// ```no_run
/// # async fn example(client: kent_client::Client) -> Result<(), kent_client::Error> {
/// let events = client.uuid_v7();
/// let one = events.next().await?;       // waits only when nothing is in hand
/// let another = events.try_next();      // never waits
/// let many = events.take(10_000).await?;
/// println!("{:?}, and {} in hand", events.stats(), events.in_hand());
/// # Ok(())
/// # }
/// ```
pub struct Handle<T: Send> {
    hands: Arc<Hands<T>>,
}

/// What the clones of a handle share, and what each thread has for itself.
struct Hands<T: Send> {
    shared: Arc<Shared>,
    lots: ThreadLocal<RefCell<Lot<T>>>,
}

/// What the clones of a handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    origin: Origin,
    source: String,
    connection: Arc<Connection>,
    fences: Arc<Fences>,
    stock: Mutex<Stock>,
    ages: Arc<Ages>,
    /// What threads were given.
    tallies: Mutex<Vec<Arc<Tally>>>,
    /// Counts fetches that have ended.
    fetched: watch::Sender<u64>,
    /// The fetch under way. It is given up with the last clone of the handle.
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
        f.debug_struct("Handle").field("source", &self.hands.shared.source).finish_non_exhaustive()
    }
}

impl<T: Identifier> Handle<T> {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { hands: Arc::new(Hands { shared: Arc::new(shared), lots: ThreadLocal::new() }) }
    }

    /// The next identifier if one is in hand. It never waits; a fetch is begun when the stock runs low.
    ///
    /// Call it inside a tokio runtime: outside, it gives what is in hand and fetches nothing.
    #[inline]
    pub fn try_next(&self) -> Option<T> {
        match self.next_of_lot() {
            Some(id) => Some(id),
            None => {
                // OK because without a runtime there is nothing to fetch with; `next` says so.
                let id = self.next_of_stock().ok().flatten();
                let _ = self.hands.shared.refill();
                id
            }
        }
    }

    /// The next identifier, from the stock in hand or else from the daemon.
    ///
    /// # Errors
    ///
    /// [`Error`], only when nothing is in hand and none could be fetched.
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

    /// The next identifier that this thread has in hand.
    #[inline]
    fn next_of_lot(&self) -> Option<T> {
        self.hands.lots.get()?.borrow_mut().next(&self.hands.shared.ages)
    }

    /// The next identifier after a look at the clock, from a new lot if need be.
    #[cold]
    fn next_of_stock(&self) -> Result<Option<T>, Error> {
        let shared = &self.hands.shared;
        shared.origin.check()?;
        let lot = self.hands.lots.get_or(|| RefCell::new(Lot::new(shared.origin.clone(), shared.new_tally())));
        let mut lot = lot.borrow_mut();
        loop {
            let expired = lot.check_age(&shared.ages);
            if let Some(id) = lot.pop() {
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

    /// `count` identifiers, distinct and in the order of their blocks: what is in hand, and for the rest blocks of just the
    /// missing size.
    ///
    /// # Errors
    ///
    /// [`Error`] if not all could be fetched; those that were are a gap then.
    pub async fn take(&self, count: usize) -> Result<Vec<T>, Error> {
        let shared = &self.hands.shared;
        shared.origin.check()?;
        let mut ids = Vec::with_capacity(count.min(RESERVE_AT_ONCE));
        let mut tails = new_tails();
        loop {
            let missing = (count - ids.len()) as u64; // OK because a usize has 64 bits at most
            let cut = if missing == 0 { None } else { shared.lock().cut(missing) };
            let Some((block, _)) = cut else { break };
            shared.lock().gave(block.count());
            extend(&mut ids, &block, &mut tails).map_err(|OtherType| unusable())?;
        }
        // OK because a usize has 64 bits at most.
        let fetch = |count: usize| Box::pin(maybe_done(shared.fetch(count.min(FETCH_AT_ONCE) as u64)));
        let mut missing = count - ids.len();
        let mut next = (missing > 0).then(|| fetch(missing));
        while let Some(mut fetched) = next.take() {
            fetched.as_mut().await;
            shared.origin.check()?;
            let fresh = fetched.as_mut().take_output().transpose()?.flatten();
            let got = fresh.as_ref().map_or(0, |fresh| fresh.block.count());
            missing = missing.saturating_sub(usize::try_from(got).unwrap_or(usize::MAX));
            if missing > 0 {
                // Asked for at once, to be on the way while the identifiers of this one are made.
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

    /// How many identifiers are in hand; none in a forked child.
    pub fn in_hand(&self) -> u64 {
        let shared = &self.hands.shared;
        if shared.origin.is_elsewhere() {
            return 0;
        }
        let of_threads: u64 = shared.tallies().iter().map(|tally| tally.left()).sum();
        shared.lock().left() + of_threads
    }

    /// What the handle and its clones have done so far; nothing in a forked child.
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

/// `take` fetches so many at once at the most: the daemon's clock allows as many of every format within a moment, and making them
/// takes about as long as fetching the next.
const FETCH_AT_ONCE: usize = 1 << 18;
/// For so many `take` sees to memory before it has them.
const RESERVE_AT_ONCE: usize = 1_000_000;

pub(crate) fn unusable() -> Error {
    Error::Unusable { what: "the source gives out identifiers of another kind than the handle".to_owned() }
}

impl Shared {
    pub(crate) fn new(source: String, connection: Arc<Connection>, fences: Arc<Fences>) -> Self {
        let settings = *connection.settings();
        let (origin, ages) = (connection.origin().clone(), connection.ages().clone());
        let stock = Mutex::new(Stock::new(settings, ages.clone()));
        let (tallies, fetched, work) = (Mutex::default(), watch::Sender::new(0), Mutex::new(None));
        Self { origin, source, connection, fences, stock, ages, tallies, fetched, work }
    }

    /// What a thread that is new here is given, counted.
    fn new_tally(&self) -> Arc<Tally> {
        let tally = Arc::<Tally>::default();
        self.tallies().push(tally.clone());
        tally
    }

    fn tallies(&self) -> MutexGuard<'_, Vec<Arc<Tally>>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        // OK because every method of the stock leaves it whole.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a fetch if one is due and none is under way.
    fn refill(self: &Arc<Self>) -> Result<(), Error> {
        self.origin.check()?;
        // Held until the work is there: another thread's work must not be given up for one that came before it.
        let mut under_way = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = self.lock().begin_fetch() else { return Ok(()) };
        // The work must not keep the handle alive, or nobody would ever give it up.
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

    /// Fetches a block beside the stock; under a request_id, unless that is empty.
    pub(crate) async fn fetch_block(&self, count: u64, request_id: String) -> Result<Block, Error> {
        let ask = AllocateRequest { request_id, ..lease(&self.source, count) };
        let admits = |block: &Block| {
            // What was granted under the id before is of the revision of then, and as good as it was.
            let admitted = self.fences.admit(&self.source, block) || !ask.request_id.is_empty();
            if !admitted {
                // OK because the attempts for one block end with the request's time.
                let _ = self.lock().refused();
            }
            admitted
        };
        let block = self.connection.allocate(&ask, admits).await?;
        // Meanwhile the program may have forked: the block is the parent's.
        self.origin.check()?;
        self.lock().passed_through(&block);
        Ok(block)
    }

    async fn fetch(&self, count: u64) -> Result<Option<Fresh>, Error> {
        fetch(&self.source, &self.connection, &self.fences, count).await
    }
}

/// How long a replica that was found to lag behind is given.
const LAG: Duration = Duration::from_millis(20);

/// Fetches a block; `None` if it is older than one already seen. Its age counts from when it was asked for.
async fn fetch(source: &str, connection: &Connection, fences: &Fences, count: u64) -> Result<Option<Fresh>, Error> {
    let asked = clock::now();
    let block: Block = connection.allocate(&lease(source, count), |_| true).await?;
    connection.origin().check()?;
    if fences.admit(source, &block) {
        return Ok(Some(Fresh { block, asked }));
    }
    // Whoever granted it lags behind the others: another one is asked next, and not at once.
    connection.leave(connection.current().0);
    time::sleep(LAG).await;
    Ok(None)
}

/// Asks for a block of a source.
fn lease(source: &str, count: u64) -> AllocateRequest {
    AllocateRequest { source: source.to_owned(), count, encoding: Encoding::Lease.into(), ..AllocateRequest::default() }
}
