//! Pauses and resumes child processes.

use std::process::Child;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Pauses a child process with SIGSTOP, and waits until all its threads have stopped. On a busy machine, threads run on
/// for milliseconds after the signal.
///
/// # Panics
///
/// Panics if the process has ended.
pub fn pause(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).expect("the process runs");
    let (_, status) =
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is a child process").expect("its status has changed");
    assert!(status.stopped(), "the process ended: {status:?}");
}

/// Resumes a paused child process.
///
/// # Panics
///
/// Panics if the process has ended.
pub fn resume(child: &Child) {
    kill_process(Pid::from_child(child), Signal::CONT).expect("the process runs");
}
