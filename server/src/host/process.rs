//! What this process uses: processor time, memory and files.

use std::{fs, time::Duration};

use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
};

use crate::host::clock::processor_time;

/// What this process uses. A value is `None` if the system does not tell it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessUse {
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    /// The maximum number of open files, or `None` if there is none.
    pub(crate) open_files_max: Option<u64>,
}

impl ProcessUse {
    /// Reads what this process uses now. This takes longer the more files are open.
    pub(crate) fn read() -> Self {
        Self {
            cpu: processor_time(),
            resident_bytes: resident_bytes(),
            // Without the directory that is being read.
            open_files: fs::read_dir("/proc/self/fd").ok().map(|files| (files.count() as u64).saturating_sub(1)),
            open_files_max: getrlimit(Resource::Nofile).current,
        }
    }
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
    fn ok_linux_tells_what_a_process_uses() {
        let before = ProcessUse::read();
        let file = tempfile::tempfile().expect("a file");
        let with_file = ProcessUse::read();
        assert!(with_file.cpu > Duration::ZERO && with_file.cpu >= before.cpu);
        assert!(with_file.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(with_file.open_files.is_some_and(|open| open >= 4 && Some(open) <= with_file.open_files_max));
        drop(file);
    }
}
