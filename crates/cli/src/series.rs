//! `kent series`: lists, creates and forgets series of numbers.

use kent_client::Daemon;
use kent_client::tonic::Request;
use kent_proto::v1::{CreateSeriesRequest, ForgetSeriesRequest, ListSeriesRequest, Series};
use serde_json::{Value, json};

use crate::args::SeriesCommand;
use crate::connect::request;
use crate::failure::Failure;
use crate::number;
use crate::output::Out;
use crate::table::{Cell, Table};

pub(crate) async fn run(command: &SeriesCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let mut results = Vec::new();
    // If the daemon refuses a series, the ones handled before it are still printed.
    let done = execute(command, daemon, &mut results).await;
    let printed = print(&results, out);
    done.and(printed)
}

async fn execute(command: &SeriesCommand, daemon: &Daemon, results: &mut Vec<Series>) -> Result<(), Failure> {
    let mut admin = daemon.admin();
    match command {
        SeriesCommand::Ls => {
            // No deadline, because the list may have a million entries.
            let mut pages = admin.list_series(Request::new(ListSeriesRequest {})).await?.into_inner();
            while let Some(page) = pages.message().await? {
                results.extend(page.series);
            }
        }
        SeriesCommand::Create(args) => {
            for series in &args.series {
                let create = CreateSeriesRequest { source: series.to_string() };
                results.push(admin.create_series(request(create)).await?.into_inner());
            }
        }
        SeriesCommand::Forget(args) => {
            for series in &args.series {
                let forget = ForgetSeriesRequest { source: series.to_string() };
                results.push(admin.forget_series(request(forget)).await?.into_inner());
            }
        }
    }
    Ok(())
}

fn print(series: &[Series], out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return series.iter().try_for_each(|series| out.json(&to_json(series)));
    }
    if series.is_empty() {
        return Ok(());
    }
    let text = table(series).render(out.palette());
    out.text(&text)
}

fn table(all: &[Series]) -> Table {
    let mut table = Table::new(["SERIES", ">RESERVED", "CREATED BY"]);
    for series in all {
        let creator = if series.on_demand { "a caller" } else { "an operator" };
        table.row([Cell::from(&series.source), number::grouped(&series.reserved).into(), creator.into()]);
    }
    table
}

/// Converts a series to JSON. `reserved` is a string because it may exceed the 53 bits of a JSON number.
fn to_json(series: &Series) -> Value {
    json!({"source": series.source, "reserved": series.reserved, "on_demand": series.on_demand})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    #[test]
    fn ok_series_for_people_and_programs() {
        let series = Series { source: "serial:GBP".to_owned(), reserved: "1025".to_owned(), on_demand: true };
        assert_eq!(
            table(std::slice::from_ref(&series)).render(Palette::PLAIN),
            "SERIES      RESERVED  CREATED BY\n\
             serial:GBP     1_025  a caller\n"
        );
        assert_eq!(to_json(&series), json!({"source": "serial:GBP", "reserved": "1025", "on_demand": true}));
    }
}
