//! Series: identifiers made from a durable counter instead of the time.
//!
//! Every number of the counter permanently maps to one identifier, so uniqueness requires only that the counter never
//! goes back.

use alloc::{
    format,
    string::{String, ToString},
};
use core::{fmt, str::FromStr};

use crate::{
    error::{CodecError, ErrorCode},
    extuuid::{SerialError, Serials},
    formats::Format,
    id::{Id, IdKind},
    line::Position,
    permute::{NarrowPermutation, Permutation},
    slot::ClusterKey,
};

/// The token of [`Series::FullRand`].
const FULL_RAND: &str = "uid11-fullrand";
/// The label and the parameter of the permutation of `uid11-fullrand`. Changing them would let values repeat.
const FULL_RAND_LABEL: &[u8; 8] = b"fullrnd1";
const FULL_RAND_PARAM: u64 = 0;
/// The beginning of a serial's token, before the optional letter of the scheme.
const SERIAL: &str = "serial";

/// Identifiers made from a durable counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Series {
    /// `uid11-fullrand`: each 64-bit value once, in the order of a keyed permutation.
    FullRand,
    /// `serial:SYMBOL`: the EXTUUID serial numbers of a symbol, starting at 1.
    Serial(Serials),
}

impl Series {
    /// Returns the series' name: its token in requests, metrics and logs.
    pub fn token(&self) -> String {
        self.to_string()
    }

    /// Returns the name with the letter of its scheme, for the store. The default scheme of a symbol may change, but
    /// the stored name must not.
    pub fn stored_name(&self) -> String {
        match self {
            Self::FullRand => FULL_RAND.to_string(),
            Self::Serial(serials) => format!("{SERIAL}{serials}"),
        }
    }

    /// Returns the number of the first identifier.
    pub const fn first(&self) -> Position {
        match self {
            Self::FullRand => Position::ZERO,
            Self::Serial(_) => Position::new(1),
        }
    }

    /// Returns one more than the number of the last identifier.
    pub const fn end(&self) -> Position {
        match self {
            Self::FullRand => Position::new(1 << u64::BITS),
            Self::Serial(serials) => Position::new(serials.largest() + 1),
        }
    }

    /// Returns the size of an identifier in bytes.
    pub const fn width_bytes(&self) -> usize {
        match self {
            Self::FullRand => 8,
            Self::Serial(_) => 16,
        }
    }

    /// Returns whether the identifiers depend on the cluster's key.
    pub const fn uses_key(&self) -> bool {
        matches!(self, Self::FullRand)
    }

    /// Returns the encoder that turns numbers into identifiers; `key` is used only if [`uses_key`](Self::uses_key)
    /// returns true.
    pub(crate) fn encoder(&self, key: &ClusterKey) -> SeriesEncoder {
        match self {
            Self::FullRand => {
                let permutation = Permutation::new(key, FULL_RAND_LABEL, FULL_RAND_PARAM, u64::BITS);
                SeriesEncoder::FullRand(permutation.narrow())
            }
            Self::Serial(serials) => SeriesEncoder::Serial(serials.clone()),
        }
    }

    /// Returns the identifier with this number; `key` is used only if [`uses_key`](Self::uses_key) returns true.
    ///
    /// # Errors
    ///
    /// Fails with `range` for a number outside the series.
    pub fn encode(&self, key: &ClusterKey, position: Position) -> Result<Id, CodecError> {
        if position < self.first() || position >= self.end() {
            let message = format!(
                "{self} has no number {position}: its numbers are from {} to below {}",
                self.first(),
                self.end()
            );
            return Err(CodecError::new(ErrorCode::Range, message));
        }
        let mut values = [0];
        self.encoder(key).fill(position, &mut values);
        Ok(self.kind().id(values[0]))
    }

    /// Returns the kind of the series' identifiers.
    pub(crate) const fn kind(&self) -> IdKind {
        match self {
            Self::FullRand => IdKind::Uid11,
            Self::Serial(_) => IdKind::Uuid,
        }
    }
}

/// A series with the precomputed data that its identifiers share.
#[derive(Clone, Debug)]
pub(crate) enum SeriesEncoder {
    FullRand(NarrowPermutation),
    Serial(Serials),
}

impl SeriesEncoder {
    /// Fills `values` with the identifiers of consecutive numbers, starting at `first`. All numbers must be in the
    /// series.
    pub(crate) fn fill(&self, first: Position, values: &mut [u128]) {
        match self {
            Self::FullRand(permutation) => {
                let mut number = first.get() as u64; // OK because the series has 64 bits
                for value in values {
                    *value = permutation.apply(number).into();
                    number = number.wrapping_add(1);
                }
            }
            Self::Serial(serials) => {
                for (number, value) in (first.get()..).zip(values) {
                    *value = serials.ext(number).map_or(0, |ext| ext.to_uuid().as_u128());
                }
            }
        }
    }
}

impl fmt::Display for Series {
    /// Writes the letter of the scheme only if the symbol would get another scheme without the letter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FullRand => f.pad(FULL_RAND),
            Self::Serial(serials) if serials.has_default_scheme() => write!(f, "{SERIAL}:{}", serials.name()),
            Self::Serial(serials) => write!(f, "{SERIAL}{serials}"),
        }
    }
}

impl FromStr for Series {
    type Err = CodecError;

    /// Reads the name of a series: `uid11-fullrand`, `serial:SYMBOL`, or `serialA:SYMBOL` with the letter of a scheme.
    /// Two spellings of a symbol name the same series if the scheme writes both the same way.
    ///
    /// Fails with `bad-format` for any other name, and with a more specific code for a symbol that cannot have serial
    /// numbers.
    fn from_str(token: &str) -> Result<Self, CodecError> {
        match token.strip_prefix(SERIAL).and_then(|rest| rest.split_once(':')) {
            Some((letters, symbol)) => serial(letters, symbol).map(Self::Serial),
            None if token == FULL_RAND => Ok(Self::FullRand),
            None => Err(CodecError::new(
                ErrorCode::BadFormat,
                format!("there is no series {token:?}: {}use {FULL_RAND} or {SERIAL}:SYMBOL", hint(token)),
            )),
        }
    }
}

/// Returns a hint about an unknown name, to print before the list of names, or an empty string.
fn hint(token: &str) -> String {
    if Format::all().any(|format| format.token() == token) {
        return format!("{token} is a format, not a series; ");
    }
    let symbol = token.strip_prefix("series:").unwrap_or(token);
    match Serials::new(symbol, None) {
        Ok(_) if symbol != SERIAL && !symbol.contains(':') => format!("did you mean {SERIAL}:{symbol}? Otherwise "),
        _ => String::new(),
    }
}

fn serial(letters: &str, symbol: &str) -> Result<Serials, CodecError> {
    let mut letters = letters.chars();
    let made = match (letters.next(), letters.next()) {
        (letter, None) => Serials::new(symbol, letter),
        _ => Err(SerialError::NoSuchScheme),
    };
    made.map_err(|error| {
        let code = match error {
            SerialError::Empty => ErrorCode::EmptySymbol,
            SerialError::NoSuchScheme => ErrorCode::UnsupportedScheme,
            SerialError::BadSymbol => ErrorCode::BadSymbol,
            SerialError::TooLong => ErrorCode::SymbolTooLong,
        };
        CodecError::new(code, error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ClusterKey = ClusterKey::new([7; 16]);

    #[test]
    fn ok_series_round_trip() {
        assert_eq!("uid11-fullrand".parse(), Ok(Series::FullRand));
        assert_eq!(Series::FullRand.to_string(), "uid11-fullrand");
        assert_eq!(Series::FullRand.stored_name(), "uid11-fullrand");
        for (text, shown, stored) in [
            ("serial:GBP", "serial:GBP", "serialA:GBP"),
            ("serialA:GBP", "serial:GBP", "serialA:GBP"),
            ("serial:gbp", "serial:gbp", "serialA:gbp"),
            ("serial:gbp$", "serial:GBP$", "serialB:GBP$"),
            ("serialB:GBP$", "serial:GBP$", "serialB:GBP$"),
            ("serialD:GBP", "serialD:GBP", "serialD:GBP"),
            ("serial:abcdefghi9", "serial:ABCDEFGHI9", "serialF:ABCDEFGHI9"),
        ] {
            let series: Series = text.parse().expect(text);
            assert_eq!((series.to_string(), series.stored_name()), (shown.to_string(), stored.to_string()));
            assert_eq!((shown.parse(), stored.parse()), (Ok(series.clone()), Ok(series)));
        }
    }

    #[test]
    fn err_symbols_that_cannot_have_serial_numbers() {
        for (text, code) in [
            ("serial:", ErrorCode::EmptySymbol),
            ("serial:a b", ErrorCode::BadSymbol),
            ("serialE:A", ErrorCode::UnsupportedScheme),
            ("serialAB:A", ErrorCode::UnsupportedScheme),
            ("serial", ErrorCode::BadFormat),
            ("serialA", ErrorCode::BadFormat),
            ("symA:A", ErrorCode::BadFormat),
        ] {
            assert_eq!(text.parse::<Series>().expect_err(text).code(), code, "{text}");
        }
    }

    #[test]
    fn ok_serials_are_extuuids() {
        let series: Series = "serial:ISSN".parse().expect("a symbol");
        let id = series.encode(&KEY, Position::new(12_345_679)).expect("a number");
        assert_eq!(id.to_string(), "01084923-4000-8000-8000-000000bc614f");
        assert!(series.encode(&KEY, Position::ZERO).is_err());
    }

    #[test]
    fn err_numbers_beyond_the_series() {
        let last = Position::new((1 << 64) - 1);
        assert!(Series::FullRand.encode(&KEY, last).is_ok());
        let error = Series::FullRand.encode(&KEY, Position::new(1 << 64)).expect_err("beyond");
        assert_eq!(error.code(), ErrorCode::Range);
    }
}
