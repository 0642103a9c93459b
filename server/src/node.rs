//! A daemon without ports: the services on a store, clocks and chance that the caller brings.
//!
//! `Daemon` puts ports around one. The simulator runs several on simulated time, in one process.

use std::sync::Arc;

use kent_proto::v1::{admin_server::Admin, allocator_server::Allocator, regions_server::Regions};

use crate::{
    config::Config,
    engine::{Engine, Place},
    host::{Environment, tasks::Tasks},
    records::failure::LoadError,
    service::{AdminService, AllocatorService, RegionsService},
};

/// A running daemon without ports.
#[derive(Debug)]
pub struct Node {
    engine: Arc<Engine>,
    tasks: Tasks,
}

impl Node {
    /// Reads the whole state, checks it, and starts keeping a slot.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if anything stored is damaged, or newer than this program, or the store does not answer.
    pub async fn start(environment: Environment, config: &Config) -> Result<Self, LoadError> {
        let place = Place { kind: "simulated", location: String::new(), serves: String::new() };
        Self::start_at(place, environment, config, Tasks::new()).await
    }

    /// The same, on a store of which more is known.
    pub(crate) async fn start_at(
        place: Place,
        environment: Environment,
        config: &Config,
        tasks: Tasks,
    ) -> Result<Self, LoadError> {
        let engine = Engine::load(environment, config, place, &tasks).await;
        match engine {
            Ok(engine) => Ok(Self { engine, tasks }),
            Err(error) => {
                tasks.stop().await;
                Err(error)
            }
        }
    }

    /// What the ports call.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Where its tasks are.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Blocks of identifiers.
    pub fn allocator(&self) -> impl Allocator + use<> {
        AllocatorService::new(self.engine.clone())
    }

    /// Spaces, tables and edits.
    pub fn regions(&self) -> impl Regions + use<> {
        RegionsService::new(self.engine.clone())
    }

    /// How it fares.
    pub fn admin(&self) -> impl Admin + use<> {
        AdminService::new(self.engine.clone())
    }

    /// Whether a broken invariant has stopped it.
    pub fn has_failed(&self) -> bool {
        self.tasks.failed().is_cancelled()
    }

    /// Gives the unused rest back, and ends. Nothing may be asked of it meanwhile.
    pub async fn stop(self) {
        self.engine.draining().cancel();
        self.engine.give_back().await;
        self.tasks.stop().await;
    }

    /// Ends at once. Whoever wants the like of a crash takes the store away from it first.
    pub async fn abandon(self) {
        self.engine.draining().cancel();
        self.tasks.stop().await;
    }
}
