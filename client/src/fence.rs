//! Fencing: rejects a block whose token is lower than one already seen for the same slot or region.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use kent_ids::{Block, FencingSubject};

/// The highest fencing tokens that a client has seen.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// The key includes the source of a region, because region numbers are unique only within a space.
    highest: Mutex<HashMap<(FencingSubject, String), u64>>,
}

impl Fences {
    /// Records the token of a block of `source`. Returns false if a higher token was already seen for the same slot or
    /// region.
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

#[cfg(test)]
mod tests {
    use kent_ids::{ClusterKey, Position, RegionConstants, Series, Suffixes};

    use super::*;
    use crate::lot::tests::block_of;

    #[test]
    fn ok_the_highest_token_of_each_region_counts_and_a_series_has_none() {
        let fences = Fences::default();
        let admits = |source: &str, number, revision| {
            let constants =
                RegionConstants { base: 0, bits: 64, suffix_bits: 64, number, revision, suffixes: Suffixes::EVERY };
            fences.admit(source, &Block::region(constants, Position::ZERO, 1).expect("a block"))
        };
        for (source, number, revision, admitted) in [
            ("region:a", 1, 5, true),
            ("region:a", 1, 5, true),
            ("region:a", 1, 4, false),
            ("region:a", 1, 4, false),
            ("region:a", 1, 6, true),
            ("region:a", 1, 5, false),
            ("region:a", 2, 1, true),
            ("region:a@shop", 1, 1, true),
        ] {
            assert_eq!(admits(source, number, revision), admitted, "{source} {number} {revision}");
        }
        let number = Block::series(Series::FullRand, ClusterKey::new([0; 16]), Position::ZERO, 1).expect("a block");
        assert!(fences.admit("uid11-fullrand", &number));
    }

    #[test]
    fn ok_a_slot_has_one_fence_for_all_formats() {
        let fences = Fences::default();
        let newer = block_of("uuidv7", 2, 1);
        assert!(fences.admit("uuidv7", &newer));
        assert!(!fences.admit("xid", &block_of("xid", 1, 1)));
        assert!(fences.admit("xid", &block_of("xid", 2, 1)));
    }
}
