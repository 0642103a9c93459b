//! `kent debug dump` prints the latest notable events of a daemon, and `kent log-level` shows or changes the filter of
//! its log.

use kent_client::Daemon;
use kent_ids::UnixNanos;
use kent_proto::v1::{DumpEventsRequest, LogFilter, NotableEvent, SetLogFilterRequest, set_log_filter_request::Change};
use serde_json::{Map, Value, json};

use crate::args::{DebugCommand, LogLevelArgs};
use crate::connect::request;
use crate::failure::Failure;
use crate::number;
use crate::output::Out;
use crate::table::Table;

pub(crate) async fn run(command: &DebugCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let DebugCommand::Dump = command;
    let mut admin = daemon.admin();
    let answer = admin.dump_events(request(DumpEventsRequest {})).await?.into_inner();
    if out.is_json() {
        return answer.events.iter().try_for_each(|event| out.json(&to_json(event)));
    }
    let text = table(&answer.events).render(out.palette());
    out.text(&text)?;
    let kept = answer.events.len() as u64; // OK because a usize has at most 64 bits
    match answer.total > kept {
        true => out.text(&format!("The daemon keeps these of {}.\n", number::counted(answer.total, "event"))),
        false if kept == 0 => out.text("Nothing notable has happened since the daemon started.\n"),
        false => Ok(()),
    }
}

/// Shows or changes the filter of the daemon's log.
pub(crate) async fn log_level(args: &LogLevelArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let change = match &args.filter {
        Some(filter) => Some(Change::Filter(filter.clone())),
        None => args.reset.then_some(Change::Reset(true)),
    };
    let filter = daemon.admin().set_log_filter(request(SetLogFilterRequest { change })).await?.into_inner();
    if out.is_json() {
        let LogFilter { filter, previous, configured } = filter;
        return out.json(&json!({"filter": filter, "previous": previous, "configured": configured}));
    }
    out.text(&render(&filter))
}

fn render(LogFilter { filter, previous, configured }: &LogFilter) -> String {
    let before = if filter == previous { String::new() } else { format!(" (before: {previous})") };
    let only = match filter.split(',').all(|part| part.contains('=')) {
        true => format!("\nnothing else is logged; to log the other modules too: kent log-level info,{filter}"),
        false => String::new(),
    };
    match filter == configured {
        true => format!("{filter}{before}{only}\n"),
        false => format!("{filter}{before}; `kent log-level --reset` returns to {configured}{only}\n"),
    }
}

fn time(event: &NotableEvent) -> String {
    UnixNanos::new(event.unix_nanos.into()).rfc3339(3).unwrap_or_default()
}

fn table(events: &[NotableEvent]) -> Table {
    let mut table = Table::new(["TIME", "EVENT", "FIGURES"]);
    for event in events {
        let figures: Vec<_> = event.figures.iter().map(|figure| format!("{} {}", figure.name, figure.value)).collect();
        table.row([time(event).into(), event.kind.as_str().into(), figures.join(", ").into()]);
    }
    table
}

/// Converts an event to JSON. The values of the figures are strings, because some of them are names.
fn to_json(event: &NotableEvent) -> Value {
    let figures = event.figures.iter().map(|figure| (figure.name.clone(), Value::from(figure.value.as_str())));
    json!({"time": time(event), "event": event.kind, "figures": figures.collect::<Map<_, _>>()})
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::notable_event::Figure;

    use super::*;
    use crate::output::Palette;

    #[test]
    fn ok_events_for_people_and_programs() {
        let figure = |name: &str, value: &str| Figure { name: name.to_owned(), value: value.to_owned() };
        let figures = vec![figure("key", "slot/1"), figure("ms", "140.250")];
        let event = NotableEvent { unix_nanos: 1_500_000_000, kind: "slow-commit".to_owned(), figures };
        assert_eq!(
            table(std::slice::from_ref(&event)).render(Palette::PLAIN),
            "TIME                      EVENT        FIGURES\n\
             1970-01-01T00:00:01.500Z  slow-commit  key slot/1, ms 140.250\n"
        );
        let expected = json!({
            "time": "1970-01-01T00:00:01.500Z", "event": "slow-commit", "figures": {"key": "slot/1", "ms": "140.250"}
        });
        assert_eq!(to_json(&event), expected);
    }

    #[test]
    fn ok_the_filter_says_what_it_was_and_how_to_return() {
        for (filter, previous, expected) in [
            ("info", "info", "info\n"),
            ("debug", "info", "debug (before: info); `kent log-level --reset` returns to info\n"),
            ("debug", "debug", "debug; `kent log-level --reset` returns to info\n"),
            ("info", "debug", "info (before: debug)\n"),
            (
                "kent=debug",
                "info",
                "kent=debug (before: info); `kent log-level --reset` returns to info\n\
                 nothing else is logged; to log the other modules too: kent log-level info,kent=debug\n",
            ),
        ] {
            let [filter, previous, configured] = [filter, previous, "info"].map(str::to_owned);
            assert_eq!(render(&LogFilter { filter, previous, configured }), expected);
        }
    }
}
