//! `Regions`: spaces, their tables, edits and classification.

use std::{pin::Pin, slice, sync::Arc, time::Duration};

use futures_util::{Stream, future::try_join_all};
use kent_access::{Action, Target};
use kent_engine::{
    audit::{Event, Outcome},
    auth::Caller,
    cluster::Unconfirmed,
    engine::{Engine, WATCHERS_MAX},
    error::{EditError, NoSuchRegion},
    fill::fullest,
    host::{call, computing::yielding},
    status,
    tables::{
        edits::{EditCommand, Edited},
        history,
        permitted::{is_known, is_readable},
        space::Space,
        undo::UndoCommand,
    },
};
use kent_proto::{
    model::{
        self, ClassifyInput, ComposeInput, EditInput, FreeInput, FullestInput, ImportInput, Invalid, MapInput, Page,
        RegionName, SpaceInput, SpaceName, UndoInput, Usage, space_name,
    },
    stored::TextForm,
    v1::{
        self, AddSubregionsRequest, ClassifyRequest, ClassifyResponse, CloseRegionRequestRequest, ComposeRequest,
        ComposeResponse, Composed, CreateRegionRequest, CreateSpaceRequest, DelegateRegionRequest, DeleteRegionRequest,
        DeleteSpaceRequest, EditResponse, ExpandRegionRequest, GetRegionRequest, GetSpaceRequest, ImportTableRequest,
        ListFreeBlocksRequest, ListFreeBlocksResponse, ListFullestRegionsRequest, ListFullestRegionsResponse,
        ListHistoryRequest, ListHistoryResponse, ListRegionRequestsRequest, ListRegionRequestsResponse,
        ListRegionsRequest, ListRegionsResponse, ListSpacesRequest, ListSpacesResponse, MapRegionsRequest,
        MapRegionsResponse, RegionRequest, RenameRegionRequest, RequestRegionRequest, SealRegionRequest,
        ShrinkRegionRequest, SplitRegionRequest, UndoEditRequest, UpdateRegionRequest, WatchTableRequest,
        WatchTableResponse, regions_server::Regions,
    },
};
use kent_regions::{Change, Count, Edit, Name, NotComposed, Prefix, Region, RegionNumber, Revision, Table};
use kent_transport::callers::{Author, Session, author, caller};
use tonic::{Request, Response, Status};

use super::{
    asks,
    audited::{Audited, ask_resource, record, resource},
    classify::classify,
    map,
    sealed::sealed_by,
    watch::{self, Start},
};

/// The `Regions` service.
#[derive(Debug)]
pub(crate) struct RegionsService {
    engine: Arc<Engine>,
}

type Answer<T> = Result<Response<T>, Status>;

impl RegionsService {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn find(&self, space: &str) -> Result<Arc<Space>, Status> {
        self.engine.directory().find(space).map_err(|missing| status::no_such_space(&missing))
    }

    /// Fails if the caller may not read a region.
    fn may_read(&self, caller: &Caller, space: &str, region: &str) -> Result<(), Status> {
        let allowed = self.engine.directory().check_region(caller, Action::Read, space, region);
        allowed.map_err(|denied| status::from_denied(&denied))
    }

    /// Fails if the caller may not read the whole table of a space.
    fn may_read_table(&self, caller: &Caller, space: &str) -> Result<(), Status> {
        let allowed = self.engine.directory().check_table(caller, Action::Read, space);
        allowed.map_err(|denied| status::from_denied(&denied))
    }

    /// Fails if the caller may not take this action on any region of a space.
    fn may_in_some(&self, caller: &Caller, action: Action, space: &str) -> Result<(), Status> {
        let allowed = self.engine.directory().check_some(caller, action, space);
        allowed.map_err(|denied| status::from_denied(&denied))
    }

    /// Fails if the caller may not create a space of this name.
    fn may_edit_space(&self, caller: &Caller, space: &str) -> Result<(), Status> {
        let allowed = self.engine.directory().check_space(caller, Action::Edit, space);
        allowed.map_err(|denied| status::from_denied(&denied))
    }

    /// Makes an edit of a table. Undo and the end of a delegation, which deletes a space, do not use this function.
    async fn edit(&self, author: Author, input: Result<EditInput, Invalid>) -> Answer<EditResponse> {
        let EditInput { space, edit, options } = input.map_err(|invalid| status::from_invalid(&invalid))?;
        call::set_request_id(&options.request_id);
        let operation = edit.operation();
        let (subject, action) = match &edit {
            Edit::Import { .. } => ("", "table.import".to_owned()),
            edit => (edit.subject(), format!("region.{operation}")),
        };
        let audited = Audited { author, action, resource: resource(&space, subject), options: options.clone() };
        let stops_grants = edit.stops_grants();
        let (principal, caller) = (audited.author.describe(), audited.caller());
        let command = EditCommand { space, number: None, edit, options, principal, caller, undoes: None };
        self.respond(operation, audited, stops_grants, self.engine.edit(command).await).await
    }

    /// Returns the response to an edit. If the edit may stop grants, waits for the other replicas first.
    async fn respond(
        &self,
        operation: &'static str,
        audited: Audited,
        stops_grants: bool,
        edited: Result<Edited, EditError>,
    ) -> Answer<EditResponse> {
        let validate_only = audited.options.validate_only;
        match edited {
            Ok(Edited { space, plan, again }) => {
                let (outcome, audit) = match (validate_only, again, plan.revision == plan.base) {
                    (true, ..) => ("dry_run", None),
                    (_, true, _) => ("again", Some(Outcome::Again)),
                    (_, _, true) => ("unchanged", Some(Outcome::Unchanged)),
                    _ => ("made", Some(Outcome::Done)),
                };
                if let Some(outcome) = audit {
                    audited.event().revision(Some(plan.revision.0)).record(outcome);
                }
                if let (Some(outcome), Some(number)) = (audit, audited.options.answers) {
                    let subject = ask_resource(&space.name(), number);
                    Event::new("request.make", &audited.author.by, subject).note(&audited.resource).record(outcome);
                }
                self.engine.metrics().edited(operation, outcome);
                let name = space.name();
                let now = self.engine.clock().steady();
                let usage = |number| space.usage(number, now);
                let mut response = space.read(|table| model::edit_response(&name, table, &plan, validate_only, usage));
                let caller = &audited.author.caller;
                if let Some(region) = &mut response.region {
                    region.sealed_by = sealed_by(caller, space.sealed_by(RegionNumber(region.number)));
                    conceal_parent(&space, caller, region);
                }
                for region in response.changes.iter_mut().flat_map(|it| it.before.iter_mut().chain(&mut it.after)) {
                    conceal_parent(&space, caller, region);
                }
                if let Some(cluster) = self.engine.cluster().filter(|_| stops_grants && !validate_only) {
                    let Unconfirmed { replicas, within } = cluster.confirm(space.versions(RegionNumber(0)).0).await;
                    response.unconfirmed = replicas;
                    response.effective_within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                    self.recount(&space, &mut response, now).await;
                }
                Ok(Response::new(response))
            }
            Err(error) => {
                let refused = Err(self.refused(operation, &error));
                if !validate_only {
                    record(audited.event(), &refused, Outcome::Refused);
                }
                refused
            }
        }
    }

    fn refused(&self, operation: &'static str, error: &EditError) -> Status {
        self.engine.metrics().edited(operation, "refused");
        status::from_edit(error)
    }
}

#[tonic::async_trait]
impl Regions for RegionsService {
    async fn create_space(&self, request: Request<CreateSpaceRequest>) -> Answer<v1::Space> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let input = SpaceInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        self.may_edit_space(&caller, &input.name)?;
        let (resource, validate_only) = (resource(&input.name, ""), input.validate_only);
        let created = self.engine.create_space(input).await.map_err(|error| self.refused("create_space", &error));
        if !validate_only {
            record(Event::new("space.create", &by, resource), &created, Outcome::Done);
        }
        Ok(Response::new(space_message(&caller, &*created?)))
    }

    async fn delete_space(&self, request: Request<DeleteSpaceRequest>) -> Answer<v1::Space> {
        let author = author(&self.engine, &request)?;
        let DeleteSpaceRequest { name, validate_only } = request.into_inner();
        let name = parse_space("name", &name)?;
        let described = (author.describe(), author.caller.clone());
        let deleted = self.engine.delete_space(name.clone(), described, validate_only).await;
        let deleted = deleted.map_err(|error| self.refused("delete_space", &error));
        if !validate_only {
            record(Event::new("space.delete", &author.by, resource(&name, "")), &deleted, Outcome::Done);
        }
        let space = deleted?;
        // Use the requested name: the name of a delegated region's space contains the region's name, which may have
        // changed.
        Ok(Response::new(v1::Space { name: space_name(&name), ..space_message(&author.caller, &space) }))
    }

    async fn get_space(&self, request: Request<GetSpaceRequest>) -> Answer<v1::Space> {
        let caller = caller(&self.engine, &request)?;
        let name = parse_space("name", &request.get_ref().name)?;
        let read = self.engine.directory().check_table(&caller, Action::Read, &name);
        // A caller that gets identifiers of the space needs their width and text form.
        let takes = |action| self.engine.directory().check_some(&caller, action, &name).is_ok();
        if read.is_err() && (takes(Action::Lease) || takes(Action::Allocate)) {
            let v1::Space { name, bits, text_form, .. } = space_message(&caller, &*self.find(&name)?);
            return Ok(Response::new(v1::Space { name, bits, text_form, ..v1::Space::default() }));
        }
        read.map_err(|denied| status::from_denied(&denied))?;
        Ok(Response::new(space_message(&caller, &*self.find(&name)?)))
    }

    async fn list_spaces(&self, request: Request<ListSpacesRequest>) -> Answer<ListSpacesResponse> {
        let caller = caller(&self.engine, &request)?;
        let ListSpacesRequest { page_size, page_token } = request.into_inner();
        let page = parse_page(page_size, &page_token)?;
        let mut spaces = self.engine.directory().spaces();
        spaces.retain(|space| caller.may(Action::Read, Target::Table { space: space.key() }));
        spaces.retain(|space| page.after.as_deref().is_none_or(|after| space.name().as_str() > after));
        let more = spaces.len() > page.size;
        spaces.truncate(page.size);
        let last = spaces.last().filter(|_| more);
        let next_page_token = last.map(|space| model::page_token(&space.name())).unwrap_or_default();
        let spaces = spaces.iter().map(|space| space_message(&caller, space)).collect();
        Ok(Response::new(ListSpacesResponse { spaces, next_page_token }))
    }

    async fn list_regions(&self, request: Request<ListRegionsRequest>) -> Answer<ListRegionsResponse> {
        let caller = caller(&self.engine, &request)?;
        let ListRegionsRequest { parent, page_size, page_token, at_revision, exact_counters } = request.into_inner();
        let name = parse_space("parent", &parent)?;
        if at_revision != 0 {
            self.may_read_table(&caller, &name)?;
            let (space, page) = (self.find(&name)?, parse_page(page_size, &page_token)?);
            return self.list_at(&space, &page, Revision(at_revision)).await.map(Response::new);
        }
        self.may_in_some(&caller, Action::Read, &name)?;
        let (space, page) = (self.find(&name)?, parse_page(page_size, &page_token)?);
        match exact_counters {
            true => self.list_exactly(&caller, &space, &page).await.map(Response::new),
            false => Ok(Response::new(list(&caller, &space, &page, self.engine.clock().steady())?)),
        }
    }

    async fn map_regions(&self, request: Request<MapRegionsRequest>) -> Answer<MapRegionsResponse> {
        let caller = caller(&self.engine, &request)?;
        let input = MapInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        match input.revision {
            // As in ListRegions, an earlier revision requires access to the whole table, because the history does not
            // record rights.
            Some(_) => self.may_read_table(&caller, &input.space)?,
            None => self.may_in_some(&caller, Action::Read, &input.space)?,
        }
        let space = self.find(&input.space)?;
        input.revision.map_or(Ok(()), |revision| check_past(&space, revision))?;
        map::map(&self.engine, &caller, space, input).await.map(Response::new)
    }

    async fn list_fullest_regions(
        &self,
        request: Request<ListFullestRegionsRequest>,
    ) -> Answer<ListFullestRegionsResponse> {
        let caller = caller(&self.engine, &request)?;
        let input = FullestInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        self.may_in_some(&caller, Action::Read, &input.space)?;
        let (space, now) = (self.find(&input.space)?, self.engine.clock().steady());
        let listed = move || {
            let regions = fullest(&space, |region| is_readable(&space, &caller, region), now, input.most);
            let found = space.read(|table| regions.iter().map(|region| Found::of(table, region)).collect::<Vec<_>>());
            let name = space.name();
            let regions = found.iter().map(|found| found.message(&space, &caller, &name, now)).collect();
            ListFullestRegionsResponse { regions }
        };
        self.engine.computing().run_locking(listed).await.map(Response::new).map_err(|busy| status::busy(&busy))
    }

    async fn get_region(&self, request: Request<GetRegionRequest>) -> Answer<v1::Region> {
        let caller = caller(&self.engine, &request)?;
        let GetRegionRequest { name, exact_counter } = request.into_inner();
        let name = RegionName::parse("name", &name);
        let RegionName { space, region } = name.map_err(|invalid| status::from_invalid(&invalid))?;
        self.may_read(&caller, &space, &region)?;
        let space = self.find(&space)?;
        for _ in 0..READ_ATTEMPTS {
            if exact_counter {
                self.refresh(&space).await?;
            }
            let now = self.engine.clock().steady();
            let found = space.read(|table| table.shared(&region).map(|region| Found::of(table, region)));
            let missing = |_| status::no_such_region(&NoSuchRegion { space: space.name(), region: region.clone() });
            let mut found = found.map_err(missing)?.message(&space, &caller, &space.name(), now);
            if !exact_counter || self.count_exactly(&space, slice::from_mut(&mut found), now).await? {
                return Ok(Response::new(found));
            }
        }
        Err(status::expanding())
    }

    async fn list_free_blocks(&self, request: Request<ListFreeBlocksRequest>) -> Answer<ListFreeBlocksResponse> {
        let caller = caller(&self.engine, &request)?;
        let input = FreeInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        self.may_read_table(&caller, &input.space)?;
        let space = self.find(&input.space)?;
        Ok(Response::new(space.read(|table| free_blocks(table, &input))))
    }

    async fn create_region(&self, request: Request<CreateRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn request_region(&self, request: Request<RequestRegionRequest>) -> Answer<RegionRequest> {
        asks::ask(&self.engine, request).await.map(Response::new)
    }

    async fn list_region_requests(
        &self,
        request: Request<ListRegionRequestsRequest>,
    ) -> Answer<ListRegionRequestsResponse> {
        asks::list(&self.engine, request).await.map(Response::new)
    }

    async fn close_region_request(&self, request: Request<CloseRegionRequestRequest>) -> Answer<RegionRequest> {
        asks::close(&self.engine, request).await.map(Response::new)
    }

    async fn expand_region(&self, request: Request<ExpandRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn shrink_region(&self, request: Request<ShrinkRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn split_region(&self, request: Request<SplitRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn add_subregions(&self, request: Request<AddSubregionsRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn delegate_region(&self, request: Request<DelegateRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn delete_region(&self, request: Request<DeleteRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn undo_edit(&self, request: Request<UndoEditRequest>) -> Answer<EditResponse> {
        let author = author(&self.engine, &request)?;
        let input = UndoInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        let UndoInput { space, region, options } = input;
        call::set_request_id(&options.request_id);
        let (action, resource) = ("table.undo".to_owned(), resource(&space, region.as_deref().unwrap_or_default()));
        let audited = Audited { author, action, resource, options: options.clone() };
        let (principal, caller) = (audited.author.describe(), audited.caller());
        let undone = self.engine.undo(UndoCommand { space, region, options, principal, caller }).await;
        let stops_grants = |edited: &Edited| edited.plan.changes.iter().any(Change::may_stop_grants);
        let stops_grants = undone.as_ref().is_ok_and(stops_grants);
        self.respond("undo", audited, stops_grants, undone).await
    }

    async fn seal_region(&self, request: Request<SealRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::seal(request.into_inner(), true)).await
    }

    async fn unseal_region(&self, request: Request<SealRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::seal(request.into_inner(), false)).await
    }

    async fn rename_region(&self, request: Request<RenameRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn update_region(&self, request: Request<UpdateRegionRequest>) -> Answer<EditResponse> {
        self.edit(author(&self.engine, &request)?, EditInput::try_from(request.into_inner())).await
    }

    async fn import_table(&self, request: Request<ImportTableRequest>) -> Answer<EditResponse> {
        let author = author(&self.engine, &request)?;
        let input = ImportInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        let caller = author.caller.clone().with_request_id(&input.edit.options.request_id);
        self.may_in_some(&caller, Action::Edit, &input.edit.space)?;
        let space = self.find(&input.edit.space)?;
        let bits = space.read(Table::bits);
        if input.bits != bits {
            let (from, name) = (input.bits, space.name());
            let problem = format!(
                "is {from}, but space {name:?} has {bits} bits, where the same prefix gives different identifiers: import into a \
                 space of {from} bits"
            );
            return Err(status::from_invalid(&Invalid::new("bits", problem)));
        }
        self.edit(author, Ok(input.edit)).await
    }

    async fn compose(&self, request: Request<ComposeRequest>) -> Answer<ComposeResponse> {
        let caller = caller(&self.engine, &request)?;
        let input = ComposeInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        self.may_read(&caller, &input.region.space, &input.region.region)?;
        let space = self.find(&input.region.space)?;
        let found = space.read(|table| (table.shared(&input.region.region).cloned(), table.bits()));
        let missing = || NoSuchRegion { space: space.name(), region: input.region.region.clone() };
        let (Ok(region), bits) = found else { return Err(status::no_such_region(&missing())) };
        compose(&region, bits, space.text_form(), &input).map(Response::new)
    }

    async fn list_history(&self, request: Request<ListHistoryRequest>) -> Answer<ListHistoryResponse> {
        let caller = caller(&self.engine, &request)?;
        let ListHistoryRequest { parent, page_size, page_token } = request.into_inner();
        let (space, region) = match RegionName::parse("parent", &parent) {
            Ok(RegionName { space, region }) => {
                self.may_read(&caller, &space, &region)?;
                (self.find(&space)?, Some(region))
            }
            Err(_) => {
                let space = parse_space("parent", &parent)?;
                self.may_read_table(&caller, &space)?;
                (self.find(&space)?, None)
            }
        };
        let number = match &region {
            None => None,
            Some(name) => {
                let found = space.read(|table| table.named(name).map(|region| region.number));
                let missing = || NoSuchRegion { space: space.name(), region: name.clone() };
                Some(found.map_err(|_| status::no_such_region(&missing()))?)
            }
        };
        let page = parse_page(page_size, &page_token)?;
        self.history(&caller, &space, number, &page).await.map(Response::new)
    }

    type WatchTableStream = Pin<Box<dyn Stream<Item = Result<WatchTableResponse, Status>> + Send>>;

    async fn watch_table(&self, request: Request<WatchTableRequest>) -> Answer<Self::WatchTableStream> {
        let session = Session::begin(&self.engine, &request)?;
        let WatchTableRequest { parent, after_revision } = request.into_inner();
        let start = match after_revision {
            0 => Start::Snapshot,
            after => Start::After(Revision(after)),
        };
        let found = watch::find(&self.engine, session.caller(), &parent, start).await?;
        let watching = self.engine.begin_watching().ok_or_else(|| status::too_many("WatchTable", WATCHERS_MAX))?;
        Ok(Response::new(Box::pin(watch::watch(self.engine.clone(), found, (session, watching)))))
    }

    async fn classify(&self, request: Request<ClassifyRequest>) -> Answer<ClassifyResponse> {
        let caller = caller(&self.engine, &request)?;
        let input = ClassifyInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        self.may_read_table(&caller, &input.space)?;
        let space = self.find(&input.space)?;
        let (engine, asked) = (self.engine.clone(), space.clone());
        let classified = self
            .engine
            .computing()
            .run_locking(move || (classify(&engine, &caller, &asked, &input.identifiers), input));
        let ((answers, revision), input) = classified.await.map_err(|busy| status::busy(&busy))?;
        let too_wide = |id: &u128| {
            let (name, bits) = (space.name(), space.read(Table::bits));
            let problem = format!("{id} has more than the {bits} bits of space {name:?}");
            status::from_invalid(&Invalid::new("identifiers", problem).because("BAD_ID"))
        };
        let each = answers.into_iter().zip(&input.identifiers);
        let classifications = each.map(|(found, id)| found.ok_or_else(|| too_wide(id))).collect::<Result<_, _>>()?;
        Ok(Response::new(ClassifyResponse { classifications, revision: revision.0 }))
    }
}

impl RegionsService {
    /// Lists the edits of a table or of one region, the newest first.
    async fn history(
        &self,
        caller: &Caller,
        space: &Space,
        region: Option<RegionNumber>,
        page: &Page,
    ) -> Result<ListHistoryResponse, Status> {
        let newest = match &page.after {
            None => space.read(Table::revision).0,
            Some(after) => after.parse::<u64>().unwrap_or(1).saturating_sub(1),
        };
        let (name, mut entries, mut next_page_token) = (space.name(), Vec::new(), String::new());
        let (mut revision, mut scanned) = (newest, 0);
        let oldest =
            history::oldest(self.engine.store(), space).await.map_err(|failure| status::from_read(&failure))?;
        while revision > oldest.0 {
            if entries.len() == page.size || scanned == HISTORY_SCAN_MAX {
                next_page_token = model::page_token(&(revision + 1).to_string());
                break;
            }
            scanned += 1;
            let at = revision;
            let entry = history::entry(self.engine.store(), space, Revision(at)).await;
            revision -= 1;
            let Some(mut entry) = entry.map_err(|failure| status::from_read(&failure))? else { continue };
            revision = entry.follows.map_or(revision, |follows| follows.0);
            if region.is_none_or(|number| entry.changes.iter().any(|change| change.number == number)) {
                // The edit may have changed regions that the caller may not read.
                let is_readable = |region: &Region| is_readable(space, caller, region);
                entry.changes.retain(|change| change.before.iter().chain(&change.after).all(is_readable));
                entries.push(watch::message(space, &name, Revision(at), &entry));
            }
        }
        Ok(ListHistoryResponse { entries, next_page_token, forgotten_through: oldest.0 })
    }

    /// Lists a page of regions with the counters that are in the store now.
    async fn list_exactly(&self, caller: &Caller, space: &Space, page: &Page) -> Result<ListRegionsResponse, Status> {
        for _ in 0..READ_ATTEMPTS {
            if let Some(response) = self.list_with_counters(caller, space, page).await? {
                return Ok(response);
            }
        }
        Err(status::expanding())
    }

    /// Lists a page of regions, then reads their counters. Returns `None` if a region expanded between the two: its
    /// counter may not fit its former size, and an import would refuse it.
    async fn list_with_counters(
        &self,
        caller: &Caller,
        space: &Space,
        page: &Page,
    ) -> Result<Option<ListRegionsResponse>, Status> {
        self.refresh(space).await?;
        let now = self.engine.clock().steady();
        let mut response = list(caller, space, page, now)?;
        Ok(self.count_exactly(space, &mut response.regions, now).await?.then_some(response))
    }

    /// Updates a table to the current state of the store, for a read.
    async fn refresh(&self, space: &Space) -> Result<(), Status> {
        match self.engine.directory().refresh(space).await {
            Err(EditError::Store(failure)) => Err(status::from_read(&failure)),
            refreshed => refreshed.map_err(|error| status::from_edit(&error)),
        }
    }

    /// Replaces the counter of an edited region in an answer by the counter in the store: once the edit is in effect,
    /// another generator may continue from it. If the store does not answer, the counter is left out.
    async fn recount(&self, space: &Space, response: &mut EditResponse, now: Duration) {
        let Some(region) = &mut response.region else { return };
        if !self.count_exactly(space, slice::from_mut(region), now).await.unwrap_or(false) {
            (region.reserved, region.issued) = Default::default();
        }
        let changed = response.changes.iter_mut().filter_map(|change| change.after.as_mut());
        for after in changed.filter(|after| after.number == region.number) {
            (after.reserved, after.issued) = (region.reserved.clone(), region.issued.clone());
        }
    }

    /// Reads the counters of regions from the store. Returns false if one of them does not fit the size of its region,
    /// which has expanded meanwhile.
    async fn count_exactly(&self, space: &Space, regions: &mut [v1::Region], now: Duration) -> Result<bool, Status> {
        let directory = self.engine.directory();
        for some in regions.chunks_mut(READS_MAX) {
            let numbers: Vec<_> = some.iter().map(|region| RegionNumber(region.number)).collect();
            let counters = try_join_all(numbers.iter().map(|number| directory.read_counter(space, *number))).await;
            let counters = counters.map_err(|failure| status::from_read(&failure))?;
            for (region, counter) in some.iter_mut().zip(counters) {
                // The counter of a closed region continues in its all-zero subregion.
                if region.kind() != v1::region::Kind::Closed {
                    if u8::try_from(region.suffix_bits).is_ok_and(|s| counter.reserved > Count::power_of_two(s)) {
                        return Ok(false);
                    }
                    let issued = space.usage(RegionNumber(region.number), now).issued(counter.reserved);
                    (region.reserved, region.issued) = (counter.reserved.to_string(), issued.to_string());
                    region.needs_floor = counter.unsure;
                }
            }
        }
        Ok(true)
    }

    /// Lists a page of a table at an earlier revision.
    async fn list_at(&self, space: &Space, page: &Page, revision: Revision) -> Result<ListRegionsResponse, Status> {
        check_past(space, revision)?;
        let after = parse_after(page)?;
        let (store, computing) = (self.engine.store(), self.engine.computing());
        let table = self.engine.past().table(store, computing, space, revision).await;
        let table = table.map_err(|none| status::from_past(&none))?;
        let (name, size) = (space.name(), page.size);
        let made = computing.run(move || {
            let (shown, more) = table.page(after, size);
            let last = shown.last().filter(|_| more);
            let message = |region: &Arc<Region>| {
                let parent = region.parent().and_then(|parent| table.name_of(parent));
                let message = model::region(&name, parent, region, Usage::default());
                v1::Region { issued: String::new(), reserved: String::new(), ..message }
            };
            ListRegionsResponse {
                regions: yielding(shown.iter(), PART).map(message).collect(),
                next_page_token: last.map(|region| model::page_token(&region.prefix.to_string())).unwrap_or_default(),
                revision: revision.0,
            }
        });
        made.await.map_err(|busy| status::busy(&busy))
    }
}

/// The number of regions to process before yielding: about 15 microseconds of work.
const PART: u32 = 16;

/// The maximum number of attempts to read regions with the counters in the store.
const READ_ATTEMPTS: u32 = 8;

/// The number of counters that are read at the same time.
const READS_MAX: usize = 32;

/// The maximum number of the table's edits to read for a page of one region's history.
const HISTORY_SCAN_MAX: usize = 20_000;

/// Converts suffixes to identifiers, and identifiers to suffixes.
fn compose(region: &Region, bits: u8, form: TextForm, input: &ComposeInput) -> Result<ComposeResponse, Status> {
    let refused = |field| move |refused: NotComposed| status::from_composing(field, &input.region.space, &refused);
    let suffixes = input.suffixes.iter().map(|suffix| {
        let identifier = region.compose(*suffix, bits).map_err(refused("suffixes"));
        identifier.map(|identifier| (*suffix, identifier))
    });
    let identifiers = input.identifiers.iter().map(|identifier| {
        let suffix = region.decompose(*identifier, bits).map_err(refused("identifiers"));
        suffix.map(|suffix| (suffix, *identifier))
    });
    let composed = suffixes.chain(identifiers).map(|composed| {
        composed.map(|(suffix, identifier)| {
            let text = model::text_of(identifier, bits, form);
            Composed { suffix: Some(suffix.into()), identifier: Some(identifier.into()), text }
        })
    });
    Ok(ComposeResponse { composed: composed.collect::<Result<_, Status>>()? })
}

/// Fails if the table has not reached a revision yet.
fn check_past(space: &Space, revision: Revision) -> Result<(), Status> {
    let present = space.read(Table::revision);
    if revision <= present {
        return Ok(());
    }
    let problem = format!("is {revision}, but must be 1 to {present}, the current revision of the table");
    Err(status::from_invalid(&Invalid::new("at_revision", problem)))
}

fn parse_after(page: &Page) -> Result<Option<Prefix>, Status> {
    let after = page.after.as_deref().map(str::parse).transpose();
    after.map_err(|_: kent_regions::BadPrefix| status::bad_page_token())
}

/// Lists a page of the regions that the caller may read, in the order of their prefixes. Pages may show different
/// revisions, and each page contains its revision. A page may have fewer regions than requested even if more follow.
fn list(caller: &Caller, space: &Space, page: &Page, now: Duration) -> Result<ListRegionsResponse, Status> {
    let after = parse_after(page)?;
    let name = space.name();
    let (found, last, revision) = space.read(|table| {
        let (mut found, mut last) = (Vec::new(), None);
        let mut regions = table.iter_after(after).enumerate().peekable();
        while let Some((index, region)) = regions.next() {
            if is_readable(space, caller, region) {
                found.push(Found::of(table, region));
            }
            // Hold the lock for only a part of a large table.
            if (found.len() == page.size || index + 1 == LOOKED_AT_MAX) && regions.peek().is_some() {
                last = Some(region.prefix);
                break;
            }
        }
        (found, last, table.revision().0)
    });
    Ok(ListRegionsResponse {
        next_page_token: last.map(|last| model::page_token(&last.to_string())).unwrap_or_default(),
        regions: yielding(found.iter(), PART).map(|found| found.message(space, caller, &name, now)).collect(),
        revision,
    })
}

/// The maximum number of regions to look at for one page.
const LOOKED_AT_MAX: usize = 4096;

/// Lists a page of free blocks and, if requested, the place where a new region would be created.
fn free_blocks(table: &Table, input: &FreeInput) -> ListFreeBlocksResponse {
    let mut blocks: Vec<Prefix> = table.free_by_size(input.at_least, input.after).take(input.page.size + 1).collect();
    let more = blocks.len() > input.page.size;
    blocks.truncate(input.page.size);
    let last = blocks.last().filter(|_| more);
    let next_page_token = last.map(|block| model::page_token(&block.to_string())).unwrap_or_default();
    let choice = input.region.and_then(|(suffix, zone)| table.choose(suffix, zone));
    model::free_blocks(table, &blocks, choice, next_page_token)
}

/// A region, and the name of its parent.
struct Found {
    region: Arc<Region>,
    parent: Option<Name>,
}

impl Found {
    fn of(table: &Table, region: &Arc<Region>) -> Self {
        Self { region: region.clone(), parent: table.parent(region).map(|parent| parent.name.clone()) }
    }

    fn message(&self, space: &Space, caller: &Caller, name: &str, now: Duration) -> v1::Region {
        let number = self.region.number;
        let mut message = model::region(name, self.parent.as_deref(), &self.region, space.usage(number, now));
        message.sealed_by = sealed_by(caller, space.sealed_by(number));
        conceal_parent(space, caller, &mut message);
        message
    }
}

fn space_message(caller: &Caller, space: &Space) -> v1::Space {
    let (name, form) = (space.name(), space.text_form());
    let message = space.read(|table| model::space(&name, table, form));
    v1::Space { sealed_by: sealed_by(caller, space.sealed_around()), ..message }
}

/// Removes the name of a region's parent if the caller may not know it.
fn conceal_parent(space: &Space, caller: &Caller, region: &mut v1::Region) {
    let parent = space.read(|table| table.get(RegionNumber(region.parent_number)).cloned());
    if parent.is_some_and(|parent| !is_known(space, caller, &parent)) {
        region.parent = String::new();
    }
}

fn parse_space(field: &'static str, name: &str) -> Result<String, Status> {
    let parsed = SpaceName::parse(field, name).map_err(|invalid| status::from_invalid(&invalid))?;
    Ok(parsed.into_inner())
}

fn parse_page(size: u32, token: &str) -> Result<Page, Status> {
    model::parse_page(size, token).map_err(|invalid| status::from_invalid(&invalid))
}
