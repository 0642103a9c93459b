//! The reflection service, which is built by its first call: most daemons never get one, and its descriptors take
//! several megabytes and milliseconds.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use kent_engine::{host::tasks::Tasks, status};
use tonic::{
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::NamedService,
};
use tonic_reflection::server::{
    Builder, Error,
    v1::{ServerReflection, ServerReflectionServer},
    v1alpha,
};
use tracing::error;

/// The current version of the service.
pub(crate) fn v1(tasks: &Tasks) -> OnFirstCall<ServerReflectionServer<impl ServerReflection + use<>>> {
    OnFirstCall::new(|| configure().build_v1(), tasks)
}

/// The older version, which is the only one that the reflection client of Python's gRPC package speaks.
pub(crate) fn v1alpha(
    tasks: &Tasks,
) -> OnFirstCall<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection + use<>>> {
    OnFirstCall::new(|| configure().build_v1alpha(), tasks)
}

fn configure() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(kent_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// A service that is built by its first call.
pub(crate) struct OnFirstCall<S> {
    service: Arc<OnceLock<Option<S>>>,
    build: fn() -> Result<S, Error>,
    tasks: Tasks,
}

impl<S: Clone + Send + Sync + 'static> OnFirstCall<S> {
    fn new(build: fn() -> Result<S, Error>, tasks: &Tasks) -> Self {
        Self { service: Arc::default(), build, tasks: tasks.clone() }
    }

    /// Returns the service, or `None` if it cannot be built.
    async fn get(&self) -> Option<S> {
        if let Some(service) = self.service.get() {
            return service.clone();
        }
        let (service, build) = (self.service.clone(), self.build);
        // Not on the thread of the connection, which answers grants.
        let build = move || build().inspect_err(|error| error!(%error, "the reflection service cannot be built")).ok();
        let building = self.tasks.spawn_call(async move { service.get_or_init(build).clone() });
        building.await.ok().flatten()
    }
}

impl<S> Clone for OnFirstCall<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), build: self.build, tasks: self.tasks.clone() }
    }
}

impl<S: NamedService> NamedService for OnFirstCall<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for OnFirstCall<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            match this.get().await {
                Some(mut service) => service.call(request).await,
                None => Ok(status::no_reflection().into_http()),
            }
        })
    }
}
