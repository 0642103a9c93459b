//! The daemon without its transport: the functions that the gRPC services and the HTTP port call.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kent_access::Budget;
use kent_issue::{Chunk, ClockPolicy, RequestPolicy, TrustPolicy};
use kent_proto::{
    model::{AskInput, CloseInput, Invalid, SpaceInput},
    v1::RegionRequest,
};
use kent_regions::Table;
use kent_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    access::{Access, BudgetsLeft},
    audit,
    auth::{self, AccessTable, Auth, Caller},
    budgets::Budgets,
    cluster::{Cluster, Watches},
    error::{AskError, EditError},
    figures::Figures,
    fill::{Fill, Selection, full_first},
    grant::{Grants, LayoutGrants, Limits, RegionGrants, SeriesGrants},
    host::{
        Environment, arrivals::Arrivals, clock::Clock, computing::Computing, process::ProcessUse, tasks::Tasks,
        touch::Touch,
    },
    issuing::{cell, pacing::Pacing, requests::Requests, slots::Slots},
    metrics::{Exposition, Metrics},
    patterns::RegionPatterns,
    readiness::Readiness,
    records::{counters::restores, failure::LoadError, founding, schema::schema_in_force},
    tables::{
        asks::Asker,
        directory::Directory,
        edits::{EditCommand, Edited},
        imaging::Imaging,
        past::Past,
        retention::Retention,
        space::Space,
        undo::UndoCommand,
    },
};

/// The daemon's state, and the operations on it.
#[derive(Debug)]
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    slots: Arc<Slots>,
    directory: Arc<Directory>,
    grants: Grants,
    /// The other replicas, or `None` if the store cannot be shared.
    cluster: Option<Arc<Cluster>>,
    access: Access,
    metrics: Metrics,
    /// The regions with metrics.
    selection: Selection,
    place: Place,
    tasks: Tasks,
    streams: usize,
    computing: Computing,
    arrivals: Arrivals,
    past: Past,
    backups: Arc<Semaphore>,
    diagnoses: Arc<Semaphore>,
    measuring: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
    figures: Figures,
    draining: CancellationToken,
}

/// The store and the address of this daemon, for reports.
#[derive(Clone, Debug)]
pub struct Place {
    /// The kind of store: `sled`, `etcd` or `memory`.
    pub kind: &'static str,
    /// The directory or address of the store, if it has one.
    pub location: String,
    /// The address at which clients reach this daemon.
    pub address: String,
    /// The directories in which the daemon makes data durable, each with the name of its setting.
    pub directories: Vec<(&'static str, PathBuf)>,
}

/// The settings of the engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Whether callers must authenticate.
    pub requires_auth: bool,
    /// The default limits of callers.
    pub caller_limits: kent_access::Limits,
    /// The maximum sizes of grants.
    pub grant_limits: Limits,
    /// The maximum number of concurrent `AllocateStream` calls.
    pub streams: usize,
    /// The sizes of chunks.
    pub chunk: Chunk,
    /// How slots follow the clock.
    pub clock: ClockPolicy,
    /// The largest jump of the clock and the longest absence that need no operator's confirmation.
    pub trust: TrustPolicy,
    /// How long request IDs are kept, and how many.
    pub requests: RequestPolicy,
    /// The maximum number of series that callers create by their first request.
    pub series_on_demand: u64,
    /// The number of edits that the history of a table keeps.
    pub history_keep: u64,
    /// The regions that have separate metrics.
    pub metrics_regions: RegionPatterns,
    /// The newest schema of records that this daemon writes.
    pub schema: u16,
}

#[cfg(test)]
impl EngineSettings {
    /// Small limits, for tests.
    pub(crate) fn for_tests() -> Self {
        Self {
            requires_auth: false,
            caller_limits: kent_access::Limits::default(),
            grant_limits: Limits { lease_count: 1, packed_bytes: 16 },
            streams: 1,
            chunk: Chunk::default(),
            clock: ClockPolicy::default(),
            trust: TrustPolicy::default(),
            requests: RequestPolicy::default(),
            series_on_demand: 0,
            history_keep: 1,
            metrics_regions: RegionPatterns::default(),
            schema: kent_store::SCHEMA,
        }
    }
}

/// The maximum number of region counters, and of series counters, whose chunks a report lists.
const LISTED_MAX: usize = 1000;

/// The maximum number of concurrent backups.
pub const BACKUPS_MAX: usize = 2;

/// The maximum number of concurrent diagnoses. Only one of them measures the disk at a time.
pub const DIAGNOSES_MAX: usize = 4;

/// The maximum number of concurrent `WatchTable`, `WatchLayouts` and `WatchConsole` calls.
pub const WATCHERS_MAX: usize = 1024;

impl Engine {
    /// Reads the whole state, checks it, and starts the background tasks.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if a record is damaged or written by a newer version.
    pub async fn load(
        environment: Environment,
        settings: EngineSettings,
        place: Place,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, LoadError> {
        let Environment { store, clock, entropy } = environment.clone();
        let (key, founded) = founding::load_or_found(&*store, &*entropy).await?;
        let (found, _) = schema_in_force(&*store).await?;
        if found > settings.schema {
            return Err(LoadError::NewerSchema { found, known: settings.schema });
        }
        if let Some(peers) = store.peers() {
            peers.write_schema(found);
        }
        // The watches begin before the tables are read, so that no change is missed in between.
        let watches = match store.peers() {
            Some(peers) => Some(Watches::begin(peers).await?),
            None => None,
        };
        let restores = restores(&*store).await?;
        let restored_until = restores.iter().map(|restored| restored.lapse.until).max();
        let (policy, trust, chunk) = (settings.clock, settings.trust, settings.chunk);
        let window = policy.window_last;
        let slots = Arc::new(Slots::new(environment.clone(), policy, trust, (key, founded), restored_until));
        let requests = Requests::load(&*store, settings.requests, slots.clone()).await?;
        let directory = Arc::new(Directory::load(environment.clone(), chunk, requests.clone()).await?);
        let pacing = Arc::new(Pacing::new(clock.clone(), slots.clone(), restores));
        let series = SeriesGrants::load(
            store.clone(),
            clock.clone(),
            key,
            (chunk, settings.series_on_demand),
            tasks.clone(),
            pacing.clone(),
        )
        .await?;
        let layouts_edited = watch::Sender::new(());
        let layouts = LayoutGrants::load(store.clone(), founded, layouts_edited.clone()).await?;
        let access = Arc::new(AccessTable::load(store.clone(), environment.entropy.clone()).await?);
        let touch = watches.is_some().then(|| Arc::new(Touch::new(clock.clone(), window)));
        let budgets = Budgets::new(store.clone(), clock.clone());
        let present = access.clone();
        let is_known =
            move |budget: &Budget| present.snapshot().budgets().contains_key(&(budget.holder().clone(), budget.id()));
        tasks.spawn("budget keeper", budgets.clone().keep(is_known, tasks.stopping().clone()));
        let shared = (access.clone(), budgets.clone());
        let auth =
            Arc::new(Auth::new(settings.requires_auth, shared, clock.clone(), touch.clone(), settings.caller_limits));
        let cluster = match (store.peers(), watches, touch) {
            (Some(peers), Some(watches), Some(touch)) => {
                let cluster = Arc::new(Cluster::new(
                    environment.clone(),
                    directory.clone(),
                    slots.clone(),
                    (access, touch, layouts_edited),
                    place.address.clone(),
                    settings.schema,
                ));
                cluster.read_replicas().await?;
                cluster.heartbeat(peers).await?;
                tasks.spawn("follower", cluster.clone().follow(watches, tasks.stopping().clone()));
                tasks.spawn("heartbeat", cluster.clone().keep(tasks.stopping().clone()));
                tasks.spawn("store guard", guard(store.clone(), tasks.clone()));
                Some(cluster)
            }
            _ => None,
        };
        // A replica announces itself before it takes a slot, so that a replica that fences the slot knows how long to wait.
        tasks.spawn("slot keeper", keep_slot(slots.clone(), tasks.clone()));
        let retention = Retention {
            store: store.clone(),
            clock: clock.clone(),
            requests: requests.clone(),
            directory: directory.clone(),
            history_keep: settings.history_keep,
        };
        tasks.spawn("retention", retention.keep(settings.requests.retention, tasks.stopping().clone()));
        if let Some(images) = store.images() {
            let (directory, clock, tasks) = (directory.clone(), clock.clone(), tasks.clone());
            let (store, history_keep) = (store.store_id().to_bytes(), settings.history_keep);
            let imaging = Imaging { images, store, directory, clock, tasks: tasks.clone(), history_keep };
            tasks.spawn("imaging", imaging.keep());
        }
        let regions = RegionGrants::new(
            environment.clone(),
            directory.clone(),
            chunk,
            tasks.clone(),
            (pacing.clone(), requests),
            cluster.clone(),
        );
        let grants = Grants {
            clock: clock.clone(),
            entropy: environment.entropy.clone(),
            tasks: tasks.clone(),
            slots: slots.clone(),
            pacing,
            regions,
            series,
            layouts,
            budgets,
            limits: settings.grant_limits,
        };
        let started = since_1970(&*clock).saturating_sub(clock.steady());
        Ok(Arc::new(Self {
            grants,
            cluster,
            access: Access { auth, directory: directory.clone(), entropy },
            store,
            clock,
            slots,
            directory,
            metrics: Metrics::new(started),
            selection: Selection::new(settings.metrics_regions),
            place,
            tasks: tasks.clone(),
            streams: settings.streams,
            computing: Computing::new(tasks.clone()),
            arrivals: Arrivals::default(),
            past: Past::default(),
            backups: Arc::new(Semaphore::new(BACKUPS_MAX)),
            diagnoses: Arc::new(Semaphore::new(DIAGNOSES_MAX)),
            measuring: Arc::new(Semaphore::new(1)),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            figures: Figures::default(),
            draining: CancellationToken::new(),
        }))
    }

    /// Plans an edit and, unless it is a dry run, commits it. The edit continues if the caller disconnects.
    ///
    /// # Errors
    ///
    /// [`EditError`].
    pub async fn edit(&self, command: EditCommand) -> Result<Edited, EditError> {
        let directory = self.directory.clone();
        let work = self.tasks.spawn_work(async move { directory.edit(&command).await });
        work.await.unwrap_or(Err(EditError::Abandoned))
    }

    /// Reverts the last edit. The work continues if the caller disconnects.
    ///
    /// # Errors
    ///
    /// [`EditError`].
    pub async fn undo(&self, command: UndoCommand) -> Result<Edited, EditError> {
        let directory = self.directory.clone();
        let work = self.tasks.spawn_work(async move { directory.undo(&command).await });
        work.await.unwrap_or(Err(EditError::Abandoned))
    }

    /// Stores a request for a region. The work continues if the caller disconnects.
    ///
    /// # Errors
    ///
    /// [`AskError`].
    pub async fn ask(&self, by: Asker, input: AskInput) -> Result<RegionRequest, AskError> {
        let directory = self.directory.clone();
        let work = self.tasks.spawn_work(async move { directory.ask(&by, &input).await });
        work.await.unwrap_or(Err(AskError::Abandoned))
    }

    /// Declines or withdraws a request for a region. The work continues if the caller disconnects.
    ///
    /// # Errors
    ///
    /// [`AskError`].
    pub async fn close_ask(&self, by: Asker, input: CloseInput) -> Result<RegionRequest, AskError> {
        let directory = self.directory.clone();
        let work = self.tasks.spawn_work(async move { directory.close_ask(&by, &input).await });
        work.await.unwrap_or(Err(AskError::Abandoned))
    }

    /// Deletes a space, or only checks whether it can be deleted. The work continues if the caller disconnects.
    ///
    /// # Errors
    ///
    /// [`EditError`].
    pub async fn delete_space(
        &self,
        name: String,
        author: (String, Caller),
        validate_only: bool,
    ) -> Result<Arc<Space>, EditError> {
        let directory = self.directory.clone();
        let work = self.tasks.spawn_work(async move { directory.delete_space(&name, author, validate_only).await });
        work.await.unwrap_or(Err(EditError::Abandoned))
    }

    /// Creates a space, or only checks whether it can be created. The work continues if the caller disconnects.
    ///
    /// # Errors
    ///
    /// [`EditError`].
    pub async fn create_space(&self, input: SpaceInput) -> Result<Arc<Space>, EditError> {
        let problem = |bad: kent_regions::BadWidth| Invalid::new("bits", bad);
        let table = Table::new(input.bits.into()).map_err(problem)?;
        let directory = self.directory.clone();
        let work = self.tasks.spawn_work(async move {
            directory.create_space(&input.name, table, input.text_form, input.validate_only).await
        });
        work.await.unwrap_or(Err(EditError::Abandoned))
    }

    /// The spaces and their tables.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The sources of identifiers.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// The maximum number of concurrent `AllocateStream` calls.
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// The clocks.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The store and the address of this daemon, for reports.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The daemon's tasks.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The limit on CPU-bound calls.
    pub fn computing(&self) -> &Computing {
        &self.computing
    }

    /// When requests for identifiers arrived.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Tables at earlier revisions.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Counts a backup until the permit is dropped; returns `None` if [`BACKUPS_MAX`] are in progress.
    pub fn begin_backup(&self) -> Option<OwnedSemaphorePermit> {
        self.backups.clone().try_acquire_owned().ok()
    }

    /// Counts a diagnosis until the permit is dropped; returns `None` if [`DIAGNOSES_MAX`] are in progress.
    pub fn begin_diagnosis(&self) -> Option<OwnedSemaphorePermit> {
        self.diagnoses.clone().try_acquire_owned().ok()
    }

    /// The semaphore that allows one measurement of the disks at a time.
    pub fn measuring(&self) -> Arc<Semaphore> {
        self.measuring.clone()
    }

    /// Counts a watcher until all clones of the permit are dropped; returns `None` if there are [`WATCHERS_MAX`].
    pub fn begin_watching(&self) -> Option<Arc<OwnedSemaphorePermit>> {
        self.watchers.clone().try_acquire_owned().ok().map(Arc::new)
    }

    /// The figures of the last fifteen minutes.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The other replicas, or `None` if the store cannot be shared.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// Identifies callers, and decides what they may do.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.access.auth
    }

    /// Changes to tokens, roles and budgets.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The custom layouts.
    pub fn layouts(&self) -> &LayoutGrants {
        &self.grants.layouts
    }

    /// The series.
    pub fn series(&self) -> &SeriesGrants {
        &self.grants.series
    }

    /// The time-based sources.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The token that is canceled when the daemon begins to stop, so that streams end.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Returns whether the daemon can grant from every source. The list of chunks stays empty, so this call is cheap.
    pub fn readiness(&self) -> Readiness {
        Readiness {
            slot: self.slots.held(),
            chunks: Vec::new(),
            draining: self.draining.is_cancelled(),
            stopped: self.tasks.is_broken(),
            quarantine: self.slots.quarantine(),
            restore_wait: self.slots.restore_wait(),
            out_of_touch: self.cluster.as_ref().is_some_and(|cluster| !cluster.is_in_touch()),
            reached_ago: self.cluster.as_ref().and_then(|cluster| cluster.reached_ago()),
        }
    }

    /// Like [`Engine::readiness`], with the chunks that the daemon holds.
    pub fn report(&self) -> Readiness {
        let (regions, series) = (self.grants.regions.held(LISTED_MAX), self.grants.series.held(LISTED_MAX));
        Readiness { chunks: regions.into_iter().chain(series).collect(), ..self.readiness() }
    }

    /// Renders all metrics in a text format. `budgets` comes from [`Access::budgets_left`].
    pub fn render_metrics(&self, exposition: Exposition, budgets: &BudgetsLeft) -> String {
        let (gauges, totals) = (self.metrics.gauges(), self.metrics.totals());
        let readiness = self.report();
        let slot = readiness.slot;
        gauges.window_left.set(slot.map_or(0.0, |held| held.window_left.as_secs_f64()));
        let reached_ago = readiness.reached_ago();
        gauges.set_store_last_reached(reached_ago.map(|ago| since_1970(&*self.clock).saturating_sub(ago)));
        gauges.slot.set(slot.map_or(-1, |held| i64::from(held.slot.get())));
        gauges.slot_epoch.set(slot.map_or(0, |held| i64::try_from(held.record.epoch.get()).unwrap_or(i64::MAX)));
        let watchers = WATCHERS_MAX.saturating_sub(self.watchers.available_permits());
        gauges.watchers.set(i64::try_from(watchers).unwrap_or(i64::MAX));
        gauges.clock_quarantined.set(i64::from(readiness.quarantine.is_some()));
        gauges.ready.set(i64::from(readiness.is_ready()));
        gauges.set_chunks(readiness.chunks.iter().map(|chunk| (&chunk.source, chunk.left)));
        totals.set_clock_steps(self.slots.clock_epoch());
        totals.set_chunk_reservations(cell::reservations());
        totals.set_limited(self.auth().limited());
        totals.set_denied(auth::denials());
        totals.set_audit(audit::counts());
        totals.set_store(self.store.stats());
        self.metrics.disks().set(&self.place.directories);
        self.metrics.regions().set(&self.selection.select(&self.directory, &*self.clock));
        self.metrics.budgets().set(budgets);
        self.metrics.process().set(&ProcessUse::read());
        self.metrics.render(exposition)
    }

    /// Returns the regions that will be full first, up to `most`, among those that this daemon has granted from.
    pub fn full_first(&self, most: usize) -> Vec<Fill> {
        full_first(&self.directory, self.clock.steady(), most)
    }

    /// Returns unused reservations: writes the exact counters to the store. The slot keeper does the same for its slot
    /// when its task stops.
    pub async fn give_back(&self) {
        self.grants.regions.give_back_all().await;
        self.grants.series.give_back_all().await;
        self.grants.budgets.give_back_all().await;
        info!("counters written to the store");
    }
}

/// Makes the daemon issue nothing more if the store is replaced or rolled back, because reservations may have been lost.
async fn guard(store: Arc<dyn Store>, tasks: Tasks) {
    let Some(peers) = store.peers() else { return tasks.stopping().cancelled().await };
    tokio::select! {
        biased;
        () = tasks.stopping().cancelled() => {}
        exchanged = peers.exchanged() => {
            tasks.fail_replaced(&exchanged);
            tasks.stopping().cancelled().await;
        }
    }
}

/// Keeps a slot. If the records of slots cannot be trusted, the daemon stops, because other records may be wrong as
/// well.
async fn keep_slot(slots: Arc<Slots>, tasks: Tasks) {
    if let Err(untrusted) = slots.keep(tasks.stopping().clone()).await {
        tasks.fail_broken(&untrusted);
        tasks.stopping().cancelled().await;
    }
}

/// The time since 1970, by the wall clock.
fn since_1970(clock: &dyn Clock) -> Duration {
    Duration::from_nanos(u64::try_from(clock.wall().get()).unwrap_or(0))
}
