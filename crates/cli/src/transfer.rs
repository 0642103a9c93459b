//! `kent table export` and `import`: write and read the whole table of a space as JSON lines.
//!
//! An import creates the regions that the table lacks. It removes nothing, and changes nothing if any existing region differs from
//! the file. It creates regions with their prefixes from the file, outer regions first, by the same edits as an operator; they get
//! new numbers and histories. An interrupted import is finished by importing the file again.

mod file;
mod stages;

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Read, Write};

use kent_client::Daemon;
use kent_proto::v1::{
    AddSubregionsRequest, CreateRegionRequest, DelegateRegionRequest, FieldMask, GetSpaceRequest, NewRegion,
    SealRegionRequest, UpdateRegionRequest, region,
};

use crate::args::{ExportArgs, ImportArgs, TableCommand};
use crate::connect::request;
use crate::failure::Failure;
use crate::names;
use crate::output::Out;
use crate::pages::{PRESENT, all, pages};

use file::{Decimal, Entry, File, Header, Kind};
use stages::{Progress, Target};

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
    let File { header, regions: mut entries } =
        File::parse(&text(&args.file)?).map_err(|bad| refused(bad.to_string()))?;
    let name = &args.space.space;
    let space = daemon.regions().get_space(request(GetSpaceRequest { name: names::space(name) })).await?.into_inner();
    if space.bits != header.bits {
        let problem = format!(
            "the table is of a space of {} bits ({}), but {name} has {}: the same prefix would yield other identifiers",
            header.bits, header.space, space.bits
        );
        return Err(refused(problem));
    }
    if let Some(unknown) = entries.iter().find(|entry| entry.issues() && entry.reserved.is_none() && !args.unissued) {
        let problem = format!(
            "the file is of an earlier revision and lacks the counter of region {:?}; add --unissued if no region has \
    issued anything",
            unknown.name
        );
        return Err(refused(problem));
    }
    for entry in &mut entries {
        entry.reserved.get_or_insert(Decimal(0));
    }
    let target = Target::new(header.bits, &entries).map_err(refused)?;
    // The first round creates missing regions, the second sets the rest, and the last verifies the result.
    for round in 0..ROUNDS {
        let present = all(name, PRESENT, daemon).await?;
        let present = present.iter().map(Entry::of).collect::<Result<Vec<_>, _>>().map_err(Failure::Answer)?;
        let work = Work::new(&target, &entries, &present).map_err(refused)?;
        if round == 0 {
            work.show(entries.len(), out)?;
        }
        if !work.differing.is_empty() {
            let problem = match round {
                0 => "existing regions differ from the file, as listed above; nothing was changed",
                _ => "another caller edited the table during the import; see `kent region history`, then import again",
            };
            return Err(refused(problem.to_owned()));
        }
        if work.is_done() || args.dry_run || (round == 0 && !args.yes && !confirmed()?) {
            return Ok(());
        }
        work.execute(name, daemon, out).await?;
    }
    Err(refused("the import is incomplete; import the file again to see what is missing".to_owned()))
}

/// The number of times an import reads the table before it fails.
const ROUNDS: u32 = 4;

/// The remaining work of an import.
struct Work<'f> {
    target: &'f Target<'f>,
    /// Regions to create, with their parents.
    missing: Vec<(&'f Entry, Option<&'f Entry>)>,
    /// The region in the table, the region in the file, and the attributes to set.
    unfinished: Vec<(&'f Entry, &'f Entry, Vec<&'static str>)>,
    differing: Vec<(&'f Entry, Vec<String>)>,
}

impl<'f> Work<'f> {
    fn new(target: &'f Target<'f>, entries: &'f [Entry], present: &'f [Entry]) -> Result<Self, String> {
        let by_name = |entries: &'f [Entry]| entries.iter().map(|entry| (entry.name.as_str(), entry));
        let here: BTreeMap<&str, &Entry> = by_name(present).collect();
        let levels: BTreeMap<&str, &Entry> = by_name(present).chain(by_name(entries)).collect();
        let mut work = Self { target, missing: Vec::new(), unfinished: Vec::new(), differing: Vec::new() };
        for entry in entries {
            match here.get(entry.name.as_str()) {
                Some(here) => match target.progress(here, entry) {
                    Progress::Done => {}
                    Progress::Unfinished(what) => work.unfinished.push((here, entry, what)),
                    Progress::Differs(what) => work.differing.push((entry, what)),
                },
                None => {
                    let parent = entry.parent.as_deref().map(|parent| {
                        levels.get(parent).copied().ok_or_else(|| {
                            let name = &entry.name;
                            format!("the parent {parent:?} of region {name:?} is neither in the file nor in the table")
                        })
                    });
                    work.missing.push((entry, parent.transpose()?));
                }
            }
        }
        Ok(work)
    }

    fn is_done(&self) -> bool {
        self.missing.is_empty() && self.unfinished.is_empty()
    }

    fn show(&self, count: usize, out: &mut Out) -> Result<(), Failure> {
        for (entry, what) in &self.differing {
            out.text(&format!("! {} differs: {}\n", entry.name, what.join("; ")))?;
        }
        for (_, entry, what) in &self.unfinished {
            out.text(&format!("~ {} lacks {}\n", entry.name, what.join(", ")))?;
        }
        for (entry, _) in &self.missing {
            let (prefix, suffix) = (out.palette().prefixes.text(&entry.prefix), entry.suffix_bits);
            out.text(&format!("+ {} {prefix} s {suffix} {}\n", entry.name, entry.kind.name()))?;
        }
        let (missing, unfinished, differing) = (self.missing.len(), self.unfinished.len(), self.differing.len());
        out.text(&format!("{missing} to create, "))?;
        for (number, what) in [(unfinished, "to finish"), (differing, "different")] {
            if number > 0 {
                out.text(&format!("{number} {what}, "))?;
            }
        }
        out.text(&format!("{} already present\n", count - missing - unfinished - differing))?;
        out.flush()
    }

    /// Creates the missing regions or, if none is missing, sets the missing attributes.
    async fn execute(&self, space: &str, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
        let mut left = self.missing.clone();
        while let Some((first, parent)) = left.first().copied() {
            let mut batch = vec![first];
            if let Some(parent) = parent {
                batch =
                    left.iter().filter(|(entry, _)| entry.parent == first.parent).map(|(entry, _)| *entry).collect();
                batch.truncate(BATCH);
                self.create_subregions(space, parent, &batch, daemon).await?;
            } else {
                self.create_region(space, first, daemon).await?;
            }
            left.retain(|(entry, _)| !batch.contains(entry));
            let names = batch.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>();
            out.text(&format!("created {}\n", names.join(", ")))?;
            out.flush()?;
        }
        if self.missing.is_empty() {
            for (here, entry, _) in &self.unfinished {
                finish(space, here, entry, daemon).await?;
            }
        }
        Ok(())
    }

    async fn create_region(&self, space: &str, entry: &'f Entry, daemon: &Daemon) -> Result<(), Failure> {
        let initial = self.target.initial(entry);
        let message = CreateRegionRequest {
            parent: names::space(space),
            region_id: initial.name,
            suffix_bits: Some(initial.suffix_bits),
            prefix: Some(initial.prefix),
            next: initial.reserved.map(|next| next.0.into()),
            order: region::Order::from(initial.order).into(),
            pace: initial.pace.0,
            sealed: initial.sealed,
            policy: initial.policy.as_ref().map(Into::into),
            reason: REASON.to_owned(),
            ..CreateRegionRequest::default()
        };
        daemon.regions().create_region(request(message)).await?;
        Ok(())
    }

    /// Creates all subregions in one edit: the parent closes only if they are all created together.
    async fn create_subregions(
        &self,
        space: &str,
        parent: &Entry,
        batch: &[&'f Entry],
        daemon: &Daemon,
    ) -> Result<(), Failure> {
        let extension = |entry: &Entry| entry.prefix.get(parent.prefix.len()..).unwrap_or_default().to_owned();
        let new_region = |entry: &&'f Entry| {
            let initial = self.target.initial(entry);
            NewRegion {
                extension: Some(extension(&initial)),
                region_id: initial.name,
                suffix_bits: Some(initial.suffix_bits),
                next: initial.reserved.map(|next| next.0.into()),
                order: region::Order::from(initial.order).into(),
                pace: initial.pace.0,
                sealed: initial.sealed,
                policy: initial.policy.as_ref().map(Into::into),
            }
        };
        let message = AddSubregionsRequest {
            name: names::region(space, &parent.name),
            by_bits: batch.first().map_or(0, |first| u32::try_from(extension(first).len()).unwrap_or(u32::MAX)),
            new_regions: batch.iter().map(new_region).collect(),
            r#abstract: parent.kind == Kind::Closed,
            reason: REASON.to_owned(),
            ..AddSubregionsRequest::default()
        };
        daemon.regions().add_subregions(request(message)).await?;
        Ok(())
    }
}

/// The maximum number of subregions per edit.
const BATCH: usize = 56;

/// Sets the attributes that an existing region lacks.
async fn finish(space: &str, here: &Entry, entry: &Entry, daemon: &Daemon) -> Result<(), Failure> {
    let (name, reason) = (names::region(space, &entry.name), REASON.to_owned());
    let nothing = UpdateRegionRequest { name: name.clone(), reason: reason.clone(), ..UpdateRegionRequest::default() };
    let given = |file: &String, here: &String| (file != here).then(|| file.clone());
    let message = UpdateRegionRequest {
        owner: given(&entry.owner, &here.owner),
        description: given(&entry.description, &here.description),
        set_labels: if here.labels == entry.labels { [].into() } else { entry.labels.clone().into_iter().collect() },
        policy: (here.policy != entry.policy).then(|| entry.policy.as_ref().map(Into::into).unwrap_or_default()),
        // Parts that the file lacks are cleared.
        policy_mask: (here.policy != entry.policy).then(|| FieldMask { paths: vec!["*".to_owned()] }),
        ..nothing.clone()
    };
    if message != nothing {
        daemon.regions().update_region(request(message)).await?;
    }
    if entry.delegated && !here.delegated {
        let message =
            DelegateRegionRequest { name: name.clone(), reason: reason.clone(), ..DelegateRegionRequest::default() };
        daemon.regions().delegate_region(request(message)).await?;
    }
    let message = SealRegionRequest { name, reason, ..SealRegionRequest::default() };
    match (here.sealed, entry.sealed) {
        (false, true) => drop(daemon.regions().seal_region(request(message)).await?),
        (true, false) => drop(daemon.regions().unseal_region(request(message)).await?),
        _ => {}
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

/// Asks for confirmation on the terminal. Fails if standard input is not a terminal.
fn confirmed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "standard input is not a terminal; add --yes to import without confirmation".to_owned(),
        ));
    }
    eprint!("import them? [y/N] ");
    io::stderr().flush().map_err(Failure::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::Input)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
