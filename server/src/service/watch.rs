//! `WatchTable`: sends the current table, then every change, in order and without a gap.
//!
//! Sealing a region around a delegated space stops the grants of the space without changing its table. The daemon
//! therefore also tells a watcher of such a space which region around the space is sealed, whenever this changes.
//!
//! Changes are read from the history, so a slow watcher delays nothing and costs no memory. A watcher that is too slow,
//! or too far behind, gets an error with the revision after which to resume.

use std::{future, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, future::select_all};
use kent_access::{Action, Target};
use kent_engine::{
    auth::Caller,
    engine::Engine,
    status,
    tables::{
        history::{self, HistoryError},
        space::Space,
    },
};
use kent_ids::UnixNanos;
use kent_proto::{
    model::{self, Invalid, SpaceName, Usage},
    stored::HistoryEntry,
    v1::{
        self, WatchTableResponse,
        watch_table_response::{Around, Event, Snapshot},
    },
};
use kent_regions::{Change, Region, Revision, Table};
use kent_transport::callers::Session;
use tokio::sync::{OwnedSemaphorePermit, watch::Receiver};
use tonic::Status;

use super::{
    sealed::sealed_by,
    watcher::{self, End, Events},
};

/// The number of regions in one message of a snapshot.
const SNAPSHOT_REGIONS: usize = 500;
/// The maximum number of revisions that a watcher may be behind; beyond that a new snapshot is faster.
const BEHIND_MAX: u64 = 100_000;

/// What a watcher gets first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// The current table.
    Snapshot,
    /// The edit after the current revision.
    Now,
    /// The edit after this revision.
    After(Revision),
}

/// Finds the space whose table is watched, if the caller may read the whole table. Returns the revision after which to
/// watch, or `None` for a snapshot.
pub(super) async fn find(
    engine: &Engine,
    caller: &Caller,
    parent: &str,
    start: Start,
) -> Result<(Arc<Space>, Option<Revision>), Status> {
    let name = SpaceName::parse("parent", parent).map_err(|invalid| status::from_invalid(&invalid))?.into_inner();
    let allowed = engine.directory().check_table(caller, Action::Read, &name);
    allowed.map_err(|denied| status::from_denied(&denied))?;
    let space = engine.directory().find(&name).map_err(|missing| status::no_such_space(&missing))?;
    let present = || space.read(Table::revision);
    let after = match start {
        Start::Snapshot => None,
        Start::Now => Some(present()),
        Start::After(after) => {
            if after > present() {
                // Another replica may have sent the watcher a revision that has not arrived here yet.
                engine.directory().refresh(&space).await.map_err(|error| status::from_edit(&error))?;
            }
            let present = present();
            if after > present {
                let problem = format!("is {after}, but must be 0 to {present}, the current revision of the table");
                return Err(status::from_invalid(&Invalid::new("after_revision", problem)));
            }
            let kept = history::check(engine.store(), &space, after).await;
            kept.map_err(|none| status::from_history(&none))?;
            Some(after)
        }
    };
    Ok((space, after))
}

/// Watches a space's table after a revision, or from a snapshot on.
pub(super) fn watch(
    engine: Arc<Engine>,
    (space, after): (Arc<Space>, Option<Revision>),
    (session, watching): (Session, Arc<OwnedSemaphorePermit>),
) -> impl Stream<Item = Result<WatchTableResponse, Status>> + Send + 'static {
    let (name, key) = (space.name(), space.key().to_owned());
    let caller = session.caller().clone();
    let with_key = caller.may(Action::Lease, Target::Table { space: &key });
    let is_allowed = move |caller: &Caller| caller.check(Action::Read, Target::Table { space: &key }, || (&name, ""));
    let running = engine.clone();
    watcher::watch(running, (session, watching), is_allowed, move |events| async move {
        Watcher { engine, space, caller, with_key, events }.run(after).await
    })
}

struct Watcher {
    engine: Arc<Engine>,
    space: Arc<Space>,
    caller: Caller,
    /// Whether the caller may see the key of the scrambled orders. A caller that may lease may see it, because leases
    /// contain it.
    with_key: bool,
    events: Events<WatchTableResponse>,
}

impl Watcher {
    async fn run(&self, after: Option<Revision>) -> Result<(), End> {
        let mut newest = self.space.newest();
        let mut around: Vec<_> = self.space.around().map(|outer| outer.newest()).collect();
        let (mut seen, mut sealed) = match after {
            None => self.send_snapshot().await.map(|(revision, sealed)| (revision, Some(sealed)))?,
            // The watcher's knowledge of the seals around the space may be out of date.
            Some(after) => (after, self.space.outer().is_none().then(String::new)),
        };
        let draining = self.engine.draining().clone();
        loop {
            let present = *newest.borrow_and_update();
            if present.0.saturating_sub(seen.0) > BEHIND_MAX {
                // A watcher that resumed after its current revision would be just as far behind.
                return Err(status::watcher_too_slow(0).into());
            }
            while seen < present {
                self.send_change(seen.next(), seen).await?;
                seen = seen.next();
            }
            around.iter_mut().for_each(|outer| drop(outer.borrow_and_update()));
            let now = self.sealed_by();
            if sealed.as_ref() != Some(&now) {
                self.send(Event::Around(Around { sealed_by: now.clone() }), seen).await?;
                sealed = Some(now);
            }
            tokio::select! {
                biased;
                changed = newest.changed() => changed.map_err(|_| End::Gone)?,
                () = any_changed(&mut around) => {}
                () = self.events.closed() => return Err(End::Gone),
                () = draining.cancelled() => return Err(End::Gone),
            }
        }
    }

    /// The sealed region around the space, in the form that the message `Space` shows it.
    fn sealed_by(&self) -> String {
        sealed_by(&self.caller, self.space.sealed_around())
    }

    /// Sends a snapshot. Returns the revision and the sealed region around the space that the snapshot names.
    async fn send_snapshot(&self) -> Result<(Revision, String), End> {
        let sealed_by = self.sealed_by();
        let ((regions, revision), bits) = (self.space.listing().await, self.space.read(Table::bits));
        let (name, (key, _)) = (self.space.name(), self.space.constants());
        // A region directly follows its parent, or other regions inside that parent.
        let mut parents: Vec<&Region> = Vec::new();
        let parts: Vec<&[Arc<Region>]> = match regions.is_empty() {
            true => vec![&[]],
            false => regions.chunks(SNAPSHOT_REGIONS).collect(),
        };
        for (index, part) in parts.iter().enumerate() {
            let mut messages = Vec::with_capacity(part.len());
            for region in *part {
                while parents.pop_if(|outer| Some(outer.number) != region.parent()).is_some() {}
                let parent = parents.last().map(|outer| outer.name.as_str());
                messages.push(model::region(&name, parent, region, Usage::default()));
                parents.push(region);
            }
            let snapshot = Snapshot {
                regions: messages,
                bits: bits.into(),
                revision: revision.0,
                last: index + 1 == parts.len(),
                scramble_key: if self.with_key { Bytes::copy_from_slice(key.bytes()) } else { Bytes::new() },
                sealed_by: sealed_by.clone(),
            };
            self.send(Event::Snapshot(snapshot), Revision(0)).await?;
        }
        Ok((revision, sealed_by))
    }

    async fn send_change(&self, revision: Revision, seen: Revision) -> Result<(), End> {
        let store = self.engine.store();
        let read = async {
            let Some(entry) = history::entry(store, &self.space, revision).await? else {
                // The record was removed, or a restore or a migration skipped the revision.
                history::check(store, &self.space, seen).await?;
                return Ok(None);
            };
            Ok(Some(entry))
        };
        let entry = read.await.map_err(|none: HistoryError| status::from_history(&none))?;
        let entry = entry.ok_or_else(|| status::watcher_too_slow(0))?;
        self.send(Event::Change(message(&self.space, &self.space.name(), revision, &entry)), seen).await
    }

    async fn send(&self, event: Event, seen: Revision) -> Result<(), End> {
        self.events.send(WatchTableResponse { event: Some(event) }, seen.0).await
    }
}

/// Waits until one of these tables changes. Without tables, waits forever.
async fn any_changed(around: &mut [Receiver<Revision>]) {
    if around.is_empty() {
        return future::pending().await;
    }
    // OK because a space keeps the spaces around it in memory, so no sender is dropped.
    drop(select_all(around.iter_mut().map(|outer| Box::pin(outer.changed()))).await);
}

/// Builds the API message of an edit.
pub(super) fn message(space: &Space, name: &str, revision: Revision, entry: &HistoryEntry) -> v1::HistoryEntry {
    let time = UnixNanos::new(entry.unix_nanos.into()).rfc3339(3).unwrap_or_default();
    let name_of = |number| {
        let made = entry.changes.iter().filter_map(Change::region).find(|region| region.number == number);
        let known = || space.read(|table| table.get(number).map(|region| region.name.to_string()));
        made.map(|region| region.name.to_string()).or_else(known)
    };
    model::history_entry(name, revision, time, entry, name_of)
}
