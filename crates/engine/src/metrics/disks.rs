//! The metrics of the disks on which the daemon makes data durable.

use std::path::PathBuf;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::family::Family,
    registry::{Registry, Unit},
};
use rustix::fs::statvfs;

use super::Level;

/// The metrics of the disks.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskMetrics {
    size: Family<DiskLabel, Level>,
    free: Family<DiskLabel, Level>,
}

/// The label with the setting of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DiskLabel {
    setting: &'static str,
}

impl DiskMetrics {
    pub(super) fn register(&self, kent: &mut Registry) {
        kent.register_with_unit("disk_size", "Size of the disk that holds a directory", Unit::Bytes, self.size.clone());
        kent.register_with_unit(
            "disk_free",
            "Space that the daemon can use on the disk that holds a directory",
            Unit::Bytes,
            self.free.clone(),
        );
    }

    /// Updates the metrics of the disks that hold these directories. A disk that cannot be read has no metrics.
    pub(crate) fn set(&self, directories: &[(&'static str, PathBuf)]) {
        self.size.clear();
        self.free.clear();
        for (setting, path) in directories {
            let Ok(disk) = statvfs(path) else { continue };
            let (label, block) = (DiskLabel { setting }, disk.f_frsize as f64);
            self.size.get_or_create(&label).set(disk.f_blocks as f64 * block);
            self.free.get_or_create(&label).set(disk.f_bavail as f64 * block);
        }
    }
}
