//! Decodes bits into values, field by field from the left. The first invalid field makes the value raw and determines
//! the reason.

use alloc::vec::Vec;

use super::{
    Ext,
    bits::Reader,
    real::{Binary, Real},
    reason::Reason,
    scheme::Scheme,
    standard::{Standard, take_real},
    time::TIME_BITS,
    value::{Quant, Time, Units, Value},
};
use crate::field::BitRange;

/// The number of bits that remain for the name and the number of a serial after the type, the scheme and the length.
pub(super) const SYMSERIAL_BITS: u32 = 112;
/// The number of bits that remain for the name and the digits of a fixed-point number after the count of decimals.
pub(super) const FIXED_BITS: u32 = 107;
/// The number of bits that the context and the numbers of a vector of integers share.
pub(super) const INTS_BITS: u32 = 103;
/// The number of bits that the context and the numbers of a vector of floats share.
pub(super) const FLOATS_BITS: u32 = 98;
/// The largest width of an exponent in bits.
pub(super) const EXPONENT_BITS_MAX: u8 = 16;
/// The width of an integer in bits, including its sign.
pub(super) const INT_BITS: u32 = 117;

/// Returns the value and the layout of its fields.
pub(super) fn decode(ext: Ext) -> (Value, Vec<BitRange>) {
    let mut reader = Reader::new(ext.get());
    let value = read(&mut reader).unwrap_or_else(Value::Raw);
    (value, reader.layout())
}

fn read(reader: &mut Reader) -> Result<Value, Reason> {
    match reader.take_u8(2, "type") {
        0 => symserial(reader),
        1 => fixed(reader),
        2 => vector(reader),
        _ => Err(Reason::ReservedType),
    }
}

fn symserial(reader: &mut Reader) -> Result<Value, Reason> {
    let scheme = Scheme::by_code(reader.take_u8(3, "scheme"))?;
    let len = usize::from(reader.take_u8(5, "length"));
    let width = scheme.width(len).filter(|width| *width < SYMSERIAL_BITS).ok_or(Reason::SymbolTooLong)?;
    let name = scheme.unpack(reader.take(width, "name"), len)?;
    match reader.take(reader.left(), "number") {
        0 => Ok(Value::Symbol { scheme, name }),
        number => Ok(Value::Serial { scheme, name, number }),
    }
}

fn fixed(reader: &mut Reader) -> Result<Value, Reason> {
    let scheme = Scheme::by_code(reader.take_u8(3, "scheme"))?;
    let len = usize::from(reader.take_u8(5, "length"));
    let fits = |width: &u32| width + 2 <= FIXED_BITS;
    let width = scheme.width(len).filter(fits).ok_or(Reason::SymbolTooLong)?;
    let decimals = reader.take_u8(5, "decimals");
    let name = scheme.unpack(reader.take(width, "name"), len)?;
    let scaled = reader.take_signed(reader.left(), "number")?;
    Ok(Value::Fixed { scheme, name, decimals, scaled })
}

fn vector(reader: &mut Reader) -> Result<Value, Reason> {
    match reader.take_u8(3, "kind") {
        0 => Ok(Value::Int(reader.take_signed(INT_BITS, "magnitude")?)),
        1 => quant(reader),
        2 => float(reader),
        3 => time(reader),
        4 => ints(reader),
        5 => uints(reader),
        6 => floats(reader),
        _ => Standard::decode(reader).map(Value::Standard),
    }
}

fn quant(reader: &mut Reader) -> Result<Value, Reason> {
    let context = reader.take_u8(4, "context");
    let units = Units::decode(reader)?;
    let number = take_real(reader, Binary::B64)?;
    Ok(Value::Quant(Quant { context, units, number }))
}

fn float(reader: &mut Reader) -> Result<Value, Reason> {
    take_plain(reader, Binary::WHOLE).map(Value::Float)
}

/// Reads the sign, the mantissa and the exponent, in this order.
fn take_plain(reader: &mut Reader, binary: Binary) -> Result<Real, Reason> {
    let negative = reader.take_flag("sign");
    let mantissa = reader.take(binary.mantissa_bits(), "mantissa");
    let exponent = reader.take(binary.exponent_bits(), "exponent") as u32; // OK because the exponent has at most 16 bits
    binary.decode(negative, mantissa, exponent)
}

fn time(reader: &mut Reader) -> Result<Value, Reason> {
    let fraction_bits = reader.take_u8(7, "fraction bits");
    if u32::from(fraction_bits) > TIME_BITS {
        return Err(Reason::BadField);
    }
    let scaled = reader.take_signed(TIME_BITS + 1, "seconds")?;
    Ok(Value::Time(Time { fraction_bits, scaled }))
}

/// Reads a vector's count and width. Also returns how many of the `shared` bits remain for the context.
fn dimensions(reader: &mut Reader, shared: u32, width_min: u8) -> Result<(u8, u8, u32), Reason> {
    let count = reader.take_u8(7, "count");
    if count == 0 {
        return Err(Reason::BadField);
    }
    let width = reader.take_u8(7, "width");
    let left = shared.checked_sub(u32::from(count) * u32::from(width)).filter(|_| width >= width_min);
    Ok((count, width, left.ok_or(Reason::BadField)?))
}

fn ints(reader: &mut Reader) -> Result<Value, Reason> {
    let (count, width, context_bits) = dimensions(reader, INTS_BITS, 2)?;
    let context = reader.take(context_bits, "context");
    let values = (0..count).map(|_| reader.take_signed(width.into(), "value")).collect::<Result<_, _>>()?;
    Ok(Value::Ints { width, context, values })
}

fn uints(reader: &mut Reader) -> Result<Value, Reason> {
    let (count, width, context_bits) = dimensions(reader, INTS_BITS, 1)?;
    let context = reader.take(context_bits, "context");
    let values = (0..count).map(|_| reader.take(width.into(), "value")).collect();
    Ok(Value::Uints { width, context, values })
}

fn floats(reader: &mut Reader) -> Result<Value, Reason> {
    let (count, width, context_bits) = dimensions(reader, FLOATS_BITS, 2)?;
    let exponent = reader.take_u8(5, "exponent width");
    if exponent > EXPONENT_BITS_MAX {
        return Err(Reason::ExponentTooWide);
    }
    let mantissa = width.checked_sub(exponent + 1).filter(|bits| *bits >= 1).ok_or(Reason::BadField)?;
    let context = reader.take(context_bits, "context");
    let binary = Binary::plain(mantissa.into(), exponent.into());
    let values = (0..count).map(|_| take_plain(reader, binary)).collect::<Result<_, _>>()?;
    Ok(Value::Floats { width, exponent, context, values })
}
