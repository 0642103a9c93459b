//! `kent table export` and `import`: write and read the whole table of a space as JSON lines.
//!
//! An import creates the regions that the table lacks. The commit that creates a region also sets its counter and its
//! former prefixes. An import removes nothing, and changes nothing if any existing region differs from the file. A
//! table of up to 48 regions is created in one commit, a larger one in several. To continue an interrupted import,
//! import the file again.

mod compare;
mod file;
mod parts;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressStyle};
use kent_client::{Daemon, tonic::Code};
use kent_proto::model::IMPORT_REGIONS_MAX;
use kent_proto::v1::{GetRegionRequest, GetSpaceRequest, ImportTableRequest, ListRegionsRequest, Region, Space};
use serde_json::json;

use crate::args::{ExportArgs, ImportArgs, TableCommand};
use crate::confirm;
use crate::connect::request;
use crate::failure::Failure;
use crate::names;
use crate::notice;
use crate::number;
use crate::output::Out;
use crate::pages::PRESENT;

use file::{Decimal, Entry, File, Header, TextForm};

pub(crate) async fn run(command: &TableCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        TableCommand::Export(args) => export(args, daemon, out).await,
        TableCommand::Import(args) => import(args, daemon, out).await,
    }
}

async fn export(args: &ExportArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let name = &args.space.space;
    let space = daemon.regions().get_space(request(GetSpaceRequest { name: names::space(name) })).await?.into_inner();
    if args.at.is_some() && space.revision == 0 {
        return Err(Failure::Usage(format!(
            "the table of {name} has no revision for --at, because it was never edited; `kent table export --space {name}` exports it as \
             it is"
        )));
    }
    let (regions, revision) = listing(name, args.at.unwrap_or(PRESENT), daemon).await?;
    out.json(&Header::new(&space, args.at.unwrap_or(revision), regions.len()))?;
    regions.iter().try_for_each(|region| out.json(&Entry::of(region).map_err(Failure::Answer)?))?;
    out.flush()?;
    for delegated in regions.iter().filter(|region| !region.delegated_space.is_empty()) {
        let (region, inner) = (names::short(&delegated.name), names::short(&delegated.delegated_space));
        let inner_space = daemon.regions().get_space(request(GetSpaceRequest { name: names::space(inner) })).await;
        let note = match inner_space.map_err(|status| status.code()) {
            Err(Code::NotFound) => {
                format!("kent: region {region} was delegated then, and the space {inner} no longer exists\n")
            }
            _ => format!(
                "kent: region {region} is delegated, and its table is not in this file: kent table export --space {inner}\n"
            ),
        };
        notice::write(&out.reaching(&note), false);
    }
    Ok(())
}

/// Returns all regions of one revision, and that revision. If the table is edited between two pages, the listing starts
/// again.
async fn listing(space: &str, at_revision: u64, daemon: &Daemon) -> Result<(Vec<Region>, u64), Failure> {
    for _ in 0..LISTINGS {
        let (mut regions, mut page_token, mut revision) = (Vec::new(), String::new(), None);
        loop {
            let (parent, exact_counters) = (names::space(space), at_revision == PRESENT);
            let message = ListRegionsRequest { parent, page_size: PAGE_SIZE, page_token, at_revision, exact_counters };
            let page = daemon.regions().list_regions(request(message)).await?.into_inner();
            if *revision.get_or_insert(page.revision) != page.revision {
                break;
            }
            regions.extend(page.regions);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok((regions, page.revision));
            }
        }
    }
    Err(Failure::Usage(format!(
        "the table of {space} was edited during each of {LISTINGS} attempts to read it; try again"
    )))
}

/// The number of attempts to read all pages of one revision.
const LISTINGS: u32 = 10;

/// The maximum number of regions per page.
const PAGE_SIZE: u32 = 1000;

async fn import(args: &ImportArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let refused = |problem: String| Failure::Usage(format!("{}: {problem}", args.file));
    let File { header, regions: mut entries } =
        File::parse(&text(&args.file)?).map_err(|bad| refused(bad.to_string()))?;
    let name = &args.space.space;
    let space = find_space(name, &header, daemon).await?;
    if space.bits != header.bits {
        let Header { bits, text_form, space: source, .. } = &header;
        let (new, text) = (format!("{}-{bits}", name.rsplit('/').next().unwrap_or(name)), text_form.option());
        let problem = format!(
            "the table comes from a space of {bits} bits ({source}), but {name} has {}: the same prefix would yield other identifiers. \
             Create a space of that width with `kent space create {new} --bits {bits}{text}`, and import with --space {new}",
            space.bits
        );
        return Err(refused(problem));
    }
    check_counters(&mut entries, args.unissued).map_err(refused)?;
    let (present, revision) = listing(name, PRESENT, daemon).await?;
    let work = Work::new(name, &header, entries, &present).map_err(refused)?;
    if !out.is_json() {
        work.show(&space, out)?;
    }
    if !work.differing.is_empty() {
        let listed = match out.is_json() {
            true => format!(" ({})", work.differences().collect::<Vec<_>>().join(", ")),
            false => ", as listed above".to_owned(),
        };
        return Err(refused(format!("existing regions differ from the file{listed}; nothing was changed")));
    }
    parts::rehearse(present, space.bits, revision, &work.parts)
        .map_err(|refusal| refused(format!("{refusal}; nothing was changed")))?;
    let is_done = work.parts.is_empty();
    if !is_done && !args.dry_run && !args.yes {
        confirm()?;
    }
    let reached = if is_done || args.dry_run { revision } else { work.execute(daemon).await? };
    work.conclude(args.dry_run, (revision, reached), out)
}

/// Finds the space of an import. If it does not exist, the error says how to create it.
async fn find_space(name: &str, header: &Header, daemon: &Daemon) -> Result<Space, Failure> {
    let found = daemon.regions().get_space(request(GetSpaceRequest { name: names::space(name) })).await;
    match found.map_err(Failure::from) {
        Ok(space) => Ok(space.into_inner()),
        Err(Failure::Refused(refusal)) if refusal.reason.as_deref() == Some("NO_SUCH_SPACE") => {
            let create = match name.rsplit_once('/') {
                Some((outer, region)) => {
                    // Fails, with a suggested command, if there is no such region to delegate.
                    let message =
                        GetRegionRequest { name: names::region(outer, region), ..GetRegionRequest::default() };
                    daemon.regions().get_region(request(message)).await?;
                    format!("kent region delegate {region}{}", names::space_option(outer))
                }
                None => format!("kent space create {name} --bits {}{}", header.bits, header.text_form.option()),
            };
            Err(Failure::Usage(format!("there is no space {name:?}; create it first with `{create}`")))
        }
        Err(failure) => Err(failure),
    }
}

/// Checks that all counters are known. A file from an earlier revision has no counters. With `unissued`, missing
/// counters become 0.
fn check_counters(entries: &mut [Entry], unissued: bool) -> Result<(), String> {
    let unknown = entries.iter().find(|entry| entry.issues() && entry.reserved.is_none());
    if let Some(unknown) = unknown.filter(|_| !unissued) {
        return Err(format!(
            "the file is from an earlier revision and lacks the counter of region {:?}; add --unissued if no region has issued \
             anything",
            unknown.name
        ));
    }
    for entry in entries {
        entry.reserved.get_or_insert(Decimal(0));
    }
    Ok(())
}

/// The work of an import.
struct Work<'f> {
    space: &'f str,
    header: &'f Header,
    /// The number of the file's regions that the table already has, without differences.
    present: usize,
    /// The regions that differ from the file, with the differences.
    differing: Vec<(String, Vec<String>)>,
    /// Regions to create, outer regions before inner ones.
    missing: Vec<Entry>,
    /// The commits that create the missing regions.
    parts: Vec<ImportTableRequest>,
}

impl<'f> Work<'f> {
    fn new(space: &'f str, header: &'f Header, entries: Vec<Entry>, present: &[Region]) -> Result<Self, String> {
        let here: BTreeMap<&str, &Region> = present.iter().map(|region| (names::short(&region.name), region)).collect();
        let (mut missing, mut differing, count) = (Vec::new(), Vec::new(), entries.len());
        for entry in entries {
            let Some(here) = here.get(entry.name.as_str()) else {
                missing.push(entry);
                continue;
            };
            let differences = compare::differences(&Entry::of(here)?, &entry, space);
            if !differences.is_empty() {
                differing.push((entry.name, differences));
            }
        }
        let present = count - missing.len() - differing.len();
        // As text, an outer prefix sorts before the prefixes inside it.
        missing.sort_by(|one, other| one.prefix.cmp(&other.prefix));
        let regions = parts::parts(missing.iter().map(|entry| entry.message(space)).collect())?;
        let part = |regions| ImportTableRequest {
            parent: names::space(space),
            bits: header.bits,
            regions,
            reason: format!("imported from space {}, revision {}", header.space, header.revision),
            ..ImportTableRequest::default()
        };
        Ok(Self { space, header, present, differing, missing, parts: regions.into_iter().map(part).collect() })
    }

    fn differences(&self) -> impl Iterator<Item = String> {
        self.differing.iter().map(|(name, what)| format!("{name} differs: {}", what.join("; ")))
    }

    fn show(&self, into: &Space, out: &mut Out) -> Result<(), Failure> {
        self.differences().try_for_each(|differs| out.text(&format!("! {differs}\n")))?;
        for entry in &self.missing {
            let (prefix, suffix) = (out.palette().prefixes.text(&entry.prefix), entry.suffix_bits);
            out.text(&format!("+ {} {prefix} s {suffix} {}\n", entry.name, entry.kind.name()))?;
        }
        let commits = match self.parts.len() {
            0 => String::new(),
            1 => " in one commit".to_owned(),
            commits => format!(" in {commits} commits"),
        };
        let differing = match self.differing.len() {
            0 => String::new(),
            differing => format!("{differing} different, "),
        };
        let (missing, present) = (self.missing.len(), self.present);
        out.text(&format!("{missing} to create{commits}, {differing}{present} already present\n"))?;
        if self.parts.len() > 1 {
            out.text(&format!(
                "one commit creates at most {IMPORT_REGIONS_MAX} regions: if the import is interrupted, import the file again to \
                 continue it\n"
            ))?;
        }
        let (from, to) = (self.header.text_form, TextForm::of(into));
        if from != to {
            let (from, to, source) = (from.name(), to.name(), &self.header.space);
            out.text(&format!("note: {source} writes its identifiers as {from}, {} as {to}\n", self.space))?;
        }
        for Entry { name, .. } in self.missing.iter().filter(|entry| entry.needs_floor) {
            let option = names::space_option(self.space);
            out.text(&format!(
                "note: {name} issues nothing until you set its counter, which is unknown since a restore: `kent region set \
                 {name}{option} --next N`\n"
            ))?;
        }
        for entry in self.missing.iter().filter(|entry| entry.delegated) {
            let (inner, source) = (format!("{}/{}", self.space, entry.name), &self.header.space);
            out.text(&format!(
                "note: {} is delegated, and {inner} starts empty: import its table as well, which `kent table export --space \
                 {source}/{}` writes, with --space {inner}\n",
                entry.name, entry.name
            ))?;
        }
        out.flush()
    }

    /// Makes the commits, and returns the resulting revision of the table.
    async fn execute(&self, daemon: &Daemon) -> Result<u64, Failure> {
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} regions, {eta} left");
        // Drawn only if standard error is a terminal.
        let bar = ProgressBar::new(self.missing.len() as u64); // OK because a usize has at most 64 bits
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let (mut created, mut revision) = (0, 0);
        for part in &self.parts {
            match daemon.regions().import_table(request(part.clone())).await {
                Ok(response) => revision = response.into_inner().revision,
                Err(status) => {
                    bar.finish_and_clear();
                    let all = number::counted(self.missing.len(), "region");
                    let done = format!(
                        "kent: {created} of {all} created before the failure; import the file again to continue\n"
                    );
                    notice::write(&done, false);
                    return Err(status.into());
                }
            }
            created += part.regions.len();
            bar.inc(part.regions.len() as u64); // as above
        }
        bar.finish_and_clear();
        Ok(revision)
    }

    fn conclude(&self, dry_run: bool, (before, after): (u64, u64), out: &mut Out) -> Result<(), Failure> {
        if out.is_json() {
            return out.json(&json!({
                "create": self.missing.len(),
                "present": self.present,
                "commits": self.parts.len(),
                "base_revision": before,
                "revision": after,
                "dry_run": dry_run,
            }));
        }
        match (dry_run, self.missing.len()) {
            (_, 0) => Ok(()),
            (true, _) => out.text("dry run: nothing was changed\n"),
            (false, created) => {
                out.text(&format!("created {}\nrevision {before} → {after}\n", number::counted(created, "region")))
            }
        }
    }
}

fn text(file: &str) -> Result<String, Failure> {
    match file {
        "-" => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text).map_err(Failure::Input)
        }
        path => std::fs::read_to_string(path).map_err(|error| {
            Failure::Usage(match error.kind() {
                io::ErrorKind::InvalidData => format!(
                    "{path} is not a text file, as `kent table export` writes it: decompress it, or restore it if it is a backup (kentd \
                     restore {path} --data DIR)"
                ),
                _ => format!("cannot read {path}: {error}; `kent table export > table.jsonl` writes a file to import"),
            })
        }),
    }
}

/// Asks for confirmation on the terminal. Fails if standard input is not a terminal.
fn confirm() -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "standard input is not a terminal; add --yes to import without confirmation".to_owned(),
        ));
    }
    if confirm::ask("Import them?")? { Ok(()) } else { Err(Failure::NotConfirmed) }
}
