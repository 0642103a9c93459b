//! Reading many records in bounded steps.

use std::vec;

use async_trait::async_trait;

use crate::error::ReadError;
use crate::key::Key;
use crate::txn::Versioned;

/// The most records of one page.
pub const PAGE_RECORDS_MAX: usize = 256;

/// A page of sled ends with the record that makes it as large as this, in bytes of keys and values: 256 KiB.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;

/// Records, in the order of the bytes of their keys.
pub type Page = Vec<(Key, Versioned)>;

/// A reading of many records, page by page: see [`Store::pages`](crate::Store::pages).
///
/// Drop it to end it. While it is there, the store keeps what is overwritten and was not read yet.
#[async_trait]
pub trait Pages: Send {
    /// The next records; `None` at the end. A page may be empty although others follow. A future that is dropped before it
    /// is ready has read nothing.
    ///
    /// # Errors
    ///
    /// As for [`Store::scan`](crate::Store::scan). [`Unavailable`](crate::Unavailable) also when the moment that is read
    /// cannot be told any more: the reading has to begin anew.
    async fn next(&mut self) -> Result<Option<Page>, ReadError>;
}

/// What is left of the pages, together.
pub(crate) async fn collect(pages: &mut dyn Pages) -> Result<Page, ReadError> {
    let mut all = Vec::new();
    while let Some(page) = pages.next().await? {
        all.extend(page);
    }
    Ok(all)
}

/// Pages of what was read in one piece.
pub(crate) struct Whole(vec::IntoIter<(Key, Versioned)>);

impl Whole {
    pub(crate) fn new(records: Page) -> Self {
        Self(records.into_iter())
    }
}

#[async_trait]
impl Pages for Whole {
    async fn next(&mut self) -> Result<Option<Page>, ReadError> {
        let page: Page = self.0.by_ref().take(PAGE_RECORDS_MAX).collect();
        Ok((!page.is_empty()).then_some(page))
    }
}
