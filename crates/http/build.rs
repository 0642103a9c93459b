//! Lists the files of the console, which `server/console/check build` makes, to embed in the program.

use std::{
    env,
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

const DIST: &str = "console";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DIST}");
    let dist = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join(DIST);
    let mut files = Vec::new();
    list(&dist, &mut files)?;
    files.sort();
    let mut text = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&dist)?.to_str().ok_or("the name of a file is not UTF-8")?.replace('\\', "/");
        writeln!(text, "    ({name:?}, include_bytes!({file:?})),")?;
    }
    text.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("console.rs"), text)?;
    Ok(())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
