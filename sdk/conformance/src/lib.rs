//! The conformance kit of Kent's clients: plays daemons by scripts, and checks what a client makes of them.
//!
//! A [`script`], which [`load`] reads, says how the daemons of one case answer, what the client is told to do, and what must come of
//! it. [`case::run`] plays it: [`daemon`] and [`service`] are the daemons, [`adapter`] is the client under test in a process of its own,
//! and [`ledger`] knows every identifier that was granted. `README.md` has the protocol between the kit and a client.

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
