//! The resources that this process uses: processor time, memory and files.

use std::{fs, time::Duration};

use rustix::{
    param::page_size,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::host::clock::processor_time;

/// The resources that this process uses. A value is `None` if the system does not report it.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUse {
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: Option<u64>,
    /// The number of open files.
    pub open_files: Option<u64>,
    /// The maximum number of open files, or `None` if there is no limit.
    pub open_files_max: Option<u64>,
}

impl ProcessUse {
    /// Reads the current values. The more files are open, the longer this takes.
    pub fn read() -> Self {
        Self {
            cpu: processor_time(),
            resident_bytes: resident_bytes(),
            // The directory that is being read does not count.
            open_files: fs::read_dir("/proc/self/fd").ok().map(|files| (files.count() as u64).saturating_sub(1)),
            open_files_max: getrlimit(Resource::Nofile).current,
        }
    }
}

/// Raises the limit on open files as far as the system allows, and returns the new limit, or `None` if there is none.
pub fn open_files_max() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // OK because the old limit stays in force.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.map(|files| usize::try_from(files).unwrap_or(usize::MAX))
}

fn resident_bytes() -> Option<u64> {
    // Sizes in pages: all, resident, shared, and others.
    let sizes = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_linux_reports_the_resources_of_a_process() {
        let before = ProcessUse::read();
        let file = tempfile::tempfile().expect("a file");
        let with_file = ProcessUse::read();
        assert!(with_file.cpu > Duration::ZERO && with_file.cpu >= before.cpu);
        assert!(with_file.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(with_file.open_files.is_some_and(|open| open >= 4 && Some(open) <= with_file.open_files_max));
        drop(file);
    }
}
