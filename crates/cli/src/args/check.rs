//! The arguments of `kent check`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;

use super::value::parse_space;

/// Check identifiers in files: duplicates, and identifiers that were never issued.
///
/// Reads one identifier per line, or a column of CSV, in a stream. Counts the identifiers of each format or region. Finds
/// lines that are not identifiers, duplicates, and identifiers that were never issued, and shows the first ten of each.
/// With --space, an identifier was never issued if no region has issued it; with --as serial:SYMBOL, if its number is
/// free; otherwise, if its time is more than 2 s later than this machine's clock. The format of each identifier is
/// guessed as by `kent inspect`. Needs a daemon only with --space and with --as layout:NAME or --as serial:SYMBOL.
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArgs {
    /// Files with identifiers. - or no file is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Read this column of CSV files: its name in the first line, or its number from 1 in files without a header.
    #[arg(long, value_name = "COLUMN", value_parser = parse_column)]
    pub(crate) csv: Option<ColumnArg>,
    /// With --csv: the character between two columns, or the word tab.
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = parse_delimiter, requires = "csv")]
    pub(crate) delimiter: u8,
    /// Read all identifiers in this format, as `kent inspect --as` does, in the layout layout:NAME of a daemon, or as
    /// numbers of the series serial:SYMBOL, of which the daemon knows how many are issued.
    #[arg(long = "as", value_name = "FORMAT", conflicts_with = "space")]
    pub(crate) format: Option<String>,
    /// Read identifiers of this space, and ask a daemon for their regions and whether they are issued.
    #[arg(long, value_name = "SPACE", value_parser = parse_space)]
    pub(crate) space: Option<String>,
    /// Also find identifiers at or below the floor of their source. Each line of FILE is a JSON object with the source
    /// and the floor, which is an identifier, a number of the series, or the time of a format in RFC 3339 form.
    #[arg(long, value_name = "FILE")]
    pub(crate) floors: Option<PathBuf>,
    /// Only estimate how many identifiers are distinct, in a fixed small memory and without temporary files. Does not
    /// find duplicates.
    #[arg(long, conflicts_with_all = ["memory", "temp_dir"])]
    pub(crate) quick: bool,
    /// Use at most about this much memory to find duplicates, and temporary files for more: 1MiB or more.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_memory)]
    pub(crate) memory: ByteSize,
    /// Write temporary files to this directory [default: TMPDIR, or /tmp]. They disappear with the command. Each
    /// identifier takes 24 bytes.
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_dir: Option<PathBuf>,
}

const CHECK_HELP: &str = r#"Exit codes: 0 nothing is wrong; 1 there are duplicates, identifiers that were never issued or are at or below a
floor, or lines that are not identifiers, or the check failed; 2 bad usage; 130 interrupted.

Two texts of one identifier are the same: 017F22E2... and 017f22e2-..., 42 and 0x2a. With --space, a uid11 and
the same number in decimal are the same, too.

Examples:
  kent check ids.txt
  kent alloc uuidv7 -n 1M | kent check
  kent check orders.csv --csv id               the column id
  kent check orders.tsv --csv 1 --delimiter tab
  kent check ids.txt --as uuidv7-draft01-us
  kent check ids.txt --space default           also finds numbers that no region has issued
  kent check invoices.txt --as serial:INVOICE
  kent check ids.txt --floors floors.jsonl     a line: {"source": "uuidv7", "floor": "2026-01-01T00:00:00Z"}
  kent check huge.txt --memory 2GiB --temp-dir /mnt/scratch
  kent check huge.txt --quick                  an estimate of the distinct identifiers
  kent check ids.txt --json | jq .duplicates"#;

/// The column of a CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnArg {
    /// The name in the header.
    Name(String),
    /// The number, from 1, in a file without a header.
    Number(NonZeroUsize),
}

fn parse_column(text: &str) -> Result<ColumnArg, String> {
    match text.parse::<usize>().map(NonZeroUsize::new) {
        Ok(Some(number)) => Ok(ColumnArg::Number(number)),
        Err(_) if !text.is_empty() => Ok(ColumnArg::Name(text.to_owned())),
        _ => Err("expected the name of a column in the first line, such as id, or a number from 1".to_owned()),
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\r' | b'\n') => Ok(*one),
        _ => Err("expected one ASCII character other than a quote, such as ; or the word tab".to_owned()),
    }
}

fn parse_memory(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(size) if size >= ByteSize::mib(1) => Ok(size),
        _ => Err("expected a size of at least 1MiB, such as 32MiB or 2GiB".to_owned()),
    }
}
