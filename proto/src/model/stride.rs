//! Strides in messages.

use kent_ids::Stride;

use crate::v1;

/// Converts a stride from its message. Returns `None` if it is not valid.
pub fn stride_from(stride: v1::Stride) -> Option<Stride> {
    Stride::new(stride.step.try_into().ok()?, stride.offset.try_into().ok()?)
}

/// Converts a stride to its message; every number has none.
pub(super) fn stride(stride: Stride) -> Option<v1::Stride> {
    let message = v1::Stride { step: stride.step().into(), offset: stride.offset().into() };
    (stride != Stride::EVERY).then_some(message)
}
