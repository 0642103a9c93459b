//! The records of deleted spaces, and the starting points of new spaces.
//!
//! The record of a deleted space stays, marked as deleted. A new space of the same name continues the revisions and the
//! region numbers of the deleted space. So no key of a region, a counter or an edit is used twice, and every commit
//! that was planned on the old table fails.

use std::iter;

use kent_issue::Forgotten;
use kent_proto::stored::{self, EditId, SpaceFacts};
use kent_regions::{Region, RegionNumber, Revision, Table};
use kent_store::{Txn, Version};

use super::{directory::Directory, space::Space};
use crate::{
    error::EditError,
    records::{
        failure::{LoadError, StoreFailure},
        keys,
    },
};

/// The starting point of a new space: the record of a deleted space of the same name, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vacant {
    version: Version,
    revision: Revision,
    next_number: RegionNumber,
}

impl Vacant {
    /// The empty table of the new space.
    pub(super) fn table(&self, space: &str, bits: u8) -> Result<Table, EditError> {
        let table = Table::restore(bits, self.revision, self.next_number, iter::empty::<Region>());
        table.map_err(|damage| LoadError::Table { space: space.to_owned(), damage }.into())
    }

    /// Adds the record of the new space to a commit. The edits of the deleted space are forgotten.
    pub(super) fn fill(&self, txn: Txn, space: &str, record: Vec<u8>) -> Txn {
        let key = keys::space(space);
        let txn = txn.expect(key.clone(), self.version).put(key, record);
        match self.version {
            Version::ABSENT => txn,
            _ => {
                let forgotten = Forgotten { through: self.revision.0, passed_over: 0 };
                txn.put(keys::oldest(space), stored::encode_forgotten(forgotten))
            }
        }
    }
}

/// The facts that the deletion of this space writes.
pub(super) fn deleted(space: &Space, edit: EditId) -> SpaceFacts {
    let (scramble_key, text_form) = space.constants();
    space.read(|table| SpaceFacts {
        bits: table.bits(),
        revision: table.revision().next(),
        next_number: table.next_number(),
        last_edit: edit,
        scramble_key,
        text_form,
        deleted: true,
    })
}

impl Directory {
    /// Returns the starting point of a new space, or `None` if the space exists.
    pub(super) async fn vacant(&self, key: &str) -> Result<Option<Vacant>, EditError> {
        let Some(read) = self.store.get(&keys::space(key)).await.map_err(StoreFailure::from)? else {
            return Ok(Some(Vacant { version: Version::ABSENT, revision: Revision(0), next_number: RegionNumber(1) }));
        };
        let SpaceFacts { revision, next_number, deleted, .. } =
            stored::decode_space(&read.value).map_err(StoreFailure::from)?;
        Ok(deleted.then_some(Vacant { version: read.version, revision, next_number }))
    }
}
