//! `Admin`: status, diagnosis, backups, series and the clock.

use std::{pin::Pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use kent_access::{Action, Target};
use kent_engine::{
    audit::{By, Event, Outcome},
    cluster::{Cluster, Replica},
    engine::{BACKUPS_MAX, DIAGNOSES_MAX, Engine},
    error::FloorError,
    grant::{
        ListedSeries,
        floors::{FloorAuthor, RaisedFloors},
    },
    host::flight::{self, Recorded},
    issuing::slots::HeldSlot,
    records::failure::StoreFailure,
    status,
};
use kent_ids::{Series, Source, SourceError};
use kent_issue::Quarantine;
use kent_proto::v1::{
    self, AcceptClockRequest, BackupPart, BackupRequest, ChunkStatus, ClockQuarantine, ClockStatus,
    CreateSeriesRequest, DiagnoseRequest, Diagnosis, DumpEventsRequest, DumpEventsResponse, ForgetSeriesRequest,
    GetStatusRequest, Limits, ListSeriesRequest, ListSeriesResponse, LogFilter, NotableEvent, RaiseFloorsRequest,
    RaiseFloorsResponse, ReplicaStatus, SetLogFilterRequest, SlotStatus, Status as StatusMessage, StoreStatus,
    WatchConsoleRequest, WatchConsoleResponse, admin_server::Admin, notable_event, set_log_filter_request,
};
use kent_proto::{
    model::{EditOptions, Invalid},
    note::ReplicaNote,
};
use kent_transport::callers::{Author, Session, author, author_who_may, caller, caller_who_may};
use kent_transport::tls::Tls;
use tonic::{Request, Response, Status};

use super::audited::record;
use crate::{
    maintenance::{backup, diagnosis},
    service::{console, diagnose, floors},
    telemetry::{self, Change, Filters},
};

/// The `Admin` service.
#[derive(Debug)]
pub(crate) struct AdminService {
    engine: Arc<Engine>,
    /// The certificates of the ports.
    tls: Option<Tls>,
}

impl AdminService {
    pub(crate) fn new(engine: Arc<Engine>, tls: Option<Tls>) -> Self {
        Self { engine, tls }
    }

    fn store(&self) -> StoreStatus {
        let (store, place) = (self.engine.store(), self.engine.place());
        let (stats, cluster) = (store.stats(), self.engine.cluster());
        StoreStatus {
            kind: place.kind.to_owned(),
            location: place.location.clone(),
            id: store.store_id().to_string(),
            commits: stats.commits,
            flushes: stats.flushes,
            conflicts: stats.conflicts,
            reached_ms_ago: cluster.and_then(|cluster| cluster.reached_ago()).map(millis),
            unreachable: cluster.and_then(|cluster| cluster.failure()).unwrap_or_default(),
        }
    }

    fn clock(&self) -> ClockStatus {
        let policy = self.engine.slots().policy();
        ClockStatus {
            unix_nanos: i64::try_from(self.engine.clock().wall().get()).unwrap_or(i64::MAX),
            clock_epoch: self.engine.slots().clock_epoch(),
            tolerance_ms: millis(policy.tolerance),
            max_ahead_ms: millis(policy.max_ahead),
            quarantine: self.engine.slots().quarantine().map(quarantine),
        }
    }

    fn status(&self) -> StatusMessage {
        let readiness = self.engine.report();
        let chunks = readiness
            .chunks()
            .iter()
            .map(|chunk| ChunkStatus { source: chunk.source.to_string(), left: chunk.left.to_string() });
        StatusMessage {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.engine.clock().steady().as_secs(),
            ready: readiness.is_ready(),
            reasons: readiness.reasons(),
            store: Some(self.store()),
            clock: Some(self.clock()),
            slots: readiness.slot().map(slot).into_iter().collect(),
            chunks: chunks.collect(),
            limits: Some(self.limits()),
            replicas: self.engine.cluster().map(|cluster| replicas(cluster)).unwrap_or_default(),
        }
    }

    /// Returns the facts that every client needs: the limits, and the addresses of the other replicas.
    fn status_for_clients(&self) -> StatusMessage {
        let replicas = self.engine.cluster().map(|cluster| replicas(cluster)).unwrap_or_default().into_iter();
        let address = |replica: ReplicaStatus| ReplicaStatus {
            address: replica.address,
            answering: replica.answering,
            ..ReplicaStatus::default()
        };
        StatusMessage {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ready: self.engine.readiness().is_ready(),
            limits: Some(self.limits()),
            replicas: replicas.map(address).collect(),
            ..StatusMessage::default()
        }
    }

    fn limits(&self) -> Limits {
        let limits = self.engine.grants().limits;
        Limits {
            lease_count: limits.lease_count,
            packed_bytes: limits.packed_bytes,
            streams: self.engine.streams() as u64, // OK because a usize has at most 64 bits
        }
    }
}

#[tonic::async_trait]
impl Admin for AdminService {
    type BackupStream = Pin<Box<dyn Stream<Item = Result<BackupPart, Status>> + Send>>;

    async fn backup(&self, request: Request<BackupRequest>) -> Result<Response<Self::BackupStream>, Status> {
        let Author { by, .. } = author_who_may(&self.engine, &request, Action::Operate)?;
        let session = Session::begin(&self.engine, &request)?;
        let permit = self.engine.begin_backup().ok_or_else(|| status::too_many("Backup", BACKUPS_MAX));
        record(Event::new("backup", &by, ""), &permit, Outcome::Begun);
        let (parts, mut audited) = (backup::parts(self.engine.clone(), permit?), AuditedBackup { by, is_done: false });
        let parts = parts.map_err(|failure| status::from_read(&failure));
        // The end of the stream is reached only by a caller that has received all parts.
        let end = stream::poll_fn(move |_| {
            audited.finish();
            Poll::Ready(None)
        });
        Ok(Response::new(Box::pin(session.while_operator(self.engine.clone(), parts.chain(end)))))
    }

    type WatchConsoleStream = Pin<Box<dyn Stream<Item = Result<WatchConsoleResponse, Status>> + Send>>;

    async fn watch_console(
        &self,
        request: Request<WatchConsoleRequest>,
    ) -> Result<Response<Self::WatchConsoleStream>, Status> {
        let session = Session::begin(&self.engine, &request)?;
        let events = console::watch(&self.engine, &session, request.into_inner()).await?;
        Ok(Response::new(Box::pin(events.map(Ok))))
    }

    async fn create_series(&self, request: Request<CreateSeriesRequest>) -> Result<Response<v1::Series>, Status> {
        let Author { by, .. } = author_who_may(&self.engine, &request, Action::Operate)?;
        let series = parse_series(&request.get_ref().source)?;
        let made = self.engine.series().create(&series).await;
        let made = made.map(|made| Response::new(message(&made))).map_err(|error| status::from_series(&error));
        record(Event::new("series.create", &by, series.to_string()), &made, Outcome::Done);
        made
    }

    type ListSeriesStream = Pin<Box<dyn Stream<Item = Result<ListSeriesResponse, Status>> + Send>>;

    async fn list_series(
        &self,
        request: Request<ListSeriesRequest>,
    ) -> Result<Response<Self::ListSeriesStream>, Status> {
        caller_who_may(&self.engine, &request, Action::Operate)?;
        let pages = self.engine.series().pages().await.map_err(|failure| status::from_read(&failure))?;
        let reading = (self.engine.clone(), pages);
        let pages = stream::try_unfold(reading, |(engine, mut pages)| async move {
            let page = engine.series().page(&mut *pages).await?;
            let series = page.map(|page| page.iter().map(message).collect());
            Ok(series.map(|series| (ListSeriesResponse { series }, (engine, pages))))
        });
        let pages = pages.map_err(|failure: StoreFailure| status::from_read(&failure));
        Ok(Response::new(Box::pin(pages.take_until(self.engine.draining().clone().cancelled_owned()))))
    }

    async fn forget_series(&self, request: Request<ForgetSeriesRequest>) -> Result<Response<v1::Series>, Status> {
        let Author { by, .. } = author_who_may(&self.engine, &request, Action::Operate)?;
        let series = parse_series(&request.get_ref().source)?;
        let forgotten = self.engine.series().forget(&series).await;
        let forgotten = forgotten.map(|it| Response::new(message(&it))).map_err(|error| status::from_series(&error));
        record(Event::new("series.forget", &by, series.to_string()), &forgotten, Outcome::Done);
        forgotten
    }

    async fn raise_floors(
        &self,
        request: Request<RaiseFloorsRequest>,
    ) -> Result<Response<RaiseFloorsResponse>, Status> {
        // The permissions for regions are checked when the floors are read.
        let author = match floors::are_of_regions(&request.get_ref().floors) {
            true => author(&self.engine, &request)?,
            false => author_who_may(&self.engine, &request, Action::Operate)?,
        };
        let RaiseFloorsRequest { floors, validate_only, reason } = request.into_inner();
        let named = floors::parse(&floors).map_err(|invalid| status::from_invalid(&invalid))?;
        let options =
            EditOptions::of_floors(validate_only, reason).map_err(|invalid| status::from_invalid(&invalid))?;
        let principal = author.describe();
        let Author { caller, by, .. } = author;

        let engine = self.engine.clone();
        let by_whom = FloorAuthor { principal, caller, options };
        let work = async move { engine.grants().raise_floors(&named, &by_whom).await };
        let raised = self.engine.tasks().spawn_work(work).await.unwrap_or(Err(FloorError::Abandoned));
        let raised = raised.map_err(|error| status::from_floor(&error));
        for (at, floor) in floors.iter().enumerate() {
            let is_change = raised.as_ref().is_ok_and(|raised| raised.floors[at].is_change());
            if floor.source.starts_with(floors::REGION) {
                let outcome = match (&raised, validate_only) {
                    (Err(_), _) => "refused",
                    (Ok(_), true) => "dry_run",
                    (Ok(_), false) if is_change => "made",
                    (Ok(_), false) => "unchanged",
                };
                self.engine.metrics().edited("update", outcome);
            }
            if !validate_only {
                let done = if is_change { Outcome::Done } else { Outcome::Unchanged };
                record(Event::new("floor.raise", &by, &*floor.source).note(&floor.floor), &raised, done);
            }
        }
        let RaisedFloors { floors: raised, mut within, edited } = raised?;
        if let (Some(cluster), Some(version)) = (self.engine.cluster(), edited) {
            within = within.max(cluster.confirm(version).await.within);
        }
        let raised = floors.into_iter().zip(raised).map(|(floor, raised)| floors::message(floor.source, raised));
        Ok(Response::new(RaiseFloorsResponse { floors: raised.collect(), effective_within_ms: millis(within) }))
    }

    async fn accept_clock(&self, request: Request<AcceptClockRequest>) -> Result<Response<ClockStatus>, Status> {
        let Author { by, .. } = author_who_may(&self.engine, &request, Action::Operate)?;
        let accepted = self.engine.slots().accept_clock().rfc3339(3).unwrap_or_default();
        Event::new("clock.accept", &by, "").note(&accepted).record(Outcome::Done);
        Ok(Response::new(self.clock()))
    }

    async fn diagnose(&self, request: Request<DiagnoseRequest>) -> Result<Response<Diagnosis>, Status> {
        caller_who_may(&self.engine, &request, Action::Operate)?;
        let _permit = self.engine.begin_diagnosis().ok_or_else(|| status::too_many("Diagnose", DIAGNOSES_MAX))?;
        let measured = diagnosis::measure(&self.engine, self.tls.as_ref()).await;
        Ok(Response::new(diagnose::message(self.status(), measured)))
    }

    async fn dump_events(&self, request: Request<DumpEventsRequest>) -> Result<Response<DumpEventsResponse>, Status> {
        caller_who_may(&self.engine, &request, Action::Operate)?;
        let (events, total) = flight::events();
        Ok(Response::new(DumpEventsResponse { events: events.iter().map(event).collect(), total }))
    }

    async fn set_log_filter(&self, request: Request<SetLogFilterRequest>) -> Result<Response<LogFilter>, Status> {
        let Author { by, .. } = author_who_may(&self.engine, &request, Action::Operate)?;
        let change = match request.into_inner().change {
            Some(set_log_filter_request::Change::Filter(filter)) => Some(Change::To(filter)),
            Some(set_log_filter_request::Change::Reset(true)) => Some(Change::Reset),
            Some(set_log_filter_request::Change::Reset(false)) | None => None,
        };
        let is_change = change.is_some();
        let changed = telemetry::change(change)
            .map_err(|bad| status::from_invalid(&Invalid::new("filter", bad.problem("kent log-level"))))
            .map(Option::unwrap_or_default);
        if is_change {
            let note = changed.as_ref().map(|filters| format!("{} -> {}", filters.previous, filters.present));
            record(Event::new("log.filter", &by, "").note(&note.unwrap_or_default()), &changed, Outcome::Done);
        }
        let Filters { present, previous, configured } = changed?;
        Ok(Response::new(LogFilter { filter: present, previous, configured }))
    }

    async fn get_status(&self, request: Request<GetStatusRequest>) -> Result<Response<StatusMessage>, Status> {
        let caller = caller(&self.engine, &request)?;
        Ok(Response::new(match caller.may(Action::Operate, Target::Daemon) {
            true => self.status(),
            false => self.status_for_clients(),
        }))
    }
}

/// A backup that is being sent. When this value is dropped, it writes to the audit log whether the caller has received
/// the whole backup.
struct AuditedBackup {
    by: By,
    is_done: bool,
}

impl AuditedBackup {
    fn finish(&mut self) {
        self.is_done = true;
    }
}

impl Drop for AuditedBackup {
    fn drop(&mut self) {
        let outcome = if self.is_done { Outcome::Done } else { Outcome::Failed };
        Event::new("backup", &self.by, "").record(outcome);
    }
}

fn parse_series(source: &str) -> Result<Series, Status> {
    let invalid = |problem: String| status::from_invalid(&Invalid::new("source", problem));
    match source.parse().map_err(|error: SourceError| invalid(error.to_string()))? {
        Source::Series(series) => Ok(series),
        Source::Format(_) | Source::Layout(_) | Source::Region { .. } => {
            Err(invalid(format!("is {source:?}, but must be serial:SYMBOL")))
        }
    }
}

fn message(listed: &ListedSeries) -> v1::Series {
    v1::Series { source: listed.series.to_string(), reserved: listed.reserved.to_string(), on_demand: listed.on_demand }
}

/// Lists this daemon, then the other replicas.
fn replicas(cluster: &Cluster) -> Vec<ReplicaStatus> {
    let (name, note) = cluster.own_note();
    let this = ReplicaStatus { answering: true, ..replica(name, note) };
    let other = |(name, other): (String, Replica)| ReplicaStatus {
        clock_ahead_ms: Some(i64::try_from(other.ahead_nanos() / 1_000_000).unwrap_or(i64::MAX)),
        heard_ms_ago: millis(cluster.heard_ago(&other)),
        ..replica(name, other.note)
    };
    std::iter::once(this).chain(cluster.others().into_iter().map(other)).collect()
}

fn replica(name: String, note: ReplicaNote) -> ReplicaStatus {
    ReplicaStatus {
        name,
        address: note.address,
        version: note.version,
        slot: note.slot.map(|slot| slot.get().into()),
        reserved_until: note.reserved_until,
        applied_version: note.applied,
        ..ReplicaStatus::default()
    }
}

fn quarantine(quarantine: Quarantine) -> ClockQuarantine {
    ClockQuarantine {
        ahead_ms: millis(quarantine.ahead),
        instead_unix_nanos: quarantine.instead.map(|instead| i64::try_from(instead.get()).unwrap_or(i64::MAX)),
    }
}

fn event(recorded: &Recorded) -> NotableEvent {
    let figures = recorded.happened.figures().into_iter();
    NotableEvent {
        unix_nanos: i64::try_from(recorded.at.get()).unwrap_or(i64::MAX),
        kind: recorded.happened.kind().to_owned(),
        figures: figures.map(|(name, value)| notable_event::Figure { name: name.to_owned(), value }).collect(),
    }
}

fn slot(held: &HeldSlot) -> SlotStatus {
    SlotStatus {
        slot: held.slot.get().into(),
        slot_epoch: held.record.epoch.get(),
        node: held.record.node.to_string(),
        clock_seq: held.record.clock_seq.get().into(),
        reserved_until: held.record.reserved_until.get(),
        window_left_ms: millis(held.window_left),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
