//! `kent layout history` lists the past edits of layouts, and `kent layout watch` follows new ones.

use kent_client::tonic::Request;
use kent_client::{Client, Daemon};
use kent_proto::v1::{LayoutEdit, ListLayoutHistoryRequest, WatchLayoutsRequest, watch_layouts_response::Event};
use serde_json::{Value, json};

use super::to_json;
use crate::args::LayoutHistoryArgs;
use crate::connect::request;
use crate::failure::Failure;
use crate::following;
use crate::output::{Out, Palette, Role};

/// The maximum number of edits per page.
const PAGE_SIZE: u32 = 1000;

pub(super) async fn list(args: &LayoutHistoryArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let name = args.name.clone().unwrap_or_default();
    let (mut left, mut page_token) = (args.limit, String::new());
    loop {
        let message = ListLayoutHistoryRequest { name: name.clone(), page_size: left.min(PAGE_SIZE), page_token };
        let page = daemon.layouts().list_layout_history(request(message)).await?.into_inner();
        for edit in &page.edits {
            write(edit, out)?;
        }
        if page.edits.is_empty() && left == args.limit && !out.is_json() {
            let of = args.name.as_ref().map_or_else(String::new, |name| format!(" of layout {name:?}"));
            out.text(&format!("there are no edits{of}\n"))?;
        }
        left = left.saturating_sub(u32::try_from(page.edits.len()).unwrap_or(u32::MAX));
        page_token = page.next_page_token;
        if page_token.is_empty() && left > 0 && page.forgotten_through > 0 && !out.is_json() {
            out.text(&format!("edits up to revision {} have been deleted\n", page.forgotten_through))?;
        }
        if left == 0 || page_token.is_empty() {
            return Ok(());
        }
    }
}

/// Watches until interrupted.
pub(super) async fn watch(after: u64, client: &Client, out: &mut Out) -> Result<(), Failure> {
    following::keep(after, "layouts", client, out, follow).await
}

/// Prints the events of one daemon until its stream ends. `after` is the last printed revision.
async fn follow(daemon: &Daemon, endpoint: &str, after: &mut u64, out: &mut Out) -> Result<(), Failure> {
    // No deadline, because a watch does not end.
    let mut layouts = daemon.layouts();
    let calling = layouts.watch_layouts(Request::new(WatchLayoutsRequest { after_revision: *after }));
    let mut events = following::saying(endpoint, out.is_json(), calling).await?.into_inner();
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Snapshot(snapshot)) => {
                *after = snapshot.revision;
                for layout in &snapshot.layouts {
                    match out.is_json() {
                        true => out.json(&json!({"revision": snapshot.revision, "layout": to_json(layout)}))?,
                        false => out.text(&format!("  {}  {}\n", layout.name, layout.fields))?,
                    }
                }
                if !out.is_json() {
                    out.text(&format!("revision {}; changes follow\n", snapshot.revision))?;
                }
            }
            Some(Event::Change(edit)) => {
                *after = edit.revision;
                write(&edit, out)?;
            }
            None => {}
        }
        out.flush()?;
    }
    Ok(())
}

fn write(edit: &LayoutEdit, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&edit_to_json(edit));
    }
    out.fitted(|palette| render(edit, palette))
}

/// Renders one line for the edit, and one for the layout.
fn render(edit: &LayoutEdit, palette: Palette) -> String {
    let revision = palette.paint(Role::Heading, &format!("revision {}", edit.revision));
    let mut text = format!("{revision}  {}  {}", edit.time, edit.operation);
    if !edit.principal.is_empty() {
        text.push_str(&format!(" by {}", edit.principal.replace(char::is_control, " ")));
    }
    text.push('\n');
    if let Some(layout) = &edit.layout {
        let mark = match &*edit.operation {
            "create" => '+',
            "delete" => '-',
            _ => '~',
        };
        text.push_str(&format!("  {mark} {}  {}\n", layout.name, layout.fields));
    }
    text
}

fn edit_to_json(edit: &LayoutEdit) -> Value {
    json!({
        "revision": edit.revision,
        "time": edit.time,
        "principal": edit.principal,
        "operation": edit.operation,
        "layout": edit.layout.as_ref().map(to_json),
    })
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::Layout;

    use super::*;

    #[test]
    fn ok_an_edit_takes_one_line_and_its_layout_another() {
        let layout =
            Layout { name: "orders".to_owned(), fields: "time:41:1ms@2015-01-01".to_owned(), ..Layout::default() };
        let edit = |operation: &str, principal: &str, layout: Option<Layout>| LayoutEdit {
            revision: 3,
            time: "2026-11-26T20:10:00.123Z".to_owned(),
            principal: principal.to_owned(),
            operation: operation.to_owned(),
            layout,
        };
        let text = [
            edit("create", "ada", Some(layout.clone())),
            edit("use", "", Some(layout.clone())),
            edit("delete", "a\nb", Some(layout)),
            edit("restore", "kentd restore", None),
        ]
        .map(|edit| render(&edit, Palette::default()))
        .concat();
        let expected = "\
revision 3  2026-11-26T20:10:00.123Z  create by ada
  + orders  time:41:1ms@2015-01-01
revision 3  2026-11-26T20:10:00.123Z  use
  ~ orders  time:41:1ms@2015-01-01
revision 3  2026-11-26T20:10:00.123Z  delete by a b
  - orders  time:41:1ms@2015-01-01
revision 3  2026-11-26T20:10:00.123Z  restore by kentd restore
";
        assert_eq!(text, expected);
    }
}
