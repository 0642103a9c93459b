//! Parses EXTUUIDs written as text. The minimal parser accepts only the canonical text; the smart parser also accepts
//! the forms that people write.
//!
//! Text that begins with a keyword and a colon must have the form of that keyword. Other text is read in the first of
//! these forms that fits: a date, a quantity, an integer, another decimal number, a list of numbers, a name with a
//! number, or a name. A name without a keyword must begin with a letter, so that a mistyped number never becomes a
//! name.

use alloc::{format, string::String, string::ToString, vec::Vec};

use num_bigint::BigUint;

use super::{
    Ext,
    bits::bit_length,
    decode::{EXPONENT_BITS_MAX, FIXED_BITS, FLOATS_BITS, INT_BITS, INTS_BITS, SYMSERIAL_BITS},
    encode,
    quant::bad_quant,
    real::{Binary, Decimal, Real, bad_number, digits, float_range, parse_real, sign},
    scheme::Scheme,
    standard::{Standard, StandardKind},
    text::Piece,
    time::{self, TIME_BITS},
    value::{Quant, Units},
};
use crate::error::{CodecError, ErrorCode};

/// The maximum length of the text in bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// The beginning of the canonical text.
const HEAD: &str = "extuuid:";
/// The largest number of values in a vector.
const COUNT_MAX: usize = 127;
/// The largest number of decimals of a fixed-point number.
const DECIMALS_MAX: usize = 31;
/// The largest context of a quantity.
const QUANT_CONTEXT_MAX: u128 = 15;

/// Reads the canonical text of a value and rejects every other text.
///
/// # Errors
///
/// Fails with `not-canonical`.
pub fn parse_minimal(text: impl AsRef<[u8]>) -> Result<Ext, CodecError> {
    let text = text.as_ref();
    let read = parse(text).map_err(|error| not_canonical(&error.to_string()))?;
    let printed = read.to_string();
    match printed.as_bytes() == text {
        true => Ok(read),
        false => Err(not_canonical(&format!("the canonical text is {printed}"))),
    }
}

fn not_canonical(why: &str) -> CodecError {
    CodecError::new(ErrorCode::NotCanonical, format!("the text is not canonical: {why}"))
}

/// Reads a value as people write it: the keyword is optional, whitespace at both ends is ignored, and case is ignored
/// unless the scheme distinguishes it.
///
/// # Errors
///
/// Fails with `text-too-long` for more than 1024 bytes, with `unrecognised` if no form fits, and otherwise with the
/// error from parsing the form.
pub fn parse(text: impl AsRef<[u8]>) -> Result<Ext, CodecError> {
    let piece = trimmed(text.as_ref())?;
    let piece = piece.strip_prefix(HEAD).unwrap_or(piece);
    match piece.split_once(b':') {
        Some((keyword, body)) => match Form::read(keyword) {
            Some(form) => form.parse(keyword, body),
            None => untyped(piece),
        },
        None => untyped(piece),
    }
}

pub(super) fn trimmed(text: &[u8]) -> Result<Piece<'_>, CodecError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the text has {} bytes, but at most {TEXT_BYTES_MAX} are allowed", text.len());
        return Err(CodecError::new(ErrorCode::TextTooLong, message));
    }
    Ok(Piece::new(text).trimmed())
}

/// The form that a keyword names.
enum Form<'a> {
    Symbol(Option<u8>),
    Serial(Option<u8>),
    Fixed(Option<u8>, &'a [u8]),
    Int(Dimensions<'a>),
    Uint(Dimensions<'a>),
    Float(Dimensions<'a>),
    Quant(Option<&'a [u8]>),
    Time(Option<&'a [u8]>),
    Raw,
    Standard(StandardKind),
    /// A keyword with invalid parameters. This is an error, because a mistyped vector must not become a name.
    Malformed(ErrorCode),
}

/// The numbers after a vector's keyword: the first follows a `/`, and the others follow a `*`.
type Dimensions<'a> = Vec<&'a [u8]>;

impl<'a> Form<'a> {
    /// Returns the form that a keyword names, or `None` if the piece is not a keyword.
    fn read(keyword: Piece<'a>) -> Option<Self> {
        let bytes = keyword.bytes();
        if let Some(kind) = StandardKind::by_keyword(bytes) {
            return Some(Self::Standard(kind));
        }
        if let Some(rest) = bytes.strip_prefix(b"sym") {
            let (letter, rest) = letter(rest);
            return rest.is_empty().then_some(Self::Symbol(letter));
        }
        if let Some(rest) = bytes.strip_prefix(b"serial") {
            let (letter, rest) = letter(rest);
            return rest.is_empty().then_some(Self::Serial(letter));
        }
        if let Some(rest) = bytes.strip_prefix(b"fixed") {
            let (letter, decimals) = letter(rest);
            return decimals.iter().all(u8::is_ascii_digit).then_some(Self::Fixed(letter, decimals));
        }
        let (head, rest) = keyword.split_at(bytes.iter().take_while(|byte| byte.is_ascii_lowercase()).count());
        match head.bytes() {
            b"int" => or_malformed(dimensions(rest, 2).map(Self::Int), rest, b'/', ErrorCode::BadDims),
            b"uint" => or_malformed(dimensions(rest, 2).map(Self::Uint), rest, b'/', ErrorCode::BadDims),
            b"f" => or_malformed(dimensions(rest, 3).map(Self::Float), rest, b'/', ErrorCode::BadDims),
            b"quant" | b"q" => or_malformed(parameter(rest, b'@').map(Self::Quant), rest, b'@', ErrorCode::BadContext),
            b"t" => or_malformed(parameter(rest, b'/').map(Self::Time), rest, b'/', ErrorCode::BadDims),
            b"raw" => rest.bytes().is_empty().then_some(Self::Raw),
            _ => None,
        }
    }

    fn parse(self, keyword: Piece<'_>, body: Piece<'_>) -> Result<Ext, CodecError> {
        match self {
            Self::Symbol(letter) => symbol(scheme(letter, keyword)?, body),
            Self::Serial(letter) => {
                let scheme = scheme(letter, keyword)?;
                let (name, number) = split(body, "the name and the number of a serial")?;
                serial(scheme, name, number)
            }
            Self::Fixed(letter, decimals) => {
                let scheme = scheme(letter, keyword)?;
                let decimals = self::decimals(decimals, keyword)?;
                let (name, number) = split(body, "the name and the number of a fixed-point number")?;
                fixed(scheme, decimals, name, number)
            }
            Self::Int(dimensions) if dimensions.is_empty() && is_bare(body) => int(body),
            Self::Int(dimensions) => ints(&dimensions, keyword, body),
            Self::Uint(dimensions) => uints(&dimensions, keyword, body),
            Self::Float(dimensions) if !dimensions.is_empty() => floats(&dimensions, keyword, body),
            Self::Float(_) if is_bare(body) => parse_real(Binary::WHOLE, body).map(encode::float),
            Self::Float(_) => {
                let (context, values) = body.split_once(b':').unwrap_or((body.split_at(0).0, body));
                fitting(context, values)
            }
            Self::Quant(context) => quant(context, keyword, body),
            Self::Time(bits) => {
                let bits =
                    bits.map(|bits| number(bits, TIME_BITS.into()).ok_or_else(|| bad_dims(keyword))).transpose()?;
                // OK because the number is at most 109.
                time::parse(body, bits.map(|bits| bits as u8)).map(encode::time)
            }
            Self::Malformed(ErrorCode::BadDims) => Err(bad_dims(keyword)),
            Self::Malformed(code) => Err(keyword.refuse(code, "the context of a quantity is 0 to 15")),
            Self::Raw => Ext::from_hex(body.bytes()),
            Self::Standard(kind) => {
                let (context, values) = body.split_once(b':').unwrap_or((body.split_at(0).0, body));
                standard(kind, context, values)
            }
        }
    }
}

/// Returns `form`. If it is `None`, and `rest` begins with the byte `begins`, as parameters do, returns
/// [`Form::Malformed`].
fn or_malformed<'a>(form: Option<Form<'a>>, rest: Piece<'_>, begins: u8, code: ErrorCode) -> Option<Form<'a>> {
    let begun = rest.bytes().first() == Some(&begins);
    form.or_else(|| begun.then_some(Form::Malformed(code)))
}

/// Returns whether the text after a keyword is a single number without a context.
fn is_bare(body: Piece<'_>) -> bool {
    !body.bytes().iter().any(|byte| matches!(byte, b':' | b','))
}

/// Splits off the optional letter of a scheme at the front.
const fn letter(bytes: &[u8]) -> (Option<u8>, &[u8]) {
    match bytes {
        [letter @ b'A'..=b'F', rest @ ..] => (Some(*letter), rest),
        _ => (None, bytes),
    }
}

/// Reads up to `most` numbers: the first follows a `/`, and the others follow a `*`. Returns `None` for anything else.
fn dimensions(piece: Piece<'_>, most: usize) -> Option<Dimensions<'_>> {
    let (mut found, mut rest) = (Vec::new(), piece);
    while let Some((separator, after)) = rest.split_first() {
        let expected = if found.is_empty() { b'/' } else { b'*' };
        let (number, after) = digits(after);
        if separator != expected || number.is_empty() || found.len() == most {
            return None;
        }
        found.push(number);
        rest = after;
    }
    Some(found)
}

/// Returns the number after the separator, or `Some(None)` for an empty piece. Returns `None` for anything else.
fn parameter(piece: Piece<'_>, separator: u8) -> Option<Option<&[u8]>> {
    match piece.split_first() {
        None => Some(None),
        Some((found, rest)) if found == separator => {
            let (number, rest) = digits(rest);
            (!number.is_empty() && rest.bytes().is_empty()).then_some(Some(number))
        }
        Some(_) => None,
    }
}

/// Reads digits as a number. Returns `None` if it is above `max`, or if the text is empty or has another character.
fn number(digits: &[u8], max: u128) -> Option<u128> {
    let add = |number: u128, digit: &u8| number.checked_mul(10)?.checked_add(u128::from(digit.wrapping_sub(b'0')));
    let all = digits.iter().all(u8::is_ascii_digit) && !digits.is_empty();
    if all { digits.iter().try_fold(0, add).filter(|number| *number <= max) } else { None }
}

fn scheme(letter: Option<u8>, keyword: Piece<'_>) -> Result<Option<Scheme>, CodecError> {
    let Some(letter) = letter else { return Ok(None) };
    match Scheme::by_letter(char::from(letter)) {
        Some(scheme) => Ok(Some(scheme)),
        None => {
            Err(keyword.refuse(ErrorCode::UnsupportedScheme, "scheme E (EBCDIC) is not supported: use A, B, C, D or F"))
        }
    }
}

fn split<'a>(body: Piece<'a>, what: &str) -> Result<(Piece<'a>, Piece<'a>), CodecError> {
    body.split_once(b':').ok_or_else(|| body.refuse(ErrorCode::BadSyntax, format!("a colon is missing between {what}")))
}

/// The bits that a name and its number share.
#[derive(Clone, Copy)]
struct SharedBits {
    /// The number of bits for both.
    total: u32,
    /// The minimum number of bits that the name must leave for the number.
    number_min: u32,
    /// The number of bits that the number needs.
    number: u32,
}

/// Returns the name as its scheme writes it. If no scheme is given, chooses the first scheme that has all characters of
/// the name and enough bits for the name and its number.
fn name(scheme: Option<Scheme>, text: Piece<'_>, bits: SharedBits) -> Result<(Scheme, String), CodecError> {
    if text.bytes().is_empty() && scheme.is_none() {
        return Err(text.refuse(ErrorCode::EmptySymbol, "an empty name needs a scheme, as in symA:"));
    }
    let candidates = scheme.as_ref().map_or(&Scheme::ALL[..], core::slice::from_ref);
    let mut refusal = ErrorCode::BadSymbol;
    for scheme in candidates {
        let folded: Option<String> = text.bytes().iter().map(|byte| scheme.fold(*byte).map(char::from)).collect();
        let Some(folded) = folded else { continue };
        let left = scheme.width(folded.len()).and_then(|width| bits.total.checked_sub(width));
        match left.filter(|left| *left >= bits.number_min) {
            Some(left) if left >= bits.number => return Ok((*scheme, folded)),
            Some(_) => refusal = ErrorCode::NumberTooBig,
            None if refusal == ErrorCode::BadSymbol => refusal = ErrorCode::SymbolTooLong,
            None => {}
        }
    }
    let message = match refusal {
        ErrorCode::NumberTooBig => "the number does not fit into the bits that the name leaves",
        ErrorCode::SymbolTooLong => "the name is too long for every scheme that has its characters",
        _ => "no allowed scheme has all characters of the name",
    };
    Err(text.refuse(refusal, message))
}

fn symbol(scheme: Option<Scheme>, text: Piece<'_>) -> Result<Ext, CodecError> {
    let (scheme, name) = name(scheme, text, SharedBits { total: SYMSERIAL_BITS, number_min: 1, number: 1 })?;
    Ok(encode::symserial(scheme, &name, 0))
}

fn serial(scheme: Option<Scheme>, text: Piece<'_>, digits: Piece<'_>) -> Result<Ext, CodecError> {
    let digits_of = |piece: Piece<'_>| serial_digits(piece.bytes());
    let spelled = digits_of(digits).ok_or_else(|| {
        digits.refuse(ErrorCode::BadNumber, "a serial number consists of digits, with optional - and _ between them")
    })?;
    let number = BigUint::parse_bytes(&spelled, 10).unwrap_or_default();
    if number == BigUint::ZERO {
        return Err(digits.refuse(ErrorCode::ZeroSerial, "a serial number is at least 1"));
    }
    let (scheme, name) =
        name(scheme, text, SharedBits { total: SYMSERIAL_BITS, number_min: 1, number: bits_of(&number) })?;
    Ok(encode::symserial(scheme, &name, u128::try_from(number).unwrap_or_default()))
}

fn bits_of(number: &BigUint) -> u32 {
    u32::try_from(number.bits()).unwrap_or(u32::MAX)
}

/// Returns the digits of a serial number, without the separators between them.
fn serial_digits(bytes: &[u8]) -> Option<Vec<u8>> {
    let between = |byte: &u8| matches!(byte, b'-' | b'_');
    let inside = bytes.iter().all(|byte| byte.is_ascii_digit() || between(byte));
    let ends = bytes.first().zip(bytes.last()).is_some_and(|(first, last)| !between(first) && !between(last));
    (inside && ends).then(|| bytes.iter().copied().filter(u8::is_ascii_digit).collect())
}

fn decimals(digits: &[u8], keyword: Piece<'_>) -> Result<Option<usize>, CodecError> {
    let refused =
        || keyword.refuse(ErrorCode::BadDecimals, "the number of decimals must be 0 to 31, without leading zeros");
    match digits {
        [] => Ok(None),
        [b'0', _, ..] => Err(refused()),
        // OK because the number is at most 31.
        digits => number(digits, DECIMALS_MAX as u128).map(|count| Some(count as usize)).ok_or_else(refused),
    }
}

/// A parsed fixed-point number: its digits without the point and without trailing zeros after it, and the number of
/// digits after the point.
pub(super) struct FixedNumber {
    negative: bool,
    digits: Vec<u8>,
    decimals: usize,
}

/// Reads a fixed-point number: an optional minus, digits with optional `_` between them, and an optional point with
/// digits on both sides.
pub(super) fn fixed_number(piece: Piece<'_>) -> Option<FixedNumber> {
    let (negative, rest) = match piece.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, piece),
    };
    let (whole, fraction) = rest.split_once(b'.').map_or((rest, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut digits = whole_digits(whole.bytes())?;
    let fraction = fraction.map_or(Some(&[][..]), |fraction| {
        let bytes = fraction.bytes();
        (!bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)).then_some(bytes)
    })?;
    let zeros = fraction.iter().rev().take_while(|digit| **digit == b'0').count();
    let fraction = &fraction[..fraction.len() - zeros];
    digits.extend_from_slice(fraction);
    Some(FixedNumber { negative, digits, decimals: fraction.len() })
}

/// Reads digits with optional `_` between them, and returns only the digits.
fn whole_digits(bytes: &[u8]) -> Option<Vec<u8>> {
    let inside = bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'_');
    let ends = bytes.first().zip(bytes.last()).is_some_and(|(first, last)| *first != b'_' && *last != b'_');
    (inside && ends).then(|| bytes.iter().copied().filter(u8::is_ascii_digit).collect())
}

fn fixed(
    scheme: Option<Scheme>,
    decimals: Option<usize>,
    text: Piece<'_>,
    number: Piece<'_>,
) -> Result<Ext, CodecError> {
    let found = fixed_number(number).ok_or_else(|| {
        number.refuse(
            ErrorCode::BadNumber,
            "a fixed-point number consists of digits, with at most one point between them",
        )
    })?;
    let decimals = decimals.unwrap_or(found.decimals);
    let (scaled, bits) = scaled(&found, decimals, number)?;
    let (scheme, name) = name(scheme, text, SharedBits { total: FIXED_BITS, number_min: 2, number: bits })?;
    Ok(encode::fixed(scheme, &name, decimals as u8, scaled)) // OK because there are at most 31 decimals
}

/// Returns the number in units of `10^-decimals`, and the number of bits that it needs with its sign. A number of more
/// than 127 bits is returned as zero, because no name leaves enough bits for it.
pub(super) fn scaled(found: &FixedNumber, decimals: usize, at: Piece<'_>) -> Result<(i128, u32), CodecError> {
    if found.decimals > decimals || decimals > DECIMALS_MAX {
        let most = decimals.min(DECIMALS_MAX);
        let message = format!("the number has {} decimals, but at most {most} fit", found.decimals);
        return Err(at.refuse(ErrorCode::Precision, message));
    }
    let number = BigUint::parse_bytes(&found.digits, 10).unwrap_or_default();
    // OK because there are at most 31 decimals.
    let number = number * BigUint::from(10_u8).pow((decimals - found.decimals) as u32);
    let bits = bits_of(&number).saturating_add(1);
    let magnitude = i128::try_from(number).unwrap_or_default();
    Ok((if found.negative { -magnitude } else { magnitude }, bits))
}

/// An integer: an optional sign, and digits with optional `_` between them.
struct Integer {
    negative: bool,
    magnitude: BigUint,
}

fn integer(piece: Piece<'_>) -> Option<Integer> {
    let (negative, rest) = sign(piece);
    let magnitude = BigUint::parse_bytes(&whole_digits(rest.bytes())?, 10)?;
    Some(Integer { negative: negative && magnitude != BigUint::ZERO, magnitude })
}

impl Integer {
    /// Returns the number, if its magnitude has at most `bits` bits; `bits` is at most 126.
    fn within(&self, bits: u32) -> Option<i128> {
        let magnitude = i128::try_from(&self.magnitude).ok().filter(|_| bits_of(&self.magnitude) <= bits)?;
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

fn bad_integer(piece: Piece<'_>) -> CodecError {
    piece.refuse(
        ErrorCode::BadNumber,
        "an integer consists of an optional sign and digits, with optional _ between them",
    )
}

fn too_big(piece: Piece<'_>) -> CodecError {
    piece.refuse(ErrorCode::NumberTooBig, "the number does not fit into the bits available for it")
}

fn int(piece: Piece<'_>) -> Result<Ext, CodecError> {
    let number = integer(piece).ok_or_else(|| bad_integer(piece))?;
    number.within(INT_BITS - 1).map(encode::int).ok_or_else(|| too_big(piece))
}

fn bad_dims(piece: Piece<'_>) -> CodecError {
    let message =
        "the count or a width of the vector is invalid: a vector has 1 to 127 numbers, and all of them must fit";
    piece.refuse(ErrorCode::BadDims, message)
}

/// The parts of a vector as text.
struct Vector<'a> {
    width: Option<u8>,
    context: Option<BigUint>,
    context_at: Piece<'a>,
    values: Vec<Piece<'a>>,
}

/// Splits a vector's body, and checks its count against the count in the keyword.
fn vector<'a>(dimensions: &Dimensions<'_>, keyword: Piece<'_>, body: Piece<'a>) -> Result<Vector<'a>, CodecError> {
    let [count, width] = [0, 1].map(|at| dimensions.get(at));
    let read = |digits: &&[u8]| number(digits, COUNT_MAX as u128).ok_or_else(|| bad_dims(keyword));
    let (count, width) = (count.map(read).transpose()?, width.map(read).transpose()?);
    if count == Some(0) {
        return Err(bad_dims(keyword));
    }
    let (context_at, values) = body.split_once(b':').map_or((None, body), |(context, values)| (Some(context), values));
    let context = context_at.map(|context| {
        let all = context.bytes().iter().all(u8::is_ascii_digit);
        BigUint::parse_bytes(context.bytes(), 10).filter(|_| all).ok_or_else(|| {
            context.refuse(ErrorCode::ContextNotNumeric, "the context of a vector must be a number of decimal digits")
        })
    });
    let context = context.transpose()?;
    let values: Vec<Piece<'_>> = values.split(b',').collect();
    if count.is_some_and(|count| count != values.len() as u128) {
        let message = format!("the text has {} numbers, but its keyword states a different count", values.len());
        return Err(body.refuse(ErrorCode::CountMismatch, message));
    }
    if values.len() > COUNT_MAX {
        return Err(bad_dims(body));
    }
    // OK because the width is at most 127.
    Ok(Vector { width: width.map(|width| width as u8), context, context_at: context_at.unwrap_or(body), values })
}

impl Vector<'_> {
    /// Subtracts the bits of the numbers from the `shared` bits, and returns the context if it fits in the rest.
    fn context(&self, width: u8, shared: u32, keyword: Piece<'_>) -> Result<u128, CodecError> {
        let left = shared.checked_sub(self.values.len() as u32 * u32::from(width)); // OK because there are at most 127 values
        let left = left.ok_or_else(|| bad_dims(keyword))?;
        let context = self.context.clone().unwrap_or_default();
        let fits = u128::try_from(&context).ok().filter(|_| bits_of(&context) <= left);
        fits.ok_or_else(|| too_big(self.context_at))
    }
}

fn ints(dimensions: &Dimensions<'_>, keyword: Piece<'_>, body: Piece<'_>) -> Result<Ext, CodecError> {
    let vector = vector(dimensions, keyword, body)?;
    let read = |piece: &Piece<'_>| integer(*piece).ok_or_else(|| bad_integer(*piece));
    let integers: Vec<Integer> = vector.values.iter().map(read).collect::<Result<_, _>>()?;
    let widest = integers.iter().map(|integer| bits_of(&integer.magnitude).saturating_add(1)).max().unwrap_or(2).max(2);
    let width = width(vector.width, widest, body)?;
    if width < 2 {
        return Err(bad_dims(keyword));
    }
    let context = vector.context(width, INTS_BITS, keyword)?;
    let fit =
        |(integer, piece): (&Integer, &Piece<'_>)| integer.within(u32::from(width) - 1).ok_or_else(|| too_big(*piece));
    let values: Vec<i128> = integers.iter().zip(&vector.values).map(fit).collect::<Result<_, _>>()?;
    Ok(encode::ints(width, context, &values))
}

fn uints(dimensions: &Dimensions<'_>, keyword: Piece<'_>, body: Piece<'_>) -> Result<Ext, CodecError> {
    let vector = vector(dimensions, keyword, body)?;
    let read = |piece: &Piece<'_>| integer(*piece).ok_or_else(|| bad_integer(*piece));
    let integers: Vec<Integer> = vector.values.iter().map(read).collect::<Result<_, _>>()?;
    if let Some((_, piece)) = integers.iter().zip(&vector.values).find(|(integer, _)| integer.negative) {
        return Err(piece.refuse(ErrorCode::BadNumber, "a uint must not be negative"));
    }
    let widest = integers.iter().map(|integer| bits_of(&integer.magnitude)).max().unwrap_or(1).max(1);
    let width = width(vector.width, widest, body)?;
    if width < 1 {
        return Err(bad_dims(keyword));
    }
    let context = vector.context(width, INTS_BITS, keyword)?;
    let fit = |(integer, piece): (&Integer, &Piece<'_>)| {
        let fits = u128::try_from(&integer.magnitude).ok().filter(|number| bit_length(*number) <= width.into());
        fits.ok_or_else(|| too_big(*piece))
    };
    let values: Vec<u128> = integers.iter().zip(&vector.values).map(fit).collect::<Result<_, _>>()?;
    Ok(encode::uints(width, context, &values))
}

/// Returns the width in the keyword, or else the smallest width that holds every number.
fn width(stated: Option<u8>, widest: u32, body: Piece<'_>) -> Result<u8, CodecError> {
    let narrow = || u8::try_from(widest).ok().filter(|width| usize::from(*width) <= COUNT_MAX);
    stated.or_else(narrow).ok_or_else(|| too_big(body))
}

fn floats(dimensions: &Dimensions<'_>, keyword: Piece<'_>, body: Piece<'_>) -> Result<Ext, CodecError> {
    let [_, _, exponent] = dimensions[..] else { return Err(bad_dims(keyword)) };
    let exponent = number(exponent, EXPONENT_BITS_MAX.into()).ok_or_else(|| bad_dims(keyword))? as u8; // OK because the exponent is at most 16
    let vector = vector(dimensions, keyword, body)?;
    let width = vector.width.unwrap_or(0);
    let mantissa = width.checked_sub(exponent + 1).filter(|bits| *bits >= 1).ok_or_else(|| bad_dims(keyword))?;
    let context = vector.context(width, FLOATS_BITS, keyword)?;
    let binary = Binary::plain(mantissa.into(), exponent.into());
    let values = vector.values.iter().map(|piece| parse_real(binary, *piece)).collect::<Result<Vec<_>, _>>()?;
    Ok(encode::floats(width, exponent, context, &values))
}

fn standard(kind: StandardKind, context: Piece<'_>, values: Piece<'_>) -> Result<Ext, CodecError> {
    let pieces: Vec<Piece<'_>> = values.split(b',').collect();
    if !kind.takes(pieces.len()) {
        let message = format!("{} cannot hold {} numbers", kind.keyword(), pieces.len());
        return Err(values.refuse(ErrorCode::CountMismatch, message));
    }
    let found = kind
        .context(context.bytes(), pieces.len())
        .ok_or_else(|| context.refuse(ErrorCode::BadContext, format!("the context does not fit {}", kind.keyword())))?;
    let values = pieces.iter().map(|piece| parse_real(kind.binary(), *piece)).collect::<Result<Vec<_>, _>>()?;
    Ok(encode::standard(&Standard { kind, context: found, values }))
}

/// Returns the first standard vector that holds the context and the numbers, and that prints every number with the
/// digits of the input.
fn fitting(context: Piece<'_>, values: Piece<'_>) -> Result<Ext, CodecError> {
    let read = |piece: Piece<'_>| Decimal::parse(piece).ok_or_else(|| bad_number(piece));
    let decimals: Vec<Decimal> = values.split(b',').map(read).collect::<Result<_, _>>()?;
    let fit = |kind: StandardKind| {
        let binary = kind.binary();
        let context = Some(kind).filter(|kind| kind.takes(decimals.len()))?.context(context.bytes(), decimals.len())?;
        let same = |decimal: &Decimal| binary.round(decimal).filter(|real| binary.shortest(*real) == *decimal);
        let values: Vec<Real> = decimals.iter().map(same).collect::<Option<_>>()?;
        Some(encode::standard(&Standard { kind, context, values }))
    };
    StandardKind::TRIED.into_iter().find_map(fit).ok_or_else(|| {
        let message = "no standard vector holds this context and these numbers exactly";
        values.refuse(ErrorCode::NoRepresentation, message)
    })
}

fn quant(context: Option<&[u8]>, keyword: Piece<'_>, body: Piece<'_>) -> Result<Ext, CodecError> {
    let context = context.map(|digits| {
        let found = number(digits, QUANT_CONTEXT_MAX);
        found.ok_or_else(|| keyword.refuse(ErrorCode::BadContext, "the context of a quantity is 0 to 15"))
    });
    let context = context.transpose()?.unwrap_or(0) as u8; // OK because the context is at most 15
    let (decimal, units) = Decimal::read(body).ok_or_else(|| bad_number(body))?;
    quantity(context, &decimal, body, units)
}

fn quantity(context: u8, decimal: &Decimal, at: Piece<'_>, units: Piece<'_>) -> Result<Ext, CodecError> {
    if !units.bytes().is_empty() && !matches!(units.split_first(), Some((b'*' | b'/', _))) {
        return Err(bad_quant(units));
    }
    let units = Units::parse(units)?;
    let number = Binary::B64.round(decimal).ok_or_else(|| float_range(at))?;
    Ok(encode::quant(&Quant { context, units, number }))
}

/// Reads text without a keyword in the first form that fits.
fn untyped(piece: Piece<'_>) -> Result<Ext, CodecError> {
    if time::is_date(piece) {
        return time::parse(piece, None).map(encode::time);
    }
    if let Some((decimal, units)) = Decimal::read(piece).filter(|(_, rest)| Units::begins(*rest)) {
        return quantity(0, &decimal, piece, units);
    }
    if integer(piece).is_some() {
        return int(piece);
    }
    if let Some(decimal) = Decimal::parse(piece) {
        return Binary::WHOLE.round(&decimal).map(encode::float).ok_or_else(|| float_range(piece));
    }
    if piece.bytes().contains(&b',') {
        if piece.split(b',').all(|value| integer(value).is_some()) {
            return ints(&Vec::new(), piece, piece);
        }
        if piece.split(b',').all(|value| Decimal::parse(value).is_some()) {
            return fitting(piece.split_at(0).0, piece);
        }
    }
    let lettered = piece.bytes().first().is_some_and(u8::is_ascii_alphabetic);
    match piece.split_once(b':').filter(|_| lettered) {
        Some((name, number)) if serial_digits(number.bytes()).is_some() => serial(None, name, number),
        Some((name, number)) if fixed_number(number).is_some() => fixed(None, None, name, number),
        None if lettered && !piece.bytes().contains(&b':') => symbol(None, piece),
        _ => {
            let message =
                "the text is not a date, a quantity, a number, a list of numbers, or a name that begins with a letter";
            Err(piece.refuse(ErrorCode::Unrecognised, message))
        }
    }
}
