//! The errors of grants from regions.

use std::num::NonZeroU64;

use kent_ids::{Position, Source};
use kent_regions::NotGranting;

use crate::{
    auth::Caller,
    error::{AllocateError, Exhausted, NoSuchRegion},
    tables::{
        permitted::is_nameable,
        space::{RegionFacts, Space},
    },
};

/// The error for a region that does not exist or does not grant suffixes. The error does not name other regions that
/// the caller may not know. The function locks tables to look up names, so the caller must not hold a table's lock.
pub(super) fn refused(space: &Space, region: String, reason: Option<NotGranting>, caller: &Caller) -> AllocateError {
    let name = space.name();
    match reason {
        None => NoSuchRegion { space: name, region }.into(),
        Some(NotGranting::Closed) => {
            let heir = space.read(|table| table.heir(table.named(&region).ok()?).cloned());
            let heir = heir.filter(|heir| is_nameable(space, caller, heir)).map(|heir| heir.name.to_string());
            AllocateError::Closed { space: name, region, heir }
        }
        Some(NotGranting::Delegated) => AllocateError::Delegated { space: name, region },
        Some(NotGranting::External) => AllocateError::External { space: name, region },
        Some(NotGranting::Sealed(seal)) => {
            let by = match space.find_seal(seal) {
                Some((outer, by)) => is_nameable(outer, caller, &by).then(|| (by.name.to_string(), outer.name())),
                None => Some((region.clone(), name.clone())),
            };
            AllocateError::Sealed { space: name, region, by }
        }
    }
}

/// Formats a region as a source.
fn subject(space: &Space, region: &str) -> String {
    Source::Region { name: region.to_owned(), space: space.name() }.to_string()
}

/// Formats a region whose pace is too slow for a request. With a step, the pace also counts the numbers in between.
pub(super) fn paced(space: &Space, region: &str, facts: &RegionFacts) -> String {
    match facts.stride().step() {
        1 => subject(space, region),
        step => format!("{}, where each identifier counts as {step},", subject(space, region)),
    }
}

pub(super) fn unsure(space: &Space, region: &str) -> AllocateError {
    AllocateError::Unsure { subject: subject(space, region), region: Some((region.to_owned(), space.name())) }
}

pub(super) fn exhausted(
    space: &Space,
    region: &str,
    facts: &RegionFacts,
    reserved: Position,
    count: NonZeroU64,
) -> AllocateError {
    AllocateError::Exhausted(Box::new(Exhausted {
        space: space.name(),
        region: region.to_owned(),
        capacity: facts.limit,
        is_capped: facts.is_capped,
        reserved: reserved.get(),
        requested: count.get(),
        wanted: count.get(),
        stride: facts.stride(),
        suffix_bits: facts.constants.suffix_bits,
        expandable_bits: facts.expandable_bits,
    }))
}
