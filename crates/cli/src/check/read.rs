//! Reads the rows of files: their lines, or one column of CSV. Memory is bounded, even for a line or a quoted field
//! that never ends.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use csv_core::ReadFieldResult;
use indicatif::ProgressBar;

use crate::args::ColumnArg;
use crate::failure::Failure;
use crate::number::counted;

/// The argument that means standard input.
const STDIN: &str = "-";
/// The size of the input buffer in bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// The maximum length of a line or a field, in bytes.
const ROW_MAX: usize = 64 << 10;
/// The number of bytes of a row that is too long to keep, for a message.
const SHOWN: usize = 200;
/// The maximum number of rows and bytes of a batch.
pub(super) const BATCH_ROWS: usize = 10_000;
const BATCH_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Rows of a file.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    pub(super) rows: Vec<Row>,
}

/// A row: where it is in the file and in the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: u64,
    range: Range<usize>,
    pub(super) fault: Option<Fault>,
}

/// Why a row has no identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("the line has more than {ROW_MAX} bytes")]
    LongLine,
    #[error("the column has more than {ROW_MAX} bytes; perhaps a quote that opens here is never closed")]
    LongField,
    #[error("the column is empty")]
    EmptyField,
    #[error("the line has only {}", counted(*.0, "column"))]
    NoField(usize),
}

impl Batch {
    /// The text of a row. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub(super) fn text(&self, row: &Row) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes[row.range.clone()])
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS || self.bytes.len() >= BATCH_BYTES
    }

    fn push(&mut self, line: u64, start: usize, fault: Option<Fault>) {
        self.rows.push(Row { line, range: start..self.bytes.len(), fault });
    }
}

/// A file to read, and its name in messages.
#[derive(Clone, Debug)]
pub(super) struct Source {
    path: PathBuf,
    pub(super) name: String,
}

impl Source {
    /// Converts the arguments to sources: standard input if there is none.
    pub(super) fn all(files: &[PathBuf]) -> Vec<Self> {
        let stdin = [PathBuf::from(STDIN)];
        let files = if files.is_empty() { &stdin } else { files };
        let name = |path: &Path| if path == Path::new(STDIN) { "stdin".to_owned() } else { path.display().to_string() };
        files.iter().map(|path| Self { path: path.clone(), name: name(path) }).collect()
    }

    /// Returns the size of the file in bytes; `None` for standard input and other files without a size.
    pub(super) fn size(&self) -> Result<Option<u64>, Failure> {
        if self.path == Path::new(STDIN) {
            return Ok(None);
        }
        let metadata = self.path.metadata().map_err(|error| self.unread(&error))?;
        match metadata.is_dir() {
            true => Err(Failure::Usage(format!("{} is a directory: name its files, as in {0}/*", self.name))),
            false => Ok(metadata.is_file().then_some(metadata.len())),
        }
    }

    fn unread(&self, error: &io::Error) -> Failure {
        Failure::Usage(format!("cannot read {}: {error}", self.name))
    }

    /// Opens the file. `bar` counts the bytes that are read.
    pub(super) fn open(&self, csv: Option<(&ColumnArg, u8)>, bar: &ProgressBar) -> Result<Rows, Failure> {
        let input: Box<dyn Read> = match self.path == Path::new(STDIN) {
            true => Box::new(io::stdin()),
            false => Box::new(File::open(&self.path).map_err(|error| self.unread(&error))?),
        };
        Ok(Rows::new(self.clone(), Box::new(bar.wrap_read(input)), csv))
    }
}

/// Reads the rows of one file.
pub(super) struct Rows {
    source: Source,
    input: BufReader<Box<dyn Read>>,
    /// The number of the current line.
    line: u64,
    csv: Option<Csv>,
}

/// The state of a parser of CSV.
struct Csv {
    parser: csv_core::Reader,
    column: ColumnArg,
    /// The index of the column, once it is known.
    index: Option<usize>,
    field: Vec<u8>,
}

/// One field of a record.
struct Field {
    is_long: bool,
    ends_record: bool,
}

impl Rows {
    fn new(source: Source, input: Box<dyn Read>, csv: Option<(&ColumnArg, u8)>) -> Self {
        let csv = csv.map(|(column, delimiter)| Csv {
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            column: column.clone(),
            index: match column {
                ColumnArg::Name(_) => None,
                ColumnArg::Number(number) => Some(number.get() - 1),
            },
            field: vec![0; ROW_MAX],
        });
        Self { source, input: BufReader::with_capacity(BUFFER_BYTES, input), line: 0, csv }
    }

    /// Fills the batch with the next rows. It stays empty at the end of the file.
    pub(super) fn read(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        batch.bytes.clear();
        batch.rows.clear();
        let read = if self.csv.is_some() { self.read_csv(batch)? } else { self.read_lines(batch) };
        read.map_err(|error| match self.source.path == Path::new(STDIN) {
            true => Failure::Input(error),
            false => Failure::File(format!("cannot read {}: {error}", self.source.name)),
        })
    }

    fn read_lines(&mut self, batch: &mut Batch) -> io::Result<()> {
        while !batch.is_full() {
            let start = batch.bytes.len();
            let mut reader = (&mut self.input).take(ROW_MAX as u64); // OK because it is small
            let read = reader.read_until(b'\n', &mut batch.bytes)?;
            if read == 0 {
                return Ok(());
            }
            self.line += 1;
            if read == ROW_MAX && !batch.bytes.ends_with(b"\n") {
                self.input.skip_until(b'\n')?;
                batch.bytes.truncate(start + SHOWN);
                batch.push(self.line, start, Some(Fault::LongLine));
                continue;
            }
            let text = &batch.bytes[start..];
            let text = if self.line == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
            let (kept, front) = (text.trim_ascii_end().len(), batch.bytes.len() - start - text.len());
            let blank = text.trim_ascii_end().len() - text.trim_ascii().len();
            batch.bytes.truncate(start + front + kept);
            if kept > blank {
                batch.push(self.line, start + front + blank, None);
            }
        }
        Ok(())
    }

    /// The outer result is a wrong use of the option.
    fn read_csv(&mut self, batch: &mut Batch) -> Result<io::Result<()>, Failure> {
        let index = match self.csv.as_ref().and_then(|csv| csv.index) {
            Some(index) => index,
            None => match self.find_column() {
                Ok(found) => found?,
                Err(error) => return Ok(Err(error)),
            },
        };
        while !batch.is_full() {
            match self.read_record(index, batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// Reads the header, and returns the index of the column.
    fn find_column(&mut self) -> io::Result<Result<usize, Failure>> {
        let (mut names, mut found, mut at) = (String::new(), None, 0);
        self.begin_record()?;
        while let Some((field, bytes)) = self.read_field()? {
            let name = String::from_utf8_lossy(bytes).trim().to_owned();
            let Some(csv) = &mut self.csv else { break };
            if csv.column == ColumnArg::Name(name.clone()) && found.is_none() {
                found = Some(at);
                csv.index = found;
            }
            if names.len() < SHOWN {
                names = format!("{names}{}{name}", if at == 0 { "" } else { ", " });
            }
            at += 1;
            if field.ends_record {
                break;
            }
        }
        Ok(match (found, self.csv.as_ref().map(|csv| &csv.column)) {
            (Some(found), _) => Ok(found),
            (None, Some(ColumnArg::Name(name))) if at > 0 => Err(Failure::Usage(format!(
                "{} has no column {name:?} in its first line; its columns are {names}: name one of them, or give its number if the file has \
                 no header",
                self.source.name
            ))),
            // An empty file has no rows.
            _ => Ok(0),
        })
    }

    /// Reads a record, and adds its field in the column to the batch. Returns false at the end of the file.
    fn read_record(&mut self, index: usize, batch: &mut Batch) -> io::Result<bool> {
        self.begin_record()?;
        let (line, mut at, mut is_found) = (self.line, 0, false);
        while let Some((field, bytes)) = self.read_field()? {
            if at == index {
                let start = batch.bytes.len();
                let (text, fault) = match field.is_long {
                    true => (&b""[..], Some(Fault::LongField)),
                    false => (bytes.trim_ascii(), bytes.trim_ascii().is_empty().then_some(Fault::EmptyField)),
                };
                batch.bytes.extend_from_slice(text);
                batch.push(line, start, fault);
                is_found = true;
            }
            at += 1;
            if field.ends_record {
                if !is_found {
                    batch.push(line, batch.bytes.len(), Some(Fault::NoField(at)));
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Skips empty lines, so that the number of the line is that of the record.
    fn begin_record(&mut self) -> io::Result<()> {
        self.line = self.line.max(1);
        loop {
            let buffer = self.input.fill_buf()?;
            let blank = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.line += line_feeds(&buffer[..blank]);
            self.input.consume(blank);
            if blank == 0 {
                return Ok(());
            }
        }
    }

    /// Reads a field; `None` at the end of the file. Of a field that is too long, returns the last bytes.
    fn read_field(&mut self) -> io::Result<Option<(Field, &[u8])>> {
        let Some(csv) = &mut self.csv else { return Ok(None) };
        let (mut len, mut is_long) = (0, false);
        loop {
            let buffer = self.input.fill_buf()?;
            let (result, read, written) = csv.parser.read_field(buffer, &mut csv.field[len..]);
            self.line += line_feeds(&buffer[..read]);
            self.input.consume(read);
            len += written;
            match result {
                ReadFieldResult::InputEmpty => {}
                ReadFieldResult::OutputFull => (len, is_long) = (0, true),
                ReadFieldResult::Field { record_end } => {
                    return Ok(Some((Field { is_long, ends_record: record_end }, &csv.field[..len])));
                }
                ReadFieldResult::End => return Ok(None),
            }
        }
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn name(name: &str) -> ColumnArg {
        ColumnArg::Name(name.to_owned())
    }

    fn number(number: usize) -> ColumnArg {
        ColumnArg::Number(NonZeroUsize::new(number).expect("not 0"))
    }

    fn read(input: impl Read + 'static, csv: Option<ColumnArg>) -> Result<Vec<(u64, String, Option<Fault>)>, Failure> {
        let source = Source { path: "ids.csv".into(), name: "ids.csv".to_owned() };
        let mut rows = Rows::new(source, Box::new(input), csv.as_ref().map(|column| (column, b',')));
        let (mut batch, mut found) = (Batch::default(), Vec::new());
        loop {
            rows.read(&mut batch)?;
            if batch.rows.is_empty() {
                return Ok(found);
            }
            found.extend(batch.rows.iter().map(|row| (row.line, batch.text(row).into_owned(), row.fault)));
        }
    }

    #[track_caller]
    fn check(input: &'static [u8], csv: Option<ColumnArg>, expected: &[(u64, &str, Option<Fault>)]) {
        let found = read(input, csv).expect("read");
        let found: Vec<_> = found.iter().map(|(line, text, fault)| (*line, text.as_str(), *fault)).collect();
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(input));
    }

    #[test]
    fn ok_lines() {
        check(b"", None, &[]);
        check(b"\n \n", None, &[]);
        check(b"\xef\xbb\xbf1\r\n\n  2 \t\n3", None, &[(1, "1", None), (3, "2", None), (4, "3", None)]);
        check(b"\xff\n2\0", None, &[(1, "\u{fffd}", None), (2, "2\0", None)]);
    }

    #[test]
    fn ok_columns() {
        let two = [(2, "1", None), (3, "2", None)];
        check(b"id,n\n1,a\n2,b\n", Some(name("id")), &two);
        check(b"\xef\xbb\xbfid,n\r\n1,a\r\n2,b\r\n", Some(name("id")), &two);
        check(b"n,\"id\"\n\"x\ny\",1\n\"\"\"\",\"2\"", Some(name("id")), &[(2, "1", None), (4, "2", None)]);
        check(b"1,a\n\n2,b", Some(number(1)), &[(1, "1", None), (3, "2", None)]);
        check(
            b"a\nb,\nc, 3 \n",
            Some(number(2)),
            &[(1, "", Some(Fault::NoField(1))), (2, "", Some(Fault::EmptyField)), (3, "3", None)],
        );
        check(b"", Some(name("id")), &[]);
        check(b"id\n", Some(name("id")), &[]);
    }

    #[test]
    fn err_a_column_that_does_not_exist() {
        let error = read(&b"a,b\n1,2\n"[..], Some(name("id"))).expect_err("no such column").to_string();
        assert!(error.starts_with("ids.csv has no column \"id\" in its first line; its columns are a, b:"), "{error}");
    }

    #[test]
    fn err_a_row_without_end_takes_no_memory() {
        let endless = || io::repeat(b'1').take(10 << 20);
        let rows = read(endless().chain(&b"\n2\n"[..]), None).expect("read");
        let shown: Vec<_> = rows.iter().map(|(line, text, fault)| (*line, text.len(), *fault)).collect();
        assert_eq!(shown, [(1, SHOWN, Some(Fault::LongLine)), (2, 1, None)]);
        let rows = read((&b"7,8\n\"\n"[..]).chain(endless()), Some(number(1))).expect("read");
        let shown: Vec<_> = rows.iter().map(|(line, text, fault)| (*line, text.len(), *fault)).collect();
        assert_eq!(shown, [(1, 1, None), (2, 0, Some(Fault::LongField))]);
    }
}
