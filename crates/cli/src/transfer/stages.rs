//! The stages of an import: the initial state of each region, and the comparison of an existing region with the file.
//!
//! The first edit creates a region with everything that its grants depend on, so that it never makes a grant that the file forbids.
//! Later edits add subregions, delegation, owner, description and labels. An interrupted import leaves regions in their initial
//! state, and the next import recognizes and finishes them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::file::{Entry, Kind};

/// The state of the table that the file describes.
pub(crate) struct Target<'f> {
    bits: u32,
    /// The all-zero subregions by the names of their parents.
    heirs: BTreeMap<&'f str, &'f Entry>,
}

/// The result of comparing an existing region with the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It equals the file.
    Done,
    /// An interrupted import created it: these attributes remain to be set.
    Unfinished(Vec<&'static str>),
    /// It conflicts with the file: these are the differences.
    Differs(Vec<String>),
}

impl<'f> Target<'f> {
    /// # Errors
    ///
    /// A message that names the inconsistency between regions.
    pub(crate) fn new(bits: u32, entries: &'f [Entry]) -> Result<Self, String> {
        let regions: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
        let mut heirs = BTreeMap::new();
        for entry in entries {
            let Some(parent) = entry.parent.as_deref().and_then(|parent| regions.get(parent)) else { continue };
            match entry.prefix.strip_prefix(&parent.prefix) {
                None | Some("") => {
                    return Err(format!(
                        "the prefix of region {:?} does not extend the prefix of its parent {:?}",
                        entry.name, parent.name
                    ));
                }
                Some(extension) if extension.bytes().all(|bit| bit == b'0') => {
                    heirs.insert(parent.name.as_str(), entry);
                }
                Some(_) => {}
            }
        }
        for closed in entries.iter().filter(|entry| entry.kind == Kind::Closed) {
            let name = &closed.name;
            let Some(heir) = heirs.get(name.as_str()) else {
                return Err(format!("region {name:?} is closed, but its all-zero subregion is missing"));
            };
            if (heir.order, heir.pace) != (closed.order, closed.pace) {
                return Err(format!("region {name:?} and its all-zero subregion differ in order or pace"));
            }
        }
        Ok(Self { bits, heirs })
    }

    /// The region that issues the identifiers of this region: itself, or for a closed region its innermost all-zero descendant.
    fn issuer(&self, entry: &'f Entry) -> &'f Entry {
        let mut issuer = entry;
        // Ends, because `new` has checked that each subregion's prefix is longer than its parent's.
        while let (Kind::Closed, Some(heir)) = (issuer.kind, self.heirs.get(issuer.name.as_str())) {
            issuer = heir;
        }
        issuer
    }

    /// The state in which the import creates a region. A closed region starts with the attributes of its issuer.
    pub(crate) fn initial(&self, entry: &'f Entry) -> Entry {
        let issuer = self.issuer(entry);
        let suffix_bits = issuer.suffix_bits;
        let is_heir =
            entry.parent.as_deref().and_then(|parent| self.heirs.get(parent)).is_some_and(|heir| *heir == entry);
        let mut policy = issuer.policy.clone();
        if is_heir || entry.kind != Kind::Open {
            // It must not expand over the prefixes of later subregions. An heir continues with the policy of its parent.
            policy = policy.and_then(|policy| policy.without_expansion());
        }
        Entry {
            kind: Kind::Open,
            subregion_bits: 0,
            zone_bits: entry.free_bits(self.bits).saturating_sub(suffix_bits),
            suffix_bits,
            reserved: issuer.reserved,
            policy,
            // A region that will be delegated must issue nothing.
            sealed: issuer.sealed || issuer.delegated,
            delegated: false,
            owner: String::new(),
            description: String::new(),
            labels: BTreeMap::new(),
            former_prefixes: Vec::new(),
            ..entry.clone()
        }
    }

    /// Compares an existing region with the file.
    pub(crate) fn progress(&self, here: &Entry, entry: &'f Entry) -> Progress {
        let initial = self.initial(entry);
        // The seal of a closed or delegated region has no effect.
        let grants = entry.kind != Kind::Closed && !entry.delegated;
        let (mut unfinished, mut differs) = (Vec::new(), Vec::new());
        let mut compare = |what, of: &dyn Fn(&Entry) -> String, is_unfinished: bool| {
            let (here, file) = (of(here), of(entry));
            match here == file {
                true => {}
                false if is_unfinished => unfinished.push(what),
                false => differs.push(format!("{what} is {here} in the table, {file} in the file")),
            }
        };
        compare("prefix", &|region| region.prefix.clone(), false);
        compare("parent", &|region| region.parent.clone().unwrap_or_default(), false);
        if !has_grown(here, entry) {
            compare("subregions", &shape, shape(here) == shape(&initial));
        }
        compare("order", &|region| json(&region.order), false);
        compare("pace", &|region| json(&region.pace), false);
        compare("delegated", &|region| json(&region.delegated), entry.delegated);
        compare("policy", &|region| json(&region.policy), here.policy == initial.policy);
        compare("sealed", &|region| json(&region.sealed), !grants && here.sealed == initial.sealed);
        compare("owner", &|region| region.owner.clone(), here.owner.is_empty());
        compare("description", &|region| region.description.clone(), here.description.is_empty());
        let is_part = here.labels.iter().all(|(label, value)| entry.labels.get(label) == Some(value));
        compare("labels", &|region| json(&region.labels), is_part);
        if is_low(here, entry) {
            // Only an operator may raise the counter, knowing that nothing above it was issued. After a restore that is unknown.
            let next = |region: &Entry| region.reserved.map_or(0, |reserved| reserved.0);
            let (here, file) = (next(here), next(entry));
            differs.push(format!(
                "its counter is {here} in the table, {file} in the file (raise it with `kent region set {} --next {file} --space SPACE`)",
                entry.name
            ));
        }
        match (differs.is_empty(), unfinished.is_empty()) {
            (true, true) => Progress::Done,
            (true, false) => Progress::Unfinished(unfinished),
            (false, _) => Progress::Differs(differs),
        }
    }
}

/// Whether a region's counter is below the counter in the file.
fn is_low(here: &Entry, entry: &Entry) -> bool {
    let next = |region: &Entry| region.reserved.map_or(0, |reserved| reserved.0);
    entry.kind != Kind::Closed && !entry.delegated && next(here) < next(entry)
}

/// Whether automatic expansion explains the difference from the file.
fn has_grown(here: &Entry, entry: &Entry) -> bool {
    entry.policy.as_ref().is_some_and(|policy| policy.expands())
        && (here.kind, here.subregion_bits) == (entry.kind, entry.subregion_bits)
        && here.suffix_bits > entry.suffix_bits
        && here.suffix_bits + here.zone_bits == entry.suffix_bits + entry.zone_bits
}

/// The kind and the widths of a region as text.
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
    use kent_proto::v1::region::Kind as RegionKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::describe::samples::region;

    fn entry(name: &str, parent: &str, prefix: &str, suffix: u32, more: Value) -> Entry {
        let zone = 16 - suffix - u32::try_from(prefix.len()).expect("short");
        let open = Entry::of(&region(name, "", prefix, zone, RegionKind::Open)).expect("a region");
        let mut line = serde_json::to_value(open).expect("all maps have strings as keys");
        line["parent"] = if parent.is_empty() { Value::Null } else { json!(parent) };
        line["reserved"] = json!("0");
        for (key, value) in more.as_object().expect("fields") {
            line[key] = value.clone();
        }
        serde_json::from_value(line).expect("a region")
    }

    /// A space of 16 bits: `shut` 01 is closed, `a` 010 is its heir, and `b` 011 is the other half.
    fn closed() -> [Entry; 3] {
        let expands = json!({"at_percent": 80, "by_bits": 1, "max_suffix_bits": 9});
        let policy = json!({"auto_expand": expands, "cap": "200", "min_chunk": "0", "max_chunk": "0", "strict": false});
        let shut = json!({"kind": "closed", "zone_bits": 0, "suffix_bits": 0, "subregion_bits": 1});
        let a = json!({"reserved": "77", "sealed": true, "policy": policy, "labels": {"x": "1", "y": "2"}});
        [entry("shut", "", "01", 0, shut), entry("a", "shut", "010", 8, a), entry("b", "shut", "011", 4, json!({}))]
    }

    #[test]
    fn ok_a_region_starts_with_what_its_grants_depend_on_and_a_closed_region_as_its_heir() {
        let entries = closed();
        let target = Target::new(16, &entries).expect("a table");
        for (entry, zone) in [(&entries[0], 6), (&entries[1], 5)] {
            let initial = target.initial(entry);
            let Entry { kind, zone_bits, suffix_bits, sealed, .. } = initial;
            assert_eq!((kind, zone_bits, suffix_bits, sealed), (Kind::Open, zone, 8, true));
            assert_eq!((initial.reserved, initial.labels.len()), (entries[1].reserved, 0));
            let policy = initial.policy.expect("a cap");
            assert!(!policy.expands(), "it must not expand over later subregions");
        }
        assert_eq!(target.initial(&entries[2]), Entry { former_prefixes: Vec::new(), ..entries[2].clone() });
    }

    #[test]
    fn ok_an_interrupted_import_continues_and_differences_are_reported() {
        let entries = closed();
        let target = Target::new(16, &entries).expect("a table");
        let [shut, a, _] = &entries;
        let initial = target.initial(a);
        let low = Entry { reserved: Some(crate::transfer::file::Decimal(76)), ..initial.clone() };
        let grown = Entry { suffix_bits: 9, zone_bits: a.zone_bits - 1, ..a.clone() };
        let labelled = |value: &str| Entry { labels: [("x".into(), value.into())].into(), ..a.clone() };
        for (here, entry, expected) in [
            (a.clone(), a, Ok(&[][..])),
            (grown, a, Ok(&[])),
            (Entry { former_prefixes: Vec::new(), ..initial.clone() }, a, Ok(&["policy", "labels"])),
            (labelled("1"), a, Ok(&["labels"])),
            (labelled("2"), a, Err("labels")),
            (low, a, Err("its counter is 76 in the table, 77 in the file")),
            (Entry { sealed: false, ..a.clone() }, a, Err("sealed is false in the table, true in the file")),
            (Entry { suffix_bits: 7, zone_bits: 6, ..a.clone() }, a, Err("subregions")),
            (target.initial(shut), shut, Ok(&["subregions", "policy", "sealed"])),
            (Entry { owner: "ops".into(), ..shut.clone() }, shut, Err("owner is ops in the table,  in the file")),
        ] {
            match (target.progress(&here, entry), expected) {
                (Progress::Done, Ok([])) => {}
                (Progress::Unfinished(what), Ok(expected)) => assert_eq!(what, expected, "{here:?}"),
                (Progress::Differs(what), Err(expected)) => {
                    assert!(what.len() == 1 && what[0].starts_with(expected), "{what:?}");
                }
                (other, expected) => panic!("{here:?}: {other:?} and not {expected:?}"),
            }
        }
    }

    #[test]
    fn err_inconsistent_regions() {
        let [shut, a, b] = closed();
        let error = |entries: &[Entry]| Target::new(16, entries).err().expect("an error");
        assert!(error(&[shut.clone(), b]).contains("its all-zero subregion is missing"));
        let elsewhere = Entry { prefix: "110".to_owned(), ..a.clone() };
        assert!(error(&[shut.clone(), elsewhere]).contains("does not extend the prefix of its parent \"shut\""));
        let faster = Entry { pace: crate::transfer::file::Decimal(9), ..a };
        assert!(error(&[shut, faster]).contains("differ in order or pace"));
    }
}
