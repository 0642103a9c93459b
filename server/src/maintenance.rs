//! Copies of stores: backups, archives, restores, the migration to etcd, and the witness, which detects an old copy.
//! This module also contains the diagnosis, which measures the disk, the store and the limits of the daemon.

pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod diagnosis;
pub(crate) mod filling;
pub(crate) mod migrate;
pub(crate) mod restore;
pub(crate) mod witness;
