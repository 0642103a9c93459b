//! Blocks that are fetched apart from what a handle has in hand, under a request_id if they must be the same ones each time.

use std::{fmt, future::IntoFuture, marker::PhantomData, pin::Pin, sync::Arc};

use kent_ids::{Tails, Walk};

use crate::{
    error::Error,
    handle::{Handle, Shared, unusable},
    identifier::Identifier,
    lot::new_tails,
};

/// A block to be fetched: await it. Made by [`Handle::fetch_block`].
///
/// Attempts go on for [`request_timeout`](crate::Builder::request_timeout). Without a request_id the answer to one that is lost
/// is a gap, and the next attempt gets another block.
#[must_use = "nothing is fetched before it is awaited"]
pub struct FetchBlock<T> {
    shared: Arc<Shared>,
    count: u64,
    request_id: String,
    kind: PhantomData<fn() -> T>,
}

impl<T: Identifier> Handle<T> {
    /// A block of `count` identifiers, fetched now and apart from what is in hand. With [`request_id`](FetchBlock::request_id) it
    /// is the same one however often it is asked for.
    pub fn fetch_block(&self, count: u64) -> FetchBlock<T> {
        FetchBlock { shared: self.shared().clone(), count, request_id: String::new(), kind: PhantomData }
    }
}

impl<T> FetchBlock<T> {
    /// Fetches the block under this id, of at most 64 bytes: for strict regions only, which grant each id once. A
    /// repetition, after a lost answer or a crash, gets the same block; another count is refused ([`Error::Refused`], of the field
    /// `request_id`). Best a UUID of version 7: the daemon keeps those for a time, and all others up to a number.
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
}

impl<T: Identifier> IntoFuture for FetchBlock<T> {
    type Output = Result<Block<T>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let block = self.shared.fetch_block(self.count, self.request_id).await?;
            // OK because zero is a value of every kind.
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

/// Identifiers that were granted together, in about a hundred bytes whatever their count: iterate over them, in the order of
/// their positions. They are yours: a child that is forked while you have them has a copy.
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
    /// How many identifiers: at least 1.
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

/// The identifiers of a [`Block`].
pub struct Ids<T> {
    walk: Walk<Tails>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Identifier> Iterator for Ids<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // OK because the kind was looked at when the block came: all of it is of this type.
        self.walk.next().and_then(T::from_id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }
}

/// On a machine of 64 bits, where every count fits `usize`.
impl<T: Identifier> ExactSizeIterator for Ids<T> {}

impl<T> fmt::Debug for Ids<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").field("left", &self.walk.left()).finish_non_exhaustive()
    }
}
