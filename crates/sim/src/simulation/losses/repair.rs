//! Simulates the work of operators after a restore: they repeat lost edits, so that the tables match the lost ones
//! where possible.

use std::collections::BTreeSet;

use kent_proto::v1::{
    CreateRegionRequest, DelegateRegionRequest, ExpandRegionRequest, RenameRegionRequest, SealRegionRequest,
    ShrinkRegionRequest, SplitRegionRequest, UpdateRegionRequest, region,
};
use kent_regions::{Kind, Order, Region, Table};
use tokio::time;

use super::super::{
    checks::{Tables, table},
    edits::{EditKind, send_until_answered},
    imports::is_lost,
    places::SPACES,
    run::{REPLICAS, Run, TRIES},
};

/// Returns whether a region has the same place and shape as before the loss.
fn is_same_place(before: &Region, now: &Region) -> bool {
    let place = |region: &Region| {
        let Region { prefix, zone, suffix, kind, sub_bits, order, delegated, .. } = *region;
        (prefix, zone, suffix, kind, sub_bits, order, delegated)
    };
    place(before) == place(now)
}

/// Repeats lost edits in the restored tables. Regions that match the lost table are unsealed. Regions that cannot be
/// made to match stay sealed and are never edited. Regions that the backup lacks are created again, so that their
/// prefixes do not become free. `floored` lists the regions that got a floor in this or an earlier restore from this
/// backup.
pub(super) async fn repair(run: &Run, lost: &Tables, floored: &BTreeSet<(String, u64)>, number: u64) {
    for (space, before) in lost {
        if is_inside_suspect(run, space) || is_lost_import(run, space).await {
            continue;
        }
        let Some(restored) = read_table(run, space).await else {
            return run.violation(format!("cannot read the restored table of {space}"));
        };
        let repair =
            Repair { run, space, bits: before.bits(), floored, id: format!("repair-{number}-{}", run.restores()) };
        for was in before.iter() {
            let Some(now) = restored.get(was.number) else { continue };
            match repair.reshape(was, now).await {
                true => repair.unseal(was, now).await,
                false => run.suspect(space, &was.name),
            }
        }
        let Some(reshaped) = read_table(run, space).await else {
            return run.violation(format!("cannot read the restored table of {space}"));
        };
        for was in before.iter().filter(|was| restored.get(was.number).is_none()) {
            repair.recreate(&reshaped, was).await;
        }
    }
}

/// Returns whether a region that contains the space differs from its state in the lost store. If so, the space might
/// not exist.
fn is_inside_suspect(run: &Run, space: &str) -> bool {
    let mut inside = space;
    while let Some((outer, region)) = inside.rsplit_once('/') {
        if run.is_suspect(outer, region) {
            return true;
        }
        inside = outer;
    }
    false
}

/// Returns whether the outermost space of this path is missing because it was created for an import since the backup.
/// If so, the import is repeated later, or the space stays lost.
async fn is_lost_import(run: &Run, space: &str) -> bool {
    let root = space.split('/').next().unwrap_or_default();
    !SPACES.contains(&root) && is_lost(run, root).await == Some(true)
}

/// The repair of one table.
struct Repair<'r> {
    run: &'r Run,
    space: &'r str,
    bits: u8,
    floored: &'r BTreeSet<(String, u64)>,
    id: String,
}

impl Repair<'_> {
    fn id(&self, was: &Region, what: &str) -> String {
        format!("{}-{}-{what}", self.id, was.number.0)
    }

    async fn send_until_answered(&self, request_id: String, what: EditKind) -> bool {
        send_until_answered(self.run, self.space, request_id, what).await
    }

    /// Repeats the lost edits of a region, one edit of each kind. Returns false if the region cannot be made to match.
    async fn reshape(&self, was: &Region, now: &Region) -> bool {
        let (run, space, name) = (self.run, self.space, name_of(self.space, &was.name));
        if was.name != now.name {
            let request_id = self.id(was, "rename");
            let (name, region_id) = (name_of(space, &now.name), was.name.to_string());
            let rename = RenameRegionRequest { name, region_id, request_id: request_id.clone(), ..Default::default() };
            if !self.send_until_answered(request_id, EditKind::Rename(rename)).await {
                return false;
            }
        }
        if is_same_place(was, now) {
            return true;
        }
        let by_split = was.prefix.len().saturating_sub(now.prefix.len());
        let is_alike = was.kind == Kind::Open && now.kind == Kind::Open && was.order == now.order && !now.delegated;
        if !is_alike || now.prefix.zeros(by_split) != was.prefix {
            return false;
        }
        if now.suffix > was.suffix {
            let (request_id, by_bits) = (self.id(was, "shrink"), (now.suffix - was.suffix).into());
            let (name, id) = (name.clone(), request_id.clone());
            let shrink = ShrinkRegionRequest { name, by_bits, request_id: id, ..Default::default() };
            if !self.send_until_answered(request_id, EditKind::Shrink(shrink)).await {
                return false;
            }
            run.faults.shrinks.count();
        }
        if by_split > 0 {
            let (request_id, by_bits) = (self.id(was, "split"), by_split.into());
            let (name, id) = (name.clone(), request_id.clone());
            let split = SplitRegionRequest { name, by_bits, request_id: id, ..Default::default() };
            if !self.send_until_answered(request_id, EditKind::Split(split)).await {
                return false;
            }
            run.faults.splits.count();
        }
        if was.suffix > now.suffix {
            let (request_id, by_bits) = (self.id(was, "expand"), (was.suffix - now.suffix).into());
            let (name, id) = (name.clone(), request_id.clone());
            let expand = ExpandRegionRequest { name, by_bits, request_id: id, ..Default::default() };
            if !self.send_until_answered(request_id, EditKind::Expand(expand)).await {
                return false;
            }
            let is_floored = self.floored.contains(&(run.places.origin(space), was.number.0));
            if is_floored && !self.set_next(was, run.floor(space, self.bits, was)).await {
                return false;
            }
        }
        !was.delegated || self.delegate(was).await
    }

    async fn delegate(&self, was: &Region) -> bool {
        let (name, request_id) = (name_of(self.space, &was.name), self.id(was, "delegate"));
        let delegate = DelegateRegionRequest { name, request_id: request_id.clone(), ..Default::default() };
        let made = self.send_until_answered(request_id, EditKind::Delegate(delegate)).await;
        if made {
            self.run.places.delegated(self.space, &was.name);
            self.run.faults.delegations.count();
        }
        made
    }

    /// Sets a floor. Returns false if no floor is known, or if the edit fails.
    async fn set_next(&self, was: &Region, floor: Option<u128>) -> bool {
        let Some(floor) = floor else { return false };
        let (name, request_id) = (name_of(self.space, &was.name), self.id(was, "floor"));
        let update = UpdateRegionRequest {
            name,
            next: Some(floor.into()),
            request_id: request_id.clone(),
            ..Default::default()
        };
        self.send_until_answered(request_id, EditKind::Update(update)).await
    }

    /// Creates a region that the backup lacks, with its old prefix, unless another region covers the prefix.
    async fn recreate(&self, restored: &Table, was: &Region) {
        let (run, space) = (self.run, self.space);
        let covers = |now: &Region| now.kind == Kind::Open && was.prefix.starts_with(now.prefix);
        if was.delegated && (was.parent().is_some() || restored.iter().any(covers)) {
            run.suspect(space, &was.name);
        }
        if restored.iter().any(covers) {
            return;
        }
        if let Some(parent) = was.parent() {
            // Operators do not edit the parent, so that the subregion's prefix stays unused.
            if let Some(parent) = restored.get(parent) {
                run.suspect(space, &parent.name);
            }
            return;
        }
        let is_open = was.kind == Kind::Open;
        let order = match was.order {
            // The subregions are not created again, so nothing may be issued from the region.
            _ if !is_open => region::Order::External,
            Order::Sequential => region::Order::Sequential,
            Order::Scrambled => region::Order::Scrambled,
            Order::External => region::Order::External,
        };
        let request_id = self.id(was, "create");
        let create = CreateRegionRequest {
            parent: format!("spaces/{space}"),
            region_id: was.name.to_string(),
            suffix_bits: Some(if is_open { was.suffix.into() } else { u32::from(self.bits - was.prefix.len()) }),
            prefix: Some(was.prefix.to_string()),
            order: order.into(),
            pace: was.pace.get(),
            request_id: request_id.clone(),
            ..CreateRegionRequest::default()
        };
        if !self.send_until_answered(request_id, EditKind::Create(create)).await {
            // Without this region, another region could get its prefix.
            return run.violation(format!("cannot create {} of {space} again", was.name));
        }
        run.places.add(space, &was.name);
        if was.delegated {
            // A delegated region has issued nothing itself, so its floor is 0.
            if !(self.set_next(was, Some(0)).await && self.delegate(was).await) {
                run.suspect(space, &was.name);
            }
        } else if is_open && order != region::Order::External {
            // Without a floor, the region issues nothing.
            self.set_next(was, run.floor(space, self.bits, was)).await;
        }
    }

    async fn unseal(&self, was: &Region, now: &Region) {
        if was.sealed || !now.sealed {
            return;
        }
        let (name, request_id) = (name_of(self.space, &was.name), self.id(was, "unseal"));
        let unseal = SealRegionRequest { name, request_id: request_id.clone(), ..SealRegionRequest::default() };
        self.send_until_answered(request_id, EditKind::Unseal(unseal)).await;
    }
}

fn name_of(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}

async fn read_table(run: &Run, space: &str) -> Option<Table> {
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
