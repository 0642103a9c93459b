//! Programs under measurement: daemons, the bare transport and peers, each a process of its own that ends with the measurement,
//! however that ends.

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

/// A program that runs until it is dropped.
pub(crate) struct Process {
    child: Child,
    /// Ends the program when this one is gone, even if it was killed: its standard input is a pipe that ends with us.
    reaper: Child,
    signal: &'static str,
}

/// How long a program has to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

impl Process {
    /// Starts it. The signal is the one that it ends by in good order.
    pub(crate) fn start(command: &mut Command, signal: &'static str) -> anyhow::Result<Self> {
        // Ctrl-C at the terminal goes to a whole group of processes; this one is ended by us, after the slice that needs it.
        let mut child = command.process_group(0).stdin(Stdio::null()).spawn().context("the program did not start")?;
        let mut reaper = Command::new("sh");
        reaper.args(["-c", &format!("cat; kill -s {signal} {}", child.id())]).process_group(0);
        let reaper = reaper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match reaper.context("sh did not start") {
            Ok(reaper) => Ok(Self { child, reaper, signal }),
            Err(error) => {
                let _ = child.kill();
                Err(error)
            }
        }
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Ends it as an operator would.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        ensure!(self.is_running()?, "the program ended too early");
        self.signal()?;
        ensure!(self.child.wait()?.success(), "the program failed");
        Ok(())
    }

    fn signal(&self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        ensure!(
            Command::new("kill").args(["-s", self.signal, &pid]).status()?.success(),
            "the program was not stopped"
        );
        Ok(())
    }

    /// Bytes of memory that it has.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib << 10)
    }

    /// A slice of load on it, with the time that processors spent on it meanwhile.
    pub(crate) fn watched(&self, slice: impl FnOnce() -> anyhow::Result<Slice>) -> anyhow::Result<Slice> {
        let before = self.busy()?;
        let slice = slice()?;
        Ok(Slice { busy: Some(self.busy()?.saturating_sub(before)), ..slice })
    }

    /// The time that processors have spent on it.
    pub(crate) fn busy(&self) -> anyhow::Result<Duration> {
        busy(&fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?)
    }
}

/// The time that processors have spent on a process, from its `stat` under /proc.
fn busy(stat: &str) -> anyhow::Result<Duration> {
    // The name may have spaces; it ends with the last parenthesis. User and system time are the 14th and 15th fields.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>()?;
    Ok(Duration::from_secs(1) / TICKS * ticks)
}

/// Clock ticks a second, as /proc counts on all architectures of Linux.
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

/// A program that serves, and says on standard output where.
pub(crate) struct Served {
    pub(crate) process: Process,
    /// HOST:PORT.
    pub(crate) address: String,
}

/// The daemon to measure, unless another is named: the one beside this program.
fn kentd(named: Option<&PathBuf>) -> anyhow::Result<Command> {
    let mut command = Command::new(beside("kentd", named)?);
    command.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "warn"]);
    Ok(command)
}

/// A program of this workspace, unless another is named.
pub(crate) fn beside(name: &str, named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    let program = match named {
        Some(path) => path.clone(),
        None => env::current_exe()?.with_file_name(name),
    };
    ensure!(program.exists(), "{} is not there: build it with cargo build --release --workspace", program.display());
    Ok(program)
}

/// Where a program is that the machine may have: on the path, or in one of the directories.
pub(crate) fn installed(name: &str, more: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(more.iter().cloned()).map(|dir| dir.join(name)).find(|program| program.is_file())
}

impl Served {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut process = Process::start(command.stdout(Stdio::piped()), "TERM")?;
        let mut line = String::new();
        let stdout = process.child.stdout.take().context("its output is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let Some(address) = line.split_whitespace().find(|word| word.contains(':')) else {
            bail!("the program said {line:?}");
        };
        Ok(Self { address: address.to_owned(), process })
    }

    /// A daemon with a store in a directory, which gets all that it writes: the witness is beside the store.
    pub(crate) fn kentd(named: Option<&PathBuf>, dir: &Path) -> anyhow::Result<Self> {
        Self::kentd_on(named, &dir.join("store"))
    }

    /// A daemon on a store.
    pub(crate) fn kentd_on(named: Option<&PathBuf>, store: &Path) -> anyhow::Result<Self> {
        Self::kentd_with(named, store, &[])
    }

    /// The same, with more settings.
    pub(crate) fn kentd_with(named: Option<&PathBuf>, store: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let witness = store.with_file_name("witness");
        Self::start(kentd(named)?.arg("--data").arg(store).arg("--witness").arg(witness).args(more))
    }

    /// The bare transport.
    pub(crate) fn bare() -> anyhow::Result<Self> {
        Self::start(Command::new(env::current_exe()?).arg("bare"))
    }

    /// Ends it as an operator would.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }

    /// Bytes of memory that it has.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        self.process.resident()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_time_of_a_process_is_read_past_its_name() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 100 1000 200";
        assert_eq!(busy(stat).expect("well-formed"), Duration::from_secs(3));
        assert!(busy("7").is_err());
    }

    #[test]
    fn ok_a_process_ends_when_it_is_dropped() {
        let process = Process::start(Command::new("sleep").arg("100"), "TERM").expect("sleep is there");
        let proc = PathBuf::from(format!("/proc/{}", process.child.id()));
        assert!(proc.exists());
        drop(process);
        assert!(!proc.exists());
    }
}
