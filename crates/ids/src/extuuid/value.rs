//! The typed value of an EXTUUID.

use alloc::{string::String, vec::Vec};

use super::{real::Real, reason::Reason, scheme::Scheme, standard::Standard};

/// The typed value of the 122 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A name.
    Symbol {
        /// The character scheme of the name.
        scheme: Scheme,
        /// The name.
        name: String,
    },
    /// A serial number of a name.
    Serial {
        /// The character scheme of the name.
        scheme: Scheme,
        /// The name.
        name: String,
        /// The number, at least 1.
        number: u128,
    },
    /// A named number with a fixed number of decimals: `scaled * 10^-decimals`.
    Fixed {
        /// The character scheme of the name.
        scheme: Scheme,
        /// The name.
        name: String,
        /// The number of decimals: 0 to 31.
        decimals: u8,
        /// The number in units of `10^-decimals`.
        scaled: i128,
    },
    /// An integer: a sign and 116 bits.
    Int(i128),
    /// A number with units.
    Quant(Quant),
    /// A float: a sign, a mantissa of 100 bits and an exponent of 16 bits.
    Float(Real),
    /// A time.
    Time(Time),
    /// Signed integers.
    Ints {
        /// The width of each number in bits, including the sign.
        width: u8,
        /// The context.
        context: u128,
        /// The numbers: at least one.
        values: Vec<i128>,
    },
    /// Unsigned integers.
    Uints {
        /// The width of each number in bits.
        width: u8,
        /// The context.
        context: u128,
        /// The numbers: at least one.
        values: Vec<u128>,
    },
    /// Floats.
    Floats {
        /// The width of each number in bits, including the sign and the exponent.
        width: u8,
        /// The width of the exponent in bits.
        exponent: u8,
        /// The context.
        context: u128,
        /// The numbers: at least one.
        values: Vec<Real>,
    },
    /// Floats of a standard format.
    Standard(Standard),
    /// Bits without a typed form.
    Raw(Reason),
}

/// A number with units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quant {
    /// The context, 0 to 15. Applications give it a meaning.
    pub context: u8,
    /// The units.
    pub units: Units,
    /// The number, in binary64.
    pub number: Real,
}

/// The exponents of m, kg, s, A, K, cd and mol, as numerator and denominator: each is 0/1, or a reduced fraction of
/// numbers from 1 to 7 with an optional minus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units(pub(super) [(i8, u8); 7]);

/// Seconds since 1582-10-15T00:00:00Z with a binary fraction: `scaled * 2^-fraction_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The number of bits of the fraction: 0 to 109.
    pub fraction_bits: u8,
    /// The seconds in units of `2^-fraction_bits`: an absolute value below 2^109.
    pub scaled: i128,
}

impl Value {
    /// Returns the kind's name in the line protocol.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Symbol { .. } => "symbol",
            Self::Serial { .. } => "serial",
            Self::Fixed { .. } => "fixed",
            Self::Int(_) => "int",
            Self::Quant(_) => "quant",
            Self::Float(_) => "float",
            Self::Time(_) => "time",
            Self::Ints { .. } => "ints",
            Self::Uints { .. } => "uints",
            Self::Floats { .. } => "floats",
            Self::Standard(standard) => standard.kind().keyword(),
            Self::Raw(_) => "raw",
        }
    }
}
