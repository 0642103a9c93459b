//! Standard vectors: floats of IEEE formats with a short context (EXTUUID 2012, y = 111).

use alloc::{format, string::String, vec::Vec};

use super::{
    bits::{Reader, Writer},
    real::{Binary, Real},
    reason::Reason,
    scheme::Scheme,
};

/// The layout of a standard vector, named after the format of its floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StandardKind {
    /// One x87 float of 80 bits, and 4 characters of context.
    Ieee80,
    /// One binary64 value, and 8 characters of context.
    Ieee64,
    /// Three binary32 values, and a number as context.
    Ieee32x3,
    /// Two binary32 values, and 8 characters of context.
    Ieee32x2,
    /// One binary32 value, and 12 characters of context.
    Ieee32,
    /// Six binary16 values, and a number as context.
    Ieee16x6,
    /// One to four binary16 values, with 14, 11, 9 or 6 characters of context respectively.
    Ieee16,
}

/// The context stored with the floats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Characters, without the `_` that pad them.
    Name(String),
    /// A number from 0 to 255.
    Number(u8),
}

/// Floats of a standard format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standard {
    pub(super) kind: StandardKind,
    pub(super) context: Context,
    pub(super) values: Vec<Real>,
}

/// The kind of context that a layout has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Name(Scheme, usize),
    Number,
}

const NUMBER_BITS: u32 = 8;
const COUNT_BITS: u32 = 2;
/// The number of bits that the context and the floats share.
const PAYLOAD_BITS: u32 = 104;
/// The number of bits after the payload. These bits are zero.
const PADDING_BITS: u32 = 10;

impl StandardKind {
    /// All layouts, in the order in which the parser tries them.
    pub(super) const TRIED: [Self; 7] =
        [Self::Ieee16, Self::Ieee16x6, Self::Ieee32, Self::Ieee32x2, Self::Ieee32x3, Self::Ieee64, Self::Ieee80];

    pub(super) fn by_keyword(keyword: &[u8]) -> Option<Self> {
        Self::TRIED.into_iter().find(|kind| kind.keyword().as_bytes() == keyword)
    }

    /// Returns the layout's keyword.
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Ieee80 => "ieee80",
            Self::Ieee64 => "ieee64",
            Self::Ieee32x3 => "ieee32x3",
            Self::Ieee32x2 => "ieee32x2",
            Self::Ieee32 => "ieee32",
            Self::Ieee16x6 => "ieee16x6",
            Self::Ieee16 => "ieee16",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Ieee80 => 0,
            Self::Ieee64 => 1,
            Self::Ieee32x3 => 2,
            Self::Ieee32x2 => 3,
            Self::Ieee32 => 4,
            Self::Ieee16x6 => 5,
            Self::Ieee16 => 6,
        }
    }

    /// Returns the format of the floats.
    pub const fn binary(self) -> Binary {
        match self {
            Self::Ieee80 => Binary::X87,
            Self::Ieee64 => Binary::B64,
            Self::Ieee32x3 | Self::Ieee32x2 | Self::Ieee32 => Binary::B32,
            Self::Ieee16x6 | Self::Ieee16 => Binary::B16,
        }
    }

    /// Returns whether the layout can hold `count` floats.
    pub(super) const fn takes(self, count: usize) -> bool {
        match self {
            Self::Ieee80 | Self::Ieee64 | Self::Ieee32 => count == 1,
            Self::Ieee32x2 => count == 2,
            Self::Ieee32x3 => count == 3,
            Self::Ieee16x6 => count == 6,
            Self::Ieee16 => 1 <= count && count <= 4,
        }
    }

    /// Returns the kind of context stored with `count` floats. The layout must be able to hold `count` floats.
    pub(super) const fn slot(self, count: usize) -> Slot {
        match (self, count) {
            (Self::Ieee80, _) => Slot::Name(Scheme::B, 4),
            (Self::Ieee64 | Self::Ieee32x2, _) => Slot::Name(Scheme::C, 8),
            (Self::Ieee32, _) => Slot::Name(Scheme::B, 12),
            (Self::Ieee32x3 | Self::Ieee16x6, _) => Slot::Number,
            (Self::Ieee16, 1) => Slot::Name(Scheme::B, 14),
            (Self::Ieee16, 2) => Slot::Name(Scheme::B, 11),
            (Self::Ieee16, 3) => Slot::Name(Scheme::B, 9),
            (Self::Ieee16, _) => Slot::Name(Scheme::B, 6),
        }
    }

    /// Reads the context to store with `count` floats. Returns `None` if it does not fit.
    pub(super) fn context(self, text: &[u8], count: usize) -> Option<Context> {
        match self.slot(count) {
            Slot::Name(scheme, len) if text.len() <= len => {
                let name: String = text.iter().map(|byte| scheme.fold(*byte).map(char::from)).collect::<Option<_>>()?;
                Some(Context::Name(name.trim_end_matches('_').into()))
            }
            Slot::Name(..) => None,
            Slot::Number if text.is_empty() => Some(Context::Number(0)),
            Slot::Number => {
                let digits = text.iter().all(u8::is_ascii_digit).then_some(text)?;
                core::str::from_utf8(digits).ok()?.parse().ok().map(Context::Number)
            }
        }
    }
}

impl Standard {
    /// Returns the layout.
    pub const fn kind(&self) -> StandardKind {
        self.kind
    }

    /// Returns the context stored with the floats.
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the floats.
    pub fn values(&self) -> &[Real] {
        &self.values
    }

    pub(super) fn decode(reader: &mut Reader) -> Result<Self, Reason> {
        let code = reader.take_u8(3, "format");
        let kind = StandardKind::TRIED.into_iter().find(|kind| kind.code() == code).ok_or(Reason::ReservedFormat)?;
        let start = reader.left();
        let (context, values) = match kind {
            StandardKind::Ieee16 => {
                let count = usize::from(reader.take_u8(COUNT_BITS, "count - 1")) + 1;
                let values = floats(reader, kind, count)?;
                (read_context(reader, kind.slot(count))?, values)
            }
            _ => {
                let count = (1..=6).find(|count| kind.takes(*count)).unwrap_or(1);
                let context = read_context(reader, kind.slot(count))?;
                (context, floats(reader, kind, count)?)
            }
        };
        let unused = PAYLOAD_BITS - (start - reader.left());
        match reader.take(unused + PADDING_BITS, "padding") {
            0 => Ok(Self { kind, context, values }),
            _ => Err(Reason::NonzeroPadding),
        }
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.put(3, self.kind.code());
        let count = self.values.len();
        if self.kind == StandardKind::Ieee16 {
            writer.put(COUNT_BITS, (count - 1) as u8); // OK because there are 1 to 4
            self.write_values(writer);
        }
        match (&self.context, self.kind.slot(count)) {
            (Context::Name(name), Slot::Name(scheme, len)) => {
                writer.put(scheme.width(len).unwrap_or(0), scheme.pack_padded(name, len));
            }
            (Context::Number(number), _) => {
                writer.put(NUMBER_BITS, *number);
            }
            // This does not occur, because the context matches the layout.
            (Context::Name(_), Slot::Number) => {
                writer.put(NUMBER_BITS, 0_u8);
            }
        }
        if self.kind != StandardKind::Ieee16 {
            self.write_values(writer);
        }
    }

    fn write_values(&self, writer: &mut Writer) {
        self.values.iter().for_each(|real| put_real(writer, self.kind.binary(), *real));
    }

    /// Returns the canonical text.
    pub(super) fn text(&self) -> String {
        let context = match &self.context {
            Context::Name(name) => name.clone(),
            Context::Number(number) => format!("{number}"),
        };
        let binary = self.kind.binary();
        let values: Vec<String> = self.values.iter().map(|real| binary.text(*real)).collect();
        format!("{}:{context}:{}", self.kind.keyword(), values.join(","))
    }
}

fn read_context(reader: &mut Reader, slot: Slot) -> Result<Context, Reason> {
    match slot {
        Slot::Number => Ok(Context::Number(reader.take_u8(NUMBER_BITS, "context"))),
        Slot::Name(scheme, len) => {
            let packed = reader.take(scheme.width(len).unwrap_or(0), "context");
            scheme.unpack_padded(packed, len).map(Context::Name)
        }
    }
}

fn floats(reader: &mut Reader, kind: StandardKind, count: usize) -> Result<Vec<Real>, Reason> {
    (0..count).map(|_| take_real(reader, kind.binary())).collect()
}

/// Reads the sign, the exponent and the mantissa, in this order.
pub(super) fn take_real(reader: &mut Reader, binary: Binary) -> Result<Real, Reason> {
    let negative = reader.take_flag("sign");
    let exponent = reader.take(binary.exponent_bits(), "exponent") as u32; // OK because the exponent has at most 16 bits
    let mantissa = reader.take(binary.mantissa_bits(), "mantissa");
    binary.decode(negative, mantissa, exponent)
}

/// Writes the sign, the exponent and the mantissa: the inverse of [`take_real`].
pub(super) fn put_real(writer: &mut Writer, binary: Binary, real: Real) {
    let (mantissa, exponent) = binary.encode(real);
    writer.put(1, real.is_negative()).put(binary.exponent_bits(), exponent).put(binary.mantissa_bits(), mantissa);
}
