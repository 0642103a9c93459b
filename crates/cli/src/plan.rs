//! `kent region create --plan` when no prefix is free: the regions that could be split, the cost, and the command for
//! each.

use kent_client::tonic::Status;
use serde_json::json;

use crate::args::{CreateArgs, OrderArg};
use crate::failure::{Failure, Refusal};
use crate::names;
use crate::output::{Out, Palette, Role};
use crate::table::{Cell, Table};

/// A region that could be split. It would lose the lowest bit of its expansion zone, and with it half of its ultimate
/// capacity.
struct Donor<'a> {
    region: &'a str,
    zone_bits: u32,
}

/// Prints the regions that could be split. A refusal without such regions stays a failure.
pub(crate) fn write(args: &CreateArgs, status: &Status, out: &mut Out) -> Result<(), Failure> {
    let refusal = Refusal::new(status);
    let donors = donors(&refusal);
    if donors.is_empty() {
        return Err(Failure::Refused(Box::new(refusal)));
    }
    if out.is_json() {
        let donor = |donor: &Donor<'_>| {
            json!({
                "donor": donor.region,
                "by_bits": 1,
                "zone_bits_before": donor.zone_bits,
                "zone_bits_after": donor.zone_bits - 1,
                "command": command(args, donor),
            })
        };
        return donors.iter().try_for_each(|it| out.json(&donor(it)));
    }
    let text = render(args, &donors, out.palette());
    out.text(&text)
}

/// Adds suggested commands to a refusal, if its reason is that no prefix is free.
pub(crate) fn with_commands(args: &CreateArgs, failure: Failure) -> Failure {
    let Failure::Refused(mut refusal) = failure else { return failure };
    if refusal.reason.as_deref() == Some("NO_FREE_PREFIX") {
        let donor = donors(&refusal).first().map(|donor| command(args, donor));
        refusal.advice.extend(donor.map(|command| format!("to split the region that loses least: {command}")));
        let widest =
            refusal.facts.iter().find(|(name, _)| name == "widest_suffix").and_then(|(_, bits)| bits.parse().ok());
        let narrower = widest.map(|suffix| create_command(args, suffix));
        refusal.advice.extend(narrower.map(|command| format!("for the widest suffix that fits now: {command}")));
    }
    Failure::Refused(refusal)
}

fn donors(refusal: &Refusal) -> Vec<Donor<'_>> {
    let fact = refusal.facts.iter().find(|(name, _)| name == "donors");
    let donor = |text| {
        let (region, zone) = str::split_once(text, ':')?;
        Some(Donor { region, zone_bits: zone.parse().ok().filter(|bits| *bits > 0)? })
    };
    fact.map(|(_, list)| list.split(',').filter_map(donor).collect()).unwrap_or_default()
}

fn render(args: &CreateArgs, donors: &[Donor<'_>], palette: Palette) -> String {
    let mut table = Table::new(["SPLIT", ">BY", ">ZONE", "COMMAND"]);
    for donor in donors {
        table.row([
            Cell::new(Role::Good, donor.region),
            1.into(),
            format!("{} → {}", donor.zone_bits, donor.zone_bits - 1).into(),
            command(args, donor).into(),
        ]);
    }
    let intro = "no prefix is free; splitting one of these regions by one bit of its expansion zone would free one:\n";
    format!("{intro}{}", table.render(palette))
}

/// Returns the command that splits this donor and creates the region in the freed prefix.
fn command(args: &CreateArgs, donor: &Donor<'_>) -> String {
    format!("{} --split-donor {}", create_command(args, args.suffix), donor.region)
}

/// Returns the command that creates the region, without a donor.
fn create_command(args: &CreateArgs, suffix: u32) -> String {
    let space = names::space_option(&args.edit.space.space);
    let order = match args.order {
        OrderArg::Sequential => "",
        OrderArg::Scrambled => " --order scrambled",
        OrderArg::External => " --order external",
    };
    let next = if args.next == 0 { String::new() } else { format!(" --next {}", args.next) };
    let pace = args.pace.map(|pace| format!(" --pace {pace}")).unwrap_or_default();
    let zone = args.zone.map(|bits| format!(" --zone {bits}")).unwrap_or_default();
    let prefix = args.prefix.as_ref().map(|bits| format!(" --prefix {bits}")).unwrap_or_default();
    let name = &args.name;
    format!("kent region create {name} --suffix {suffix}{zone}{prefix}{order}{next}{pace}{space}")
}
