//! What operators do after a restore: they make the tables what they were, as far as that can be done.

use kent_proto::v1::{CreateRegionRequest, ExpandRegionRequest, SealRegionRequest, UpdateRegionRequest, region};
use kent_regions::{Kind, Order, Region, Table};
use tokio::time;

use super::super::{
    actors::{TRIES, insist},
    checks::table,
    edits::What,
    run::{REPLICAS, Run},
};

/// Two regions that are the same part of their space.
fn is_as_it_was(before: &Region, now: &Region) -> bool {
    let place =
        |region: &Region| (region.prefix, region.zone, region.suffix, region.kind, region.sub_bits, region.order);
    place(before) == place(now)
}

/// Makes the restored tables what the lost ones were, as far as that can be done. What is as it was is unsealed; what is not stays
/// sealed for ever, and is not edited; what would be free now and was not then is made again.
pub(super) async fn repair(run: &Run, lost: &[(&'static str, Table)], number: u64) {
    for (space, before) in lost {
        let Some(restored) = ask_table(run, space).await else {
            return run.violation(format!("the restored table of {space} cannot be read"));
        };
        for was in before.iter() {
            let id = |what: &str| format!("repair-{number}-{}-{}-{what}", run.restores(), was.number.0);
            match restored.get(was.number) {
                Some(now) if is_as_it_was(was, now) => unseal(run, space, was, now, id("unseal")).await,
                Some(now) if is_expanded(was, now) => {
                    let expand = ExpandRegionRequest {
                        name: name_of(space, &now.name),
                        by_bits: (was.suffix - now.suffix).into(),
                        request_id: id("expand"),
                        ..ExpandRegionRequest::default()
                    };
                    match insist(run, space, id("expand"), What::Expand(expand)).await {
                        true => unseal(run, space, was, now, id("unseal")).await,
                        false => run.suspect(space, &now.name),
                    }
                }
                Some(now) => run.suspect(space, &now.name),
                None => remake(run, space, before, &restored, was, id("create")).await,
            }
        }
    }
}

fn is_expanded(was: &Region, now: &Region) -> bool {
    let is_alike =
        was.prefix == now.prefix && was.order == now.order && was.kind == Kind::Open && now.kind == Kind::Open;
    is_alike && was.suffix > now.suffix
}

/// A region that the backup does not know is made anew where it was, unless something else stands there.
async fn remake(run: &Run, space: &'static str, before: &Table, restored: &Table, was: &Region, request_id: String) {
    let covers = |now: &Region| now.kind == Kind::Open && was.prefix.starts_with(now.prefix);
    if restored.iter().any(covers) {
        return;
    }
    if let Some(parent) = was.parent {
        // Its place is kept free.
        if let Some(parent) = restored.get(parent) {
            run.suspect(space, &parent.name);
        }
        return;
    }
    let (bits, is_open) = (before.bits(), was.kind == Kind::Open);
    let order = match was.order {
        // Its subregions are not made again, so nothing may be issued there.
        _ if !is_open => region::Order::External,
        Order::Sequential => region::Order::Sequential,
        Order::Scrambled => region::Order::Scrambled,
        Order::External => region::Order::External,
    };
    let floor = (order == region::Order::Sequential).then(|| run.floor(space, bits, was)).flatten();
    let create = CreateRegionRequest {
        parent: format!("spaces/{space}"),
        region_id: was.name.clone(),
        suffix_bits: if is_open { was.suffix.into() } else { u32::from(bits - was.prefix.len()) },
        prefix: Some(was.prefix.to_string()),
        order: order.into(),
        pace: was.pace.get(),
        request_id: request_id.clone(),
        ..CreateRegionRequest::default()
    };
    let name = name_of(space, &was.name);
    let floor_id = format!("{request_id}-floor");
    if insist(run, space, request_id, What::Create(create)).await {
        run.places.add(space, &was.name);
        if let Some(floor) = floor.filter(|_| is_open) {
            let next = Some(floor.into());
            let update =
                UpdateRegionRequest { name, next, request_id: floor_id.clone(), ..UpdateRegionRequest::default() };
            insist(run, space, floor_id, What::Update(update)).await;
        }
    } else {
        // Its place may not become another region's.
        run.violation(format!("{} of {space} cannot be made again", was.name));
    }
}

async fn unseal(run: &Run, space: &'static str, was: &Region, now: &Region, request_id: String) {
    if was.sealed || !now.sealed {
        return;
    }
    let name = name_of(space, &now.name);
    let unseal = SealRegionRequest { name, request_id: request_id.clone(), ..SealRegionRequest::default() };
    insist(run, space, request_id, What::Unseal(unseal)).await;
}

fn name_of(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}

async fn ask_table(run: &Run, space: &str) -> Option<Table> {
    for _ in 0..TRIES {
        if let Some(life) = run.life(run.dice.between(0, REPLICAS as u64 - 1) as usize)
            && let Ok(table) = table(&life.node.regions(), space).await
        {
            return Some(table);
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

