//! Pauses and resumes child processes.

use std::process::Child;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Pauses a child process with SIGSTOP, and waits until all its threads have stopped. On a busy machine threads run for
/// milliseconds after the signal.
///
/// # Panics
///
/// If the process has ended.
pub fn pause(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).expect("it runs");
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is ours").expect("it was waited for");
    assert!(status.stopped(), "it ended: {status:?}");
}

/// Resumes a paused child process.
///
/// # Panics
///
/// If the process has ended.
pub fn resume(child: &Child) {
    kill_process(Pid::from_child(child), Signal::CONT).expect("it runs");
}
