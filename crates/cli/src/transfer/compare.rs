//! The comparison of a region of the table with the same region of the file.

use serde::Serialize;

use super::file::Entry;
use crate::names;

/// Returns the differences as text for people. A region that an import created has no differences, even if it
/// has issued identifiers or expanded automatically since the import.
pub(crate) fn differences(here: &Entry, file: &Entry, space: &str) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what, of: &dyn Fn(&Entry) -> String| {
        let (here, file) = (of(here), of(file));
        if here != file {
            differences.push(format!("{what} is {here} in the table, {file} in the file"));
        }
    };
    compare("prefix", &|region| json(&region.prefix));
    compare("parent", &|region| json(&region.parent));
    if !has_grown(here, file) {
        compare("shape", &shape);
    }
    compare("order", &|region| json(&region.order));
    compare("pace", &|region| json(&region.pace));
    compare("delegated", &|region| json(&region.delegated));
    compare("policy", &|region| json(&region.policy));
    compare("sealed", &|region| json(&region.sealed));
    compare("owner", &|region| json(&region.owner));
    compare("description", &|region| json(&region.description));
    compare("labels", &|region| json(&region.labels));
    compare("former_prefixes", &|region| json(&region.former_prefixes));
    let next = |region: &Entry| region.reserved.map_or(0, |reserved| reserved.0);
    if next(here) < next(file) {
        // The import does not raise a counter, because only an operator can know that no number above the new value was
        // issued.
        let (name, here, file, space) = (&here.name, next(here), next(file), names::space_option(space));
        differences.push(format!(
            "its counter is {here} in the table, {file} in the file (raise it with `kent region set {name} --next {file}{space}`)"
        ));
    }
    differences
}

/// Returns whether automatic expansion explains the difference from the file.
fn has_grown(here: &Entry, file: &Entry) -> bool {
    file.policy.as_ref().is_some_and(|policy| policy.expands())
        && (here.kind, here.subregion_bits) == (file.kind, file.subregion_bits)
        && here.suffix_bits > file.suffix_bits
        && here.suffix_bits + here.zone_bits == file.suffix_bits + file.zone_bits
}

/// Returns the kind and the widths of a region as text.
fn shape(region: &Entry) -> String {
    let Entry { zone_bits, suffix_bits, subregion_bits, .. } = region;
    format!("{} (zone {zone_bits}, suffix {suffix_bits}, subregion bits {subregion_bits})", region.kind.name())
}

fn json(value: &impl Serialize) -> String {
    // OK because all maps have strings as keys.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::region::Kind;
    use serde_json::{Value, json};

    use super::*;
    use crate::describe::samples::region;

    fn with(more: Value) -> Entry {
        let open = Entry::of(&region("a", "", "010", 5, Kind::Open)).expect("a region");
        let mut line = serde_json::to_value(open).expect("all maps have strings as keys");
        let expands = json!({"at_percent": 80, "by_bits": 1, "max_suffix_bits": 9});
        line["policy"] = json!({"auto_expand": expands, "cap": "200", "min_chunk": "0", "max_chunk": "0", "strict": false, "stride": null});
        line["reserved"] = json!("77");
        for (key, value) in more.as_object().expect("fields") {
            line[key] = value.clone();
        }
        serde_json::from_value(line).expect("a region")
    }

    #[test]
    fn ok_a_region_may_have_issued_and_expanded_since() {
        for here in [json!({}), json!({"reserved": "78"}), json!({"suffix_bits": 9, "zone_bits": 4})] {
            assert_eq!(differences(&with(here.clone()), &with(json!({})), "default"), [""; 0], "{here}");
        }
    }

    #[test]
    fn err_every_other_difference_is_named() {
        let former = json!([{"prefix": "01", "from_revision": 1, "to_revision": 2, "reserved": "5"}]);
        for (here, expected) in [
            (json!({"prefix": "011"}), "prefix is \"011\" in the table, \"010\" in the file"),
            (json!({"parent": "b"}), "parent is \"b\" in the table, null in the file"),
            (
                json!({"suffix_bits": 7, "zone_bits": 6}),
                "shape is open (zone 6, suffix 7, subregion bits 0) in the table",
            ),
            (json!({"order": "external"}), "order"),
            (json!({"pace": "9"}), "pace is \"9\" in the table"),
            (json!({"delegated": true}), "delegated"),
            (json!({"policy": null}), "policy is null in the table"),
            (json!({"sealed": true}), "sealed is true in the table, false in the file"),
            (json!({"owner": "ops"}), "owner is \"ops\" in the table, \"\" in the file"),
            (json!({"description": "x"}), "description"),
            (json!({"labels": {"x": "1"}}), "labels is {\"x\":\"1\"} in the table, {} in the file"),
            (json!({"former_prefixes": former}), "former_prefixes"),
            (
                json!({"reserved": "76"}),
                "its counter is 76 in the table, 77 in the file (raise it with `kent region set a --next 77 --space s`)",
            ),
        ] {
            let found = differences(&with(here), &with(json!({})), "s");
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}, not {expected}");
        }
    }
}
