//! `uuid.*`: what all UUIDs share, and the fields of their versions.

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

/// The canonical text of a text: strict, unless `lenient` is true.
fn parse(input: &Input<'_>) -> Result<Value, VerbError> {
    let text = input.text("text")?;
    let uuid = if input.flag("lenient")? { dce::parse_lenient(text) } else { dce::parse(text) }?;
    Ok(id_out(uuid.into()))
}

/// What a UUID holds, by its own bits; and what it holds if `assume` names its format.
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

/// -1, 0 or 1: how `a` and `b` are ordered, byte by byte.
fn compare(input: &Input<'_>) -> Result<Value, VerbError> {
    let order = input.uuid("a")?.cmp(&input.uuid("b")?);
    Ok(json!({"order": order as i8}))
}

/// From `uuid` to its bytes in GUID order, `le`, or back.
fn guid(input: &Input<'_>) -> Result<Value, VerbError> {
    let uuid = match input.has("le") {
        true => dce::from_guid(input.bytes("le")?),
        false => input.uuid("uuid")?,
    };
    let le = Uuid::from_bytes(dce::to_guid(uuid)).simple().to_string();
    Ok(json!({"uuid": uuid.to_string(), "le": le}))
}

/// The UUID with these fields.
fn make(input: &Input<'_>) -> Result<Value, VerbError> {
    Ok(id_out(format(input, "format")?.make(input)?))
}

/// The UUID of the other version with the same time, clock sequence and node.
fn convert(input: &Input<'_>) -> Result<Value, VerbError> {
    let to = match input.text("to")? {
        "uuidv1" => Gregorian::to_v1,
        "uuidv6" => Gregorian::to_v6,
        other => return Err(bad_format(other, "can be converted to: say uuidv1 or uuidv6").into()),
    };
    let fields = Gregorian::from_uuid(input.uuid("uuid")?)?;
    Ok(id_out(to(&fields).into()))
}

/// The format of UUIDs that the input of this name names.
fn format(input: &Input<'_>, name: &str) -> Result<Codec, CodecError> {
    let is_uuid = |codec: &Codec| matches!(codec.family(), Family::Uuid { .. });
    let token = input.text(name)?;
    Codec::by_token(token).filter(is_uuid).ok_or_else(|| {
        let known: Vec<_> = Codec::all().filter(is_uuid).map(|codec| codec.token()).collect();
        bad_format(token, &format!("of UUIDs is known: there are {}", known.join(", ")))
    })
}

fn bad_format(token: &str, problem: &str) -> CodecError {
    CodecError::new(ErrorCode::BadFormat, format!("no format {token:?} {problem}"))
}
