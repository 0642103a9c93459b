//! The cache of a connection's last caller.

use std::{hint::black_box, sync::Arc, time::Duration};

use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use super::{
    caller::Known,
    usage::{Limited, Open, OpenKind},
};

/// The last caller of a connection, cached so that its token is hashed and its rights are compiled once, not for each
/// call.
///
/// parking_lot's `Mutex` needs about thirty fewer instructions than the standard library's, which checks for poisoning.
#[derive(Debug, Default)]
pub struct KnownCaller(Mutex<Option<Remembered>>);

#[derive(Debug)]
struct Remembered {
    /// The header that the caller sent; `None` if the caller has only a certificate.
    header: Option<Box<[u8]>>,
    known: Arc<Known>,
    /// Counts the connection as one of the principal's open connections.
    open: Open,
}

impl KnownCaller {
    /// The caller that sent this header on the connection.
    #[inline(always)]
    pub(super) fn get(&self, generation: u64, header: Option<&[u8]>, now: Duration) -> Option<Arc<Known>> {
        let last = self.0.lock();
        let Remembered { header: own, known, .. } = last.as_ref()?;
        let is_known = known.is_as_of(generation, now)
            && match (own, header) {
                (Some(own), Some(header)) => is_same(own, header),
                (own, header) => own.is_none() && header.is_none(),
            };
        is_known.then(|| known.clone())
    }

    /// Remembers a caller. If the principal has changed, the connection counts for the new principal.
    ///
    /// # Errors
    ///
    /// [`Limited`] if the principal may not open another connection.
    pub(super) fn set(&self, header: Option<&[u8]>, known: Arc<Known>) -> Result<(), Limited> {
        let mut last = self.0.lock();
        let principal = &known.principal;
        let is_same = |last: &mut Remembered| Arc::ptr_eq(&last.known.principal.usage, &principal.usage);
        let open = match last.take_if(is_same) {
            Some(last) => last.open,
            None => principal.usage.open(OpenKind::Connection, &principal.limits)?,
        };
        *last = Some(Remembered { header: header.map(Into::into), known, open });
        Ok(())
    }
}

/// Compares headers in constant time, because several callers may share a connection through a proxy. The loop compares
/// 16 bytes at a time, because it runs for each call.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // If the length is known at compile time, the compiler generates a comparison without a loop.
    if let (Ok(one), Ok(other)) = (<&[u8; USUAL_BYTES]>::try_from(one), <&[u8; USUAL_BYTES]>::try_from(other)) {
        return is_same_text(one, other);
    }
    is_same_text(one, other)
}

/// The length of `Bearer kent_ID_SECRET` in bytes.
const USUAL_BYTES: usize = 89;

/// Compares byte strings of the same length.
#[inline(always)]
fn is_same_text(one: &[u8], other: &[u8]) -> bool {
    let (Some(tail), Some(other_tail)) = (one.last_chunk(), other.last_chunk()) else {
        return one.ct_eq(other).into(); // Tokens are longer.
    };
    let ((words, _), (other_words, _)) = (one.as_chunks(), other.as_chunks());
    // Combine all bytes without a branch. One barrier at the end keeps the compiler from adding branches. The crate
    // `subtle` uses a barrier for each comparison, which is slower.
    let mut differing = u128::from_ne_bytes(*tail) ^ u128::from_ne_bytes(*other_tail);
    // `zip` would compile to a function call.
    let mut other_words = other_words.iter();
    for one in words {
        let Some(other) = other_words.next() else { return false };
        differing |= u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other);
    }
    black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_headers_are_compared_to_the_last_byte() {
        let header = b"Bearer kent_0123456789ab_cdefghjkmnpqrstvwxyz";
        for length in 0..=header.len() {
            let header = &header[..length];
            assert!(is_same(header, header));
            for at in 0..length {
                let mut other = header.to_vec();
                other[at] ^= 1;
                assert!(!is_same(header, &other) && !is_same(header, &header[..at]), "{length} {at}");
            }
        }
    }
}
