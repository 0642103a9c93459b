//! `kent series`: series of numbers, those that operators make and those that callers have begun.

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
    let mut shown = Vec::new();
    // What was done before one is refused is shown all the same.
    let done = carry_out(command, daemon, &mut shown).await;
    let printed = print(&shown, out);
    done.and(printed)
}

async fn carry_out(command: &SeriesCommand, daemon: &Daemon, shown: &mut Vec<Series>) -> Result<(), Failure> {
    let mut admin = daemon.admin();
    match command {
        SeriesCommand::Ls => {
            // A list of a million has no deadline.
            let mut pages = admin.list_series(Request::new(ListSeriesRequest {})).await?.into_inner();
            while let Some(page) = pages.message().await? {
                shown.extend(page.series);
            }
        }
        SeriesCommand::Create(args) => {
            for series in &args.series {
                let create = CreateSeriesRequest { source: series.to_string() };
                shown.push(admin.create_series(request(create)).await?.into_inner());
            }
        }
        SeriesCommand::Forget(args) => {
            for series in &args.series {
                let forget = ForgetSeriesRequest { source: series.to_string() };
                shown.push(admin.forget_series(request(forget)).await?.into_inner());
            }
        }
    }
    Ok(())
}

fn print(shown: &[Series], out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return shown.iter().try_for_each(|series| out.json(&to_json(series)));
    }
    if shown.is_empty() {
        return Ok(());
    }
    let text = table(shown).render(out.palette());
    out.text(&text)
}

fn table(shown: &[Series]) -> Table {
    let mut table = Table::new(["SERIES", ">RESERVED", "BEGUN BY"]);
    for series in shown {
        let begun_by = if series.on_demand { "a caller" } else { "an operator" };
        table.row([Cell::from(&series.source), number::grouped(&series.reserved).into(), begun_by.into()]);
    }
    table
}

/// What is reserved may have more than 53 bits: text.
fn to_json(series: &Series) -> Value {
    json!({"source": series.source, "reserved": series.reserved, "on_demand": series.on_demand})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    #[test]
    fn ok_series_for_people_and_programs() {
        let series = Series { source: "serialA:GBP".to_owned(), reserved: "1025".to_owned(), on_demand: true };
        assert_eq!(
            table(std::slice::from_ref(&series)).render(Palette::PLAIN),
            "SERIES       RESERVED  BEGUN BY\n\
             serialA:GBP     1 025  a caller\n"
        );
        assert_eq!(to_json(&series), json!({"source": "serialA:GBP", "reserved": "1025", "on_demand": true}));
    }
}
