//! Dispatches the calls of the gRPC port to the services by name.
//!
//! tonic's router takes longer to find a service, and to box the request and the answer, than a grant takes. So a comparison finds
//! `Allocator`, which gets a hundred thousand calls per second; the router finds the other services.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use futures_util::future::Either;
use tonic::{
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::NamedService,
    service::Routes,
};

/// The frequently used service, and the router for the others.
#[derive(Clone, Debug)]
pub(crate) struct Port<S> {
    allocator: S,
    others: Routes,
}

impl<S> Port<S> {
    pub(crate) fn new(allocator: S, others: Routes) -> Self {
        Self { allocator, others: others.prepare() }
    }
}

impl<S> Service<Request<Body>> for Port<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Unpin> + NamedService,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, <Routes as Service<Request<Body>>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self.allocator.poll_ready(cx) {
            Poll::Ready(Ok(())) => Service::<Request<Body>>::poll_ready(&mut self.others, cx),
            waiting => waiting,
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match is_of(S::NAME, request.uri().path()) {
            true => Either::Left(self.allocator.call(request)),
            false => Either::Right(self.others.call(request)),
        }
    }
}

/// Whether a path is `/service/method`.
fn is_of(service: &str, path: &str) -> bool {
    let method =
        path.strip_prefix('/').and_then(|path| path.strip_prefix(service)).and_then(|path| path.strip_prefix('/'));
    method.is_some_and(|method| !method.is_empty())
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn ok_a_service_is_found_by_its_whole_name() {
        let paths = [
            ("/kent.v1.Allocator/Allocate", true),
            ("/kent.v1.Allocator/NoSuchMethod", true),
            ("/kent.v1.Allocators/Allocate", false),
            ("/kent.v1.Allocator/", false),
            ("/kent.v1.Allocator", false),
            ("kent.v1.Allocator/Allocate", false),
            ("/kent.v1.Regions/Find", false),
            ("/", false),
            ("", false),
        ];
        for (path, expected) in paths {
            assert_eq!(is_of("kent.v1.Allocator", path), expected, "{path:?}");
        }
    }
}
