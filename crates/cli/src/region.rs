//! `kent region`: `tree`, `show` and `id`, which read the table of a space. Other modules run the other commands.

use kent_client::{Daemon, tonic::Code};
use kent_ids::Stride;
use kent_proto::model::stride_from;
use kent_proto::v1::{ComposeRequest, GetRegionRequest, GetSpaceRequest, Region, Space, Uint128, region::Order};
use serde_json::json;

use crate::args::{IdArgs, RegionCommand, ShowArgs, TreeArgs};
use crate::connect::request;
use crate::describe;
use crate::edit;
use crate::failure::Failure;
use crate::history;
use crate::list;
use crate::names;
use crate::notice;
use crate::number;
use crate::output::{Out, Role};
use crate::pages::nested;
use crate::request as asking;
use crate::tree::{self, View};

/// The number of siblings that a tree draws without `--all`.
const SIBLINGS_MAX: usize = 40;

pub(crate) async fn run(command: &RegionCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        RegionCommand::Ls(args) => list::run(args, daemon, out).await,
        RegionCommand::Tree(args) => draw(args, daemon, out).await,
        RegionCommand::Show(args) => show(args, daemon, out).await,
        RegionCommand::Create(args) => edit::create(args, daemon, out).await,
        RegionCommand::Ask(args) => asking::ask(args, daemon, out).await,
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

async fn draw(args: &TreeArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let message = GetSpaceRequest { name: names::space(&args.space.space) };
    let space = daemon.regions().get_space(request(message)).await?.into_inner();
    let view = View {
        depth: args.depth.map(|depth| depth as usize), // OK because a usize has at least 32 bits
        filter: args.filter.clone(),
        siblings: (!args.all && !out.is_json()).then_some(SIBLINGS_MAX),
    };
    let (forest, hidden) = tree::view(nested(&args.space.space, daemon).await?, &view);
    if out.is_json() {
        return forest.iter().try_for_each(|branch| {
            let mut value = describe::to_json(&branch.region);
            value["depth"] = json!(branch.depth);
            out.json(&value)
        });
    }
    let heading = out.palette().paint(Role::Heading, &space_line(&space));
    out.text(&format!("{heading}\n"))?;
    if !forest.is_empty() {
        out.fitted(|palette| tree::render(&forest, names::short(&space.name), palette))?;
    }
    if hidden > 0 {
        let are = if hidden == 1 { "is" } else { "are" };
        let hidden = number::counted(hidden, "region");
        out.text(&format!("{hidden} {are} not shown; see --all, --depth and --filter\n"))?;
    }
    Ok(())
}

fn space_line(space: &Space) -> String {
    let (bits, regions) = (number::counted(space.bits, "bit"), number::counted(space.region_count, "region"));
    format!("{}: {bits}, {regions}, revision {}", names::short(&space.name), space.revision)
}

async fn compose(args: &IdArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let numbers = args.numbers.iter().map(|number| (*number).into()).collect();
    let (suffixes, identifiers) = if args.back { (Vec::new(), numbers) } else { (numbers, Vec::new()) };
    let name = names::region(&args.space.space, &args.name);
    let message = ComposeRequest { name, suffixes, identifiers };
    let composed = daemon.regions().compose(request(message)).await?.into_inner().composed;
    if !args.back {
        let name = names::region(&args.space.space, &args.name);
        let region = GetRegionRequest { name, ..GetRegionRequest::default() };
        let region = daemon.regions().get_region(request(region)).await?.into_inner();
        let warning = undeclared(&region, &args.numbers, &names::space_option(&args.space.space));
        warning.iter().for_each(|warning| notice::warn(warning, out.is_json()));
    }
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

/// Returns a warning about numbers that Kent may issue as well, or whose use it does not know of.
fn undeclared(region: &Region, numbers: &[u128], space: &str) -> Option<String> {
    let name = names::short(&region.name);
    let next: u128 = region.issued.parse().ok()?;
    let highest = numbers.iter().max()?;
    let stride = region.policy.as_ref().and_then(|policy| policy.stride).map_or(Some(Stride::EVERY), stride_from)?;
    match region.order() {
        Order::External if next > 0 && *highest >= next => Some(format!(
            "{name} counts only numbers below {} as in use, and an edit may free the others; to declare these as well: kent region set {name} \
             --next {}{space}",
            number::grouped(next),
            highest.saturating_add(1)
        )),
        Order::External => None,
        _ if !numbers.iter().any(|number| stride.holds(*number)) => None,
        _ => Some(format!("{name} issues its numbers itself, so it may issue these identifiers as well")),
    }
}

async fn show(args: &ShowArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let get = async |exact_counter| {
        let message = GetRegionRequest { name: names::region(&args.space.space, &args.name), exact_counter };
        daemon.regions().get_region(request(message)).await
    };
    let region = match get(true).await {
        Err(unread) if matches!(unread.code(), Code::Unavailable | Code::DeadlineExceeded) => {
            let known = get(false).await?;
            let warning = format!(
                "the counter could not be read from the store, so `reserved` and `issued` may be out of date: {}",
                unread.message()
            );
            notice::warn(&warning, out.is_json());
            known
        }
        region => region?,
    };
    let region = region.into_inner();
    if out.is_json() {
        return out.json(&describe::to_json(&region));
    }
    let text = describe::one(&region, out.palette());
    out.text(&text)
}
