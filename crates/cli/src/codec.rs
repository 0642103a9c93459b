//! `kent codec`: serves the line protocol of `kent-codec` on standard input and output.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;

use rayon::prelude::*;
use serde_json::json;

use crate::failure::Failure;
use crate::number::grouped;

/// The size of one read in bytes. All lines that end in a chunk are answered before the next read, so a caller can send
/// one line and wait for its answer.
const CHUNK_BYTES: usize = 256 * 1024;

/// The number of lines in one unit of parallel work. Smaller units cost more in scheduling than they gain.
const LINES_PER_TASK: usize = 64;

/// The maximum length of a line. No verb needs a longer line. Longer lines are skipped to limit memory use.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) fn run() -> Result<(), Failure> {
    converse(io::stdin().lock(), io::stdout().lock(), kent_codec::answer_into)
}

/// Answers every line, in order, until the end of input. The last line may lack its line feed.
fn converse(
    mut input: impl Read,
    mut output: impl Write,
    answer: impl Fn(&[u8], &mut Vec<u8>) + Sync,
) -> Result<(), Failure> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut lines = Lines::default();
    loop {
        let count = match input.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Input(error)),
        };
        let mut requests = lines.feed(&chunk[..count]);
        if count == 0 {
            requests.extend(lines.end());
        }
        let answers: Vec<Vec<u8>> =
            requests.par_chunks(LINES_PER_TASK).map(|lines| answer_all(lines, &answer)).collect();
        for answers in answers {
            output.write_all(&answers).map_err(Failure::Output)?;
        }
        output.flush().map_err(Failure::Output)?;
        if count == 0 {
            return Ok(());
        }
    }
}

fn answer_all(lines: &[Line<'_>], answer: impl Fn(&[u8], &mut Vec<u8>)) -> Vec<u8> {
    let mut answers = Vec::new();
    for line in lines {
        match line {
            Line::Whole(line) => answer(line, &mut answers),
            Line::TooLong { number } => {
                let most = grouped(LINE_BYTES_MAX);
                let message =
                    format!("line {number} of the input is longer than {most} bytes: write one JSON object per line");
                let refusal = json!({"ok": false, "error": "bad-json", "message": message});
                answers.extend_from_slice(refusal.to_string().as_bytes());
            }
        }
        answers.push(b'\n');
    }
    answers
}

/// Cuts a stream of bytes into lines.
#[derive(Default)]
struct Lines {
    /// The first part of a line whose end has not been read yet.
    begun: Vec<u8>,
    /// Whether the current line is too long, so that the rest of it is dropped.
    skipping: bool,
    /// The number of lines that have ended.
    ended: u64,
}

enum Line<'a> {
    Whole(Cow<'a, [u8]>),
    TooLong {
        /// The number of the line, from 1.
        number: u64,
    },
}

impl Lines {
    /// Returns the lines that end in this chunk.
    fn feed<'a>(&mut self, chunk: &'a [u8]) -> Vec<Line<'a>> {
        let (mut rest, mut ended) = (chunk, Vec::new());
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, after) = rest.split_at(end);
            rest = &after[1..]; // OK because it begins with the line feed
            ended.push(self.finish(line));
        }
        self.begin(rest);
        ended
    }

    /// Returns the last line at the end of input, if it lacks a line feed.
    fn end(&mut self) -> Option<Line<'static>> {
        (self.skipping || !self.begun.is_empty()).then(|| self.finish(&[]))
    }

    fn finish<'a>(&mut self, tail: &'a [u8]) -> Line<'a> {
        self.ended += 1;
        if self.begun.is_empty() && !self.skipping && tail.len() <= LINE_BYTES_MAX {
            return Line::Whole(tail.into());
        }
        self.begin(tail);
        let begun = mem::take(&mut self.begun);
        if mem::take(&mut self.skipping) { Line::TooLong { number: self.ended } } else { Line::Whole(begun.into()) }
    }

    fn begin(&mut self, part: &[u8]) {
        if self.skipping {
            return;
        }
        if self.begun.len() + part.len() > LINE_BYTES_MAX {
            self.skipping = true;
            self.begun = Vec::new(); // frees the memory
        } else {
            self.begun.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns the data in pieces of one size.
    struct Pieces<'a> {
        left: &'a [u8],
        size: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.size.min(self.left.len()).min(buffer.len());
            let (now, later) = self.left.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.left = later;
            Ok(count)
        }
    }

    fn answers(input: &[u8], size: usize) -> String {
        let mut output = Vec::new();
        let answer = |line: &[u8], answers: &mut Vec<u8>| {
            answers.extend_from_slice(format!("<{}>", String::from_utf8_lossy(line)).as_bytes());
        };
        converse(Pieces { left: input, size }, &mut output, answer).expect("reads and writes memory");
        String::from_utf8(output).expect("answers are UTF-8")
    }

    #[test]
    fn ok_lines_are_answered_in_order_for_any_size_of_reads() {
        for (input, expected) in [
            ("", ""),
            ("a\n", "<a>\n"),
            ("a", "<a>\n"),
            ("a\nbc\n\nd", "<a>\n<bc>\n<>\n<d>\n"),
            ("\n", "<>\n"),
            ("ä\n", "<ä>\n"),
        ] {
            for size in [1, 2, 3, 1000] {
                assert_eq!(answers(input.as_bytes(), size), expected, "{input:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn err_a_line_that_is_too_long_is_skipped() {
        let mut input = vec![b'x'; LINE_BYTES_MAX + 1];
        input.extend_from_slice(b"xx\nb\n");
        let output = answers(&input, CHUNK_BYTES);
        assert_eq!(output.lines().count(), 2);
        assert!(output.contains("line 1 of the input is longer than 16_777_216 bytes"), "{output}");
        assert!(output.ends_with("<b>\n"), "{output}");
        assert_eq!(answers(&input[..=LINE_BYTES_MAX], CHUNK_BYTES).lines().count(), 1);
    }
}
