//! Custom layouts.

use kent_ids::{
    check_name,
    layout::{Layout, Safe, Spelling},
};

use super::{Invalid, names::shown};
use crate::{stored::StoredLayout, v1};

/// A layout to create, validated as far as possible without the time and the slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutInput {
    /// The name.
    pub name: String,
    /// The fields.
    pub layout: Layout,
    /// How identifiers are written.
    pub spelling: Spelling,
    /// A description for people.
    pub description: String,
    /// Whether to check the layout without creating it.
    pub validate_only: bool,
}

/// The text form of a layout whose request names none.
const TEXT_DEFAULT: &str = "decimal";

/// The maximum length of a description in bytes.
const DESCRIPTION_MAX: usize = 1000;

impl TryFrom<v1::CreateLayoutRequest> for LayoutInput {
    type Error = Invalid;

    fn try_from(request: v1::CreateLayoutRequest) -> Result<Self, Invalid> {
        let given = request.layout.ok_or_else(|| Invalid::new("layout", "is missing"))?;
        let name = layout_name("layout.name", &given.name)?;
        let layout: Layout = given.fields.parse().map_err(|error| Invalid::new("layout.fields", error))?;
        let text = if given.text.is_empty() { TEXT_DEFAULT } else { &given.text };
        let spelling: Spelling = text.parse().map_err(|error| Invalid::new("layout.text", error))?;
        spelling.check_bits(layout.bits()).map_err(|error| Invalid::new("layout.text", error))?;
        if given.description.len() > DESCRIPTION_MAX {
            let length = kent_ids::grouped(given.description.len());
            let problem = format!("has {length} bytes, but at most {} are allowed", kent_ids::grouped(DESCRIPTION_MAX));
            return Err(Invalid::new("layout.description", problem));
        }
        Ok(Self { name, layout, spelling, description: given.description, validate_only: request.validate_only })
    }
}

/// Checks the name of a layout.
///
/// # Errors
///
/// Returns [`Invalid`], which names the field.
pub fn layout_name(field: &'static str, name: &str) -> Result<String, Invalid> {
    check_name(name)
        .map(|()| name.to_owned())
        .map_err(|fault| Invalid::new(field, format!("is {:?}, which is not a name: {fault}", shown(name))))
}

/// Returns the message of a layout. `safe` says what the layout can issue; `None` if its time has ended.
pub fn layout(name: &str, stored: &StoredLayout, safe: Option<&Safe>) -> v1::Layout {
    let StoredLayout { layout, spelling, description, created_by, created_ms, used } = stored;
    let per_second = match safe {
        Some(Safe::Timed { per_second, .. }) => per_second.to_string(),
        Some(Safe::Counted { .. }) | None => String::new(),
    };
    let end = layout.ends().map_or(0, |end| end.get().div_euclid(1_000_000_000));
    v1::Layout {
        name: name.to_owned(),
        fields: layout.to_string(),
        text: spelling.to_string(),
        description: description.clone(),
        bits: layout.bits().into(),
        used: *used,
        created_by: created_by.clone(),
        created_unix_ms: *created_ms,
        per_second,
        slots: layout.slots().into(),
        end_unix_seconds: i64::try_from(end).unwrap_or(i64::MAX),
        order: layout.ascends().to_string(),
        tag_bits: layout.tag_bits().unwrap_or(0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, fields: &str, text: &str) -> Result<LayoutInput, String> {
        let layout = v1::Layout {
            name: name.to_owned(),
            fields: fields.to_owned(),
            text: text.to_owned(),
            ..v1::Layout::default()
        };
        let request = v1::CreateLayoutRequest { layout: Some(layout), validate_only: false };
        LayoutInput::try_from(request).map_err(|invalid| invalid.to_string())
    }

    const FIELDS: &str = "zero:1 time:41:1ms@2015-01-01 slot:10 counter:12";

    #[test]
    fn ok_a_layout_without_a_text_form_is_decimal() {
        let input = request("orders", FIELDS, "").expect("valid");
        assert_eq!((input.layout.to_string().as_str(), input.spelling.to_string().as_str()), (FIELDS, "decimal"));
    }

    #[test]
    fn err_each_field_is_named() {
        for (name, fields, text, expected) in [
            ("a/b", FIELDS, "", "layout.name: is \"a/b\", which is not a name"),
            ("orders", "time:41", "", "layout.fields: "),
            ("orders", FIELDS, "roman", "layout.text: there is no text form \"roman\""),
            ("orders", FIELDS, "uuid", "layout.text: uuid writes identifiers of 128 bits"),
        ] {
            let error = request(name, fields, text).expect_err("invalid");
            assert!(error.starts_with(expected), "{error}");
        }
        let error = LayoutInput::try_from(v1::CreateLayoutRequest::default()).expect_err("missing");
        assert_eq!(error.to_string(), "layout: is missing");
    }
}
