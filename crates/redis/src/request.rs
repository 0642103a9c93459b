//! Splits the bytes of a connection into requests: arrays of strings, or lines that people type.
//!
//! A request is a flat array, and its limits are checked before anything is allocated. The parsers of general libraries
//! also accept nested arrays of any depth, so a caller could overflow the stack.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use thiserror::Error;

/// The parts of a request: the name of the command, and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Empty if the request is to be ignored.
    pub(crate) parts: Vec<Bytes>,
    /// Whether the request is a line instead of an array.
    pub(crate) is_line: bool,
}

/// Why bytes are not a request. The connection must end, because the beginning of the next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    /// The array has too many parts.
    #[error("a command has at most {PARTS_MAX} parts")]
    TooManyParts,
    /// The strings or the line are too long.
    #[error("a command has at most {BYTES_MAX} bytes, and at most {LINE_MAX} if it is a line")]
    TooLong,
    /// A number is missing or not valid.
    #[error("invalid length")]
    BadLength,
    /// A part is not a string.
    #[error("expected '$'")]
    NotAString,
    /// A string is longer than its length says.
    #[error("a string does not end after its length")]
    Unended,
}

/// The maximum length of all parts of a request, in bytes.
pub(crate) const BYTES_MAX: usize = 64 * 1024;

/// The maximum number of parts of a request.
pub(crate) const PARTS_MAX: usize = 16;

/// The maximum length of a request that is a line, in bytes.
pub(crate) const LINE_MAX: usize = 1024;

/// The maximum length of the line with a length, in bytes. A 64-bit number has up to 20 characters.
const HEADER_MAX: usize = 32;

/// Takes the first request from the input, if it is complete.
///
/// # Errors
///
/// [`Malformed`].
pub(crate) fn next(input: &mut BytesMut) -> Result<Option<Request>, Malformed> {
    let is_line = match input.first() {
        None => return Ok(None),
        Some(first) => *first != b'*',
    };
    let found = if is_line { scan_line(input)? } else { scan_array(input)? };
    Ok(found.map(|(parts, length)| {
        let bytes = input.split_to(length).freeze();
        Request { parts: parts.into_iter().map(|part| bytes.slice(part)).collect(), is_line }
    }))
}

/// The places of the parts in the input, and the length of the request.
type Found = Option<(Vec<Range<usize>>, usize)>;

fn scan_array(input: &[u8]) -> Result<Found, Malformed> {
    let Some((count, mut at)) = scan_length(input, 1)? else { return Ok(None) };
    // As in Redis, an empty or absent array is ignored.
    let count =
        usize::try_from(count.max(0)).ok().filter(|count| *count <= PARTS_MAX).ok_or(Malformed::TooManyParts)?;
    let (mut parts, mut total) = (Vec::with_capacity(count), 0_usize);
    for _ in 0..count {
        match input.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err(Malformed::NotAString),
        }
        let Some((length, begin)) = scan_length(input, at + 1)? else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| Malformed::BadLength)?;
        total = total.saturating_add(length);
        if total > BYTES_MAX {
            return Err(Malformed::TooLong);
        }
        let end = begin + length; // OK because both are small
        match input.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err(Malformed::Unended),
        }
        parts.push(begin..end);
        at = end + 2;
    }
    Ok(Some((parts, at)))
}

/// Reads the number at `at`, up to the end of its line. Returns the number and the place after the line.
fn scan_length(input: &[u8], at: usize) -> Result<Option<(i64, usize)>, Malformed> {
    let rest = input.get(at..).unwrap_or_default();
    let line = rest.get(..HEADER_MAX).unwrap_or(rest);
    let Some(length) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if line.len() < HEADER_MAX { Ok(None) } else { Err(Malformed::BadLength) };
    };
    let number = std::str::from_utf8(&line[..length]).ok().and_then(|digits| digits.parse().ok());
    Ok(Some((number.ok_or(Malformed::BadLength)?, at + length + 2)))
}

fn scan_line(input: &[u8]) -> Result<Found, Malformed> {
    let start = input.get(..LINE_MAX).unwrap_or(input);
    let Some(end) = start.iter().position(|byte| *byte == b'\n') else {
        return if start.len() < LINE_MAX { Ok(None) } else { Err(Malformed::TooLong) };
    };
    let (mut parts, mut begin) = (Vec::new(), 0);
    for word in start[..end].split(|byte| byte.is_ascii_whitespace()) {
        if !word.is_empty() {
            parts.push(begin..begin + word.len());
        }
        begin += word.len() + 1;
    }
    if parts.len() > PARTS_MAX {
        return Err(Malformed::TooManyParts);
    }
    Ok(Some((parts, end + 1)))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};
    use redis_protocol::resp2;

    use super::*;
    use crate::command::Command;

    type Words = &'static [&'static [u8]];

    fn words(request: &Request) -> Vec<&[u8]> {
        request.parts.iter().map(|part| &**part).collect()
    }

    #[test]
    fn ok_requests_are_taken_one_after_the_other() {
        let cases: [(&[u8], &[Words], usize); 11] = [
            (b"", &[], 0),
            (b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]], 0),
            (b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*1\r\n$4\r\nTIME\r\n*1\r", &[&[b"INCR", b"a"], &[b"TIME"]], 3),
            (b"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\0$\r\n", &[&[b"ECHO", b"\r\n\0$"]], 0),
            (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", &[&[b"ECHO", b""]], 0),
            (b"*0\r\n*-1\r\n\r\n", &[&[], &[], &[]], 0),
            (b"PING\r\nINCR  orders\tx \n", &[&[b"PING"], &[b"INCR", b"orders", b"x"]], 0),
            (b"PING", &[], 4),
            (b"*2\r\n$4\r\nIN", &[], 10),
            (b"*2\r\n$4\r\nINCR\r", &[], 13),
            (b"*", &[], 1),
        ];
        for (bytes, expected, left) in cases {
            let mut input = BytesMut::from(bytes);
            for expected in expected {
                let request = next(&mut input).expect("well-formed").expect("whole");
                assert_eq!(words(&request), *expected, "{bytes:?}");
            }
            assert_eq!((next(&mut input), input.len()), (Ok(None), left), "{bytes:?}");
        }
    }

    #[test]
    fn err_each_limit_is_checked_before_the_rest_arrives() {
        let long = [b'a'; LINE_MAX];
        let crowded = [b"a ".repeat(PARTS_MAX + 1), b"\n".to_vec()].concat();
        let cases: [(&[u8], Malformed); 16] = [
            (b"*17\r\n", Malformed::TooManyParts),
            (b"*1000000\r\n", Malformed::TooManyParts),
            (b"*9223372036854775807\r\n", Malformed::TooManyParts),
            (b"*9223372036854775808\r\n", Malformed::BadLength),
            (b"*x\r\n", Malformed::BadLength),
            (b"*\r\n", Malformed::BadLength),
            (b"*00000000000000000000000000000000", Malformed::BadLength),
            (b"*1\r\n*1\r\n", Malformed::NotAString),
            (b"*1\r\n:1\r\n", Malformed::NotAString),
            (b"*1\r\n$-5\r\n", Malformed::BadLength),
            (b"*1\r\n$-1\r\n", Malformed::BadLength),
            (b"*1\r\n$65537\r\n", Malformed::TooLong),
            (b"*1\r\n$9223372036854775807\r\n", Malformed::TooLong),
            (b"*1\r\n$4\r\nPINGING\r\n", Malformed::Unended),
            (&long, Malformed::TooLong),
            (&crowded, Malformed::TooManyParts),
        ];
        for (bytes, expected) in cases {
            assert_eq!(next(&mut BytesMut::from(bytes)), Err(expected), "{bytes:?}");
        }
        let half = BYTES_MAX / 2 + 1;
        let two = format!("*2\r\n${half}\r\n{}\r\n${half}\r\n", "a".repeat(half));
        assert_eq!(next(&mut BytesMut::from(two.as_bytes())), Err(Malformed::TooLong));
    }

    /// Every beginning of a request is incomplete, and the whole request means what a library for the protocol reads.
    #[test]
    fn ok_requests_mean_the_same_as_to_a_library() {
        for bytes in [
            &b"*1\r\n$4\r\nPING\r\n"[..],
            b"*3\r\n$6\r\nINCRBY\r\n$6\r\norders\r\n$2\r\n10\r\n",
            b"*2\r\n$4\r\nECHO\r\n$5\r\n\r\n\xff\0 \r\n",
            b"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$0\r\n\r\n",
        ] {
            for length in 0..bytes.len() {
                assert_eq!(next(&mut BytesMut::from(&bytes[..length])), Ok(None), "{length} of {bytes:?}");
            }
            let request = next(&mut BytesMut::from(bytes)).expect("well-formed").expect("whole");
            let (frame, length) = resp2::decode::decode(bytes).expect("well-formed").expect("whole");
            let strings = words(&request).into_iter().map(|part| resp2::types::OwnedFrame::BulkString(part.to_vec()));
            assert_eq!((frame, length), (resp2::types::OwnedFrame::Array(strings.collect()), bytes.len()));
        }
    }

    /// Generates valid, broken and unrelated bytes.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        const TOKENS: [&[u8]; 20] = [
            b"*1\r\n",
            b"*2\r\n",
            b"*16\r\n",
            b"*17\r\n",
            b"*-1\r\n",
            b"*",
            b"$4\r\n",
            b"$0\r\n\r\n",
            b"$65536\r\n",
            b"$",
            b"INCR",
            b"HELLO 3 AUTH default",
            b"INCRBY orders 5\r\n",
            b"client setname",
            b"\r\n",
            b"\n",
            b"\r",
            b" ",
            b"-1",
            b"99999999999999999999",
        ];
        let words = vec(vec(any::<u8>(), 0..6), 1..4).prop_map(|words| {
            let strings = words.iter().map(|word| [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
            [format!("*{}\r\n", words.len()).into_bytes(), strings.collect::<Vec<_>>().concat()].concat()
        });
        prop_oneof![
            4 => select(TOKENS.as_slice()).prop_map(<[u8]>::to_vec),
            4 => words,
            1 => vec(any::<u8>(), 0..40),
            1 => vec(select(b"a \n".as_slice()), 0..2 * LINE_MAX),
        ]
    }

    /// Reads requests until the rest is incomplete or malformed.
    fn read(input: &mut BytesMut, found: &mut Vec<Request>) -> Result<(), Malformed> {
        while let Some(request) = next(input)? {
            found.push(request);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn ok_requests_do_not_depend_on_how_their_bytes_arrive(pieces in vec(piece(), 0..12), arriving in 1..64_usize) {
            let bytes = pieces.concat();
            let (mut whole, mut requests) = (BytesMut::from(&*bytes), Vec::new());
            let end = read(&mut whole, &mut requests);
            let (mut input, mut found) = (BytesMut::new(), Vec::new());
            let found_end = bytes.chunks(arriving).try_for_each(|chunk| {
                input.extend_from_slice(chunk);
                read(&mut input, &mut found)
            });
            prop_assert_eq!((&found, found_end), (&requests, end));
            if end.is_ok() {
                prop_assert_eq!(input, whole);
            }
            for request in found {
                let length: usize = request.parts.iter().map(Bytes::len).sum();
                prop_assert!(request.parts.len() <= PARTS_MAX && length <= BYTES_MAX);
                // Any parts are a command or an error.
                let _ = Command::read(&request.parts);
            }
        }
    }
}
