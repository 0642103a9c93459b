//! `kent backup`, and `kent restore` and `kent migrate`, which `kentd` does.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{self, Command};

use indicatif::{HumanBytes, ProgressBar};
use kent_client::Daemon;
use kent_client::tonic::Request;
use kent_proto::v1::{BackupRequest, backup_part::Part};
use prost::Message;
use serde_json::json;

use crate::failure::Failure;
use crate::output::Out;

/// Writes a backup beside the file, and puts it in its place when it is whole.
pub(crate) async fn run(file: &Path, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    let (records, bytes) = match receive(Path::new(&beside), daemon).await {
        Ok(received) => received,
        Err(failure) => {
            // OK because what is left is overwritten by the next one.
            let _ = fs::remove_file(&beside);
            return Err(failure);
        }
    };
    fs::rename(&beside, file).map_err(cannot_write)?;
    if out.is_json() {
        return out.json(&json!({"file": file.display().to_string(), "records": records, "bytes": bytes}));
    }
    out.text(&format!("{}: {records} records, {}\n", file.display(), HumanBytes(bytes)))
}

async fn receive(beside: &Path, daemon: &Daemon) -> Result<(u64, u64), Failure> {
    let mut written = BufWriter::new(File::create(beside).map_err(cannot_write)?);
    // A large store takes longer than a call usually may.
    let mut parts = daemon.admin().backup(Request::new(BackupRequest {})).await?.into_inner();
    let bar = ProgressBar::new_spinner();
    let (mut bytes, mut records, mut is_dated) = (0, None, true);
    while let Some(part) = parts.message().await? {
        let message = part.encode_length_delimited_to_vec();
        written.write_all(&message).map_err(cannot_write)?;
        bytes += message.len() as u64; // OK because a usize has 64 bits at most
        bar.set_message(HumanBytes(bytes).to_string());
        bar.tick();
        match part.part {
            Some(Part::Begin(begin)) => is_dated = begin.unix_nanos != 0,
            Some(Part::End(end)) => records = Some(end.count),
            _ => {}
        }
    }
    bar.finish_and_clear();
    let file = written.into_inner().map_err(|error| cannot_write(error.into_error()))?;
    file.sync_all().map_err(cannot_write)?;
    let records = records.ok_or_else(|| Failure::Answer("the backup ended before it was whole".to_owned()))?;
    if !is_dated {
        eprintln!(
            "kent: the daemon does not believe its clock (kent clock), so the backup has no time: a store restored from it issues \
             nothing before you name a floor for each counter. Take a backup from another replica, or later."
        );
    }
    Ok((records, bytes))
}

fn cannot_write(error: io::Error) -> Failure {
    Failure::Usage(format!("the backup cannot be written: {error}"))
}

/// Runs a command of `kentd`, the one beside this program or else the one on the path: it knows the store.
pub(crate) fn kentd(command: &str, arguments: &[OsString]) -> Result<(), Failure> {
    let beside = env::current_exe().map(|kent| kent.with_file_name("kentd")).ok().filter(|kentd| kentd.exists());
    let kentd = beside.unwrap_or_else(|| "kentd".into());
    let status = Command::new(&kentd).arg(command).args(arguments).status().map_err(|error| {
        Failure::Runtime(io::Error::new(error.kind(), format!("{} does not run: {error}", kentd.display())))
    })?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        code => process::exit(code.unwrap_or(1)),
    }
}
