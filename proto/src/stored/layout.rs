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

/// One edit of the layouts, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutEdit {
    /// What changed.
    pub change: LayoutChange,
    /// Who made the edit.
    pub principal: String,
    /// The time of the edit in Unix nanoseconds.
    pub unix_nanos: i64,
    /// The revision before the edit. A restore or a migration leaves a gap between revisions.
    pub follows: u64,
}

/// What an edit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutChange {
    /// One layout.
    One {
        /// What happened to the layout.
        operation: LayoutOperation,
        /// The name of the layout.
        name: String,
        /// The layout after the edit, or before it if it was deleted.
        layout: Box<StoredLayout>,
    },
    /// The store was filled from another one.
    All {
        /// `restore` or `migrate`.
        operation: String,
    },
}

/// What can happen to a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutOperation {
    /// It was created.
    Create,
    /// Identifiers may have been issued for the first time.
    Use,
    /// It was deleted.
    Delete,
}

impl LayoutOperation {
    /// The name of the operation.
    pub fn token(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Use => "use",
            Self::Delete => "delete",
        }
    }

    fn by_token(token: &str) -> Option<Self> {
        [Self::Create, Self::Use, Self::Delete].into_iter().find(|operation| operation.token() == token)
    }
}

/// Encodes the record of a layout.
pub fn encode_layout(stored: &StoredLayout) -> Vec<u8> {
    record(stored).encode_to_vec()
}

fn record(stored: &StoredLayout) -> records::LayoutRecord {
    let StoredLayout { layout, spelling, description, created_by, created_ms, used } = stored;
    records::LayoutRecord {
        fields: layout.to_string(),
        text: spelling.to_string(),
        description: description.clone(),
        created_by: created_by.clone(),
        created_ms: *created_ms,
        used: *used,
    }
}

/// Decodes a record written by [`encode_layout`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_layout(value: &[u8]) -> Result<StoredLayout, Malformed> {
    stored(decode(value, "the record of a layout")?)
}

fn stored(record: records::LayoutRecord) -> Result<StoredLayout, Malformed> {
    Ok(StoredLayout {
        layout: record.fields.parse().map_err(|_| malformed("the fields of a layout"))?,
        spelling: record.text.parse().map_err(|_| malformed("the text form of a layout"))?,
        description: record.description,
        created_by: record.created_by,
        created_ms: record.created_ms,
        used: record.used,
    })
}

/// Encodes the record that holds the revision of the layouts.
pub fn encode_layouts(revision: u64) -> Vec<u8> {
    records::LayoutsRecord { revision }.encode_to_vec()
}

/// Decodes a record written by [`encode_layouts`].
///
/// # Errors
///
/// [`Malformed`] if the value is not such a record.
pub fn decode_layouts(value: &[u8]) -> Result<u64, Malformed> {
    let record: records::LayoutsRecord = decode(value, "the revision of the layouts")?;
    Ok(record.revision)
}

/// Encodes the record of an edit.
pub fn encode_layout_edit(edit: &LayoutEdit) -> Vec<u8> {
    let LayoutEdit { change, principal, unix_nanos, follows } = edit;
    let (operation, name, layout) = match change {
        LayoutChange::One { operation, name, layout } => (operation.token(), &**name, Some(record(layout))),
        LayoutChange::All { operation } => (&**operation, "", None),
    };
    records::LayoutEditRecord {
        operation: operation.to_owned(),
        name: name.to_owned(),
        layout,
        principal: principal.clone(),
        unix_nanos: *unix_nanos,
        follows: *follows,
    }
    .encode_to_vec()
}

/// Decodes a record written by [`encode_layout_edit`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_layout_edit(value: &[u8]) -> Result<LayoutEdit, Malformed> {
    let record: records::LayoutEditRecord = decode(value, "the record of an edit of a layout")?;
    let records::LayoutEditRecord { operation, name, layout, principal, unix_nanos, follows } = record;
    let change = match (LayoutOperation::by_token(&operation), layout) {
        (Some(operation), Some(layout)) => LayoutChange::One { operation, name, layout: Box::new(stored(layout)?) },
        (None, None) => LayoutChange::All { operation },
        (Some(_), None) | (None, Some(_)) => return Err(malformed("the operation of an edit of a layout")),
    };
    Ok(LayoutEdit { change, principal, unix_nanos, follows })
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
            assert_eq!(decode_layout(&encode_layout(&stored)), Ok(stored.clone()));
            for operation in [LayoutOperation::Create, LayoutOperation::Use, LayoutOperation::Delete] {
                let change =
                    LayoutChange::One { operation, name: "orders".to_owned(), layout: Box::new(stored.clone()) };
                let edit = LayoutEdit { change, principal: "ada".to_owned(), unix_nanos: 7, follows: 3 };
                assert_eq!(decode_layout_edit(&encode_layout_edit(&edit)), Ok(edit));
            }
        }
        let change = LayoutChange::All { operation: "restore".to_owned() };
        let edit = LayoutEdit { change, principal: "kentd restore".to_owned(), unix_nanos: -1, follows: u64::MAX };
        assert_eq!(decode_layout_edit(&encode_layout_edit(&edit)), Ok(edit));
        assert_eq!(decode_layouts(&encode_layouts(u64::MAX)), Ok(u64::MAX));
        assert_eq!(decode_layout(&[]), Err(malformed("the fields of a layout")));
        let without = records::LayoutEditRecord { operation: "use".to_owned(), ..records::LayoutEditRecord::default() };
        let bad = Err(malformed("the operation of an edit of a layout"));
        assert_eq!(decode_layout_edit(&without.encode_to_vec()), bad);
    }
}
