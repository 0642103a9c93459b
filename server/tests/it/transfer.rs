//! `kent table export` and `import`: a table moves to another daemon, and nothing is issued there that was issued here.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use super::operator::Operator;

/// Edits that leave regions of all kinds, with something issued from each that issues.
const TABLE: [&str; 18] = [
    "region create r1 --prefix 101101 --suffix 50",
    "alloc region:r1 -n 3",
    "region expand r1 --by 2",
    "region split r1 --by 2 --new r3:53 --new r4:56:10",
    "region create orders --suffix 40",
    "region subdivide orders --by 2 --new eu:30:01 --new us:30:10",
    "alloc region:orders -n 7",
    "alloc region:us -n 5",
    "region create shut --suffix 20",
    "region subdivide shut --by 1 --new none:20:0 --new all:20:1",
    "region create invoices --suffix 32 --pace 1000",
    "region set invoices --strict --owner finance --label tier=gold",
    "alloc region:invoices -n 2",
    "region create mixed --suffix 30 --order scrambled",
    "alloc region:mixed -n 100",
    "region create employees --suffix 20 --order external",
    "region create emea --suffix 30",
    "region delegate emea",
];

const SOURCES: [&str; 5] = ["r1", "orders", "us", "invoices", "mixed"];

fn table(operator: &Operator, dir: &Path) -> (String, Vec<Value>) {
    let export = operator.kent("table export");
    let file = dir.join("table.jsonl");
    fs::write(&file, &export).expect("written");
    (file.to_str().expect("UTF-8").to_owned(), lines(&export))
}

fn lines(export: &str) -> Vec<Value> {
    export.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn ok_an_imported_table_is_the_one_that_was_exported_and_goes_on_behind_it() {
    let (here, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    let issued = TABLE.iter().map(|words| here.kent(words)).collect::<String>();
    let issued: BTreeSet<&str> = issued.lines().collect();
    here.kent("region seal us");
    let (file, mut exported) = table(&here, dir.path());
    assert_eq!(exported[0]["format"], "kent-table");

    let there = Operator::new();
    there.kent(&format!("table import {file} --yes"));
    let mut imported = lines(&there.kent("table export"));
    for line in exported.iter_mut().chain(&mut imported) {
        line["revision"] = json!(0);
        // It has no past yet.
        line["former_prefixes"] = json!([]);
    }
    assert_eq!(imported, exported);

    there.kent("region unseal us");
    for source in SOURCES {
        let ids = there.kent(&format!("alloc region:{source} -n 50"));
        assert!(ids.lines().all(|id| !issued.contains(id)), "{source}");
    }
    let again = there.kent(&format!("table import {file} --yes"));
    assert!(again.starts_with("0 to make"), "{again}");
}

#[test]
fn err_a_table_of_another_width_is_not_imported() {
    let (operator, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    operator.kent("region create orders --prefix 01 --suffix 10");
    let (file, _) = table(&operator, dir.path());
    operator.kent("space create narrow --bits 32");
    let (code, stdout, stderr) = operator.run(&format!("table import {file} --space narrow --yes"));
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("a space of 64 bits (default), and narrow has 32"), "{stderr}");
    assert_eq!(lines(&operator.kent("table export --space narrow")).len(), 1, "the header only");
}

#[test]
fn err_what_a_table_of_the_past_has_issued_is_not_guessed() {
    let (operator, dir) = (Operator::new(), tempfile::tempdir().expect("a directory"));
    operator.kent("region create orders --prefix 01 --suffix 10");
    operator.kent("space create copy --bits 64");
    let file = dir.path().join("past.jsonl");
    fs::write(&file, operator.kent("table export --at 1")).expect("written");
    let import = format!("table import {} --space copy --yes", file.display());
    let (code, _, stderr) = operator.run(&import);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("does not say what region \"orders\" has issued; say --unissued"), "{stderr}");
    operator.kent(&format!("{import} --unissued"));
    assert_eq!(lines(&operator.kent("table export --space copy"))[1]["reserved"], "0");
}
