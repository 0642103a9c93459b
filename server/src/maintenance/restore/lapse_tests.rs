//! Tests of what a restore skips: older backups, floors, and clocks that are stepped.

use std::{
    path::Path,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::TryStreamExt;
use kent_engine::host::entropy::SystemEntropy;
use kent_ids::{ClusterKey, UnixNanos};
use kent_issue::Lapse;
use kent_proto::{
    stored::{self, Counter, EditId, Restored, SpaceFacts, TextForm},
    v1::{
        AllocateRequest, BackupRequest, CreateRegionRequest, admin_server::Admin, allocate_response::Identifiers,
        allocator_server::Allocator, regions_server::Regions,
    },
};
use kent_regions::{Count, RegionNumber, Revision};
use kent_store::{SledOptions, SledStore, Store};
use prost::Message;
use tonic::{Request, Status};

use super::{bound::OlderBackup, *};
use crate::{Config, Environment, Node, Settings, maintenance::backup::Backup};

const SECOND: i128 = 1_000_000_000;
const HOUR: i128 = 3600 * SECOND;
const DAY: i128 = 24 * HOUR;
const TAKEN: UnixNanos = UnixNanos::new(1_800_000_000 * SECOND);

fn args(more: &[&str]) -> RestoreArgs {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: RestoreArgs,
    }
    let line = ["kentd", "backup", "--data", "new"].into_iter().chain(more.iter().copied());
    <Line as clap::Parser>::try_parse_from(line).expect("arguments").args
}

/// A backup of a store without regions, with these series and restores.
fn backup(taken: UnixNanos, series: &[(&str, Counter)], restores: &[Restored]) -> Backup {
    let facts = SpaceFacts {
        bits: 64,
        revision: Revision(1),
        next_number: RegionNumber(1),
        last_edit: EditId::default(),
        scramble_key: ClusterKey::new([1; 16]),
        text_form: TextForm::Decimal,
        deleted: false,
    };
    let key = |token: &str| keys::series(&token.parse().expect("a series"));
    let mut records = vec![
        (keys::CLUSTER, stored::encode_cluster(&ClusterKey::new([2; 16]))),
        (keys::space("default"), stored::encode_space(&facts)),
    ];
    records.extend(series.iter().map(|(token, counter)| (key(token), stored::encode_counter(counter))));
    records.extend((!restores.is_empty()).then(|| (keys::RESTORES, stored::encode_restores(restores))));
    Backup { unix_nanos: i64::try_from(taken.get()).unwrap_or(i64::MAX), records }
}

fn number(count: Count) -> u128 {
    count.get().expect("fewer than 2^128")
}

fn restores_of(restore: &Restore) -> Vec<Restored> {
    stored::decode_restores(&restore.records[&keys::RESTORES]).expect("restores")
}

/// Monday's backup was restored on Monday evening as store 1. A later backup of store 1 records that store 1 skipped
/// what may have been issued since Monday's backup. A restore of the later backup must keep that record even if it also
/// names a backup from Monday afternoon.
#[test]
fn ok_naming_an_older_backup_never_shortens_a_lapse_that_the_backup_records() {
    let monday = TAKEN;
    let earlier = Restored {
        lapse: Lapse { since: Lapse::begin(monday), until: monday.offset(10 * HOUR) },
        tables_edited: false,
    };
    // This backup was taken on Monday afternoon, from the store that was lost on Monday evening.
    let older = backup(monday.offset(8 * HOUR), &[], &[]);
    let newer = || backup(monday.offset(7 * DAY), &[], &[earlier]);
    let older =
        OlderBackup::of(Path::new("older"), older, &newer()).expect("accepted as an older backup of the same store");
    let now = monday.offset(7 * DAY + HOUR);
    let flags = args(&["--table-unchanged"]);
    let alone = plan(&flags, newer(), None, now, &SystemEntropy).expect("planned");
    let with_older = plan(&flags, newer(), Some(older), now, &SystemEntropy).expect("planned");
    let since = |restore: &Restore| restores_of(restore).iter().map(|it| it.lapse.since).min().expect("a restore");
    let hours = (since(&with_older).get() - since(&alone).get()) / HOUR;
    assert!(hours <= 0, "the {hours} h that the backup itself records as unknown are forgotten");
}

/// Like the previous test, but with a series that was first used after Monday's backup.
#[test]
fn ok_naming_an_older_backup_never_lowers_a_series_that_the_backup_lacks() {
    let monday = TAKEN;
    let earlier =
        Restored { lapse: Lapse { since: Lapse::begin(monday), until: monday.offset(7 * DAY) }, tables_edited: false };
    let (series, token): (kent_ids::Series, _) = ("serial:LATE".parse().expect("a series"), "serial:LATE");
    let (pace, capacity) = (kent_issue::series_pace(&series), Count::Below(series.end().get()));
    // The lost store had created the series on Monday, and issued numbers at full pace until the backup on Saturday.
    let issued = u128::from(pace.get()) * u128::try_from(5 * DAY / SECOND).expect("positive");
    let saturday = monday.offset(5 * DAY);
    let of_lost = Counter { reserved: Count::Below(issued), paid: saturday, unsure: false };
    let older = backup(saturday, &[(token, of_lost)], &[]);
    // The store that was restored on Sunday from Monday's backup did not use the series.
    let newer = || backup(monday.offset(7 * DAY + HOUR), &[], &[earlier]);
    let older =
        OlderBackup::of(Path::new("older"), older, &newer()).expect("accepted as an older backup of the same store");
    let now = monday.offset(7 * DAY + 2 * HOUR);
    let flags = args(&["--table-unchanged"]);
    let start = |older| {
        let restore = plan(&flags, newer(), older, now, &SystemEntropy).expect("planned");
        let first = Count::Below(series.first().get());
        number(Counter::of_series(first, &restores_of(&restore), pace, capacity).reserved)
    };
    let (alone, with_older) = (start(None), start(Some(older)));
    assert!(alone >= issued, "without the older backup it starts at {alone}");
    assert!(with_older >= issued, "with the older backup it starts at {with_older}, but {issued} were issued");
}

/// An operator takes a floor from each of two databases.
#[test]
fn ok_of_two_floors_of_one_source_the_higher_counts_or_both_are_refused() {
    let series: kent_ids::Series = "serial:AB".parse().expect("a series");
    let counter = Counter { reserved: Count::Below(100), paid: TAKEN, unsure: false };
    let backup = backup(TAKEN, &[("serial:AB", counter)], &[]);
    let flags = args(&["--floor", "serial:AB=5000", "--floor", "serial:AB=9000"]);
    let Ok(restore) = plan(&flags, backup, None, TAKEN.offset(HOUR), &SystemEntropy) else { return };
    let next = stored::decode_counter(&restore.records[&keys::series(&series)]).expect("a counter").reserved;
    assert_eq!(number(next), 9000, "the second floor was silently ignored");
}

/// A host whose oscillator is 111 ppm fast, and whose wall clock is stepped back to true time every hour.
#[derive(Debug)]
struct Stepped {
    /// Nanoseconds since 1970 on the wall clock, and nanoseconds since boot.
    shown: Mutex<(i128, i128)>,
}

impl Stepped {
    fn at(time: UnixNanos) -> Arc<Self> {
        Arc::new(Self { shown: Mutex::new((time.get(), 0)) })
    }

    fn pass(&self, nanos: i128) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = (shown.0 + nanos, shown.1 + nanos);
    }

    fn step_back(&self, nanos: i128) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).0 -= nanos;
    }
}

impl Clock for Stepped {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(self.shown.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    fn steady(&self) -> Duration {
        let steady = self.shown.lock().unwrap_or_else(PoisonError::into_inner).1;
        Duration::from_nanos(u64::try_from(steady).expect("positive"))
    }
}

fn open(dir: &Path, new_id: u8) -> Arc<dyn Store> {
    Arc::new(SledStore::open(SledOptions { dir: dir.to_owned(), new_id: [new_id; 16] }).expect("opened"))
}

async fn start(store: &Arc<dyn Store>, clock: &Arc<Stepped>) -> Node {
    let config = Config::check(Settings { chunk_min: Some(1), chunk_max: Some(1), ..Settings::default() });
    let (store, clock, entropy) = (store.clone(), clock.clone(), Arc::new(SystemEntropy));
    let node = Node::start(Environment { store, clock, entropy }, &config.expect("valid")).await.expect("it starts");
    node.engine().slots().wait_for_slot(Duration::from_secs(5)).await;
    node
}

/// Takes suffixes, and returns the first.
async fn take(node: &Node, count: u64) -> Result<u64, Status> {
    let request = AllocateRequest { source: "region:r".to_owned(), count, ..Default::default() };
    let granted = node.allocator().allocate(Request::new(request)).await?.into_inner();
    let Some(Identifiers::Lease(lease)) = granted.identifiers else { panic!("expected a lease") };
    Ok(lease.first.expect("a number").low)
}

/// Tests a daemon, its backup and its restore with a host clock that safety.md allows. This clock is never ahead of the
/// restoring host's clock by more than `--clock-error`, and never behind the clock of the backup.
#[tokio::test]
async fn ok_a_restored_store_issues_nothing_that_a_host_with_a_stepped_clock_issued() {
    let dir = tempfile::tempdir().expect("a directory");
    let (lost, clock) = (open(&dir.path().join("lost"), 3), Stepped::at(TAKEN));
    let node = start(&lost, &clock).await;
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(40),
        pace: 1000,
        ..CreateRegionRequest::default()
    };
    node.regions().create_region(Request::new(create)).await.expect("created");
    for _hour in 0..720 {
        clock.pass(3600 * SECOND + 4 * SECOND / 10);
        take(&node, 1).await.expect("one");
        // The step is less than --clock-tolerance, so the daemon keeps its slot.
        clock.step_back(4 * SECOND / 10);
        take(&node, 1).await.expect("one");
    }
    let mut bytes = Vec::new();
    let mut parts = pin!(node.admin().backup(Request::new(BackupRequest {})).await.expect("a backup").into_inner());
    while let Some(part) = parts.try_next().await.expect("a whole backup") {
        bytes.extend(part.encode_length_delimited_to_vec());
    }
    // A client takes a large lease, and the disk is lost.
    let first = take(&node, 1_000_000).await.expect("a burst");
    node.abandon().await;
    clock.pass(60 * SECOND);

    let flags = args(&["--table-unchanged", "--clock-error", "1s"]);
    let restore = Restore::plan_in_memory(&flags, &bytes, clock.wall(), &SystemEntropy).expect("planned");
    let new = open(&dir.path().join("new"), 4);
    restore.write_to(&*new, &flags, &SystemEntropy).await.expect("written");
    // The new store may issue numbers once the wait after the restore is over.
    clock.pass(2000 * SECOND);
    let node = start(&new, &clock).await;
    let next = take(&node, 1).await.expect("granted");
    node.abandon().await;
    assert!(next >= first + 1_000_000, "{next} is issued again: {first} to {} were issued before", first + 999_999);
}
