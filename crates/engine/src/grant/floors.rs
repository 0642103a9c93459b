//! Floors: makes regions, series and time-based sources continue above identifiers that another generator has issued.
//!
//! A region continues because an edit of its table declares the numbers through the floor as issued. A series continues
//! because its counter moves. A time-based source continues because every slot is reserved through the
//! time of its floor. This daemon keeps its slot, because that time has passed on its clock. All other daemons are
//! fenced, because their clocks may be behind: each takes a slot again, at the latest when its window ends. All floors of
//! a request are one commit.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kent_codec::{Reading, inspect, parse_serial};
use kent_ids::{
    Series, Slot, Source, UnixNanos, UnixSeconds,
    layout::{FieldKind, Layout, Spelling},
};
use kent_issue::{BadFloor, counter_above, slots_above};
use kent_proto::{
    model::Invalid,
    stored::{self, Counter},
};
use kent_regions::Count;
use kent_store::{CommitError, Committed, Txn, Unknown, Version};

use super::Grants;
pub use crate::tables::floors::FloorAuthor;
use crate::{
    error::FloorError,
    issuing::{cell::Cell, slots::SlotRead},
    records::{counters::position, failure::StoreFailure, keys},
    tables::floors::{Declared, RegionFloor, edited, lock_counters},
};

/// A source, and the greatest of its identifiers that is in use, as text.
#[derive(Clone, Debug)]
pub struct NamedFloor {
    /// The source.
    pub source: Source,
    /// The identifier.
    pub text: String,
}

/// What a floor changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The counter of a series or a region.
    Counter {
        /// The number at which the source continued before.
        before: Count,
        /// The number at which the source continues now.
        after: Count,
        /// The number at which the source may issue nothing more.
        end: Count,
        /// Whether a record changes.
        is_change: bool,
    },
    /// The clock of a time-based source.
    Time {
        /// The time before which the source issues nothing more.
        before: UnixNanos,
        /// Whether slots have to be reserved for that.
        is_change: bool,
    },
}

impl Raised {
    /// Whether the source was not above its floor, or its position was not known after a restore.
    pub const fn is_change(&self) -> bool {
        let (Self::Counter { is_change, .. } | Self::Time { is_change, .. }) = self;
        *is_change
    }
}

/// The maximum number of records that the floors of one request write, without those of the 64 slots and of the cluster:
/// a transaction has 128 operations at most.
pub const RECORDS_MAX: usize = 60;

impl NamedFloor {
    /// The number of records that this floor writes: those of a series, or of a region, its counter, its space and the
    /// history.
    pub const fn records(&self) -> usize {
        if matches!(self.source, Source::Region { .. }) { 4 } else { 1 }
    }
}

/// Floors that were raised, or checked.
#[derive(Debug)]
pub struct RaisedFloors {
    /// What each floor changes, in the order of the request.
    pub floors: Vec<Raised>,
    /// The time after which the floors of time-based sources are in effect on all replicas.
    pub within: Duration,
    /// The version that the other replicas must confirm before the floors of regions are in effect.
    pub edited: Option<Version>,
}

/// The maximum number of attempts at a commit that conflicts with grants or other replicas.
const ATTEMPTS: u32 = 16;

/// A floor that is read from its text.
#[derive(Debug)]
enum Floor {
    /// The greatest identifier in use of a region, at this place in the list of regions.
    Region(usize),
    /// The greatest number in use.
    Number(Series, u128),
    /// The end of the tick of the latest identifier in use.
    Time(UnixNanos),
}

/// The floors of a request.
#[derive(Debug)]
struct Floors {
    all: Vec<Floor>,
    regions: Vec<RegionFloor>,
    /// The second through which all slots must be reserved, if there are floors of time-based sources.
    end: Option<UnixSeconds>,
}

/// The outcome of one attempt.
#[derive(Debug)]
enum Attempt {
    Done(RaisedFloors),
    /// Grants or other replicas have changed a record first.
    Conflict,
    Unknown(Unknown),
}

impl Grants {
    /// Raises floors in one commit, or only checks them.
    pub async fn raise_floors(&self, named: &[NamedFloor], author: &FloorAuthor) -> Result<RaisedFloors, FloorError> {
        let (mut floors, mut regions) = (Vec::new(), Vec::new());
        for floor in named {
            floors.push(self.read_floor(floor, author, &mut regions).await?);
        }
        let ends = floors.iter().zip(named).filter_map(|(floor, named)| match floor {
            Floor::Time(at) => Some(self.reserved_through(*at, &named.source)),
            Floor::Number(..) | Floor::Region(_) => None,
        });
        let end = ends.collect::<Result<Vec<_>, _>>()?.into_iter().max();
        let floors = Floors { all: floors, regions, end };
        let _editing = self.regions.directory().begin_raising(&floors.regions).await?;
        let mut unknown = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                let reloaded = self.regions.directory().reload_all(&floors.regions).await;
                reloaded.map_err(|error| unknown.clone().map_or(error.into(), of_unknown))?;
            }
            match self.try_raise(&floors, author).await {
                Ok(Attempt::Done(raised)) => return Ok(raised),
                Ok(Attempt::Conflict) => {}
                // If the commit was made, the next attempt finds nothing to change.
                Ok(Attempt::Unknown(outcome)) => unknown = unknown.or(Some(outcome)),
                // The floors may have been raised, whatever the later attempt says.
                Err(error) => return Err(unknown.map_or(error, of_unknown)),
            }
        }
        Err(unknown.map_or(FloorError::Contended { attempts: ATTEMPTS }, of_unknown))
    }

    /// Attempts once to raise floors.
    async fn try_raise(&self, floors: &Floors, author: &FloorAuthor) -> Result<Attempt, FloorError> {
        let Floors { all: floors, regions, end } = floors;
        let (directory, validate_only) = (self.regions.directory(), author.options.validate_only);
        let cells = self.cells(floors, validate_only).await?;
        // In the order of the series, so that two requests never wait for each other's locks.
        let mut locks = Vec::new();
        for cell in cells.values() {
            locks.push(cell.reserving.lock().await);
        }
        // A series that was forgotten before it was locked may have got another cell, with a chunk.
        let is_locked = |(series, cell): (&Series, &Arc<Cell>)| self.series.is_current(series, cell);
        let count = floors.iter().filter(|floor| matches!(floor, Floor::Number(..))).count();
        if !validate_only && (cells.len() < count || !cells.iter().all(is_locked)) {
            return Ok(Attempt::Conflict);
        }
        let subjects = directory.subjects(regions, &author.caller)?;
        let reserving = lock_counters(&subjects).await;
        let planned = directory.plan_floors(&subjects, author).await?;
        let Some(mut declared) = planned else { return Ok(Attempt::Conflict) };
        let slots = if end.is_some() { self.slots.read_all().await? } else { Vec::new() };
        let (mut txn, mut raised) = (Txn::new(), Vec::new());
        for floor in floors {
            raised.push(match floor {
                Floor::Region(at) => raised_region(&declared[*at]),
                Floor::Time(before) => {
                    let reserved = |slot: &SlotRead| slot.1.value.reserved_until >= before.ceil_seconds();
                    let is_change = slots.iter().filter(|slot| reserved(slot)).count() < usize::from(Slot::COUNT);
                    Raised::Time { before: *before, is_change }
                }
                Floor::Number(series, number) => {
                    let cell = cells.get(series).map(|cell| &**cell);
                    let plan = self.raise_series(series, *number, cell, validate_only).await?;
                    let is_change = plan.write.is_some();
                    if let Some((version, counter)) = plan.write {
                        let key = keys::series(series);
                        txn = txn.expect(key.clone(), version).put(key, stored::encode_counter(&counter));
                    }
                    let end = Count::Below(series.end().get());
                    Raised::Counter { before: plan.before, after: plan.after, end, is_change }
                }
            });
        }
        if let Some(end) = end {
            txn = self.slots.reserve_all(txn, &slots, *end);
        }
        if validate_only {
            return Ok(Attempt::Done(RaisedFloors { floors: raised, within: Duration::ZERO, edited: None }));
        }
        // The regions come last, because their counters may move until the commit.
        let Some((txn, edits)) = directory.settle_floors(txn, &mut declared).await? else {
            return Ok(Attempt::Conflict);
        };
        for (floor, raised) in floors.iter().zip(&mut raised) {
            if let Floor::Region(at) = floor {
                *raised = raised_region(&declared[*at]);
            }
        }
        let mut committed = None;
        if !txn.writes().is_empty() {
            match self.slots.store().commit(self.slots.of_this_store(txn)).await {
                Ok(Committed { version }) => {
                    // Applying an edit may read the table again, which may return a chunk and needs these locks.
                    drop(reserving);
                    committed = (!edits.is_empty()).then_some(version);
                    directory.adopt_floors(edits, version).await?;
                }
                Err(CommitError::Conflict { key, .. }) if key == keys::CLUSTER => {
                    return Err(StoreFailure::other_store().into());
                }
                Err(CommitError::Conflict { .. }) => return Ok(Attempt::Conflict),
                Err(CommitError::Unknown(unknown)) => return Ok(Attempt::Unknown(unknown)),
                Err(error) => return Err(StoreFailure::from(error).into()),
            }
        }
        let within = if end.is_some() { self.slots.longest_window().await } else { Duration::ZERO };
        // An edit that an earlier request made may not be confirmed yet.
        Ok(Attempt::Done(RaisedFloors { floors: raised, within, edited: edited(&subjects).max(committed) }))
    }

    /// Returns the second through which all slots must be reserved for a floor of this time.
    fn reserved_through(&self, end: UnixNanos, source: &Source) -> Result<UnixSeconds, FloorError> {
        let now = self.slots.trusted_now().ok_or(FloorError::NoClock)?;
        slots_above(end, now, self.slots.policy().tolerance).map_err(|refusal| refused(source, refusal))
    }

    /// Returns the cells of the series. Unless this is a dry run, lists the series as an operator does, so that their first
    /// grant is not refused as one series too many, and creates missing cells: a grant that begins now then needs a lock
    /// of these cells.
    async fn cells(&self, floors: &[Floor], validate_only: bool) -> Result<BTreeMap<Series, Arc<Cell>>, FloorError> {
        let mut cells = BTreeMap::new();
        for floor in floors {
            let Floor::Number(series, _) = floor else { continue };
            let cell = match validate_only {
                true => self.series.cell(series),
                false => self.series.open(series).await?,
            };
            cells.extend(cell.map(|cell| (series.clone(), cell)));
        }
        Ok(cells)
    }

    /// Plans a series' counter above a floor. Unless this is a dry run, returns the rest of this daemon's chunk first.
    /// The caller holds the lock of the cell.
    async fn raise_series(
        &self,
        series: &Series,
        floor: u128,
        cell: Option<&Cell>,
        validate_only: bool,
    ) -> Result<SeriesPlan, FloorError> {
        let store = self.slots.store();
        if let Some(cell) = cell.filter(|_| !validate_only) {
            cell.give_back(store, &keys::series(series)).await;
        }
        let read = self.series.read(series).await?;
        let counter = read.value;
        // Every reservation sets the time until which the counter is paid.
        if store.peers().is_some() && read.version != 0 && counter.paid != Counter::NEW.paid {
            return Err(FloorError::InUse { series: series.clone() });
        }
        let before = match cell {
            Some(cell) => cell.rest_of(read),
            None => counter.reserved,
        };
        let above = counter_above(floor, position(before), series.end());
        let after = Count::Below(above.map_err(|refusal| refused(&Source::Series(series.clone()), refusal))?.get());
        let is_change = after != before || counter.unsure;
        let raised = Counter { reserved: after, unsure: false, ..counter };
        Ok(SeriesPlan { before, after, write: is_change.then_some((Version::new(read.version), raised)) })
    }

    /// Reads a floor. Adds the floor of a region to `regions`.
    async fn read_floor(
        &self,
        NamedFloor { source, text }: &NamedFloor,
        author: &FloorAuthor,
        regions: &mut Vec<RegionFloor>,
    ) -> Result<Floor, FloorError> {
        let bad = |problem: String| FloorError::from(Invalid::new("floor", format!("{source}: {problem}")));
        match source {
            Source::Region { name, space } => {
                let named = source.to_string();
                regions.push(self.regions.directory().region_floor(&author.caller, named, (space, name), text)?);
                Ok(Floor::Region(regions.len() - 1))
            }
            Source::Series(Series::FullRand) => {
                Err(Invalid::new("source", format!("{source} has no order, so it cannot continue above an identifier"))
                    .into())
            }
            Source::Series(series @ Series::Serial(serials)) => {
                let number =
                    parse_serial(text, serials).map_err(|expected| bad(format!("cannot read {text:?}: {expected}")))?;
                Ok(Floor::Number(series.clone(), number))
            }
            Source::Format(format) => {
                let tick = format.line().tick_nanos();
                if let Some(at) = time(text) {
                    return Ok(Floor::Time(at.offset(tick.into())));
                }
                let reading = Reading { format: Some(format.token().to_owned()), ..Reading::default() };
                let read = inspect(text, &reading)
                    .map_err(|error| bad(format!("cannot read {text:?}: {}; {A_TIME_TOO}", error.message)))?;
                let shown = read.time.ok_or_else(|| {
                    bad(format!("Kent does not read the time of {text:?}; name the time, such as 2026-01-01T00:00:00Z"))
                })?;
                // Times before 1970 have passed.
                let at = time(&shown).unwrap_or(UnixNanos::new(0));
                Ok(Floor::Time(at.offset(precision(&shown).max(tick.into()))))
            }
            Source::Layout(name) => {
                let Some((layout, spelling)) = self.layouts.find(name).await? else {
                    return Err(FloorError::NoSuchLayout { name: name.clone() });
                };
                let at = match time(text) {
                    Some(at) => at,
                    None => layout_time(text, &layout, &spelling)
                        .map_err(|problem| bad(format!("cannot read {text:?}: {problem}; {A_TIME_TOO}")))?,
                };
                Ok(Floor::Time(at.offset(tick_of(&layout))))
            }
        }
    }
}

/// The other form of a floor of a time-based source.
const A_TIME_TOO: &str = "expected an identifier, or a time in UTC such as 2026-01-01T00:00:00Z";

/// The planned counter of a series.
struct SeriesPlan {
    before: Count,
    after: Count,
    /// The version to compare and the counter to write, unless nothing changes.
    write: Option<(Version, Counter)>,
}

const fn raised_region(Declared { before, after, limit, is_change, .. }: &Declared<'_>) -> Raised {
    Raised::Counter { before: *before, after: *after, end: *limit, is_change: *is_change }
}

fn of_unknown(unknown: Unknown) -> FloorError {
    StoreFailure::from(CommitError::Unknown(unknown)).into()
}

fn refused(source: &Source, refusal: BadFloor) -> FloorError {
    FloorError::Refused { source_name: source.to_string(), refusal }
}

/// Reads a time in RFC 3339 form.
fn time(text: &str) -> Option<UnixNanos> {
    let since = humantime::parse_rfc3339(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(UnixNanos::new(i128::try_from(since.as_nanos()).ok()?))
}

/// Returns the unit of the last decimal place of a time, in nanoseconds.
fn precision(time: &str) -> i128 {
    let places = time.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('Z').len());
    10_i128.pow(9_u32.saturating_sub(u32::try_from(places).unwrap_or(9)))
}

/// Returns the beginning of an identifier's tick.
fn layout_time(text: &str, layout: &Layout, spelling: &Spelling) -> Result<UnixNanos, String> {
    let value = spelling.parse(text, layout.bits()).map_err(|error| error.to_string())?;
    layout.read(value).map_err(|error| error.to_string())?;
    layout.time_of(value).ok_or_else(|| "the layout has no time".to_owned())
}

/// Returns the length of a layout's ticks in nanoseconds.
fn tick_of(layout: &Layout) -> i128 {
    let tick =
        |kind: FieldKind| if let FieldKind::Time { tick_nanos, .. } = kind { Some(tick_nanos.into()) } else { None };
    layout.fields().iter().find_map(|field| tick(field.kind)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_end_of_a_tick_follows_from_the_places_of_its_time() {
        for (time, unit) in [
            ("2026-11-26T20:10:00Z", 1_000_000_000),
            ("2026-11-26T20:10:00.12Z", 10_000_000),
            ("2026-11-26T20:10:00.123Z", 1_000_000),
            ("2026-11-26T20:10:00.1234567Z", 100),
            ("2026-11-26T20:10:00.123456789Z", 1),
        ] {
            assert_eq!(precision(time), unit, "{time}");
        }
    }

    #[test]
    fn ok_the_tick_of_a_layout_may_be_longer_than_a_second() {
        for (fields, tick) in [
            ("time:41:1ms@2015-01-01 slot:10 counter:12", 1_000_000),
            ("time:20:1d@2015-01-01 slot:6 counter:30", 86_400_000_000_000),
        ] {
            assert_eq!(tick_of(&fields.parse().expect("a layout")), tick, "{fields}");
        }
    }
}
