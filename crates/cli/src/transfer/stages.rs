//! What an import makes of a region, and what is still to be done about one that is there.
//!
//! A region is made with all that its grants depend on, in one edit, so that none of them is one that the file forbids. What else
//! there is to it comes after: its subregions, its delegation, its texts. So an import that broke off leaves regions as they begin,
//! and the next one goes on with them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::file::{Entry, Kind};

/// What the regions of a file are to be.
pub(crate) struct Wanted<'f> {
    bits: u32,
    /// The all-zero subregions, by their parents.
    heirs: BTreeMap<&'f str, &'f Entry>,
}

/// What is to be done about a region that is there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing.
    Done,
    /// It is as an import leaves it that broke off: these are to be set.
    Behind(Vec<&'static str>),
    /// It is another one: this differs.
    Differs(Vec<String>),
}

impl<'f> Wanted<'f> {
    /// # Errors
    ///
    /// What makes no table.
    pub(crate) fn new(bits: u32, entries: &'f [Entry]) -> Result<Self, String> {
        let regions: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
        let mut heirs = BTreeMap::new();
        for entry in entries {
            let Some(parent) = entry.parent.as_deref().and_then(|parent| regions.get(parent)) else { continue };
            match entry.prefix.strip_prefix(&parent.prefix) {
                None | Some("") => {
                    return Err(format!(
                        "the prefix of region {:?} does not go on from that of {:?}",
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
                return Err(format!("region {name:?} is closed, and its all-zero subregion is not there"));
            };
            if (heir.order, heir.pace) != (closed.order, closed.pace) {
                return Err(format!("region {name:?} has another order or pace than its all-zero subregion"));
            }
        }
        Ok(Self { bits, heirs })
    }

    /// The region that has the identifiers of this one: itself or, of a closed one, its all-zero subregion or that one's.
    fn member(&self, entry: &'f Entry) -> &'f Entry {
        let mut member = entry;
        // OK because `new` has seen that a prefix grows from each parent to its subregion.
        while let (Kind::Closed, Some(heir)) = (member.kind, self.heirs.get(member.name.as_str())) {
            member = heir;
        }
        member
    }

    /// How a region begins. A closed one begins as the subregion that gets its identifiers.
    pub(crate) fn begun(&self, entry: &'f Entry) -> Entry {
        let member = self.member(entry);
        let suffix_bits = member.suffix_bits;
        let is_heir =
            entry.parent.as_deref().and_then(|parent| self.heirs.get(parent)).is_some_and(|heir| *heir == entry);
        let mut policy = member.policy.clone();
        if is_heir || entry.kind != Kind::Open {
            // It must not grow over the prefixes of the subregions to come; an heir goes on as its parent began.
            policy = policy.and_then(|policy| policy.without_expansion());
        }
        Entry {
            kind: Kind::Open,
            subregion_bits: 0,
            zone_bits: entry.free_bits(self.bits).saturating_sub(suffix_bits),
            suffix_bits,
            reserved: member.reserved,
            policy,
            // Nothing may be issued of what is to be delegated.
            sealed: member.sealed || member.delegated,
            delegated: false,
            owner: String::new(),
            description: String::new(),
            labels: BTreeMap::new(),
            former_prefixes: Vec::new(),
            ..entry.clone()
        }
    }

    /// How a region that is there stands to what the file wants of it.
    pub(crate) fn standing(&self, here: &Entry, entry: &'f Entry) -> Standing {
        let begun = self.begun(entry);
        // Of a closed or delegated region a seal says nothing.
        let grants = entry.kind != Kind::Closed && !entry.delegated;
        let (mut behind, mut differs) = (Vec::new(), Vec::new());
        let mut compare = |what, of: &dyn Fn(&Entry) -> String, is_behind: bool| {
            let (here, file) = (of(here), of(entry));
            match here == file {
                true => {}
                false if is_behind => behind.push(what),
                false => differs.push(format!("{what} {here} here, {file} in the file")),
            }
        };
        compare("prefix", &|region| region.prefix.clone(), false);
        compare("parent", &|region| region.parent.clone().unwrap_or_default(), false);
        if !has_grown(here, entry) {
            compare("subregions", &shape, shape(here) == shape(&begun));
        }
        compare("order", &|region| json(&region.order), false);
        compare("pace", &|region| json(&region.pace), false);
        compare("delegated", &|region| json(&region.delegated), entry.delegated);
        compare("policy", &|region| json(&region.policy), here.policy == begun.policy);
        compare("sealed", &|region| json(&region.sealed), !grants && here.sealed == begun.sealed);
        compare("owner", &|region| region.owner.clone(), here.owner.is_empty());
        compare("description", &|region| region.description.clone(), here.description.is_empty());
        let is_part = here.labels.iter().all(|(label, value)| entry.labels.get(label) == Some(value));
        compare("labels", &|region| json(&region.labels), is_part);
        if is_low(here, entry) {
            // Raising it is for those who know that nothing above has been issued: after a restore that is not known.
            let next = |region: &Entry| region.reserved.map_or(0, |reserved| reserved.0);
            let (here, file) = (next(here), next(entry));
            differs.push(format!(
                "its counter stands at {here} here, at {file} in the file (kent region set --next raises it)"
            ));
        }
        match (differs.is_empty(), behind.is_empty()) {
            (true, true) => Standing::Done,
            (true, false) => Standing::Behind(behind),
            (false, _) => Standing::Differs(differs),
        }
    }
}

/// Whether a region's counter stands lower than in the file.
fn is_low(here: &Entry, entry: &Entry) -> bool {
    let next = |region: &Entry| region.reserved.map_or(0, |reserved| reserved.0);
    entry.kind != Kind::Closed && !entry.delegated && next(here) < next(entry)
}

/// Whether it is as the file has it but for having expanded by itself.
fn has_grown(here: &Entry, entry: &Entry) -> bool {
    entry.policy.as_ref().is_some_and(|policy| policy.expands())
        && (here.kind, here.subregion_bits) == (entry.kind, entry.subregion_bits)
        && here.suffix_bits > entry.suffix_bits
        && here.suffix_bits + here.zone_bits == entry.suffix_bits + entry.zone_bits
}

/// The kind of a region and its bits, in words.
fn shape(region: &Entry) -> String {
    let Entry { zone_bits, suffix_bits, subregion_bits, .. } = region;
    format!("{}, zone {zone_bits} suffix {suffix_bits}, {subregion_bits} bits below", region.kind.name())
}

fn json(value: &impl Serialize) -> String {
    // OK because no map has other keys than strings.
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
        let mut line = serde_json::to_value(open).expect("no map has other keys than strings");
        line["parent"] = if parent.is_empty() { Value::Null } else { json!(parent) };
        line["reserved"] = json!("0");
        for (key, value) in more.as_object().expect("fields") {
            line[key] = value.clone();
        }
        serde_json::from_value(line).expect("a region")
    }

    /// 16 bits: `shut` 01 is closed, `a` 010 its heir, `b` 011 the other half.
    fn closed() -> [Entry; 3] {
        let expands = json!({"at_percent": 80, "by_bits": 1, "max_suffix_bits": 9});
        let policy = json!({"auto_expand": expands, "cap": "200", "min_chunk": "0", "max_chunk": "0", "strict": false});
        let shut = json!({"kind": "closed", "zone_bits": 0, "suffix_bits": 0, "subregion_bits": 1});
        let a = json!({"reserved": "77", "sealed": true, "policy": policy, "labels": {"x": "1", "y": "2"}});
        [entry("shut", "", "01", 0, shut), entry("a", "shut", "010", 8, a), entry("b", "shut", "011", 4, json!({}))]
    }

    #[test]
    fn ok_a_region_begins_with_what_its_grants_depend_on_and_a_closed_one_as_its_heir() {
        let entries = closed();
        let wanted = Wanted::new(16, &entries).expect("a table");
        for (entry, zone) in [(&entries[0], 6), (&entries[1], 5)] {
            let begun = wanted.begun(entry);
            assert_eq!((begun.kind, begun.zone_bits, begun.suffix_bits, begun.sealed), (Kind::Open, zone, 8, true));
            assert_eq!((begun.reserved, begun.labels.len()), (entries[1].reserved, 0));
            let policy = begun.policy.expect("a cap");
            assert!(!policy.expands(), "it must not grow over the subregions to come");
        }
        assert_eq!(wanted.begun(&entries[2]), Entry { former_prefixes: Vec::new(), ..entries[2].clone() });
    }

    #[test]
    fn ok_what_an_import_left_is_gone_on_with_and_what_differs_is_told() {
        let entries = closed();
        let wanted = Wanted::new(16, &entries).expect("a table");
        let [shut, a, _] = &entries;
        let begun = wanted.begun(a);
        let low = Entry { reserved: Some(crate::transfer::file::Decimal(76)), ..begun.clone() };
        let grown = Entry { suffix_bits: 9, zone_bits: a.zone_bits - 1, ..a.clone() };
        let labelled = |value: &str| Entry { labels: [("x".into(), value.into())].into(), ..a.clone() };
        for (here, entry, expected) in [
            (a.clone(), a, Ok(&[][..])),
            (grown, a, Ok(&[])),
            (Entry { former_prefixes: Vec::new(), ..begun.clone() }, a, Ok(&["policy", "labels"])),
            (labelled("1"), a, Ok(&["labels"])),
            (labelled("2"), a, Err("labels")),
            (low, a, Err("its counter stands at 76 here, at 77 in the file")),
            (Entry { sealed: false, ..a.clone() }, a, Err("sealed false here, true in the file")),
            (Entry { suffix_bits: 7, zone_bits: 6, ..a.clone() }, a, Err("subregions")),
            (wanted.begun(shut), shut, Ok(&["subregions", "policy", "sealed"])),
            (Entry { owner: "ops".into(), ..shut.clone() }, shut, Err("owner ops here,  in the file")),
        ] {
            match (wanted.standing(&here, entry), expected) {
                (Standing::Done, Ok([])) => {}
                (Standing::Behind(what), Ok(expected)) => assert_eq!(what, expected, "{here:?}"),
                (Standing::Differs(what), Err(expected)) => {
                    assert!(what.len() == 1 && what[0].starts_with(expected), "{what:?}");
                }
                (other, expected) => panic!("{here:?}: {other:?} and not {expected:?}"),
            }
        }
    }

    #[test]
    fn err_what_makes_no_table() {
        let [shut, a, b] = closed();
        let refused = |entries: &[Entry]| Wanted::new(16, entries).err().expect("refused");
        assert!(refused(&[shut.clone(), b]).contains("its all-zero subregion is not there"));
        let elsewhere = Entry { prefix: "110".to_owned(), ..a.clone() };
        assert!(refused(&[shut.clone(), elsewhere]).contains("does not go on from that of \"shut\""));
        let faster = Entry { pace: crate::transfer::file::Decimal(9), ..a };
        assert!(refused(&[shut, faster]).contains("another order or pace"));
    }
}
