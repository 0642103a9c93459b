//! Reverts the last edit of a table or of one region, by another edit.

use std::sync::Arc;

use kent_proto::{model::EditOptions, stored::HistoryEntry};
use kent_regions::{Change, NotUndone, RegionNumber, Revision, Table};

use super::{
    directory::Directory,
    edits::{ATTEMPTS, EditCommand, Edited},
    history,
    space::Space,
};
use crate::{
    error::{EditError, NoSuchRegion},
    records::{counters::read_counter, keys},
};

/// A request to revert the last edit.
#[derive(Clone, Debug)]
pub(crate) struct UndoCommand {
    pub(crate) space: String,
    /// The region; `None` for the whole table.
    pub(crate) region: Option<String>,
    pub(crate) options: EditOptions,
    /// The author of the reversal.
    pub(crate) principal: String,
}

/// The maximum number of the table's edits to read to find the last one of a region.
const SCAN_MAX: usize = 20_000;

impl Directory {
    /// Reverts the last edit and, unless it is a dry run, commits the reversal. With a request ID it is made only once.
    pub(crate) async fn undo(&self, command: &UndoCommand) -> Result<Edited, EditError> {
        let space = self.find(&command.space)?;
        let _editing = self.begin_editing(&space).await?;
        for _ in 0..ATTEMPTS {
            let is_same = |entry: &HistoryEntry| entry.undoes.is_some();
            if let Some(plan) = self.find_earlier_edit(&space, &command.options, is_same, |_| false).await? {
                return Ok(Edited { space: space.clone(), plan, again: true });
            }
            let edit = self.reversal(&space, command).await?;
            if let Some(plan) = self.try_edit(&space, &edit).await? {
                if !command.options.validate_only {
                    self.give_back_forbidden(&space, &plan).await;
                }
                return Ok(Edited { space: space.clone(), plan, again: false });
            }
            self.reload(&space).await?;
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// The edit that reverts the last one.
    async fn reversal(&self, space: &Arc<Space>, command: &UndoCommand) -> Result<EditCommand, EditError> {
        let (revision, entry) = self.last_edit(space, command.region.as_deref()).await?;
        let undo = |table: &Table| table.undo(&entry.changes, entry.declared.is_some());
        let edit = match counted(&entry.changes) {
            // A restore sealed the regions, because edits may be lost. Its operator unseals them, and so declares that the table is right.
            _ if entry.follows.is_some() => Err(NotUndone::NoEdit),
            // As if the rest of this daemon's chunk were returned, which the edit does.
            Some(number) => {
                let cell = space.cell(number, self.chunk);
                let _reserving = cell.reserving.lock().await;
                let read = read_counter(&*self.store, &keys::counter(space.key(), number.0)).await?;
                space.read_as_if(number, cell.rest_of(read), undo)
            }
            None => space.read(undo),
        };
        let (name, operation) = (space.name(), entry.operation.clone());
        let edit = edit.map_err(|reason| EditError::NotUndone {
            space: name.clone(),
            revision,
            operation,
            reason: Box::new(reason),
        })?;
        let reason = match command.options.reason.as_str() {
            "" => format!("undo of revision {revision}"),
            reason => reason.to_owned(),
        };
        let options = EditOptions { reason, ..command.options.clone() };
        let (principal, undoes) = (command.principal.clone(), Some(revision));
        Ok(EditCommand { space: name, number: None, edit, options, principal, undoes })
    }

    /// The last edit of a table or of one region, and its revision.
    async fn last_edit(&self, space: &Space, region: Option<&str>) -> Result<(Revision, HistoryEntry), EditError> {
        let number = match region {
            None => None,
            Some(name) => {
                let found = space.read(|table| table.named(name).map(|region| region.number));
                Some(found.map_err(|_| NoSuchRegion { space: space.name(), region: name.to_owned() })?)
            }
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
            if number.is_none_or(|number| entry.changes.iter().any(|change| change.number == number)) {
                return Ok((revision, entry));
            }
            revision = entry.follows.unwrap_or(before);
        }
        Err(EditError::NothingToUndo { space: space.name(), region: region.map(str::to_owned), oldest })
    }
}

/// The region whose counter decides whether an edit can be reverted: the one that it created, or the one that it changed.
fn counted(changes: &[Change]) -> Option<RegionNumber> {
    let created = changes.iter().find(|change| change.creates());
    created.or(changes.first()).filter(|change| change.after.is_some()).map(|change| change.number)
}
