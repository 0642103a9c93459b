//! `kent region create --plan` when no prefix is free: the regions that could be split, the cost, and the command for
//! each.

use std::num::NonZeroU64;

use kent_client::tonic::Status;
use kent_proto::v1::{CreateRegionRequest, region::Order};
use serde_json::json;

use crate::args::{CreateArgs, OrderArg};
use crate::failure::{Failure, Refusal};
use crate::names;
use crate::output::{Out, Palette, Role};
use crate::suggested;
use crate::table::{Cell, Table};

/// A region that could be split. It would lose the lowest bit of its expansion zone, and with it half of its ultimate
/// capacity.
struct Donor<'a> {
    region: &'a str,
    zone_bits: u32,
}

/// Prints the regions that could be split. If the refusal names no such regions, returns it as a failure.
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
    let intro = "no prefix is free; a split of one of these regions, which takes one bit of its expansion zone, would free a prefix:\n";
    format!("{intro}{}", table.render(palette))
}

/// Returns the request that creates the region, without the options that all edits have in common.
pub(crate) fn request_of(args: &CreateArgs) -> CreateRegionRequest {
    let order = match args.order {
        OrderArg::Sequential => Order::Sequential,
        OrderArg::Scrambled => Order::Scrambled,
        OrderArg::External => Order::External,
    };
    CreateRegionRequest {
        parent: names::space(&args.edit.space.space),
        region_id: args.name.clone(),
        suffix_bits: Some(args.suffix),
        zone_bits: args.zone,
        prefix: args.prefix.as_ref().map(ToString::to_string),
        next: Some(args.next.into()),
        auto_split: args.auto_split,
        split_donor: args.split_donor.clone().unwrap_or_default(),
        order: order.into(),
        pace: args.pace.map_or(0, NonZeroU64::get),
        ..CreateRegionRequest::default()
    }
}

/// Returns the command that splits this donor and creates the region in the freed prefix.
fn command(args: &CreateArgs, donor: &Donor<'_>) -> String {
    let split_donor = donor.region.to_owned();
    let request = CreateRegionRequest { split_donor, auto_split: false, ..request_of(args) };
    // OK because the arguments set neither a policy nor a seal, so a command exists.
    suggested::create(&request).unwrap_or_default()
}
