//! Figures 2, 3 and 4 of Kent 1992 against a running daemon.

use kent_proto::v1::{
    AddSubregionsRequest, Classification, ClassifyRequest, CreateRegionRequest, Encoding, ExpandRegionRequest,
    GetRegionRequest, Newcomer, Region, SplitRegionRequest, classification::Status, region::Kind,
    regions_client::RegionsClient,
};
use tonic::{Code, transport::Channel};
use tonic_types::StatusExt;

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
        suffix_bits: 50,
        prefix: Some("101101".to_owned()),
        next: Some(next.into()),
        ..CreateRegionRequest::default()
    }
}

fn newcomer(region: &str, suffix_bits: Option<u32>, extension: &str) -> Newcomer {
    Newcomer { region_id: region.to_owned(), suffix_bits, extension: Some(extension.to_owned()), ..Newcomer::default() }
}

async fn region(client: &mut RegionsClient<Channel>, region: &str) -> Region {
    client.get_region(GetRegionRequest { name: name(region) }).await.expect("exists").into_inner()
}

#[track_caller]
fn check_region(region: &Region, prefix: &str, zone_bits: u32, suffix_bits: u32, kind: Kind) {
    let found = (region.prefix.as_str(), region.zone_bits, region.suffix_bits, region.kind());
    assert_eq!(found, (prefix, zone_bits, suffix_bits, kind), "{}", region.name);
}

async fn classify(client: &mut RegionsClient<Channel>, id: u128) -> Classification {
    let ask = ClassifyRequest { parent: SPACE.to_owned(), identifiers: vec![id.into()] };
    client.classify(ask).await.expect("classified").into_inner().classifications.remove(0)
}

async fn draw(daemon: &Daemon, source: &str) -> Result<u128, tonic::Status> {
    let reply = daemon.allocator().allocate(request(source, 1, Encoding::Packed)).await?;
    Ok(identifiers(reply.get_ref())[0])
}

#[tokio::test]
async fn ok_figure_2_a_full_region_refuses_and_goes_on_after_expanding() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(figure_2((1 << 50) - 1)).await.expect("created");
    check_region(&region(&mut regions, "r1").await, "101101", 8, 50, Kind::Open);
    assert_eq!(draw(&daemon, "region:r1").await.expect("the last of 2^50"), 0xb403_ffff_ffff_ffff);

    let full = draw(&daemon, "region:r1").await.expect_err("full");
    assert_eq!(full.code(), Code::ResourceExhausted);
    let details = full.get_error_details();
    assert_eq!(details.error_info().expect("a reason").reason, "CAPACITY_EXHAUSTED");
    assert!(full.message().contains("1125899906842624"), "the capacity is named: {}", full.message());
    assert!(full.message().contains('8'), "so is how far it can be expanded: {}", full.message());

    let expand = ExpandRegionRequest { name: name("r1"), by_bits: 2, ..ExpandRegionRequest::default() };
    regions.expand_region(expand).await.expect("expanded");
    check_region(&region(&mut regions, "r1").await, "101101", 6, 52, Kind::Open);
    assert_eq!(draw(&daemon, "region:r1").await.expect("the first of the new range"), 0xb404_0000_0000_0000);
    let before = classify(&mut regions, 0xb403_ffff_ffff_ffff).await;
    assert_eq!((before.status(), before.issued), (Status::Member, true));
    assert_eq!(before.path, [name("r1")]);
    assert_eq!(classify(&mut regions, 0xb410_0000_0000_0000).await.status(), Status::Reserved);
}

#[tokio::test]
async fn ok_figure_3_a_split_keeps_what_was_issued_and_frees_three_prefixes() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(figure_2(0)).await.expect("created");
    let issued = draw(&daemon, "region:r1").await.expect("granted");
    let split = SplitRegionRequest {
        name: name("r1"),
        by_bits: 2,
        newcomers: vec![newcomer("r3", Some(53), "01"), newcomer("r4", Some(56), "10"), newcomer("r5", Some(50), "11")],
        ..SplitRegionRequest::default()
    };
    let edit = regions.split_region(split).await.expect("split").into_inner();
    assert_eq!(edit.revision, edit.base_revision + 1, "one revision for all of it");
    check_region(&region(&mut regions, "r1").await, "10110100", 6, 50, Kind::Open);
    check_region(&region(&mut regions, "r3").await, "10110101", 3, 53, Kind::Open);
    check_region(&region(&mut regions, "r4").await, "10110110", 0, 56, Kind::Open);
    check_region(&region(&mut regions, "r5").await, "10110111", 6, 50, Kind::Open);
    assert_eq!(classify(&mut regions, issued).await.path, [name("r1")]);
    assert_eq!(draw(&daemon, "region:r1").await.expect("granted"), 0xb400_0000_0000_0001);
    assert_eq!(draw(&daemon, "region:r3").await.expect("granted"), 0xb500_0000_0000_0000);
    assert_eq!(draw(&daemon, "region:r5").await.expect("granted"), 0xb700_0000_0000_0000);
    let former = region(&mut regions, "r1").await.former_prefixes;
    assert_eq!(former[0].prefix, "101101");
}

#[tokio::test]
async fn ok_figure_4_the_all_zero_subregion_takes_the_members_over() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(figure_2(0)).await.expect("created");
    for suffix in 0..3 {
        assert_eq!(draw(&daemon, "region:r1").await.expect("granted"), 0xb400_0000_0000_0000 + suffix);
    }
    let subdivide = AddSubregionsRequest {
        name: name("r1"),
        by_bits: 2,
        newcomers: vec![
            newcomer("r2", None, "00"),
            newcomer("r3", Some(53), "01"),
            newcomer("r4", Some(56), "10"),
            newcomer("r5", Some(52), "11"),
        ],
        ..AddSubregionsRequest::default()
    };
    regions.add_subregions(subdivide).await.expect("subdivided");
    check_region(&region(&mut regions, "r1").await, "101101", 0, 0, Kind::Closed);
    check_region(&region(&mut regions, "r2").await, "10110100", 6, 50, Kind::Open);
    check_region(&region(&mut regions, "r5").await, "10110111", 4, 52, Kind::Open);
    let member = classify(&mut regions, 0xb400_0000_0000_0002).await;
    assert_eq!((member.status(), member.issued), (Status::Member, true));
    assert_eq!(member.path, [name("r1"), name("r2")]);
    let closed = draw(&daemon, "region:r1").await.expect_err("closed");
    assert_eq!(closed.code(), Code::FailedPrecondition);
    assert_eq!(closed.get_error_details().error_info().expect("a reason").reason, "CLOSED");
    assert_eq!(draw(&daemon, "region:r2").await.expect("goes on where r1 was"), 0xb400_0000_0000_0003);
}

#[tokio::test]
async fn ok_figure_1_partly_used_levels_are_entered_as_abstract() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let create = CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: "UserOid".to_owned(),
        prefix: Some("111".to_owned()),
        ..CreateRegionRequest::default()
    };
    regions.create_region(create).await.expect("created");
    let mut subdivide = AddSubregionsRequest {
        name: name("UserOid"),
        by_bits: 2,
        newcomers: vec![
            newcomer("HP_EmpNum", Some(0), "00"),
            newcomer("HP_PartNum", Some(0), "01"),
            newcomer("HP_DocNum", Some(0), "10"),
        ],
        ..AddSubregionsRequest::default()
    };
    let refused = regions.add_subregions(subdivide.clone()).await.expect_err("the all-zero extension, not full");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.get_error_details().error_info().expect("a reason").reason, "ZERO_EXTENSION");
    subdivide.r#abstract = true;
    regions.add_subregions(subdivide).await.expect("subdivided");
    let member = classify(&mut regions, 0xe800_0000_0000_0000).await;
    assert_eq!(member.path, [name("UserOid"), name("HP_PartNum")]);
    assert_eq!(classify(&mut regions, 0xf800_0000_0000_0000).await.status(), Status::Unassigned);
    assert_eq!(classify(&mut regions, 0xe800_0000_0000_0001).await.status(), Status::Reserved);
}

#[tokio::test]
async fn ok_a_dry_run_answers_like_the_edit_and_changes_nothing() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let mut create = figure_2(0);
    create.validate_only = true;
    let dry = regions.create_region(create.clone()).await.expect("planned").into_inner();
    assert!(dry.validate_only);
    let absent = regions.get_region(GetRegionRequest { name: name("r1") }).await.expect_err("not made");
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
