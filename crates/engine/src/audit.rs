//! The audit log: who changed what, and who was refused, as JSON lines in a separate file or on standard error.
//!
//! The daemon records an [`Event`] as a `tracing` event with the target `audit`. The layer [`Audit`] writes each event
//! as a line, and counts repeated refusals. Without the setting `audit`, there is no layer, and an event costs only a
//! comparison.

mod event;
mod file;
mod layer;
mod line;
mod place;
mod refusals;

pub use event::{By, Event, Outcome};
pub use layer::{Audit, AuditCounts, counts};
pub use place::AuditArgs;
pub use place::{AuditTo, Rotation};

/// The `tracing` target of audit events.
pub const TARGET: &str = "audit";
