//! Runs the binary `kent` without a daemon, or against a fake one.

#[path = "it/alloc.rs"]
mod alloc;
#[path = "it/codec.rs"]
mod codec;
#[path = "it/context.rs"]
mod context;
#[path = "it/daemon.rs"]
mod daemon;
#[path = "it/inspect.rs"]
mod inspect;
#[path = "it/man.rs"]
mod man;
#[path = "it/run.rs"]
mod run;
#[path = "it/screen.rs"]
mod screen;
#[path = "it/usage.rs"]
mod usage;
