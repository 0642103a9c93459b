//! Random edits of all kinds on two replicas, with grants and restarts, and with commits that arrive late or whose
//! answers are lost. No number of a space is granted twice, even if the space was deleted and created again, and
//! nothing is granted under a seal that is in effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use kent_proto::v1::{
    AddSubregionsRequest, DeleteRegionRequest, DeleteSpaceRequest, ImportTableRequest, NewRegion, RegionChange,
    RenameRegionRequest, SealRegionRequest, ShrinkRegionRequest, SplitRegionRequest, UndoEditRequest,
};

use kent_engine::{host::tasks::Tasks, records::failure::LoadError};
use kent_store::{CommitError, Committed, Images, Key, Peers, ReadError, Stats, Unknown, Versioned};
use tonic::async_trait;

use super::*;

/// A store that applies some commits late, after it has reported the outcome of these commits as unknown.
#[derive(Debug)]
struct Late {
    disk: Arc<MemoryStore>,
    faults: Mutex<Dice>,
    tasks: Tasks,
}

#[async_trait]
impl Store for Late {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.disk.get(key).await
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        self.disk.scan(prefix).await
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let late = {
            let mut faults = self.faults.lock().expect("no panic");
            (faults.below(20) == 0).then(|| Duration::from_micros(faults.below(20_000)))
        };
        let Some(late) = late else { return self.disk.commit(txn).await };
        let disk = self.disk.clone();
        // The commit arrives even if the daemon has stopped.
        let _arriving = self.tasks.spawn_work(async move {
            time::sleep(late).await;
            disk.commit(txn).await
        });
        Err(Unknown::new("it may come late").into())
    }

    fn peers(&self) -> Option<&dyn Peers> {
        self.disk.peers()
    }

    fn images(&self) -> Option<Arc<dyn Images>> {
        self.disk.images()
    }

    fn store_id(&self) -> StoreId {
        self.disk.store_id()
    }

    fn stats(&self) -> Stats {
        self.disk.stats()
    }

    async fn close(&self) {
        self.disk.close().await;
    }
}

/// Starts a daemon whose store loses some answers. The daemon must accept the tables.
async fn start_late(disk: &MemoryStore, faults: &mut Dice) -> Node {
    let settings = Settings { chunk_min: Some(2), chunk_max: Some(4), ..Settings::default() };
    let config = Config::check(settings).expect("valid");
    loop {
        let store = Late {
            disk: Arc::new(disk.reopen()),
            faults: Mutex::new(Dice(faults.below(1 << 40) + 1)),
            tasks: Tasks::on_this_runtime(),
        };
        let (store, clock, entropy) = (Arc::new(store), Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        match Node::start(Environment { store, clock, entropy }, &config).await {
            Ok(node) => {
                node.engine().slots().wait_for_slot(Duration::from_secs(5)).await;
                return node;
            }
            Err(LoadError::Store(failure)) if failure.is_temporary() => {}
            Err(error) => panic!("a daemon cannot start: {error}"),
        }
    }
}

/// The width of the space `s`. The width is small, so that prefixes and numbers are soon reused.
const BITS: u32 = 14;
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const RUNS: u64 = 10;
const STEPS: u32 = 120;

/// A seeded random number generator.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).expect("few")]
    }

    fn bits(&mut self) -> u32 {
        u32::try_from(1 + self.below(2)).expect("few")
    }
}

/// The state of a run: the numbers granted in `s`, the latest export of each space, and how often each operation
/// succeeded.
#[derive(Default)]
struct Kept {
    granted: BTreeSet<u128>,
    exported: Mutex<BTreeMap<String, Vec<Region>>>,
    made: BTreeMap<&'static str, u32>,
}

fn resource(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}

async fn listed(node: &Node, space: &str) -> Vec<Region> {
    let parent = format!("spaces/{space}");
    let list = ListRegionsRequest { parent, exact_counters: true, ..ListRegionsRequest::default() };
    node.regions().list_regions(Request::new(list)).await.map_or(Vec::new(), |page| page.into_inner().regions)
}

/// The first number of a region in `s`.
fn base(region: &Region, bits: u32) -> u128 {
    let prefix = u128::from_str_radix(&format!("0{}", region.prefix), 2).expect("a prefix");
    prefix << (bits - u32::try_from(region.prefix.len()).expect("few"))
}

/// Requests up to three numbers, and records them as granted in `s`.
async fn grant(node: &Node, dice: &mut Dice, kept: &mut Kept) {
    let (space, region) = pick(node, dice).await;
    let outer = space.strip_prefix("s/").map(|outer| outer.to_owned());
    let around = match &outer {
        None => 0,
        Some(outer) => {
            let all = listed(node, "s").await;
            let Some(outer) = all.iter().find(|region| region.name.ends_with(&format!("/{outer}"))) else { return };
            base(outer, BITS)
        }
    };
    let count = 1 + dice.below(3);
    let source = format!("region:{region}@{space}");
    let ask = AllocateRequest { source: source.clone(), count, ..Default::default() };
    let granted = match node.allocator().allocate(Request::new(ask)).await {
        Ok(granted) => granted,
        Err(_) => return,
    };
    let Some(Identifiers::Lease(lease)) = granted.into_inner().identifiers else { panic!("expected a lease") };
    let block = kent_ids::Block::try_from(lease).expect("a block");
    // Identifiers of regions contain no random bits.
    for id in block.walk(rand::rng()).map(|id| id.to_u128() + around) {
        assert!(kept.granted.insert(id), "{id} was granted twice, the second time from {source}");
    }
    *kept.made.entry("grant").or_default() += 1;
}

/// Picks the space `s` or the space of a delegated region in it, and a name, usually the name of an existing region
/// there.
async fn pick(node: &Node, dice: &mut Dice) -> (String, &'static str) {
    let name = |region: &Region| NAMES.into_iter().find(|name| region.name.ends_with(&format!("/{name}")));
    let mut space = "s".to_owned();
    let mut here = listed(node, &space).await;
    let delegated: Vec<_> = here.iter().filter(|it| !it.delegated_space.is_empty()).filter_map(name).collect();
    if !delegated.is_empty() && dice.below(3) == 0 {
        space = format!("s/{}", dice.of(&delegated));
        here = listed(node, &space).await;
    }
    let names: Vec<_> = here.iter().filter_map(name).collect();
    let region = if names.is_empty() || dice.below(4) == 0 { dice.of(&NAMES) } else { dice.of(&names) };
    (space, region)
}

/// Attempts a random edit. Most attempts are refused.
async fn edit(node: &Node, dice: &mut Dice, kept: &Mutex<BTreeMap<String, Vec<Region>>>) -> (&'static str, bool) {
    let (regions, by_bits) = (node.regions(), dice.bits());
    let (space, region) = pick(node, dice).await;
    let name = resource(&space, region);
    let new = |dice: &mut Dice, extension: Option<String>| NewRegion {
        region_id: dice.of(&NAMES).to_owned(),
        suffix_bits: Some(u32::try_from(1 + dice.below(3)).expect("few")),
        extension,
        ..NewRegion::default()
    };
    match dice.below(26) {
        0..4 => {
            let (parent, region_id) = (format!("spaces/{space}"), region.to_owned());
            let suffix_bits = Some(u32::try_from(1 + dice.below(7)).expect("few"));
            let order = if dice.below(3) == 0 { kent_proto::v1::region::Order::Scrambled.into() } else { 0 };
            let (zone_bits, auto_split) = (Some(dice.bits()), dice.below(2) == 0);
            let sealed = dice.below(9) == 0;
            let create = CreateRegionRequest {
                parent,
                region_id,
                suffix_bits,
                order,
                zone_bits,
                auto_split,
                sealed,
                ..Default::default()
            };
            ("create", regions.create_region(Request::new(create)).await.is_ok())
        }
        4 => {
            let expand = ExpandRegionRequest { name, by_bits, ..Default::default() };
            ("expand", regions.expand_region(Request::new(expand)).await.is_ok())
        }
        5 => {
            let shrink = ShrinkRegionRequest { name, by_bits, ..Default::default() };
            ("shrink", regions.shrink_region(Request::new(shrink)).await.is_ok())
        }
        6 => {
            let new_regions = if dice.below(2) == 0 { vec![new(dice, None)] } else { Vec::new() };
            let split = SplitRegionRequest { name, by_bits, new_regions, ..Default::default() };
            ("split", regions.split_region(Request::new(split)).await.is_ok())
        }
        7 | 8 | 20.. => {
            let closes = dice.below(4) != 0;
            let extension = Some(if closes { "0" } else { "1" }.repeat(usize::try_from(by_bits).expect("few")));
            let suffix_bits = if closes { None } else { Some(1) };
            let new_regions = vec![NewRegion { suffix_bits, ..new(dice, extension) }];
            let divide = AddSubregionsRequest {
                name,
                by_bits,
                new_regions,
                r#abstract: closes,
                ..AddSubregionsRequest::default()
            };
            ("divide", regions.add_subregions(Request::new(divide)).await.is_ok())
        }
        9 | 10 => {
            let delegate = DelegateRegionRequest { name, ..Default::default() };
            ("delegate", regions.delegate_region(Request::new(delegate)).await.is_ok())
        }
        11..13 => {
            let delete = DeleteRegionRequest { name, ..Default::default() };
            let present = listed(node, &space).await;
            kept.lock().expect("no panic").insert(space, present);
            ("delete", regions.delete_region(Request::new(delete)).await.is_ok())
        }
        13 => {
            let delete = DeleteSpaceRequest { name: format!("spaces/{space}"), validate_only: false };
            ("delete space", regions.delete_space(Request::new(delete)).await.is_ok())
        }
        14 => {
            let name = if dice.below(2) == 0 { name } else { format!("spaces/{space}") };
            undo(node, name).await
        }
        15 => {
            let region_id = dice.of(&NAMES).to_owned();
            let rename = RenameRegionRequest { name, region_id, ..Default::default() };
            ("rename", regions.rename_region(Request::new(rename)).await.is_ok())
        }
        16 if dice.below(3) == 0 => {
            let next = Some(kent_proto::v1::Uint128 { high: 0, low: dice.below(6) });
            let update = UpdateRegionRequest { name, next, ..Default::default() };
            ("next", regions.update_region(Request::new(update)).await.is_ok())
        }
        16 => {
            let policy = match dice.below(3) {
                0 => Policy { strict: true, ..Policy::default() },
                1 => Policy { cap: (1 + dice.below(9)).to_string(), ..Policy::default() },
                _ => Policy::default(),
            };
            let policy_mask = Some(kent_proto::v1::FieldMask { paths: vec!["*".to_owned()] });
            let update = UpdateRegionRequest { name, policy: Some(policy), policy_mask, ..Default::default() };
            ("policy", regions.update_region(Request::new(update)).await.is_ok())
        }
        _ => import(node, dice, &space, kept).await,
    }
}

/// Reverts the last edit of a table or of a region.
async fn undo(node: &Node, name: String) -> (&'static str, bool) {
    let undo = UndoEditRequest { name, ..UndoEditRequest::default() };
    match node.regions().undo_edit(Request::new(undo)).await {
        Ok(undone) => (reverted(&undone.into_inner().changes), true),
        Err(_) => ("undo", false),
    }
}

/// Classifies a reversal by its changes.
fn reverted(changes: &[RegionChange]) -> &'static str {
    let changed = changes.iter().filter_map(|it| it.before.as_ref().zip(it.after.as_ref()));
    let is_closed = |region: &Region| region.kind() == kent_proto::v1::region::Kind::Closed;
    let (mut is_shorter, mut is_longer, mut is_reopened, mut is_closed_again) = (false, false, false, false);
    for (before, after) in changed {
        is_shorter |= after.prefix.len() < before.prefix.len();
        is_longer |= after.prefix.len() > before.prefix.len();
        is_reopened |= is_closed(before) && !is_closed(after);
        is_closed_again |= !is_closed(before) && is_closed(after);
    }
    let creates = changes.iter().any(|it| it.before.is_none());
    let deletes = changes.iter().any(|it| it.after.is_none());
    match (creates, deletes) {
        _ if is_shorter && deletes => "undo of a split with new regions",
        _ if is_shorter => "undo of a split",
        _ if is_longer => "undo of the undo of a split",
        _ if is_reopened => "undo of a close",
        _ if is_closed_again => "undo of the undo of a close",
        (true, _) => "undo of a deletion",
        (_, true) => "undo of a creation",
        _ => "undo of an update",
    }
}

/// Exports a table, or imports those regions of an earlier export that have been deleted since the export. Nothing was
/// granted from a deleted region.
async fn import(
    node: &Node,
    dice: &mut Dice,
    space: &str,
    kept: &Mutex<BTreeMap<String, Vec<Region>>>,
) -> (&'static str, bool) {
    let present = listed(node, space).await;
    let lock = || kept.lock().expect("no panic");
    if dice.below(6) == 0 {
        lock().insert(space.to_owned(), present);
        return ("export", true);
    }
    let numbers: BTreeSet<u64> = present.iter().map(|region| region.number).collect();
    let deleted = |region: &Region| !numbers.contains(&region.number);
    let exported = lock().get(space).cloned().unwrap_or_default();
    let regions: Vec<Region> = exported.into_iter().filter(deleted).filter(|_| dice.below(3) != 0).collect();
    let bits = node.engine().directory().find(space).map_or(0, |space| u32::from(space.read(Table::bits)));
    let parent = format!("spaces/{space}");
    let import = ImportTableRequest { parent, bits, regions, ..ImportTableRequest::default() };
    ("import", node.regions().import_table(Request::new(import)).await.is_ok())
}

/// Seals a region, checks that neither the region nor any region inside it grants numbers, and unseals the region.
async fn seal(nodes: [&Node; 2], dice: &mut Dice, kept: &mut Kept) {
    let sealed = dice.of(&NAMES);
    let request = || Request::new(SealRegionRequest { name: resource("s", sealed), ..Default::default() });
    let Ok(done) = nodes[0].regions().seal_region(request()).await else { return };
    if done.into_inner().unconfirmed.is_empty() {
        for node in nodes {
            for (space, region) in NAMES.into_iter().map(|region| (format!("s/{sealed}"), region)) {
                let source = format!("region:{region}@{space}");
                let ask = AllocateRequest { source: source.clone(), count: 1, ..Default::default() };
                assert!(node.allocator().allocate(Request::new(ask)).await.is_err(), "{source} is sealed");
            }
            let source = format!("region:{sealed}@s");
            let ask = AllocateRequest { source: source.clone(), count: 1, ..Default::default() };
            assert!(node.allocator().allocate(Request::new(ask)).await.is_err(), "{source} is sealed");
        }
        *kept.made.entry("seal").or_default() += 1;
    }
    // OK because a late commit may have deleted the region.
    let _ = nodes[1].regions().unseal_region(request()).await;
}

async fn run(seed: u64, made: &mut BTreeMap<&'static str, u32>) {
    let disk = disk();
    let (mut dice, mut kept) = (Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), Kept::default());
    let mut faults = Dice(seed + 77);
    let mut nodes = [start_late(&disk, &mut faults).await, start_late(&disk, &mut faults).await];
    disk.plan(move |operation| match (operation, faults.below(40)) {
        (Operation::Commit(_), 0) => Fault::AppliedUnknown,
        (Operation::Commit(_), 1) => Fault::LostUnknown,
        (Operation::Commit(_), 2..6) => Fault::DelayBefore(Box::pin(time::sleep(Duration::from_millis(1)))),
        _ => Fault::None,
    });
    let mut starts = Dice(seed + 78);
    for _ in 0..STEPS {
        if dice.below(15) == 0 {
            let at = usize::try_from(dice.below(2)).expect("few");
            let fresh = start_late(&disk, &mut starts).await;
            let old = std::mem::replace(&mut nodes[at], fresh);
            match dice.below(2) {
                0 => old.stop().await,
                _ => old.abandon().await,
            }
        }
        assert!(nodes.iter().all(|node| !node.has_failed()), "a daemon has stopped");
        let create = CreateSpaceRequest { space_id: "s".to_owned(), bits: BITS, ..CreateSpaceRequest::default() };
        // OK because the space usually exists.
        let _ = nodes[0].regions().create_space(Request::new(create)).await;
        let (one, other) = if dice.below(2) == 0 { (&nodes[0], &nodes[1]) } else { (&nodes[1], &nodes[0]) };
        let mut dice_of_other = Dice(dice.below(1 << 40) + 1);
        let exported = std::mem::take(&mut kept.exported);
        let ((operation, is_made), ()) = match dice.below(3) {
            0 => {
                let (first, (operation, is_made)) =
                    join(edit(one, &mut dice, &exported), edit(other, &mut dice_of_other, &exported)).await;
                *kept.made.entry(operation).or_default() += u32::from(is_made);
                (first, ())
            }
            _ => join(edit(one, &mut dice, &exported), grant(other, &mut dice_of_other, &mut kept)).await,
        };
        kept.exported = exported;
        *kept.made.entry(operation).or_default() += u32::from(is_made);
        // Make reversals, reversals of reversals, and grants in between.
        while is_made && dice.below(2) == 0 && ["create", "split", "divide", "delete", "import"].contains(&operation) {
            let (node, other) = if dice.below(2) == 0 { (one, other) } else { (other, one) };
            let ((operation, is_made), ()) = match dice.below(3) {
                0 => join(undo(node, "spaces/s".to_owned()), grant(other, &mut dice_of_other, &mut kept)).await,
                _ => (undo(node, "spaces/s".to_owned()).await, ()),
            };
            *kept.made.entry(operation).or_default() += u32::from(is_made);
            if dice.below(3) == 0 {
                grant(other, &mut dice, &mut kept).await;
            }
        }
        for node in [one, other].into_iter().take(usize::try_from(dice.below(3)).expect("few")) {
            grant(node, &mut dice, &mut kept).await;
        }
        if dice.below(12) == 0 {
            seal([one, other], &mut dice, &mut kept).await;
        }
    }
    kept.made.into_iter().for_each(|(operation, count)| *made.entry(operation).or_default() += count);
}

#[tokio::test]
async fn ok_random_edits_of_all_kinds_repeat_no_number() {
    let mut made = BTreeMap::new();
    for seed in 0..RUNS {
        run(seed, &mut made).await;
    }
    for operation in ["create", "undo of a close", "undo of a creation", "undo of a deletion", "grant", "seal"] {
        assert!(made.get(operation).is_some_and(|count| *count > 0), "{operation}: {made:?}");
    }
}
