//! Guesses the format of an identifier from the form of its text, and explains the guess.
//!
//! The guess depends only on the form of the text. Kent does not guess between formats with the same version bits,
//! because a wrong guess would show a wrong but plausible date. Whitespace is not trimmed.

pub(crate) mod layouts;

use kent_ids::{
    Codec, CodecError, ErrorCode, Family, FieldValue, Format, Id, Inputs, NoInputs, Uid11, Uuid, Xid, dce, extuuid,
    extuuid::Ext, layout::Fit, nearly_uuid, uid11::prefix_range,
};
use serde::Serialize;

pub use self::layouts::inspect_layout;
use crate::{
    error::VerbError,
    foreign::{self, Foreign},
    number::rounded,
};

/// A labeled range of bits, without the values of the bits.
type Range = kent_ids::BitRange;

/// The result of inspecting a string. Its JSON form is an object with the same keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The inspected string.
    pub text: String,
    /// The format in which the string was read: a format's token such as `uuidv7`, or `uuid` (no version), `uid11` or
    /// `integer`.
    pub format: String,
    /// The reason why the string was read in this format.
    pub because: String,
    /// The canonical text of the identifier.
    pub canonical: String,
    /// The value in hexadecimal, in the full width of the format.
    pub hex: String,
    /// The time in the identifier, in RFC 3339 form; `None` if the identifier holds no time, or a time outside the
    /// years 1 to 9999.
    pub time: Option<String>,
    /// The fields.
    pub fields: Vec<Field>,
    /// The fields as bit ranges, most significant first, without gaps.
    pub layout: Vec<BitRange>,
    /// The other formats that the string fits, each with the time that the identifier would have in that format.
    pub also: Vec<String>,
}

/// One field of an identifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The value; integers are decimal.
    pub value: String,
    /// A description.
    pub meaning: String,
}

/// A labeled range of an identifier's bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BitRange {
    /// The first bit; bit 0 is the most significant.
    pub first: u32,
    /// The last bit, inclusive.
    pub last: u32,
    /// The name of the range.
    pub label: String,
    /// The bits as zeros and ones.
    pub bits: String,
}

/// What the caller knows about a string to inspect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The token of the format in which to read the string, such as `uuidv7-draft01-us`. By default, the format is
    /// guessed.
    pub format: Option<String>,
    /// Whether the bytes of the UUID are in GUID order.
    pub guid: bool,
    /// Whether the string is a prefix of a uid11.
    pub prefix: bool,
    /// The layout of a `uuidv7-draft01`: `ms`, `us` or `ns`.
    pub layout: Option<String>,
    /// The precision of the time of a `uuidv7-draft01`: `s`, `ms`, `us` or `ns`.
    pub precision: Option<String>,
    /// The width of the timestamp of a `uuidv8-draft01` in bits: 32, 48, 60 or 64.
    pub width: Option<u32>,
}

impl Inputs for Reading {
    fn has(&self, name: &'static str) -> bool {
        match name {
            "layout" => self.layout.is_some(),
            "precision" => self.precision.is_some(),
            "width" => self.width.is_some(),
            _ => false,
        }
    }

    fn int(&self, name: &'static str) -> Result<i128, CodecError> {
        match (name, self.width) {
            ("width", Some(width)) => Ok(width.into()),
            _ => NoInputs.int(name),
        }
    }

    fn text(&self, name: &'static str) -> Result<&str, CodecError> {
        let text = match name {
            "layout" => &self.layout,
            "precision" => &self.precision,
            _ => &None,
        };
        text.as_deref().map_or_else(|| NoInputs.text(name), Ok)
    }
}

/// Inspects a string as described by `reading`. If `reading` names no format, uses the first of these that fits: an
/// EXTUUID, a UUID (with hyphens, in braces, as a URN, or 32 hexadecimal digits), an integer (hexadecimal after `0x`,
/// or decimal), a uid11 (11 characters), a foreign format such as a ULID, or a layout preset such as TSID.
/// [`Inspection::also`] lists the other formats that fit.
///
/// # Errors
///
/// Fails with `unrecognised` for a string that fits no format, with `bad-format` for an unknown format, with
/// `bad-layout`, `bad-precision` or `bad-width` for an option that does not apply to the format, and otherwise with the
/// error from reading the string in its format.
pub fn inspect(text: &str, reading: &Reading) -> Result<Inspection, VerbError> {
    Ok(examine(text, reading)?)
}

fn examine(text: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    check_options(reading)?;
    if reading.prefix {
        return inspect_prefix(text);
    }
    if let Some(token) = &reading.format {
        return inspect_as(text, token, reading);
    }
    if reading.guid {
        let uuid = parse_uuid(text, reading)?;
        return inspect_uuid(text, uuid, "read in GUID byte order, as requested".to_owned(), reading);
    }
    let mut inspection = guess(text, reading)?;
    let others = foreign::guesses(text).filter(|other| other.token != inspection.format);
    let format = format!("{} ", inspection.format);
    let presets = layouts::alternatives(text).filter(|other| !other.starts_with(&format));
    inspection.also = others.map(|other| other.as_alternative()).chain(presets).collect();
    Ok(inspection)
}

/// Fails if the reading has an option that does not apply to its format. Without this check, the time could be
/// plausible but wrong.
fn check_options(reading: &Reading) -> Result<(), CodecError> {
    let format = reading.format.as_deref().unwrap_or_default();
    let refused = |code, message| Err(CodecError::new(code, message));
    match (&reading.layout, &reading.precision, reading.width) {
        (Some(layout), ..) if format != "uuidv7-draft01" => refused(
            ErrorCode::BadLayout,
            format!(
                "a layout applies only to the format uuidv7-draft01: kent inspect --as uuidv7-draft01 --layout {layout} ID"
            ),
        ),
        // A format with a fixed layout, such as uuidv7-draft01-us, also has a precision.
        (_, Some(precision), _) if !format.starts_with("uuidv7-draft01") => refused(
            ErrorCode::BadPrecision,
            format!(
                "a precision applies only to the format uuidv7-draft01: kent inspect --as uuidv7-draft01 --precision {precision} ID"
            ),
        ),
        (.., Some(width)) if format != "uuidv8-draft01" => refused(
            ErrorCode::BadWidth,
            format!(
                "a width applies only to the format uuidv8-draft01: kent inspect --as uuidv8-draft01 --width {width} ID"
            ),
        ),
        _ => Ok(()),
    }
}

fn guess(text: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    Ok(match Form::of(text)? {
        Form::Ext(ext) => return inspect_ext(text, ext, "the text begins with extuuid:", reading),
        Form::Uuid(uuid) => return inspect_uuid(text, uuid, uuid_form(text).to_owned(), reading),
        Form::Integer { value, radix } => inspect_integer(text, value, radix),
        Form::Uid11(uid11) => {
            let because = format!(
                "11 base-58 characters are a uid11; the text does not contain its profile, so it is read as {SHOWN_PROFILE}"
            );
            return inspect_uid11(text, uid11, Codec::by_profile(SHOWN_PROFILE), because, reading);
        }
        Form::Foreign(found) => {
            let because = found.because.to_owned();
            inspect_foreign(text, found, because)
        }
        Form::Preset(fit) => return layouts::inspect_fit(text, &fit),
    })
}

/// The message of the error for a text that fits no format.
pub const NO_FORMAT: &str = "the text is not a UUID (36 characters, or 32 hexadecimal digits), a uid11 (11 base-58 characters), an integer, the text \
    of an EXTUUID (extuuid:...), or an identifier in a foreign format: a ULID (26 characters), TypeID (type_ and 26 characters), \
    KSUID (27), rs/xid (20), ObjectId (24 hexadecimal digits), NanoID (21), TSID (13) or push ID (20)";

/// The format that the form of a text suggests, with the identifier.
pub(crate) enum Form {
    Ext(Ext),
    Uuid(Uuid),
    Integer { value: u128, radix: u32 },
    Uid11(Uid11),
    Foreign(Foreign),
    Preset(Fit<'static>),
}

impl Form {
    /// Returns the first form that fits, or why none does.
    pub(crate) fn of(text: &str) -> Result<Self, CodecError> {
        if text.starts_with(EXT_HEAD) {
            return extuuid::parse(text).map(Self::Ext);
        }
        if has_uuid_form(text) {
            return dce::parse_lenient(text).map(Self::Uuid).map_err(|error| match nearly_uuid(text) {
                Some(problem) => CodecError::new(error.code(), problem),
                None => error,
            });
        }
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return parse_integer(text, digits, 16).map(|value| Self::Integer { value, radix: 16 });
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return parse_integer(text, text, 10).map(|value| Self::Integer { value, radix: 10 });
        }
        if let Some(problem) = rounded(text) {
            return Err(CodecError::new(ErrorCode::Unrecognised, problem));
        }
        if text.len() == kent_ids::uid11::SYMBOLS {
            return Uid11::parse(text).map(Self::Uid11);
        }
        if let Some(found) = foreign::guesses(text).next() {
            return Ok(Self::Foreign(found));
        }
        if let Some(fit) = layouts::guess(text) {
            return Ok(Self::Preset(fit));
        }
        if let Some(problem) = nearly_uuid(text).or_else(|| foreign::nearly_ulid(text)) {
            return Err(CodecError::new(ErrorCode::Unrecognised, problem));
        }
        Err(CodecError::new(ErrorCode::Unrecognised, NO_FORMAT))
    }
}

/// The first characters of every EXTUUID in text form.
pub(crate) const EXT_HEAD: &str = "extuuid:";

/// Inspects an EXTUUID given as text.
fn inspect_ext(text: &str, ext: Ext, because: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    let uuid = ext.to_uuid().to_string();
    let mut inspection = inspect_as(&uuid, "extuuid", &Reading { guid: false, ..reading.clone() })?;
    text.clone_into(&mut inspection.text);
    because.clone_into(&mut inspection.because);
    Ok(inspection)
}

/// Inspects an identifier in a foreign format.
fn inspect_foreign(text: &str, found: Foreign, because: String) -> Inspection {
    let bits: String = found.bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut first = 0;
    let layout = found.layout.iter().map(|(last, label)| {
        // OK because the last range of each layout ends with the last bit.
        let range = BitRange {
            first,
            last: *last,
            label: (*label).to_owned(),
            bits: bits[first as usize..=*last as usize].to_owned(),
        };
        first = last + 1;
        range
    });
    let fields = found.fields.iter().map(|(name, value, meaning)| named(name, value.clone(), meaning));
    Inspection {
        text: text.to_owned(),
        format: found.token.to_owned(),
        because,
        canonical: found.canonical.clone(),
        hex: found.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        time: found.instant(),
        fields: fields.collect(),
        layout: layout.collect(),
        also: Vec::new(),
    }
}

/// Parses a UUID, in GUID byte order if `reading.guid` is set.
fn parse_uuid(text: &str, reading: &Reading) -> Result<Uuid, CodecError> {
    let uuid = dce::parse_lenient(text)?;
    Ok(if reading.guid { dce::from_guid(uuid.into_bytes()) } else { uuid })
}

/// Reads a string in the given format.
fn inspect_as(text: &str, token: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    if let Some(found) = foreign::read_as(token, text) {
        return Ok(inspect_foreign(text, found?, "read in this format, as requested".to_owned()));
    }
    if let Some(found) = layouts::read_as(token, text) {
        return found;
    }
    let codec = Codec::by_token(token).ok_or_else(|| unknown(token))?;
    let because = "read in this format, as requested".to_owned();
    if token == "extuuid" && !has_uuid_form(text) {
        return inspect_ext(text, extuuid::parse(text)?, &because, reading);
    }
    match codec.family() {
        Family::Uuid { .. } => {
            let uuid = parse_uuid(text, reading)?;
            let fields = codec.read(uuid.as_u128(), reading)?;
            // The bit ranges of a draft's format depend on its layout or width.
            let suffix = reading.layout.clone().or(reading.width.map(|width| width.to_string())).unwrap_or_default();
            let drawn = Codec::by_token(&format!("{token}-{suffix}")).unwrap_or(codec);
            let mut inspection = Inspection {
                text: text.to_owned(),
                format: codec.token().to_owned(),
                because,
                fields: uuid_fields(uuid),
                ..plain(Id::Uuid(uuid), &drawn.bits_of(uuid.as_u128()))
            };
            inspection.add_fields(fields);
            inspection.add_issued(codec, Id::Uuid(uuid));
            Ok(inspection)
        }
        Family::Uid11 { .. } => inspect_uid11(text, Uid11::parse(text)?, Some(codec), because, reading),
    }
}

/// Returns the names of all formats in which a text can be read.
pub(crate) fn tokens() -> impl Iterator<Item = &'static str> {
    Codec::all().map(|codec| codec.token()).chain(foreign::tokens()).chain(layouts::tokens())
}

pub(crate) fn unknown(token: &str) -> CodecError {
    let known: Vec<_> = tokens().collect();
    let message = format!("there is no format {token:?}: use one of {}", known.join(", "));
    CodecError::new(ErrorCode::BadFormat, message)
}

/// Inspects a prefix of uid11s, and shows the range of identifiers with this prefix.
fn inspect_prefix(text: &str) -> Result<Inspection, CodecError> {
    let range = prefix_range(text)?;
    let [lo, hi] = [range.lo, range.hi].map(|value| Xid::from(Uid11::new(value)));
    // OK because there are at most 64 leading zeros.
    let fixed = (range.lo ^ range.hi).leading_zeros() as u8;
    let layout: &[Range] = match fixed {
        0 => &[Range::new(0, 63, "open")],
        64 => &[Range::new(0, 63, "fixed")],
        _ => &[Range::new(0, fixed - 1, "fixed"), Range::new(fixed, 63, "open")],
    };
    let because = match range.clamped {
        false => "read as a prefix of a uid11, as requested",
        true => "read as a prefix of a uid11, as requested; the range ends at 2^64 - 1, the largest value",
    };
    let text_of = |value| Uid11::new(value).to_string();
    let mut inspection = Inspection {
        text: text.to_owned(),
        format: "uid11-prefix".to_owned(),
        because: because.to_owned(),
        fields: vec![
            named("lo", range.lo.to_string(), "the smallest value with this prefix"),
            named("lo_text", text_of(range.lo), "its text"),
            named("hi", range.hi.to_string(), "the largest value with this prefix"),
            named("hi_text", text_of(range.hi), "its text"),
            named("count", (u128::from(range.hi - range.lo) + 1).to_string(), "the number of values with this prefix"),
            named("ts_lo", lo.ts().to_string(), "as xids: the first millisecond since 2011-11-11T11:11:11.111Z"),
            named("ts_hi", hi.ts().to_string(), "as xids: the last millisecond since 2011-11-11T11:11:11.111Z"),
        ],
        ..plain(Id::Uid11(Uid11::new(range.lo)), layout)
    };
    text.clone_into(&mut inspection.canonical);
    for (name, xid, meaning) in [("from", lo, "as xids: the earliest time"), ("to", hi, "as xids: the latest time")] {
        inspection.fields.push(named(name, xid.instant().rfc3339(3).unwrap_or_default(), meaning));
    }
    if lo.ts() == hi.ts() {
        inspection.fields.push(named("rand_lo", lo.rand().to_string(), "as xids: the smallest of the last 22 bits"));
        inspection.fields.push(named("rand_hi", hi.rand().to_string(), "as xids: the largest of the last 22 bits"));
    }
    Ok(inspection)
}

pub(crate) fn has_uuid_form(text: &str) -> bool {
    const URN: &str = "urn:uuid:";
    let is_urn = text.get(..URN.len()).is_some_and(|head| head.eq_ignore_ascii_case(URN));
    let is_bare = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_urn || is_bare || text.starts_with('{') || text.len() == 36 && text.contains('-')
}

fn inspect_uuid(text: &str, uuid: Uuid, form: String, reading: &Reading) -> Result<Inspection, CodecError> {
    let version = dce::version(uuid);
    let codec = version.and_then(Codec::by_version);
    let mut inspection = Inspection {
        text: text.to_owned(),
        format: codec.map_or("uuid", |codec| codec.token()).to_owned(),
        because: because_uuid(&form, uuid),
        fields: uuid_fields(uuid),
        ..plain(Id::Uuid(uuid), codec.map_or(bare_layout(uuid), |codec| codec.bits()))
    };
    if let Some(codec) = codec {
        inspection.add_fields(codec.read(uuid.as_u128(), reading)?);
        inspection.add_issued(codec, Id::Uuid(uuid));
    }
    Ok(inspection)
}

/// Returns the fields that every UUID has.
fn uuid_fields(uuid: Uuid) -> Vec<Field> {
    let mut fields = vec![named("variant", dce::variant(uuid).as_str(), "the family of layouts, by bits 64 to 66")];
    let version = dce::version(uuid);
    fields.extend(version.map(|version| named("version", version.to_string(), "the layout of RFC 9562")));
    fields
}

fn uuid_form(text: &str) -> &'static str {
    match text.len() {
        32 if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            "32 digits are read as a UUID (write an integer of 32 digits in hexadecimal after 0x)"
        }
        32 => "32 hexadecimal digits are read as a UUID",
        _ => "the text has the form of a UUID",
    }
}

fn because_uuid(form: &str, uuid: Uuid) -> String {
    match (dce::special(uuid), dce::version(uuid)) {
        (Some(dce::Special::Nil), _) => format!("{form}; all bits are zero: the nil UUID, which is not an identifier"),
        (Some(dce::Special::Max), _) => format!("{form}; all bits are one: the max UUID, which is not an identifier"),
        (None, None) => format!("{form}; its variant is {}, which has no versions", dce::variant(uuid).as_str()),
        (None, Some(version)) => match sharing(version).as_slice() {
            [] => format!("{form}; its version is {version}"),
            others => {
                let others = others.join(", ");
                format!("{form}; its version is {version}, as in {others}, and no bits distinguish these formats")
            }
        },
    }
}

/// Returns the formats of this version, except the default format.
fn sharing(version: u8) -> Vec<&'static str> {
    let family = Family::Uuid { version, default: false };
    let mut tokens: Vec<_> = Codec::all().filter(|codec| codec.family() == family).map(|codec| codec.token()).collect();
    // A format is listed once, not again with each of its layouts or widths.
    let whole = tokens.clone();
    tokens.retain(|token| !whole.iter().any(|other| token.len() > other.len() && token.starts_with(other)));
    tokens
}

/// Returns the bit ranges of a UUID whose fields are unknown.
fn bare_layout(uuid: Uuid) -> &'static [Range] {
    const DCE: &[Range] = &[
        Range::new(0, 47, "payload"),
        Range::new(48, 51, "version"),
        Range::new(52, 63, "payload"),
        Range::new(64, 65, "variant"),
        Range::new(66, 127, "payload"),
    ];
    const NCS: &[Range] =
        &[Range::new(0, 63, "payload"), Range::new(64, 64, "variant"), Range::new(65, 127, "payload")];
    const OTHER: &[Range] =
        &[Range::new(0, 63, "payload"), Range::new(64, 66, "variant"), Range::new(67, 127, "payload")];
    match dce::variant(uuid) {
        dce::Variant::Dce => DCE,
        dce::Variant::Ncs => NCS,
        dce::Variant::Microsoft | dce::Variant::Reserved => OTHER,
    }
}

/// The default profile for a uid11.
pub(crate) const SHOWN_PROFILE: &str = "xid";

fn inspect_uid11(
    text: &str,
    uid11: Uid11,
    codec: Option<Codec>,
    because: String,
    reading: &Reading,
) -> Result<Inspection, CodecError> {
    const WHOLE: &[Range] = &[Range::new(0, 63, "value")];
    let mut inspection = Inspection {
        text: text.to_owned(),
        format: codec.map_or("uid11", |codec| codec.token()).to_owned(),
        because,
        fields: vec![named("value", uid11.get().to_string(), "the 64 bits as a number")],
        ..plain(Id::Uid11(uid11), codec.map_or(WHOLE, |codec| codec.bits()))
    };
    if let Some(codec) = codec {
        inspection.add_fields(codec.read(uid11.get().into(), reading)?);
        inspection.add_issued(codec, Id::Uid11(uid11));
    }
    Ok(inspection)
}

fn parse_integer(text: &str, digits: &str, radix: u32) -> Result<u128, CodecError> {
    if let Some(offset) = digits.bytes().position(|byte| !char::from(byte).is_digit(radix)) {
        let at = text.len() - digits.len() + offset;
        return Err(CodecError::new(ErrorCode::BadHex, "not a hexadecimal digit").at(at));
    }
    if digits.is_empty() {
        return Err(CodecError::new(ErrorCode::BadLength, "no digit follows 0x"));
    }
    u128::from_str_radix(digits, radix).map_err(|_| {
        CodecError::new(ErrorCode::Range, "the number does not fit in 128 bits, the width of the widest identifiers")
    })
}

fn inspect_integer(text: &str, value: u128, radix: u32) -> Inspection {
    let form = if radix == 16 { "0x begins a hexadecimal integer" } else { "decimal digits are an integer" };
    let twin = match Uid11::parse(text) {
        Ok(_) => "; the same text is also a valid uid11",
        Err(_) => "",
    };
    integer(text, value, format!("{form}{twin}; the text does not contain its space"))
}

fn integer(text: &str, value: u128, because: String) -> Inspection {
    let narrow = u64::try_from(value);
    let layout: &[Range] = match narrow {
        Ok(_) => &[Range::new(0, 63, "value")],
        Err(_) => &[Range::new(0, 127, "value")],
    };
    let twin = match narrow {
        Ok(value) => named("uid11", Uid11::new(value).to_string(), "the uid11 with the same 64 bits"),
        Err(_) => named("uuid", Uuid::from_u128(value).to_string(), "the UUID with the same 128 bits"),
    };
    let width = (u128::BITS - value.leading_zeros()).to_string();
    let bits = if narrow.is_ok() { 64 } else { 128 };
    Inspection {
        text: text.to_owned(),
        because,
        fields: vec![named("width", width, "the number of bits that the integer needs"), twin],
        ..plain(Id::Number { value, bits }, layout)
    }
}

/// Returns an inspection with only the parts that follow from the value and its layout.
fn plain(id: Id, layout: &[Range]) -> Inspection {
    let value = id.to_u128();
    let width = 8 * id.width_bytes();
    Inspection {
        text: String::new(),
        format: "integer".to_owned(),
        because: String::new(),
        canonical: id.to_string(),
        hex: format!("{value:0digits$x}", digits = width / 4),
        time: None,
        fields: Vec::new(),
        also: Vec::new(),
        layout: label(&format!("{value:0width$b}"), layout),
    }
}

fn label(bits: &str, layout: &[Range]) -> Vec<BitRange> {
    let label = |range: &Range| {
        let Range { first, last, label } = *range;
        // OK because every layout ends with the last bit of its identifiers.
        BitRange {
            first: first.into(),
            last: last.into(),
            label: label.to_owned(),
            bits: bits[usize::from(first)..=usize::from(last)].to_owned(),
        }
    };
    layout.iter().map(label).collect()
}

fn named(name: &'static str, value: impl Into<String>, meaning: &'static str) -> Field {
    Field { name: name.to_owned(), value: value.into(), meaning: meaning.to_owned() }
}

impl Inspection {
    /// Adds the extra fields of an identifier that Kent may have issued.
    fn add_issued(&mut self, codec: Codec, id: Id) {
        if let Some(format) = Format::by_token(codec.token()) {
            self.add_fields(format.issued(id));
        }
    }

    fn add_fields(&mut self, fields: Vec<kent_ids::Field>) {
        for kent_ids::Field { name, value, meaning } in fields {
            let value = match value {
                FieldValue::Small(value) => value.to_string(),
                FieldValue::Large(value) => value.to_string(),
                FieldValue::Flag(value) => if value { "yes" } else { "no" }.to_owned(),
                FieldValue::Text(value) => value,
                FieldValue::Group(fields) => {
                    self.add_fields(fields);
                    continue;
                }
                FieldValue::Time(time) => {
                    self.time.clone_from(&time);
                    time.unwrap_or_else(|| "outside the years 1 to 9999".to_owned())
                }
            };
            self.fields.push(named(name, value, meaning));
        }
    }
}

#[cfg(test)]
mod tests;
