//! Blocks that the caller fetches explicitly, independent of the prefetched ones, and optionally with a request ID.

use std::{fmt, future::IntoFuture, marker::PhantomData, pin::Pin, sync::Arc};

use kent_ids::{Tails, Walk};
use tonic::Status;

use crate::{
    error::Error,
    handle::{Handle, Shared, unusable},
    identifier::Identifier,
    lot::new_tails,
};

/// A future that fetches a block. [`Handle::fetch_block`] returns it.
///
/// The future retries for up to [`request_timeout`](crate::Builder::request_timeout). Without a request ID, a lost
/// reply leaves a gap and the retry gets another block.
#[must_use = "it fetches nothing until it is awaited"]
pub struct FetchBlock<T> {
    shared: Arc<Shared>,
    count: u64,
    needed: u64,
    request_id: String,
    tag: Option<u64>,
    on_failure: Option<Report>,
    kind: PhantomData<fn() -> T>,
}

/// A function that gets the status of each failed attempt.
type Report = Box<dyn Fn(&Status) + Send + Sync>;

impl<T: Identifier> Handle<T> {
    /// Fetches a block of `count` identifiers from the daemon, independently of the prefetched blocks. With a
    /// [`request_id`](FetchBlock::request_id), every retry returns the same block.
    pub fn fetch_block(&self, count: u64) -> FetchBlock<T> {
        let request_id = String::new();
        FetchBlock {
            shared: self.shared().clone(),
            count,
            needed: count,
            request_id,
            tag: None,
            on_failure: None,
            kind: PhantomData,
        }
    }
}

impl<T> FetchBlock<T> {
    /// Sets a request ID of at most 64 bytes. Only strict regions accept a request ID, and they grant one block per
    /// request ID. A retry, even after a crash, returns the same block. A retry with another count fails with
    /// [`Error::Refused`], whose `field` is `request_id`. Use a UUID of version 7: the daemon keeps such a request ID
    /// for 30 days by default. The daemon keeps other request IDs forever, but only up to a maximum number.
    ///
    /// ```no_run
    /// # async fn example(client: kent_client::Client, order: uuid::Uuid) -> Result<(), kent_client::Error> {
    /// let invoices = client.region("invoices"); // kent region set invoices --strict
    /// let granted = invoices.fetch_block(3).request_id(order.to_string()).await?;
    /// let numbers: Vec<u128> = granted.into_iter().collect();
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = id.into();
        self
    }

    /// For a program that fetches its identifiers in several blocks: sets the number that it still needs, including
    /// this block. If the region has too few identifiers left, the daemon's advice, such as by how much to expand the
    /// region, takes this number into account.
    pub fn needed(mut self, count: u64) -> Self {
        self.needed = count;
        self
    }

    /// Sets the value of the field `shard` or `tag`, which a custom layout may have. Layouts with such a field require it.
    pub fn tag(mut self, tag: impl Into<Option<u64>>) -> Self {
        self.tag = tag.into();
        self
    }

    /// Calls `report` with the status of each failed attempt, so that the program can say what it is waiting for. For
    /// example, a daemon answers `RESOURCE_EXHAUSTED` until its clock and the region's pace allow the grant, and the
    /// client retries.
    ///
    /// ```no_run
    /// # async fn example(client: kent_client::Client) -> Result<(), kent_client::Error> {
    /// let ids = client.uuid_v7().fetch_block(1000).on_failure(|status| eprintln!("waiting: {}", status.message())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_failure(mut self, report: impl Fn(&Status) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(report));
        self
    }
}

impl<T: Identifier> IntoFuture for FetchBlock<T> {
    type Output = Result<Block<T>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let report = |status: &Status| self.on_failure.iter().for_each(|report| report(status));
            let block = self.shared.fetch_block((self.count, self.needed), (self.request_id, self.tag), report).await?;
            // OK because zero is a value of every kind, so this checks only the kind.
            T::from_id(block.kind().id(0)).ok_or_else(unusable)?;
            Ok(Block { block, kind: PhantomData })
        })
    }
}

impl<T> fmt::Debug for FetchBlock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, request_id) = (self.count, &self.request_id);
        f.debug_struct("FetchBlock").field("count", &count).field("request_id", request_id).finish_non_exhaustive()
    }
}

/// A block of identifiers. It takes about a hundred bytes of memory, whatever its count. Iterate over a block to get
/// the identifiers in the order of their positions. If the process forks, the child has a copy of the block: only one
/// of the two processes may use it.
///
/// ```no_run
/// # async fn example(client: kent_client::Client) -> Result<(), kent_client::Error> {
/// let block = client.uuid_v7().fetch_block(1_000_000).await?;
/// println!("{} identifiers", block.count());
/// for id in block {
///     println!("{id}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Block<T> {
    block: kent_ids::Block,
    kind: PhantomData<fn() -> T>,
}

impl<T> Block<T> {
    /// Returns the number of identifiers, at least 1.
    pub const fn count(&self) -> u64 {
        self.block.count()
    }
}

impl<T: Identifier> IntoIterator for Block<T> {
    type Item = T;
    type IntoIter = Ids<T>;

    fn into_iter(self) -> Ids<T> {
        Ids { walk: self.block.walk(new_tails()), kind: PhantomData }
    }
}

/// An iterator over the identifiers of a [`Block`].
pub struct Ids<T> {
    walk: Walk<Tails>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Identifier> Iterator for Ids<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // OK because `FetchBlock` has checked the kind: `from_id` never returns `None` here.
        self.walk.next().and_then(T::from_id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }
}

/// The length is exact on 64-bit machines, where every count fits into `usize`.
impl<T: Identifier> ExactSizeIterator for Ids<T> {}

impl<T> fmt::Debug for Ids<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").field("left", &self.walk.left()).finish_non_exhaustive()
    }
}
