//! Deletes spaces: their records stay, marked as deleted (see [`vacant`](super::vacant)).

use std::sync::Arc;

use kent_access::Action;
use kent_proto::{model::EditOptions, stored};
use kent_regions::{Edit, RegionNumber};
use kent_store::{CommitError, Txn};

use super::{
    directory::Directory,
    edits::{ATTEMPTS, EditCommand},
    space::Space,
    vacant::deleted,
};
use crate::{
    auth::Caller,
    error::{EditError, NoSuchSpace, Occupied},
    records::{failure::StoreFailure, keys},
};

impl Directory {
    /// Deletes a space without regions. If the space belongs to a delegated region, the delegation ends and the region
    /// can grant again. A dry run only checks whether the space can be deleted.
    pub(crate) async fn delete_space(
        &self,
        name: &str,
        (principal, caller): (String, Caller),
        validate_only: bool,
    ) -> Result<Arc<Space>, EditError> {
        self.check_space(&caller, Action::Edit, name)?;
        let space = self.find(name)?;
        if let Some((outer, number)) = space.outer() {
            let command = EditCommand {
                space: outer.name(),
                number: Some(number),
                edit: Edit::Undelegate { name: outer.region_name(number) },
                options: EditOptions { validate_only, ..EditOptions::default() },
                principal,
                caller,
                undoes: None,
            };
            return self.edit(&command).await.map(|_| space);
        }
        if name == kent_ids::DEFAULT_SPACE {
            return Err(EditError::DefaultSpace);
        }
        let _editing = space.editing.lock().await;
        for _ in 0..ATTEMPTS {
            self.check_unused(&space).await?;
            if validate_only || self.try_delete(&space).await? {
                return Ok(space.clone());
            }
        }
        Err(EditError::Contended { attempts: ATTEMPTS })
    }

    /// Checks that a space exists and has no regions, after reading the latest edits of other replicas. The caller must
    /// hold the `editing` lock.
    pub(super) async fn check_unused(&self, space: &Arc<Space>) -> Result<(), EditError> {
        self.reload(space).await?;
        if !self.is_current(space) {
            return Err(NoSuchSpace { space: space.name() }.into());
        }
        match space.read(|table| Occupied::of(space.name(), table)) {
            None => Ok(()),
            Some(occupied) => Err(EditError::SpaceInUse(Box::new(occupied))),
        }
    }

    /// Deletes an outermost space. Returns false if another edit changed the space first.
    async fn try_delete(&self, space: &Arc<Space>) -> Result<bool, EditError> {
        let (key, edit) = (keys::space(space.key()), self.new_edit());
        let facts = deleted(space, edit);
        let (version, _) = space.versions(RegionNumber(0));
        let txn = Txn::new().expect(key.clone(), version).put(key.clone(), stored::encode_space(&facts));
        match self.store.commit(txn).await {
            Ok(_) => {}
            Err(CommitError::Conflict { .. }) => return Ok(false),
            Err(CommitError::Unknown(unknown)) => {
                let read = self.store.get(&key).await.ok().flatten();
                let is_made =
                    read.and_then(|read| stored::decode_space(&read.value).ok()).is_some_and(|now| now == facts);
                if !is_made {
                    // The commit may still take effect.
                    return Err(StoreFailure::from(CommitError::Unknown(unknown)).into());
                }
            }
            Err(error) => return Err(StoreFailure::from(error).into()),
        }
        self.remove(space, facts.revision);
        Ok(true)
    }
}
