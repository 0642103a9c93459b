//! What an EXTUUID stands for.

use alloc::{string::String, vec::Vec};

use super::{real::Real, reason::Reason, scheme::Scheme, standard::Standard};

/// What the 122 bits stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A name.
    Symbol {
        /// Its characters' scheme.
        scheme: Scheme,
        /// The name.
        name: String,
    },
    /// A numbered thing of a name.
    Serial {
        /// The name's scheme.
        scheme: Scheme,
        /// The name.
        name: String,
        /// The number, at least 1.
        number: u128,
    },
    /// A number with a name and a fixed count of decimals: `scaled * 10^-decimals`.
    Fixed {
        /// The name's scheme.
        scheme: Scheme,
        /// The name.
        name: String,
        /// How many decimals: 0 to 31.
        decimals: u8,
        /// The number without its point.
        scaled: i128,
    },
    /// An integer of a sign and 116 bits.
    Int(i128),
    /// A number with units.
    Quant(Quant),
    /// A float of a sign, 100 bits and an exponent of 16 bits.
    Float(Real),
    /// A time.
    Time(Time),
    /// Signed integers.
    Ints {
        /// The width of each, with its sign.
        width: u8,
        /// The context.
        context: u128,
        /// The numbers: at least one.
        values: Vec<i128>,
    },
    /// Unsigned integers.
    Uints {
        /// The width of each.
        width: u8,
        /// The context.
        context: u128,
        /// The numbers: at least one.
        values: Vec<u128>,
    },
    /// Floats.
    Floats {
        /// The width of each, with its sign and exponent.
        width: u8,
        /// The width of the exponent.
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
    /// 0 to 15, for applications.
    pub context: u8,
    /// The units.
    pub units: Units,
    /// The number, of binary64.
    pub number: Real,
}

/// The exponents of m, kg, s, A, K, cd and mol, as numerator and denominator: each 0/1, or a reduced fraction of 1 to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units(pub(super) [(i8, u8); 7]);

/// Seconds since 1582-10-15T00:00:00Z, in binary fractions: `scaled * 2^-fraction_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// How many bits follow the second: 0 to 109.
    pub fraction_bits: u8,
    /// The seconds without their point: below 2^109 either way.
    pub scaled: i128,
}

impl Value {
    /// The kind's name in the line protocol.
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
