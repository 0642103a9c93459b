//! Fencing: a block that is older than one already seen for the same slot or region is refused.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use kent_ids::{Block, FencingSubject};

/// The highest tokens that a client has seen.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// Numbers of regions are unique in their space only, so a region's source is part of the key.
    highest: Mutex<HashMap<(FencingSubject, String), u64>>,
}

impl Fences {
    /// Takes note of a block of `source`. False if a newer one of the same slot or region has been seen.
    pub(crate) fn admit(&self, source: &str, block: &Block) -> bool {
        let Some(fencing) = block.fencing() else { return true };
        let scope = match fencing.subject {
            FencingSubject::Slot(_) => "",
            FencingSubject::Region(_) => source,
        };
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = highest.entry((fencing.subject, scope.to_owned())).or_insert(fencing.token);
        let admitted = fencing.token >= *seen;
        *seen = fencing.token.max(*seen);
        admitted
    }
}
