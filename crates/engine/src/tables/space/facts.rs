//! The facts about a region that a grant needs, including the seals in the outer spaces.
//!
//! A seal of a delegated region, or of a region around it, also covers the delegated region's space. So a grant from
//! this space locks the tables of all outer spaces, and no seal is applied to any of these tables during a grant.

use std::{
    iter,
    sync::{Arc, RwLockReadGuard},
};

use kent_ids::{Position, RegionConstants, Stride, Suffixes};
use kent_regions::{ChunkPolicy, Count, NotGranting, Order, Pace, Region, RegionNumber, Seal};
use kent_store::{Key, Version};

use super::{Space, State};
use crate::records::keys;

/// The facts about a region that a grant needs, as of one revision.
#[derive(Clone, Copy, Debug)]
pub struct RegionFacts {
    pub(crate) constants: RegionConstants,
    pub(crate) number: RegionNumber,
    /// The version of the region's record.
    pub(crate) version: Version,
    /// Whether the region grants suffixes.
    pub granting: Result<(), NotGranting>,
    pub chunk: ChunkPolicy,
    /// Whether the region's policy may expand the region.
    pub(crate) expands: bool,
    /// The number of reserved suffixes, as far as this daemon knows.
    pub(crate) reserved: Count,
    pub(crate) expandable_bits: u8,
    /// The number of suffixes that may be issued.
    pub(crate) limit: Count,
    /// Whether the region's cap sets `limit`.
    pub(crate) is_capped: bool,
    /// One past the last suffix that can be granted.
    pub(crate) capacity: Position,
    /// The maximum rate of grants.
    pub(crate) pace: Pace,
}

impl RegionFacts {
    /// Which suffixes are issued.
    pub(crate) const fn stride(&self) -> Stride {
        self.constants.suffixes.stride()
    }
}

/// A table that is locked for reading, and one of its regions.
struct Level<'a> {
    space: &'a Space,
    state: RwLockReadGuard<'a, State>,
    region: RegionNumber,
}

impl Space {
    /// Runs `act` with a region's facts and first name while the table and the tables of the outer spaces are locked,
    /// so that no edit is applied meanwhile.
    pub(crate) fn with_facts<T>(&self, region: &str, act: impl FnOnce(Option<(RegionFacts, &str)>) -> T) -> T {
        let (around, state) = (self.lock_around(), self.state());
        act(state.table.named(region).ok().map(|region| (state.facts(region, &around), region.first_name())))
    }

    /// Returns the facts of a region by its number.
    pub fn facts_of(&self, number: RegionNumber) -> Option<RegionFacts> {
        let (around, state) = (self.lock_around(), self.state());
        state.table.get(number).map(|region| state.facts(region, &around))
    }

    /// Returns the facts of a region, and the records that a commit must compare. The commit then fails if the region
    /// has been sealed since, directly or by a region around it. The records are those of the region and of all regions
    /// that contain it. If two or more enclosing regions are in the same space, the space's record replaces their
    /// records, because a transaction can compare only a few records.
    pub fn guarded_facts(&self, number: RegionNumber) -> Option<(RegionFacts, Vec<(Key, Version)>)> {
        let (around, state) = (self.lock_around(), self.state());
        let facts = state.facts(state.table.get(number)?, &around);
        let mut guards = Vec::new();
        state.guard(self.key(), number, &mut guards);
        for Level { space, state, region } in &around {
            state.guard(space.key(), *region, &mut guards);
        }
        Some((facts, guards))
    }

    /// The sealed region that covers a region, and the space of the sealed region.
    pub fn sealed_by(&self, number: RegionNumber) -> Option<(&Self, Region)> {
        let seal = {
            let (around, state) = (self.lock_around(), self.state());
            state.seal_over(state.table.get(number)?, &around)?
        };
        self.find_seal(seal)
    }

    /// The sealed region that covers this whole space, and the space of that region.
    pub fn sealed_around(&self) -> Option<(&Self, Region)> {
        self.outer.as_ref().and_then(|(outer, number)| outer.sealed_by(*number))
    }

    /// The region that a seal belongs to, and the space of that region.
    pub(crate) fn find_seal(&self, seal: Seal) -> Option<(&Self, Region)> {
        let mut space = self;
        for _ in 0..seal.outward {
            space = &space.outer.as_ref()?.0;
        }
        let region = space.read(|table| table.get(seal.region).cloned())?;
        Some((space, region))
    }

    /// The outer spaces of this space, innermost first.
    pub fn around(&self) -> impl Iterator<Item = &Arc<Self>> {
        iter::successors(self.outer.as_ref(), |(space, _)| space.outer.as_ref()).map(|(space, _)| space)
    }

    /// Locks the tables of the outer spaces, outermost first, as all code that locks several tables does. Returns each
    /// table together with the delegated region that contains this space.
    fn lock_around(&self) -> Vec<Level<'_>> {
        let Some((outer, region)) = &self.outer else { return Vec::new() };
        let mut around = outer.lock_around();
        around.push(Level { space: outer, state: outer.state(), region: *region });
        around
    }
}

impl State {
    /// The seal that covers a region of this table, given the tables of the outer spaces, outermost first.
    fn seal_over(&self, region: &Region, around: &[Level<'_>]) -> Option<Seal> {
        let outward = around.iter().rev().filter_map(|level| {
            let table = &level.state.table;
            Some((table, table.get(level.region)?))
        });
        Seal::over(iter::once((&self.table, region)).chain(outward))
    }

    /// Adds to `guards` the records that change when a region of this table is sealed, directly or by a region around
    /// it: see [`Space::guarded_facts`].
    fn guard(&self, space: &str, number: RegionNumber, guards: &mut Vec<(Key, Version)>) {
        let region = |number: RegionNumber| (keys::region(space, number.0), self.region_version(number));
        guards.push(region(number));
        let mut containing = self.table.get(number).into_iter().flat_map(|region| self.table.outward(region)).skip(1);
        match (containing.next(), containing.next()) {
            (None, _) => {}
            (Some(parent), None) => guards.push(region(parent.number)),
            (Some(_), Some(_)) => guards.push((keys::space(space), self.version)),
        }
    }

    fn facts(&self, region: &Region, around: &[Level<'_>]) -> RegionFacts {
        RegionFacts {
            constants: RegionConstants {
                base: region.prefix.base(self.table.bits()),
                bits: self.table.bits(),
                suffix_bits: region.suffix,
                number: region.number.0,
                revision: self.table.revision().0,
                suffixes: match region.order {
                    Order::Scrambled => Suffixes::Scrambled(self.scramble_key.of_region(region.key_number().0)),
                    Order::Sequential | Order::External => Suffixes::Counted(region.policy().stride),
                },
            },
            number: region.number,
            version: self.region_version(region.number),
            granting: region.check_granting(self.seal_over(region, around)),
            chunk: region.policy().chunk,
            expands: region.policy().auto_expand.is_some(),
            reserved: *region.issued,
            expandable_bits: region.expandable_bits(),
            limit: region.limit(),
            is_capped: region.is_capped(),
            // Positions have 128 bits, so the last suffix of a region with 2^128 suffixes cannot be granted.
            capacity: Position::new(region.limit().get().unwrap_or(u128::MAX)),
            pace: region.pace,
        }
    }
}
