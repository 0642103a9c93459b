//! The verb `table.run`: runs a script of operations on an empty prefix table and its local tables, and returns the
//! results and the table.
//!
//! A rejected operation does not end the script: its result is `{"error": CODE}`, and the table is unchanged. The rules
//! follow Kent 1992, *Variable-Prefix Identifiers (Adjustable Oid's)*, and are implemented in `kent-regions`.

use kent_ids::ErrorCode;
use kent_regions::{
    Classification, Count, Donate, Edit, Forest, NewRegion, Place, Plan, Prefix, Refusal, Region, Revision, Start,
    Status, Table, TableKey, Zone,
};
use serde_json::{Value, json};

use super::Verb;
use crate::{error::VerbError, input::Input};

pub(super) const VERBS: &[(&str, Verb)] = &[("table.run", table_run)];

/// The default width of identifiers in bits.
const BITS_DEFAULT: u128 = 64;

/// The result of an operation.
type Answer = Result<Value, VerbError>;

/// Runs the script `ops` on an empty table over `n` bits.
fn table_run(input: &Input<'_>) -> Answer {
    let bits = if input.has("n") { input.wide("n", 128)? } else { BITS_DEFAULT };
    // OK because every width above 128 is invalid, so its exact value does not matter.
    let forest = Forest::new(u32::try_from(bits).unwrap_or(u32::MAX));
    let mut forest = forest.map_err(|bad| VerbError::new(ErrorCode::Range.as_str(), bad.to_string()))?;
    let results: Vec<Value> = input.list("ops")?.iter().map(|op| result(&mut forest, op)).collect();
    Ok(json!({"results": results, "table": table_out(forest.table(TableKey::ROOT))}))
}

fn result(forest: &mut Forest, op: &Value) -> Value {
    let op = op.as_object().ok_or_else(|| bad_input("an operation must be an object"));
    match op.and_then(|op| run(forest, &Input::new(op))) {
        Ok(out) => json!({"out": out}),
        Err(refused) => json!({"error": refused.code}),
    }
}

fn run(forest: &mut Forest, op: &Input<'_>) -> Answer {
    let key = if op.has("table") { forest.resolve(op.text("table")?)? } else { TableKey::ROOT };
    match op.text("op")? {
        "delegate" => return delegate(forest, key, op),
        "classify" => return classify(forest, key, op),
        _ => {}
    }
    let table = forest.table_mut(key);
    match op.text("op")? {
        "create" => create(table, op),
        "expand" => edit(table, Edit::Expand { name: name(op)?, by: bits(op, "k")? }, resized),
        "shrink" => edit(table, Edit::Shrink { name: name(op)?, by: bits(op, "k")? }, resized),
        "split" => split(table, op),
        "subdivide" => subdivide(table, op),
        "note" => note(table, op),
        "issue" => issue(table, op),
        "capacity" => capacity(table, op),
        "held" => held(table, op),
        "free" => Ok(json!({"blocks": texts(&table.free_blocks(Prefix::EMPTY))})),
        other => Err(bad_input(format!("{other:?} is not a valid operation"))),
    }
}

fn create(table: &mut Table, op: &Input<'_>) -> Answer {
    let (name, suffix) = (name(op)?, bits(op, "s")?);
    let place = match op.has("prefix") {
        true => Place::At(new_prefix(table, &name, op)?),
        false => Place::Chosen {
            zone: Zone::Exactly(if op.has("z") { bits(op, "z")? } else { 0 }),
            donor: if op.flag("auto_split")? { Donate::Best } else { Donate::Never },
        },
    };
    edit(table, Edit::Create { name, suffix, place, start: Start::default() }, |_, plan, region| {
        let mut out = json!({"prefix": region.prefix.to_string(), "s": region.suffix, "z": region.zone});
        if let Some(block) = plan.block {
            out["block"] = block.to_string().into();
            out["split"] = plan.donor.clone().into();
        }
        out
    })
}

/// Reads the prefix of a new region. The table's rules check the name before the prefix, so an invalid name is reported
/// first, even if the prefix cannot be parsed.
fn new_prefix(table: &Table, name: &str, op: &Input<'_>) -> Result<Prefix, VerbError> {
    let parsed = prefix(op, "prefix");
    if parsed.is_err() {
        let anywhere =
            Edit::Create { name: name.to_owned(), suffix: 0, place: Place::At(Prefix::EMPTY), start: Start::default() };
        let refused = table.plan(&anywhere).err();
        if let Some(refusal) = refused.filter(|refusal| matches!(refusal.code(), "bad-name" | "name-taken")) {
            return Err(refusal.into());
        }
    }
    parsed
}

fn split(table: &mut Table, op: &Input<'_>) -> Answer {
    let split = Edit::Split { name: name(op)?, by: bits(op, "k")?, new_regions: Vec::new() };
    edit(table, split, |_, plan, region| {
        let freed = texts(&plan.freed);
        json!({"prefix": region.prefix.to_string(), "s": region.suffix, "z": region.zone, "freed": freed})
    })
}

fn subdivide(table: &mut Table, op: &Input<'_>) -> Answer {
    let by = bits(op, "k")?;
    let new_regions = op.list("subs")?.iter().map(|sub| new_region(sub, by)).collect::<Result<_, _>>()?;
    let subdivide = Edit::Subdivide { name: name(op)?, by, new_regions, reserve_others: op.flag("abstract")? };
    edit(table, subdivide, |table, _, region| {
        // OK because a `usize` fits in a `u128`.
        let children = Count::from(table.children(region).count() as u128);
        let covered = children == Count::power_of_two(region.sub_bits);
        json!({"kind": region.kind.as_str(), "covered": covered, "s": region.suffix, "z": region.zone})
    })
}

fn new_region(sub: &Value, by: u8) -> Result<NewRegion, VerbError> {
    let sub = &Input::new(sub.as_object().ok_or_else(|| bad_input("a subregion must be an object"))?);
    let suffix = sub.has("s").then(|| bits(sub, "s")).transpose()?;
    // An extension that cannot be parsed becomes one of the wrong length. The rules reject it when they check the
    // length.
    let wrong = Prefix::new(0, if by == Prefix::MAX_LEN { by - 1 } else { Prefix::MAX_LEN });
    let extension = sub.text("ext")?.parse().unwrap_or(wrong);
    Ok(NewRegion { name: name(sub)?, suffix, extension: Some(extension), start: Start::default() })
}

fn note(table: &mut Table, op: &Input<'_>) -> Answer {
    let issued = table.note(&name(op)?, op.wide("suffix", 128)?)?;
    Ok(json!({"issued": issued.to_string()}))
}

fn issue(table: &mut Table, op: &Input<'_>) -> Answer {
    let (name, count) = (name(op)?, if op.has("count") { op.wide("count", 128)? } else { 1 });
    if count == 0 {
        return Err(bad_input("\"count\" must be at least 1"));
    }
    let first = table.issue(&name, count)?;
    // OK because `last` is a suffix of the region, so it is below 2^128.
    let last = first + (count - 1);
    let (first, last) = (table.compose(&name, first)?, table.compose(&name, last)?);
    let issued = table.named(&name)?.issued.to_string();
    Ok(json!({"first": id_out(table, first), "last": id_out(table, last), "issued": issued}))
}

fn capacity(table: &Table, op: &Input<'_>) -> Answer {
    let region = table.named(&name(op)?)?;
    let (current, ultimate) = (region.capacity().to_string(), region.ultimate_capacity().to_string());
    Ok(json!({"current": current, "ultimate": ultimate, "issued": region.issued.to_string()}))
}

fn delegate(forest: &mut Forest, key: TableKey, op: &Input<'_>) -> Answer {
    let name = name(op)?;
    let plan = forest.plan(key, &Edit::Delegate { name: name.clone() })?;
    forest.apply(key, &plan)?;
    Ok(json!({"n": forest.table(key).named(&name)?.suffix}))
}

fn classify(forest: &Forest, key: TableKey, op: &Input<'_>) -> Answer {
    let found = id(op.text("id")?).and_then(|id| forest.classify(key, id));
    let found = found.ok_or_else(|| {
        VerbError::new(
            "bad-id",
            format!("an id must be 0x and a hexadecimal number of at most {} bits", forest.table(key).bits()),
        )
    })?;
    // The answer of each local table is nested in the answer of its parent table.
    let nested = found.iter().rev().fold(None, |local: Option<Value>, found| {
        let mut out = classification_out(found);
        if let Some(local) = local {
            out["local"] = local;
        }
        Some(out)
    });
    Ok(nested.unwrap_or_default())
}

fn classification_out(found: &Classification<'_>) -> Value {
    let mut out = json!({"status": found.status.as_str()});
    if let Some(region) = found.path.last() {
        out["region"] = region.name.as_str().into();
    }
    if let Status::Member { suffix, .. } = found.status {
        out["suffix"] = suffix.to_string().into();
        out["issued"] = found.issued().into();
    }
    out
}

fn held(table: &Table, op: &Input<'_>) -> Answer {
    let holders = table.held(prefix(op, "prefix")?).into_iter().map(
        |(region, from, to)| json!({"region": region.name.as_str(), "from_rev": from.0, "to_rev": to.map(|Revision(to)| to)}),
    );
    Ok(json!({"holders": holders.collect::<Vec<_>>()}))
}

/// Makes an edit, and returns the output for the edited region.
fn edit(table: &mut Table, edit: Edit, out: impl FnOnce(&Table, &Plan, &Region) -> Value) -> Answer {
    let plan = table.plan(&edit)?;
    table.apply(&plan)?;
    Ok(out(table, &plan, table.named(edit.subject())?))
}

fn resized(_: &Table, _: &Plan, region: &Region) -> Value {
    json!({"s": region.suffix, "z": region.zone})
}

fn table_out(table: &Table) -> Value {
    let regions = table.iter().map(|region| {
        json!({
            "name": region.name.as_str(),
            "prefix": region.prefix.to_string(),
            "z": region.zone,
            "s": region.suffix,
            "kind": region.kind.as_str(),
        })
    });
    json!({"regions": regions.collect::<Vec<_>>()})
}

fn id_out(table: &Table, id: u128) -> String {
    format!("0x{id:0width$x}", width = usize::from(table.bits()).div_ceil(4))
}

fn texts(prefixes: &[Prefix]) -> Vec<String> {
    prefixes.iter().map(Prefix::to_string).collect()
}

fn bad_input(message: impl Into<String>) -> VerbError {
    VerbError::new(ErrorCode::BadInput.as_str(), message)
}

impl From<Refusal> for VerbError {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

fn name(op: &Input<'_>) -> Result<String, VerbError> {
    Ok(op.text("name")?.to_owned())
}

/// Reads a number of bits. Numbers above 255 become 255, which is too large for any table anyway.
fn bits(op: &Input<'_>, key: &str) -> Result<u8, VerbError> {
    Ok(u8::try_from(op.wide(key, 128)?).unwrap_or(u8::MAX))
}

/// Reads a prefix or extension: zeros and ones.
fn prefix(op: &Input<'_>, key: &str) -> Result<Prefix, VerbError> {
    op.text(key)?.parse().map_err(|bad| Refusal::BadPrefix(bad).into())
}

/// Reads an identifier: `0x` and hexadecimal digits, of which at most 32 follow the leading zeros.
fn id(text: &str) -> Option<u128> {
    let digits = text.strip_prefix("0x")?;
    let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| u128::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script over 8 bits that first creates region `a` with prefix 1 (s = 4) and region `b` with prefix 01 (s =
    /// 6), and returns the results of `ops`.
    fn results(ops: &[Value]) -> Vec<Value> {
        let mut script = vec![
            json!({"op": "create", "name": "a", "prefix": "1", "s": 4}),
            json!({"op": "create", "name": "b", "prefix": "01", "s": 6}),
        ];
        script.extend_from_slice(ops);
        let out = crate::answer("table.run", &json!({"n": 8, "ops": script})).expect("a script runs");
        out["results"].as_array().expect("a list")[2..].to_vec()
    }

    #[track_caller]
    fn check(op: Value, code: &str) {
        let results = results(std::slice::from_ref(&op));
        assert_eq!(results[0], json!({"error": code}), "{op}");
    }

    #[test]
    fn err_malformed_operations() {
        for op in [
            json!(7),
            json!({}),
            json!({"op": "merge", "name": "a"}),
            json!({"op": "delegate"}),
            json!({"op": "create", "table": 1, "name": "x", "s": 1}),
            json!({"op": "create", "name": "x"}),
            json!({"op": "create", "s": 1}),
            json!({"op": "create", "name": "x", "s": 1.5}),
            json!({"op": "create", "name": "x", "s": 1, "auto_split": 1}),
            json!({"op": "create", "name": "x", "s": 1, "prefix": 0}),
            json!({"op": "expand", "name": "a"}),
            json!({"op": "subdivide", "name": "a", "k": 1}),
            json!({"op": "subdivide", "name": "a", "k": 1, "subs": ["1"]}),
            json!({"op": "subdivide", "name": "a", "k": 1, "subs": [{"name": "x", "s": 1}]}),
            json!({"op": "issue", "name": "a", "count": 0}),
            json!({"op": "note", "name": "a"}),
            json!({"op": "classify"}),
        ] {
            check(op, "bad-input");
        }
    }

    #[test]
    fn err_values_that_no_table_accepts() {
        check(json!({"op": "create", "name": "x", "prefix": "00", "s": 256}), "suffix-range");
        check(json!({"op": "create", "name": "x", "s": u64::MAX, "z": u64::MAX, "auto_split": true}), "no-free-prefix");
        check(json!({"op": "create", "name": "x", "prefix": "0x", "s": 0}), "bad-prefix");
        check(json!({"op": "create", "name": "x", "prefix": "0".repeat(129), "s": 0}), "bad-prefix");
        check(json!({"op": "create", "name": "x/y", "prefix": "00", "s": 0}), "bad-name");
        check(json!({"op": "expand", "name": "a", "k": 1000}), "zone-too-small");
        check(json!({"op": "expand", "name": "a", "k": -1}), "range");
        check(json!({"op": "expand", "name": "a", "k": 0}), "range");
        check(json!({"op": "split", "name": "a", "k": "340282366920938463463374607431768211455"}), "zone-too-small");
        check(json!({"op": "note", "name": "a", "suffix": "16"}), "suffix-range");
        check(
            json!({"op": "issue", "name": "a", "count": "340282366920938463463374607431768211455"}),
            "capacity-exhausted",
        );
        check(json!({"op": "subdivide", "name": "a", "k": 1, "subs": [{"ext": "1", "name": "x"}]}), "suffix-range");
        for id in ["0x100", "ff", "0x", "0x+1", "0xg", "0x100000000000000000000000000000000"] {
            check(json!({"op": "classify", "id": id}), "bad-id");
        }
    }

    #[test]
    fn ok_a_rejected_operation_changes_nothing() {
        let held = json!({"op": "held", "prefix": "1"});
        let results = results(&[json!({"op": "split", "name": "a", "k": 4}), held]);
        assert_eq!(results[1]["out"], json!({"holders": [{"region": "a", "from_rev": 1, "to_rev": null}]}));
    }

    #[test]
    fn ok_the_whole_of_128_bits_can_be_issued() {
        let last = u128::MAX.to_string();
        let script = json!({"n": 128, "ops": [
            {"op": "create", "name": "all", "prefix": "", "s": 128},
            {"op": "issue", "name": "all", "count": last},
            {"op": "issue", "name": "all"},
            {"op": "issue", "name": "all"},
            {"op": "capacity", "name": "all"},
        ]});
        let out = crate::answer("table.run", &script).expect("a script runs");
        let whole = "340282366920938463463374607431768211456";
        assert_eq!(out["results"][2]["out"]["last"], "0xffffffffffffffffffffffffffffffff");
        assert_eq!(out["results"][3]["error"], "capacity-exhausted");
        assert_eq!(out["results"][4]["out"], json!({"current": whole, "ultimate": whole, "issued": whole}));
    }

    #[test]
    fn err_malformed_scripts() {
        let code = |input: Value| crate::answer("table.run", &input).map_err(|error| error.code).err();
        assert_eq!(code(json!({})), Some("bad-input"));
        assert_eq!(code(json!({"ops": {}})), Some("bad-input"));
        assert_eq!(code(json!({"n": "x", "ops": []})), Some("bad-input"));
        for n in [json!(0), json!(129), json!(1u64 << 40)] {
            assert_eq!(code(json!({"n": n, "ops": []})), Some("range"));
        }
    }
}
