//! A local copy of a space's table that `WatchTable` keeps up to date.
//!
//! The copy always shows one revision. It lags behind the daemon by the latency of a message. While no endpoint is
//! reachable, the copy does not change; it catches up afterward. Counters advance without a new revision, so the copy
//! has their values as of its last snapshot. Ask the daemon for current values.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use kent_proto::{
    model::{BadCopy, apply_change, table_of},
    v1::{WatchTableRequest, WatchTableResponse, regions_client::RegionsClient, watch_table_response::Event},
};
use kent_regions::{Indexing, RegionNumber, Revision, Table};
use tokio::{sync::watch, time};
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;
use tracing::{debug, warn};

use crate::{
    Channel,
    connection::{Attempts, Connection},
    daemon::MESSAGE_BYTES_MAX,
    error::{Error, Verdict, describe, judge},
    tasks::{Work, offload},
};

/// A local copy of a table. Cheap to clone: clones share the copy. Dropping the last clone ends the watch.
///
/// ```no_run
/// # async fn example(client: kent_client::Client, id: u128) -> Result<(), kent_client::Error> {
/// let table = client.table("default").await?;
/// println!("revision {}", table.revision().0);
/// let region = table.read(|table| Some(table.classify(id)?.path.last()?.name.clone()));
/// println!("{id} is in {region:?}, number {:?}", table.region_of(id));
/// # Ok(())
/// # }
/// ```
///
/// A seal covers all regions inside the sealed region. [`Seal::over`](kent_regions::Seal::over) finds the seal that
/// covers a region of the copy. The table of a delegated region's space does not contain the seals of the regions
/// around that space: see [`TableCopy::sealed_by`].
#[derive(Clone)]
pub struct TableCopy {
    shared: Arc<Shared>,
    _following: Arc<Work>,
}

struct Shared {
    table: RwLock<Table>,
    /// The sealed region around the space, as in [`TableCopy::sealed_by`].
    sealed_by: watch::Sender<Option<String>>,
    /// Publishes the revision of the table.
    revision: watch::Sender<Revision>,
}

/// The table is indexed once it has not changed for this long.
const QUIET: Duration = Duration::from_millis(50);
/// The number of prefixes to read each time the lock is held.
const INDEXING_PART: usize = 4096;

impl TableCopy {
    /// Fetches a snapshot and starts to follow the table.
    pub(crate) async fn follow(connection: Arc<Connection>, space: &str) -> Result<Self, Error> {
        let mut attempts = Attempts::begin(&connection)?;
        let parent = format!("spaces/{space}");
        let mut feed = loop {
            let (endpoint, channel) = connection.current();
            let snapshot = Feed::open_at(endpoint, channel, &parent, None);
            let late = |_| Err(Lost::Status(Status::deadline_exceeded("no snapshot in time")));
            match time::timeout(attempts.left(), snapshot).await.unwrap_or_else(late) {
                Ok(feed) => break feed,
                Err(Lost::Status(status)) => attempts.wait_after(endpoint, status).await?,
                Err(Lost::Unusable(what)) => return Err(Error::Unusable { what: what.to_string() }),
            }
        };
        let snapshot = feed.snapshot.take();
        let (table, sealed_by) = snapshot.ok_or_else(|| Error::Unusable { what: "there is no snapshot".to_owned() })?;
        let (revision, sealed_by) = (watch::Sender::new(table.revision()), watch::Sender::new(sealed_by));
        let shared = Arc::new(Shared { table: RwLock::new(table), sealed_by, revision });
        let following = Work::start(connection.origin().clone(), keep(shared.clone(), connection, parent, feed))?;
        Ok(Self { shared, _following: Arc::new(following) })
    }

    /// Returns the revision of the copy.
    pub fn revision(&self) -> Revision {
        *self.shared.revision.borrow()
    }

    /// Waits until the copy has at least this revision, such as the revision in an edit's response.
    pub async fn reached(&self, revision: Revision) {
        let mut seen = self.shared.revision.subscribe();
        // OK because the sender is in `self`.
        let _ = seen.wait_for(|seen| *seen >= revision).await;
    }

    /// Returns the innermost region that contains an identifier, or `None` if no region contains it or it is too wide
    /// for the space.
    pub fn region_of(&self, id: u128) -> Option<RegionNumber> {
        self.read(|table| match table.index() {
            Some(index) => index.find(id),
            None => table.classify(id)?.path.last().map(|region| region.number),
        })
    }

    /// Returns the resource name of the sealed region that contains the space, or `None` if there is no such region.
    /// While that region is sealed, nothing in the space is granted. If the caller may neither read nor edit the
    /// region, its name is replaced by `-`.
    pub fn sealed_by(&self) -> Option<String> {
        self.shared.sealed_by.borrow().clone()
    }

    /// Waits until [`Self::sealed_by`] has a value for which `is_awaited` returns true.
    pub async fn sealed_by_when(&self, mut is_awaited: impl FnMut(Option<&str>) -> bool) {
        let mut seen = self.shared.sealed_by.subscribe();
        // OK because the sender is in `self`.
        let _ = seen.wait_for(|seen| is_awaited(seen.as_deref())).await;
    }

    /// Reads the table at one revision. Changes wait until `look` returns, so `look` should be short.
    pub fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        self.shared.read(look)
    }
}

impl fmt::Debug for TableCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableCopy").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Shared {
    fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut table);
        self.revision.send_replace(table.revision());
        changed
    }

    /// Builds an index. Stops if the table changes.
    async fn index(&self) {
        let mut indexing = self.read(Indexing::of);
        while let Some(more) = self.read(|table| indexing.read(table, INDEXING_PART)) {
            if !more {
                if let Some(index) = offload(move || indexing.build()).await {
                    self.change(|table| table.set_index(Arc::new(index)));
                }
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Why a watch ended.
enum Lost {
    Status(Status),
    Unusable(BadCopy),
}

impl From<Status> for Lost {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// A watch: a stream of changes.
struct Feed {
    endpoint: usize,
    stream: Streaming<WatchTableResponse>,
    /// The snapshot at the start of the stream and the sealed region around the space, if a snapshot was requested.
    snapshot: Option<(Table, Option<String>)>,
}

impl Feed {
    /// Opens a watch on the current endpoint, from a snapshot or after a revision.
    async fn open(connection: &Connection, parent: &str, after: Option<Revision>) -> Result<Self, Lost> {
        let (endpoint, channel) = connection.current();
        let opened = Self::open_at(endpoint, channel, parent, after).await;
        if let Err(Lost::Status(status)) = &opened
            && matches!(judge(status), Verdict::Again(_))
        {
            connection.leave(endpoint);
        }
        opened
    }

    async fn open_at(endpoint: usize, channel: Channel, parent: &str, after: Option<Revision>) -> Result<Self, Lost> {
        let mut client = RegionsClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let after_revision = after.map_or(0, |after| after.0);
        let request = WatchTableRequest { parent: parent.to_owned(), after_revision };
        let mut stream = client.watch_table(request).await?.into_inner();
        let snapshot = match after {
            None => Some(receive_snapshot(&mut stream).await?),
            Some(_) => None,
        };
        Ok(Self { endpoint, stream, snapshot })
    }
}

async fn receive_snapshot(stream: &mut Streaming<WatchTableResponse>) -> Result<(Table, Option<String>), Lost> {
    let mut parts = Vec::new();
    while let Some(Event::Snapshot(part)) = stream.message().await?.and_then(|message| message.event) {
        let (last, sealed_by) = (part.last, named(part.sealed_by.clone()));
        parts.push(part);
        if last {
            let table = offload(move || table_of(parts)).await;
            let table = table.ok_or_else(|| Status::cancelled("the runtime is shutting down"))?;
            return table.map(|table| (table, sealed_by)).map_err(Lost::Unusable);
        }
    }
    Err(Status::unavailable("the snapshot ended before its last part").into())
}

/// Returns the name, or `None` if it is empty.
fn named(name: String) -> Option<String> {
    (!name.is_empty()).then_some(name)
}

/// Follows a table until the task is aborted.
async fn keep(shared: Arc<Shared>, connection: Arc<Connection>, parent: String, first: Feed) {
    let mut feed = first;
    loop {
        let lost = follow(&shared, &mut feed).await;
        feed = reopen(&shared, &connection, &parent, feed.endpoint, lost).await;
        if let Some((table, sealed_by)) = feed.snapshot.take() {
            shared.change(|copy| *copy = table);
            shared.sealed_by.send_replace(sealed_by);
        }
    }
}

/// Applies changes as they arrive, and indexes the table when it is quiet.
async fn follow(shared: &Shared, feed: &mut Feed) -> Lost {
    let mut indexed = false;
    loop {
        let next = async {
            match indexed {
                true => Some(feed.stream.message().await),
                false => time::timeout(QUIET, feed.stream.message()).await.ok(),
            }
        };
        match next.await {
            None => {
                shared.index().await;
                indexed = true;
            }
            Some(Ok(Some(WatchTableResponse { event: Some(Event::Change(entry)) }))) => {
                indexed = false;
                if let Err(bad) = shared.change(|table| apply_change(table, entry)) {
                    return Lost::Unusable(bad);
                }
            }
            Some(Ok(Some(WatchTableResponse { event: Some(Event::Around(around)) }))) => {
                shared.sealed_by.send_replace(named(around.sealed_by));
            }
            Some(Ok(Some(_))) => debug!("ignoring an unknown event of a newer daemon"),
            Some(Ok(None)) => return Lost::Status(Status::unavailable("the daemon ended the watch")),
            Some(Err(status)) => return Lost::Status(status),
        }
    }
}

/// Returns true if the daemon says that the watcher must start from a new snapshot, for example after a restore.
fn wants_snapshot(status: &Status) -> bool {
    let details = status.get_error_details();
    let resume = details.error_info().and_then(|info| info.metadata.get("resume_after"));
    resume.is_some_and(|revision| revision == "0")
}

/// Opens a new watch that resumes after the copy's revision or, if that is not possible, starts from a snapshot.
async fn reopen(shared: &Shared, connection: &Connection, parent: &str, endpoint: usize, lost: Lost) -> Feed {
    let mut pauses = connection.pauses();
    let mut lost = lost;
    connection.leave(endpoint);
    loop {
        let after = match &lost {
            // INVALID_ARGUMENT means that the daemon's table is older than the copy, because the table was restored
            // from a backup or is a different table.
            Lost::Status(status) if status.code() == Code::InvalidArgument || wants_snapshot(status) => None,
            Lost::Status(_) => Some(shared.read(Table::revision)).filter(|revision| *revision != Revision(0)),
            Lost::Unusable(_) => None,
        };
        match &lost {
            Lost::Status(status) => debug!(parent, status = describe(status), "the watch ended"),
            Lost::Unusable(bad) => warn!(parent, %bad, "fetching a new copy of the table"),
        }
        time::sleep(pauses.next().unwrap_or_default()).await;
        match Feed::open(connection, parent, after).await {
            Ok(feed) => return feed,
            Err(again) => lost = again,
        }
    }
}
