//! `Layouts`: custom layouts.

use std::{pin::Pin, sync::Arc};

use futures_util::Stream;
use kent_access::{Action, Target};
use kent_engine::{
    audit::{Event, Outcome},
    auth::Caller,
    engine::{Engine, WATCHERS_MAX},
    error::LayoutError,
    grant::{LayoutGrants, ListedLayout},
    status,
};
use kent_ids::UnixNanos;
use kent_proto::{
    model::{self, Invalid, LayoutInput},
    stored::{LayoutChange, LayoutEdit},
    v1::{
        self, CreateLayoutRequest, DeleteLayoutRequest, GetLayoutRequest, ListLayoutHistoryRequest,
        ListLayoutHistoryResponse, ListLayoutsRequest, ListLayoutsResponse, WatchLayoutsRequest, WatchLayoutsResponse,
        layouts_server::Layouts,
        watch_layouts_response::{Event as Watched, Snapshot},
    },
};
use kent_transport::callers::{Author, Session, author, caller};
use tokio::select;
use tonic::{Request, Response, Status};

use super::{
    audited::record,
    watcher::{self, End, Events},
};

/// The `Layouts` service.
#[derive(Debug)]
pub(crate) struct LayoutsService {
    engine: Arc<Engine>,
}

impl LayoutsService {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn layouts(&self) -> &LayoutGrants {
        self.engine.layouts()
    }

    /// The time from which a new layout must last. While the clock is not trusted, the wall clock is good enough.
    fn now(&self) -> UnixNanos {
        self.engine.slots().trusted_now().unwrap_or_else(|| self.engine.clock().wall())
    }

    /// Completes a change even if the caller disconnects.
    async fn change(
        &self,
        change: impl Future<Output = Result<ListedLayout, LayoutError>> + Send + 'static,
    ) -> Result<ListedLayout, LayoutError> {
        self.engine.tasks().spawn_work(change).await.unwrap_or(Err(LayoutError::Abandoned))
    }
}

#[tonic::async_trait]
impl Layouts for LayoutsService {
    async fn create_layout(&self, request: Request<CreateLayoutRequest>) -> Result<Response<v1::Layout>, Status> {
        let author = author(&self.engine, &request)?;
        let described = author.describe();
        let Author { caller, by, .. } = author;
        let given = request.into_inner();
        let (name, fields) =
            given.layout.as_ref().map_or_else(Default::default, |it| (it.name.clone(), it.fields.clone()));
        let (layouts, now, validate_only) = (self.layouts().clone(), self.now(), given.validate_only);
        let created = async {
            check(&caller, Action::Edit, &name)?;
            let input = LayoutInput::try_from(given)?;
            self.change(async move { layouts.create(input, (described, now)).await }).await
        };
        let created = created.await.map_err(|error| status::from_layout(&error));
        if !validate_only {
            record(Event::new("layout.create", &by, resource(&name)).note(&fields), &created, Outcome::Done);
        }
        Ok(Response::new(message(&created?)))
    }

    async fn get_layout(&self, request: Request<GetLayoutRequest>) -> Result<Response<v1::Layout>, Status> {
        let caller = caller(&self.engine, &request)?;
        let name = &request.get_ref().name;
        let found = async {
            check(&caller, Action::Read, name)?;
            self.layouts().get(&model::layout_name("name", name)?, self.now()).await
        };
        found.await.map(|listed| Response::new(message(&listed))).map_err(|error| status::from_layout(&error))
    }

    async fn list_layouts(
        &self,
        request: Request<ListLayoutsRequest>,
    ) -> Result<Response<ListLayoutsResponse>, Status> {
        let caller = caller(&self.engine, &request)?;
        let listed = self.layouts().list(self.now()).await.map_err(|error| status::from_layout(&error))?;
        let readable = listed.iter().filter(|listed| caller.may(Action::Read, Target::Layout(&listed.name)));
        Ok(Response::new(ListLayoutsResponse { layouts: readable.map(message).collect() }))
    }

    async fn delete_layout(&self, request: Request<DeleteLayoutRequest>) -> Result<Response<v1::Layout>, Status> {
        let author = author(&self.engine, &request)?;
        let described = author.describe();
        let Author { caller, by, .. } = author;
        let (name, layouts, now) = (request.into_inner().name, self.layouts().clone(), self.now());
        let deleted = async {
            check(&caller, Action::Edit, &name)?;
            let name = model::layout_name("name", &name)?;
            self.change(async move { layouts.delete(&name, (described, now)).await }).await
        };
        let deleted = deleted.await.map_err(|error| status::from_layout(&error));
        record(Event::new("layout.delete", &by, resource(&name)), &deleted, Outcome::Done);
        Ok(Response::new(message(&deleted?)))
    }

    async fn list_layout_history(
        &self,
        request: Request<ListLayoutHistoryRequest>,
    ) -> Result<Response<ListLayoutHistoryResponse>, Status> {
        let caller = caller(&self.engine, &request)?;
        let ListLayoutHistoryRequest { name, page_size, page_token } = request.into_inner();
        match name.is_empty() {
            true => may_read_some(&caller)?,
            false => check(&caller, Action::Read, &name).map_err(|error| status::from_layout(&error))?,
        }
        let page = model::parse_page(page_size, &page_token).map_err(|invalid| status::from_invalid(&invalid))?;
        let before = page.after.map_or(u64::MAX, |after| after.parse().unwrap_or(0));
        let kept = self.layouts().edits().await.map_err(|failure| status::from_read(&failure))?;
        let forgotten_through = kept.first().map_or(0, |(_, oldest)| oldest.follows);
        let is_asked = |edit: &LayoutEdit| match &edit.change {
            LayoutChange::One { name: edited, .. } => {
                (name.is_empty() || name == *edited) && caller.may(Action::Read, Target::Layout(edited))
            }
            LayoutChange::All { .. } => true,
        };
        let asked = kept.iter().rev().filter(|(revision, edit)| *revision < before && is_asked(edit));
        let mut edits: Vec<_> =
            asked.take(page.size + 1).map(|(revision, edit)| edit_message(*revision, edit, self.now())).collect();
        let more = edits.len() > page.size;
        edits.truncate(page.size);
        let last = edits.last().filter(|_| more);
        let next_page_token = last.map(|edit| model::page_token(&edit.revision.to_string())).unwrap_or_default();
        Ok(Response::new(ListLayoutHistoryResponse { edits, next_page_token, forgotten_through }))
    }

    type WatchLayoutsStream = Pin<Box<dyn Stream<Item = Result<WatchLayoutsResponse, Status>> + Send>>;

    async fn watch_layouts(
        &self,
        request: Request<WatchLayoutsRequest>,
    ) -> Result<Response<Self::WatchLayoutsStream>, Status> {
        let session = Session::begin(&self.engine, &request)?;
        may_read_some(session.caller())?;
        let after = request.into_inner().after_revision;
        if after > 0 {
            // The watcher learns at once if it cannot resume.
            self.layouts().edit_after(after).await.map_err(|error| status::from_layout(&error))?;
        }
        let watching = self.engine.begin_watching().ok_or_else(|| status::too_many("WatchLayouts", WATCHERS_MAX))?;
        let (service, caller) = (Self::new(self.engine.clone()), session.clone());
        let run = |events| async move { Watcher { service, session: caller, events }.run(after).await };
        let is_allowed = |caller: &Caller| caller.check(Action::Read, Target::SomeLayout, || ("", ""));
        Ok(Response::new(Box::pin(watcher::watch(self.engine.clone(), (session, watching), is_allowed, run))))
    }
}

/// A call of `WatchLayouts`.
struct Watcher {
    service: LayoutsService,
    session: Session,
    events: Events<WatchLayoutsResponse>,
}

impl Watcher {
    async fn run(mut self, after: u64) -> Result<(), End> {
        let layouts = self.service.layouts().clone();
        let mut edited = layouts.edited();
        let mut seen = if after == 0 { self.send_snapshot().await? } else { after };
        let draining = self.service.engine.draining().clone();
        loop {
            edited.mark_unchanged();
            while let Some((revision, edit)) =
                layouts.edit_after(seen).await.map_err(|error| status::from_layout(&error))?
            {
                seen = match edit.change {
                    LayoutChange::All { .. } => self.send_snapshot().await?,
                    LayoutChange::One { .. } => {
                        self.send_edit(revision, &edit, seen).await?;
                        revision
                    }
                };
            }
            select! {
                biased;
                changed = edited.changed() => changed.map_err(|_| End::Gone)?,
                () = self.events.closed() => return Err(End::Gone),
                () = draining.cancelled() => return Err(End::Gone),
            }
        }
    }

    /// Sends the layouts that the caller may read. Returns their revision.
    async fn send_snapshot(&mut self) -> Result<u64, End> {
        let listed = self.service.layouts().snapshot(self.service.now()).await;
        let (listed, revision) = listed.map_err(|error| status::from_layout(&error))?;
        let caller = self.caller()?;
        let readable = listed.iter().filter(|listed| caller.may(Action::Read, Target::Layout(&listed.name)));
        let snapshot = Snapshot { layouts: readable.map(message).collect(), revision };
        self.send(Watched::Snapshot(snapshot), 0).await?;
        Ok(revision)
    }

    async fn send_edit(&mut self, revision: u64, edit: &LayoutEdit, seen: u64) -> Result<(), End> {
        let is_readable = match &edit.change {
            LayoutChange::One { name, .. } => self.caller()?.may(Action::Read, Target::Layout(name)),
            LayoutChange::All { .. } => true,
        };
        match is_readable {
            true => self.send(Watched::Change(edit_message(revision, edit, self.service.now())), seen).await,
            false => Ok(()),
        }
    }

    /// Returns the caller with its current rights.
    fn caller(&mut self) -> Result<&Caller, End> {
        let renewed = self.session.renew(self.service.engine.clock().steady());
        renewed.map_err(|denied| status::from_denied(&denied))?;
        Ok(self.session.caller())
    }

    async fn send(&self, event: Watched, seen: u64) -> Result<(), End> {
        self.events.send(WatchLayoutsResponse { event: Some(event) }, seen).await
    }
}

/// Fails if the caller may not do this with the layout. The check comes before the lookup, so that a caller cannot find
/// out which layouts exist.
fn check(caller: &Caller, action: Action, name: &str) -> Result<(), LayoutError> {
    // A name that is not valid is refused before it can appear in a permission.
    let name = model::layout_name("name", name).map_err(|invalid: Invalid| LayoutError::BadField(invalid))?;
    Ok(caller.check(action, Target::Layout(&name), || ("", ""))?)
}

/// Fails if the caller may read no layout at all.
fn may_read_some(caller: &Caller) -> Result<(), Status> {
    let checked = caller.check(Action::Read, Target::SomeLayout, || ("", ""));
    checked.map_err(|denied| status::from_denied(&denied))
}

fn resource(name: &str) -> String {
    format!("layout:{}", name.chars().take(kent_ids::MAX_NAME_LEN).collect::<String>())
}

/// Builds the API message of an edit. The layout in it shows what it can issue from now on.
fn edit_message(revision: u64, edit: &LayoutEdit, now: UnixNanos) -> v1::LayoutEdit {
    let (operation, layout) = match &edit.change {
        LayoutChange::One { operation, name, layout } => {
            let safe = layout.layout.check(0, now).ok();
            (operation.token().to_owned(), Some(model::layout(name, layout, safe.as_ref())))
        }
        LayoutChange::All { operation } => (operation.clone(), None),
    };
    let time = UnixNanos::new(edit.unix_nanos.into()).rfc3339(3).unwrap_or_default();
    v1::LayoutEdit { revision, time, principal: edit.principal.clone(), operation, layout }
}

fn message(listed: &ListedLayout) -> v1::Layout {
    model::layout(&listed.name, &listed.stored, listed.safe.as_ref())
}
