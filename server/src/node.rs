//! A daemon without ports: the services on a store, clocks and random bits that the caller supplies.
//!
//! `Daemon` adds ports to a node. The simulator runs several nodes on simulated time in one process.

use std::sync::Arc;

use kent_engine::{
    engine::{Engine, Place},
    host::{Environment, tasks::Tasks},
    records::failure::LoadError,
};
use kent_proto::v1::{admin_server::Admin, allocator_server::Allocator, regions_server::Regions};
use kent_transport::{allocator::AllocatorService, tls::Tls};

use crate::{
    config::Config,
    service::{AdminService, RegionsService},
};

/// A running daemon without ports.
#[derive(Debug)]
pub struct Node {
    engine: Arc<Engine>,
    /// The certificates of the ports.
    tls: Option<Tls>,
    tasks: Tasks,
}

impl Node {
    /// Reads the whole state, checks it, and starts keeping a slot.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the state cannot be loaded, for example because a record is damaged.
    pub async fn start(environment: Environment, config: &Config) -> Result<Self, LoadError> {
        let place =
            Place { kind: "simulated", location: String::new(), address: String::new(), directories: Vec::new() };
        Self::start_at(place, None, environment, config, Tasks::on_this_runtime()).await
    }

    /// Like [`Node::start`], with a description of the store, the certificates of the ports, and the caller's tasks.
    pub(crate) async fn start_at(
        place: Place,
        tls: Option<Tls>,
        environment: Environment,
        config: &Config,
        tasks: Tasks,
    ) -> Result<Self, LoadError> {
        let engine = Engine::load(environment, config.engine(), place, &tasks).await;
        match engine {
            Ok(engine) => Ok(Self { engine, tls, tasks }),
            Err(error) => {
                tasks.stop().await;
                Err(error)
            }
        }
    }

    /// The engine, which the ports call.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The node's tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The service that grants blocks of identifiers.
    pub fn allocator(&self) -> impl Allocator + use<> {
        AllocatorService::new(self.engine.clone(), false)
    }

    /// The service for spaces, tables and edits.
    pub fn regions(&self) -> impl Regions + use<> {
        RegionsService::new(self.engine.clone())
    }

    /// The service for operators.
    pub fn admin(&self) -> impl Admin + use<> {
        AdminService::new(self.engine.clone(), self.tls.clone())
    }

    /// Whether a failed task or a broken invariant has stopped the node.
    pub fn has_failed(&self) -> bool {
        self.tasks.failed().is_cancelled()
    }

    /// Returns unused reservations to the store, and stops. No calls may be in progress.
    pub async fn stop(self) {
        self.engine.draining().cancel();
        self.engine.give_back().await;
        self.tasks.stop().await;
    }

    /// Stops without returning unused reservations. To simulate a crash, make the store unavailable first.
    pub async fn abandon(self) {
        self.engine.draining().cancel();
        self.tasks.stop().await;
    }
}

#[cfg(test)]
mod tests;
