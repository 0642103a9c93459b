//! Services whose calls may take a while: they run on the daemon's runtime, not on the thread that serves the connection.
//!
//! A thread of the gRPC port answers grants within microseconds, one after the other. A page of a table or ten thousand
//! classifications in between would make all grants on its connections wait.

use std::{
    convert::Infallible,
    future,
    panic::resume_unwind,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tonic::{
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::NamedService,
};

use crate::tasks::Tasks;

/// A service that runs elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Aside<S> {
    service: S,
    tasks: Tasks,
}

impl<S> Aside<S> {
    pub(crate) fn new(service: S, tasks: &Tasks) -> Self {
        Self { service, tasks: tasks.clone() }
    }
}

impl<S: NamedService> NamedService for Aside<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Aside<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Given up when its caller goes away, as it would be here.
        let call = self.tasks.spawn_call(self.service.call(request));
        Box::pin(async move {
            match call.await {
                Ok(answered) => answered,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The daemon has stopped: nobody is there to be answered.
                    Err(_) => future::pending().await,
                },
            }
        })
    }
}
