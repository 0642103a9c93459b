//! Floors of regions: edits that declare counters, of several regions and spaces, in one commit with other changes.
//!
//! The edits of one space are revisions of their own, so that the history shows each of them. Each depends only on the
//! counter of its region, so they are planned for the same revision and then numbered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kent_access::Action;
use kent_codec::parse_id_in;
use kent_proto::{
    model::{EditOptions, Invalid},
    stored::TextForm,
};
use kent_regions::{Change, Count, Edit, Patch, Plan, RegionNumber, Table};
use kent_store::{Txn, Version};
use tokio::sync::MutexGuard;

use super::{
    counted::{EditedCounter, lock_all},
    directory::Directory,
    edits::{CommitOutcome, Draft, EditCommand, revise},
    space::Space,
};
use crate::{
    auth::Caller,
    error::{EditError, FloorError},
    records::{counters::read_counter, keys},
};

/// Who raises floors, and why.
#[derive(Clone, Debug)]
pub struct FloorAuthor {
    /// The author, for the history of tables.
    pub principal: String,
    /// The author, whose permissions decide whether a region may be edited.
    pub caller: Caller,
    /// The options of the edits.
    pub options: EditOptions,
}

/// The greatest identifier of a region that is in use.
#[derive(Clone, Debug)]
pub(crate) struct RegionFloor {
    /// The region as the request names it.
    source: String,
    space: Arc<Space>,
    region: String,
    identifier: u128,
}

/// A region that continues above a floor.
#[derive(Debug)]
pub(crate) struct Subject<'f> {
    space: &'f Arc<Space>,
    region: &'f str,
    counter: [EditedCounter; 1],
    capacity: Count,
    /// The number of suffixes that may be issued.
    limit: Count,
    /// The number of suffixes through the floor.
    through: Count,
}

/// The counter of a region before and after an edit declares the numbers through a floor as issued.
#[derive(Debug)]
pub(crate) struct Declared<'f> {
    pub(crate) before: Count,
    pub(crate) after: Count,
    /// The number of suffixes that may be issued.
    pub(crate) limit: Count,
    /// Whether the edit changes the counter, or confirms its position after a restore. On a cluster, there is also an
    /// edit if the counter is above the floor, so that other replicas drop their chunks.
    pub(crate) is_change: bool,
    /// The edit, until it becomes part of a commit.
    edit: Option<FloorEdit<'f>>,
}

/// A planned edit.
#[derive(Debug)]
struct FloorEdit<'f> {
    space: &'f Arc<Space>,
    counter: [EditedCounter; 1],
    command: EditCommand,
    plan: Plan,
}

/// An edit that is part of a commit.
#[derive(Debug)]
pub(crate) struct SettledEdit<'f> {
    space: &'f Space,
    command: EditCommand,
    draft: Draft,
}

impl Directory {
    /// Reads the floor of a region, which the request names `source`.
    pub(crate) fn region_floor(
        &self,
        caller: &Caller,
        source: String,
        (space, region): (&str, &str),
        text: &str,
    ) -> Result<RegionFloor, FloorError> {
        self.check_region(caller, Action::Edit, space, region).map_err(EditError::from)?;
        let found = self.find(space).map_err(EditError::from)?;
        let (bits, is_uid11) = (found.read(Table::bits), found.text_form() == TextForm::Uid11);
        let identifier = parse_id_in(text, space, bits.into(), is_uid11).map_err(|problem| bad(&source, &problem))?;
        Ok(RegionFloor { source, space: found, region: region.to_owned(), identifier })
    }

    /// Waits for other edits of the spaces of these floors, and reads the edits of other replicas.
    pub(crate) async fn begin_raising<'f>(
        &self,
        floors: &'f [RegionFloor],
    ) -> Result<Vec<MutexGuard<'f, ()>>, EditError> {
        let mut editing = Vec::new();
        for space in spaces(floors) {
            editing.push(self.begin_editing(space).await?);
        }
        Ok(editing)
    }

    /// Reads the spaces of these floors again, after a commit that conflicted or whose outcome is unknown. The caller
    /// holds what [`Directory::begin_raising`] returned.
    pub(crate) async fn reload_all(&self, floors: &[RegionFloor]) -> Result<(), EditError> {
        for space in spaces(floors) {
            self.reload(space).await?;
        }
        Ok(())
    }

    /// Finds the regions of these floors, in the same order. The caller holds what [`Directory::begin_raising`] returned.
    pub(crate) fn subjects<'f>(
        &self,
        floors: &'f [RegionFloor],
        caller: &Caller,
    ) -> Result<Vec<Subject<'f>>, FloorError> {
        let mut seen = BTreeSet::new();
        let subject = |RegionFloor { source, space, region, identifier }: &'f RegionFloor| {
            // The region may have got its name after the floor was read.
            self.check_region(caller, Action::Edit, &space.name(), region).map_err(EditError::from)?;
            let found = space.read(|table| {
                let region = table.named(region)?;
                let through = region.suffixes_through(*identifier, table.bits());
                Ok((region.number, (region.capacity(), region.limit()), through))
            });
            let (number, (capacity, limit), through) = found.map_err(|refusal| EditError::Refused {
                space: space.name(),
                refusal: Box::new(refusal),
                nearest: None,
            })?;
            let through = through.map_err(|problem| bad(source, &problem.to_string()))?;
            if !seen.insert((space.key(), number)) {
                return Err(bad(source, "another floor names the same region"));
            }
            let counter = [(number, space.cell(number, self.chunk))];
            Ok(Subject { space, region, counter, capacity, limit, through })
        };
        floors.iter().map(subject).collect()
    }

    /// Plans the edits of these regions. Returns `None` if a counter keeps moving, so that the edits have to be planned
    /// again. The caller holds the locks of the counters.
    pub(crate) async fn plan_floors<'f>(
        &self,
        subjects: &[Subject<'f>],
        author: &FloorAuthor,
    ) -> Result<Option<Vec<Declared<'f>>>, EditError> {
        let mut planned = Vec::new();
        for subject in subjects {
            match self.plan_floor(subject, author).await? {
                Some(declared) => planned.push(declared),
                None => return Ok(None),
            }
        }
        Ok(Some(planned))
    }

    async fn plan_floor<'f>(
        &self,
        Subject { space, region, counter, capacity, limit, through }: &Subject<'f>,
        author: &FloorAuthor,
    ) -> Result<Option<Declared<'f>>, EditError> {
        let [(number, cell)] = counter;
        for moved in 0..COUNTER_ATTEMPTS {
            let read = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await?;
            let (is_unsure, before) = (self.is_unsure(&read), cell.rest_of(read));
            if *through == Count::ZERO {
                return Ok(Some(Declared { before, after: before, limit: *limit, is_change: false, edit: None }));
            }
            // On a cluster, another replica may hold a chunk below the floor although the counter is above it. Then the
            // counter is declared as it is, so that the replica drops the chunk. If it keeps moving, some numbers are
            // skipped.
            let after = match before >= *through {
                true => before.checked_add(margin(moved)).map_or(*capacity, |after| after.min(*capacity)),
                false => *through,
            };
            let command = EditCommand {
                space: space.name(),
                number: Some(*number),
                edit: declare(region, after),
                options: author.options.clone(),
                principal: author.principal.clone(),
                caller: author.caller.clone(),
                undoes: None,
            };
            let plan = match self.plan_edit(space, &command, counter).await {
                Ok(plan) => plan,
                Err(EditError::NextTooLow { is_shared: true, .. }) => continue,
                // The only daemon has granted numbers above the floor since the counter was read.
                Err(EditError::NextTooLow { counter, .. }) => {
                    let (before, after) = (counter, counter);
                    return Ok(Some(Declared { before, after, limit: *limit, is_change: false, edit: None }));
                }
                Err(error) => return Err(error),
            };
            let is_edit = plan.revision != plan.base;
            let edit = is_edit.then(|| FloorEdit { space, counter: counter.clone(), command, plan });
            let is_change = is_edit && (before != after || is_unsure);
            return Ok(Some(Declared { before, after, limit: *limit, is_change, edit }));
        }
        Ok(None)
    }

    /// Returns the rest of this daemon's chunks, and adds the planned edits to a commit. Returns `None` if they have to
    /// be planned again. The caller holds the locks of the counters.
    pub(crate) async fn settle_floors<'f>(
        &self,
        mut txn: Txn,
        planned: &mut [Declared<'f>],
    ) -> Result<Option<(Txn, Vec<SettledEdit<'f>>)>, EditError> {
        let mut by_space: BTreeMap<&str, Vec<SettledEdit<'f>>> = BTreeMap::new();
        for declared in planned {
            let Some(FloorEdit { space, counter, command, plan }) = declared.edit.take() else { continue };
            let draft = self.settle(space, &command, &counter, plan).await?;
            // Another replica may have reserved numbers since the first plan.
            if let Some(Change { before: Some(before), after: Some(after), .. }) = draft.plan.changes.first() {
                (declared.before, declared.after) = (*before.issued, *after.issued);
            }
            by_space.entry(space.key()).or_default().push(SettledEdit { space, command, draft });
        }
        let mut settled = Vec::new();
        for edits in by_space.into_values() {
            let plans = edits.iter().map(|edit| edit.draft.plan.clone()).collect();
            let Some(plans) = Plan::in_turn(plans) else { return Ok(None) };
            let numbered = edits.into_iter().zip(plans).map(|(mut edit, plan)| {
                edit.draft.plan = plan;
                edit
            });
            let edits: Vec<_> = numbered.collect();
            if let Some(last) = edits.last() {
                txn = revise(txn, last.space, &last.draft);
            }
            for SettledEdit { space, command, draft } in &edits {
                txn = self.change(txn, space, draft, command);
            }
            settled.extend(edits);
        }
        Ok(Some((txn, settled)))
    }

    /// Applies edits that were committed at `version` to the tables in memory.
    pub(crate) async fn adopt_floors(&self, edits: Vec<SettledEdit<'_>>, version: Version) -> Result<(), EditError> {
        for SettledEdit { space, command, draft } in edits {
            self.adopt(space, &command, draft, CommitOutcome::Made(version)).await?;
        }
        Ok(())
    }
}

/// Locks the counters of these regions. The caller holds the `editing` locks of their spaces, so no other edit waits for
/// several of these counters.
pub(crate) async fn lock_counters<'s>(subjects: &'s [Subject<'_>]) -> Vec<MutexGuard<'s, ()>> {
    let mut locked = Vec::new();
    for subject in subjects {
        locked.extend(lock_all(&subject.counter).await);
    }
    locked
}

/// The version of the last edit of the spaces of these regions; `None` if all are above their floors anyway.
pub(crate) fn edited(subjects: &[Subject<'_>]) -> Option<Version> {
    let below = subjects.iter().filter(|subject| subject.through != Count::ZERO);
    below.map(|subject| subject.space.versions(RegionNumber(0)).0).max()
}

/// The spaces of these floors, in the order of their keys, so that two requests never wait for each other. The key of an
/// outer space comes before those of its inner spaces.
fn spaces(floors: &[RegionFloor]) -> impl Iterator<Item = &Arc<Space>> {
    floors.iter().map(|floor| (floor.space.key(), &floor.space)).collect::<BTreeMap<_, _>>().into_values()
}

/// The maximum number of attempts to plan a declaration while the counter moves.
const COUNTER_ATTEMPTS: u32 = 8;

/// The number of suffixes to skip after a counter has moved at this many attempts.
const fn margin(moved: u32) -> u128 {
    if moved == 0 { 0 } else { 1 << (9 + moved) }
}

fn declare(region: &str, next: Count) -> Edit {
    Edit::Update { name: region.to_owned(), patch: Patch { next: Some(next), ..Patch::default() } }
}

fn bad(source: &str, problem: &str) -> FloorError {
    Invalid::new("floor", format!("{source}: {problem}")).into()
}
