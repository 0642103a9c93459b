//! `kent region ls`, `tree`, `show` and `id`, which read the table of a space. Module `edit` changes it.

use kent_client::Daemon;
use kent_proto::v1::{ComposeRequest, GetRegionRequest, GetSpaceRequest, ListRegionsRequest, Region, Space, Uint128};
use serde_json::json;

use crate::args::{IdArgs, InSpace, RegionCommand, ShowArgs, TreeArgs};
use crate::connect::request;
use crate::describe;
use crate::edit;
use crate::failure::Failure;
use crate::history;
use crate::names;
use crate::output::{Out, Role};
use crate::tree::{self, View};

/// The number of siblings that a tree draws without `--all`.
const SIBLINGS_MAX: usize = 40;

/// The value of `at_revision` that means the current revision.
pub(crate) const PRESENT: u64 = 0;

/// The maximum number of regions per page.
const PAGE_SIZE: u32 = 1000;

pub(crate) async fn run(command: &RegionCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        RegionCommand::Ls(args) => list(args, daemon, out).await,
        RegionCommand::Tree(args) => draw(args, daemon, out).await,
        RegionCommand::Show(args) => show(args, daemon, out).await,
        RegionCommand::Create(args) => edit::create(args, daemon, out).await,
        RegionCommand::Expand(args) => edit::expand(args, daemon, out).await,
        RegionCommand::Split(args) => edit::split(args, daemon, out).await,
        RegionCommand::Subdivide(args) => edit::subdivide(args, daemon, out).await,
        RegionCommand::Shrink(args) => edit::shrink(args, daemon, out).await,
        RegionCommand::Delegate(args) => edit::delegate(args, daemon, out).await,
        RegionCommand::Seal(args) => edit::seal(args, true, daemon, out).await,
        RegionCommand::Unseal(args) => edit::seal(args, false, daemon, out).await,
        RegionCommand::Rename(args) => edit::rename(args, daemon, out).await,
        RegionCommand::Set(args) => edit::set(args, daemon, out).await,
        RegionCommand::Delete(args) => edit::delete(args, daemon, out).await,
        RegionCommand::Undo(args) => edit::undo(args, daemon, out).await,
        RegionCommand::History(args) => history::list(args, daemon, out).await,
        RegionCommand::Id(args) => compose(args, daemon, out).await,
    }
}

async fn list(args: &InSpace, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        let write = |page: Vec<Region>| page.iter().try_for_each(|region| out.json(&describe::to_json(region)));
        return pages(&args.space, PRESENT, daemon, write).await;
    }
    let text = describe::table(&all(&args.space, PRESENT, daemon).await?).render(out.palette());
    out.text(&text)
}

/// All regions of a space in the order of their prefixes, outer regions before inner ones.
pub(crate) async fn all(space: &str, at_revision: u64, daemon: &Daemon) -> Result<Vec<Region>, Failure> {
    let mut regions = Vec::new();
    let collect = |page| {
        regions.extend(page);
        Ok(())
    };
    pages(space, at_revision, daemon, collect).await?;
    Ok(regions)
}

/// Passes the regions of a space to `take`, page by page.
pub(crate) async fn pages(
    space: &str,
    at_revision: u64,
    daemon: &Daemon,
    mut take: impl FnMut(Vec<Region>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut page_token = String::new();
    loop {
        let message = ListRegionsRequest { parent: names::space(space), page_size: PAGE_SIZE, page_token, at_revision };
        let page = daemon.regions().list_regions(request(message)).await?.into_inner();
        take(page.regions)?;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(());
        }
    }
}

async fn draw(args: &TreeArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let message = GetSpaceRequest { name: names::space(&args.space.space) };
    let space = daemon.regions().get_space(request(message)).await?.into_inner();
    let view = View {
        depth: args.depth.map(|depth| depth as usize), // OK because a usize has 32 bits at least
        filter: args.filter.clone(),
        siblings: (!args.all && !out.is_json()).then_some(SIBLINGS_MAX),
    };
    let (forest, hidden) = tree::view(all(&args.space.space, PRESENT, daemon).await?, &view);
    if out.is_json() {
        return forest.iter().try_for_each(|branch| {
            let mut value = describe::to_json(&branch.region);
            value["depth"] = json!(branch.depth);
            out.json(&value)
        });
    }
    let palette = out.palette();
    out.text(&palette.paint(Role::Heading, &space_line(&space)))?;
    out.text("\n")?;
    if !forest.is_empty() {
        out.text(&tree::render(&forest, palette))?;
    }
    if hidden > 0 {
        let regions = if hidden == 1 { "region is" } else { "regions are" };
        out.text(&format!("{hidden} {regions} not shown; see --all, --depth and --filter\n"))?;
    }
    Ok(())
}

fn space_line(space: &Space) -> String {
    let regions = if space.region_count == 1 { "region" } else { "regions" };
    let name = names::short(&space.name);
    format!("{name}: {} bits, {} {regions}, revision {}", space.bits, space.region_count, space.revision)
}

async fn compose(args: &IdArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let numbers = args.numbers.iter().map(|number| (*number).into()).collect();
    let (suffixes, identifiers) = if args.back { (Vec::new(), numbers) } else { (numbers, Vec::new()) };
    let name = names::region(&args.space.space, &args.name);
    let message = ComposeRequest { name, suffixes, identifiers };
    let composed = daemon.regions().compose(request(message)).await?.into_inner().composed;
    composed.iter().try_for_each(|pair| {
        let number = |number: Option<Uint128>| number.map(u128::from).unwrap_or_default().to_string();
        let (suffix, identifier) = (number(pair.suffix), number(pair.identifier));
        if out.is_json() {
            return out.json(&json!({"suffix": suffix, "identifier": identifier, "text": pair.text}));
        }
        out.text(if args.back { &suffix } else { &pair.text })?;
        out.text("\n")
    })
}

async fn show(args: &ShowArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let message = GetRegionRequest { name: names::region(&args.space.space, &args.name) };
    let region = daemon.regions().get_region(request(message)).await?.into_inner();
    if out.is_json() {
        return out.json(&describe::to_json(&region));
    }
    let text = describe::one(&region, out.palette());
    out.text(&text)
}
