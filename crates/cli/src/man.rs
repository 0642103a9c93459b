//! `kent man`: writes the manual pages.

use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::output::Out;
use crate::settings;

/// Writes a page for `kent` and one for each command.
pub(crate) fn write(dir: &Path, out: &mut Out) -> Result<(), Failure> {
    let written = fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(settings::command(None), dir));
    written.map_err(|error| {
        let problem = match dir.ancestors().find(|path| path.exists()) {
            Some(path) if !path.is_dir() => format!("{} is not a directory", path.display()),
            _ => error.to_string(),
        };
        let at = dir.display();
        Failure::Usage(format!(
            "cannot write to {at}: {problem}; name a directory that you can write to, as in `kent man ./man`"
        ))
    })?;
    match out.is_json() {
        true => Ok(()),
        false => out.text(&format!("wrote the manual pages to {0}; read one with `man {0}/kent.1`\n", dir.display())),
    }
}
