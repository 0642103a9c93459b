//! Where the audit log is written.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};

/// The destination of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum AuditTo {
    /// Standard error.
    Stderr,
    /// A file, which rotates.
    File(PathBuf),
}

impl FromStr for AuditTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("expected a file, such as /var/log/kent/audit.jsonl, or stderr".to_owned()),
            "stderr" => Ok(Self::Stderr),
            _ => Ok(Self::File(text.into())),
        }
    }
}

impl TryFrom<String> for AuditTo {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<AuditTo> for String {
    fn from(to: AuditTo) -> Self {
        match to {
            AuditTo::Stderr => "stderr".to_owned(),
            AuditTo::File(path) => path.display().to_string(),
        }
    }
}

/// The size and the number of audit files.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The size at which a file is full.
    pub bytes: u64,
    /// The number of files to keep, including the current one.
    pub files: u32,
}

/// The audit log of a command.
#[derive(Clone, Debug, Default, Args)]
pub struct AuditArgs {
    /// Where to write the audit log, like kentd --audit: a file, or `stderr` for standard error.
    #[arg(long, env = "KENT_AUDIT", value_name = "FILE|stderr")]
    pub audit: Option<AuditTo>,
    /// Size at which the audit file becomes FILE.1, and a new one begins.
    #[arg(long, env = "KENT_AUDIT_BYTES", value_name = "BYTES", default_value = "16777216")]
    pub audit_bytes: u64,
    /// Number of audit files to keep, including the current one.
    #[arg(long, env = "KENT_AUDIT_FILES", value_name = "COUNT", default_value = "10", value_parser = value_parser!(u32).range(1..=1000))]
    pub audit_files: u32,
}
