//! Edits under load: clients request identifiers, with one chunk per grant, while the region is expanded, split and
//! subdivided.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kent_proto::v1::{
    AddSubregionsRequest, ClassifyRequest, CreateRegionRequest, Encoding, ExpandRegionRequest, NewRegion,
    SplitRegionRequest, regions_client::RegionsClient,
};
use tokio::{task::JoinSet, time};
use tonic::transport::Channel;

use super::harness::{Daemon, data_dir, identifiers, kentd, request};

const SPACE: &str = "spaces/default";
/// The number of rounds of the three edits.
const GENERATIONS: u32 = 12;
/// The number of identifiers drawn between two rounds of edits.
const DRAWN_BETWEEN: usize = 50;

/// The region of each identifier, and the region from which clients currently request identifiers.
#[derive(Debug, Default)]
struct World {
    drawn: Mutex<HashMap<u128, String>>,
    region: Mutex<String>,
}

impl World {
    fn region(&self) -> String {
        self.region.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until this number of identifiers has been issued.
    async fn wait_for(&self, count: usize) {
        while self.drawn.lock().unwrap_or_else(PoisonError::into_inner).len() < count {
            time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn draw_from(&self, region: String) {
        *self.region.lock().unwrap_or_else(PoisonError::into_inner) = region;
    }
}

fn name(region: &str) -> String {
    format!("{SPACE}/regions/{region}")
}

fn new_region(region: String, suffix_bits: Option<u32>, extension: &str) -> NewRegion {
    NewRegion { region_id: region, suffix_bits, extension: Some(extension.to_owned()), ..NewRegion::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_concurrent_edits_and_grants_neither_hang_nor_repeat_or_lose_an_identifier() {
    let data = data_dir();
    let daemon = Daemon::spawn(kentd(data.path()).args(["--chunk-min", "1", "--chunk-max", "1"]));
    let world = Arc::new(World::default());
    create(&daemon).await;
    world.draw_from("r0".to_owned());
    let mut drawers = JoinSet::new();
    for _ in 0..6 {
        drawers.spawn(draw(daemon.allocator(), world.clone()));
    }
    let edits = edit(daemon.regions(), &world);
    time::timeout(Duration::from_secs(60), edits).await.expect("an edit hangs").expect("every edit is legal");
    drawers.shutdown().await;
    let drawn = world.drawn.lock().unwrap_or_else(PoisonError::into_inner).clone();
    check_owners(daemon.regions(), &drawn).await;
}

async fn create(daemon: &Daemon) {
    let create = CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: "r0".to_owned(),
        suffix_bits: Some(16),
        prefix: Some("1".to_owned()),
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(create).await.expect("created");
}

/// Requests single identifiers. Refusals while the region closes are expected.
async fn draw(mut client: kent_proto::v1::allocator_client::AllocatorClient<Channel>, world: Arc<World>) {
    loop {
        let region = world.region();
        let asked = request(&format!("region:{region}"), 1, Encoding::Packed);
        let Ok(reply) = client.allocate(asked).await else { continue };
        let id = identifiers(reply.get_ref())[0];
        let before = world.drawn.lock().unwrap_or_else(PoisonError::into_inner).insert(id, region);
        assert_eq!(before, None, "{id:#x} was issued twice");
    }
}

/// Expands and splits the top-level region, then subdivides the innermost region, whose identifiers go to the all-zero
/// subregion.
async fn edit(mut client: RegionsClient<Channel>, world: &World) -> Result<(), tonic::Status> {
    for generation in 0..GENERATIONS {
        let inner = world.region();
        world.wait_for(DRAWN_BETWEEN * (generation as usize + 1)).await;
        let expand = ExpandRegionRequest { name: name(&inner), by_bits: 1, ..ExpandRegionRequest::default() };
        client.expand_region(expand).await?;
        if generation == 0 {
            let new_regions = vec![new_region("split".to_owned(), Some(4), "1")];
            let split =
                SplitRegionRequest { name: name(&inner), by_bits: 1, new_regions, ..SplitRegionRequest::default() };
            client.split_region(split).await?;
        }
        let heir = format!("r{}", generation + 1);
        let new_regions =
            vec![new_region(heir.clone(), None, "0"), new_region(format!("side{generation}"), Some(4), "1")];
        let subdivide =
            AddSubregionsRequest { name: name(&inner), by_bits: 1, new_regions, ..AddSubregionsRequest::default() };
        client.add_subregions(subdivide).await?;
        world.draw_from(heir);
    }
    Ok(())
}

/// Checks that every identifier is an issued member of its region, or of a region inside it.
async fn check_owners(mut client: RegionsClient<Channel>, drawn: &HashMap<u128, String>) {
    let ids: Vec<u128> = drawn.keys().copied().collect();
    for ids in ids.chunks(10_000) {
        let identifiers = ids.iter().map(|id| (*id).into()).collect();
        let ask = ClassifyRequest { parent: SPACE.to_owned(), identifiers };
        let found = client.classify(ask).await.expect("classified").into_inner().classifications;
        for (id, found) in ids.iter().zip(found) {
            assert!(found.issued, "{id:#x} does not count as issued");
            assert!(found.path.contains(&name(&drawn[id])), "{id:#x} left {} for {:?}", drawn[id], found.path);
        }
    }
}
