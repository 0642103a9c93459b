//! One file a format.

pub(crate) mod uuidv6;
pub(crate) mod uuidv7;
pub(crate) mod xid;
