//! Messages of `kent.v1` to domain types and back.

mod block;
mod names;
mod regions;

use thiserror::Error;

pub use block::{AllocateInput, pack};
pub use names::{RegionName, SpaceName, region_name, space_name};
pub use regions::{
    ClassifyInput, EditInput, Page, SpaceInput, classification, edit_response, page_token, parse_page, region, space,
};

use crate::v1;

/// A field of a message that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field's name in the protocol.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Invalid {
    /// A field and its problem.
    pub fn new(field: &'static str, problem: impl ToString) -> Self {
        Self { field, problem: problem.to_string() }
    }
}

impl From<u128> for v1::Uint128 {
    fn from(value: u128) -> Self {
        // OK because both halves are cut off on purpose.
        Self { high: (value >> 64) as u64, low: value as u64 }
    }
}

impl From<v1::Uint128> for u128 {
    fn from(value: v1::Uint128) -> Self {
        Self::from(value.high) << 64 | Self::from(value.low)
    }
}
