//! Guesses what kind of identifier a text is, from its form, and explains the guess.
//!
//! Only the form of the text decides. There is no guess between formats with the same version bits, since a wrong guess
//! would show a wrong but plausible date. No blanks are trimmed.

use kent_ids::{
    Codec, CodecError, ErrorCode, Family, FieldValue, Format, Id, Inputs, NoInputs, Uid11, Uuid, Xid, dce, extuuid,
    uid11::prefix_range,
};
use serde::Serialize;

use crate::{
    error::VerbError,
    foreign::{self, Foreign},
};

/// A range of bits and its label, without the bits of an identifier.
type Range = kent_ids::BitRange;

/// The result of inspecting a text. Its JSON form is an object with the same keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The text.
    pub text: String,
    /// The format that it was read as: a format's token such as `uuidv7`, or `uuid` (no version), `uid11` or `integer`.
    pub format: String,
    /// The reason for the format.
    pub because: String,
    /// The canonical text of the identifier.
    pub canonical: String,
    /// The value in hexadecimal, in the full width of the format.
    pub hex: String,
    /// The time in the identifier, in RFC 3339 form; `None` if it holds no time, or one outside the years 1 to 9999.
    pub time: Option<String>,
    /// The fields.
    pub fields: Vec<Field>,
    /// The fields as bit ranges, most significant first, without gaps.
    pub layout: Vec<BitRange>,
    /// Other formats whose form the text has, each with what it would mean.
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

/// A labelled range of an identifier's bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BitRange {
    /// The first bit; bit 0 is the most significant.
    pub first: u32,
    /// The last bit, included.
    pub last: u32,
    /// The name of the bits.
    pub label: String,
    /// The bits as zeros and ones.
    pub bits: String,
}

/// What the caller already knows about a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The format to read it as: a format's token, such as `uuidv7-draft01-us`. By default, the form of the text
    /// decides.
    pub format: Option<String>,
    /// Whether the bytes of the UUID are in GUID order.
    pub guid: bool,
    /// Whether the text is a prefix of a uid11.
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

/// Inspects a text as described by `reading`. Without a format there, the text is the first of these that fits its
/// form: the text of an EXTUUID, a UUID (with hyphens, in braces, as a URN, or 32 hexadecimal digits), an integer
/// (hexadecimal after `0x`, or decimal), a uid11 (11 symbols), a format of other makers such as a ULID. What else the text may
/// be is in [`Inspection::also`].
///
/// # Errors
///
/// `unrecognised` for a text of none of these forms; `bad-format` for an unknown format; otherwise the error of reading
/// a text of that form or format.
pub fn inspect(text: &str, reading: &Reading) -> Result<Inspection, VerbError> {
    Ok(examine(text, reading)?)
}

fn examine(text: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    if reading.prefix {
        return inspect_prefix(text);
    }
    if let Some(token) = &reading.format {
        return inspect_as(text, token, reading);
    }
    if reading.guid {
        let uuid = parse_uuid(text, reading)?;
        return inspect_uuid(text, uuid, "read in GUID byte order on request".to_owned(), reading);
    }
    let mut inspection = guess(text, reading)?;
    let others = foreign::guesses(text).filter(|other| other.token != inspection.format);
    inspection.also = others.map(|other| other.as_alternative()).collect();
    Ok(inspection)
}

fn guess(text: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    if text.starts_with(EXT_HEAD) {
        return inspect_ext(text, "the text begins with extuuid:", reading);
    }
    if has_uuid_form(text) {
        return inspect_uuid(text, dce::parse_lenient(text)?, uuid_form(text).to_owned(), reading);
    }
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return inspect_integer(text, digits, 16);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return inspect_integer(text, text, 10);
    }
    if text.len() == kent_ids::uid11::SYMBOLS {
        let because = format!(
            "11 symbols of base 58 are a uid11; its text does not contain its profile, so it is read as {SHOWN_PROFILE}"
        );
        return inspect_uid11(text, Uid11::parse(text)?, Codec::by_profile(SHOWN_PROFILE), because, reading);
    }
    if let Some(found) = foreign::guesses(text).next() {
        let because = found.because.to_owned();
        return Ok(inspect_foreign(text, found, because));
    }
    let message = "the text is not a UUID (36 symbols, or 32 hexadecimal digits), a uid11 (11 symbols of base 58), an integer, the text \
                   of an EXTUUID (extuuid:...), or an identifier of another maker: a ULID (26 symbols), TypeID (type_ and 26 symbols), \
                   KSUID (27), xid of rs/xid (20), ObjectId (24 hexadecimal digits) or NanoID (21)";
    Err(CodecError::new(ErrorCode::Unrecognised, message))
}

/// The prefix of the texts of EXTUUIDs.
const EXT_HEAD: &str = "extuuid:";

/// Inspects the text of an EXTUUID.
fn inspect_ext(text: &str, because: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    let ext = extuuid::parse(text)?;
    let uuid = ext.to_uuid().to_string();
    let mut inspection = inspect_as(&uuid, "extuuid", &Reading { guid: false, ..reading.clone() })?;
    text.clone_into(&mut inspection.text);
    because.clone_into(&mut inspection.because);
    Ok(inspection)
}

/// Shows an identifier that Kent does not make.
fn inspect_foreign(text: &str, found: Foreign, because: String) -> Inspection {
    let bits: String = found.bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut first = 0;
    let layout = found.layout.iter().map(|(last, label)| {
        // OK because the last part of each layout ends with the last bit.
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

/// Parses a UUID, in GUID byte order if `reading` says so.
fn parse_uuid(text: &str, reading: &Reading) -> Result<Uuid, CodecError> {
    let uuid = dce::parse_lenient(text)?;
    Ok(if reading.guid { dce::from_guid(uuid.into_bytes()) } else { uuid })
}

/// Reads a text as the given format.
fn inspect_as(text: &str, token: &str, reading: &Reading) -> Result<Inspection, CodecError> {
    if let Some(found) = foreign::read_as(token, text) {
        return Ok(inspect_foreign(text, found?, "read as this format on request".to_owned()));
    }
    let codec = Codec::by_token(token).ok_or_else(|| {
        let known: Vec<_> = Codec::all().map(|codec| codec.token()).chain(foreign::tokens()).collect();
        let message = format!("there is no format {token:?}: use one of {}", known.join(", "));
        CodecError::new(ErrorCode::BadFormat, message)
    })?;
    let because = "read as this format on request".to_owned();
    if token == "extuuid" && !has_uuid_form(text) {
        return inspect_ext(text, &because, reading);
    }
    match codec.family() {
        Family::Uuid { .. } => {
            let uuid = parse_uuid(text, reading)?;
            let fields = codec.read(uuid.as_u128(), reading)?;
            // With a given layout or width, a draft's format has its own bit ranges.
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

/// Inspects a prefix of uid11 texts: the range of identifiers that have it.
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
        false => "read as a prefix of a uid11 on request",
        true => "read as a prefix of a uid11 on request; the range ends at 2^64 - 1, the largest value",
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

fn has_uuid_form(text: &str) -> bool {
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

/// The fields that every UUID has.
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

/// The formats of this version that are not its default format.
fn sharing(version: u8) -> Vec<&'static str> {
    let family = Family::Uuid { version, default: false };
    let mut tokens: Vec<_> = Codec::all().filter(|codec| codec.family() == family).map(|codec| codec.token()).collect();
    // A format with a layout or width is covered by the one without.
    let whole = tokens.clone();
    tokens.retain(|token| !whole.iter().any(|other| token.len() > other.len() && token.starts_with(other)));
    tokens
}

/// The bit ranges of a UUID without known fields.
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
const SHOWN_PROFILE: &str = "xid";

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

fn inspect_integer(text: &str, digits: &str, radix: u32) -> Result<Inspection, CodecError> {
    if let Some(offset) = digits.bytes().position(|byte| !char::from(byte).is_digit(radix)) {
        let at = text.len() - digits.len() + offset;
        return Err(CodecError::new(ErrorCode::BadHex, "not a hexadecimal digit").at(at));
    }
    if digits.is_empty() {
        return Err(CodecError::new(ErrorCode::BadLength, "no digit follows 0x"));
    }
    let value = u128::from_str_radix(digits, radix).map_err(|_| {
        CodecError::new(ErrorCode::Range, "the number does not fit 128 bits, the width of the widest identifiers")
    })?;
    let form = if radix == 16 { "0x begins a hexadecimal integer" } else { "decimal digits are an integer" };
    let twin = match Uid11::parse(text) {
        Ok(_) => "; the same text would also be a uid11",
        Err(_) => "",
    };
    Ok(integer(text, value, format!("{form}{twin}; the text does not contain its space")))
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
        fields: vec![named("width", width, "the number of bits it needs"), twin],
        ..plain(Id::Number { value, bits }, layout)
    }
}

/// The parts that every inspection has.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inspect(text: &str) -> Result<Inspection, VerbError> {
        super::inspect(text, &Reading::default())
    }

    #[track_caller]
    fn check(text: &str, format: &str, canonical: &str, time: Option<&str>) {
        let found = inspect(text).expect("an identifier");
        assert_eq!((found.format.as_str(), found.canonical.as_str()), (format, canonical), "{}", found.because);
        assert_eq!(found.time.as_deref(), time);
        let bits: String = found.layout.iter().map(|it| it.bits.as_str()).collect();
        assert_eq!(u128::from_str_radix(&bits, 2), u128::from_str_radix(&found.hex, 16));
        assert_eq!(bits.len(), 4 * found.hex.len());
    }

    #[track_caller]
    fn check_err(text: &str, code: ErrorCode) {
        let error = inspect(text).expect_err("not an identifier");
        assert_eq!(error.code, code.as_str(), "{error}");
    }

    #[test]
    fn ok_uuids_in_usual_spellings() {
        let (canonical, time) = ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", Some("2022-02-22T19:22:22.000Z"));
        check("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "uuidv7", canonical, time);
        check("{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", "uuidv7", canonical, time);
        check("urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "uuidv7", canonical, time);
        check("017f22e279b07cc398c4dc0c0c07398f", "uuidv7", canonical, time);
        let v6 = "1ec9414c-232a-6b00-b3c8-9f6bdeced846";
        check(v6, "uuidv6", v6, Some("2022-02-22T19:22:22.0000000Z"));
        let v1 = "c232ab00-9414-11ec-b3c8-9f6bdeced846";
        check(v1, "uuidv1", v1, Some("2022-02-22T19:22:22.0000000Z"));
    }

    #[test]
    fn ok_identifiers_of_other_makers() {
        check("01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV", Some("2016-07-30T23:54:10.259Z"));
        check("01arz3ndektsv4rrffq69g5fav", "ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV", Some("2016-07-30T23:54:10.259Z"));
        check("507F1F77BCF86CD799439011", "objectid", "507f1f77bcf86cd799439011", Some("2012-10-17T21:13:27Z"));
        check("9m4e2mr0ui3e8a215n4g", "rs-xid", "9m4e2mr0ui3e8a215n4g", Some("2011-03-22T17:50:19Z"));
        let random = inspect("V1StGXR8_Z5jdHi6B-myT").expect("a NanoID");
        assert_eq!((random.format.as_str(), random.layout.len(), random.time), ("nanoid", 0, None));
    }

    #[test]
    fn ok_what_a_text_could_also_be_is_listed() {
        let number = inspect("175928847299117063").expect("an integer");
        assert_eq!(number.format, "integer");
        assert_eq!(number.also.len(), 4, "{:?}", number.also);
        assert_eq!(number.also[1], "snowflake-discord of 2016-04-30T11:18:25.796Z (--as snowflake-discord)");
        assert!(inspect("42").expect("an integer").also.is_empty());
        let digits = inspect("507170771234567890123456").expect("an integer");
        assert_eq!((digits.format.as_str(), digits.also.len()), ("integer", 1), "{:?}", digits.also);

        let reading = Reading { format: Some("snowflake-discord".to_owned()), ..Reading::default() };
        let snowflake = super::inspect("175928847299117063", &reading).expect("a Snowflake");
        assert_eq!(snowflake.time.as_deref(), Some("2016-04-30T11:18:25.796Z"));
        let refused = super::inspect("x", &reading).expect_err("not a number");
        assert_eq!(refused.code, "bad-syntax", "{refused}");
    }

    #[test]
    fn ok_uuids_without_fields() {
        for text in [
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "00000000-0000-4000-c000-000000000000",
            "00000000-0000-f000-8000-000000000000",
        ] {
            check(text, "uuid", text, None);
        }
        let v4 = "919108f7-52d1-4320-9bac-f847db4148a8";
        check(v4, "uuidv4", v4, None);
        let digits = "01234567890123456789012345678901";
        check(digits, "uuid", "01234567-8901-2345-6789-012345678901", None);
    }

    #[test]
    fn ok_uid11_and_integers() {
        check("5Jxqwr73FDS", "xid", "5Jxqwr73FDS", Some("2025-11-20T19:30:00.123Z"));
        check("0", "integer", "0", None);
        check("0xff", "integer", "255", None);
        check("12345678912", "integer", "12345678912", None);
        check("18446744073709551616", "integer", "18446744073709551616", None);
        check("0XFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "integer", &u128::MAX.to_string(), None);
    }

    #[track_caller]
    fn check_field(text: &str, name: &str, value: Option<&str>) {
        let found = inspect(text).expect("an identifier");
        let field = found.fields.iter().find(|field| field.name == name);
        assert_eq!(field.map(|field| field.value.as_str()), value, "{text}: {name}");
    }

    #[test]
    fn ok_fields_of_identifiers_that_kent_may_have_issued() {
        let v7 = "019aa2be-bb3b-7000-8050-c00000000009";
        check_field(v7, "kent_counter", Some("5"));
        check_field(v7, "kent_slot", Some("3"));
        check_field("1f0c6474-df30-628c-bfff-a1b2c3d4e5c3", "kent_slot", Some("3"));
        // Without the multicast bit, the node is a network card's address.
        check_field("1f0c6474-df30-628c-bfff-a0b2c3d4e5c3", "kent_slot", None);
        check_field("c232ab00-9414-11ec-b3c8-9f6bdeced846", "kent_slot", Some("6"));
        check_field("2fac1234-31f8-11b4-a222-08002b34c003", "kent_slot", None);
        check_field("5Jxqwr73FDS", "kent_slot", None);
    }

    #[test]
    fn ok_guesses_mention_the_alternatives() {
        for (text, because) in [
            ("5Jxqwr73FDS", "does not contain its profile"),
            ("12345678912", "would also be a uid11"),
            ("01234567890123456789012345678901", "after 0x"),
            ("00000000-0000-0000-0000-000000000000", "nil UUID"),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", "max UUID"),
        ] {
            let found = inspect(text).expect("an identifier");
            assert!(found.because.contains(because), "{}", found.because);
        }
    }

    #[track_caller]
    fn check_as(text: &str, reading: Reading, name: &str, value: &str) {
        let found = super::inspect(text, &reading).expect("an identifier");
        let field = found.fields.iter().find(|field| field.name == name);
        assert_eq!(field.map(|field| field.value.as_str()), Some(value), "{found:?}");
    }

    fn reading(format: &str) -> Reading {
        Reading { format: Some(format.to_owned()), ..Reading::default() }
    }

    #[test]
    fn ok_a_given_reading_is_used() {
        let v7 = "06086028-01f9-7add-8dcf-ffffffffffff";
        check_as(v7, reading("uuidv7-draft01-ns"), "time", "2021-04-26T00:00:00.123456789Z");
        check_as(v7, reading("uuidv7-draft01-ns"), "seq", "255");
        let coarse = Reading { precision: Some("us".to_owned()), ..reading("uuidv7-draft01") };
        check_as(v7, coarse, "time", "2021-04-26T00:00:00.123456Z");
        let v8 = "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0";
        check_as(v8, Reading { width: Some(60), ..reading("uuidv8-draft01") }, "ts", "164555774200000000");
        check_as(v8, reading("uuidv8-draft01-60"), "node", "2589169336549824");
        check_as("113q8KFkGL6", reading("uid11-snowish"), "machine", "5");
        let guid = Reading { guid: true, ..Reading::default() };
        check_as("e2227f01b079c37c98c4dc0c0c07398f", guid, "unix_ms", "1645557742000");
        let prefix = Reading { prefix: true, ..Reading::default() };
        check_as("113q8K", prefix.clone(), "from", "2011-11-12T11:11:11.071Z");
        check_as("113q8K", prefix.clone(), "ts_hi", "86400116");
        check_as("j", prefix, "hi_text", "jpXCZedGfVQ");
    }

    #[test]
    fn ok_extuuids_by_their_texts_and_by_their_bits() {
        let (text, uuid) = ("extuuid:fixedB4:GBP$:222.31", "49083027-d200-8000-8000-00000021ebfc");
        let found = inspect(text).expect("an EXTUUID");
        assert_eq!((found.format.as_str(), found.canonical.as_str(), found.text.as_str()), ("extuuid", uuid, text));
        assert!(found.layout.iter().any(|range| range.label == "decimals" && range.bits == "00100"));
        check_as(uuid, reading("extuuid"), "text", text);
        check_as("22.4*m3", reading("extuuid"), "kind", "quant");
        check_as("88190000-0000-8001-8036-666666666666", reading("extuuid"), "text", "extuuid:quant:22.4*m3");
    }

    #[test]
    fn err_a_given_reading_that_does_not_fit() {
        for (text, reading, code) in [
            ("06086028-01f9-7add-8dcf-ffffffffffff", reading("uuidv6"), ErrorCode::WrongVersion),
            ("06086028-01f9-7add-8dcf-ffffffffffff", reading("uuidv9"), ErrorCode::BadFormat),
            ("2489e9ad-2ee2-8e00-8ec9-32d5f69181c0", reading("uuidv8-draft01"), ErrorCode::BadInput),
            ("jpXCZedGfVQ", reading("uid11-snowish"), ErrorCode::ReservedBits),
            ("k", Reading { prefix: true, ..Reading::default() }, ErrorCode::PrefixOutOfRange),
        ] {
            assert_eq!(super::inspect(text, &reading).expect_err("it does not fit").code, code.as_str());
        }
    }

    #[test]
    fn err_texts_that_are_not_identifiers() {
        check_err("", ErrorCode::Unrecognised);
        check_err("hello", ErrorCode::Unrecognised);
        check_err(" 7", ErrorCode::Unrecognised);
        check_err("017f22e2-79b0-7cc3-98c4-dc0c0c07398g", ErrorCode::BadHex);
        check_err("{017f22e2}", ErrorCode::BadLength);
        check_err("0x", ErrorCode::BadLength);
        check_err("0xfg", ErrorCode::BadHex);
        check_err("340282366920938463463374607431768211456", ErrorCode::Range);
        check_err("zzzzzzzzzzz", ErrorCode::Overflow);
        check_err("hello world", ErrorCode::BadSymbol);
    }

    proptest! {
        #[test]
        fn ok_no_text_panics(text: String) {
            let _ = inspect(&text);
        }

        #[test]
        fn ok_every_identifier_is_recognised(value: u128) {
            let uuid = Uuid::from_u128(value);
            let found = inspect(&uuid.to_string()).expect("a UUID");
            prop_assert_eq!(&found.canonical, &uuid.to_string());
            prop_assert_eq!(found.hex, uuid.simple().to_string());
            let uid11 = Uid11::new(value as u64);
            prop_assert_eq!(inspect(&uid11.to_string()).expect("a uid11").hex, format!("{:016x}", uid11.get()));
        }
    }
}
