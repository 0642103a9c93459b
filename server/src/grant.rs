//! Granting: who asks for identifiers of a source gets a block, at once or after a wait.

pub(crate) mod held;
pub(crate) mod regions;
pub(crate) mod series;
