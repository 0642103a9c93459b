//! Ctrl-C stops a run between two measurements. The run then stops the programs that it started, and removes its files.

use std::{
    process,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit code after Ctrl-C.
const EXIT: i32 = 130;

/// Handles Ctrl-C from now on. The second Ctrl-C terminates the program immediately.
pub(crate) fn watch() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Register the handler here, so that it is active before the thread runs.
    let mut signals = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
    thread::spawn(move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                if INTERRUPTED.swap(true, Ordering::Relaxed) {
                    process::exit(EXIT);
                }
                eprintln!("\nstopping all started programs; press Ctrl-C again to exit immediately");
            }
        });
    });
    Ok(())
}

/// Fails after Ctrl-C.
pub(crate) fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
