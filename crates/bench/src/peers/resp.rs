//! The subset of Redis's protocol (RESP 2) that a counter needs: one command, and integers as replies.

use anyhow::{Context, bail};

/// Returns the command `INCRBY key by` in wire format.
pub(super) fn incrby(key: &str, by: u64) -> Vec<u8> {
    let by = by.to_string();
    format!("*3\r\n$6\r\nINCRBY\r\n${}\r\n{key}\r\n${}\r\n{by}\r\n", key.len(), by.len()).into_bytes()
}

/// Returns the number of complete integers at the start of the received bytes, and their total length in bytes.
pub(super) fn integers(received: &[u8]) -> anyhow::Result<(usize, usize)> {
    let (mut count, mut taken) = (0, 0);
    while let Some(length) = received[taken..].windows(2).position(|two| two == b"\r\n") {
        let line = str::from_utf8(&received[taken..taken + length])?;
        match line.strip_prefix(':') {
            Some(number) => number.parse::<i64>().map(drop).context("Redis sent an invalid integer")?,
            None => bail!("expected an integer from Redis, got {line:?}"),
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
    fn ok_a_command_states_its_lengths() {
        assert_eq!(incrby("ids", 1000), b"*3\r\n$6\r\nINCRBY\r\n$3\r\nids\r\n$4\r\n1000\r\n");
    }

    #[test]
    fn ok_incomplete_integers_are_left() {
        let cases: [(&[u8], (usize, usize)); 5] =
            [(b"", (0, 0)), (b":1", (0, 0)), (b":1\r", (0, 0)), (b":1\r\n", (1, 4)), (b":1\r\n:-20\r\n:3", (2, 10))];
        for (received, expected) in cases {
            assert_eq!(integers(received).expect("well-formed"), expected);
        }
    }

    #[test]
    fn err_other_replies_are_reported() {
        let error = integers(b"-MISCONF cannot write\r\n").expect_err("an error").to_string();
        assert!(error.contains("MISCONF"), "{error}");
        assert!(integers(b":x\r\n").is_err());
    }
}
