//! Promises for every edit: a dry run returns the same answer, and an acknowledged edit survives a crash.

use kent_proto::v1::{
    CreateRegionRequest, Encoding, ExpandRegionRequest, GetRegionRequest, Region, regions_client::RegionsClient,
};
use tonic::{Code, transport::Channel};

use super::harness::{Daemon, data_dir, identifiers, request};

const SPACE: &str = "spaces/default";

fn name(region: &str) -> String {
    format!("{SPACE}/regions/{region}")
}

/// The region of figure 2: prefix 101101, 8 bits of expansion zone, 50 bits of suffix.
fn figure_2(next: u128) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: "r1".to_owned(),
        suffix_bits: Some(50),
        prefix: Some("101101".to_owned()),
        next: Some(next.into()),
        ..CreateRegionRequest::default()
    }
}

async fn region(client: &mut RegionsClient<Channel>, region: &str) -> Region {
    client
        .get_region(GetRegionRequest { name: name(region), ..GetRegionRequest::default() })
        .await
        .expect("exists")
        .into_inner()
}

async fn draw(daemon: &Daemon, source: &str) -> Result<u128, tonic::Status> {
    let reply = daemon.allocator().allocate(request(source, 1, Encoding::Packed)).await?;
    Ok(identifiers(reply.get_ref())[0])
}

#[tokio::test]
async fn ok_a_dry_run_returns_the_answer_of_the_edit_and_changes_nothing() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let mut create = figure_2(0);
    create.validate_only = true;
    let dry = regions.create_region(create.clone()).await.expect("planned").into_inner();
    assert!(dry.validate_only);
    let absent = regions
        .get_region(GetRegionRequest { name: name("r1"), ..GetRegionRequest::default() })
        .await
        .expect_err("not made");
    assert_eq!(absent.code(), Code::NotFound);
    create.validate_only = false;
    let real = regions.create_region(create).await.expect("created").into_inner();
    assert_eq!((dry.region, dry.revision), (real.region, real.revision));
}

#[tokio::test]
async fn ok_tables_survive_a_crash() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(figure_2(7)).await.expect("created");
    let expand = ExpandRegionRequest { name: name("r1"), by_bits: 1, ..ExpandRegionRequest::default() };
    regions.expand_region(expand).await.expect("expanded");
    let before = region(&mut regions, "r1").await;
    daemon.kill();
    let daemon = Daemon::start(data.path());
    let after = region(&mut daemon.regions(), "r1").await;
    assert_eq!(before, after);
    assert_eq!(draw(&daemon, "region:r1").await.expect("granted"), 0xb400_0000_0000_0007);
}
