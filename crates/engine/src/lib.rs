//! The Kent daemon without its ports: it grants identifiers and edits prefix tables on a store, alone or as one of
//! many replicas.
//!
//! | module | purpose |
//! |---|---|
//! | `engine` | the functions that services call |
//! | `readiness` | whether the daemon can grant, and the reasons if it cannot |
//! | `access` | changes to tokens, roles and budgets |
//! | `auth`, `budgets` | who callers are, what they may do, and how many identifiers they may take |
//! | `grant` | how blocks are granted, immediately or after a wait |
//! | `cluster` | the replicas on one store |
//! | `metrics`, `figures` | metrics for Prometheus; figures of the last minutes for the console |
//! | `fill`, `patterns` | how full regions are; the patterns that select regions |
//! | `tables` | spaces, their tables, edits and history |
//! | `issuing` | slots, counters and request IDs, and their records |
//! | `records` | the keys of the store, and the reading of records |
//! | `error` | errors of requests |
//! | `status` | the only file that creates a `tonic::Status` |
//! | `audit` | the audit log |
//! | `causes` | an error with its causes, as text |
//! | `host` | the only files that read clocks, draw random bits and spawn tasks |
//!
//! This crate is a part of the daemon, not a library: its interface changes with the daemon. The imports between
//! modules form no cycle; a test of the daemon, `tests/it/imports.rs`, checks this.

pub mod access;
pub mod audit;
pub mod auth;
pub mod budgets;
pub mod causes;
pub mod cluster;
pub mod engine;
pub mod error;
pub mod figures;
pub mod fill;
pub mod grant;
pub mod host;
pub mod issuing;
pub mod metrics;
pub mod patterns;
pub mod readiness;
pub mod records;
pub mod status;
pub mod tables;
