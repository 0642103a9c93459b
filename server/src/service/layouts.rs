//! `Layouts`: custom layouts.

use std::sync::Arc;

use kent_access::{Action, Target};
use kent_engine::{
    audit::{Event, Outcome},
    auth::Caller,
    engine::Engine,
    error::LayoutError,
    grant::{LayoutGrants, ListedLayout},
    status,
};
use kent_ids::UnixNanos;
use kent_proto::{
    model::{self, Invalid, LayoutInput},
    v1::{
        self, CreateLayoutRequest, DeleteLayoutRequest, GetLayoutRequest, ListLayoutsRequest, ListLayoutsResponse,
        layouts_server::Layouts,
    },
};
use kent_transport::callers::{Author, author, caller};
use tonic::{Request, Response, Status};

use super::audited::record;

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
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let (name, layouts, now) = (request.into_inner().name, self.layouts().clone(), self.now());
        let deleted = async {
            check(&caller, Action::Edit, &name)?;
            let name = model::layout_name("name", &name)?;
            self.change(async move { layouts.delete(&name, now).await }).await
        };
        let deleted = deleted.await.map_err(|error| status::from_layout(&error));
        record(Event::new("layout.delete", &by, resource(&name)), &deleted, Outcome::Done);
        Ok(Response::new(message(&deleted?)))
    }
}

/// Fails if the caller may not do this with the layout. The check comes before the lookup, so that a caller cannot find
/// out which layouts exist.
fn check(caller: &Caller, action: Action, name: &str) -> Result<(), LayoutError> {
    // A name that is not valid is refused before it can appear in a permission.
    let name = model::layout_name("name", name).map_err(|invalid: Invalid| LayoutError::BadField(invalid))?;
    Ok(caller.check(action, Target::Layout(&name), || ("", ""))?)
}

fn resource(name: &str) -> String {
    format!("layout:{}", name.chars().take(kent_ids::MAX_NAME_LEN).collect::<String>())
}

fn message(listed: &ListedLayout) -> v1::Layout {
    model::layout(&listed.name, &listed.stored, listed.safe.as_ref())
}
