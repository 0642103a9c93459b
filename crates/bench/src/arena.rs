//! The setup of most scenarios: a fresh daemon, the bare transport, and a runtime for the load on both.

use std::path::Path;

use kent_client::Client;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    contest::{Contender, Contest, Options, Slice, Unit},
    lean::Caller,
    load::{self, Load},
    process::Served,
};

/// The setup of a scenario. Dropping an arena stops all programs that it started.
pub(crate) struct Arena {
    pub(crate) options: Options,
    pub(crate) contest: Contest,
    pub(crate) runtime: Runtime,
    pub(crate) bare: Served,
    pub(crate) daemon: Served,
    data: TempDir,
}

impl Arena {
    pub(crate) fn open(scenario: &'static str, unit: Unit, options: &Options) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        Ok(Self {
            options: options.clone(),
            contest: Contest::new(scenario, unit, options)?,
            runtime: options.runtime()?,
            bare: Served::bare()?,
            daemon: Served::kentd(options.kentd.as_ref(), data.path())?,
            data,
        })
    }

    /// Returns a contender that puts a load on the bare transport.
    pub(crate) fn bare<'a>(&'a self, load: &'a Load) -> Contender<'a> {
        Contender::new("bare", || self.slice(&self.bare, load))
    }

    /// Returns a contender that puts a load on the daemon.
    pub(crate) fn kentd<'a>(&'a self, load: &'a Load) -> Contender<'a> {
        Contender::new("kentd", || self.slice(&self.daemon, load))
    }

    /// Runs one slice of load on a server.
    pub(crate) fn slice(&self, server: &Served, load: &Load) -> anyhow::Result<Slice> {
        self.slice_as(server, &Caller::default(), load)
    }

    /// Runs one slice of load on a server, as a caller with TLS or a token.
    pub(crate) fn slice_as(&self, server: &Served, caller: &Caller, load: &Load) -> anyhow::Result<Slice> {
        let slice = || self.runtime.block_on(load::run_as(load, &server.address, caller, self.options.length()));
        server.process.watched(slice)
    }

    /// Returns a client of the daemon. Use the client inside the runtime.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(format!("http://{}", self.daemon.address))?)
    }

    /// Returns the directory that contains the daemon's store. Files created in it are on the same disk as the store.
    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// Prints the facts, and stops all programs.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        self.contest.finish();
        // Open connections would delay the shutdown of the daemon.
        drop(self.runtime);
        self.daemon.stop()
    }
}
