//! Replies, in RESP2 and RESP3.

use bytes::{BufMut, Bytes, BytesMut};

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// RESP2.
    #[default]
    Two,
    /// RESP3.
    Three,
}

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A fixed text, such as `OK`.
    Simple(&'static str),
    /// An error: its first word is a code for programs.
    Error(String),
    Integer(i64),
    Bulk(Bytes),
    Nil,
    Array(Vec<Reply>),
    /// An array of keys and values in RESP2.
    Map(Vec<(&'static str, Reply)>),
}

impl Reply {
    pub(crate) const OK: Self = Self::Simple("OK");

    /// A string.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Bulk(Bytes::from(text.into()))
    }

    /// Appends the reply to the output of a connection.
    pub(crate) fn write(&self, version: Version, out: &mut BytesMut) {
        match (self, version) {
            (Self::Simple(text), _) => line(b'+', text, out),
            (Self::Error(text), _) => line(b'-', &single_line(text), out),
            (Self::Integer(number), _) => line(b':', &number.to_string(), out),
            (Self::Bulk(bytes), _) => bulk(bytes, out),
            (Self::Nil, Version::Two) => line(b'$', "-1", out),
            (Self::Nil, Version::Three) => line(b'_', "", out),
            (Self::Array(items), _) => {
                line(b'*', &items.len().to_string(), out);
                items.iter().for_each(|item| item.write(version, out));
            }
            (Self::Map(entries), _) => {
                match version {
                    Version::Two => line(b'*', &(2 * entries.len()).to_string(), out),
                    Version::Three => line(b'%', &entries.len().to_string(), out),
                }
                for (key, value) in entries {
                    bulk(key.as_bytes(), out);
                    value.write(version, out);
                }
            }
        }
    }
}

fn line(kind: u8, text: &str, out: &mut BytesMut) {
    out.put_u8(kind);
    out.put_slice(text.as_bytes());
    out.put_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut BytesMut) {
    line(b'$', &bytes.len().to_string(), out);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// Replaces control characters. A line break would end the error, and the rest would look like another reply.
fn single_line(text: &str) -> String {
    text.chars().map(|symbol| if symbol.is_control() { ' ' } else { symbol }).collect()
}

#[cfg(test)]
mod tests {
    use redis_protocol::{
        resp2::{self, types::OwnedFrame as Frame2},
        resp3::{self, types::OwnedFrame as Frame3},
    };

    use super::*;

    fn written(reply: &Reply, version: Version) -> BytesMut {
        let mut out = BytesMut::new();
        reply.write(version, &mut out);
        out
    }

    #[test]
    fn ok_replies_are_written_in_both_versions() {
        let items = || vec![Reply::Integer(1), Reply::Nil];
        for (reply, two, three) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::Error("ERR a\r\n+OK\u{85}".to_owned()), "-ERR a  +OK \r\n", "-ERR a  +OK \r\n"),
            (Reply::Integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (Reply::text("a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
            (Reply::text(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::Array(Vec::new()), "*0\r\n", "*0\r\n"),
            (Reply::Array(items()), "*2\r\n:1\r\n$-1\r\n", "*2\r\n:1\r\n_\r\n"),
            (Reply::Map(vec![("a", Reply::Integer(1))]), "*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n$1\r\na\r\n:1\r\n"),
        ] {
            assert_eq!(written(&reply, Version::Two), two, "{reply:?}");
            assert_eq!(written(&reply, Version::Three), three, "{reply:?}");
        }
    }

    /// A library for the protocol reads each reply as a whole.
    #[test]
    fn ok_a_library_reads_the_replies() {
        let reply = Reply::Array(vec![
            Reply::OK,
            Reply::Integer(i64::MAX),
            Reply::text("a\r\nb"),
            Reply::Nil,
            Reply::Map(vec![("proto", Reply::Integer(3))]),
            Reply::Error("ERR no".to_owned()),
        ]);
        let two = written(&reply, Version::Two);
        let (Frame2::Array(items), length) = resp2::decode::decode(&two).expect("valid").expect("whole") else {
            panic!("an array")
        };
        assert_eq!((items.len(), length, &items[3]), (6, two.len(), &Frame2::Null));
        let three = written(&reply, Version::Three);
        let (frame, length) = resp3::decode::complete::decode(&three).expect("valid").expect("whole");
        let Frame3::Array { data, .. } = frame else { panic!("an array") };
        assert_eq!((data.len(), length), (6, three.len()));
        assert!(matches!(&data[4], Frame3::Map { data, .. } if data.len() == 1));
    }
}
