//! The keys of the daemon's records. The keys are stored, so their spelling must not change.

use kent_access::{BudgetId, Holder, TokenId};
use kent_ids::{Series, Slot, Uuid, check_name};
use kent_issue::{DatedRequest, HolderId};
use kent_proto::stored::Malformed;
use kent_regions::RegionNumber;
use kent_store::Key;

/// The cluster key: the key of the permutations in formats and series, shared by all daemons on the store.
pub const CLUSTER: Key = Key::from_static("cluster");
/// The number of times that a daemon has started on the store.
pub const BOOTS: Key = Key::from_static("boots");
/// The directories of the store's witnesses.
pub const WITNESSES: Key = Key::from_static("witnesses");
/// Present while a restore or a migration fills the store. A store with this key is incomplete.
pub const RESTORING: Key = Key::from_static("restoring");
/// The restores in the history of the store.
pub const RESTORES: Key = Key::from_static("restores");
/// Present in a store that was migrated: nothing more is issued from it.
pub const MOVED: Key = Key::from_static("moved");
/// The schema of the records that replicas write: the newest one that all replicas support.
pub const IN_FORCE: Key = Key::from_static("schema");
/// All slots.
pub const SLOTS: Key = Key::from_static("slot/");
/// All spaces.
pub const SPACES: Key = Key::from_static("space/");

/// All counters, of all spaces.
pub const COUNTERS: Key = Key::from_static("counter/");
/// The replicas that take turns at a strict counter, of all spaces. They are not part of the state.
pub const TURNS: Key = Key::from_static("turn/");
/// The announcements of all running replicas. They are not part of the state.
pub const PRESENT: Key = Key::from_static("present/");

/// All tokens, roles and budgets, and their version.
pub const ACCESS: Key = Key::from_static("access/");
/// The record that every change to tokens, roles and budgets rewrites. The key sorts after the keys of all tokens,
/// roles and budgets.
pub(crate) const ACCESS_VERSION: Key = Key::from_static("access/version");

/// What a key that begins with [`ACCESS`] refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessKey<'k> {
    /// A token.
    Token(TokenId),
    /// A role.
    Role(&'k str),
    /// A budget.
    Budget(Holder, BudgetId),
    /// The version of all the others.
    Version,
}

/// The record of a token.
pub(crate) fn token(id: TokenId) -> Key {
    valid(format!("access/token/{id}"))
}

/// The record of a role.
pub(crate) fn role(name: &str) -> Key {
    valid(format!("access/role/{name}"))
}

/// The record of a budget.
pub(crate) fn budget(holder: &Holder, id: BudgetId) -> Key {
    valid(match holder {
        Holder::Token(token) => format!("access/budget/token/{token}/{id}"),
        Holder::Role(role) => format!("access/budget/role/{role}/{id}"),
    })
}

/// The records of how much of each budget is used.
pub(crate) const SPENT: Key = Key::from_static("budget/");

/// The record of how much of a budget is used.
pub fn spent(id: BudgetId) -> Key {
    valid(format!("budget/{id}"))
}

/// Parses a key that begins with [`SPENT`].
pub(crate) fn parse_spent(key: &Key) -> Result<BudgetId, Malformed> {
    let id = key.as_str().strip_prefix(SPENT.as_str()).and_then(|id| id.parse().ok());
    id.ok_or(Malformed { what: "the key of a budget's usage record" })
}

/// Parses the part of a budget's key that names its holder and its ID.
fn parse_budget(rest: &str) -> Option<AccessKey<'_>> {
    let (holder, id) = rest.rsplit_once('/')?;
    let holder = holder.replacen('/', ":", 1).parse().ok()?;
    Some(AccessKey::Budget(holder, id.parse().ok()?))
}

/// Parses a key that begins with [`ACCESS`].
pub fn parse_access(key: &Key) -> Result<AccessKey<'_>, Malformed> {
    let parts = key.as_str().strip_prefix(ACCESS.as_str()).map(|rest| rest.split_once('/').unwrap_or((rest, "")));
    let malformed = Malformed { what: "the key of a token, role or budget" };
    match parts {
        Some(("token", id)) => id.parse().map(AccessKey::Token).map_err(|_| malformed),
        Some(("role", name)) if !name.is_empty() => Ok(AccessKey::Role(name)),
        Some(("budget", rest)) => parse_budget(rest).ok_or(malformed),
        Some(("version", "")) => Ok(AccessKey::Version),
        _ => Err(malformed),
    }
}

/// The floor of dated request IDs: records of older request IDs may have been removed.
pub(crate) const FORGOTTEN: Key = Key::from_static("forgotten");
/// The records of all dated request IDs, oldest first.
pub const DATED: Key = Key::from_static("dated/");

/// All series.
pub const SERIES: Key = Key::from_static("series/");

/// All custom layouts.
pub const LAYOUTS: Key = Key::from_static("layout/");

/// The record of a custom layout.
pub(crate) fn layout(name: &str) -> Key {
    valid(format!("{LAYOUTS}{name}"))
}

/// Parses the name from a key that begins with [`LAYOUTS`].
pub(crate) fn parse_layout(key: &Key) -> Result<&str, Malformed> {
    let name = key.as_str().strip_prefix(LAYOUTS.as_str()).filter(|name| check_name(name).is_ok());
    name.ok_or(Malformed { what: "the name of a layout" })
}

/// The revision of the layouts. Every edit of a layout rewrites this record.
pub const LAYOUTS_REVISION: Key = Key::from_static("layouts");
/// All edits of layouts, oldest first.
pub const LAYOUT_EDITS: Key = Key::from_static("layouts/");

/// The record of an edit of a layout.
pub fn layout_edit(revision: u64) -> Key {
    valid(format!("{LAYOUT_EDITS}{revision:016x}"))
}

/// Parses the revision from a key that begins with [`LAYOUT_EDITS`].
pub(crate) fn parse_layout_edit(key: &Key) -> Result<u64, Malformed> {
    let digits = key.as_str().strip_prefix(LAYOUT_EDITS.as_str()).unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(|_| Malformed { what: "the key of the record of an edit of a layout" })
}

/// All series that are listed.
pub(crate) const LISTED_SERIES: Key = Key::from_static("listed/");
/// The number of listed series.
pub(crate) const SERIES_COUNT: Key = Key::from_static("listed");

/// The listing of a series.
pub(crate) fn listed(series: &Series) -> Key {
    valid(format!("{LISTED_SERIES}{}", series.stored_name()))
}

/// Parses the series from a key that begins with [`LISTED_SERIES`].
pub(crate) fn parse_listed(key: &Key) -> Result<Series, Malformed> {
    let token = key.as_str().strip_prefix(LISTED_SERIES.as_str()).and_then(|token| token.parse().ok());
    token.ok_or(Malformed { what: "the name of a listed series" })
}

/// A series' counter.
pub fn series(series: &Series) -> Key {
    valid(format!("series/{}", series.stored_name()))
}

/// Parses the series from a key that begins with [`SERIES`].
pub fn parse_series(key: &Key) -> Result<Series, Malformed> {
    let token = key.as_str().strip_prefix(SERIES.as_str()).and_then(|token| token.parse().ok());
    token.ok_or(Malformed { what: "the name of a series" })
}

/// A slot's record.
pub fn slot(slot: Slot) -> Key {
    valid(format!("slot/{:02}", slot.get()))
}

/// Parses the slot from a key that begins with [`SLOTS`].
pub(crate) fn parse_slot(key: &Key) -> Result<Slot, Malformed> {
    let number = key.as_str().strip_prefix(SLOTS.as_str()).and_then(|digits| digits.parse().ok());
    number.and_then(|number| Slot::new(number).ok()).ok_or(Malformed { what: "the number of a slot" })
}

/// A space's record.
pub fn space(space: &str) -> Key {
    valid(format!("space/{space}"))
}

/// Parses the space's key from a key that begins with [`SPACES`].
pub fn parse_space(key: &Key) -> Result<&str, Malformed> {
    key.as_str().strip_prefix(SPACES.as_str()).ok_or(Malformed { what: "the key of a space" })
}

/// All regions of a space.
pub fn regions(space: &str) -> Key {
    valid(format!("region/{space}/"))
}

/// A region's record.
pub fn region(space: &str, number: u64) -> Key {
    valid(format!("region/{space}/{number:016x}"))
}

/// All counters of a space.
pub(crate) fn counters(space: &str) -> Key {
    valid(format!("counter/{space}/"))
}

/// A region's counter.
pub fn counter(space: &str, number: u64) -> Key {
    valid(format!("counter/{space}/{number:016x}"))
}

/// Parses the space's key and the region's number from a key that begins with [`COUNTERS`].
pub(crate) fn parse_counter(key: &Key) -> Option<(&str, RegionNumber)> {
    let (space, digits) = key.as_str().strip_prefix(COUNTERS.as_str())?.rsplit_once('/')?;
    Some((space, RegionNumber(u64::from_str_radix(digits, 16).ok()?)))
}

/// All replicas that take turns at a region's counter.
pub(crate) fn turns(space: &str, number: RegionNumber) -> Key {
    valid(format!("{TURNS}{space}/{:016x}/", number.0))
}

/// The record of a replica that takes turns at a region's counter.
pub(crate) fn turn(space: &str, number: RegionNumber, replica: HolderId) -> Key {
    valid(format!("{TURNS}{space}/{:016x}/{replica}", number.0))
}

/// Parses the space's key, the region's number and the replica from a key that begins with [`TURNS`].
pub(crate) fn parse_turn(key: &Key) -> Result<(&str, RegionNumber, HolderId), Malformed> {
    let parsed = || {
        let mut ends = key.as_str().strip_prefix(TURNS.as_str())?.rsplitn(3, '/');
        let replica = ends.next()?.parse().ok()?;
        let number = u64::from_str_radix(ends.next()?, 16).ok()?;
        Some((ends.next()?, RegionNumber(number), replica))
    };
    parsed().ok_or(Malformed { what: "the key of a replica that takes turns" })
}

/// The announcement of the replica with this name.
pub(crate) fn present(name: &str) -> Key {
    valid(format!("present/{name}"))
}

/// Parses the replica's name from a key that begins with [`PRESENT`].
pub(crate) fn parse_present(key: &Key) -> Result<&str, Malformed> {
    key.as_str().strip_prefix(PRESENT.as_str()).ok_or(Malformed { what: "the name of a replica" })
}

/// Parses the region's number at the end of a key that begins with [`regions`] or `counters`.
pub fn parse_number(key: &Key) -> Result<u64, Malformed> {
    let digits = key.as_str().rsplit('/').next().unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(|_| Malformed { what: "the number of a region" })
}

/// The key of a delegated region's space, made of the outer space's key and the region's number. Names contain no `~`,
/// so the key is unique.
pub fn inner_space(space: &str, number: u64) -> String {
    format!("{space}~{number:016x}")
}

/// Parses the key of a delegated region's space into the outer space's key and the region's number. Returns `None` for
/// the key of another space.
pub(crate) fn parse_inner_space(space: &str) -> Result<Option<(&str, u64)>, Malformed> {
    match space.rsplit_once('~') {
        None => Ok(None),
        Some((outer, digits)) => {
            let number = u64::from_str_radix(digits, 16).map_err(|_| Malformed { what: "the key of a space" })?;
            Ok(Some((outer, number)))
        }
    }
}

/// Whether all keys that contain this space's key stay within the store's length limit, which allows about seven levels
/// of delegation.
pub(crate) fn fits(space: &str) -> bool {
    space.len() <= SPACE_BYTES_MAX
}

/// The longest key that contains a space's key is the key of a dated request ID: 56 bytes plus the space's key.
const SPACE_BYTES_MAX: usize = 180;

/// The record that every change to a space's requests for regions rewrites.
pub(crate) fn asks(space: &str) -> Key {
    valid(format!("asks/{space}"))
}

/// All of a space's requests for regions, oldest first.
pub(crate) fn asks_of(space: &str) -> Key {
    valid(format!("ask/{space}/"))
}

/// A request for a region.
pub(crate) fn ask(space: &str, number: u64) -> Key {
    valid(format!("ask/{space}/{number:016x}"))
}

/// Parses the request's number from a key that begins with [`asks_of`].
pub(crate) fn parse_ask(key: &Key) -> Result<u64, Malformed> {
    let digits = key.as_str().rsplit('/').next().unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(|_| Malformed { what: "the number of a request for a region" })
}

/// One part of a revision's edit record.
pub fn history(space: &str, revision: u64, part: u32) -> Key {
    valid(format!("history/{space}/{revision:016x}/{part:04x}"))
}

/// Whether the key belongs to the record of an edit, of a table or of a layout.
pub fn is_history(key: &Key) -> bool {
    key.as_str().starts_with("history/") || key.starts_with(&LAYOUT_EDITS)
}

/// The records of all edits of a space, oldest first.
pub fn histories(space: &str) -> Key {
    valid(format!("history/{space}/"))
}

/// Parses the revision and the number of the part from a key that begins with [`histories`].
pub(crate) fn parse_history(key: &Key) -> Result<(u64, u32), Malformed> {
    let mut ends = key.as_str().rsplitn(3, '/');
    let part = ends.next().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let revision = ends.next().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    revision.zip(part).ok_or(Malformed { what: "the key of the record of an edit" })
}

/// The record of the revision up to which a space's edits are forgotten.
pub fn oldest(space: &str) -> Key {
    valid(format!("oldest/{space}"))
}

/// All parts of a revision's edit record.
pub fn history_parts(space: &str, revision: u64) -> Key {
    valid(format!("history/{space}/{revision:016x}/"))
}

/// The scope in which request IDs are unique: the edits of a space, or the strict grants of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestScope<'s> {
    pub(crate) space: &'s str,
    /// The number of the region; `None` for edits.
    pub(crate) number: Option<RegionNumber>,
}

impl RequestScope<'_> {
    /// The record of a grant or edit under an undated request ID.
    pub(crate) fn undated(&self, request_id: &str) -> Key {
        let kind = if self.number.is_some() { "grant" } else { "request" };
        valid(format!("{kind}/{}/{}", self.subject(), digest(request_id)))
    }

    /// The record of a grant or edit under a dated request ID.
    pub(crate) fn dated(&self, request: DatedRequest) -> Key {
        valid(format!("{DATED}{:032x}/{}", request.bits(), self.subject()))
    }

    /// The number of undated request IDs.
    pub(crate) fn count(&self) -> Key {
        valid(format!("undated/{}", self.subject()))
    }

    fn subject(&self) -> String {
        match self.number {
            Some(RegionNumber(number)) => format!("{}/{number:016x}", self.space),
            None => self.space.to_owned(),
        }
    }
}

/// Parses the request ID from a key that begins with [`DATED`].
pub(crate) fn parse_dated(key: &Key) -> Result<DatedRequest, Malformed> {
    let digits = key.as_str().strip_prefix(DATED.as_str()).and_then(|rest| rest.split('/').next());
    digits.and_then(DatedRequest::parse).ok_or(Malformed { what: "the key of a dated request_id" })
}

/// Hashes a request ID to 32 hexadecimal digits, because a request ID may contain any bytes and may be longer than a
/// key can be.
fn digest(request_id: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, request_id.as_bytes()).simple().to_string()
}

/// Makes a key from names and numbers that were checked before: a name has at most 63 bytes, all printable.
fn valid(path: String) -> Key {
    Key::new(path).expect("OK because names were checked before, and numbers have a fixed width")
}
