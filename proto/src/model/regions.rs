//! Spaces, regions and edits.

use std::num::NonZeroU64;

use kent_ids::{counted, grouped};
use kent_regions::{
    BadPrefix, Change, Classification, Count, Donate, Edit, Kind, NewRegion, Order, Pace, Patch, Place, Plan, Policy,
    Prefix, Region, RegionNumber, Revision, Start, Status, Table, Zone,
};

use super::{
    Invalid,
    names::{RegionName, RequestName, SpaceName, check, region_name, space_name},
    policy::{policy, policy_input, policy_patch},
    range::{inner, width},
};
use crate::{
    stored::{Declared, HistoryEntry, TextForm},
    v1,
};

/// The maximum number of new regions in one edit. An edit then fits the 128 operations of one commit: one record and
/// one counter per region, the space and the history.
const NEW_REGIONS_MAX: usize = 56;
/// The maximum number of identifiers in one `Classify` call: a request of about 160 KiB.
const CLASSIFY_MAX: usize = 10_000;
/// The number of entries in a page: the default and the maximum.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1000;
/// The default expansion zone of a new region, in bits.
const ZONE_DEFAULT: u8 = 8;
/// The default width of a space, in bits.
const BITS_DEFAULT: u32 = 64;

/// A validated request for a new space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceInput {
    /// Its name.
    pub name: String,
    /// The width of its identifiers in bits.
    pub bits: u8,
    /// The text form of its identifiers.
    pub text_form: TextForm,
    /// True for a dry run.
    pub validate_only: bool,
}

impl TryFrom<v1::CreateSpaceRequest> for SpaceInput {
    type Error = Invalid;

    fn try_from(request: v1::CreateSpaceRequest) -> Result<Self, Invalid> {
        let bits = if request.bits == 0 { BITS_DEFAULT } else { request.bits };
        let bits = width("bits", bits)?;
        let text_form = match v1::space::TextForm::try_from(request.text_form) {
            Ok(v1::space::TextForm::Unspecified | v1::space::TextForm::Decimal) => TextForm::Decimal,
            Ok(v1::space::TextForm::Hex) => TextForm::Hex,
            Ok(v1::space::TextForm::Uid11) if bits == 64 => TextForm::Uid11,
            Ok(v1::space::TextForm::Uid11) => {
                return Err(Invalid::new(
                    "text_form",
                    format!("UID11 needs a space of 64 bits, but this space has {bits}"),
                ));
            }
            Err(_) => return Err(Invalid::new("text_form", "must be DECIMAL, HEX or UID11")),
        };
        let name = check("space_id", &request.space_id)?;
        Ok(Self { name, bits, text_form, validate_only: request.validate_only })
    }
}

/// An edit of a table, validated as far as possible without the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditInput {
    /// The name of the space.
    pub space: String,
    /// The edit.
    pub edit: Edit,
    /// The options that every edit has.
    pub options: EditOptions,
}

/// The options of an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// True for a dry run.
    pub validate_only: bool,
    /// The revision that the table must have. `None` accepts any.
    pub expected: Option<Revision>,
    /// The request ID: requests with the same ID make the edit only once. Empty for none.
    pub request_id: String,
    /// The reason, which the history records.
    pub reason: String,
    /// The number of the request for a region that the edit answers.
    pub answers: Option<u64>,
}

/// The maximum length of a request ID, in bytes.
pub(super) const REQUEST_ID_BYTES_MAX: usize = 64;

/// The maximum length of a reason, in bytes.
const REASON_BYTES_MAX: usize = 1024;

/// Builds [`EditOptions`] from the fields that all edit requests have.
macro_rules! options {
    ($request:ident) => {
        EditOptions::checked($request.validate_only, $request.expected_revision, $request.request_id, $request.reason)?
    };
}

fn check_length(field: &'static str, text: &str, max: usize) -> Result<(), Invalid> {
    match text.len() > max {
        true => Err(Invalid::new(
            field,
            format!("has {}, but at most {} are allowed", counted(text.len(), "byte"), grouped(max)),
        )),
        false => Ok(()),
    }
}

/// Fails if a reason or a note is too long.
pub(super) fn check_bytes(field: &'static str, text: &str) -> Result<(), Invalid> {
    check_length(field, text, REASON_BYTES_MAX)
}

impl EditOptions {
    /// The options of floors.
    ///
    /// # Errors
    ///
    /// Fails if the reason is too long.
    pub fn of_floors(validate_only: bool, reason: String) -> Result<Self, Invalid> {
        Self::checked(validate_only, 0, String::new(), reason)
    }

    pub(super) fn checked(
        validate_only: bool,
        expected_revision: u64,
        request_id: String,
        reason: String,
    ) -> Result<Self, Invalid> {
        check_length("request_id", &request_id, REQUEST_ID_BYTES_MAX)?;
        check_bytes("reason", &reason)?;
        let expected = (expected_revision != 0).then_some(Revision(expected_revision));
        Ok(Self { validate_only, expected, request_id, reason, answers: None })
    }
}

impl EditInput {
    fn of_region(name: &str, options: EditOptions, edit: impl FnOnce(String) -> Edit) -> Result<Self, Invalid> {
        let RegionName { space, region } = RegionName::parse("name", name)?;
        Ok(Self { space, edit: edit(region), options })
    }

    /// Returns an edit that seals or unseals a region.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`], which names the field.
    pub fn seal(request: v1::SealRegionRequest, sealed: bool) -> Result<Self, Invalid> {
        let patch = Patch { sealed: Some(sealed), ..Patch::default() };
        Self::of_region(&request.name, options!(request), |name| Edit::Update { name, patch })
    }
}

impl TryFrom<v1::CreateRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::CreateRegionRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let missing = || Invalid::new("suffix_bits", "is missing: the width of the suffix in bits, such as 40");
        let suffix_bits = request.suffix_bits.ok_or_else(missing)?;
        let edit = Edit::Create {
            name: new_name("region_id", &request.region_id)?,
            suffix: width("suffix_bits", suffix_bits)?,
            place: place(&request)?,
            start: Start {
                next: Count::Below(request.next.map_or(0, u128::from)),
                order: order(request.order)?,
                pace: NonZeroU64::new(request.pace).map(Pace::per_second),
                sealed: request.sealed,
                policy: request.policy.map(policy_input).transpose()?.unwrap_or_default(),
                ..Start::default()
            },
        };
        let answers = answers(&space, &request.answers)?;
        Ok(Self { space, edit, options: EditOptions { answers, ..options!(request) } })
    }
}

/// Returns the number of the answered request, which must belong to this space.
fn answers(space: &str, name: &str) -> Result<Option<u64>, Invalid> {
    if name.is_empty() {
        return Ok(None);
    }
    let request = RequestName::parse("answers", name)?;
    match request.space == space {
        true => Ok(Some(request.number)),
        false => Err(Invalid::new("answers", format!("is a request of space {:?}, not of {space:?}", request.space))),
    }
}

/// Returns the zone of a new region.
pub(super) fn zone(bits: Option<u32>) -> Result<Zone, Invalid> {
    bits.map_or(Ok(Zone::UpTo(ZONE_DEFAULT)), |bits| width("zone_bits", bits).map(Zone::Exactly))
}

fn place(request: &v1::CreateRegionRequest) -> Result<Place, Invalid> {
    match (&request.prefix, request.zone_bits) {
        (Some(_), Some(_)) => Err(Invalid::new("zone_bits", "is determined by prefix: set only one of the two")),
        (Some(prefix), None) => Ok(Place::At(bits("prefix", prefix)?)),
        (None, bits) => {
            let zone = zone(bits)?;
            let donor = match (request.split_donor.as_str(), request.auto_split) {
                ("", false) => Donate::Never,
                ("", true) => Donate::Best,
                (_, true) => {
                    return Err(Invalid::new(
                        "split_donor",
                        "is not allowed together with auto_split: set only one of the two",
                    ));
                }
                (name, false) => Donate::Named(check("split_donor", name)?),
            };
            Ok(Place::Chosen { zone, donor })
        }
    }
}

impl TryFrom<v1::ExpandRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::ExpandRegionRequest) -> Result<Self, Invalid> {
        let by = width("by_bits", request.by_bits)?;
        Self::of_region(&request.name, options!(request), |name| Edit::Expand { name, by })
    }
}

impl TryFrom<v1::ShrinkRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::ShrinkRegionRequest) -> Result<Self, Invalid> {
        let by = width("by_bits", request.by_bits)?;
        Self::of_region(&request.name, options!(request), |name| Edit::Shrink { name, by })
    }
}

impl TryFrom<v1::SplitRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::SplitRegionRequest) -> Result<Self, Invalid> {
        let (by, new_regions) = (width("by_bits", request.by_bits)?, new_regions(request.new_regions)?);
        Self::of_region(&request.name, options!(request), |name| Edit::Split { name, by, new_regions })
    }
}

impl TryFrom<v1::AddSubregionsRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::AddSubregionsRequest) -> Result<Self, Invalid> {
        if request.new_regions.is_empty() {
            return Err(Invalid::new("new_regions", "must have at least one region"));
        }
        let (by, new_regions, reserve_others) =
            (width("by_bits", request.by_bits)?, new_regions(request.new_regions)?, request.r#abstract);
        Self::of_region(&request.name, options!(request), |name| Edit::Subdivide {
            name,
            by,
            new_regions,
            reserve_others,
        })
    }
}

impl TryFrom<v1::DelegateRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::DelegateRegionRequest) -> Result<Self, Invalid> {
        Self::of_region(&request.name, options!(request), |name| Edit::Delegate { name })
    }
}

impl TryFrom<v1::DeleteRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::DeleteRegionRequest) -> Result<Self, Invalid> {
        let unused = request.unused;
        Self::of_region(&request.name, options!(request), |name| Edit::Delete { name, unused })
    }
}

/// A request to revert the last edit of a table or of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoInput {
    /// The name of the space.
    pub space: String,
    /// The name of the region; `None` for the whole table.
    pub region: Option<String>,
    /// The options that every edit has.
    pub options: EditOptions,
}

impl TryFrom<v1::UndoEditRequest> for UndoInput {
    type Error = Invalid;

    fn try_from(request: v1::UndoEditRequest) -> Result<Self, Invalid> {
        let (space, region) = match RegionName::parse("name", &request.name) {
            Ok(RegionName { space, region }) => (space, Some(region)),
            Err(_) => (SpaceName::parse("name", &request.name)?.into_inner(), None),
        };
        Ok(Self { space, region, options: options!(request) })
    }
}

impl TryFrom<v1::RenameRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::RenameRegionRequest) -> Result<Self, Invalid> {
        let patch = Patch { name: Some(new_name("region_id", &request.region_id)?), ..Patch::default() };
        Self::of_region(&request.name, options!(request), |name| Edit::Update { name, patch })
    }
}

impl TryFrom<v1::UpdateRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::UpdateRegionRequest) -> Result<Self, Invalid> {
        let removed = request.remove_labels.into_iter().map(|label| (label, None));
        let set = request.set_labels.into_iter().map(|(label, value)| (label, Some(value)));
        let patch = Patch {
            owner: request.owner,
            description: request.description,
            labels: removed.chain(set).collect(),
            policy: policy_patch(request.policy, request.policy_mask)?,
            next: request.next.map(|next| Count::Below(next.into())),
            ..Patch::default()
        };
        Self::of_region(&request.name, options!(request), |name| Edit::Update { name, patch })
    }
}

pub(super) fn order(order: i32) -> Result<Order, Invalid> {
    match v1::region::Order::try_from(order) {
        Ok(v1::region::Order::Unspecified | v1::region::Order::Sequential) => Ok(Order::Sequential),
        Ok(v1::region::Order::Scrambled) => Ok(Order::Scrambled),
        Ok(v1::region::Order::External) => Ok(Order::External),
        Err(_) => Err(Invalid::new("order", "must be SEQUENTIAL, SCRAMBLED or EXTERNAL")),
    }
}

fn new_regions(new_regions: Vec<v1::NewRegion>) -> Result<Vec<NewRegion>, Invalid> {
    const FIELD: &str = "new_regions";
    if new_regions.len() > NEW_REGIONS_MAX {
        let problem =
            format!("has {} regions, but one edit creates at most {NEW_REGIONS_MAX}", grouped(new_regions.len()));
        return Err(Invalid::new(FIELD, problem));
    }
    let checked = new_regions.into_iter().map(|new_region| {
        Ok(NewRegion {
            name: new_name(FIELD, &new_region.region_id)?,
            suffix: new_region.suffix_bits.map(|bits| inner(FIELD, "suffix_bits", bits)).transpose()?,
            extension: new_region.extension.map(|extension| bits(FIELD, &extension)).transpose()?,
            start: Start {
                next: Count::Below(new_region.next.map_or(0, u128::from)),
                order: order(new_region.order)?,
                pace: NonZeroU64::new(new_region.pace).map(Pace::per_second),
                sealed: new_region.sealed,
                policy: new_region.policy.map(policy_input).transpose()?.unwrap_or_default(),
                ..Start::default()
            },
        })
    });
    checked.collect()
}

/// Checks the name of a new region.
pub(super) fn new_name(field: &'static str, name: &str) -> Result<String, Invalid> {
    check(field, name).map_err(|invalid| invalid.because("BAD_NAME"))
}

pub(super) fn bits(field: &'static str, text: &str) -> Result<Prefix, Invalid> {
    text.parse().map_err(|error: BadPrefix| Invalid::new(field, error).because("BAD_PREFIX"))
}

/// A validated request to classify identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassifyInput {
    /// The name of the space.
    pub space: String,
    /// The identifiers to classify.
    pub identifiers: Vec<u128>,
}

impl TryFrom<v1::ClassifyRequest> for ClassifyInput {
    type Error = Invalid;

    fn try_from(request: v1::ClassifyRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let count = request.identifiers.len();
        if count > CLASSIFY_MAX {
            let problem = format!(
                "has {}, but one call classifies at most {}",
                counted(count, "identifier"),
                grouped(CLASSIFY_MAX)
            );
            return Err(Invalid::new("identifiers", problem));
        }
        Ok(Self { space, identifiers: request.identifiers.into_iter().map(u128::from).collect() })
    }
}

/// A validated request to compose identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComposeInput {
    /// The names of the region and its space.
    pub region: RegionName,
    /// Suffixes to convert to identifiers.
    pub suffixes: Vec<u128>,
    /// Identifiers to convert to suffixes.
    pub identifiers: Vec<u128>,
}

impl TryFrom<v1::ComposeRequest> for ComposeInput {
    type Error = Invalid;

    fn try_from(request: v1::ComposeRequest) -> Result<Self, Invalid> {
        for (field, count) in [("suffixes", request.suffixes.len()), ("identifiers", request.identifiers.len())] {
            if count > CLASSIFY_MAX {
                let problem =
                    format!("has {} entries, but one call composes at most {}", grouped(count), grouped(CLASSIFY_MAX));
                return Err(Invalid::new(field, problem));
            }
        }
        Ok(Self {
            region: RegionName::parse("name", &request.name)?,
            suffixes: request.suffixes.into_iter().map(u128::from).collect(),
            identifiers: request.identifiers.into_iter().map(u128::from).collect(),
        })
    }
}

/// The requested page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The maximum number of entries.
    pub size: usize,
    /// The key of the last entry of the previous page. `None` for the first page.
    pub after: Option<String>,
}

/// Parses the size and the token of a page.
///
/// # Errors
///
/// Returns [`Invalid`] if the token was not made by [`page_token`].
pub fn parse_page(size: u32, token: &str) -> Result<Page, Invalid> {
    let size = if size == 0 { PAGE_DEFAULT } else { size.min(PAGE_MAX) };
    let after = match token {
        "" => None,
        token => {
            let after = token.strip_prefix(TOKEN_MARK);
            Some(
                after
                    .ok_or_else(|| {
                        Invalid::new("page_token", "is not a page token: use the next_page_token of the previous page")
                    })?
                    .to_owned(),
            )
        }
    };
    Ok(Page { size: size as usize, after }) // OK because a page has at most 1000 entries
}

/// The prefix of every page token.
const TOKEN_MARK: &str = "after:";

/// Returns the page token for the page after the entry with this key.
pub fn page_token(last: &str) -> String {
    format!("{TOKEN_MARK}{last}")
}

/// Converts a space to a message.
pub fn space(name: &str, table: &Table, form: TextForm) -> v1::Space {
    v1::Space {
        name: space_name(name),
        bits: table.bits().into(),
        revision: table.revision().0,
        region_count: table.len() as u64, // OK because there are fewer regions than that
        text_form: match form {
            TextForm::Decimal => v1::space::TextForm::Decimal,
            TextForm::Hex => v1::space::TextForm::Hex,
            TextForm::Uid11 => v1::space::TextForm::Uid11,
        }
        .into(),
        sealed_by: String::new(),
    }
}

/// The use of a region by a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The number of suffixes left in the chunk that the daemon holds.
    pub unused: u128,
    /// The recent grant rate, in identifiers per second.
    pub rate: f64,
}

impl Usage {
    /// Returns the number of issued suffixes: `reserved` minus the suffixes that are left in this daemon's chunk.
    pub fn issued(&self, reserved: Count) -> Count {
        reserved.get().map_or(reserved, |reserved| Count::Below(reserved.saturating_sub(self.unused)))
    }
}

/// Converts a region to a message.
pub fn region(space: &str, parent: Option<&str>, region: &Region, usage: Usage) -> v1::Region {
    let issued = usage.issued(*region.issued);
    v1::Region {
        name: region_name(space, &region.name),
        number: region.number.0,
        prefix: region.prefix.to_string(),
        zone_bits: region.zone.into(),
        suffix_bits: region.suffix.into(),
        kind: kind(region.kind).into(),
        subregion_bits: region.sub_bits.into(),
        parent: parent.map(|parent| region_name(space, parent)).unwrap_or_default(),
        issued: issued.to_string(),
        reserved: region.issued.to_string(),
        capacity: region.capacity().to_string(),
        ultimate_capacity: region.ultimate_capacity().to_string(),
        former_prefixes: region.past().prefixes.iter().map(former_prefix).collect(),
        order: match region.order {
            Order::Sequential => v1::region::Order::Sequential,
            Order::Scrambled => v1::region::Order::Scrambled,
            Order::External => v1::region::Order::External,
        }
        .into(),
        sealed: region.sealed,
        delegated_space: match region.delegated {
            true => space_name(&inner_space(space, &region.name)),
            false => String::new(),
        },
        policy: (*region.policy() != Policy::default()).then(|| policy(region.policy())),
        owner: region.texts().owner.clone(),
        description: region.texts().description.clone(),
        labels: region.texts().labels.clone(),
        // A closed region may have granted a minute ago, but its rate is no longer meaningful.
        rate: if region.kind == Kind::Closed { 0.0 } else { usage.rate },
        full_in_seconds: region.full_in(issued, usage.rate),
        parent_number: region.parent().map_or(0, |parent| parent.0),
        prefix_since: region.since.0,
        pace: region.pace.get(),
        sealed_by: String::new(),
        needs_floor: false,
        key_number: region.key_number().0,
    }
}

/// Returns the name of the space into which a region of `space` is delegated.
pub fn inner_space(space: &str, region: &str) -> String {
    format!("{space}/{region}")
}

fn former_prefix(former: &kent_regions::FormerPrefix) -> v1::FormerPrefix {
    v1::FormerPrefix {
        prefix: former.prefix.to_string(),
        from_revision: former.from.0,
        to_revision: former.to.0,
        reserved: former.issued.to_string(),
    }
}

pub(super) const fn kind(kind: Kind) -> v1::region::Kind {
    match kind {
        Kind::Open => v1::region::Kind::Open,
        Kind::Partial => v1::region::Kind::Partial,
        Kind::Closed => v1::region::Kind::Closed,
    }
}

/// Converts a plan to the response of an edit or a dry run.
pub fn edit_response(
    space: &str,
    table: &Table,
    plan: &Plan,
    validate_only: bool,
    usage: impl Fn(RegionNumber) -> Usage,
) -> v1::EditResponse {
    // The plan itself may create the parent.
    let name_of = |number| {
        let made = plan.changes.iter().filter_map(Change::region).find(|region| region.number == number);
        made.or_else(|| table.get(number)).map(|parent| parent.name.as_str())
    };
    let message = |of: &Region| region(space, of.parent().and_then(name_of), of, usage(of.number));
    let change = |Change { before, after, .. }: &Change| v1::RegionChange {
        before: before.as_ref().map(message),
        after: after.as_ref().map(message),
    };
    let changed = plan.changes.iter().filter(|_| plan.revision != plan.base);
    v1::EditResponse {
        region: plan.subject().map(message),
        changes: changed.map(change).collect(),
        base_revision: plan.base.0,
        revision: plan.revision.0,
        validate_only,
        freed_prefixes: plan.freed.iter().map(Prefix::to_string).collect(),
        donor: plan.donor.as_ref().map(|donor| region_name(space, donor)).unwrap_or_default(),
        unconfirmed: Vec::new(),
        effective_within_ms: 0,
    }
}

/// Converts a classification, without the classification in the space of a delegated region.
pub fn classification(space: &str, id: u128, text: String, found: &Classification<'_>) -> v1::Classification {
    let (status, suffix) = match found.status {
        Status::Free => (v1::classification::Status::Free, None),
        Status::Unassigned => (v1::classification::Status::Unassigned, None),
        Status::Reserved => (v1::classification::Status::Reserved, None),
        Status::Member { suffix, .. } => (v1::classification::Status::Member, Some(suffix.into())),
    };
    let former =
        found.path.last().filter(|_| suffix.is_some()).map(|region| &region.past().prefixes[..]).unwrap_or_default();
    v1::Classification {
        identifier: Some(id.into()),
        status: status.into(),
        path: found.path.iter().map(|region| region_name(space, &region.name)).collect(),
        suffix,
        // OK because a daemon has the scramble key of every space, so only the suffixes of others are unknown.
        issued: found.issued().unwrap_or(false),
        former_prefixes: former.iter().map(former_prefix).collect(),
        local: None,
        issued_prefix: found.issued_prefix().map(|prefix| prefix.to_string()),
        text,
        others: found.is_of_others(),
    }
}

/// Converts an edit of the history.
pub fn history_entry(
    space: &str,
    revision: Revision,
    time: String,
    entry: &HistoryEntry,
    name_of: impl Fn(RegionNumber) -> Option<String>,
) -> v1::HistoryEntry {
    let message = |of: &Region| {
        let parent = of.parent().and_then(&name_of);
        v1::Region {
            issued: String::new(),
            reserved: String::new(),
            ..region(space, parent.as_deref(), of, Usage::default())
        }
    };
    let change = |Change { before, after, .. }: &Change| v1::RegionChange {
        before: before.as_ref().map(message),
        after: after.as_ref().map(message),
    };
    let declared = |of: fn(Declared) -> Count| entry.declared.map(|declared| of(declared).to_string());
    v1::HistoryEntry {
        revision: revision.0,
        time,
        principal: entry.principal.clone(),
        operation: entry.operation.clone(),
        reason: entry.reason.clone(),
        request_id: entry.request_id.clone(),
        changes: entry.changes.iter().map(change).collect(),
        declared: declared(|declared| declared.after).unwrap_or_default(),
        declared_before: declared(|declared| declared.before).unwrap_or_default(),
        undoes: entry.undoes.map_or(0, |revision| revision.0),
    }
}
