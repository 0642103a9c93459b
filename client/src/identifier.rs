//! The types of identifiers that handles return.

use kent_ids::{Id, IdKind, Uid11};
use uuid::Uuid;

/// A type of identifier that a handle can return.
pub trait Identifier: Copy + Send + 'static {
    /// Converts an identifier to this type. Returns `None` if it is of another kind.
    fn from_id(id: Id) -> Option<Self>;

    /// Converts many values of one kind, as [`from_id`](Self::from_id) does, and appends them. Appends nothing if this
    /// type is for another kind.
    fn extend(ids: &mut Vec<Self>, kind: IdKind, values: &[u128]) {
        ids.extend(values.iter().filter_map(|value| Self::from_id(kind.id(*value))));
    }
}

impl Identifier for Id {
    fn from_id(id: Id) -> Option<Self> {
        Some(id)
    }
}

impl Identifier for Uuid {
    fn from_id(id: Id) -> Option<Self> {
        if let Id::Uuid(uuid) = id { Some(uuid) } else { None }
    }

    fn extend(ids: &mut Vec<Self>, kind: IdKind, values: &[u128]) {
        if kind == IdKind::Uuid {
            ids.extend(values.iter().map(|value| Self::from_u128(*value)));
        }
    }
}

impl Identifier for Uid11 {
    fn from_id(id: Id) -> Option<Self> {
        if let Id::Uid11(uid11) = id { Some(uid11) } else { None }
    }

    fn extend(ids: &mut Vec<Self>, kind: IdKind, values: &[u128]) {
        if kind == IdKind::Uid11 {
            ids.extend(values.iter().map(|value| Self::new(*value as u64))); // OK because a uid11 has 64 bits
        }
    }
}

impl Identifier for u128 {
    fn from_id(id: Id) -> Option<Self> {
        if let Id::Number { value, .. } = id { Some(value) } else { None }
    }

    fn extend(ids: &mut Vec<Self>, kind: IdKind, values: &[u128]) {
        if matches!(kind, IdKind::Number { .. }) {
            ids.extend_from_slice(values);
        }
    }
}
