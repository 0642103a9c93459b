//! Refusals: which rule an edit breaks, and what would be legal.

use alloc::{string::String, vec::Vec};
use core::fmt;

use thiserror::Error;

use crate::{
    count::Count,
    limits::TEXT_BYTES_MAX,
    prefix::{BadPrefix, Prefix},
    revision::Revision,
};

/// An edit or a counter operation that the rules of the table do not allow. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// `bad-name`: the name is empty or has a `/`.
    #[error("{name:?} is no name")]
    BadName {
        /// What was given.
        name: String,
    },
    /// `name-taken`.
    #[error("there is a region {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// `no-such-region`.
    #[error("there is no region {name:?}")]
    NoSuchRegion {
        /// The name.
        name: String,
    },
    /// `range`: by no bits at all.
    #[error("the number of bits must be at least 1")]
    NoBits,
    /// `range`: a subdivision into nothing.
    #[error("a subdivision makes at least one subregion")]
    NoSubregions,
    /// `bad-prefix`.
    #[error(transparent)]
    BadPrefix(#[from] BadPrefix),
    /// `prefix-conflict`: the prefix meets another region's.
    #[error("prefix {prefix} meets region {region:?}, which has {taken}")]
    PrefixConflict {
        /// The prefix that was asked for.
        prefix: Prefix,
        /// The region in the way.
        region: String,
        /// Its prefix.
        taken: Prefix,
    },
    /// `suffix-range`: the suffix or a value does not fit.
    #[error("a suffix here has at most {max} bits, not {bits}")]
    SuffixBits {
        /// What was asked for.
        bits: u8,
        /// The most there can be.
        max: u8,
    },
    /// `suffix-range`: a new region's suffix is not given and cannot be inherited.
    #[error("the suffix of {name:?} must be given: only the all-zero subregion inherits its parent's")]
    SuffixMissing {
        /// The new region.
        name: String,
    },
    /// `suffix-range`: a suffix beyond the region's.
    #[error("suffix {suffix} does not fit {bits} bits, which hold values below {}", Count::power_of_two(*bits))]
    SuffixValue {
        /// The suffix.
        suffix: u128,
        /// The region's suffix bits.
        bits: u8,
    },
    /// `suffix-in-use`: issued identifiers need more bits.
    #[error("{issued} suffixes are issued or reserved, which need {needed} bits; {asked} would not hold them")]
    SuffixInUse {
        /// How many are issued.
        issued: Count,
        /// The smallest suffix that holds them, in bits.
        needed: u8,
        /// What was asked for, in bits.
        asked: u8,
    },
    /// `zone-too-small`.
    #[error(
        "the expansion zone of region {region:?} has {zone} bits, of which {usable} can be used; {asked} were asked for"
    )]
    ZoneTooSmall {
        /// The region.
        region: String,
        /// z.
        zone: u8,
        /// How many of them the operation could use.
        usable: u8,
        /// How many it would need.
        asked: u8,
    },
    /// `no-free-prefix`.
    #[error("{0}")]
    NoFreePrefix(NoFreePrefix),
    /// `is-subregion`: only top-level regions can be split.
    #[error("region {region:?} is a subregion of {parent:?}: only a top-level region can be split")]
    IsSubregion {
        /// The region.
        region: String,
        /// The one around it.
        parent: String,
    },
    /// `has-subregions`.
    #[error("region {region:?} has subregions, {sub_bits} bits below it: only a region without can be split")]
    HasSubregions {
        /// The region.
        region: String,
        /// k.
        sub_bits: u8,
    },
    /// `level-mismatch`.
    #[error(
        "the subregions of {region:?} are {present} bits below it, so others must be, too; {asked} bits were asked for"
    )]
    LevelMismatch {
        /// The region.
        region: String,
        /// k.
        present: u8,
        /// What was asked for.
        asked: u8,
    },
    /// `zero-extension`: the all-zero extension is taken while others are not.
    #[error(
        "the all-zero extension is taken but {missing} of the {all} extensions are not: assign them all, leave the all-zero one \
         unassigned, or say `abstract` to reserve the others",
        all = Count::power_of_two(*bits),
    )]
    ZeroExtension {
        /// k.
        bits: u8,
        /// How many extensions stay unassigned.
        missing: Count,
    },
    /// `closed`.
    #[error("region {region:?} is closed: its subregions take its place")]
    Closed {
        /// The region.
        region: String,
    },
    /// `delegated`: the region's suffixes are a space of their own.
    #[error("region {region:?} is delegated: its suffix of {suffix} bits is a space of its own, and stays as it is")]
    Delegated {
        /// The region.
        region: String,
        /// s.
        suffix: u8,
    },
    /// `not-delegated`.
    #[error("region {region:?} is not delegated: it has no table of its own")]
    NotDelegated {
        /// The region.
        region: String,
    },
    /// `suffix-range`: there is nothing to delegate.
    #[error("region {region:?} has a suffix of 0 bits: there is nothing to delegate")]
    SuffixEmpty {
        /// The region.
        region: String,
    },
    /// `region-populated`: only a region from which nothing was issued can be delegated.
    #[error(
        "{issued} suffixes of region {region:?} are issued or reserved: only a region without any can be delegated"
    )]
    Populated {
        /// The region.
        region: String,
        /// How many are issued.
        issued: Count,
    },
    /// `bad-input`: what people write about a region is too long.
    #[error("owner, description and labels together have {bytes} bytes, but may have at most {TEXT_BYTES_MAX}")]
    TextTooLong {
        /// How many there are.
        bytes: usize,
    },
    /// `bad-input`: a policy that makes no sense.
    #[error("{what}")]
    BadPolicy {
        /// Why not.
        what: &'static str,
    },
    /// `bad-input`: an update that changes nothing.
    #[error("the update says nothing to change")]
    NoChange,
    /// `not-due`: the region's policy does not expand it yet.
    #[error("the policy of region {region:?} does not expand it yet")]
    NotDue {
        /// The region.
        region: String,
    },
    /// `capacity-exhausted`.
    #[error(
        "{issued} of {capacity} suffixes are issued; region {region:?} can be expanded by up to {expandable_bits} bits"
    )]
    CapacityExhausted {
        /// The region.
        region: String,
        /// 2^s.
        capacity: Count,
        /// How many are issued.
        issued: Count,
        /// By how many bits it can be expanded.
        expandable_bits: u8,
    },
    /// `stale-revision`: the plan was made on another revision.
    #[error("the table is at revision {present}, not at {expected}")]
    StaleRevision {
        /// The plan's.
        expected: Revision,
        /// The table's.
        present: Revision,
    },
}

/// No free prefix leaves room enough, and what could be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoFreePrefix {
    /// Suffix and zone together, in bits.
    pub asked: u8,
    /// The largest free blocks, at most eight.
    pub free: Vec<Prefix>,
    /// The width of the identifiers.
    pub bits: u8,
    /// Regions that could be split to make room, at most eight.
    pub donors: Vec<Donor>,
}

/// A region that could be split to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Donor {
    /// The region.
    pub region: String,
    /// The z it has; it would lose one bit of it.
    pub zone: u8,
}

impl fmt::Display for NoFreePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no free prefix leaves {} bits; ", self.asked)?;
        match self.free[..] {
            [] => f.write_str("no block is free")?,
            [Prefix::EMPTY] => write!(f, "the whole space is free, but has only {} bits", self.bits)?,
            _ => self.write_blocks(f)?,
        }
        f.write_str("; ")?;
        match self.donors[..] {
            [] => f.write_str("no region could be split to make room"),
            _ => self.write_donors(f),
        }
    }
}

impl NoFreePrefix {
    fn write_blocks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the largest free blocks are ")?;
        self.free.iter().enumerate().try_for_each(|(at, block)| {
            write!(f, "{}{block} with {} bits", comma(at), self.bits.saturating_sub(block.len()))
        })
    }

    fn write_donors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("splitting would make room, and take 1 bit of the expansion zone of ")?;
        let mut donors = self.donors.iter().enumerate();
        donors.try_for_each(|(at, Donor { region, zone })| write!(f, "{}{region:?} (of {zone} bits)", comma(at)))
    }
}

const fn comma(at: usize) -> &'static str {
    if at == 0 { "" } else { ", " }
}

impl Refusal {
    /// The code of regions.md, such as `prefix-conflict`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadName { .. } => "bad-name",
            Self::NameTaken { .. } => "name-taken",
            Self::NoSuchRegion { .. } => "no-such-region",
            Self::NoBits | Self::NoSubregions => "range",
            Self::BadPrefix(_) => "bad-prefix",
            Self::PrefixConflict { .. } => "prefix-conflict",
            Self::SuffixBits { .. }
            | Self::SuffixMissing { .. }
            | Self::SuffixValue { .. }
            | Self::SuffixEmpty { .. } => "suffix-range",
            Self::SuffixInUse { .. } => "suffix-in-use",
            Self::ZoneTooSmall { .. } => "zone-too-small",
            Self::NoFreePrefix(_) => "no-free-prefix",
            Self::IsSubregion { .. } => "is-subregion",
            Self::HasSubregions { .. } => "has-subregions",
            Self::LevelMismatch { .. } => "level-mismatch",
            Self::ZeroExtension { .. } => "zero-extension",
            Self::Closed { .. } => "closed",
            Self::Delegated { .. } => "delegated",
            Self::NotDelegated { .. } => "not-delegated",
            Self::Populated { .. } => "region-populated",
            Self::TextTooLong { .. } | Self::BadPolicy { .. } | Self::NoChange => "bad-input",
            Self::NotDue { .. } => "not-due",
            Self::CapacityExhausted { .. } => "capacity-exhausted",
            Self::StaleRevision { .. } => "stale-revision",
        }
    }
}
