//! `kent layout`: creates, lists, shows and deletes custom layouts, and shows their edits.

mod history;

use std::time::{SystemTime, UNIX_EPOCH};

use kent_client::{Client, Daemon};
use kent_ids::{
    UnixNanos,
    layout::{Preset, Spelling},
};
use kent_proto::v1::{self, CreateLayoutRequest, DeleteLayoutRequest, GetLayoutRequest, ListLayoutsRequest};
use serde_json::{Value, json};

use crate::args::{LayoutCommand, LayoutCreateArgs};
use crate::connect::request;
use crate::failure::Failure;
use crate::inspect;
use crate::known_layout::Known;
use crate::notice;
use crate::output::{Out, Palette};
use crate::table::{Cell, Table, facts};

pub(crate) async fn run(command: &LayoutCommand, client: &Client, out: &mut Out) -> Result<(), Failure> {
    match command {
        LayoutCommand::Presets => presets(out),
        LayoutCommand::Ls => list(&client.connect().await?, out).await,
        LayoutCommand::Show { name } => {
            let message = GetLayoutRequest { name: name.clone() };
            let layout = client.connect().await?.layouts().get_layout(request(message)).await?.into_inner();
            show(&layout, "", out)
        }
        LayoutCommand::History(args) => history::list(args, &client.connect().await?, out).await,
        LayoutCommand::Watch { after } => history::watch(*after, client, out).await,
        LayoutCommand::Create(args) => create(args, &client.connect().await?, out).await,
        LayoutCommand::Delete { name } => {
            let message = DeleteLayoutRequest { name: name.clone() };
            let layout = client.connect().await?.layouts().delete_layout(request(message)).await?.into_inner();
            match out.is_json() {
                true => out.json(&to_json(&layout)),
                false => out.text(&format!("layout {name} is deleted\n")),
            }
        }
    }
}

async fn list(daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let layouts = daemon.layouts().list_layouts(request(ListLayoutsRequest {})).await?.into_inner().layouts;
    if out.is_json() {
        return layouts.iter().try_for_each(|layout| out.json(&to_json(layout)));
    }
    let text = table(&layouts).render(out.palette());
    out.text(&text)
}

async fn create(args: &LayoutCreateArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let usage = |error: String| Failure::Usage(error);
    let (layout, usual) = match (&args.fields, args.preset) {
        (Some(layout), _) => (layout.clone(), None),
        (None, Some(preset)) => {
            let layout = preset.layout(args.epoch).map_err(|error| usage(format!("--epoch: {error}")))?;
            (layout, preset.spelling().ok())
        }
        // OK because clap requires one of the two.
        (None, None) => return Err(usage("--fields or --preset is missing".to_owned())),
    };
    if let Some(bits) = args.bits {
        layout.check_bits(bits).map_err(|error| usage(format!("--bits: {error}")))?;
    }
    let mut text = args.text.clone().or(usual).map_or_else(|| "decimal".to_owned(), |text| text.to_string());
    if let Some(prefix) = &args.prefix {
        if args.text.as_ref().is_some_and(|text| !text.prefix().is_empty()) {
            return Err(usage("--prefix: --text already has a prefix".to_owned()));
        }
        let spelling = text.parse::<Spelling>().and_then(|spelling| spelling.with_prefix(prefix));
        text = spelling.map_err(|error| usage(format!("--prefix: {error}")))?.to_string();
    }
    let wanted = v1::Layout {
        name: args.name.clone(),
        fields: layout.to_string(),
        text,
        description: args.description.clone(),
        ..v1::Layout::default()
    };
    let message = CreateLayoutRequest { layout: Some(wanted), validate_only: args.dry_run };
    let made = daemon.layouts().create_layout(request(message)).await?.into_inner();
    let end = match args.dry_run {
        true => "\ndry run: nothing was changed\n".to_owned(),
        false => format!("\ntake identifiers with `kent alloc layout:{}`\n", args.name),
    };
    show(&made, &end, out)?;
    if made.slots == 1 {
        notice::warn(ONE_SLOT, out.is_json());
    }
    Ok(())
}

/// The warning of a layout without a field slot, or with one value left in it.
const ONE_SLOT: &str = "only a daemon with slot 0 can issue identifiers of this layout: no other replica, and after a crash none until it is \
                        restarted when slot 0 is free again (after a minute by default); for more, add a field slot, as in slot:6";

/// Prints a layout, and for people the text `end` below it.
fn show(layout: &v1::Layout, end: &str, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&to_json(layout));
    }
    let text = describe(layout, now(), out.palette())?;
    out.text(&text)?;
    out.text(end)
}

/// Describes a layout for people, with an example.
fn describe(message: &v1::Layout, now: UnixNanos, palette: Palette) -> Result<String, Failure> {
    let known = Known::of(message)?;
    let issues = known.layout.check(0, now).map_or_else(|problem| problem.to_string(), |safe| safe.to_string());
    let state = if message.used { "in use: it is kept forever" } else { "nothing was issued yet" };
    let mut rows = vec![
        ("layout", message.name.clone()),
        ("fields", message.fields.clone()),
        ("width", format!("{} bits", message.bits)),
        ("text", message.text.clone()),
        ("issues", issues),
        ("state", state.to_owned()),
    ];
    if message.tag_bits > 0 {
        let max = u64::MAX >> (64 - message.tag_bits.min(64));
        rows.push((
            "tag",
            format!("each request supplies a value from 0 to {max} (kent alloc layout:{} --tag N)", message.name),
        ));
    }
    if !message.created_by.is_empty() {
        rows.push(("created by", message.created_by.replace(char::is_control, " ")));
    }
    if !message.description.is_empty() {
        rows.push(("description", message.description.replace(char::is_control, " ")));
    }
    let mut text = facts(&rows, palette);
    let example = known.example(now).and_then(|example| known.inspect(&example).ok());
    if let Some(example) = example {
        text.push_str("\nAn example of slot 0:\n");
        text.push_str(&inspect::render(&example, palette));
    }
    Ok(text)
}

fn table(layouts: &[v1::Layout]) -> Table {
    let mut table = Table::new(["LAYOUT", ">BITS", "TEXT", "USED", "UNTIL", "FIELDS"]);
    for layout in layouts {
        let end = UnixNanos::new(i128::from(layout.end_unix_seconds) * 1_000_000_000);
        let until = end.rfc3339(0).map_or_else(|| "-".to_owned(), |end| end.chars().take(10).collect());
        let used = if layout.used { "yes" } else { "no" };
        table.row([
            Cell::from(&layout.name),
            layout.bits.into(),
            Cell::from(&layout.text),
            used.into(),
            until.into(),
            Cell::from(&layout.fields),
        ]);
    }
    table
}

fn presets(out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return Preset::all().try_for_each(|preset| {
            out.json(&json!({
                "preset": preset.name, "fields": preset.fields, "text": preset.text, "about": preset.about
            }))
        });
    }
    let mut table = Table::new(["PRESET", "TEXT", "FIELDS"]);
    for preset in Preset::all() {
        table.row([Cell::from(preset.name), preset.text.into(), preset.fields.into()]);
    }
    let text = table.render(out.palette());
    out.text(&text)
}

/// Converts a layout to JSON. The number of identifiers per second may exceed 2^53, so it is a string.
fn to_json(layout: &v1::Layout) -> Value {
    json!({
        "name": layout.name,
        "fields": layout.fields,
        "text": layout.text,
        "description": layout.description,
        "bits": layout.bits,
        "used": layout.used,
        "created_by": layout.created_by,
        "created_unix_ms": layout.created_unix_ms,
        "per_second": layout.per_second,
        "slots": layout.slots,
        "end_unix_seconds": layout.end_unix_seconds,
        "order": layout.order,
        "tag_bits": layout.tag_bits,
    })
}

/// The time of this machine, for the example.
#[expect(clippy::disallowed_methods, reason = "only shows an example")]
fn now() -> UnixNanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixNanos::new(i128::try_from(since.as_nanos()).unwrap_or(i128::MAX))
}

#[cfg(test)]
mod tests {
    use kent_ids::layout::Layout;

    use super::*;

    fn message(fields: &str, text: &str) -> v1::Layout {
        let layout: Layout = fields.parse().expect("a layout");
        v1::Layout {
            name: "orders".to_owned(),
            fields: fields.to_owned(),
            text: text.to_owned(),
            bits: layout.bits().into(),
            tag_bits: layout.tag_bits().unwrap_or(0).into(),
            end_unix_seconds: 4_102_444_800,
            ..v1::Layout::default()
        }
    }

    /// 2026-11-26T00:00:00Z.
    const NOW: UnixNanos = UnixNanos::new(1_795_651_200_000_000_000);

    #[test]
    fn ok_a_layout_is_described_with_an_example() {
        let tagged = message("zero:1 time:41:1ms@2015-01-01 tag:4 slot:6 counter:12", "base58 prefix:ord_");
        let text = describe(&tagged, NOW, Palette::PLAIN).expect("described");
        for expected in [
            "each of up to 64 slots issues up to 4_096_000 identifiers a second, until 2084-09-06T15:47:35Z",
            "each request supplies a value from 0 to 15 (kent alloc layout:orders --tag N)",
            "nothing was issued yet",
            "An example of slot 0:",
            "time    2026-11-26T00:00:00.000Z",
            "id      ord_",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn ok_layouts_are_listed() {
        let layouts = [message("time:42:1ms@2020-01-01 slot:10 counter:12", "crockford")];
        assert_eq!(
            table(&layouts).render(Palette::PLAIN),
            "LAYOUT  BITS  TEXT       USED  UNTIL       FIELDS\n\
             orders    64  crockford  no    2100-01-01  time:42:1ms@2020-01-01 slot:10 counter:12\n"
        );
        assert_eq!(to_json(&layouts[0])["bits"], json!(64));
    }
}
