//! Encodes values as bits. The parsers have checked that every field fits.

use super::{
    Ext,
    bits::Writer,
    decode::{FLOATS_BITS, INT_BITS, INTS_BITS},
    real::{Binary, Real},
    scheme::Scheme,
    standard::{Standard, put_real},
    time::TIME_BITS,
    value::{Quant, Time},
};

fn finish(writer: &Writer) -> Ext {
    Ext::truncate(writer.finish())
}

fn put_name(writer: &mut Writer, scheme: Scheme, name: &str) {
    writer.put(scheme.width(name.len()).unwrap_or(0), scheme.pack(name.bytes()));
}

/// Encodes a serial, or a symbol if `number` is 0.
pub(super) fn symserial(scheme: Scheme, name: &str, number: u128) -> Ext {
    let mut writer = Writer::default();
    writer.put(2, 0_u8).put(3, scheme.code()).put(5, name.len() as u8); // OK because a name has at most 23 characters
    put_name(&mut writer, scheme, name);
    writer.put_rest(number);
    finish(&writer)
}

pub(super) fn fixed(scheme: Scheme, name: &str, decimals: u8, scaled: i128) -> Ext {
    let mut writer = Writer::default();
    writer.put(2, 1_u8).put(3, scheme.code()).put(5, name.len() as u8); // OK because a name has at most 23 characters
    writer.put(5, decimals);
    put_name(&mut writer, scheme, name);
    writer.put(1, scaled < 0).put_rest(scaled.unsigned_abs());
    finish(&writer)
}

fn vector(kind: u8) -> Writer {
    let mut writer = Writer::default();
    writer.put(2, 2_u8).put(3, kind);
    writer
}

pub(super) fn int(value: i128) -> Ext {
    finish(vector(0).put_signed(INT_BITS, value))
}

pub(super) fn quant(quant: &Quant) -> Ext {
    let mut writer = vector(1);
    writer.put(4, quant.context);
    quant.units.encode(&mut writer);
    put_real(&mut writer, Binary::B64, quant.number);
    finish(&writer)
}

pub(super) fn float(real: Real) -> Ext {
    let mut writer = vector(2);
    put_plain(&mut writer, Binary::WHOLE, real);
    finish(&writer)
}

fn put_plain(writer: &mut Writer, binary: Binary, real: Real) {
    let (mantissa, exponent) = binary.encode(real);
    writer.put(1, real.is_negative()).put(binary.mantissa_bits(), mantissa).put(binary.exponent_bits(), exponent);
}

pub(super) fn time(time: Time) -> Ext {
    finish(vector(3).put(7, time.fraction_bits).put_signed(TIME_BITS + 1, time.scaled))
}

/// Starts a vector of numbers: writes all fields before its context.
fn numbers(kind: u8, count: usize, width: u8) -> Writer {
    let mut writer = vector(kind);
    writer.put(7, count as u8).put(7, width); // OK because the parser checked that both fit
    writer
}

/// Returns how many of the `shared` bits remain for the context after `count` numbers of `width` bits.
fn context_bits(shared: u32, count: usize, width: u8) -> u32 {
    shared.saturating_sub(count as u32 * u32::from(width)) // OK because a count is at most 127
}

pub(super) fn ints(width: u8, context: u128, values: &[i128]) -> Ext {
    let mut writer = numbers(4, values.len(), width);
    writer.put(context_bits(INTS_BITS, values.len(), width), context);
    for value in values {
        writer.put_signed(width.into(), *value);
    }
    finish(&writer)
}

pub(super) fn uints(width: u8, context: u128, values: &[u128]) -> Ext {
    let mut writer = numbers(5, values.len(), width);
    writer.put(context_bits(INTS_BITS, values.len(), width), context);
    for value in values {
        writer.put(width.into(), *value);
    }
    finish(&writer)
}

pub(super) fn floats(width: u8, exponent: u8, context: u128, values: &[Real]) -> Ext {
    let mut writer = numbers(6, values.len(), width);
    writer.put(5, exponent).put(context_bits(FLOATS_BITS, values.len(), width), context);
    let binary = Binary::of_width(width, exponent);
    values.iter().for_each(|real| put_plain(&mut writer, binary, *real));
    finish(&writer)
}

pub(super) fn standard(standard: &Standard) -> Ext {
    let mut writer = vector(7);
    standard.encode(&mut writer);
    finish(&writer)
}
