//! The regions of a table in the order of their prefixes, outer before inner.
//!
//! The set holds only pointers, because the regions already hold their prefixes. A map from prefixes takes three times
//! the memory, but a search in this set reads a region at each step.

use alloc::{collections::BTreeSet, sync::Arc};
use core::{
    borrow::Borrow,
    cmp::Ordering,
    ops::Bound::{self, Included, Unbounded},
};

use crate::{prefix::Prefix, region::Region};

/// Regions with different prefixes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ordered(BTreeSet<ByPrefix>);

/// A region that is compared by its prefix.
#[derive(Clone, Debug)]
struct ByPrefix(Arc<Region>);

impl Ordered {
    /// Adds a region.
    pub(crate) fn insert(&mut self, region: Arc<Region>) {
        self.0.insert(ByPrefix(region));
    }

    /// Removes the region with exactly this prefix.
    pub(crate) fn remove(&mut self, prefix: Prefix) {
        self.0.remove(&prefix);
    }

    /// Returns the region with exactly this prefix.
    pub(crate) fn at(&self, prefix: Prefix) -> Option<&Arc<Region>> {
        self.0.get(&prefix).map(|ByPrefix(region)| region)
    }

    /// Returns the last region that begins at or before `prefix`.
    pub(crate) fn at_or_before(&self, prefix: Prefix) -> Option<&Arc<Region>> {
        self.0.range((Unbounded, Included(prefix))).next_back().map(|ByPrefix(region)| region)
    }

    /// Returns the regions from a bound on.
    pub(crate) fn from(&self, from: Bound<Prefix>) -> impl Iterator<Item = &Arc<Region>> + Clone {
        self.0.range((from, Unbounded)).map(|ByPrefix(region)| region)
    }

    /// Returns the regions whose prefix begins with `prefix`.
    pub(crate) fn within(&self, prefix: Prefix) -> impl Iterator<Item = &Arc<Region>> {
        self.from(Included(prefix)).take_while(move |region| region.prefix.starts_with(prefix))
    }
}

impl FromIterator<Arc<Region>> for Ordered {
    fn from_iter<I: IntoIterator<Item = Arc<Region>>>(regions: I) -> Self {
        Self(regions.into_iter().map(ByPrefix).collect())
    }
}

impl Borrow<Prefix> for ByPrefix {
    fn borrow(&self) -> &Prefix {
        &self.0.prefix
    }
}

impl PartialEq for ByPrefix {
    fn eq(&self, other: &Self) -> bool {
        self.0.prefix == other.0.prefix
    }
}

impl Eq for ByPrefix {}

impl Ord for ByPrefix {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.prefix.cmp(&other.0.prefix)
    }
}

impl PartialOrd for ByPrefix {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
