//! `ext.*`: converts EXTUUIDs from text to bits and back.

use kent_ids::{
    CodecError,
    extuuid::{Binary, Context, Ext, Money, Quant, Real, Value as Typed, parse, parse_minimal, parse_money},
};
use serde_json::{Value, json};

use super::Verb;
use crate::{error::VerbError, input::Input};

pub(super) const VERBS: &[(&str, Verb)] =
    &[("ext.parse", parse_text), ("ext.print", print), ("ext.inspect", inspect), ("ext.money", money)];

/// Parses a string with the smart parser, or with the minimal parser if `mode` is `minimal`.
fn parse_text(input: &Input<'_>) -> Result<Value, VerbError> {
    let text = input.text("text")?;
    let mode = if input.has("mode") { input.text("mode")? } else { "smart" };
    let ext = match mode {
        "smart" => parse(text)?,
        "minimal" => parse_minimal(text)?,
        other => {
            let message = format!("{other:?} is not a valid mode: use smart or minimal");
            return Err(VerbError::new("bad-input", message));
        }
    };
    ext_out(ext, input)
}

/// Converts a value given as `ext` or `uuid` to its canonical text.
fn print(input: &Input<'_>) -> Result<Value, VerbError> {
    ext_out(ext(input)?, input)
}

/// Shows the fields of a value.
fn inspect(input: &Input<'_>) -> Result<Value, VerbError> {
    let ext = ext(input)?;
    let mut out = ext_out(ext, input)?;
    if let Typed::Raw(reason) = ext.value() {
        out["reason"] = reason.as_str().into();
    }
    out["fields"] = fields(&ext.value());
    Ok(out)
}

/// Parses an amount of money.
fn money(input: &Input<'_>) -> Result<Value, VerbError> {
    let money: Money = parse_money(input.text("text")?)?;
    let mut out = ext_out(money.ext, input)?;
    out["currency"] = money.currency.as_str().into();
    out["amount"] = money.amount().into();
    out["q"] = money.scaled.to_string().into();
    Ok(out)
}

/// Reads the input `ext` (31 hexadecimal digits) or `uuid`, which may have version 6 if `allow_v6` is true.
fn ext(input: &Input<'_>) -> Result<Ext, CodecError> {
    let allow_v6 = input.flag("allow_v6")?;
    match input.has("ext") {
        true => Ext::from_hex(input.text("ext")?),
        false => Ext::from_uuid(input.uuid("uuid")?, allow_v6),
    }
}

/// Returns a value as JSON, in the form used in answers. The UUID has version 6 if the input `legacy` is true.
fn ext_out(ext: Ext, input: &Input<'_>) -> Result<Value, VerbError> {
    let uuid = if input.flag("legacy")? { ext.to_legacy_uuid() } else { ext.to_uuid() };
    Ok(json!({
        "ext": ext.hex(),
        "uuid": uuid.to_string(),
        "text": ext.to_string(),
        "kind": ext.value().kind(),
    }))
}

/// Returns the named fields of a value.
fn fields(value: &Typed) -> Value {
    match value {
        Typed::Symbol { scheme, name } => json!({"scheme": scheme.to_string(), "name": name}),
        Typed::Serial { scheme, name, number } => {
            json!({"scheme": scheme.to_string(), "name": name, "number": number.to_string()})
        }
        Typed::Fixed { scheme, name, decimals, scaled } => {
            json!({"scheme": scheme.to_string(), "name": name, "decimals": decimals, "q": scaled.to_string()})
        }
        Typed::Int(value) => json!({"value": value.to_string()}),
        Typed::Quant(Quant { context, units, number }) => {
            let exponents = units.exponents().iter().map(|(over, under)| match under {
                1 => json!(over),
                _ => json!(format!("{over}/{under}")),
            });
            let value = Binary::B64.text(*number);
            json!({"context": context, "exponents": exponents.collect::<Vec<_>>(), "value": value})
        }
        Typed::Float(real) => json!({"value": Binary::WHOLE.text(*real)}),
        Typed::Time(time) => json!({"l": time.fraction_bits, "t": time.scaled.to_string()}),
        Typed::Ints { width, context, values } => {
            json!({"n": values.len(), "l": width, "z": context.to_string(), "values": texts(values)})
        }
        Typed::Uints { width, context, values } => {
            json!({"n": values.len(), "l": width, "z": context.to_string(), "values": texts(values)})
        }
        Typed::Floats { width, exponent, context, values } => {
            let binary = Binary::of_width(*width, *exponent);
            let (n, z) = (values.len(), context.to_string());
            json!({"n": n, "l": width, "e": exponent, "z": z, "values": reals(binary, values)})
        }
        Typed::Standard(standard) => {
            let context = match standard.context() {
                Context::Name(name) => json!(name),
                Context::Number(number) => json!(number),
            };
            json!({"context": context, "values": reals(standard.kind().binary(), standard.values())})
        }
        Typed::Raw(reason) => json!({"reason": reason.as_str()}),
    }
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn reals(binary: Binary, values: &[Real]) -> Vec<String> {
    values.iter().map(|real| binary.text(*real)).collect()
}
