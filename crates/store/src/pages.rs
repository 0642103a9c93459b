//! Reads of many records in pages.

use std::vec;

use async_trait::async_trait;

use crate::error::ReadError;
use crate::key::Key;
use crate::txn::Versioned;

/// The maximum number of records in one page.
pub const PAGE_RECORDS_MAX: usize = 256;

/// The total size of keys and values, in bytes, at which a page of a store on sled ends: 256 KiB. The record that
/// reaches this size is the page's last.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;

/// Records in the byte order of their keys.
pub type Page = Vec<(Key, Versioned)>;

/// A paged read of many records: see [`Store::pages`](crate::Store::pages).
///
/// Until this value is dropped, a store on sled keeps the old versions of records that are overwritten before the read
/// reaches them.
#[async_trait]
pub trait Pages: Send {
    /// Returns the next page, or `None` at the end. A page can be empty even if more pages follow. Dropping the future
    /// before it is ready loses no records.
    ///
    /// # Errors
    ///
    /// Fails like [`Store::scan`](crate::Store::scan), and also with [`Unavailable`](crate::Unavailable) if the store
    /// no longer has the records as they were at the first page. In that case, start a new read.
    async fn next(&mut self) -> Result<Option<Page>, ReadError>;
}

/// Collects all remaining pages.
pub(crate) async fn collect(pages: &mut dyn Pages) -> Result<Page, ReadError> {
    let mut all = Vec::new();
    while let Some(page) = pages.next().await? {
        all.extend(page);
    }
    Ok(all)
}

/// The records of one scan, divided into pages.
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
