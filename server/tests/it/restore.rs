//! Restores skip everything that may have been issued since the backup; a counter that may have issued an unknown
//! number of identifiers issues nothing.

use std::{path::Path, process::Command, time::Duration};

use kent_proto::v1::{
    AddSubregionsRequest, AutoExpand, CreateRegionRequest, CreateSpaceRequest, DelegateRegionRequest, Encoding,
    NewRegion, Policy, ShrinkRegionRequest, UpdateRegionRequest,
};
use tokio::time::sleep;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    backup::{backup, create, issue, restore, said, unseal},
    clocks::libfaketime,
    harness::{Daemon, Ledger, data_dir, identifiers, kentd, kentd_binary, request},
};

/// The arguments of an operator who knows that all clocks are correct and that no table was edited.
const KNOWN: [&str; 5] = ["--yes", "--table-unchanged", "--clock-error", "0s", "--dry-run"];

async fn take(daemon: &Daemon, ledger: &mut Ledger, source: &str, count: u64) {
    let reply = daemon.allocator().allocate(request(source, count, Encoding::Lease)).await.expect(source);
    ledger.record(source, identifiers(reply.get_ref()));
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

async fn refusal(daemon: &Daemon, source: &str) -> (Code, String) {
    let refused = daemon.allocator().allocate(request(source, 1, Encoding::Packed)).await.expect_err(source);
    (refused.code(), reason(&refused))
}

/// Gives a daemon a clock that differs from the machine's by this offset.
fn faked(command: &mut Command, offset: &str) {
    command.env("LD_PRELOAD", libfaketime()).env("FAKETIME", offset).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
}

#[tokio::test]
async fn ok_a_backup_is_restored_twice_and_nothing_is_issued_twice() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let mut daemon = Daemon::start(&at("old"));
    create(&daemon, "orders").await;
    backup(&daemon, &at("backup")).await;
    // Issue from a series that the backup lacks, and far more identifiers than before the backup.
    for round in ["one", "two", "three"] {
        take(&daemon, &mut ledger, "uid11-fullrand", 4_000_000).await;
        take(&daemon, &mut ledger, "region:orders", 4_000_000).await;
        take(&daemon, &mut ledger, "serial:NEW", 1000).await;
        daemon.kill();
        let done = restore(&at("backup"), &at(round), &KNOWN[..4]);
        assert!(done.status.success(), "{}", said(&done));
        daemon = Daemon::start(&at(round));
    }
    take(&daemon, &mut ledger, "uid11-fullrand", 1000).await;
    take(&daemon, &mut ledger, "region:orders", 1000).await;
    take(&daemon, &mut ledger, "serial:NEW", 1000).await;
    // A backup of a restored store records that earlier series may have been lost.
    backup(&daemon, &at("second")).await;
    daemon.kill();
    let done = restore(&at("second"), &at("four"), &KNOWN[..4]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("four"));
    take(&daemon, &mut ledger, "serial:NEW", 1000).await;
    take(&daemon, &mut ledger, "uid11-fullrand", 1000).await;
}

#[tokio::test]
async fn ok_a_counter_that_may_be_exhausted_waits_for_a_floor() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    let region = |name: &str, suffix_bits| CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: name.to_owned(),
        suffix_bits: Some(suffix_bits),
        ..CreateRegionRequest::default()
    };
    for name in ["small", "invoices"] {
        daemon.regions().create_region(region(name, 20)).await.expect("created");
    }
    let name = "spaces/default/regions/invoices".to_owned();
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let strict = UpdateRegionRequest { name: name.clone(), policy, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(strict).await.expect("strict");
    backup(&daemon, &at("backup")).await;
    take(&daemon, &mut ledger, "region:small", 5000).await;
    take(&daemon, &mut ledger, "region:invoices", 70).await;
    daemon.regions().create_region(region("lost", 20)).await.expect("created");
    take(&daemon, &mut ledger, "region:lost", 100).await;
    daemon.kill();

    let shown = restore(&at("backup"), &at("new"), &KNOWN);
    assert!(said(&shown).contains("region:small: 0 -> unknown"), "{}", said(&shown));
    assert!(said(&shown).contains("--floor region:small=N"), "{}", said(&shown));
    let floor = ["--yes", "--clock-error", "0s", "--floor", "region:invoices=70"];
    for (wrong, why) in [("region:nowhere=5", "no such region"), ("region:small=1048577", "only 1_048_576 numbers")] {
        let refused = restore(&at("backup"), &at("new"), &["--yes", "--floor", wrong]);
        assert!(!refused.status.success() && said(&refused).contains(why), "{}", said(&refused));
    }
    let done = restore(&at("backup"), &at("new"), &floor);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    for region in ["small", "invoices"] {
        daemon.regions().unseal_region(unseal(region)).await.expect("unsealed");
    }
    assert_eq!(refusal(&daemon, "region:small").await, (Code::FailedPrecondition, "FLOOR_UNKNOWN".to_owned()));
    take(&daemon, &mut ledger, "region:invoices", 3).await;
    // The operator creates the lost region again. Only the operator can know how much the region had issued.
    daemon.regions().create_region(region("lost", 20)).await.expect("created");
    assert_eq!(refusal(&daemon, "region:lost").await, (Code::FailedPrecondition, "FLOOR_UNKNOWN".to_owned()));
    for (region, next) in [("small", 5000_u64), ("lost", 100)] {
        let name = format!("spaces/default/regions/{region}");
        let next = Some(u128::from(next).into());
        let floor = UpdateRegionRequest { name, next, ..UpdateRegionRequest::default() };
        daemon.regions().update_region(floor).await.expect("a floor");
        take(&daemon, &mut ledger, &format!("region:{region}"), 1000).await;
    }
}

#[tokio::test]
async fn ok_a_host_with_a_clock_an_hour_behind_issues_nothing_until_it_catches_up() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    create(&daemon, "orders").await;
    backup(&daemon, &at("backup")).await;
    issue(&daemon, &mut ledger, 2).await;
    daemon.kill();
    let behind = |data: &Path| {
        let mut command = Command::new(kentd_binary());
        command.arg("restore").arg(at("backup")).arg("--data").arg(data).args(["--yes", "--table-unchanged"]);
        faked(&mut command, "-3500s");
        command.output().expect("the command runs")
    };
    let done = behind(&at("new"));
    assert!(done.status.success() && said(&done).contains("nothing is issued for 1h"), "{}", said(&done));

    let mut command = kentd(&at("new"));
    faked(command.args(["--log", "off"]), "-3500s");
    let daemon = Daemon::spawn(&mut command);
    for source in ["uid11-fullrand", "region:orders", "xid"] {
        assert_eq!(refusal(&daemon, source).await, (Code::Unavailable, "RESTORED".to_owned()));
    }
    daemon.kill();
    // The clock of the restoring host was behind the time of the backup, so the hour is counted from the time of the
    // backup. Now the clock is past that hour.
    let mut command = kentd(&at("new"));
    faked(command.args(["--log", "off"]), "+3700s");
    let daemon = Daemon::spawn(&mut command);
    issue(&daemon, &mut ledger, 2).await;
}

#[tokio::test]
async fn ok_a_counter_keeps_its_pace() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    let slow = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "slow".to_owned(),
        suffix_bits: Some(40),
        pace: 2,
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(slow).await.expect("created");
    let mut client = daemon.allocator();
    client.allocate(request("region:slow", 2048, Encoding::Lease)).await.expect("a burst");
    let refused = client.allocate(request("region:slow", 2000, Encoding::Lease)).await.expect_err("too fast");
    assert_eq!((refused.code(), reason(&refused)), (Code::ResourceExhausted, "TOO_FAST".to_owned()));
    let wait = refused.get_details_retry_info().and_then(|info| info.retry_delay).expect("a delay");
    assert!((900..=1000).contains(&wait.as_secs()), "{wait:?}");
    let refused = client.allocate(request("region:slow", 2049, Encoding::Lease)).await.expect_err("never");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    // `kill -9` does not reset the pace.
    daemon.kill();
    let daemon = Daemon::start(&dir.path().join("data"));
    let refused =
        daemon.allocator().allocate(request("region:slow", 100, Encoding::Lease)).await.expect_err("too fast");
    assert_eq!(reason(&refused), "TOO_FAST");
}

fn of(region: &str) -> String {
    format!("spaces/default/regions/{region}")
}

fn sized(region: &str, suffix_bits: u32) -> CreateRegionRequest {
    let (parent, region_id) = ("spaces/default".to_owned(), region.to_owned());
    CreateRegionRequest { parent, region_id, suffix_bits: Some(suffix_bits), ..CreateRegionRequest::default() }
}

async fn name_floor(daemon: &Daemon, region: &str, next: u128) {
    let floor = UpdateRegionRequest { name: of(region), next: Some(next.into()), ..UpdateRegionRequest::default() };
    daemon.regions().update_region(floor).await.expect("a floor");
}

const UNKNOWN: &str = "FLOOR_UNKNOWN";

#[tokio::test]
async fn ok_a_region_created_after_a_restore_may_reuse_the_prefix_of_a_lost_one() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    backup(&daemon, &at("backup")).await;
    // The pace of the lost region is above the default, its first suffix is not 0, and its prefix is the first free
    // one.
    let lost = CreateRegionRequest { pace: 1 << 34, next: Some((1 << 40).into()), ..sized("lost", 50) };
    let lost = daemon.regions().create_region(lost).await.expect("created").into_inner();
    take(&daemon, &mut ledger, "region:lost", 1000).await;
    daemon.kill();
    let done = restore(&at("backup"), &at("new"), &["--yes", "--clock-error", "0s"]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    let another = daemon.regions().create_region(sized("another", 50)).await.expect("created").into_inner();
    let prefix = |made: &kent_proto::v1::EditResponse| made.region.clone().expect("a region").prefix;
    assert_eq!(prefix(&another), prefix(&lost), "the same prefix");
    // The `next` of a repeated creation is not a floor, because more was issued after the creation.
    let moved = CreateRegionRequest { next: Some((1 << 40).into()), ..sized("moved", 50) };
    daemon.regions().create_region(moved).await.expect("created");
    for source in ["region:another", "region:moved"] {
        assert_eq!(refusal(&daemon, source).await, (Code::FailedPrecondition, UNKNOWN.to_owned()), "{source}");
    }
    // Subregions of a region that needs a floor need one as well, including the subregion that inherits the counter.
    let half = |extension: &str| NewRegion {
        region_id: format!("half-{extension}"),
        suffix_bits: Some(40),
        extension: Some(extension.to_owned()),
        ..NewRegion::default()
    };
    daemon.regions().create_region(sized("divided", 40)).await.expect("created");
    let new_regions = vec![half("0"), half("1")];
    let divide = AddSubregionsRequest {
        name: of("divided"),
        by_bits: 1,
        new_regions,
        r#abstract: true,
        ..AddSubregionsRequest::default()
    };
    daemon.regions().add_subregions(divide).await.expect("divided");
    for source in ["region:half-0", "region:half-1"] {
        assert_eq!(refusal(&daemon, source).await, (Code::FailedPrecondition, UNKNOWN.to_owned()), "{source}");
    }
    // `kill -9` does not remove the need for a floor.
    daemon.kill();
    let daemon = Daemon::start(&at("new"));
    for source in ["region:another", "region:moved"] {
        assert_eq!(refusal(&daemon, source).await, (Code::FailedPrecondition, UNKNOWN.to_owned()), "{source}");
    }
    name_floor(&daemon, "another", (1 << 40) + 1000).await;
    // The region has the prefix of the lost region, so without the floor it would repeat identifiers.
    take(&daemon, &mut ledger, "region:another", 1000).await;
    name_floor(&daemon, "half-1", 0).await;
    take(&daemon, &mut ledger, "region:half-1", 1000).await;
    // A backup of this store keeps the state: regions without a floor still need one in the next store.
    backup(&daemon, &at("second")).await;
    daemon.kill();
    let done = restore(&at("second"), &at("third"), &KNOWN[..4]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("third"));
    for source in ["region:moved", "region:half-0"] {
        assert_eq!(refusal(&daemon, source).await, (Code::FailedPrecondition, UNKNOWN.to_owned()), "{source}");
    }
    daemon.regions().create_region(sized("late", 50)).await.expect("created");
    assert_eq!(refusal(&daemon, "region:late").await, (Code::FailedPrecondition, UNKNOWN.to_owned()));
}

#[tokio::test]
async fn ok_a_full_region_may_have_been_expanded_by_its_policy() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    daemon.regions().create_region(sized("r", 4)).await.expect("created");
    take(&daemon, &mut ledger, "region:r", 16).await;
    let auto_expand = Some(AutoExpand { at_percent: 100, by_bits: 1, max_suffix_bits: 6 });
    let policy = Some(Policy { auto_expand, ..Policy::default() });
    let expands = UpdateRegionRequest { name: of("r"), policy, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(expands).await.expect("a policy");
    backup(&daemon, &at("backup")).await;
    // The policy changes the table without an edit by an operator.
    take(&daemon, &mut ledger, "region:r", 10).await;
    daemon.kill();
    let done = restore(&at("backup"), &at("new"), &KNOWN[..4]);
    assert!(said(&done).contains("region:r: 16 -> unknown"), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    assert_eq!(refusal(&daemon, "region:r").await, (Code::FailedPrecondition, UNKNOWN.to_owned()));
}

#[tokio::test]
async fn ok_shrinking_and_delegating_are_repeated_with_a_floor() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    for region in ["cut", "given"] {
        daemon.regions().create_region(sized(region, 40)).await.expect("created");
    }
    take(&daemon, &mut ledger, "region:cut", 100).await;
    backup(&daemon, &at("backup")).await;
    let shrink = || ShrinkRegionRequest { name: of("cut"), by_bits: 20, ..ShrinkRegionRequest::default() };
    let delegate = || DelegateRegionRequest { name: of("given"), ..DelegateRegionRequest::default() };
    let inner = || CreateRegionRequest { parent: "spaces/default/given".to_owned(), ..sized("inner", 20) };
    let edit = async |daemon: &Daemon| {
        daemon.regions().shrink_region(shrink()).await?;
        daemon.regions().delegate_region(delegate()).await?;
        daemon.regions().create_region(inner()).await
    };
    take(&daemon, &mut ledger, "region:cut", 100).await;
    edit(&daemon).await.expect("edited");
    take(&daemon, &mut ledger, "region:inner@default/given", 100).await;
    daemon.kill();

    // If the restored counters are too high, the edits cannot be repeated, and the regions stay sealed.
    let done = restore(&at("backup"), &at("stuck"), &["--yes", "--clock-error", "0s"]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("stuck"));
    let refused = daemon.regions().shrink_region(shrink()).await.expect_err("its counter is too high");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let refused = daemon.regions().delegate_region(delegate()).await.expect_err("its counter is too high");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    for source in ["region:cut", "region:given"] {
        assert_eq!(refusal(&daemon, source).await, (Code::FailedPrecondition, "SEALED".to_owned()), "{source}");
    }
    daemon.kill();
    // The edits imply bounds: a delegated region had issued nothing, and a shrunk region had issued no more than its
    // capacity. The backup counts the rest of the daemon's chunk as reserved, and a floor must not be below that.
    let refused = restore(&at("backup"), &at("new"), &["--yes", "--floor", "region:cut=200"]);
    assert!(said(&refused).contains("is below 1_024, the counter's position in the backup"), "{}", said(&refused));
    let floors = ["--floor", "region:given=0", "--floor", "region:cut=1024"];
    let done = restore(&at("backup"), &at("new"), &[&["--yes", "--clock-error", "0s"], &floors[..]].concat());
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    edit(&daemon).await.expect("repeated");
    let source = "region:inner@default/given";
    assert_eq!(
        refusal(&daemon, source).await,
        (Code::FailedPrecondition, "SEALED".to_owned()),
        "a region inside `given` must stay sealed"
    );
    for region in ["cut", "given"] {
        daemon.regions().unseal_region(unseal(region)).await.expect("unsealed");
    }
    take(&daemon, &mut ledger, "region:cut", 1000).await;
    assert_eq!(refusal(&daemon, source).await, (Code::FailedPrecondition, UNKNOWN.to_owned()));
    let name = "spaces/default/given/regions/inner".to_owned();
    let floor = UpdateRegionRequest { name, next: Some(100.into()), ..UpdateRegionRequest::default() };
    daemon.regions().update_region(floor).await.expect("a floor");
    take(&daemon, &mut ledger, source, 1000).await;
}

#[tokio::test]
async fn ok_the_floor_of_a_scrambled_region_covers_the_whole_octave() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    backup(&daemon, &at("backup")).await;
    // The scrambled orders of a lost space and of its replacement have different keys.
    let lost = |daemon: &Daemon| {
        let mut client = daemon.regions();
        async move {
            let space = CreateSpaceRequest { space_id: "s".to_owned(), bits: 40, ..CreateSpaceRequest::default() };
            client.create_space(space).await.expect("made");
            let parent = "spaces/s".to_owned();
            let order = kent_proto::v1::region::Order::Scrambled.into();
            client.create_region(CreateRegionRequest { parent, order, ..sized("r", 32) }).await.expect("created");
        }
    };
    lost(&daemon).await;
    take(&daemon, &mut ledger, "region:r@s", 3000).await;
    daemon.kill();
    let done = restore(&at("backup"), &at("new"), &["--yes", "--clock-error", "0s"]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    lost(&daemon).await;
    // The operator declares how many identifiers were issued, but in a scrambled order the largest issued one exceeds
    // that number.
    let floor = UpdateRegionRequest {
        name: "spaces/s/regions/r".to_owned(),
        next: Some(3000.into()),
        ..UpdateRegionRequest::default()
    };
    daemon.regions().update_region(floor).await.expect("a floor");
    take(&daemon, &mut ledger, "region:r@s", 5000).await;
}

#[tokio::test]
async fn ok_a_newer_backup_is_restored_after_an_older_one() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let text = |name: &str| at(name).display().to_string();
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    let slow = CreateRegionRequest { pace: 1000, ..sized("slow", 50) };
    daemon.regions().create_region(slow).await.expect("created");
    backup(&daemon, &at("older")).await;
    sleep(Duration::from_secs(5)).await;
    backup(&daemon, &at("newer")).await;
    daemon.kill();
    // Restore the older backup, and issue identifiers. The newer backup does not account for them, so a later restore
    // from it must name the older backup.
    let done = restore(&at("older"), &at("one"), &KNOWN[..4]);
    assert!(done.status.success() && said(&done).contains("pass --restored-before FILE"), "{}", said(&done));
    let daemon = Daemon::start(&at("one"));
    take(&daemon, &mut ledger, "region:slow", 500).await;
    take(&daemon, &mut ledger, "serial:NEW", 2000).await;
    daemon.kill();

    let (older, newer) = (text("older"), text("newer"));
    let known = |before| [&KNOWN[..4], &["--restored-before", before]].concat();
    Daemon::start(&at("another")).kill();
    let another = text("another");
    for (source, before) in [("newer", &another), ("older", &newer)] {
        let refused = restore(&at(source), &at("two"), &known(before));
        assert!(
            !refused.status.success() && said(&refused).contains("is a backup of another store"),
            "{}",
            said(&refused)
        );
    }
    let done = restore(&at("newer"), &at("two"), &known(&older));
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("two"));
    // The counter keeps its pace.
    sleep(Duration::from_secs(6)).await;
    take(&daemon, &mut ledger, "region:slow", 6000).await;
    take(&daemon, &mut ledger, "serial:NEW", 2000).await;
    daemon.kill();
    // A restore from the older backup skips everything issued since, also by the restored stores.
    let done = restore(&at("older"), &at("three"), &KNOWN[..4]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("three"));
    take(&daemon, &mut ledger, "region:slow", 500).await;
    take(&daemon, &mut ledger, "serial:NEW", 2000).await;
}
