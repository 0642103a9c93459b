//! The table of verbs. Each family of verbs is a submodule with an entry in [`FAMILIES`].

mod ext;
mod permutation;
mod position;
mod table_run;
mod uid11;
mod uuid;

use kent_ids::{Field, FieldValue, Id};
use serde_json::{Map, Value, json};

use crate::{error::VerbError, input::Input};

/// A function that answers one verb.
pub(crate) type Verb = fn(&Input<'_>) -> Result<Value, VerbError>;

/// The verbs of one submodule, by name.
type Family = &'static [(&'static str, Verb)];

const FAMILIES: &[Family] =
    &[uuid::VERBS, uid11::VERBS, permutation::VERBS, position::VERBS, table_run::VERBS, ext::VERBS];

/// Returns the verb with this name.
pub(crate) fn by_name(name: &str) -> Option<Verb> {
    all().find(|(known, _)| *known == name).map(|(_, verb)| *verb)
}

/// Returns the names of all verbs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| *name)
}

fn all() -> impl Iterator<Item = &'static (&'static str, Verb)> {
    FAMILIES.iter().copied().flatten()
}

/// Returns an identifier as JSON, in the form used in answers.
fn id_out(id: Id) -> Value {
    let hex = format!("{:0width$x}", id.to_u128(), width = 2 * id.width_bytes());
    match id {
        Id::Uuid(uuid) => json!({"uuid": uuid.to_string(), "hex": hex}),
        Id::Uid11(uid11) => json!({"value": uid11.get().to_string(), "hex": hex, "text": uid11.to_string()}),
        Id::Number { value, .. } => json!({"value": value.to_string(), "hex": hex}),
    }
}

/// Returns the fields of an identifier as JSON, in the form used in answers.
fn fields_out(fields: Vec<Field>) -> Value {
    let fields = fields.into_iter().map(|field| (field.name.to_owned(), value_out(field.value)));
    Value::Object(Map::from_iter(fields))
}

fn value_out(value: FieldValue) -> Value {
    match value {
        FieldValue::Small(value) => value.into(),
        FieldValue::Large(value) => value.to_string().into(),
        FieldValue::Flag(value) => value.into(),
        FieldValue::Text(value) => value.into(),
        FieldValue::Time(value) => value.into(),
        FieldValue::Group(fields) => fields_out(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_verb_names_are_unique() {
        for name in names() {
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
