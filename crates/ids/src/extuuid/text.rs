//! A piece of the input with its offset, so that an error can state where the problem is.

use alloc::borrow::Cow;

use crate::error::{CodecError, ErrorCode};

/// A slice of the input with its offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Piece<'a> {
    /// Creates a piece that is the whole text.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Splits off the first byte.
    pub(super) fn split_first(self) -> Option<(u8, Self)> {
        self.bytes.split_first().map(|(first, rest)| (*first, Self { bytes: rest, at: self.at + 1 }))
    }

    /// Splits the piece after `bytes` bytes, or at its end if it is shorter.
    pub(super) fn split_at(self, bytes: usize) -> (Self, Self) {
        let (head, rest) = self.bytes.split_at(bytes.min(self.bytes.len()));
        (Self { bytes: head, ..self }, Self { bytes: rest, at: self.at + head.len() })
    }

    /// Splits the piece at the first separator. Returns `None` if there is no separator.
    pub(super) fn split_once(self, separator: u8) -> Option<(Self, Self)> {
        let offset = self.bytes.iter().position(|byte| *byte == separator)?;
        let (head, rest) = self.split_at(offset);
        Some((head, rest.split_at(1).1))
    }

    /// Splits the piece at every separator: `n` separators make `n + 1` pieces.
    pub(super) fn split(self, separator: u8) -> impl Iterator<Item = Self> + Clone {
        let mut rest = Some(self);
        core::iter::from_fn(move || {
            let piece = rest?;
            match piece.split_once(separator) {
                Some((head, tail)) => {
                    rest = Some(tail);
                    Some(head)
                }
                None => rest.take(),
            }
        })
    }

    /// Returns the rest after this prefix, or `None` if the piece does not begin with the prefix.
    pub(super) fn strip_prefix(self, prefix: &str) -> Option<Self> {
        let rest = self.bytes.strip_prefix(prefix.as_bytes())?;
        Some(Self { bytes: rest, at: self.at + prefix.len() })
    }

    /// Returns the piece without spaces, tabs, carriage returns and line feeds at both ends.
    pub(super) fn trimmed(self) -> Self {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let blanks = self.bytes.iter().take_while(|byte| is_blank(byte)).count();
        let rest = self.split_at(blanks).1;
        let blanks = rest.bytes.iter().rev().take_while(|byte| is_blank(byte)).count();
        rest.split_at(rest.bytes.len() - blanks).0
    }

    /// Creates an error at the offset of this piece.
    pub(super) fn refuse(self, code: ErrorCode, message: impl Into<Cow<'static, str>>) -> CodecError {
        CodecError::new(code, message).at(self.at)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn shown(piece: Piece<'_>) -> (&[u8], usize) {
        (piece.bytes, piece.at)
    }

    #[test]
    fn ok_pieces_know_their_offsets() {
        let text = Piece::new(b" \t ab:c,,d\r\n").trimmed();
        assert_eq!(shown(text), (&b"ab:c,,d"[..], 3));
        let (head, rest) = text.split_once(b':').expect("a colon");
        assert_eq!((shown(head), shown(rest)), ((&b"ab"[..], 3), (&b"c,,d"[..], 6)));
        let parts: Vec<_> = rest.split(b',').map(shown).collect();
        assert_eq!(parts, [(&b"c"[..], 6), (&b""[..], 8), (&b"d"[..], 9)]);
        assert_eq!(Piece::new(b"").split(b',').map(shown).collect::<Vec<_>>(), [(&b""[..], 0)]);
        assert_eq!(shown(Piece::new(b" \n ").trimmed()), (&b""[..], 3));
        assert!(Piece::new(b"abc").strip_prefix("abd").is_none());
    }
}
