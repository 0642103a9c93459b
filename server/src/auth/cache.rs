//! What a connection remembers of its last caller.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use subtle::ConstantTimeEq;

use super::{
    caller::Principal,
    usage::{Limited, Open, OpenKind},
};

/// The last caller of a connection, so that its token is hashed and its rights are compiled once and not for each call.
#[derive(Debug, Default)]
pub(crate) struct KnownCaller(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// The generation of the table of tokens and roles from which the principal is.
    generation: u64,
    /// The header that it sent; empty if it has only a certificate.
    header: Box<[u8]>,
    principal: Arc<Principal>,
    /// When it must be identified again, on the steady clock.
    until: Duration,
    /// Counts the connection as one of the principal.
    open: Open,
}

impl KnownCaller {
    /// The principal that sent this header on the connection, and until when it is known.
    pub(super) fn get(&self, generation: u64, header: &[u8], now: Duration) -> Option<(Arc<Principal>, Duration)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|known| known.generation == generation && now < known.until)?;
        is_same(&known.header, header).then(|| (known.principal.clone(), known.until))
    }

    /// Remembers a principal. If it is another one than before, the connection becomes one of its own.
    ///
    /// # Errors
    ///
    /// [`Limited`] if it may not have one more connection.
    pub(super) fn set(
        &self,
        generation: u64,
        header: &[u8],
        principal: Arc<Principal>,
        until: Duration,
    ) -> Result<(), Limited> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &mut Known| Arc::ptr_eq(&known.principal.usage, &principal.usage);
        let open = match known.take_if(is_same) {
            Some(known) => known.open,
            None => principal.usage.open(OpenKind::Connection, &principal.limits)?,
        };
        *known = Some(Known { generation, header: header.into(), principal, until, open });
        Ok(())
    }
}

/// Compares headers, in a time that does not depend on where they differ: several callers may share a connection through a proxy.
/// Compares eight bytes at a time, because each call does this.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let ((words, rest), (other_words, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    // Every byte counts, without a branch. One barrier at the end is enough to keep it so, and subtle has one for each comparison.
    let differing = words
        .iter()
        .zip(other_words)
        .fold(0, |differing, (one, other)| differing | (u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other)));
    let differing =
        rest.iter().zip(other_rest).fold(differing, |differing, (one, other)| differing | u64::from(one ^ other));
    differing.ct_eq(&0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_headers_are_compared_to_the_last_byte() {
        let header = b"Bearer kent_0123";
        assert!(is_same(header, header) && is_same(b"", b""));
        for at in 0..header.len() {
            let mut other = *header;
            other[at] ^= 1;
            assert!(!is_same(header, &other) && !is_same(header, &header[..at]), "{at}");
        }
    }
}
