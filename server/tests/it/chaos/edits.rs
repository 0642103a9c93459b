//! The operator of the chaos test: random edits on random replicas. Each edit has a request ID, and is repeated until
//! it is answered.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kent_proto::v1::{
    AddSubregionsRequest, AutoExpand, DelegateRegionRequest, EditResponse, ExpandRegionRequest, NewRegion, Policy,
    SealRegionRequest, ShrinkRegionRequest, SplitRegionRequest, Uint128, UpdateRegionRequest,
    regions_client::RegionsClient,
};
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use tokio::time::sleep;
use tonic::{Code, Status, transport::Channel};

use super::{SPACE, World, create, is_transient};

/// The kinds of edits, by their names in the summary.
const KINDS: [&str; 12] = [
    "create",
    "create",
    "expand",
    "shrink",
    "split",
    "subdivide",
    "subdivide and close",
    "delegate",
    "seal",
    "unseal",
    "set next",
    "expand by policy",
];

/// A requested edit.
struct Requested {
    kind: &'static str,
    region: String,
    /// The name of a new region, if the edit creates one.
    new: String,
    request_id: String,
    /// The new value of the counter, if the edit sets one.
    next: u64,
}

/// The acknowledged edits.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// The request IDs by revision.
    pub(super) edits: BTreeMap<u64, String>,
    /// The number of edits of each kind.
    pub(super) kinds: BTreeMap<&'static str, u32>,
}

/// Makes edits until the test ends.
pub(super) async fn edit(channels: Vec<Channel>, mut dice: StdRng, world: Arc<World>) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    for number in 1.. {
        let requested = Requested {
            kind: KINDS.choose(&mut dice).expect("some"),
            region: world.regions().choose(&mut dice).expect("some").clone(),
            new: format!("r{number}"),
            request_id: format!("edit-{number}"),
            next: dice.random_range(0..1 << 14),
        };
        let answer = loop {
            if world.is_over() {
                return acknowledged;
            }
            match attempt(channels.choose(&mut dice).expect("three"), &requested).await {
                Err(status) if is_transient(&status) => sleep(Duration::from_millis(100)).await,
                answer => break answer,
            }
        };
        let (kind, region) = (requested.kind, &requested.region);
        match answer {
            // The edit was already in effect: for example, the region was already sealed.
            Ok(edited) if edited.revision == edited.base_revision => {}
            Ok(edited) => {
                let twice = acknowledged.edits.insert(edited.revision, requested.request_id);
                assert_eq!(twice, None, "two edits made revision {}", edited.revision);
                *acknowledged.kinds.entry(kind).or_default() += 1;
                let mut regions = world.regions.lock().expect("not poisoned");
                if kind == "subdivide and close" {
                    regions.push(heir(&requested.new));
                }
                if matches!(kind, "create" | "split" | "subdivide" | "subdivide and close") {
                    regions.push(requested.new);
                }
            }
            // The edit was refused: for example, the zone is used up, or a shrink would cut off issued identifiers.
            Err(status) => {
                assert!(
                    matches!(status.code(), Code::FailedPrecondition | Code::InvalidArgument),
                    "{kind} {region}: {status}"
                );
            }
        }
    }
    acknowledged
}

/// The name of the all-zero subregion, which takes over the counter when its parent closes.
fn heir(new: &str) -> String {
    format!("{new}-heir")
}

/// Sends the edit once to one replica.
async fn attempt(channel: &Channel, requested: &Requested) -> Result<EditResponse, Status> {
    let mut regions = RegionsClient::new(channel.clone());
    let Requested { kind, region, new, request_id, next } = requested;
    let (name, request_id) = (format!("{SPACE}/regions/{region}"), request_id.clone());
    let answer = match *kind {
        "create" => regions.create_region(create(new, 16, &request_id)).await,
        "expand" => {
            let expand = ExpandRegionRequest { name, by_bits: 1, request_id, ..Default::default() };
            regions.expand_region(expand).await
        }
        "shrink" => {
            let shrink = ShrinkRegionRequest { name, by_bits: 1, request_id, ..Default::default() };
            regions.shrink_region(shrink).await
        }
        "split" => {
            let new_region = NewRegion { region_id: new.clone(), suffix_bits: Some(10), ..NewRegion::default() };
            let new_regions = vec![new_region];
            let split = SplitRegionRequest { name, by_bits: 1, new_regions, request_id, ..Default::default() };
            regions.split_region(split).await
        }
        "subdivide" | "subdivide and close" => {
            let closes = *kind == "subdivide and close";
            let new_region = |region_id: &str, extension: &str, suffix_bits| NewRegion {
                region_id: region_id.to_owned(),
                extension: Some(extension.to_owned()),
                suffix_bits,
                ..NewRegion::default()
            };
            let mut new_regions = vec![new_region(new, "1", Some(8))];
            if closes {
                new_regions.push(new_region(&heir(new), "0", None));
            }
            let subdivide = AddSubregionsRequest { name, by_bits: 1, new_regions, request_id, ..Default::default() };
            regions.add_subregions(subdivide).await
        }
        "delegate" => regions.delegate_region(DelegateRegionRequest { name, request_id, ..Default::default() }).await,
        "seal" => regions.seal_region(SealRegionRequest { name, request_id, ..Default::default() }).await,
        "unseal" => regions.unseal_region(SealRegionRequest { name, request_id, ..Default::default() }).await,
        "set next" => {
            let next = Some(Uint128 { high: 0, low: *next });
            regions.update_region(UpdateRegionRequest { name, next, request_id, ..Default::default() }).await
        }
        _ => {
            let auto_expand = Some(AutoExpand { at_percent: 20, by_bits: 1, max_suffix_bits: 30 });
            let policy = Some(Policy { auto_expand, ..Policy::default() });
            regions.update_region(UpdateRegionRequest { name, policy, request_id, ..Default::default() }).await
        }
    };
    answer.map(tonic::Response::into_inner)
}
