//! Checks of random identifiers, compared with a naive count.

use std::collections::HashMap;

use bytesize::ByteSize;
use clap::Parser;
use kent_codec::Detector;
use kent_ids::{Uid11, Uuid};
use proptest::prelude::*;

use super::*;
use crate::args::{Cli, Command};

/// Checks these texts, one per line, with this memory in bytes.
fn checked(lines: &[String], memory: usize, line: &str) -> Report {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    io::Write::write_all(&mut file, lines.join("\n").as_bytes()).expect("written");
    let words = ["kent", "check"].into_iter().chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words.chain([file.path().to_str().expect("UTF-8")])).expect("a command line");
    let Command::Check(mut args) = cli.command else { panic!("kent check") };
    args.memory = ByteSize::b(memory as u64);
    let reading = Reading::Guess(Detector::guess());
    let runtime = crate::runtime().expect("a runtime");
    let mut check =
        Check { reading: &reading, distinct: Counter::new(&args), namespaces: Vec::new(), report: Report::default() };
    let (sources, bar) = (Source::all(&args.files), ProgressBar::hidden());
    check.read_all(&sources, &args, &Floors::default(), &bar, &runtime).expect("read");
    check.finish(&args, &bar).expect("sorted").0
}

/// Writes one of a few identifiers in one of its texts. The first number identifies it.
fn text(id: u8, form: u8) -> (u32, String) {
    let (kind, value) = (id % 4, u64::from(id / 4));
    let uuid = Uuid::from_u128(u128::from(value) << 80 | 4 << 76 | 2 << 62);
    let text = match (kind, form % 4) {
        (0, 0) => uuid.to_string(),
        (0, 1) => uuid.to_string().to_uppercase(),
        (0, 2) => uuid.simple().to_string(),
        (0, _) => format!("{{{uuid}}}"),
        (1, 0) => value.to_string(),
        (1, 1) => format!("000{value}"),
        (1, _) => format!("0x{value:x}"),
        (2, _) => Uid11::new((value + 1) << 58).to_string(),
        (_, 0) => format!("01ARZ3NDEKTSV4RRFFQ69G5F{value:02}"),
        _ => format!("01arz3ndektsv4rrffq69g5f{value:02}"),
    };
    (id.into(), text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ok_exact_duplicates_are_those_of_a_naive_count(
        picked in prop::collection::vec((0..120_u8, any::<u8>()), 0..600),
        memory in 0..4000_usize,
    ) {
        let texts: Vec<_> = picked.iter().map(|(id, form)| text(*id, *form)).collect();
        let lines: Vec<_> = texts.iter().map(|(_, text)| text.clone()).collect();
        let mut naive: HashMap<u32, Vec<u64>> = HashMap::new();
        for ((id, _), line) in texts.iter().zip(1..) {
            naive.entry(*id).or_default().push(line);
        }
        let report = checked(&lines, memory, "");
        prop_assert_eq!(report.read, lines.len() as u64);
        let Some(Distinct::Exactly(found)) = report.distinct else { panic!("exact") };
        let mut repeated: Vec<_> = naive.values().filter(|lines| lines.len() > 1).collect();
        repeated.sort_by_key(|lines| lines[1]);
        prop_assert_eq!(found.counts(), (naive.len() as u64, repeated.len() as u64, (lines.len() - naive.len()) as u64));
        let places: Vec<_> = repeated.iter().take(10).map(|lines| (lines[0], lines[1], lines.len() as u64)).collect();
        prop_assert_eq!(found.places(), places);
    }
}

#[test]
fn ok_an_estimate_is_within_five_standard_errors() {
    let lines: Vec<_> = (0..60_000_u64).map(|number| (number % 20_000).to_string()).collect();
    let report = checked(&lines, 1 << 20, "--quick");
    let Some(Distinct::About(estimate, error)) = report.distinct else { panic!("an estimate") };
    assert!((estimate as f64 / 20_000.0 - 1.0).abs() < 5.0 * error, "{estimate}");
}

#[test]
fn ok_equal_lines_are_one_identifier() {
    let lines = vec!["42".to_owned(); 100_000];
    let Some(Distinct::Exactly(found)) = checked(&lines, 10_000, "").distinct else { panic!("exact") };
    assert_eq!((found.counts(), found.places()), ((1, 1, 99_999), vec![(1, 2, 100_000)]));
}
