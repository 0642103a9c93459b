//! As much of Redis's protocol (RESP 2) as a counter needs: a command out, integers in.

use anyhow::{Context, bail};

/// `INCRBY key by`, as it goes over the wire.
pub(super) fn incrby(key: &str, by: u64) -> Vec<u8> {
    let by = by.to_string();
    format!("*3\r\n$6\r\nINCRBY\r\n${}\r\n{key}\r\n${}\r\n{by}\r\n", key.len(), by.len()).into_bytes()
}

/// How many whole integers there are at the beginning of what came, and how many bytes they take.
pub(super) fn integers(came: &[u8]) -> anyhow::Result<(usize, usize)> {
    let (mut count, mut taken) = (0, 0);
    while let Some(length) = came[taken..].windows(2).position(|two| two == b"\r\n") {
        let line = str::from_utf8(&came[taken..taken + length])?;
        match line.strip_prefix(':') {
            Some(number) => number.parse::<i64>().map(drop).context("not an integer")?,
            None => bail!("Redis says {line:?}"),
        }
        count += 1;
        taken += length + 2;
    }
    Ok((count, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_command_counts_its_bytes() {
        assert_eq!(incrby("ids", 1000), b"*3\r\n$6\r\nINCRBY\r\n$3\r\nids\r\n$4\r\n1000\r\n");
    }

    #[test]
    fn ok_only_whole_answers_are_taken() {
        let cases: [(&[u8], (usize, usize)); 5] =
            [(b"", (0, 0)), (b":1", (0, 0)), (b":1\r", (0, 0)), (b":1\r\n", (1, 4)), (b":1\r\n:-20\r\n:3", (2, 10))];
        for (came, expected) in cases {
            assert_eq!(integers(came).expect("well-formed"), expected);
        }
    }

    #[test]
    fn err_anything_but_an_integer_is_told() {
        let error = integers(b"-MISCONF cannot write\r\n").expect_err("an error").to_string();
        assert!(error.contains("MISCONF"), "{error}");
        assert!(integers(b":x\r\n").is_err());
    }
}
