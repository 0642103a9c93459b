//! Tests of the records that a strict grant compares: a seal of the region or of any region around it must make the
//! grant's commit fail.

use std::time::Duration;

use kent_engine::host::{clock::SystemClock, entropy::SystemEntropy};
use kent_proto::v1::{
    AddSubregionsRequest, CreateRegionRequest, DelegateRegionRequest, NewRegion, SealRegionRequest,
    regions_server::Regions,
};
use kent_store::{CommitError, MemoryStore, Store, StoreId, Txn};
use tonic::Request;

use crate::{Config, Environment, Node, Settings};

fn name(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}

/// Starts a daemon with the nested regions `a`, `b`, `c` and `d`, outermost first. `d` is delegated, and its space has
/// the region `e`, which contains `f`.
async fn nested(disk: &MemoryStore) -> Node {
    let config = Config::check(Settings::default()).expect("valid");
    let (store, clock, entropy) = (
        std::sync::Arc::new(disk.reopen()),
        std::sync::Arc::new(SystemClock::new()),
        std::sync::Arc::new(SystemEntropy),
    );
    let node = Node::start(Environment { store, clock, entropy }, &config).await.expect("it starts");
    node.engine().slots().wait_for_slot(Duration::from_secs(5)).await;
    for (space, region, zone_bits, inside) in
        [("default", "a", 20, &["b", "c", "d"][..]), ("default/d", "e", 8, &["f"])]
    {
        let create = CreateRegionRequest {
            parent: format!("spaces/{space}"),
            region_id: region.to_owned(),
            suffix_bits: Some(8),
            zone_bits: Some(zone_bits),
            ..CreateRegionRequest::default()
        };
        node.regions().create_region(Request::new(create)).await.expect("created");
        let mut outer = region;
        for inner in inside {
            let new_regions = vec![NewRegion {
                region_id: (*inner).to_owned(),
                suffix_bits: Some(if *inner == "d" { 20 } else { 4 }),
                extension: Some("1".to_owned()),
                ..NewRegion::default()
            }];
            let divide =
                AddSubregionsRequest { name: name(space, outer), by_bits: 1, new_regions, ..Default::default() };
            node.regions().add_subregions(Request::new(divide)).await.expect("divided");
            outer = *inner;
        }
        if space == "default" {
            let delegate = DelegateRegionRequest { name: name(space, "d"), ..DelegateRegionRequest::default() };
            node.regions().delegate_region(Request::new(delegate)).await.expect("delegated");
        }
    }
    node
}

#[tokio::test]
async fn err_a_commit_that_began_before_a_seal_of_a_region_around_it_fails() {
    let disk = MemoryStore::new(StoreId::new([5; 16]));
    let node = nested(&disk).await;
    let in_default = [("default", "a"), ("default", "b"), ("default", "c")];
    for (space, region, around) in [
        ("default", "a", &in_default[..1]),
        ("default", "b", &in_default[..2]),
        ("default", "c", &in_default),
        (
            "default/d",
            "f",
            &[("default", "a"), ("default", "b"), ("default", "c"), ("default", "d"), ("default/d", "e")],
        ),
    ] {
        let found = node.engine().directory().find(space).expect("there");
        let number = found.read(|table| table.named(region).map(|region| region.number)).expect("there");
        for (sealed_space, sealed) in around {
            let (facts, guards) = found.guarded_facts(number).expect("there");
            assert_eq!(facts.granting, Ok(()), "{region}");
            let txn = || guards.iter().fold(Txn::new(), |txn, (key, version)| txn.expect(key.clone(), *version));
            disk.commit(txn()).await.expect("nothing has changed");
            let seal = || Request::new(SealRegionRequest { name: name(sealed_space, sealed), ..Default::default() });
            node.regions().seal_region(seal()).await.expect("sealed");
            let late = disk.commit(txn()).await;
            assert!(matches!(late, Err(CommitError::Conflict { .. })), "{region} in {sealed}: {late:?}");
            assert!(found.facts_of(number).is_some_and(|facts| facts.granting.is_err()), "{region} in {sealed}");
            node.regions().unseal_region(seal()).await.expect("unsealed");
        }
    }
}
