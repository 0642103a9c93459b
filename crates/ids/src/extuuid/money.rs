//! Money: a fixed-point number with four decimals, named by a currency's three letters and `$` (EXTUUID 2012, 4.1.1).

use alloc::string::String;

use super::{
    Ext, encode,
    parse::{FixedNumber, fixed_number, parse, scaled, trimmed},
    print::fixed,
    scheme::Scheme,
    text::Piece,
    value::Value,
};
use crate::error::{CodecError, ErrorCode};

/// The number of decimals of an amount.
const DECIMALS: u8 = 4;
/// The length of a currency code. Any three letters are accepted.
const LETTERS: usize = 3;
/// The number of bits that the name leaves for the amount, including its sign.
const AMOUNT_BITS: u32 = 83;

/// An amount of a currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Money {
    /// The value.
    pub ext: Ext,
    /// The currency's three letters.
    pub currency: String,
    /// The amount in units of 0.0001.
    pub scaled: i128,
}

impl Money {
    /// Returns the amount as a decimal number without trailing zeros.
    pub fn amount(&self) -> String {
        fixed(self.scaled, DECIMALS)
    }

    /// Returns the amount of money in `ext`, or `None` if it holds another value.
    pub fn from_ext(ext: Ext) -> Option<Self> {
        let Value::Fixed { scheme: Scheme::B, name, decimals: DECIMALS, scaled } = ext.value() else { return None };
        let currency = name.strip_suffix('$')?;
        let letters = currency.len() == LETTERS && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        letters.then(|| Self { ext, currency: currency.into(), scaled })
    }
}

/// Reads an amount: `GBP222.31`, `GBP$222.31`, `222.31$GBP`, `222.31GBP`, or any other text form of an EXTUUID that is
/// an amount.
///
/// # Errors
///
/// Fails with `text-too-long` for more than 1024 bytes, `not-money` for any other text, `precision` for more than four
/// decimals, and `number-too-big` for an amount of more than 82 bits.
pub fn parse_money(text: impl AsRef<[u8]>) -> Result<Money, CodecError> {
    let text = text.as_ref();
    let piece = trimmed(text)?;
    if let Some((letters, number)) = split(piece) {
        return amount(piece, letters, &number);
    }
    parse(text).ok().and_then(Money::from_ext).ok_or_else(|| {
        let message = "not an amount of money: write it like GBP222.31, GBP$222.31, 222.31$GBP or 222.31GBP";
        CodecError::new(ErrorCode::NotMoney, message)
    })
}

/// Splits one of the short forms into its letters and its number.
fn split(piece: Piece<'_>) -> Option<(&[u8], FixedNumber)> {
    let bytes = piece.bytes();
    let is_currency = |letters: &[u8]| letters.len() == LETTERS && letters.iter().all(u8::is_ascii_alphabetic);
    if bytes.len() <= LETTERS {
        return None;
    }
    let (front, rest) = piece.split_at(LETTERS);
    if is_currency(front.bytes()) {
        let number = rest.strip_prefix("$").unwrap_or(rest);
        return fixed_number(number).map(|number| (front.bytes(), number));
    }
    let (rest, back) = piece.split_at(bytes.len() - LETTERS);
    let number = match rest.bytes() {
        [.., b'$'] => rest.split_at(rest.bytes().len() - 1).0,
        _ => rest,
    };
    fixed_number(number).filter(|_| is_currency(back.bytes())).map(|number| (back.bytes(), number))
}

fn amount(piece: Piece<'_>, letters: &[u8], number: &FixedNumber) -> Result<Money, CodecError> {
    let (scaled, bits) = scaled(number, DECIMALS.into(), piece)?;
    if bits > AMOUNT_BITS {
        return Err(piece.refuse(ErrorCode::NumberTooBig, "an amount has at most 82 bits, in units of 0.0001"));
    }
    let currency: String = letters.iter().map(|letter| char::from(letter.to_ascii_uppercase())).collect();
    let name: String = [&currency, "$"].concat();
    Ok(Money { ext: encode::fixed(Scheme::B, &name, DECIMALS, scaled), currency, scaled })
}
