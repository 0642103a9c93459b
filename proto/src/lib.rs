//! The `kent.v1` protocol: the code generated from the `.proto` files, and conversions to and from domain types.
//!
//! Generated messages stop at [`model`] and [`stored`]: outside of them nobody reads a field of a message that came over the
//! wire without its having been checked. Conversions into domain types are `TryFrom` (or a function that can fail) and name
//! the field at fault; conversions out of them cannot fail.

pub mod codec;
pub mod model;
pub mod note;
pub mod packed;
pub mod stored;

/// Generated code of package `kent.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    pub use crate::packed::{PackedData, PackedIdentifiers};

    tonic::include_proto!("kent.v1");
}

/// Generated code of package `kent.store.v1`: what the daemon keeps in its store.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub(crate) mod records {
    tonic::include_proto!("kent.store.v1");
}

/// The descriptors of `kent.v1`, encoded, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kent.v1.bin"));
