//! Ctrl-C ends a run between two slices: what it started is ended, and what it wrote is removed.

use std::{
    process,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::bail;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit code of what Ctrl-C ended.
const EXIT: i32 = 130;

/// Listens for Ctrl-C from now on. The second one ends the program at once.
pub(crate) fn watch() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
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
