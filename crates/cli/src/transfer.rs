//! `kent table export` and `import`: the whole table of a space as JSON lines, out and in.
//!
//! An import makes what the table lacks and leaves alone what differs: it never takes anything away. Regions are made where the
//! file has them, outer before inner, by the same edits that a person would make; numbers and histories are new.

mod file;

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Read, Write};

use kent_client::Daemon;
use kent_proto::v1::{
    AddSubregionsRequest, CreateRegionRequest, DelegateRegionRequest, GetSpaceRequest, Newcomer, SealRegionRequest,
    UpdateRegionRequest, region,
};

use crate::args::{ExportArgs, ImportArgs, TableCommand};
use crate::connect::request;
use crate::describe::prefix_text;
use crate::failure::Failure;
use crate::names;
use crate::output::Out;
use crate::region::{PRESENT, all, pages};

use file::{Decimal, Entry, File, Header, Kind};

const REASON: &str = "imported";

pub(crate) async fn run(command: &TableCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        TableCommand::Export(args) => export(args, daemon, out).await,
        TableCommand::Import(args) => import(args, daemon, out).await,
    }
}

async fn export(args: &ExportArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let name = &args.space.space;
    let space = daemon.regions().get_space(request(GetSpaceRequest { name: names::space(name) })).await?.into_inner();
    let header = Header::new(name, space.bits, args.at.unwrap_or(space.revision));
    out.json(&header)?;
    let write =
        |page: Vec<_>| page.iter().try_for_each(|region| out.json(&Entry::of(region).map_err(Failure::Answer)?));
    pages(name, args.at.unwrap_or(PRESENT), daemon, write).await
}

async fn import(args: &ImportArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let refused = |problem: String| Failure::Usage(format!("{}: {problem}", args.file));
    let File { header, regions: mut wanted } =
        File::parse(&text(&args.file)?).map_err(|bad| refused(bad.to_string()))?;
    let name = &args.space.space;
    let space = daemon.regions().get_space(request(GetSpaceRequest { name: names::space(name) })).await?.into_inner();
    if space.bits != header.bits {
        let problem = format!(
            "the table is of a space of {} bits ({}), and {name} has {}: the same prefix makes other identifiers there",
            header.bits, header.space, space.bits
        );
        return Err(refused(problem));
    }
    if let Some(unknown) = wanted.iter().find(|entry| entry.issues() && entry.reserved.is_none() && !args.unissued) {
        let problem = format!(
            "it is of an earlier revision, and does not say what region {:?} has issued; say --unissued if no region has \
             issued anything",
            unknown.name
        );
        return Err(refused(problem));
    }
    for entry in &mut wanted {
        entry.reserved.get_or_insert(Decimal(0));
    }
    let present = all(name, PRESENT, daemon).await?;
    let present = present.iter().map(Entry::of).collect::<Result<Vec<_>, _>>().map_err(Failure::Answer)?;
    let present: BTreeMap<&str, &Entry> = present.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let mut missing = Vec::new();
    for entry in &wanted {
        match present.get(entry.name.as_str()) {
            None => missing.push(entry),
            Some(there) if there.place() != entry.place() => {
                let place = |entry: &Entry| {
                    format!("{} z {} s {}", prefix_text(&entry.prefix), entry.zone_bits, entry.suffix_bits)
                };
                let (there, file) = (place(there), place(entry));
                out.text(&format!(
                    "! {} differs, and is left as it is: {there} here, {file} in the file\n",
                    entry.name
                ))?;
            }
            Some(_) => {}
        }
    }
    // Where the parents of what is missing stand, by name.
    let levels: BTreeMap<&str, &Entry> = present
        .iter()
        .map(|(name, entry)| (*name, *entry))
        .chain(wanted.iter().map(|entry| (entry.name.as_str(), entry)))
        .collect();
    if let Some((orphan, parent)) = missing.iter().find_map(|entry| {
        let parent = entry.parent.as_deref().filter(|parent| !levels.contains_key(parent))?;
        Some((&entry.name, parent))
    }) {
        return Err(refused(format!(
            "region {orphan:?} is inside {parent:?}, which neither the file nor the table has"
        )));
    }
    for entry in &missing {
        let (prefix, suffix) = (prefix_text(&entry.prefix), entry.suffix_bits);
        out.text(&format!("+ {} {prefix} s {suffix} {}\n", entry.name, entry.kind.name()))?;
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
        let batch: Vec<&Entry> = match &first.parent {
            None => vec![first],
            parent => left.iter().copied().filter(|entry| entry.parent == *parent).collect(),
        };
        left.retain(|entry| !batch.contains(entry));
        match first.parent.as_deref().and_then(|parent| levels.get(parent)) {
            None => make_region(name, first, daemon).await?,
            Some(parent) => make_subregions(name, parent, &batch, daemon).await?,
        }
        for entry in &batch {
            dress(name, entry, daemon).await?;
        }
        out.text(&format!("made {}\n", batch.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ")))?;
        out.flush()?;
    }
    Ok(())
}

/// Where the counter of a region that is made goes on.
fn next(entry: &Entry) -> u128 {
    entry.reserved.map_or(0, |reserved| reserved.0)
}

async fn make_region(space: &str, entry: &Entry, daemon: &Daemon) -> Result<(), Failure> {
    let message = CreateRegionRequest {
        parent: names::space(space),
        region_id: entry.name.clone(),
        // A closed region has no suffix of its own any more; its all-zero descendant's was as large as its own.
        suffix_bits: if entry.kind == Kind::Closed { 0 } else { entry.suffix_bits },
        prefix: Some(entry.prefix.clone()),
        next: Some(next(entry).into()),
        order: region::Order::from(entry.order).into(),
        pace: entry.pace.0,
        reason: REASON.to_owned(),
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(request(message)).await?;
    Ok(())
}

async fn make_subregions(space: &str, parent: &Entry, batch: &[&Entry], daemon: &Daemon) -> Result<(), Failure> {
    let newcomer = |entry: &&Entry| Newcomer {
        region_id: entry.name.clone(),
        suffix_bits: Some(if entry.kind == Kind::Closed { 0 } else { entry.suffix_bits }),
        extension: entry.prefix.get(parent.prefix.len()..).map(str::to_owned),
        order: region::Order::from(entry.order).into(),
    };
    let message = AddSubregionsRequest {
        name: names::region(space, &parent.name),
        by_bits: parent.subregion_bits,
        newcomers: batch.iter().map(newcomer).collect(),
        r#abstract: parent.kind == Kind::Closed,
        reason: REASON.to_owned(),
        ..AddSubregionsRequest::default()
    };
    daemon.regions().add_subregions(request(message)).await?;
    Ok(())
}

/// Gives a region what is kept with it beside its place.
async fn dress(space: &str, entry: &Entry, daemon: &Daemon) -> Result<(), Failure> {
    let name = names::region(space, &entry.name);
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    let nothing =
        UpdateRegionRequest { name: name.clone(), reason: REASON.to_owned(), ..UpdateRegionRequest::default() };
    let message = UpdateRegionRequest {
        owner: given(&entry.owner),
        description: given(&entry.description),
        set_labels: entry.labels.clone().into_iter().collect(),
        policy: entry.policy.as_ref().map(Into::into),
        // A top-level region was made with it.
        next: (entry.issues() && next(entry) > 0 && entry.parent.is_some()).then(|| next(entry).into()),
        ..nothing.clone()
    };
    if message != nothing {
        daemon.regions().update_region(request(message)).await?;
    }
    if entry.delegated {
        let message =
            DelegateRegionRequest { name: name.clone(), reason: REASON.to_owned(), ..DelegateRegionRequest::default() };
        daemon.regions().delegate_region(request(message)).await?;
    }
    if entry.sealed {
        let message = SealRegionRequest { name, reason: REASON.to_owned(), ..SealRegionRequest::default() };
        daemon.regions().seal_region(request(message)).await?;
    }
    Ok(())
}

fn text(file: &str) -> Result<String, Failure> {
    match file {
        "-" => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text).map_err(Failure::Input)
        }
        path => std::fs::read_to_string(path).map_err(|error| Failure::Usage(format!("{path}: {error}"))),
    }
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
