//! Tokens: secrets that callers present, and the records against which they are checked.

use alloc::{format, string::String, vec::Vec};
use core::{fmt, str::FromStr};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;

use crate::{limits::Limits, right::Right};

/// The public part of a token, which identifies its record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId([u8; ID_BYTES]);

/// A token as a caller presents it.
#[derive(Clone)]
pub struct Presented {
    id: TokenId,
    secret: [u8; SECRET_BYTES],
}

/// The SHA-256 of a secret. A secret has 256 random bits, so a slower hash is not needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

/// The record of a token. It does not contain the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The ID, which is public.
    pub id: TokenId,
    /// The purpose of the token.
    pub name: String,
    /// The rights of its holder.
    pub rights: Vec<Right>,
    /// The names of the roles whose rights the holder also has.
    pub roles: Vec<String>,
    /// Its own limits, which override those of its roles.
    pub limits: Limits,
    /// When the token was created, in milliseconds since 1970.
    pub created: i64,
    /// When the token expires, in milliseconds since 1970.
    pub expires: Option<i64>,
    /// The name of the principal that created it.
    pub created_by: String,
    /// The hash of its secret.
    pub hash: Hash,
    /// The secret before the last rotation.
    pub outdated: Option<Outdated>,
    /// Why the token is permanently refused, if it is.
    pub refused: Option<Refused>,
}

/// A replaced secret, which stays valid for a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// The hash of the secret.
    pub hash: Hash,
    /// When the grace period ends, in milliseconds since 1970.
    pub until: i64,
}

/// Reasons that a token is refused although its secret is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// An operator has revoked the token.
    #[error("revoked")]
    Revoked,
    /// The token was created before a restore of the store.
    #[error("disabled by a restore")]
    Restored,
    /// The token has expired.
    #[error("expired")]
    Expired,
}

/// A string that is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a token: a token begins with kent_")]
pub struct Malformed;

/// A string that is not the ID of a token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not the ID of a token, which has {n} characters of 0-9 and a-f", n = 2 * ID_BYTES)]
pub struct BadId(String);

/// The longest grace period of a replaced secret, in seconds: a week.
pub const GRACE_SECONDS_MAX: u64 = 7 * 86_400;

const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;
const PREFIX: &str = "kent_";

impl TokenId {
    /// Makes an ID from random bits.
    pub const fn new(random: [u8; ID_BYTES]) -> Self {
        Self(random)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenId({self})")
    }
}

impl FromStr for TokenId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId(text.chars().take(SHOWN_MAX).collect());
        decode(text.as_bytes()).map(Self).ok_or_else(bad)
    }
}

/// Errors quote at most this many characters of an input.
const SHOWN_MAX: usize = 40;

impl Presented {
    /// Makes a token from random bits.
    pub const fn new(id: TokenId, secret: [u8; SECRET_BYTES]) -> Self {
        Self { id, secret }
    }

    /// Reads `kent_ID_SECRET`.
    ///
    /// # Errors
    ///
    /// [`Malformed`], which does not quote the text.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let rest = text.strip_prefix(PREFIX.as_bytes()).ok_or(Malformed)?;
        let (id, secret) = rest.split_at_checked(2 * ID_BYTES).ok_or(Malformed)?;
        let secret = secret.strip_prefix(b"_").ok_or(Malformed)?;
        Ok(Self { id: TokenId(decode(id).ok_or(Malformed)?), secret: decode(secret).ok_or(Malformed)? })
    }

    /// The public part.
    pub const fn id(&self) -> TokenId {
        self.id
    }

    /// The token as `kent_ID_SECRET`. All other output omits the secret.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, HEXLOWER.encode(&self.secret))
    }

    /// The hash of the secret.
    pub fn hash(&self) -> Hash {
        Hash(Sha256::digest(self.secret).into())
    }
}

/// Shows only the public part.
impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Presented({})", self.id)
    }
}

impl Hash {
    /// Makes a hash from the bytes in a record.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

impl Token {
    /// Checks a secret at `now`, in milliseconds since 1970. Returns `None` if the secret is wrong. Otherwise returns
    /// when the credential expires, in milliseconds since 1970, or why the token is refused. The duration of the check
    /// does not depend on where the secrets differ.
    pub fn check(&self, hash: &Hash, now: i64) -> Option<Result<Option<i64>, Refused>> {
        let (is_present, outdated) =
            (self.hash.is(hash), self.outdated.unwrap_or(Outdated { hash: self.hash, until: 0 }));
        let is_outdated = outdated.hash.is(hash) & !is_present;
        if !bool::from(is_present | is_outdated) {
            return None;
        }
        let expires = match bool::from(is_outdated) {
            true => Some(self.expires.map_or(outdated.until, |expires| expires.min(outdated.until))),
            false => self.expires,
        };
        let refused = self.refused.or_else(|| expires.filter(|expires| *expires <= now).map(|_| Refused::Expired));
        Some(refused.map_or(Ok(expires), Err))
    }

    /// Returns why the daemon refuses calls with this token at `now`, in milliseconds since 1970.
    pub fn refused(&self, now: i64) -> Option<Refused> {
        self.refused.or_else(|| self.expires.filter(|expires| *expires <= now).map(|_| Refused::Expired))
    }
}

fn decode<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    // The length is checked first, so a long string is not decoded.
    if text.len() != 2 * N {
        return None;
    }
    HEXLOWER.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use alloc::{borrow::ToOwned, string::ToString};

    use proptest::prelude::*;

    use super::*;

    fn presented(secret: u8) -> Presented {
        Presented::new(TokenId::new([1, 2, 3, 4, 5, 6]), [secret; 32])
    }

    fn token(expires: Option<i64>, refused: Option<Refused>) -> Token {
        Token {
            id: presented(1).id(),
            name: "orders".to_owned(),
            rights: Vec::new(),
            roles: Vec::new(),
            limits: Limits::default(),
            created: 0,
            expires,
            created_by: "local".to_owned(),
            hash: presented(1).hash(),
            outdated: Some(Outdated { hash: presented(2).hash(), until: 50 }),
            refused,
        }
    }

    #[test]
    fn ok_a_token_is_checked() {
        use Refused::{Expired, Restored, Revoked};
        let cases = [
            (None, None, 1, 10, Some(Ok(None))),
            (Some(100), None, 1, 99, Some(Ok(Some(100)))),
            (Some(100), None, 1, 100, Some(Err(Expired))),
            (Some(100), None, 3, 99, None),
            (None, Some(Revoked), 1, 10, Some(Err(Revoked))),
            (None, Some(Restored), 1, 10, Some(Err(Restored))),
            // Only callers with the correct secret get the reason.
            (None, Some(Revoked), 3, 10, None),
            // A caller presents the secret from before the rotation.
            (None, None, 2, 49, Some(Ok(Some(50)))),
            (Some(20), None, 2, 10, Some(Ok(Some(20)))),
            (None, None, 2, 50, Some(Err(Expired))),
            (None, Some(Revoked), 2, 10, Some(Err(Revoked))),
        ];
        for (expires, refused, secret, now, expected) in cases {
            let checked = token(expires, refused).check(&presented(secret).hash(), now);
            assert_eq!(checked, expected, "{expires:?} {refused:?} {secret} {now}");
        }
        let never_rotated = Token { outdated: None, ..token(None, None) };
        assert_eq!(never_rotated.check(&presented(2).hash(), 0), None);
        assert_eq!(never_rotated.check(&presented(1).hash(), 0), Some(Ok(None)));
    }

    #[test]
    fn ok_a_token_in_a_log_has_no_secret() {
        let (made, record) = (presented(0xab), token(None, None));
        assert_eq!(format!("{made:?}"), "Presented(010203040506)");
        assert!(!format!("{record:?}").contains(&HEXLOWER.encode(record.hash.bytes())));
        assert_eq!(made.reveal(), format!("kent_010203040506_{}", "ab".repeat(32)));
    }

    #[test]
    fn err_texts_that_are_not_tokens() {
        let good = presented(1).reveal();
        assert!(Presented::parse(good.as_bytes()).is_ok());
        let upper = good.replace("01", "AB");
        for bad in
            ["", "kent_", "kent", "Bearer kent_", &good[1..], &good[..good.len() - 1], &upper, &format!("{good}0")]
        {
            assert!(Presented::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!("010203".parse::<TokenId>().is_err());
        let id = presented(1).id();
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    proptest! {
        #[test]
        fn ok_tokens_round_trip(id: [u8; 6], secret: [u8; 32]) {
            let made = Presented::new(TokenId::new(id), secret);
            let read = Presented::parse(made.reveal().as_bytes()).expect("a token");
            prop_assert_eq!(read.id(), made.id());
            prop_assert_eq!(read.secret, secret);
        }

        #[test]
        fn ok_no_bytes_panic(bytes: Vec<u8>, tail in "kent_[0-9a-f_]{0,80}") {
            let _ = Presented::parse(&bytes);
            let _ = Presented::parse(tail.as_bytes());
        }
    }
}
