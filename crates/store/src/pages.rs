//! Reads of many records in pages.

use std::vec;

use async_trait::async_trait;

use crate::error::ReadError;
use crate::key::Key;
use crate::txn::Versioned;

/// The maximum number of records in one page.
pub const PAGE_RECORDS_MAX: usize = 256;

/// A page of sled ends with the record that brings its keys and values to this size: 256 KiB.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;

/// Records in the byte order of their keys.
pub type Page = Vec<(Key, Versioned)>;

/// A paged read of many records: see [`Store::pages`](crate::Store::pages).
///
/// Until it is dropped, the store keeps the old versions of records that are overwritten before they were read.
#[async_trait]
pub trait Pages: Send {
    /// The next page, or `None` at the end. A page can be empty even if others follow. Dropping the future before it is ready loses
    /// nothing.
    ///
    /// # Errors
    ///
    /// As for [`Store::scan`](crate::Store::scan). Fails with [`Unavailable`](crate::Unavailable), too, if the store no
    /// longer has the records of the moment of the first page: start a new read.
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

/// Pages of the records of one scan.
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
