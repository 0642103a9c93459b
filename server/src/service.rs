//! The gRPC services: requests in, answers out. What they decide is decided in `engine`.

mod admin;
mod allocator;
mod classify;
mod codec;
mod regions;
mod text;
mod watch;

pub(crate) use admin::AdminService;
pub(crate) use allocator::AllocatorService;
pub(crate) use codec::CodecService;
pub(crate) use regions::RegionsService;
