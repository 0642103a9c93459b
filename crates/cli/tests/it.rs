//! The binary `kent`, run as people and programs run it, without a daemon or against one that plays a part.

#[path = "it/alloc.rs"]
mod alloc;
#[path = "it/codec.rs"]
mod codec;
#[path = "it/daemon.rs"]
mod daemon;
#[path = "it/inspect.rs"]
mod inspect;
#[path = "it/run.rs"]
mod run;
#[path = "it/usage.rs"]
mod usage;
