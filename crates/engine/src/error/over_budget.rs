//! The error for a request of more identifiers than the caller's budget has left.

use kent_access::Holder;
use kent_ids::{Source, counted, grouped};
use thiserror::Error;

use super::were;

/// A budget has fewer identifiers left than were requested.
#[derive(Clone, Debug, Error)]
#[error(
    "the budget of {holder} for {resource} has {} left, but {} requested; an operator, with the token in FILE, can raise it: \
     kent budget add {holder} {resource} +{} --token-file FILE",
    counted(left, "identifier"),
    were(*requested),
    grouped(requested.saturating_sub(*left)),
    resource = self.resource(),
)]
pub struct OverBudget {
    /// The holder of the budget.
    pub(crate) holder: Holder,
    /// The source, as the caller named it.
    pub(crate) from: Source,
    /// The number of identifiers left for this replica.
    pub(crate) left: u64,
    /// The requested number.
    pub(crate) requested: u64,
}

impl OverBudget {
    /// The source, as a permission names it.
    pub(crate) fn resource(&self) -> String {
        match &self.from {
            Source::Region { name, space } => format!("region:{space}/{name}"),
            Source::Format(_) | Source::Series(_) | Source::Layout(_) => self.from.to_string(),
        }
    }
}
