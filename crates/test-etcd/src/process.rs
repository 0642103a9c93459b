//! Stopping processes in their tracks.

use std::process::Child;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Stops a child process, and returns when each of its threads stands still. A signal alone does not wait for that: on a busy
/// machine, threads run on for milliseconds.
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

/// Lets a paused child process go on.
///
/// # Panics
///
/// If the process has ended.
pub fn resume(child: &Child) {
    kill_process(Pid::from_child(child), Signal::CONT).expect("it runs");
}
