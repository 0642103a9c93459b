//! Prints the canonical text, which is different for each of the 2^122 values.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use super::{
    Ext, HEX_DIGITS,
    real::Binary,
    value::{Quant, Value},
};

impl fmt::Display for Ext {
    /// Writes the canonical text, such as `extuuid:fixedB4:GBP$:222.31`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extuuid:{}", body(*self))
    }
}

impl Ext {
    /// Returns the bits as 31 hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:0HEX_DIGITS$x}", self.get())
    }
}

fn body(ext: Ext) -> String {
    match ext.value() {
        Value::Symbol { scheme, name } => format!("sym{scheme}:{name}"),
        Value::Serial { scheme, name, number } => format!("serial{scheme}:{name}:{number}"),
        Value::Fixed { scheme, name, decimals, scaled } => {
            format!("fixed{scheme}{decimals}:{name}:{}", fixed(scaled, decimals))
        }
        Value::Int(value) => format!("int:{value}"),
        Value::Quant(Quant { context, units, number }) => {
            let context = if context == 0 { String::new() } else { format!("@{context}") };
            format!("quant{context}:{}{}", Binary::B64.text(number), units.text())
        }
        Value::Float(real) => format!("f:{}", Binary::WHOLE.text(real)),
        Value::Time(time) => time.text(),
        Value::Ints { width, context, values } => {
            format!("int/{}*{width}:{context}:{}", values.len(), list(&values))
        }
        Value::Uints { width, context, values } => {
            format!("uint/{}*{width}:{context}:{}", values.len(), list(&values))
        }
        Value::Floats { width, exponent, context, values } => {
            let binary = Binary::of_width(width, exponent);
            let values: Vec<String> = values.iter().map(|real| binary.text(*real)).collect();
            format!("f/{}*{width}*{exponent}:{context}:{}", values.len(), values.join(","))
        }
        Value::Standard(standard) => standard.text(),
        Value::Raw(_) => format!("raw:{}", ext.hex()),
    }
}

fn list(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Prints `scaled * 10^-decimals`, without trailing zeros after the point.
pub(super) fn fixed(scaled: i128, decimals: u8) -> String {
    let sign = if scaled < 0 { "-" } else { "" };
    let unit = 10_u128.pow(decimals.into()); // OK because there are at most 31 decimals
    let (whole, fraction) = (scaled.unsigned_abs() / unit, scaled.unsigned_abs() % unit);
    match fraction {
        0 => format!("{sign}{whole}"),
        _ => {
            let fraction = format!("{fraction:0width$}", width = usize::from(decimals));
            format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
        }
    }
}
