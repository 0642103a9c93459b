//! Programs under measurement: a daemon, or the bare transport, each a process of its own that ends with the measurement.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail, ensure};

/// A program that serves, and says on standard output where.
pub(crate) struct Served {
    child: Child,
    /// HOST:PORT.
    pub(crate) address: String,
}

/// The daemon to measure, unless another is named: the one beside this program.
pub(crate) fn kentd(named: Option<&PathBuf>) -> anyhow::Result<Command> {
    let program = match named {
        Some(path) => path.clone(),
        None => env::current_exe()?.with_file_name("kentd"),
    };
    ensure!(program.exists(), "{} is not there: build it with cargo build --release", program.display());
    let mut command = Command::new(program);
    command.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "warn"]);
    Ok(command)
}

impl Served {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("the program did not start")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("its output is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let Some(address) = line.split_whitespace().find(|word| word.contains(':')) else {
            bail!("the program said {line:?}");
        };
        Ok(Self { address: address.to_owned(), child })
    }

    /// Ends it as an operator would.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        ensure!(Command::new("kill").args(["-s", "TERM", &pid]).status()?.success(), "the program was not stopped");
        ensure!(self.child.wait()?.success(), "the program failed");
        Ok(())
    }

    /// Processor time, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let f: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        (f[11].parse::<f64>().unwrap_or(0.0) + f[12].parse::<f64>().unwrap_or(0.0)) / 100.0
    }

    /// Octets of memory that it has.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib << 10)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
