//! Measures what the daemon depends on (its disk, its store and its limits) without blocking grants.

use std::{
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join;
use kent_engine::{
    engine::Engine,
    fill::Fill,
    host::{clock::Clock, process::ProcessUse},
};
use kent_store::{Servers, SledSizes};
use kent_transport::tls::Tls;
use rustix::fs::statvfs;
use tokio::time;

/// The measurements of what the daemon depends on.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) directories: Vec<Directory>,
    /// The sizes of a store in a directory.
    pub(crate) sizes: Option<SledSizes>,
    /// The servers of a shared store.
    pub(crate) servers: Option<Servers>,
    pub(crate) process: ProcessUse,
    /// The regions that will be full first.
    pub(crate) full_first: Vec<Fill>,
    /// The settings and files of certificates, and the seconds until each expires.
    pub(crate) certificates: Vec<(&'static str, PathBuf, f64)>,
}

/// A directory in which the daemon makes data durable.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The setting that names the directory.
    pub(crate) setting: &'static str,
    pub(crate) path: PathBuf,
    /// The measurements, or why they failed.
    pub(crate) disk: Result<Disk, String>,
}

/// The disk of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// The space that the daemon may use, in bytes.
    pub(crate) free: u64,
    /// The size of the file system, in bytes.
    pub(crate) total: u64,
    /// The time until a block is durable: the median and the maximum.
    pub(crate) sync: Duration,
    pub(crate) sync_max: Duration,
}

/// The maximum time for measuring all directories, and for an earlier measurement to end.
const DISK_LIMIT: Duration = Duration::from_secs(3);

/// The number of blocks that a measurement writes and makes durable.
const SYNCS: usize = 5;
/// The size of such a block in bytes: about the size of a commit.
const BLOCK_BYTES: usize = 4096;

/// The number of regions to list among those that will be full first.
const FULL_FIRST: usize = 3;

/// Measures what the daemon depends on. Takes up to six seconds.
pub(crate) async fn measure(engine: &Arc<Engine>, tls: Option<&Tls>) -> Measured {
    let (directories, servers) = join(directories(engine), engine.store().servers()).await;
    let sizes = directories.iter().find(|directory| directory.setting == DATA);
    Measured {
        sizes: sizes.and_then(|data| SledSizes::read(&data.path).ok()),
        directories,
        servers,
        process: ProcessUse::read(),
        full_first: engine.full_first(FULL_FIRST),
        certificates: certificates(engine, tls),
    }
}

fn certificates(engine: &Engine, tls: Option<&Tls>) -> Vec<(&'static str, PathBuf, f64)> {
    let now = engine.clock().wall().get() as f64 / 1e9; // OK because seconds need no more precision
    let ends = tls.into_iter().flat_map(Tls::ends);
    ends.map(|(setting, path, end)| (setting, path, end.as_secs_f64() - now)).collect()
}

/// The setting that names the directory of a sled store.
const DATA: &str = "data";

/// Measures the directories, one caller at a time, on a separate thread because a disk may hang.
async fn directories(engine: &Arc<Engine>) -> Vec<Directory> {
    let failed = |problem: String| {
        let directories = engine.place().directories.iter();
        let unmeasured =
            directories.map(|(setting, path)| Directory { setting, path: path.clone(), disk: Err(problem.clone()) });
        unmeasured.collect()
    };
    let Ok(Ok(turn)) = time::timeout(DISK_LIMIT, engine.measuring().acquire_owned()).await else {
        return failed("an earlier measurement has not ended: the disk may be hanging".to_owned());
    };
    let measured = {
        let engine = engine.clone();
        move || {
            let _turn = turn;
            let directories = engine.place().directories.iter();
            let measured = directories.map(|(setting, path)| Directory {
                setting,
                path: path.clone(),
                disk: Disk::measure(path, engine.clock()).map_err(|error| error.to_string()),
            });
            measured.collect()
        }
    };
    match time::timeout(DISK_LIMIT, engine.tasks().spawn_locking(measured)).await {
        Ok(Ok(measured)) => measured,
        Ok(Err(_)) => failed("the measurement failed".to_owned()),
        Err(_) => failed(format!("not measured within {DISK_LIMIT:?}: the disk may be hanging")),
    }
}

impl Disk {
    fn measure(path: &Path, clock: &dyn Clock) -> io::Result<Self> {
        let space = statvfs(path)?;
        // If the file system allows unnamed files, the file has no name, so a crash leaves nothing behind.
        let file = tempfile::tempfile_in(path)?;
        let sync = || {
            file.write_all_at(&[0; BLOCK_BYTES], 0)?;
            let began = clock.steady();
            file.sync_data()?;
            io::Result::Ok(clock.steady().saturating_sub(began))
        };
        // The first write is not measured, because it also allocates the block, whereas commits to the journal allocate
        // none.
        sync()?;
        let mut times = (0..SYNCS).map(|_| sync()).collect::<Result<Vec<_>, _>>()?;
        times.sort_unstable();
        Ok(Self {
            free: space.f_bavail.saturating_mul(space.f_frsize),
            total: space.f_blocks.saturating_mul(space.f_frsize),
            sync: times[SYNCS / 2],
            sync_max: times[SYNCS - 1],
        })
    }
}

#[cfg(test)]
mod tests {
    use kent_engine::host::clock::SystemClock;

    use super::*;

    #[test]
    fn ok_a_measurement_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Disk::measure(dir.path(), &SystemClock::new()).expect("measured");
        assert!(disk.free > 0 && disk.free <= disk.total, "{disk:?}");
        assert!(disk.sync > Duration::ZERO && disk.sync <= disk.sync_max, "{disk:?}");
        assert_eq!(dir.path().read_dir().expect("a directory").count(), 0);
        Disk::measure(&dir.path().join("none"), &SystemClock::new()).expect_err("not there");
    }
}
