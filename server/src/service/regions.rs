//! `Regions`: spaces, their tables, edits and classification.

use std::sync::Arc;

use kent_proto::{
    model::{self, ClassifyInput, EditInput, Invalid, Page, RegionName, SpaceInput, SpaceName},
    v1::{
        self, AddSubregionsRequest, ClassifyRequest, ClassifyResponse, CreateRegionRequest, CreateSpaceRequest,
        EditResponse, ExpandRegionRequest, GetRegionRequest, GetSpaceRequest, ListRegionsRequest, ListRegionsResponse,
        ListSpacesRequest, ListSpacesResponse, SplitRegionRequest, regions_server::Regions,
    },
};
use kent_regions::{Prefix, Region, Table};
use tonic::{Request, Response, Status};

use crate::{
    directory::Order,
    engine::Engine,
    error::{EditError, NoSuchRegion},
    space::Space,
    status,
};

/// The service.
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

    /// Every edit comes this way.
    async fn edit(&self, input: Result<EditInput, Invalid>) -> Answer<EditResponse> {
        let EditInput { space, edit, validate_only, expected } =
            input.map_err(|invalid| status::from_invalid(&invalid))?;
        let operation = edit.operation();
        let order = Order { space, edit, validate_only, expected };
        match self.engine.edit(order).await {
            Ok((space, plan)) => {
                self.engine.metrics().edited(operation, if validate_only { "dry_run" } else { "made" });
                let response = space.read(|table| model::edit_response(space.name(), table, &plan, validate_only));
                Ok(Response::new(response))
            }
            Err(error) => Err(self.refused(operation, &error)),
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
        let input = SpaceInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        let space = self.engine.create_space(input).await.map_err(|error| self.refused("create_space", &error))?;
        Ok(Response::new(space_message(&space)))
    }

    async fn get_space(&self, request: Request<GetSpaceRequest>) -> Answer<v1::Space> {
        let name = parse_space("name", &request.get_ref().name)?;
        Ok(Response::new(space_message(&*self.find(&name)?)))
    }

    async fn list_spaces(&self, request: Request<ListSpacesRequest>) -> Answer<ListSpacesResponse> {
        let ListSpacesRequest { page_size, page_token } = request.into_inner();
        let page = parse_page(page_size, &page_token)?;
        let mut spaces = self.engine.directory().spaces();
        spaces.retain(|space| page.after.as_deref().is_none_or(|after| space.name() > after));
        let more = spaces.len() > page.size;
        spaces.truncate(page.size);
        let last = spaces.last().filter(|_| more);
        let next_page_token = last.map(|space| model::page_token(space.name())).unwrap_or_default();
        let spaces = spaces.iter().map(|space| space_message(space)).collect();
        Ok(Response::new(ListSpacesResponse { spaces, next_page_token }))
    }

    async fn list_regions(&self, request: Request<ListRegionsRequest>) -> Answer<ListRegionsResponse> {
        let ListRegionsRequest { parent, page_size, page_token } = request.into_inner();
        let space = self.find(&parse_space("parent", &parent)?)?;
        let page = parse_page(page_size, &page_token)?;
        Ok(Response::new(list(&space, &page)?))
    }

    async fn get_region(&self, request: Request<GetRegionRequest>) -> Answer<v1::Region> {
        let name = RegionName::parse("name", &request.get_ref().name);
        let RegionName { space, region } = name.map_err(|invalid| status::from_invalid(&invalid))?;
        let space = self.find(&space)?;
        let found = space.read(|table| table.named(&region).map(|found| region_message(&space, table, found)));
        let missing = || status::no_such_region(&NoSuchRegion { space: space.name().to_owned(), region });
        found.map(Response::new).map_err(|_| missing())
    }

    async fn create_region(&self, request: Request<CreateRegionRequest>) -> Answer<EditResponse> {
        self.edit(EditInput::try_from(request.into_inner())).await
    }

    async fn expand_region(&self, request: Request<ExpandRegionRequest>) -> Answer<EditResponse> {
        self.edit(EditInput::try_from(request.into_inner())).await
    }

    async fn split_region(&self, request: Request<SplitRegionRequest>) -> Answer<EditResponse> {
        self.edit(EditInput::try_from(request.into_inner())).await
    }

    async fn add_subregions(&self, request: Request<AddSubregionsRequest>) -> Answer<EditResponse> {
        self.edit(EditInput::try_from(request.into_inner())).await
    }

    async fn classify(&self, request: Request<ClassifyRequest>) -> Answer<ClassifyResponse> {
        let input = ClassifyInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
        let space = self.find(&input.space)?;
        space.read(|table| classify(space.name(), table, &input.identifiers)).map(Response::new)
    }
}

fn classify(space: &str, table: &Table, identifiers: &[u128]) -> Result<ClassifyResponse, Status> {
    let classifications = identifiers.iter().map(|id| match table.classify(*id) {
        Some(found) => Ok(model::classification(space, *id, &found)),
        None => {
            let problem = format!("{id} has more than the {} bits of space {space:?}", table.bits());
            Err(status::from_invalid(&Invalid::new("identifiers", problem)))
        }
    });
    Ok(ClassifyResponse { classifications: classifications.collect::<Result<_, _>>()?, revision: table.revision().0 })
}

/// A page of regions in the order of their prefixes. Pages may show different revisions; each says which.
fn list(space: &Space, page: &Page) -> Result<ListRegionsResponse, Status> {
    let after: Option<Prefix> = match page.after.as_deref().map(str::parse).transpose() {
        Ok(after) => after,
        Err(_) => return Err(status::from_invalid(&Invalid::new("page_token", "is none that a page came with"))),
    };
    Ok(space.read(|table| {
        let from: Box<dyn Iterator<Item = &Region>> = match after {
            Some(prefix) => Box::new(table.iter_after(prefix)),
            None => Box::new(table.iter()),
        };
        let found: Vec<&Region> = from.take(page.size + 1).collect();
        let shown = &found[..found.len().min(page.size)];
        let last = shown.last().filter(|_| found.len() > shown.len());
        ListRegionsResponse {
            regions: shown.iter().map(|region| region_message(space, table, region)).collect(),
            next_page_token: last.map(|region| model::page_token(&region.prefix.to_string())).unwrap_or_default(),
            revision: table.revision().0,
        }
    }))
}

fn region_message(space: &Space, table: &Table, region: &Region) -> v1::Region {
    let parent = table.parent(region).map(|parent| parent.name.as_str());
    model::region(space.name(), parent, region, space.unused(region.number))
}

fn space_message(space: &Space) -> v1::Space {
    space.read(|table| model::space(space.name(), table))
}

fn parse_space(field: &'static str, name: &str) -> Result<String, Status> {
    let parsed = SpaceName::parse(field, name).map_err(|invalid| status::from_invalid(&invalid))?;
    Ok(parsed.into_inner())
}

fn parse_page(size: u32, token: &str) -> Result<Page, Status> {
    model::parse_page(size, token).map_err(|invalid| status::from_invalid(&invalid))
}
