//! Properties of the prefix table: random scripts checked against simple models (Kent 1992; regions.md).

#[path = "it/imported.rs"]
mod imported;
#[path = "it/maps.rs"]
mod maps;
#[path = "it/naive.rs"]
mod naive;
#[path = "it/restore.rs"]
mod restore;
#[path = "it/script.rs"]
mod script;
#[path = "it/wide.rs"]
mod wide;
