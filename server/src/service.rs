//! The gRPC services: they translate requests and answers. `engine` makes the decisions.

mod access;
mod admin;
mod asks;
mod audited;
mod classify;
mod codec;
mod console;
mod diagnose;
mod figures;
mod floors;
mod layouts;
mod map;
mod regions;
mod sealed;
mod watch;
mod watcher;

pub(crate) use access::AccessService;
pub(crate) use admin::AdminService;
pub(crate) use codec::CodecService;
pub(crate) use layouts::LayoutsService;
pub(crate) use regions::RegionsService;
