//! Reads identifiers of custom layouts, and of other projects' layouts for which Kent has a preset.

use std::sync::LazyLock;

use kent_ids::{
    CodecError, UnixNanos,
    layout::{Fit, Layout, Preset, Presets, Spelling},
};

use super::{Inspection, label};
use crate::{error::VerbError, foreign};

/// An identifier fits a preset only if its time is before 2100-01-01.
const END: UnixNanos = UnixNanos::new(4_102_444_800_000_000_000);
/// A preset whose identifiers only Kent issues. It is never guessed, because too many strings have its form.
const ONLY_KENT: &str = "ksuid-128";

static PRESETS: LazyLock<Presets> = LazyLock::new(Presets::parse);

/// Inspects a string as an identifier of the custom layout `name`.
///
/// # Errors
///
/// Fails with the error from reading the string in this spelling, and with `reserved-bits` if a field with a fixed
/// value has another value.
pub fn inspect_layout(text: &str, name: &str, layout: &Layout, spelling: &Spelling) -> Result<Inspection, VerbError> {
    Ok(read(text, name, layout, spelling.parse(text, layout.bits())?, "read in this layout, as requested")?)
}

fn read(text: &str, name: &str, layout: &Layout, value: u128, because: &str) -> Result<Inspection, CodecError> {
    let bits = usize::from(layout.bits());
    let mut inspection = Inspection {
        text: text.to_owned(),
        format: name.to_owned(),
        because: because.to_owned(),
        canonical: text.to_owned(),
        hex: format!("{value:0digits$x}", digits = bits.div_ceil(4)),
        time: None,
        fields: Vec::new(),
        also: Vec::new(),
        layout: label(&format!("{value:0bits$b}"), &layout.bit_ranges()),
    };
    inspection.add_fields(layout.read(value)?);
    inspection.add_fields(layout.issued_fields(value));
    Ok(inspection)
}

/// Reads a string as an identifier of this preset; returns `None` if there is no such preset.
pub(super) fn read_as(token: &str, text: &str) -> Option<Result<Inspection, CodecError>> {
    let preset = Preset::by_name(token).ok()?;
    let (layout, spelling) = (preset.layout(None).ok()?, preset.spelling().ok()?);
    let value = spelling.parse(text, layout.bits());
    Some(value.and_then(|value| read(text, token, &layout, value, "read in this format, as requested")))
}

/// Returns the names of the presets that are not among the foreign formats.
pub(super) fn tokens() -> impl Iterator<Item = &'static str> {
    Preset::all().map(|preset| preset.name).filter(|name| !is_foreign(name))
}

/// Returns whether the formats of [`foreign`] include this preset.
fn is_foreign(name: &str) -> bool {
    foreign::tokens().any(|token| token == name || token.strip_prefix("snowflake-") == Some(name))
}

/// Reads the string as each preset that it fits, except the presets that are foreign formats.
fn readings(text: &str) -> impl Iterator<Item = Fit<'static>> {
    PRESETS.fits(text, END).filter(|fit| !is_foreign(fit.preset))
}

/// Returns the first preset, except [`ONLY_KENT`], that the string fits; `None` if it fits none.
pub(super) fn guess(text: &str) -> Option<Fit<'static>> {
    readings(text).find(|fit| fit.preset != ONLY_KENT)
}

/// Inspects a string that fits a preset.
pub(super) fn inspect_fit(text: &str, fit: &Fit<'_>) -> Result<Inspection, CodecError> {
    let because = format!("the text has the form of {}", fit.preset);
    read(text, fit.preset, fit.layout, fit.value, &because)
}

/// Describes the presets that the string fits, each with the time that the identifier would have in that preset.
pub(super) fn alternatives(text: &str) -> impl Iterator<Item = String> {
    readings(text).map(|fit| {
        let of = fit.time.rfc3339(fit.digits).map(|time| format!(" of {time}")).unwrap_or_default();
        format!("{0}{of} (--as {0})", fit.preset)
    })
}
