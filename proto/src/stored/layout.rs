//! The records of custom layouts.

use kent_ids::layout::{Layout, Spelling};
use prost::Message;

use super::{Malformed, decode, malformed, records};

/// A custom layout, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLayout {
    /// The fields.
    pub layout: Layout,
    /// How identifiers are written.
    pub spelling: Spelling,
    /// A description for people.
    pub description: String,
    /// Who created the layout.
    pub created_by: String,
    /// When the layout was created, in Unix milliseconds.
    pub created_ms: i64,
    /// Whether identifiers may have been issued. This is set before the first grant, and never unset.
    pub used: bool,
}

/// Encodes the record of a layout.
pub fn encode_layout(stored: &StoredLayout) -> Vec<u8> {
    let StoredLayout { layout, spelling, description, created_by, created_ms, used } = stored;
    records::LayoutRecord {
        fields: layout.to_string(),
        text: spelling.to_string(),
        description: description.clone(),
        created_by: created_by.clone(),
        created_ms: *created_ms,
        used: *used,
    }
    .encode_to_vec()
}

/// Decodes a record written by [`encode_layout`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_layout(value: &[u8]) -> Result<StoredLayout, Malformed> {
    let record: records::LayoutRecord = decode(value, "the record of a layout")?;
    Ok(StoredLayout {
        layout: record.fields.parse().map_err(|_| malformed("the fields of a layout"))?,
        spelling: record.text.parse().map_err(|_| malformed("the text form of a layout"))?,
        description: record.description,
        created_by: record.created_by,
        created_ms: record.created_ms,
        used: record.used,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_every_preset_survives_encoding_and_decoding() {
        for preset in kent_ids::layout::Preset::all() {
            let stored = StoredLayout {
                layout: preset.layout(None).expect(preset.name),
                spelling: preset.spelling().and_then(|it| it.with_prefix("ord_")).expect(preset.name),
                description: preset.about.to_owned(),
                created_by: "ada".to_owned(),
                created_ms: 1_795_564_800_000,
                used: true,
            };
            assert_eq!(decode_layout(&encode_layout(&stored)), Ok(stored));
        }
        assert_eq!(decode_layout(&[]), Err(malformed("the fields of a layout")));
    }
}
