//! `kent table export` and `import`: the whole table of a space as JSON lines, out and in.
//!
//! An import makes what the table lacks and leaves alone what differs: it never takes anything away. Regions are made where the
//! file has them, outer before inner, by the same edits that a person would make; numbers and histories are new.

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Read, Write};

use kent_proto::v1::{
    AddSubregionsRequest, AutoExpand, CreateRegionRequest, DelegateRegionRequest, Newcomer, Policy, Region,
    SealRegionRequest, UpdateRegionRequest, region::Order,
};
use serde_json::Value;

use crate::args::{ExportArgs, ImportArgs, TableCommand};
use crate::connect::{Daemon, request};
use crate::failure::Failure;
use crate::names;
use crate::output::Out;
use crate::region::{self, PRESENT};

const REASON: &str = "imported";

pub(crate) async fn run(command: &TableCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        TableCommand::Export(args) => export(args, daemon, out).await,
        TableCommand::Import(args) => import(args, daemon, out).await,
    }
}

async fn export(args: &ExportArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    region::pages(&args.space.space, args.at.unwrap_or(PRESENT), daemon, |page| {
        page.iter().try_for_each(|region| out.text(&format!("{}\n", line(region))))
    })
    .await
}

/// What of a region an import can make again.
fn line(region: &Region) -> Value {
    let mut value = region::to_json(region);
    if let Some(object) = value.as_object_mut() {
        for passing in [
            "resource",
            "number",
            "share",
            "rate",
            "full_in_seconds",
            "capacity",
            "ultimate_capacity",
            "issued",
            "delegated_space",
        ] {
            object.remove(passing);
        }
        object.insert("delegated".to_owned(), (!region.delegated_space.is_empty()).into());
    }
    value
}

/// One line of a file.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    name: String,
    value: Value,
}

impl Entry {
    fn text(&self, key: &str) -> &str {
        self.value[key].as_str().unwrap_or_default()
    }

    fn number(&self, key: &str) -> u32 {
        self.value[key].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
    }

    fn flag(&self, key: &str) -> bool {
        self.value[key].as_bool().unwrap_or_default()
    }

    fn parent(&self) -> Option<&str> {
        self.value["parent"].as_str()
    }

    fn reserved(&self) -> u128 {
        self.text("reserved").parse().unwrap_or_default()
    }

    fn order(&self) -> Order {
        match self.text("order") {
            "scrambled" => Order::Scrambled,
            "external" => Order::External,
            _ => Order::Sequential,
        }
    }

    /// What must be the same for two regions to be one.
    fn place(&self) -> Value {
        let keys = ["prefix", "zone_bits", "suffix_bits", "kind", "subregion_bits", "parent", "order", "delegated"];
        keys.iter().map(|key| self.value[key].clone()).collect()
    }
}

async fn import(args: &ImportArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let wanted = read(&args.file)?;
    let space = &args.space.space;
    let present: BTreeMap<String, Entry> = region::all(space, PRESENT, daemon)
        .await?
        .iter()
        .map(|region| entry(line(region)))
        .map(|it| (it.name.clone(), it))
        .collect();
    let mut missing = Vec::new();
    for entry in &wanted {
        match present.get(&entry.name) {
            None => missing.push(entry),
            Some(there) if there.place() != entry.place() => {
                out.text(&format!(
                    "! {} differs, and is left as it is: {} here, {} in the file\n",
                    entry.name,
                    there.place(),
                    entry.place()
                ))?;
            }
            Some(_) => {}
        }
    }
    for entry in &missing {
        let (prefix, suffix) = (entry.text("prefix"), entry.number("suffix_bits"));
        out.text(&format!("+ {} {} s {suffix} {}\n", entry.name, region::prefix_text(prefix), entry.text("kind")))?;
    }
    let same = wanted.len() - missing.len();
    out.text(&format!("{} to make, {same} there already\n", missing.len()))?;
    out.flush()?;
    if missing.is_empty() || args.dry_run || !(args.yes || confirmed()?) {
        return Ok(());
    }
    // The subregions of one region are made together: a full partition closes it.
    let mut left: Vec<&Entry> = missing;
    while let Some(first) = left.first().copied() {
        let batch: Vec<&Entry> = match first.parent() {
            None => vec![first],
            Some(parent) => left.iter().copied().filter(|entry| entry.parent() == Some(parent)).collect(),
        };
        left.retain(|entry| !batch.contains(entry));
        make(space, first, &batch, &wanted, daemon).await?;
        for entry in &batch {
            dress(space, entry, daemon).await?;
        }
        out.text(&format!("made {}\n", batch.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ")))?;
        out.flush()?;
    }
    Ok(())
}

/// Makes one top-level region, or the subregions of one parent.
async fn make(space: &str, first: &Entry, batch: &[&Entry], wanted: &[Entry], daemon: &Daemon) -> Result<(), Failure> {
    let Some(parent) = first.parent() else {
        // A closed region has no suffix of its own any more; its all-zero descendant's was as large as its own.
        let suffix = if first.text("kind") == "closed" { 0 } else { first.number("suffix_bits") };
        let message = CreateRegionRequest {
            parent: names::space(space),
            region_id: first.name.clone(),
            suffix_bits: suffix,
            prefix: Some(first.text("prefix").to_owned()),
            next: Some(first.reserved().into()),
            order: first.order().into(),
            pace: first.value["pace"].as_u64().unwrap_or_default(),
            reason: REASON.to_owned(),
            ..CreateRegionRequest::default()
        };
        daemon.regions().create_region(request(message)).await?;
        return Ok(());
    };
    let level = wanted.iter().find(|entry| entry.name == parent);
    let by_bits = level.map_or(0, |parent| parent.number("subregion_bits"));
    let is_closed = level.is_some_and(|parent| parent.text("kind") == "closed");
    let above = level.map_or(0, |parent| parent.text("prefix").len());
    let newcomer = |entry: &&Entry| Newcomer {
        region_id: entry.name.clone(),
        suffix_bits: Some(if entry.text("kind") == "closed" { 0 } else { entry.number("suffix_bits") }),
        extension: entry.text("prefix").get(above..).map(str::to_owned),
        order: entry.order().into(),
    };
    let message = AddSubregionsRequest {
        name: names::region(space, parent),
        by_bits,
        newcomers: batch.iter().map(newcomer).collect(),
        r#abstract: is_closed,
        reason: REASON.to_owned(),
        ..AddSubregionsRequest::default()
    };
    daemon.regions().add_subregions(request(message)).await?;
    Ok(())
}

/// Gives a region what is kept with it beside its place.
async fn dress(space: &str, entry: &Entry, daemon: &Daemon) -> Result<(), Failure> {
    let name = names::region(space, &entry.name);
    let given = |key: &str| (!entry.text(key).is_empty()).then(|| entry.text(key).to_owned());
    let labels = entry.value["labels"].as_object().into_iter().flatten();
    let is_open = entry.text("kind") != "closed" && !entry.flag("delegated");
    let message = UpdateRegionRequest {
        name: name.clone(),
        owner: given("owner"),
        description: given("description"),
        set_labels: labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect(),
        policy: policy(&entry.value["policy"]),
        // A top-level region was made with it.
        next: (is_open && entry.reserved() > 0 && entry.parent().is_some()).then(|| entry.reserved().into()),
        reason: REASON.to_owned(),
        ..UpdateRegionRequest::default()
    };
    let nothing =
        UpdateRegionRequest { name: name.clone(), reason: REASON.to_owned(), ..UpdateRegionRequest::default() };
    if message != nothing {
        daemon.regions().update_region(request(message)).await?;
    }
    if entry.flag("delegated") {
        let message =
            DelegateRegionRequest { name: name.clone(), reason: REASON.to_owned(), ..DelegateRegionRequest::default() };
        daemon.regions().delegate_region(request(message)).await?;
    }
    if entry.flag("sealed") {
        let message = SealRegionRequest { name, reason: REASON.to_owned(), ..SealRegionRequest::default() };
        daemon.regions().seal_region(request(message)).await?;
    }
    Ok(())
}

fn policy(value: &Value) -> Option<Policy> {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let large = |value: &Value| value.as_str().and_then(|digits| digits.parse().ok()).unwrap_or_default();
    value.as_object()?;
    let auto = &value["auto_expand"];
    Some(Policy {
        auto_expand: auto.as_object().map(|_| AutoExpand {
            at_percent: number(&auto["at_percent"]),
            by_bits: number(&auto["by_bits"]),
            max_suffix_bits: number(&auto["max_suffix_bits"]),
        }),
        cap: value["cap"].as_str().unwrap_or_default().to_owned(),
        min_chunk: large(&value["min_chunk"]),
        max_chunk: large(&value["max_chunk"]),
        strict: value["strict"].as_bool().unwrap_or_default(),
    })
}

fn entry(value: Value) -> Entry {
    Entry { name: value["name"].as_str().unwrap_or_default().to_owned(), value }
}

fn read(file: &str) -> Result<Vec<Entry>, Failure> {
    let text = match file {
        "-" => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        path => std::fs::read_to_string(path),
    };
    let text = text.map_err(Failure::Input)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| match serde_json::from_str::<Value>(line) {
            Ok(value) if value["name"].is_string() && value["prefix"].is_string() => Ok(entry(value)),
            Ok(_) => {
                Err(Failure::Usage(format!("{file}, line {}: not a region that kent table export wrote", index + 1)))
            }
            Err(error) => Err(Failure::Usage(format!("{file}, line {}: {error}", index + 1))),
        })
        .collect()
}

/// Asks on the terminal. Where there is none, the answer is no, and says how to say yes.
fn confirmed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage("nothing was made: say --yes where nobody can be asked".to_owned()));
    }
    eprint!("make them? [y/N] ");
    io::stderr().flush().map_err(Failure::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::Input)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::region::Kind;
    use serde_json::json;

    use super::*;
    use crate::region::samples::region;

    #[test]
    fn ok_a_line_has_what_an_import_needs_and_nothing_that_passes() {
        let line = line(&region("orders", "", "01", 4, Kind::Open));
        assert_eq!(
            (&line["name"], &line["prefix"], &line["suffix_bits"]),
            (&json!("orders"), &json!("01"), &json!(10))
        );
        assert_eq!((&line["number"], &line["rate"], &line["issued"]), (&Value::Null, &Value::Null, &Value::Null));
        assert_eq!(entry(line).reserved(), 512);
    }
}
