//! Reverts the last edit of a table or of one region with another edit.

use std::sync::Arc;

use kent_access::Action;
use kent_proto::{model::EditOptions, stored::HistoryEntry};
use kent_regions::{Change, Count, Edit, Kind, NotUndone, Region, RegionNumber, Revision, Table};

use super::{
    counted::{lock_all, reverted_counters},
    directory::Directory,
    edits::{ATTEMPTS, EditCommand, Edited},
    history,
    permitted::check_plan,
    space::Space,
};
use crate::{
    auth::Caller,
    error::{Deleted, EditError, NoSuchRegion},
    records::{counters::read_counter, keys},
};

/// A request to revert the last edit.
#[derive(Clone, Debug)]
pub struct UndoCommand {
    /// The name of the space.
    pub space: String,
    /// The region; `None` for the whole table.
    pub region: Option<String>,
    /// The options of the edit.
    pub options: EditOptions,
    /// The author of the reversal, for the history.
    pub principal: String,
    /// The author, whose permissions decide whether the reversal is allowed.
    pub caller: Caller,
}

/// The maximum number of edits to read when searching for the last edit of a region.
const SCAN_MAX: usize = 20_000;

impl Directory {
    /// Reverts the last edit and, unless this is a dry run, commits the reversal. With a request ID, the reversal is
    /// made only once.
    pub(crate) async fn undo(&self, command: &UndoCommand) -> Result<Edited, EditError> {
        match &command.region {
            Some(region) => self.check_region(&command.caller, Action::Edit, &command.space, region)?,
            None => self.check_table(&command.caller, Action::Edit, &command.space)?,
        }
        let space = self.find(&command.space)?;
        let _editing = self.begin_editing(&space).await?;
        let mut first: Option<(Option<Revision>, Revision)> = None;
        for _ in 0..ATTEMPTS {
            let is_same = |entry: &HistoryEntry| {
                let region = command.region.as_deref();
                entry.undoes.is_some() && region.is_none_or(|name| entry.changes.iter().any(|it| concerns(it, name)))
            };
            if let Some(plan) =
                self.find_earlier_edit(&space, (&command.options, &command.caller), is_same, |_| false).await?
            {
                check_plan(&space, &command.caller, &plan)?;
                return Ok(Edited { space: space.clone(), plan, again: true });
            }
            let base = space.read(Table::revision);
            let edit = self.reversal(&space, command, base).await?;
            // The author wants to revert the edit that was the last one at the time of the request, not a later one,
            // such as a seal.
            let (undoes, expected) = *first.get_or_insert((edit.undoes, base));
            if edit.undoes != undoes {
                return Err(EditError::Stale { space: space.name(), expected: expected.0, present: base });
            }
            match self.try_edit(&space, &edit).await {
                Ok(Some(plan)) => {
                    if !command.options.validate_only {
                        self.give_back_forbidden(&space, &plan).await;
                    }
                    return Ok(Edited { space: space.clone(), plan, again: false });
                }
                // Another replica made an edit after the reversal was planned.
                Ok(None) => {}
                Err(EditError::Stale { .. }) if command.options.expected.is_none() => {}
                Err(error) => return Err(error),
            }
            self.reload(&space).await?;
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// The edit that reverts the last edit of a table or of one region. The edit is valid only for the revision `base`
    /// of the table.
    async fn reversal(
        &self,
        space: &Arc<Space>,
        command: &UndoCommand,
        base: Revision,
    ) -> Result<EditCommand, EditError> {
        let (revision, entry) = self.last_edit(space, command.region.as_deref()).await?;
        let counters = self.counters_at(space, counted(&entry.changes));
        let (mut rests, mut changes) = (Vec::new(), entry.changes.clone());
        let _reserving = lock_all(&counters).await;
        for (number, cell) in &counters {
            // Plan as if the rest of this daemon's chunk were returned, because the edit returns the rest.
            let read = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await?;
            set_inherited(&mut changes, *number, read.value.reserved);
            rests.push((*number, cell.rest_of(read)));
        }
        let edit = match entry.follows {
            // A restore seals the regions, because edits may have been lost. Only an operator may unseal them, to
            // confirm that the table is correct.
            Some(_) => Err(NotUndone::NoEdit),
            None => space.read_as_if(&rests, |table| table.undo(&changes, entry.declared.is_some())),
        };
        let (name, operation) = (space.name(), entry.operation.clone());
        let edit = match edit {
            Ok(Edit::Revert { changes }) if self.may_have_lost_edits() && changes.iter().any(shortens) => {
                return Err(EditError::MayBeLost { revision, operation });
            }
            edit => edit,
        };
        let edit = edit.map_err(|reason| EditError::NotUndone {
            space: name.clone(),
            revision,
            operation,
            reason: Box::new(reason),
            deleted: deleted_by(space, &entry.changes).map(Box::new),
        })?;
        let reason = match command.options.reason.as_str() {
            "" => format!("undo of revision {revision}"),
            reason => reason.to_owned(),
        };
        let expected = command.options.expected.or(Some(base));
        let options = EditOptions { reason, expected, ..command.options.clone() };
        let (principal, caller, undoes) = (command.principal.clone(), command.caller.clone(), Some(revision));
        Ok(EditCommand { space: name, number: None, edit, options, principal, caller, undoes })
    }

    /// The last edit of a table or of one region, and its revision; for a region that no longer exists, the edit that
    /// deleted it.
    async fn last_edit(&self, space: &Space, region: Option<&str>) -> Result<(Revision, HistoryEntry), EditError> {
        let number = region.and_then(|name| space.read(|table| table.named(name).map(|region| region.number)).ok());
        let is_sought = |entry: &HistoryEntry| match (region, number) {
            (None, _) => true,
            (_, Some(number)) => entry.changes.iter().any(|change| change.number == number),
            (Some(name), None) => entry.changes.iter().any(|change| deletes(change, name)),
        };
        let oldest = history::oldest(&*self.store, space).await?;
        let mut revision = space.read(Table::revision);
        for _ in 0..SCAN_MAX {
            if revision <= oldest {
                break;
            }
            let entry = history::entry(&*self.store, space, revision).await?;
            let before = Revision(revision.0.saturating_sub(1));
            let Some(entry) = entry else {
                revision = before;
                continue;
            };
            if is_sought(&entry) {
                return Ok((revision, entry));
            }
            revision = entry.follows.unwrap_or(before);
        }
        if let (Some(region), None) = (region, number) {
            return Err(NoSuchRegion { space: space.name(), region: region.to_owned() }.into());
        }
        Err(EditError::NothingToUndo { space: space.name(), region: region.map(str::to_owned), oldest })
    }
}

/// The regions whose counters decide whether an edit can be reverted: the only changed region, or the regions of
/// [`reverted_counters`].
fn counted(changes: &[Change]) -> Vec<RegionNumber> {
    match changes {
        [only] => only.after.iter().map(|after| after.number).collect(),
        _ => reverted_counters(changes),
    }
}

/// Whether the reversal of a change makes a prefix shorter.
fn shortens(change: &Change) -> bool {
    let sides = change.before.as_ref().zip(change.after.as_ref());
    sides.is_some_and(|(before, after)| before.prefix.len() < after.prefix.len())
}

/// Sets the counter that an all-zero subregion inherited, if the edit closed the region `closed`. The history does not
/// contain counters, but the counter of the closed region has not changed since it closed.
fn set_inherited(changes: &mut [Change], closed: RegionNumber, reserved: Count) {
    let closed = changes.iter().find(|change| change.number == closed).and_then(|change| change.after.as_ref());
    let Some(zero) = closed.filter(|it| it.kind == Kind::Closed).map(|it| it.prefix.zeros(it.sub_bits)) else { return };
    for heir in changes.iter_mut().filter(|change| change.creates()).filter_map(|change| change.after.as_mut()) {
        if heir.prefix == zero {
            heir.issued = reserved.into();
        }
    }
}

/// Whether a change affects a region that had this name before or after the change.
fn concerns(change: &Change, name: &str) -> bool {
    change.before.iter().chain(&change.after).any(|region| region.name == name)
}

/// Whether a change deletes a region of this name.
fn deletes(change: &Change, name: &str) -> bool {
    change.after.is_none() && change.before.as_ref().is_some_and(|before| before.name == name)
}

/// The region that an edit deleted.
fn deleted_by(space: &Space, changes: &[Change]) -> Option<Deleted> {
    let parent_of = |region: &Region| {
        let parent = region.parent()?;
        space.read(|table| table.get(parent).map(|parent| (parent.name.to_string(), parent.prefix)))
    };
    Deleted::of(changes, parent_of)
}
