//! Ctrl-C ends a run between two slices: what it started is ended, and what it wrote is removed.

use std::{
    process,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit code of what Ctrl-C ended.
const EXIT: i32 = 130;

/// Listens for Ctrl-C from now on. The second one ends the program at once.
pub(crate) fn watch() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // From here on, not from when the thread runs.
    let mut signals = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
    thread::spawn(move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                if INTERRUPTED.swap(true, Ordering::Relaxed) {
                    process::exit(EXIT);
                }
                eprintln!("\nending what was started");
            }
        });
    });
    Ok(())
}

/// Refuses to go on after Ctrl-C.
pub(crate) fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
