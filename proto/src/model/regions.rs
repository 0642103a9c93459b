//! Spaces, regions and edits.

use kent_regions::{
    BITS_MAX, BadPrefix, Change, Classification, Count, Edit, Kind, Newcomer, Place, Plan, Prefix, Region, Revision,
    Status, Table, Zone,
};

use super::{
    Invalid,
    names::{RegionName, SpaceName, check, region_name, space_name},
};
use crate::v1;

/// The most newcomers of one edit: with the space, the region and their counters they fit one commit of 128 writes.
const NEWCOMERS_MAX: usize = 60;
/// The most identifiers of one `Classify` call: 160 KiB of request.
const CLASSIFY_MAX: usize = 10_000;
/// Entries of a page where the request names no number, and at most.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1000;
/// The zone that a new region asks for where the request names none, in bits.
const ZONE_DEFAULT: u8 = 8;
/// The width of a space where the request names none.
const BITS_DEFAULT: u32 = 64;

/// A request for a new space, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceInput {
    /// Its name.
    pub name: String,
    /// Its width.
    pub bits: u8,
    /// Whether it is a dry run.
    pub validate_only: bool,
}

impl TryFrom<v1::CreateSpaceRequest> for SpaceInput {
    type Error = Invalid;

    fn try_from(request: v1::CreateSpaceRequest) -> Result<Self, Invalid> {
        let bits = if request.bits == 0 { BITS_DEFAULT } else { request.bits };
        let fits = u8::try_from(bits).ok().filter(|bits| *bits <= BITS_MAX);
        let bits = fits.ok_or_else(|| Invalid::new("bits", format!("is {bits}, but must be 1 to 128")))?;
        Ok(Self { name: check("space_id", &request.space_id)?, bits, validate_only: request.validate_only })
    }
}

/// An edit of a table, as far as it can be checked without the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditInput {
    /// The space.
    pub space: String,
    /// The edit.
    pub edit: Edit,
    /// Whether it is a dry run.
    pub validate_only: bool,
    /// The revision that its author saw.
    pub expected: Option<Revision>,
}

impl TryFrom<v1::CreateRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::CreateRegionRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let edit = Edit::Create {
            name: check("region_id", &request.region_id)?,
            suffix: width("suffix_bits", request.suffix_bits)?,
            place: place(&request)?,
            next: Count::Below(request.next.map_or(0, u128::from)),
        };
        let (validate_only, expected) = (request.validate_only, expected(request.expected_revision));
        Ok(Self { space, edit, validate_only, expected })
    }
}

fn place(request: &v1::CreateRegionRequest) -> Result<Place, Invalid> {
    let zone = request.zone_bits.map(|bits| width("zone_bits", bits)).transpose()?;
    match (&request.prefix, zone) {
        (Some(_), Some(_)) => {
            Err(Invalid::new("zone_bits", "a prefix leaves no choice: give a prefix or a zone, not both"))
        }
        (Some(prefix), None) => Ok(Place::At(bits("prefix", prefix)?)),
        (None, zone) => {
            let zone = zone.map_or(Zone::UpTo(ZONE_DEFAULT), Zone::Exactly);
            Ok(Place::Chosen { zone, auto_split: request.auto_split })
        }
    }
}

impl TryFrom<v1::ExpandRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::ExpandRegionRequest) -> Result<Self, Invalid> {
        let RegionName { space, region: name } = RegionName::parse("name", &request.name)?;
        let edit = Edit::Expand { name, by: by(request.by_bits)? };
        let (validate_only, expected) = (request.validate_only, expected(request.expected_revision));
        Ok(Self { space, edit, validate_only, expected })
    }
}

impl TryFrom<v1::SplitRegionRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::SplitRegionRequest) -> Result<Self, Invalid> {
        let RegionName { space, region: name } = RegionName::parse("name", &request.name)?;
        let edit = Edit::Split { name, by: by(request.by_bits)?, newcomers: newcomers(request.newcomers)? };
        let (validate_only, expected) = (request.validate_only, expected(request.expected_revision));
        Ok(Self { space, edit, validate_only, expected })
    }
}

impl TryFrom<v1::AddSubregionsRequest> for EditInput {
    type Error = Invalid;

    fn try_from(request: v1::AddSubregionsRequest) -> Result<Self, Invalid> {
        let RegionName { space, region: name } = RegionName::parse("name", &request.name)?;
        if request.newcomers.is_empty() {
            return Err(Invalid::new("newcomers", "there must be at least one"));
        }
        let edit = Edit::Subdivide {
            name,
            by: by(request.by_bits)?,
            newcomers: newcomers(request.newcomers)?,
            reserve_others: request.r#abstract,
        };
        let (validate_only, expected) = (request.validate_only, expected(request.expected_revision));
        Ok(Self { space, edit, validate_only, expected })
    }
}

fn newcomers(newcomers: Vec<v1::Newcomer>) -> Result<Vec<Newcomer>, Invalid> {
    const FIELD: &str = "newcomers";
    if newcomers.len() > NEWCOMERS_MAX {
        let problem = format!("are {}, but one edit makes at most {NEWCOMERS_MAX}", newcomers.len());
        return Err(Invalid::new(FIELD, problem));
    }
    let checked = newcomers.into_iter().map(|newcomer| {
        Ok(Newcomer {
            name: check(FIELD, &newcomer.region_id)?,
            suffix: newcomer.suffix_bits.map(|bits| width(FIELD, bits)).transpose()?,
            extension: newcomer.extension.map(|extension| bits(FIELD, &extension)).transpose()?,
        })
    });
    checked.collect()
}

fn expected(revision: u64) -> Option<Revision> {
    (revision != 0).then_some(Revision(revision))
}

fn by(bits: u32) -> Result<u8, Invalid> {
    match u8::try_from(bits) {
        Ok(bits @ 1..=BITS_MAX) => Ok(bits),
        _ => Err(Invalid::new("by_bits", format!("is {bits}, but must be at least 1 and at most 128"))),
    }
}

fn width(field: &'static str, bits: u32) -> Result<u8, Invalid> {
    let fits = u8::try_from(bits).ok().filter(|bits| *bits <= BITS_MAX);
    fits.ok_or_else(|| Invalid::new(field, format!("is {bits} bits, but no identifier has more than 128")))
}

fn bits(field: &'static str, text: &str) -> Result<Prefix, Invalid> {
    text.parse().map_err(|error: BadPrefix| Invalid::new(field, error))
}

/// A request to classify, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassifyInput {
    /// The space.
    pub space: String,
    /// The identifiers.
    pub identifiers: Vec<u128>,
}

impl TryFrom<v1::ClassifyRequest> for ClassifyInput {
    type Error = Invalid;

    fn try_from(request: v1::ClassifyRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let count = request.identifiers.len();
        if count > CLASSIFY_MAX {
            let problem = format!("are {count}, but one call classifies at most {CLASSIFY_MAX}");
            return Err(Invalid::new("identifiers", problem));
        }
        Ok(Self { space, identifiers: request.identifiers.into_iter().map(u128::from).collect() })
    }
}

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many entries at most.
    pub size: usize,
    /// The entry after which to begin, as the last page's token told it.
    pub after: Option<String>,
}

/// Reads a page's size and token.
///
/// # Errors
///
/// [`Invalid`] if the token was not made by [`page_token`].
pub fn parse_page(size: u32, token: &str) -> Result<Page, Invalid> {
    let size = if size == 0 { PAGE_DEFAULT } else { size.min(PAGE_MAX) };
    let after = match token {
        "" => None,
        token => {
            let after = token.strip_prefix(TOKEN_MARK);
            Some(after.ok_or_else(|| Invalid::new("page_token", "is none that a page came with"))?.to_owned())
        }
    };
    Ok(Page { size: size as usize, after }) // OK because a page has 1000 entries at most
}

/// What the tokens of pages begin with.
const TOKEN_MARK: &str = "after:";

/// The token of the page after the entry with this key.
pub fn page_token(last: &str) -> String {
    format!("{TOKEN_MARK}{last}")
}

/// A space's message.
pub fn space(name: &str, table: &Table) -> v1::Space {
    v1::Space {
        name: space_name(name),
        bits: table.bits().into(),
        revision: table.revision().0,
        region_count: table.len() as u64, // OK because there are fewer regions than that
    }
}

/// A region's message. `unused` is what is left of the chunk that this daemon holds of its suffixes.
pub fn region(space: &str, parent: Option<&str>, region: &Region, unused: u128) -> v1::Region {
    let issued = region.issued.get().map_or(region.issued, |reserved| Count::Below(reserved.saturating_sub(unused)));
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
        former_prefixes: region.history.iter().map(former_prefix).collect(),
    }
}

fn former_prefix(former: &kent_regions::FormerPrefix) -> v1::FormerPrefix {
    v1::FormerPrefix { prefix: former.prefix.to_string(), from_revision: former.from.0, to_revision: former.to.0 }
}

const fn kind(kind: Kind) -> v1::region::Kind {
    match kind {
        Kind::Open => v1::region::Kind::Open,
        Kind::Partial => v1::region::Kind::Partial,
        Kind::Closed => v1::region::Kind::Closed,
    }
}

/// What an edit did, or would do.
pub fn edit_response(space: &str, table: &Table, plan: &Plan, validate_only: bool) -> v1::EditResponse {
    // A parent may be one of the regions that the plan makes.
    let name_of = |number| {
        let made = plan.changes.iter().map(|change| &change.after).find(|after| after.number == number);
        made.or_else(|| table.get(number)).map(|parent| parent.name.as_str())
    };
    let message = |of: &Region| region(space, of.parent.and_then(name_of), of, 0);
    let change = |Change { before, after }: &Change| v1::RegionChange {
        before: before.as_ref().map(message),
        after: Some(message(after)),
    };
    v1::EditResponse {
        region: plan.subject().map(message),
        changes: plan.changes.iter().map(change).collect(),
        base_revision: plan.base.0,
        revision: plan.revision.0,
        validate_only,
        freed_prefixes: plan.freed.iter().map(Prefix::to_string).collect(),
        donor: plan.donor.as_ref().map(|donor| region_name(space, donor)).unwrap_or_default(),
    }
}

/// Where an identifier belongs.
pub fn classification(space: &str, id: u128, found: &Classification<'_>) -> v1::Classification {
    let (status, suffix, issued) = match found.status {
        Status::Free => (v1::classification::Status::Free, None, false),
        Status::Unassigned => (v1::classification::Status::Unassigned, None, false),
        Status::Reserved => (v1::classification::Status::Reserved, None, false),
        Status::Member { suffix, issued } => (v1::classification::Status::Member, Some(suffix.into()), issued),
    };
    v1::Classification {
        identifier: Some(id.into()),
        status: status.into(),
        path: found.path.iter().map(|region| region_name(space, &region.name)).collect(),
        suffix,
        issued,
    }
}
