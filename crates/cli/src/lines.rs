//! Reads lines in batches. A batch contains the lines that have arrived, so a slow pipe is processed line by line, and
//! a fast pipe in large batches.

use std::io::{self, BufRead, BufReader, Read, Stdin};

use crate::failure::Failure;
use crate::notice;
use crate::number::grouped;

/// The size of the buffer: the most that one read of a pipe can return.
const BUFFER_BYTES: usize = 64 << 10;

/// The maximum length of a line, in bytes. Without a limit, an input without line feeds would fill the memory.
const LINE_MAX: usize = 64 << 10;

/// The byte order mark, with which some editors begin a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The nonempty lines of an input, without surrounding whitespace. Bytes that are not UTF-8 are replaced by U+FFFD.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    number: u64,
}

/// A line, and its number, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) text: String,
}

impl Lines<Stdin> {
    pub(crate) fn of_stdin() -> Self {
        Self::new(io::stdin())
    }
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER_BYTES, input), number: 0 }
    }

    /// Waits for a line, and returns it with the complete lines that have arrived with it, at most `most` in total.
    /// Returns an empty batch at the end.
    pub(crate) fn next_batch(&mut self, most: usize) -> Result<Vec<Line>, Failure> {
        let mut batch = Vec::new();
        while batch.is_empty() || batch.len() < most && self.reader.buffer().contains(&b'\n') {
            let mut bytes = Vec::new();
            let mut reader = (&mut self.reader).take(LINE_MAX as u64); // OK because it is small
            let read = reader.read_until(b'\n', &mut bytes).map_err(Failure::Input)?;
            if read == 0 {
                break;
            }
            self.number += 1;
            if read == LINE_MAX && !bytes.ends_with(b"\n") {
                let number = self.number;
                return Err(Failure::Usage(format!(
                    "line {number} of the input has more than {} bytes: write one ID per line",
                    grouped(LINE_MAX)
                )));
            }
            // A line that is not UTF-8 is rejected later as an identifier, with its line number. The other lines are
            // still processed.
            let text = String::from_utf8_lossy(&bytes);
            let text = if self.number == 1 { text.trim_start_matches(BYTE_ORDER_MARK) } else { &text };
            let text = text.trim();
            if !text.is_empty() {
                batch.push(Line { number: self.number, text: text.to_owned() });
            }
        }
        Ok(batch)
    }
}

/// Reports invalid lines of an input: the first ones with their errors, and all of them by their number.
#[derive(Debug, Default)]
pub(crate) struct InvalidLines {
    count: u64,
    /// Whether one of the lines seems to have columns.
    has_columns: bool,
}

/// The number of invalid lines to report one by one. For JSON, which programs read, all lines are reported.
const REPORTED_MAX: u64 = 10;

impl InvalidLines {
    /// Reports an invalid line, whose error is `rendered`.
    pub(crate) fn report(&mut self, line: &str, rendered: &str, json: bool) {
        self.count += 1;
        self.has_columns |= line.contains([',', ';', '\t']);
        if json || self.count <= REPORTED_MAX {
            notice::write(rendered, json);
        } else if self.count == REPORTED_MAX + 1 {
            notice::write("error: there are more invalid lines, which are only counted\n", json);
        }
    }

    /// Fails if there were invalid lines.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        let Self { count, has_columns } = *self;
        if count == 0 { Ok(()) } else { Err(Failure::InvalidLines { count, has_columns }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that arrives in pieces.
    struct Pieces(Vec<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece.as_bytes());
            Ok(piece.len())
        }
    }

    #[test]
    fn err_a_line_without_end() {
        let mut lines = Lines::new(io::Cursor::new(b"1\n").chain(io::repeat(0)));
        assert_eq!(lines.next_batch(1).expect("a line").len(), 1);
        let error = lines.next_batch(1).expect_err("too long").to_string();
        assert_eq!(error, "line 2 of the input has more than 65_536 bytes: write one ID per line");
    }

    #[test]
    fn ok_marks_of_editors_are_skipped_and_other_bytes_stay_in_their_line() {
        let mut lines = Lines::new(&b"\xef\xbb\xbf1\r\n\xff\xfe\n2\0\n\r\n3"[..]);
        let batch = lines.next_batch(9).expect("read");
        let found: Vec<_> = batch.iter().map(|line| (line.number, line.text.as_str())).collect();
        assert_eq!(found, [(1, "1"), (2, "\u{fffd}\u{fffd}"), (3, "2\0")]);
    }

    #[test]
    fn ok_lines_that_have_arrived_are_returned_immediately() {
        let mut lines = Lines::new(Pieces(vec!["1\n", "2\n3\n4", "5\n\n 6 \n", "7"]));
        let mut next = |most| -> Vec<(u64, String)> {
            let batch = lines.next_batch(most).expect("read");
            batch.into_iter().map(|line| (line.number, line.text)).collect()
        };
        let owned = |lines: &[(u64, &str)]| -> Vec<(u64, String)> {
            lines.iter().map(|(number, text)| (*number, (*text).to_owned())).collect()
        };
        assert_eq!(next(9), owned(&[(1, "1")]));
        assert_eq!(next(9), owned(&[(2, "2"), (3, "3")]));
        assert_eq!(next(2), owned(&[(4, "45"), (6, "6")]));
        assert_eq!(next(9), owned(&[(7, "7")]));
        assert_eq!(next(9), owned(&[]));
    }
}
