//! `kent backup`, and `kent restore` and `kent migrate`, which run `kentd`.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{self, Command};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use kent_client::Daemon;
use kent_client::tonic::{Request, Status};
use kent_proto::v1::{BackupRequest, backup_part::Part};
use prost::Message;
use serde_json::json;
use tokio::select;
use tokio::time::timeout;

use crate::charset;
use crate::connect::call_timeout;
use crate::failure::Failure;
use crate::notice;
use crate::output::Out;

/// The file name that means standard output.
const STDOUT: &str = "-";

/// Writes the backup to standard output if `file` is `-`. Otherwise, writes it to a temporary file, which is renamed
/// once the backup is complete.
pub(crate) async fn run(file: &Path, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    if file == Path::new(STDOUT) {
        return to_stdout(daemon, out.is_json()).await;
    }
    // Follow a symbolic link, and refuse to replace a device or a named pipe.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        let problem = format!(
            "cannot write the backup to {}: it is not a regular file; name a file (kent backup kent.backup), or `-` for standard output",
            file.display()
        );
        return Err(Failure::Usage(problem));
    }
    let mut part_path = target.as_os_str().to_owned();
    part_path.push(".part");
    let received = select! {
        received = to_file(Path::new(&part_path), file, daemon, out.is_json()) => received,
        Ok(()) = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    let (records, bytes) = match received {
        Ok(received) => received,
        Err(failure) => {
            // OK because the next backup overwrites a leftover file.
            let _ = fs::remove_file(&part_path);
            return Err(failure);
        }
    };
    fs::rename(&part_path, &target).map_err(|error| cannot_write(file, error))?;
    if out.is_json() {
        return out.json(&json!({"file": file.display().to_string(), "records": records, "bytes": bytes}));
    }
    out.text(&format!("{}: {records} records, {}\n", file.display(), HumanBytes(bytes)))
}

async fn to_stdout(daemon: &Daemon, json: bool) -> Result<(), Failure> {
    let stdout = io::stdout();
    if stdout.is_terminal() {
        return Err(Failure::Usage(
            "standard output is a terminal; write the backup to a file or a pipe (kent backup kent.backup)".to_owned(),
        ));
    }
    let mut written = BufWriter::new(stdout);
    let target = Path::new(STDOUT);
    let (records, bytes) = receive(&mut written, target, daemon, json).await?;
    // Unlike in other commands, a closed pipe is an error: the reader has only a part of the backup.
    written.flush().map_err(|error| cannot_write(target, error))?;
    notice::write(&format!("kent: {records} records, {}\n", HumanBytes(bytes)), json);
    Ok(())
}

async fn to_file(part_path: &Path, target: &Path, daemon: &Daemon, json: bool) -> Result<(u64, u64), Failure> {
    // Remove a leftover file, which may have other permissions. It is not an error if there is none.
    let _ = fs::remove_file(part_path);
    // A backup contains secret keys, so only its owner can read it.
    let file = File::options().write(true).create_new(true).mode(0o600).open(part_path);
    let file = file.map_err(|error| cannot_write(target, error))?;
    let mut written = BufWriter::new(file);
    let received = receive(&mut written, target, daemon, json).await?;
    let file = written.into_inner().map_err(|error| cannot_write(target, error.into_error()))?;
    file.sync_all().map_err(|error| cannot_write(target, error))?;
    Ok(received)
}

/// Writes the parts of a backup, and returns the number of its records and bytes.
async fn receive(written: &mut impl Write, target: &Path, daemon: &Daemon, json: bool) -> Result<(u64, u64), Failure> {
    // The whole backup has no deadline, because a large store takes a long time to back up.
    let mut admin = daemon.admin();
    let begun = timeout(call_timeout(), admin.backup(Request::new(BackupRequest {}))).await;
    let mut parts = begun.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")))?.into_inner();
    let bar = ProgressBar::new_spinner();
    if charset::is_ascii() {
        bar.set_style(ProgressStyle::default_spinner().tick_chars("|/-\\ "));
    }
    let (mut bytes, mut records, mut is_dated) = (0, None, true);
    while let Some(part) = parts.message().await? {
        let message = part.encode_length_delimited_to_vec();
        written.write_all(&message).map_err(|error| cannot_write(target, error))?;
        bytes += message.len() as u64; // OK because a usize has at most 64 bits
        bar.set_message(HumanBytes(bytes).to_string());
        bar.tick();
        match part.part {
            Some(Part::Begin(begin)) => is_dated = begin.unix_nanos != 0,
            Some(Part::End(end)) => records = Some(end.count),
            _ => {}
        }
    }
    bar.finish_and_clear();
    let records = records.ok_or_else(|| Failure::Answer("the backup ended before it was complete".to_owned()))?;
    if !is_dated {
        let undated = "the daemon distrusts its clock (see `kent clock`), so the backup has no timestamp. A store restored from it \
            issues nothing until you set a floor for each counter. Prefer a backup from another replica, or a later one.";
        notice::warn(undated, json);
    }
    Ok((records, bytes))
}

/// Returns the failure for a backup that cannot be written, with advice if the directory is missing.
fn cannot_write(target: &Path, error: io::Error) -> Failure {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let hint = folder.map(|folder| format!("; its directory does not exist (mkdir -p {})", folder.display()));
    let target = if target == Path::new(STDOUT) { "standard output".into() } else { target.display().to_string() };
    Failure::File(format!("cannot write the backup to {target}: {error}{}", hint.unwrap_or_default()))
}

/// Runs a subcommand of `kentd`, because `kent` cannot access the store itself. A `kentd` in the directory of this
/// program takes precedence over one in `PATH`.
pub(crate) fn kentd(command: &str, arguments: &[OsString]) -> Result<(), Failure> {
    let sibling = env::current_exe().map(|kent| kent.with_file_name("kentd")).ok().filter(|kentd| kentd.exists());
    let kentd = sibling.unwrap_or_else(|| "kentd".into());
    let status = Command::new(&kentd).arg(command).args(arguments).status();
    let status = status.map_err(|error| cannot_run(command, &kentd, &error))?;
    match status.code() {
        Some(0) => Ok(()),
        // kentd has printed the reason.
        code => process::exit(code.unwrap_or(1)),
    }
}

fn cannot_run(command: &str, kentd: &Path, error: &io::Error) -> Failure {
    Failure::Usage(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "kent {command} runs kentd, which is neither in the directory of kent nor in PATH: install kentd on this machine, or run \
             `kentd {command}` with the same arguments on the machine of the store"
        ),
        _ => format!("kent {command} runs {}, which cannot be run: {error}", kentd.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_a_kentd_that_is_missing_or_cannot_be_run() {
        for (kind, expected) in [
            (
                io::ErrorKind::NotFound,
                "error: kent restore runs kentd, which is neither in the directory of kent nor in PATH: install",
            ),
            (
                io::ErrorKind::PermissionDenied,
                "error: kent restore runs /opt/kentd, which cannot be run: permission denied",
            ),
        ] {
            let failure = cannot_run("restore", Path::new("/opt/kentd"), &kind.into());
            let message = failure.render(false).expect("a message");
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
