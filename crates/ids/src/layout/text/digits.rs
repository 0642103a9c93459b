//! The digits in which identifiers are written.
//!
//! Most forms write the value as a number. `base32hex` and `base64url` write its bytes as RFC 4648 does, so the last
//! digit may hold padding bits, which are zero.

use alloc::{format, string::String, vec::Vec};

use uuid::Uuid;

use super::Width;
use crate::{
    dce,
    error::{Byte, CodecError, ErrorCode},
};

/// The digits of identifiers as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digits {
    /// `decimal`: 0 to 9, usually in minimal width.
    Decimal,
    /// `hex`: 0 to 9 and a to f.
    Hex,
    /// `crockford`: Crockford's base 32 in upper case, as in ULIDs and TSIDs.
    Crockford,
    /// `crockford-lower`: Crockford's base 32 in lower case, as in TypeIDs.
    CrockfordLower,
    /// `base32hex`: the bytes in the extended hex alphabet of RFC 4648, section 7, in lower case and without padding
    /// characters, as in rs/xid.
    Base32Hex,
    /// `base36`: 0 to 9 and a to z, usually in minimal width.
    Base36,
    /// `base58`: Bitcoin's alphabet, which uid11 also uses.
    Base58,
    /// `base62`: 0 to 9, A to Z and a to z, as in KSUIDs.
    Base62,
    /// `base64url`: the bytes in the alphabet of RFC 4648, section 5, without padding characters. The text does not
    /// sort like the values.
    Base64Url,
    /// `push64`: the 64 characters of Firebase's push IDs, in ASCII order.
    Push64,
    /// `uuid`: the spelling of a UUID, for layouts of 128 bits.
    Uuid,
}

impl Digits {
    /// All digits.
    pub const ALL: [Self; 11] = [
        Self::Decimal,
        Self::Hex,
        Self::Crockford,
        Self::CrockfordLower,
        Self::Base32Hex,
        Self::Base36,
        Self::Base58,
        Self::Base62,
        Self::Base64Url,
        Self::Push64,
        Self::Uuid,
    ];

    /// Returns the digits with this name, or `None`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|digits| digits.name() == name)
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decimal => "decimal",
            Self::Hex => "hex",
            Self::Crockford => "crockford",
            Self::CrockfordLower => "crockford-lower",
            Self::Base32Hex => "base32hex",
            Self::Base36 => "base36",
            Self::Base58 => "base58",
            Self::Base62 => "base62",
            Self::Base64Url => "base64url",
            Self::Push64 => "push64",
            Self::Uuid => "uuid",
        }
    }

    /// Returns the width in which identifiers are usually written.
    pub const fn usual_width(self) -> Width {
        match self {
            Self::Decimal | Self::Base36 => Width::Minimal,
            _ => Width::Fixed,
        }
    }

    /// Returns whether a minimal width is possible with these digits.
    pub(super) const fn may_be_minimal(self) -> bool {
        !matches!(self, Self::Base32Hex | Self::Base64Url | Self::Uuid)
    }

    /// Returns whether identifiers in text form sort like their values, if all have the same number of digits.
    pub(super) const fn sorts(self) -> bool {
        !matches!(self, Self::Base64Url)
    }

    /// Returns the only width of identifiers that the digits can represent, or `None` if they can represent any width.
    pub(super) const fn only_bits(self) -> Option<u8> {
        match self {
            Self::Uuid => Some(128),
            _ => None,
        }
    }

    const fn alphabet(self) -> &'static [u8] {
        match self {
            Self::Decimal => b"0123456789",
            Self::Hex | Self::Uuid => b"0123456789abcdef",
            Self::Crockford => b"0123456789ABCDEFGHJKMNPQRSTVWXYZ",
            Self::CrockfordLower => b"0123456789abcdefghjkmnpqrstvwxyz",
            Self::Base32Hex => b"0123456789abcdefghijklmnopqrstuv",
            Self::Base36 => b"0123456789abcdefghijklmnopqrstuvwxyz",
            Self::Base58 => b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
            Self::Base62 => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            Self::Base64Url => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
            Self::Push64 => b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz",
        }
    }

    /// Returns the number of padding bits that follow the bytes of an identifier of `bits` bits: 0 for forms that write
    /// the value as a number.
    const fn padding(self, bits: u8) -> u32 {
        let bits = bits.div_ceil(8) as u32 * 8;
        match self {
            Self::Base32Hex => bits.next_multiple_of(5) - bits,
            Self::Base64Url => bits.next_multiple_of(6) - bits,
            _ => 0,
        }
    }

    /// Returns how many digits the largest identifier with `bits` bits has.
    fn count(self, bits: u8) -> usize {
        let bytes = u32::from(bits.div_ceil(8)) * 8;
        match self {
            Self::Base32Hex => bytes.div_ceil(5) as usize,
            Self::Base64Url => bytes.div_ceil(6) as usize,
            _ => {
                let (base, mut largest, mut count) = (self.base(), u128::MAX >> (128 - u32::from(bits)), 0);
                while largest > 0 {
                    largest /= base;
                    count += 1;
                }
                count
            }
        }
    }

    const fn base(self) -> u128 {
        self.alphabet().len() as u128
    }

    /// Appends the text of a value below 2^bits.
    pub(super) fn write(self, value: u128, bits: u8, width: Width, text: &mut String) {
        if self == Self::Uuid {
            text.push_str(&format!("{}", Uuid::from_u128(value).hyphenated()));
            return;
        }
        let mut digits = Vec::with_capacity(self.count(bits));
        // With the padding bits, the number could be wider than 128 bits, so the last digit, which holds them, is
        // computed first.
        let (base, padding) = (self.base(), self.padding(bits));
        let mut rest = value;
        if padding > 0 {
            let used = base.ilog2() - padding;
            digits.push((rest & ((1 << used) - 1)) << padding);
            rest >>= used;
        }
        while rest > u128::from(u64::MAX) {
            digits.push(rest % base);
            rest /= base;
        }
        // 64-bit arithmetic is several times faster.
        let (mut rest, base) = (rest as u64, base as u64);
        while rest > 0 {
            digits.push(u128::from(rest % base));
            rest /= base;
        }
        let least = match width {
            Width::Fixed => self.count(bits),
            Width::Minimal => 1,
        };
        digits.resize(digits.len().max(least), 0);
        let symbol = |digit: &u128| self.alphabet().get(*digit as usize).map(|symbol| char::from(*symbol)); // OK because a digit is below 64
        text.extend(digits.iter().rev().filter_map(symbol));
    }

    /// Reads the digits of an identifier of `bits` bits.
    pub(super) fn parse(self, text: &[u8], bits: u8, width: Width) -> Result<u128, CodecError> {
        if self == Self::Uuid {
            return parse_uuid(text);
        }
        let count = self.count(bits);
        match width {
            Width::Fixed if text.len() != count => {
                return Err(bad_length(format!("the text has {} digits of {self}, but must have {count}", text.len())));
            }
            Width::Minimal if !(1..=count).contains(&text.len()) => {
                return Err(bad_length(format!(
                    "the text has {} digits of {self}, but must have 1 to {count}",
                    text.len()
                )));
            }
            Width::Minimal if text.len() > 1 && text.first() == self.alphabet().first() => {
                return Err(CodecError::new(ErrorCode::NotCanonical, "the text begins with a zero").at(0));
            }
            _ => {}
        }
        let (body, last) = text.split_at(text.len() - usize::from(self.padding(bits) > 0));
        let number = self.number(body)?;
        let number = match last.first() {
            None => number,
            Some(symbol) => self.add_last(number, *symbol, body.len(), bits)?,
        };
        number.filter(|number| number.checked_shr(bits.into()).unwrap_or(0) == 0).ok_or_else(|| {
            let message = format!("the text is a number that does not fit in {bits} bits");
            CodecError::new(ErrorCode::Overflow, message)
        })
    }

    /// Returns the number that the digits represent, or `None` if it does not fit in 128 bits.
    fn number(self, text: &[u8]) -> Result<Option<u128>, CodecError> {
        text.iter().enumerate().try_fold(Some(0), |number: Option<u128>, (at, symbol)| {
            let digit = self.digit(*symbol, at)?;
            Ok(number.and_then(|number| number.checked_mul(self.base())?.checked_add(digit)))
        })
    }

    /// Adds the last digit, whose low bits are padding, to the number.
    fn add_last(self, number: Option<u128>, symbol: u8, at: usize, bits: u8) -> Result<Option<u128>, CodecError> {
        let padding = self.padding(bits);
        let (digit, used) = (self.digit(symbol, at)?, self.base().ilog2() - padding);
        if digit & ((1 << padding) - 1) != 0 {
            let message = format!("the last {padding} bits of the text must be zero");
            return Err(CodecError::new(ErrorCode::NotCanonical, message).at(at));
        }
        Ok(number.and_then(|number| number.checked_mul(1 << used)?.checked_add(digit >> padding)))
    }

    fn digit(self, symbol: u8, at: usize) -> Result<u128, CodecError> {
        let digit = self.alphabet().iter().position(|known| *known == symbol);
        digit.map(|digit| digit as u128).ok_or_else(|| {
            let message = format!("{} is not a digit of {self}", Byte(symbol));
            CodecError::new(ErrorCode::BadSymbol, message).at(at)
        })
    }
}

fn parse_uuid(text: &[u8]) -> Result<u128, CodecError> {
    let uuid = dce::parse(text)?;
    match text.iter().position(u8::is_ascii_uppercase) {
        None => Ok(uuid.as_u128()),
        Some(at) => Err(CodecError::new(ErrorCode::NotCanonical, "the digits of a UUID are in lower case").at(at)),
    }
}

fn bad_length(message: String) -> CodecError {
    CodecError::new(ErrorCode::BadLength, message)
}
