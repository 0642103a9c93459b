//! `kent space`: lists, creates and deletes spaces, each of which is a table of regions.

use kent_client::Daemon;
use kent_proto::model::CONCEALED;
use kent_proto::v1::{CreateSpaceRequest, DeleteSpaceRequest, ListSpacesRequest, Space, space::TextForm};
use serde_json::{Value, json};

use crate::args::{SpaceCommand, SpaceCreateArgs, SpaceDeleteArgs, TextArg};
use crate::connect::request;
use crate::failure::Failure;
use crate::free;
use crate::names;
use crate::number;
use crate::output::Out;
use crate::table::{Cell, Table};

/// The maximum number of spaces per page.
const PAGE_SIZE: u32 = 1000;

pub(crate) async fn run(command: &SpaceCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        SpaceCommand::Ls => list(daemon, out).await,
        SpaceCommand::Free(args) => free::run(args, daemon, out).await,
        SpaceCommand::Create(args) => create(args, daemon, out).await,
        SpaceCommand::Delete(args) => delete(args, daemon, out).await,
    }
}

async fn list(daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let spaces = all(daemon).await?;
    if out.is_json() {
        return spaces.iter().try_for_each(|space| out.json(&to_json(space)));
    }
    let text = table(&spaces).render(out.palette());
    out.text(&text)
}

/// Returns all spaces that the caller may see.
pub(crate) async fn all(daemon: &Daemon) -> Result<Vec<Space>, Failure> {
    let mut spaces = Vec::new();
    let mut page_token = String::new();
    loop {
        let message = ListSpacesRequest { page_size: PAGE_SIZE, page_token };
        let page = daemon.regions().list_spaces(request(message)).await?.into_inner();
        spaces.extend(page.spaces);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(spaces);
        }
    }
}

async fn create(args: &SpaceCreateArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let text_form = match args.text {
        TextArg::Decimal => TextForm::Decimal,
        TextArg::Hex => TextForm::Hex,
        TextArg::Uid11 => TextForm::Uid11,
    };
    let message = CreateSpaceRequest {
        space_id: args.name.clone(),
        bits: args.bits,
        validate_only: args.dry_run,
        text_form: text_form.into(),
    };
    let space = daemon.regions().create_space(request(message)).await?.into_inner();
    if out.is_json() {
        let mut value = to_json(&space);
        value["dry_run"] = json!(args.dry_run);
        return out.json(&value);
    }
    let text = table(std::slice::from_ref(&space)).render(out.palette());
    out.text(&text)?;
    if args.dry_run {
        out.text("dry run: nothing was changed\n")?;
    }
    Ok(())
}

async fn delete(args: &SpaceDeleteArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let message = DeleteSpaceRequest { name: names::space(&args.name), validate_only: args.dry_run };
    let space = daemon.regions().delete_space(request(message)).await?.into_inner();
    if out.is_json() {
        let mut value = to_json(&space);
        value["dry_run"] = json!(args.dry_run);
        return out.json(&value);
    }
    match args.dry_run {
        true => out.text(&format!("dry run: nothing was changed; space {} can be deleted\n", args.name)),
        false => out.text(&format!("space {} is deleted\n", args.name)),
    }
}

fn table(spaces: &[Space]) -> Table {
    let is_any_sealed = spaces.iter().any(|space| !space.sealed_by.is_empty());
    let mut table = match is_any_sealed {
        true => Table::new(["SPACE", ">BITS", ">REGIONS", ">REVISION", "SEALED WITH"]),
        false => Table::new(["SPACE", ">BITS", ">REGIONS", ">REVISION"]),
    };
    for space in spaces {
        let mut cells = vec![
            Cell::from(names::short(&space.name)),
            space.bits.into(),
            number::grouped(space.region_count).into(),
            space.revision.into(),
        ];
        if is_any_sealed {
            cells.push(sealed_with(space).into());
        }
        table.push(cells);
    }
    table
}

/// Returns the sealed region around a space, as NAME@SPACE.
fn sealed_with(space: &Space) -> String {
    match space.sealed_by.as_str() {
        "" => String::new(),
        CONCEALED => "an outer region".to_owned(),
        by => format!("{}@{}", names::short(by), names::space_of(by)),
    }
}

/// Converts a space to JSON. Revisions and counts grow by one and never reach 2^53, so they are JSON numbers.
fn to_json(space: &Space) -> Value {
    json!({
        "name": names::short(&space.name),
        "bits": space.bits,
        "regions": space.region_count,
        "revision": space.revision,
        "sealed_by": (!space.sealed_by.is_empty()).then_some(&space.sealed_by),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    #[test]
    fn ok_spaces_for_people_and_programs() {
        let space =
            Space { name: "spaces/parts".to_owned(), bits: 32, revision: 7, region_count: 2, ..Space::default() };
        assert_eq!(
            table(std::slice::from_ref(&space)).render(Palette::PLAIN),
            "SPACE  BITS  REGIONS  REVISION\n\
             parts    32        2         7\n"
        );
        let expected = json!({"name": "parts", "bits": 32, "regions": 2, "revision": 7, "sealed_by": null});
        assert_eq!(to_json(&space), expected);
        let by = names::region("default", "emea");
        let sealed =
            Space { name: "spaces/default/emea".to_owned(), bits: 40, sealed_by: by.clone(), ..Space::default() };
        assert_eq!(to_json(&sealed)["sealed_by"], json!(by));
        assert_eq!(
            table(&[space, sealed]).render(Palette::PLAIN),
            "SPACE         BITS  REGIONS  REVISION  SEALED WITH\n\
             parts           32        2         7\n\
             default/emea    40        0         0  emea@default\n"
        );
    }
}
