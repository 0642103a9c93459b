//! `kent region history` lists the past edits of a table, and `kent watch` follows new ones.

use kent_client::tonic::Request;
use kent_client::{Client, Daemon};
use kent_proto::model::CONCEALED;
use kent_proto::v1::{HistoryEntry, ListHistoryRequest, Region, WatchTableRequest, watch_table_response::Event};
use serde_json::{Value, json};

use crate::args::{HistoryArgs, WatchArgs};
use crate::connect::request;
use crate::describe;
use crate::failure::Failure;
use crate::following;
use crate::names;
use crate::output::{Out, Palette, Role};

/// The maximum number of edits per page.
const PAGE_SIZE: u32 = 1000;

pub(crate) async fn list(args: &HistoryArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let space = &args.space.space;
    let parent = args.name.as_ref().map_or_else(|| names::space(space), |name| names::region(space, name));
    let (mut left, mut page_token) = (args.limit, String::new());
    loop {
        let message = ListHistoryRequest { parent: parent.clone(), page_size: left.min(PAGE_SIZE), page_token };
        let page = daemon.regions().list_history(request(message)).await?.into_inner();
        for entry in &page.entries {
            write(entry, out)?;
        }
        left = left.saturating_sub(u32::try_from(page.entries.len()).unwrap_or(u32::MAX));
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
pub(crate) async fn watch(args: &WatchArgs, client: &Client, out: &mut Out) -> Result<(), Failure> {
    let follow = async |daemon: &Daemon, endpoint: &str, after: &mut u64, out: &mut Out| {
        follow(args, daemon, endpoint, after, out).await
    };
    following::keep(args.after, "regions", client, out, follow).await
}

/// Prints the events of one daemon until its stream ends. `after` is the last printed revision.
async fn follow(
    args: &WatchArgs,
    daemon: &Daemon,
    endpoint: &str,
    after: &mut u64,
    out: &mut Out,
) -> Result<(), Failure> {
    let message = WatchTableRequest { parent: names::space(&args.space.space), after_revision: *after };
    // No deadline, because a watch does not end.
    let mut regions = daemon.regions();
    let calling = regions.watch_table(Request::new(message));
    let mut events = following::saying(endpoint, out.is_json(), calling).await?.into_inner();
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Snapshot(snapshot)) => {
                for region in &snapshot.regions {
                    write_region(region, snapshot.revision, out)?;
                }
                if snapshot.last {
                    *after = snapshot.revision;
                    if !out.is_json() {
                        out.text(&format!("revision {}; changes follow\n", snapshot.revision))?;
                    }
                    if !snapshot.sealed_by.is_empty() {
                        write_sealed(&snapshot.sealed_by, out)?;
                    }
                }
            }
            Some(Event::Change(entry)) => {
                write(&entry, out)?;
                *after = entry.revision;
            }
            Some(Event::Around(around)) => write_sealed(&around.sealed_by, out)?,
            None => {}
        }
        out.flush()?;
    }
    Ok(())
}

fn write_region(region: &Region, revision: u64, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&json!({"revision": revision, "region": describe::to_json(region)}));
    }
    out.text(&format!("  {}\n", place(region, out.palette())))
}

/// Prints which sealed region contains the watched space, if any.
fn write_sealed(by: &str, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&json!({"sealed_by": (!by.is_empty()).then_some(by)}));
    }
    let text = match by {
        "" => "no region around the space is sealed".to_owned(),
        CONCEALED => {
            "the space is sealed with an outer region that you may not read: nothing in the space is granted".to_owned()
        }
        by => format!("the space is sealed with {}: nothing in the space is granted", names::short(by)),
    };
    out.text(&format!("{text}\n"))
}

fn write(entry: &HistoryEntry, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&to_json(entry));
    }
    out.fitted(|palette| render(entry, palette))
}

/// Renders one line for the edit, one for each region it changed, and one for each attribute that it removed or added.
fn render(entry: &HistoryEntry, palette: Palette) -> String {
    let revision = palette.paint(Role::Heading, &format!("revision {}", entry.revision));
    let mut text = format!("{revision}  {}  {} by {}", entry.time, entry.operation, entry.principal);
    if !entry.reason.is_empty() {
        text.push_str(&format!(": {}", entry.reason));
    }
    text.push('\n');
    let place = |region: &Region| place(region, palette);
    if entry.undoes != 0 && !entry.reason.ends_with(&format!("undo of revision {}", entry.undoes)) {
        text.push_str(&format!("  undo of revision {}\n", entry.undoes));
    }
    for (at, change) in entry.changes.iter().enumerate() {
        let line = match (&change.before, &change.after) {
            (Some(before), Some(after)) if place(before) == place(after) => format!("  ~ {}", place(after)),
            (Some(before), Some(after)) => format!("  ~ {} → {}", place(before), place(after)),
            (None, Some(after)) => format!("  + {}", place(after)),
            (Some(before), None) => format!("  - {}", place(before)),
            (None, None) => continue,
        };
        text.push_str(&line);
        text.push('\n');
        text.push_str(&describe::steps(change, "    ", palette));
        if at == 0 && !entry.declared.is_empty() {
            let counters = [("-", &entry.declared_before), ("+", &entry.declared)];
            let lines = counters.map(|(mark, count)| format!("    {mark}  counted as issued: {count}\n"));
            text.push_str(&lines.concat());
        }
    }
    text
}

/// Returns a region with its prefix, widths and state in short form.
fn place(region: &Region, palette: Palette) -> String {
    let (name, prefix) = (names::short(&region.name), palette.prefixes.text(&region.prefix));
    format!("{name} {prefix} z {} s {} {}", region.zone_bits, region.suffix_bits, describe::state(region))
}

pub(crate) fn to_json(entry: &HistoryEntry) -> Value {
    let changes = entry.changes.iter().map(|change| {
        json!({
            "before": change.before.as_ref().map(describe::to_json),
            "after": change.after.as_ref().map(describe::to_json),
        })
    });
    json!({
        "revision": entry.revision,
        "time": entry.time,
        "principal": entry.principal,
        "operation": entry.operation,
        "reason": entry.reason,
        "request_id": entry.request_id,
        "undoes": (entry.undoes != 0).then_some(entry.undoes),
        "declared_before": (!entry.declared_before.is_empty()).then_some(&entry.declared_before),
        "declared": (!entry.declared.is_empty()).then_some(&entry.declared),
        "changes": changes.collect::<Value>(),
    })
}
