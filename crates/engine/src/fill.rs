//! How full regions are: for the metrics, and to tell operators which region will be full first.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use glob::Pattern;
use kent_ids::Source;
use kent_regions::{Count, Kind, Order, Region, RegionNumber, Revision, Table};
use tracing::warn;

use crate::{
    host::clock::Clock,
    patterns::RegionPatterns,
    tables::{directory::Directory, space::Space},
};

/// How full a region is, as far as this daemon knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// The region.
    pub source: Source,
    /// The number of identifiers that the region may issue in total.
    pub capacity: Count,
    pub(crate) issued: Count,
    /// The number of identifiers that are issued, or reserved in the chunks of replicas.
    pub reserved: Count,
    /// The seconds until the region is full at the recent rate: 0 if it is already full, `None` if it has granted
    /// nothing recently.
    pub full_in: Option<f64>,
    /// Whether the region's cap limits its capacity.
    pub is_capped: bool,
    /// The number of bits by which the region can be expanded.
    pub expandable_bits: u8,
}

/// The regions that a setting selects.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) regions: Vec<Fill>,
    /// The number of further matching regions, beyond [`SELECTED_MAX`].
    pub(crate) omitted: usize,
}

/// Selects regions by their names, and remembers the matches, so that a table is searched again only after it changes.
#[derive(Debug)]
pub(crate) struct Selection {
    patterns: RegionPatterns,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The matches in each space, by the space's key.
    spaces: BTreeMap<String, Matches>,
    has_warned: bool,
}

/// The regions of a space that match.
#[derive(Debug)]
struct Matches {
    /// The space's name and the revision of its table at the last search.
    searched: (String, Revision),
    /// The first matches, up to [`SELECTED_MAX`].
    first: Vec<RegionNumber>,
    count: usize,
    /// The table is not searched again before this time.
    rest_until: Duration,
}

/// The maximum number of regions with metrics.
pub(crate) const SELECTED_MAX: usize = 1000;

/// After a search, the space is not searched again for this many times the duration of the search. Otherwise a large
/// table that is edited constantly would keep a processor busy.
const REST: u32 = 20;

/// The maximum number of regions that [`full_first`] compares.
const CANDIDATES_MAX: usize = 10_000;

impl Fill {
    fn new(space: &Space, region: &Region, now: Duration) -> Self {
        let usage = space.usage(region.number, now);
        let issued = usage.issued(*region.issued);
        Self {
            source: Source::Region { name: region.name.to_string(), space: space.name() },
            capacity: region.limit(),
            issued,
            reserved: *region.issued,
            full_in: region.full_in(issued, usage.rate),
            is_capped: region.is_capped(),
            expandable_bits: region.expandable_bits(),
        }
    }
}

impl Selection {
    pub(crate) fn new(patterns: RegionPatterns) -> Self {
        Self { patterns, known: Mutex::default() }
    }

    /// Returns the selected regions, ordered by the names of their spaces and then by their prefixes.
    pub(crate) fn select(&self, directory: &Directory, clock: &dyn Clock) -> Selected {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut selected = Selected::default();
        if self.patterns == RegionPatterns::default() {
            return selected;
        }
        for space in directory.spaces() {
            let name = space.name();
            let patterns = self.patterns.in_space(&name);
            if patterns.is_empty() {
                continue;
            }
            let matches = known.matches(&space, name, &patterns, clock);
            let now = clock.steady();
            let shown = matches.first.len().min(SELECTED_MAX - selected.regions.len());
            let numbers = matches.first.iter().take(shown);
            let regions = numbers.filter_map(|number| space.read(|table| table.get(*number).cloned()));
            selected.regions.extend(regions.map(|region| Fill::new(&space, &region, now)));
            selected.omitted += matches.count - shown;
        }
        if selected.omitted > 0 && !known.has_warned {
            let (omitted, max) = (selected.omitted, SELECTED_MAX);
            warn!(omitted, max, "more regions match metrics-regions than the maximum; the rest have no metrics");
        }
        known.has_warned = selected.omitted > 0;
        selected
    }
}

impl Known {
    /// Returns the matching regions of a space. Searches the table first if it has changed since the last search and
    /// the rest after that search is over.
    fn matches(&mut self, space: &Space, name: String, patterns: &[&Pattern], clock: &dyn Clock) -> &Matches {
        let (began, present) = (clock.steady(), (name, space.read(Table::revision)));
        let is_current = |known: &Matches| known.searched == present || began < known.rest_until;
        if !self.spaces.get(space.key()).is_some_and(is_current) {
            let (first, count) = search(space, patterns);
            let ended = clock.steady();
            let rest_until = ended + ended.saturating_sub(began) * REST;
            self.spaces.insert(space.key().to_owned(), Matches { searched: present, first, count, rest_until });
        }
        // OK because the entry existed or was just inserted.
        &self.spaces[space.key()]
    }
}

/// Finds the matching regions of a space that can issue identifiers. Returns the first of them, and their total number.
fn search(space: &Space, patterns: &[&Pattern]) -> (Vec<RegionNumber>, usize) {
    let is_match =
        |region: &&Arc<Region>| can_issue(region) && patterns.iter().any(|pattern| pattern.matches(&region.name));
    let (mut first, mut count, mut after) = (Vec::new(), 0, None);
    loop {
        let some = space.some_after(after);
        let Some(last) = some.last() else { return (first, count) };
        after = Some(last.prefix);
        let found = some.iter().filter(is_match);
        for region in found {
            count += 1;
            if first.len() < SELECTED_MAX {
                first.push(region.number);
            }
        }
        // Let a waiting grant run.
        thread::yield_now();
    }
}

/// Whether identifiers can be granted from a region.
fn can_issue(region: &Region) -> bool {
    region.kind != Kind::Closed && !region.delegated && region.order != Order::External
}

/// The seconds until a region is full, at most [`FAR`], and its issued share.
type Urgency = (f64, f64);

/// The time in seconds beyond which a forecast says less than the issued share: a year.
const FAR: f64 = 365.0 * 86_400.0;

/// Finds up to `most` of these regions: first those that will be full within a year, the soonest first, then those with
/// the largest issued share. Looks at every region of the space, but never at more than a few under one lock.
pub fn fullest(space: &Space, is_wanted: impl Fn(&Region) -> bool, now: Duration, most: usize) -> Vec<Arc<Region>> {
    let urgency = |region: &Region| -> Urgency {
        let usage = space.usage(region.number, now);
        let issued = usage.issued(*region.issued);
        let left = region.full_in(issued, usage.rate).unwrap_or(FAR).min(FAR);
        (left, issued.to_f64() / region.limit().to_f64())
    };
    let first = |(left, share): &Urgency, (other, of_other): &Urgency| {
        left.total_cmp(other).then_with(|| of_other.total_cmp(share))
    };
    let (mut found, mut after) = (Vec::<(Urgency, Arc<Region>)>::new(), None);
    loop {
        let some = space.some_after(after);
        let Some(last) = some.last() else { break };
        after = Some(last.prefix);
        let wanted =
            some.into_iter().filter(|region| *region.issued > Count::ZERO && can_issue(region) && is_wanted(region));
        found.extend(wanted.map(|region| (urgency(&region), region)));
        found.sort_by(|(one, _), (other, _)| first(one, other));
        found.truncate(most);
        // Let a waiting grant run.
        thread::yield_now();
    }
    found.into_iter().map(|(_, region)| region).collect()
}

/// Finds up to `most` regions that will be full first, the soonest first, among those that this daemon has granted
/// from.
pub(crate) fn full_first(directory: &Directory, now: Duration, most: usize) -> Vec<Fill> {
    let spaces = directory.spaces();
    let used = spaces.iter().flat_map(|space| space.cells().map(move |(number, _)| (space, number)));
    let fills = used.take(CANDIDATES_MAX).filter_map(|(space, number)| {
        let region = space.read(|table| table.get(number).cloned())?;
        Some(Fill::new(space, &region, now)).filter(|fill| fill.full_in.is_some() && region.kind != Kind::Closed)
    });
    let mut fills: Vec<Fill> = fills.collect();
    fills.sort_by(|one, other| one.full_in.unwrap_or(f64::MAX).total_cmp(&other.full_in.unwrap_or(f64::MAX)));
    fills.truncate(most);
    fills
}
