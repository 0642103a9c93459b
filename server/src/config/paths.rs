//! Checks the settings that are paths.

use std::{any::TypeId, path::PathBuf};

use clap::{Arg, builder::ValueParser};
use kent_engine::audit::AuditTo;

use super::{ConfigError, Settings, misspelt};

/// Rejects an empty path, which would mean the working directory, and a path that begins with `~`, which only shells
/// expand.
pub(super) fn check(settings: &Settings) -> Result<(), ConfigError> {
    let written = toml::Table::try_from(settings).unwrap_or_default();
    let paths = misspelt::options().filter(|arg| is_path(arg.get_value_parser()));
    paths.into_iter().try_for_each(|arg| {
        let setting = arg.get_long().unwrap_or_default();
        let Some(path) = written.get(setting).and_then(toml::Value::as_str) else { return Ok(()) };
        let out_of_range = |value: &str, allowed: String| {
            Err(ConfigError::OutOfRange { setting: setting.to_owned(), value: value.to_owned(), allowed })
        };
        match path {
            "" => out_of_range("empty", format!("{}, such as {setting} = \"{}\"", kind(&arg).0, kind(&arg).1)),
            "~" => out_of_range("~", without_tilde()),
            path if path.starts_with("~/") => out_of_range(path, without_tilde()),
            _ => Ok(()),
        }
    })
}

fn is_path(parser: &ValueParser) -> bool {
    [TypeId::of::<PathBuf>(), TypeId::of::<AuditTo>()].iter().any(|id| parser.type_id() == *id)
}

/// Returns the words for what a path must name, a directory or a file, and an example.
fn kind(arg: &Arg) -> (&'static str, &'static str) {
    match arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "DIR")) {
        true => ("a directory", "/var/lib/kent"),
        false => ("a file", "/etc/kent/kent.pem"),
    }
}

fn without_tilde() -> String {
    "a path without ~, which only shells expand: write out the home directory".to_owned()
}
