//! Refusals: the errors of edits and counter operations, with the allowed alternatives.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use kent_ids::{Stride, counted, counted_be, grouped};
use thiserror::Error;

use crate::{
    count::Count,
    limits::{LABEL_BYTES_MAX, TEXT_BYTES_MAX},
    prefix::{BadPrefix, Prefix, bits as noun},
    revision::Revision,
};

/// The rule that an edit or a counter operation breaks. A refused operation changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// `bad-name`: the name is empty or has a `/`.
    #[error("{name:?} is not a valid name: a name is not empty and has no /")]
    BadName {
        /// The given name.
        name: String,
    },
    /// `name-taken`: another region has the name.
    #[error("region {name:?} already exists")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// `name-taken`: two new regions of one edit have the same name.
    #[error("{name:?} is the name of two of the new regions: each needs its own")]
    NameTwice {
        /// The name.
        name: String,
    },
    /// `no-such-region`: no region has the name.
    #[error("there is no region {name:?}")]
    NoSuchRegion {
        /// The name.
        name: String,
    },
    /// `range`: the number of bits is zero.
    #[error("the number of bits must be at least 1")]
    NoBits,
    /// `range`: a subdivision has no subregions.
    #[error("a subdivision needs at least one subregion")]
    NoSubregions,
    /// `bad-prefix`: a prefix or an extension is not valid.
    #[error(transparent)]
    BadPrefix(#[from] BadPrefix),
    /// `prefix-conflict`: the prefix overlaps another region's.
    #[error("prefix {prefix:#} overlaps region {region:?}, which has prefix {taken:#}")]
    PrefixConflict {
        /// The requested prefix.
        prefix: Prefix,
        /// The region that the prefix overlaps.
        region: String,
        /// The prefix of that region.
        taken: Prefix,
    },
    /// `prefix-conflict`: two new regions of one edit request the same extension.
    #[error("the new regions {first:?} and {second:?} both use the extension {extension}: each needs its own")]
    ExtensionTwice {
        /// The extension.
        extension: Prefix,
        /// The name of the first region.
        first: String,
        /// The name of the second region.
        second: String,
    },
    /// `suffix-range`: the suffix has too many bits.
    #[error(
        "the suffix of region {region:?} can have at most {max} {}, not {bits}: its prefix has {prefix} of the {} bits of an identifier; \
         make the suffix or the prefix shorter",
        noun(*max),
        prefix + max
    )]
    SuffixBits {
        /// The name of the new region.
        region: String,
        /// The length of its prefix in bits.
        prefix: u8,
        /// The requested number of bits.
        bits: u8,
        /// The maximum number of bits.
        max: u8,
    },
    /// `suffix-range`: the suffix cannot shrink by this many bits.
    #[error(
        "the suffix of region {region:?} has {suffix} {}{}, so it can shrink by at most {most}, not by {by}",
        noun(*suffix),
        if most < suffix { format!(", and what is issued or reserved needs {}", suffix - most) } else { String::new() }
    )]
    SuffixTooNarrow {
        /// The name of the region.
        region: String,
        /// The width of its suffix in bits.
        suffix: u8,
        /// The number of bits to remove.
        by: u8,
        /// The number of bits that can be removed.
        most: u8,
    },
    /// `suffix-range`: a new region's suffix width is not given and cannot be inherited.
    #[error("the suffix of {name:?} must be given: only the all-zero subregion inherits its parent's")]
    SuffixMissing {
        /// The name of the new region.
        name: String,
    },
    /// `suffix-range`: a suffix is too large for the region.
    #[error("suffix {} does not fit {bits} {}, which hold values below {}", grouped(suffix), noun(*bits), grouped(Count::power_of_two(*bits)))]
    SuffixValue {
        /// The suffix.
        suffix: u128,
        /// The width of the region's suffix in bits.
        bits: u8,
    },
    /// `suffix-in-use`: issued identifiers need a wider suffix.
    #[error(
        "{} issued or reserved in region {region:?} and need {needed} {}: {requested} would be too few",
        counted_be(issued, "suffix"),
        noun(*needed)
    )]
    SuffixInUse {
        /// The name of the region.
        region: String,
        /// The number of issued or reserved suffixes.
        issued: Count,
        /// The smallest sufficient width in bits.
        needed: u8,
        /// The requested width in bits.
        requested: u8,
        /// If a shrink was refused: the number of bits by which the region can shrink.
        most: Option<u8>,
    },
    /// `suffix-in-use`: the all-zero subregion cannot hold the numbers that it would inherit.
    #[error(
        "region {region:?} would continue the {} of {parent:?}, so its suffix needs at least {needed} {}: {suffix} would be too few",
        counted(*issued, "number"),
        noun(*needed)
    )]
    HeirTooNarrow {
        /// The name of the new subregion.
        region: String,
        /// The name of its parent, whose numbers it would continue.
        parent: String,
        /// The number of bits by which its prefix is longer than its parent's (k).
        sub_bits: u8,
        /// The number of issued or reserved suffixes of the parent.
        issued: Count,
        /// The smallest sufficient width in bits.
        needed: u8,
        /// The requested width in bits.
        suffix: u8,
    },
    /// `zone-too-small`: the region cannot be expanded by this many bits.
    #[error("{}", match (zone, usable) {
        (0, _) => format!("region {region:?} has no expansion zone, so it cannot grow: create another region"),
        (zone, 0) => format!("the expansion zone of region {region:?} has {zone} {}, but the subregions use the zone, so the region cannot grow", noun(*zone)),
        (zone, usable) => format!(
            "the expansion zone of region {region:?} has {zone} {}, of which {usable} can be used, but {requested} were requested",
            noun(*zone)
        ),
    })]
    CannotExpand {
        /// The name of the region.
        region: String,
        /// The width of the zone in bits (z).
        zone: u8,
        /// The number of zone bits that an expansion can use.
        usable: u8,
        /// The requested number of bits.
        requested: u8,
    },
    /// `zone-too-small`: the expansion zone has too few bits.
    #[error("the expansion zone of region {region:?} has {zone} {}, but {requested} were requested", noun(*zone))]
    ZoneTooSmall {
        /// The name of the region.
        region: String,
        /// The width of the zone in bits (z).
        zone: u8,
        /// The requested number of bits.
        requested: u8,
    },
    /// `no-free-prefix`: no free prefix is short enough for a new region.
    #[error("{0}")]
    NoFreePrefix(NoFreePrefix),
    /// `is-subregion`: only top-level regions can be split.
    #[error(
        "region {region:?} is a subregion of {parent:?}: only top-level regions can be split, but a subregion can be subdivided"
    )]
    IsSubregion {
        /// The name of the region.
        region: String,
        /// Its parent.
        parent: String,
    },
    /// `has-subregions`: the operation needs a region without subregions.
    #[error(
        "region {region:?} has {}, whose prefixes are {sub_bits} {} longer: only regions without subregions can be split, delegated or deleted",
        named(subregions, *count),
        noun(*sub_bits)
    )]
    HasSubregions {
        /// The name of the region.
        region: String,
        /// The number of bits by which the prefixes of subregions are longer than the region's (k).
        sub_bits: u8,
        /// The names of the first subregions, at most eight.
        subregions: Vec<String>,
        /// The number of subregions.
        count: usize,
    },
    /// `level-mismatch`: the prefixes of all subregions of a region must have the same length.
    #[error(
        "the prefixes of all subregions of {region:?} must be {present} {} longer than its own, but {requested} {} requested",
        noun(*present),
        if *requested == 1 { "bit was" } else { "bits were" }
    )]
    LevelMismatch {
        /// The name of the region.
        region: String,
        /// The number of bits by which the prefixes of subregions are longer than the region's (k).
        present: u8,
        /// The requested number of bits.
        requested: u8,
    },
    /// `zero-extension`: the all-zero extension is assigned while others are not.
    #[error(
        "the all-zero extension is assigned, but {} of the {all} extensions {} not: assign all, leave the all-zero one \
         unassigned, or add --abstract to reserve the others",
        grouped(missing),
        if *missing == Count::Below(1) { "is" } else { "are" },
        all = grouped(Count::power_of_two(*bits)),
    )]
    ZeroExtension {
        /// The number of bits by which the prefixes of subregions are longer than the region's (k).
        bits: u8,
        /// The number of unassigned extensions.
        missing: Count,
    },
    /// `closed`: only the region's subregions have identifiers.
    #[error("region {region:?} is closed: its identifiers belong to region {heir:?} inside it")]
    Closed {
        /// The name of the region.
        region: String,
        /// The name of the region that inherited its identifiers.
        heir: String,
    },
    /// `delegated`: the region's suffixes are a separate space.
    #[error("region {region:?} is delegated: its suffix of {suffix} {} is a separate space and cannot change", noun(*suffix))]
    Delegated {
        /// The name of the region.
        region: String,
        /// The width of the suffix in bits (s).
        suffix: u8,
    },
    /// `not-delegated`: the region has no local table.
    #[error("region {region:?} is not delegated, so it does not contain a space")]
    NotDelegated {
        /// The name of the region.
        region: String,
    },
    /// `suffix-range`: a suffix of 0 bits cannot be delegated.
    #[error("region {region:?} has a suffix of 0 bits: only a region with a suffix can be delegated")]
    SuffixEmpty {
        /// The name of the region.
        region: String,
    },
    /// `region-populated`: only a region from which nothing was issued can be delegated.
    #[error(
        "{} issued or reserved in region {region:?}: only an unused region can be delegated",
        counted_be(issued, "suffix")
    )]
    Populated {
        /// The name of the region.
        region: String,
        /// The number of issued or reserved suffixes.
        issued: Count,
    },
    /// `region-populated`: only a region from which nothing was issued can be deleted.
    #[error(
        "{} issued or reserved in region {region:?} and may be in use: only a region that has issued and reserved nothing can be deleted",
        counted_be(issued, "suffix")
    )]
    InUse {
        /// The name of the region.
        region: String,
        /// The number of issued or reserved suffixes.
        issued: Count,
    },
    /// `use-unknown`: the edit would remove numbers from an external region, and these numbers may be in use.
    #[error(
        "region {region:?} is external: users choose its numbers, and the table does not show whether any is in use"
    )]
    UseUnknown {
        /// The name of the region.
        region: String,
    },
    /// `use-unknown`: an external region cannot be delegated, because its numbers may be in use.
    #[error(
        "region {region:?} is external: users choose its numbers, and only a region of which no number is in use can be delegated"
    )]
    DelegatesExternal {
        /// The name of the region.
        region: String,
    },
    /// `use-unknown`: another generator may have issued numbers of the region.
    #[error(
        "region {region:?} issues {stride}, and the table does not show which of the others another generator has issued"
    )]
    OthersUnknown {
        /// The name of the region.
        region: String,
        /// The stride of the region.
        stride: Stride,
    },
    /// `is-heir`: the region continues the numbers of its closed parent, which has other subregions.
    #[error(
        "region {region:?} continues the numbers of {parent:?}, which is closed: delete the other subregions of {parent:?} first"
    )]
    IsHeir {
        /// The name of the region.
        region: String,
        /// Its parent.
        parent: String,
    },
    /// `space-in-use`: the space of a delegated region contains regions.
    #[error("the space of region {region:?} has {}: delete {} first", counted(regions, "region"), if *regions == 1 { "it" } else { "them" })]
    SpaceInUse {
        /// The name of the region.
        region: String,
        /// The number of regions in its space.
        regions: usize,
    },
    /// `bad-input`: the maximum of an automatic expansion is below the current suffix width.
    #[error("the region already has a suffix of {suffix} bits, so it never expands to {max}: {}", wider(*suffix, *most))]
    ExpandsNever {
        /// The width of the region's suffix in bits.
        suffix: u8,
        /// The maximum width of the suffix in bits after an expansion.
        max: u8,
        /// The width of the suffix in bits after the largest possible expansion.
        most: u8,
    },
    /// `bad-input`: the maximum of an automatic expansion is above the width of the space.
    #[error("the suffix of region {region:?} can have at most {most} {}, not {}", noun(*most), max)]
    ExpandsBeyond {
        /// The name of the region.
        region: String,
        /// The percentage of the capacity at which the region expands.
        at_percent: u8,
        /// The number of bits of one expansion.
        by_bits: u8,
        /// The maximum width of the suffix in bits after an expansion.
        max: u8,
        /// The number of bits that the region's prefix leaves for a suffix.
        most: u8,
    },
    /// `bad-input`: a cap of zero.
    #[error("a cap must be at least 1; to stop all grants, seal region {region:?}")]
    CapOfZero {
        /// The name of the region.
        region: String,
    },
    /// `delegated`: a delegated region cannot have a policy.
    #[error(
        "region {region:?} is delegated: it grants nothing itself, so a policy has no effect; the regions of its space have their own"
    )]
    DelegatedPolicy {
        /// The name of the region.
        region: String,
    },
    /// `bad-input`: the name of a label is not valid in a selector.
    #[error(
        "the name {name:?} of a label is not valid: use 1 to {LABEL_BYTES_MAX} of a-z A-Z 0-9 - _ . / : @ +, the first a letter or a digit, \
         such as team"
    )]
    LabelName {
        /// The name.
        name: String,
    },
    /// `bad-input`: the value of a label is not valid in a selector.
    #[error(
        "the value {value:?} of the label {name:?} is not valid: use 1 to {LABEL_BYTES_MAX} of a-z A-Z 0-9 - _ . / : @ +, such as \
         {name}=checkout; a description may have any text"
    )]
    LabelValue {
        /// The name of the label.
        name: String,
        /// The value.
        value: String,
    },
    /// `bad-input`: the owner contains a control character, such as a line break.
    #[error(
        "the owner {owner:?} contains a control character: use one line of text, such as checkout; a description may have any text"
    )]
    OwnerControl {
        /// The owner.
        owner: String,
    },
    /// `bad-input`: the texts of a region are too long.
    #[error(
        "owner, description and labels together have {}, but may have at most {}",
        counted(bytes, "byte"),
        grouped(TEXT_BYTES_MAX)
    )]
    TextTooLong {
        /// Their total length in bytes.
        bytes: usize,
    },
    /// `bad-input`: an invalid policy.
    #[error("{what}")]
    BadPolicy {
        /// The error in the policy.
        what: &'static str,
    },
    /// `bad-input`: a strict region cannot have bounds for its chunks.
    #[error("a strict region reserves no chunks, so {region:?} cannot be strict and have bounds for its chunks")]
    StrictAndBounds {
        /// The name of the region.
        region: String,
        /// The bounds that the edit sets; `None` if the region already has bounds.
        bounds: Option<(u64, u64)>,
    },
    /// `bad-input`: an update lets the region issue suffixes that it left to another generator, without the declaration
    /// of the suffixes that are in use.
    #[error(
        "region {region:?} issues {stride}, and another generator may have issued the others: also declare a number above all that are in \
         use"
    )]
    OthersNumbers {
        /// The name of the region.
        region: String,
        /// The stride of the region before the update.
        stride: Stride,
    },
    /// `bad-input`: a strict region cannot be scrambled.
    #[error(
        "a strict region issues numbers without gaps, so it cannot be scrambled, and the order of a region never changes"
    )]
    StrictScrambled,
    /// `bad-input`: an update that changes nothing.
    #[error("the update changes nothing: give at least one attribute")]
    NoChange,
    /// `bad-import`: the imported regions break an invariant of the table.
    #[error("the imported regions do not fit the table: region {region:?}: {what}")]
    NotImported {
        /// The name of the region.
        region: String,
        /// The invariant that the region breaks.
        what: &'static str,
    },
    /// `edited-since`: after the edit to revert, another edit changed one of its regions, or the subregions of such a
    /// region.
    #[error("region {region:?} has been edited again after that edit")]
    EditedSince {
        /// The name of the region.
        region: String,
    },
    /// `not-due`: the region's policy does not expand it yet.
    #[error("the policy of region {region:?} does not expand it yet")]
    NotDue {
        /// The name of the region.
        region: String,
    },
    /// `capacity-exhausted`: too few suffixes are left.
    #[error(
        "{} of {} issued; region {region:?} can be expanded by up to {expandable_bits} {}",
        grouped(issued),
        counted_be(capacity, "suffix"),
        noun(*expandable_bits)
    )]
    CapacityExhausted {
        /// The name of the region.
        region: String,
        /// The number of suffixes (2^s).
        capacity: Count,
        /// The number of issued or reserved suffixes.
        issued: Count,
        /// The number of bits by which the region can be expanded.
        expandable_bits: u8,
    },
    /// `stale-revision`: the plan was made for another revision.
    #[error("the table is at revision {present}, not at {expected}")]
    StaleRevision {
        /// The revision of the plan.
        expected: Revision,
        /// The revision of the table.
        present: Revision,
    },
}

/// The error if no free prefix leaves enough bits. Lists the alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoFreePrefix {
    /// The requested number of bits: suffix and zone together.
    pub requested: u8,
    /// The requested width of the zone in bits.
    pub zone: u8,
    /// The largest free blocks, at most eight.
    pub free: Vec<Prefix>,
    /// The width of the identifiers in bits.
    pub bits: u8,
    /// Regions that could be split, at most eight.
    pub donors: Vec<Donor>,
}

/// A region that could be split to free a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Donor {
    /// The name of the region.
    pub region: String,
    /// The width of its zone in bits (z). A split would take one bit of it.
    pub zone: u8,
}

impl fmt::Display for NoFreePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.requested > self.bits, self.zone) {
            (true, 0) => {
                return write!(f, "the suffix has {} bits, but an identifier here has {}", self.requested, self.bits);
            }
            (true, _) => {
                return write!(
                    f,
                    "suffix and zone together have {} bits, but an identifier here has {}",
                    self.requested, self.bits
                );
            }
            (false, _) => write!(f, "no free prefix leaves {} {}; ", self.requested, noun(self.requested))?,
        }
        match self.free[..] {
            [] => f.write_str("no block is free")?,
            [Prefix::EMPTY] => write!(f, "the whole space is free, but has only {} {}", self.bits, noun(self.bits))?,
            _ => self.write_blocks(f)?,
        }
        if let Some(widest) = self.widest_suffix() {
            write!(f, "; the widest suffix that fits now has {widest} {}", noun(widest))?;
        }
        f.write_str("; ")?;
        match self.donors[..] {
            [] => f.write_str("no region can be split to free one"),
            _ => self.write_donors(f),
        }
    }
}

impl NoFreePrefix {
    /// Returns the width in bits of the widest suffix that fits the largest free block together with the requested
    /// zone.
    pub fn widest_suffix(&self) -> Option<u8> {
        self.largest()?.checked_sub(self.zone)
    }

    /// Returns the width in bits of the widest zone that fits the largest free block together with this suffix.
    pub fn widest_zone(&self, suffix: u8) -> Option<u8> {
        self.largest()?.checked_sub(suffix)
    }

    /// Returns the number of bits that the largest free block leaves to zone and suffix.
    fn largest(&self) -> Option<u8> {
        self.bits.checked_sub(self.free.first()?.len())
    }

    fn write_blocks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the largest free blocks are ")?;
        self.free.iter().enumerate().try_for_each(|(at, block)| {
            let bits = self.bits.saturating_sub(block.len());
            write!(f, "{}{block} with {bits} {}", comma(at), noun(bits))
        })
    }

    fn write_donors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("splitting a region would free one, and take 1 bit of its expansion zone: ")?;
        let mut donors = self.donors.iter().enumerate();
        donors.try_for_each(|(at, Donor { region, zone })| {
            write!(f, "{}{region:?} (of {zone} {})", comma(at), noun(*zone))
        })
    }
}

/// Formats the number of subregions and the names of the first ones.
fn named(names: &[String], count: usize) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let more = if names.len() < count { ", ..." } else { "" };
    format!("{} ({}{more})", counted(count, "subregion"), listed.join(", "))
}

/// Formats the valid maximums of an automatic expansion.
fn wider(suffix: u8, most: u8) -> String {
    match most.saturating_sub(suffix) {
        0 => "it cannot be expanded".into(),
        1 => format!("set a maximum of {most} bits"),
        _ => format!("set a maximum of {} to {most} bits", suffix.saturating_add(1)),
    }
}

const fn comma(at: usize) -> &'static str {
    if at == 0 { "" } else { ", " }
}

impl Refusal {
    /// Returns the code for programs, such as `prefix-conflict`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadName { .. } => "bad-name",
            Self::NameTaken { .. } | Self::NameTwice { .. } => "name-taken",
            Self::NoSuchRegion { .. } => "no-such-region",
            Self::NoBits | Self::NoSubregions => "range",
            Self::BadPrefix(_) => "bad-prefix",
            Self::PrefixConflict { .. } | Self::ExtensionTwice { .. } => "prefix-conflict",
            Self::SuffixBits { .. }
            | Self::SuffixTooNarrow { .. }
            | Self::SuffixMissing { .. }
            | Self::SuffixValue { .. }
            | Self::SuffixEmpty { .. } => "suffix-range",
            Self::SuffixInUse { .. } | Self::HeirTooNarrow { .. } => "suffix-in-use",
            Self::CannotExpand { .. } | Self::ZoneTooSmall { .. } => "zone-too-small",
            Self::NoFreePrefix(_) => "no-free-prefix",
            Self::IsSubregion { .. } => "is-subregion",
            Self::HasSubregions { .. } => "has-subregions",
            Self::LevelMismatch { .. } => "level-mismatch",
            Self::ZeroExtension { .. } => "zero-extension",
            Self::Closed { .. } => "closed",
            Self::Delegated { .. } | Self::DelegatedPolicy { .. } => "delegated",
            Self::NotDelegated { .. } => "not-delegated",
            Self::Populated { .. } => "region-populated",
            Self::InUse { .. } => "region-populated",
            Self::UseUnknown { .. } | Self::DelegatesExternal { .. } | Self::OthersUnknown { .. } => "use-unknown",
            Self::IsHeir { .. } => "is-heir",
            Self::SpaceInUse { .. } => "space-in-use",
            Self::TextTooLong { .. }
            | Self::OwnerControl { .. }
            | Self::LabelName { .. }
            | Self::LabelValue { .. }
            | Self::BadPolicy { .. }
            | Self::StrictAndBounds { .. }
            | Self::StrictScrambled
            | Self::OthersNumbers { .. }
            | Self::ExpandsNever { .. }
            | Self::ExpandsBeyond { .. }
            | Self::CapOfZero { .. }
            | Self::NoChange => "bad-input",
            Self::NotImported { .. } => "bad-import",
            Self::EditedSince { .. } => "edited-since",
            Self::NotDue { .. } => "not-due",
            Self::CapacityExhausted { .. } => "capacity-exhausted",
            Self::StaleRevision { .. } => "stale-revision",
        }
    }
}
