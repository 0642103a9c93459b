//! The reasons why bits are kept and printed raw.

/// The reason why bits have no typed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The type is reserved.
    ReservedType,
    /// The character scheme is known but not supported.
    UnsupportedScheme,
    /// The character scheme is reserved.
    ReservedScheme,
    /// The name leaves no bits for the number.
    SymbolTooLong,
    /// The packed name is too large for its length.
    PackedOverflow,
    /// A character code is unassigned.
    UnassignedCode,
    /// A zero has a sign.
    NegativeZero,
    /// A unit's exponent is neither zero nor a reduced fraction of numbers from 1 to 7.
    NonCanonicalXponent,
    /// A float is infinite or NaN.
    NonFinite,
    /// A float is not in its normal form.
    NonCanonicalFloat,
    /// A count or width is invalid.
    BadField,
    /// An exponent has more than 16 bits.
    ExponentTooWide,
    /// The format of a standard vector is reserved.
    ReservedFormat,
    /// Bits that must be zero are not zero.
    NonzeroPadding,
}

impl Reason {
    /// Returns the reason's name in the line protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReservedType => "reserved-type",
            Self::UnsupportedScheme => "unsupported-scheme",
            Self::ReservedScheme => "reserved-scheme",
            Self::SymbolTooLong => "symbol-too-long",
            Self::PackedOverflow => "packed-overflow",
            Self::UnassignedCode => "unassigned-code",
            Self::NegativeZero => "negative-zero",
            Self::NonCanonicalXponent => "non-canonical-xponent",
            Self::NonFinite => "non-finite",
            Self::NonCanonicalFloat => "non-canonical-float",
            Self::BadField => "bad-field",
            Self::ExponentTooWide => "exponent-too-wide",
            Self::ReservedFormat => "reserved-format",
            Self::NonzeroPadding => "nonzero-padding",
        }
    }
}
