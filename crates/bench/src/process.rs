//! Programs under measurement: daemons, the bare transport and peers. Each is a separate process, which is stopped at
//! the end even if this program is killed.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};

use crate::{contest::Slice, figures::now};

/// A program that runs until this value is dropped.
pub(crate) struct Process {
    child: Child,
    /// A process that stops the program after this process exits, even if this process is killed. It detects the exit
    /// by reading a pipe from this process.
    reaper: Child,
    signal: &'static str,
}

/// The time that a program has to exit before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

impl Process {
    /// Starts a program. `signal` is the signal that makes it shut down cleanly.
    pub(crate) fn start(command: &mut Command, signal: &'static str) -> anyhow::Result<Self> {
        // The program gets its own process group, so that it does not receive Ctrl-C. This process stops the program
        // after the current slice.
        let mut child = command.process_group(0).stdin(Stdio::null()).spawn().context("cannot start the program")?;
        let mut reaper = Command::new("sh");
        reaper.args(["-c", &format!("cat; kill -s {signal} {}", child.id())]).process_group(0);
        let reaper = reaper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match reaper.context("cannot start sh") {
            Ok(reaper) => Ok(Self { child, reaper, signal }),
            Err(error) => {
                let _ = child.kill();
                Err(error)
            }
        }
    }

    pub(crate) fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Shuts down the program with its signal.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        ensure!(self.is_running()?, "the program ended too early");
        self.signal()?;
        ensure!(self.child.wait()?.success(), "the program failed");
        Ok(())
    }

    /// Kills the program with SIGKILL.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill()?)
    }

    fn signal(&self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        ensure!(Command::new("kill").args(["-s", self.signal, &pid]).status()?.success(), "cannot signal the program");
        Ok(())
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in the process status")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib << 10)
    }

    /// Returns the number of open files.
    pub(crate) fn files(&self) -> anyhow::Result<u64> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count() as u64)
    }

    /// Runs a slice of load on the program, and adds the processor time that the program used.
    pub(crate) fn watched(&self, slice: impl FnOnce() -> anyhow::Result<Slice>) -> anyhow::Result<Slice> {
        let before = self.busy()?;
        let slice = slice()?;
        Ok(Slice { busy: Some(self.busy()?.saturating_sub(before)), ..slice })
    }

    /// Returns the processor time of the program so far.
    pub(crate) fn busy(&self) -> anyhow::Result<Duration> {
        busy(&fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?)
    }
}

/// Returns the processor time of a process, from its `stat` file under /proc.
fn busy(stat: &str) -> anyhow::Result<Duration> {
    // The name may contain spaces and ends at the last parenthesis. User and system time are the 14th and 15th fields.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat contains no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>()?;
    Ok(Duration::from_secs(1) / TICKS * ticks)
}

/// The number of clock ticks per second in /proc. This number is the same on all Linux architectures that Rust
/// supports.
const TICKS: u32 = 100;

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.signal().is_ok() {
            let began = now();
            while began.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(PAUSE);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reaper.kill();
        let _ = self.reaper.wait();
    }
}

/// A server that prints its address on standard output.
pub(crate) struct Served {
    pub(crate) process: Process,
    /// The address as HOST:PORT.
    pub(crate) address: String,
    /// The address of the HTTP port, if the server has one.
    pub(crate) http: Option<String>,
}

/// Returns the command that starts the daemon to measure: `named`, or the `kentd` in the directory of this program.
fn kentd(named: Option<&PathBuf>) -> anyhow::Result<Command> {
    let mut command = Command::new(sibling("kentd", named)?);
    command.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "warn"]);
    // Raise the limits, because the whole load comes from one address.
    command.args(["--connections", "1000000", "--connections-per-address", "1000000"]);
    Ok(command)
}

/// Returns the path `named`, or the path of `name` in the directory of this program.
pub(crate) fn sibling(name: &str, named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    let program = match named {
        Some(path) => path.clone(),
        None => env::current_exe()?.with_file_name(name),
    };
    ensure!(program.exists(), "{} does not exist; run `cargo build --release --workspace`", program.display());
    Ok(program)
}

/// Finds a program in the directories of PATH or in the additional directories.
pub(crate) fn installed(name: &str, more: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(more.iter().cloned()).map(|dir| dir.join(name)).find(|program| program.is_file())
}

impl Served {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut process = Process::start(command.stdout(Stdio::piped()), "TERM")?;
        let mut line = String::new();
        let stdout = process.child.stdout.take().context("the program's output is not piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let mut addresses = line.split_whitespace().filter(|word| word.contains(':')).map(str::to_owned);
        let Some(address) = addresses.next() else { bail!("expected a line with an address, got {line:?}") };
        Ok(Self { address, http: addresses.next(), process })
    }

    /// Starts a daemon whose store and witness are in a directory.
    pub(crate) fn kentd(named: Option<&PathBuf>, dir: &Path) -> anyhow::Result<Self> {
        Self::kentd_on(named, &dir.join("store"))
    }

    /// Starts a daemon on a store.
    pub(crate) fn kentd_on(named: Option<&PathBuf>, store: &Path) -> anyhow::Result<Self> {
        Self::kentd_with(named, store, &[])
    }

    /// Starts a daemon on a store with additional arguments.
    pub(crate) fn kentd_with(named: Option<&PathBuf>, store: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let witness = store.with_file_name("witness");
        Self::start(kentd(named)?.arg("--data").arg(store).arg("--witness").arg(witness).args(more))
    }

    /// Starts the bare transport.
    pub(crate) fn bare() -> anyhow::Result<Self> {
        Self::bare_with(&[])
    }

    pub(crate) fn bare_with(more: &[&str]) -> anyhow::Result<Self> {
        Self::start(Command::new(env::current_exe()?).arg("bare").args(more))
    }

    /// Shuts down the server with SIGTERM.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        self.process.resident()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_process_name_may_contain_spaces_and_parentheses() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 100 1000 200";
        assert_eq!(busy(stat).expect("well-formed"), Duration::from_secs(3));
        assert!(busy("7").is_err());
    }

    #[test]
    fn ok_a_process_ends_when_it_is_dropped() {
        let process = Process::start(Command::new("sleep").arg("100"), "TERM").expect("sleep starts");
        let proc = PathBuf::from(format!("/proc/{}", process.child.id()));
        assert!(proc.exists());
        drop(process);
        assert!(!proc.exists());
    }
}
