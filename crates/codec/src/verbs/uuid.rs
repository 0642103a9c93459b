//! `uuid.*`: the properties that all UUIDs share, and the fields of their versions.

use kent_ids::{Codec, CodecError, ErrorCode, Family, Gregorian, Uuid, dce};
use serde_json::{Value, json};

use super::{Verb, fields_out, id_out};
use crate::{error::VerbError, input::Input};

pub(super) const VERBS: &[(&str, Verb)] = &[
    ("uuid.parse", parse),
    ("uuid.inspect", inspect),
    ("uuid.compare", compare),
    ("uuid.guid", guid),
    ("uuid.make", make),
    ("uuid.convert", convert),
];

/// Parses a UUID: strictly, or leniently if `lenient` is true.
fn parse(input: &Input<'_>) -> Result<Value, VerbError> {
    let text = input.text("text")?;
    let uuid = if input.flag("lenient")? { dce::parse_lenient(text) } else { dce::parse(text) }?;
    Ok(id_out(uuid.into()))
}

/// Returns the fields of a UUID as its own version defines them and, if `assume` names a format, also as that format
/// defines them.
fn inspect(input: &Input<'_>) -> Result<Value, VerbError> {
    let uuid = input.uuid("uuid")?;
    let version = dce::version(uuid);
    let mut out = id_out(uuid.into());
    out["special"] = dce::special(uuid).map(dce::Special::as_str).into();
    out["variant"] = dce::variant(uuid).as_str().into();
    out["version"] = version.into();
    if let Some(codec) = version.and_then(Codec::by_version) {
        out["fields"] = fields_out(codec.read(uuid.as_u128(), input)?);
    }
    if input.has("assume") {
        out["assumed"] = fields_out(format(input, "assume")?.read(uuid.as_u128(), input)?);
    }
    Ok(out)
}

/// Compares `a` and `b` byte by byte: -1, 0 or 1.
fn compare(input: &Input<'_>) -> Result<Value, VerbError> {
    let order = input.uuid("a")?.cmp(&input.uuid("b")?);
    Ok(json!({"order": order as i8}))
}

/// Converts `uuid` to `le`, its bytes in GUID order, or `le` to `uuid`.
fn guid(input: &Input<'_>) -> Result<Value, VerbError> {
    let uuid = match input.has("le") {
        true => dce::from_guid(input.bytes("le")?),
        false => input.uuid("uuid")?,
    };
    let le = Uuid::from_bytes(dce::to_guid(uuid)).simple().to_string();
    Ok(json!({"uuid": uuid.to_string(), "le": le}))
}

/// Makes the UUID with these fields.
fn make(input: &Input<'_>) -> Result<Value, VerbError> {
    Ok(id_out(format(input, "format")?.make(input)?))
}

/// Converts between versions 1 and 6, with the same time, clock sequence and node.
fn convert(input: &Input<'_>) -> Result<Value, VerbError> {
    let to = match input.text("to")? {
        "uuidv1" => Gregorian::to_v1,
        "uuidv6" => Gregorian::to_v6,
        other => return Err(bad_format(other, "to convert to: use uuidv1 or uuidv6").into()),
    };
    let fields = Gregorian::from_uuid(input.uuid("uuid")?)?;
    Ok(id_out(to(&fields).into()))
}

/// Reads the token of a UUID format from the input with this name.
fn format(input: &Input<'_>, name: &str) -> Result<Codec, CodecError> {
    let is_uuid = |codec: &Codec| matches!(codec.family(), Family::Uuid { .. });
    let token = input.text(name)?;
    Codec::by_token(token).filter(is_uuid).ok_or_else(|| {
        let known: Vec<_> = Codec::all().filter(is_uuid).map(|codec| codec.token()).collect();
        bad_format(token, &format!("of UUIDs: use one of {}", known.join(", ")))
    })
}

fn bad_format(token: &str, problem: &str) -> CodecError {
    CodecError::new(ErrorCode::BadFormat, format!("there is no format {token:?} {problem}"))
}
