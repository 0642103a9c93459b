//! The conformance kit for Kent's clients: simulates daemons from scripts, and checks how a client reacts to them.
//!
//! A [`script`], read by [`load`], defines how the daemons of one case answer, the commands for the client, and the
//! expected results. [`case::run`] plays a script: [`daemon`] and [`service`] simulate the daemons, [`adapter`] runs
//! the client under test in its own process, and [`ledger`] records every identifier that was granted. `README.md`
//! defines the protocol between the kit and a client.

pub mod adapter;
pub mod case;
pub mod certificates;
pub mod codes;
pub mod daemon;
pub mod expect;
pub mod ledger;
pub mod load;
pub mod log;
pub mod script;
pub mod service;
pub mod wire;
