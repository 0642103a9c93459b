//! The `kent.v1` protocol: generated code, and conversions between messages and domain types.
//!
//! Only [`model`] and [`stored`] read fields of generated messages, so no unchecked value from the wire gets past these
//! modules. A conversion to a domain type can fail with an error that names the bad field; a conversion to a message
//! cannot fail.

pub mod codec;
pub mod methods;
pub mod model;
pub mod note;
pub mod packed;
pub mod pieces;
pub mod stored;

/// Generated code of package `kent.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
pub mod v1 {
    pub use prost_types::FieldMask;

    pub use crate::packed::{PackedData, PackedIdentifiers};

    include!("generated/kent.v1.rs");
}

/// Generated code of package `kent.store.v1`: the records of the store.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
pub(crate) mod records {
    include!("generated/kent.store.v1.rs");
}

/// The encoded descriptor set of `kent.v1`, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/kent.v1.bin");
