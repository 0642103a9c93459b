//! The manual pages.

use std::fs;

use tempfile::TempDir;

use crate::run::kent;

#[test]
fn ok_there_is_a_page_for_every_command() {
    let dir = TempDir::new().expect("a directory");
    let pages = dir.path().join("man/man1");
    let run = kent(&format!("man {}", pages.display()));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    for page in ["kent", "kent-alloc", "kent-region", "kent-region-split", "kent-space-create", "kent-context-use"] {
        let text = fs::read_to_string(pages.join(format!("{page}.1"))).expect(page);
        for part in [".TH", "NAME", "SYNOPSIS", "DESCRIPTION", "Example", "\\-\\-json"] {
            assert!(text.contains(part), "{page} lacks {part}:\n{text}");
        }
    }
    let split = fs::read_to_string(pages.join("kent-region-split.1")).expect("a page");
    assert!(split.contains("kent region split orders"), "{split}");
}

#[test]
fn err_a_directory_that_cannot_be_made() {
    let run = kent("man /proc/nowhere");
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("cannot write to /proc/nowhere"), "{}", run.stderr);
    assert!(run.stderr.contains("as in `kent man ./man`"), "{}", run.stderr);
}

#[test]
fn err_a_path_that_is_or_leads_through_a_file() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    for path in [file.clone(), file.join("below")] {
        let run = kent(&format!("man {}", path.display()));
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(&format!("{} is not a directory", file.display())), "{}", run.stderr);
    }
}
