//! The gRPC services: requests in, answers out. What they decide is decided in `engine`.

mod admin;
mod allocator;
mod aside;
mod classify;
mod codec;
mod port;
mod regions;
mod watch;

pub(crate) use admin::AdminService;
pub(crate) use allocator::AllocatorService;
pub(crate) use aside::Aside;
pub(crate) use codec::CodecService;
pub(crate) use port::Port;
pub(crate) use regions::RegionsService;
