//! Builds a copy of a table from the messages of `WatchTable`.

use std::num::NonZeroU64;

use kent_ids::ClusterKey;
use kent_regions::{
    Change, Count, Damage, Extras, FormerPrefix, Kind, Pace, Past, Plan, Rare, Refusal, Region, RegionNumber, Revision,
    Table, Texts,
};
use thiserror::Error;

use super::{
    Invalid,
    names::RegionName,
    policy::policy_input,
    range::width,
    regions::{bits, order},
};
use crate::{
    stored::other_than,
    v1::{self, watch_table_response::Snapshot},
};

/// An error from building a copy of a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadCopy {
    /// A message is invalid.
    #[error(transparent)]
    Message(#[from] Invalid),
    /// The regions of a snapshot do not form a valid table.
    #[error("the snapshot is not a valid table: {0}")]
    Snapshot(#[from] Damage),
    /// A change does not fit the table.
    #[error("the change does not fit the table: {0}")]
    Change(#[from] Refusal),
    /// The copy differs from the table in which the change was made.
    #[error("region {number} in the copy differs from the region that the change replaces")]
    Diverged {
        /// The region's number.
        number: u64,
    },
}

/// Builds the table from all parts of a snapshot.
///
/// # Errors
///
/// Returns [`BadCopy`] if the parts are not a valid table.
pub fn table_of(parts: Vec<Snapshot>) -> Result<Table, BadCopy> {
    let (bits, revision) = parts.last().map(|last| (last.bits, last.revision)).unwrap_or_default();
    let key = parts.last().map(|last| last.scramble_key.clone()).unwrap_or_default();
    let key = match &key[..] {
        // The daemon sends the key only to callers that may lease from the whole table.
        [] => None,
        key => Some(<[u8; 16]>::try_from(key).map_err(|_| Invalid::new("scramble_key", "does not have 16 bytes"))?),
    };
    let regions = parts.into_iter().flat_map(|part| part.regions).map(region);
    let regions = regions.collect::<Result<Vec<_>, _>>()?;
    let last = regions.iter().map(|region| region.number.0).max().unwrap_or(0);
    // OK because `Table::restore` rejects the number u64::MAX.
    let next = RegionNumber(last.saturating_add(1));
    let mut table = Table::restore(width("bits", bits)?, Revision(revision), next, regions)?;
    if let Some(key) = key {
        table.set_scramble_key(ClusterKey::new(key));
    }
    Ok(table)
}

/// Applies a change to a copy of a table, except to its counters, which move without edits.
///
/// # Errors
///
/// Returns [`BadCopy`] if the change does not fit. The copy is then unchanged.
pub fn apply_change(table: &mut Table, entry: v1::HistoryEntry) -> Result<(), BadCopy> {
    let change = |change: v1::RegionChange| {
        let (before, after) = (change.before.map(region).transpose()?, change.after.map(region).transpose()?);
        let number = after.as_ref().or(before.as_ref()).map(|region| region.number);
        let number = number.ok_or_else(|| Invalid::new("changes", "has a change without a region"))?;
        Ok::<_, Invalid>(Change { number, before, after })
    };
    let changes = entry.changes.into_iter().map(change).collect::<Result<Vec<_>, _>>()?;
    for Change { number, before, .. } in &changes {
        // After a restore from a backup, a daemon may have a different table with the same revision.
        let known = table.get(*number).map(|known| Region { issued: Rare::default(), ..known.clone() });
        if known != *before {
            return Err(BadCopy::Diverged { number: number.0 });
        }
    }
    Ok(table.apply(&Plan::made(Revision(entry.revision), changes))?)
}

/// Converts a region. In a change, the counter is absent and becomes 0.
pub(super) fn region(message: v1::Region) -> Result<Region, Invalid> {
    let kind = match v1::region::Kind::try_from(message.kind) {
        Ok(v1::region::Kind::Open) => Kind::Open,
        Ok(v1::region::Kind::Partial) => Kind::Partial,
        Ok(v1::region::Kind::Closed) => Kind::Closed,
        Ok(v1::region::Kind::Unspecified) | Err(_) => {
            return Err(Invalid::new("kind", "must be OPEN, PARTIAL or CLOSED"));
        }
    };
    let issued = match message.reserved.as_str() {
        "" => Count::ZERO,
        digits => digits.parse().map_err(|problem| Invalid::new("reserved", problem))?,
    };
    let number = RegionNumber(message.number);
    let past = Past {
        // An imported region counts as created with its current name.
        first_name: None,
        key_number: other_than(number, message.key_number),
        prefixes: message.former_prefixes.iter().map(former_prefix).collect::<Result<_, _>>()?,
    };
    let policy = message.policy.map(policy_input).transpose()?.unwrap_or_default();
    let texts = Texts { owner: message.owner, description: message.description, labels: message.labels };
    Ok(Region {
        number,
        name: RegionName::parse("name", &message.name)?.region.into(),
        prefix: bits("prefix", &message.prefix)?,
        zone: width("zone_bits", message.zone_bits)?,
        suffix: width("suffix_bits", message.suffix_bits)?,
        kind,
        sub_bits: width("subregion_bits", message.subregion_bits)?,
        parent: Some(RegionNumber(message.parent_number)).into(), // 0 if it has none
        issued: issued.into(),
        since: Revision(message.prefix_since),
        order: order(message.order)?,
        pace: pace(message.pace)?,
        sealed: message.sealed,
        delegated: !message.delegated_space.is_empty(),
        extras: Extras { past: past.into(), policy: policy.into(), texts: texts.into() }.into(),
    })
}

fn pace(pace: u64) -> Result<Pace, Invalid> {
    let pace = NonZeroU64::new(pace).ok_or_else(|| Invalid::new("pace", "is missing"))?;
    Ok(Pace::per_second(pace))
}

fn former_prefix(former: &v1::FormerPrefix) -> Result<FormerPrefix, Invalid> {
    let bad = |problem| Invalid::new("former_prefixes", problem);
    Ok(FormerPrefix {
        prefix: bits("former_prefixes", &former.prefix)?,
        from: Revision(former.from_revision),
        to: Revision(former.to_revision),
        issued: former.reserved.parse().map_err(|problem: std::num::ParseIntError| bad(problem))?,
    })
}
