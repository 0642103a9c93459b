//! Embeds the scripts, so that the program runs them from any directory.

use std::{env, fmt::Write, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=scripts");
    let folder = fs::canonicalize("scripts")?;
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut code = "[\n".to_owned();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        // OK because writing to a `String` never fails.
        let _ = writeln!(code, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    code.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(PathBuf::from(out).join("scripts.rs"), code)
}
