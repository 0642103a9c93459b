use std::collections::BTreeSet;

use kent_ids::{ClockSeq, ClusterKey, Node, Slot, SlotEpoch};
use kent_issue::{BURST, HolderId, SlotRecord, series_pace};
use kent_proto::stored::{Counter, EditId, SpaceFacts, TextForm};
use kent_regions::{Extras, Kind, Order, Pace, Parent, Past, Prefix, Rare, Region, RegionNumber, Revision};

use super::{
    bound::CounterKind,
    renew::{LEAP, advanced},
    *,
};

const SECOND: i128 = 1_000_000_000;
const HOUR: i128 = 3600 * SECOND;
const TAKEN: UnixNanos = UnixNanos::new(1_800_000_000 * SECOND);
const SERIES: &str = "serial:AB";

fn args(more: &[&str]) -> RestoreArgs {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: RestoreArgs,
    }
    let line = ["kentd", "backup", "--data", "new"].into_iter().chain(more.iter().copied());
    <Line as clap::Parser>::try_parse_from(line).expect("arguments").args
}

/// A backup with a series and a scrambled region, both with this counter.
fn backup(counter: &Counter) -> Backup {
    let facts = SpaceFacts {
        deleted: false,
        bits: 64,
        revision: Revision(1),
        next_number: RegionNumber(1),
        last_edit: EditId::default(),
        scramble_key: ClusterKey::new([1; 16]),
        text_form: TextForm::Decimal,
    };
    let past = Past { key_number: Some(RegionNumber(1)), ..Past::default() };
    let region = Region {
        number: RegionNumber(0),
        name: "mixed".into(),
        prefix: Prefix::new(1, 4),
        zone: 40,
        suffix: 20,
        kind: Kind::Open,
        sub_bits: 0,
        parent: Parent::default(),
        issued: Rare::default(),
        since: Revision(1),
        order: Order::Scrambled,
        pace: Pace::for_bits(20),
        sealed: false,
        delegated: false,
        extras: Extras { past: past.into(), ..Extras::default() }.into(),
    };
    let records = vec![
        (keys::counter("default", 0), stored::encode_counter(counter)),
        (keys::region("default", 0), stored::encode_region(&region)),
        (keys::series(&SERIES.parse().expect("a series")), stored::encode_counter(counter)),
        (keys::space("default"), stored::encode_space(&facts)),
    ];
    Backup { unix_nanos: i64::try_from(TAKEN.get()).expect("a time"), records }
}

fn at(reserved: u128, paid: UnixNanos) -> Counter {
    Counter { reserved: Count::Below(reserved), paid, unsure: false }
}

fn planned(more: &[&str], counter: &Counter, now: UnixNanos) -> Result<Restore, RestoreError> {
    plan(&args(more), backup(counter), None, now, &SystemEntropy)
}

fn counter_of(restore: &Restore, key: &Key) -> Counter {
    stored::decode_counter(&restore.records[key]).expect("a counter")
}

fn lapse_of(restore: &Restore) -> Lapse {
    stored::decode_restores(&restore.records[&keys::RESTORES]).expect("restores")[0].lapse
}

#[test]
fn ok_a_restore_skips_what_the_lost_store_or_an_earlier_restore_issued_with_any_flags() {
    let series: kent_ids::Series = "uid11-fullrand".parse().expect("a series");
    let (key, pace) = (keys::series(&series), i128::from(series_pace(&series).get()));
    let planned = |counter: &Counter, error: i128, now: UnixNanos| {
        let mut backup = backup(counter);
        backup.records.push((key.clone(), stored::encode_counter(counter)));
        let error = format!("{error}s");
        let args = args(&["--clock-error", &error, "--table-unchanged"]);
        counter_of(&plan(&args, backup, None, now, &SystemEntropy).expect("planned"), &key)
    };
    let reserved =
        |counter: &Counter| i128::try_from(counter.reserved.get().expect("not all")).expect("less than 2^127");
    let burst = i128::try_from(BURST.as_nanos()).expect("short");
    // The value of a counter that moves at its pace until a clock shows `until`.
    let comes_to = |from: &Counter, until: UnixNanos| {
        reserved(from) + (until.offset(burst).get() - from.paid.get()) / SECOND * pace
    };
    let errors = [0, 1, 3600, 3 * 3600];
    // The clock of the lost store was an hour behind the clock that dated the backup.
    for known in [at(5000, UnixNanos::new(0)), at(5000, TAKEN.offset(-HOUR)), at(5000, TAKEN.offset(burst))] {
        let lost = Counter { paid: known.paid.max(TAKEN.offset(-HOUR)), ..known };
        for second in errors {
            let now = TAKEN.offset(9 * HOUR);
            // The clock of the second restoring host is behind all other clocks by the `--clock-error` of the second
            // restore.
            let later = reserved(&planned(&known, second, now.offset(-second * SECOND)));
            assert!(later >= comes_to(&lost, now), "{second}: {later}");
            for first in errors {
                let earlier = planned(&known, first, TAKEN.offset(HOUR));
                assert!(later >= comes_to(&earlier, now), "{first}, then {second}: {later}");
            }
        }
    }
}

#[test]
fn ok_a_restore_uses_the_latest_time_of_any_counter() {
    let burst = i128::try_from(BURST.as_nanos()).expect("short");
    // A daemon's clock has reached this time since the backup began.
    let latest = TAKEN.offset(3 * HOUR);
    let counter = at(5000, latest.offset(burst));
    let refused = planned(&["--clock-error", "1h"], &counter, TAKEN.offset(2 * HOUR - SECOND)).expect_err("behind");
    assert!(matches!(refused, RestoreError::ClockBehind { latest: known, .. } if known == latest), "{refused}");
    // A clock that is behind by at most `--clock-error` is accepted, and the later time is used.
    let restore = planned(&["--clock-error", "1h"], &counter, TAKEN.offset(2 * HOUR)).expect("planned");
    assert_eq!(lapse_of(&restore).until, latest.offset(HOUR));
    let restore = planned(&["--clock-error", "1h"], &counter, TAKEN.offset(4 * HOUR)).expect("planned");
    assert_eq!(lapse_of(&restore).until, TAKEN.offset(5 * HOUR));
    // The time of the backup counts as a recorded time.
    let refused =
        planned(&["--clock-error", "1h"], &at(0, UnixNanos::new(0)), TAKEN.offset(-2 * HOUR)).expect_err("behind");
    assert!(matches!(refused, RestoreError::ClockBehind { latest: TAKEN, .. }), "{refused}");
}

#[test]
fn ok_a_floor_of_a_scrambled_region_moves_to_the_next_octave() {
    let floored = |floor: &str, from: u128| {
        let restore =
            planned(&["--floor", &format!("region:mixed={floor}")], &at(from, TAKEN), TAKEN).expect("planned");
        let counter = counter_of(&restore, &keys::counter("default", 0));
        assert!(!counter.unsure);
        counter.reserved.get().expect("not all")
    };
    for (floor, from, expected) in
        [("5000", 0, 8192), ("8192", 0, 8192), ("8193", 0, 16_384), ("9000", 9000, 16_384), ("0", 0, 0), ("1", 0, 1)]
    {
        assert_eq!(floored(floor, from), expected, "{floor}, from {from}");
    }
    // A series is sequential.
    let restore = planned(&["--floor", &format!("{SERIES}=5000")], &at(0, TAKEN), TAKEN).expect("planned");
    let counter = counter_of(&restore, &keys::series(&SERIES.parse().expect("a series")));
    assert_eq!(counter.reserved, Count::Below(5000));
}

/// With a floor that is too low, the counter would again issue numbers that are in use.
#[test]
fn err_a_floor_below_the_position_in_the_backup_is_refused() {
    let counter = at(1003, TAKEN);
    for source in [SERIES, "region:mixed"] {
        let refused = planned(&["--floor", &format!("{source}=5")], &counter, TAKEN).expect_err("below");
        assert_eq!(
            refused.to_string(),
            format!(
                "--floor {source}=5 is below 1_003, the counter's position in the backup: N must be above every number in use, including \
                 those issued since the backup; leave --floor out to skip by pace"
            )
        );
    }
    let floored = |floor: &[&str]| {
        let flags: Vec<_> = floor.iter().flat_map(|next| ["--floor".to_owned(), format!("{SERIES}={next}")]).collect();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        planned(&flags, &counter, TAKEN)
            .map(|restore| counter_of(&restore, &keys::series(&SERIES.parse().expect("a series"))).reserved)
    };
    // With a floor equal to the counter, the operator declares that nothing has been issued since the backup. Of two
    // floors, the higher one is used.
    assert_eq!(floored(&["1003"]).expect("planned"), Count::Below(1003));
    assert_eq!(floored(&["5", "2000"]).expect("planned"), Count::Below(2000));
    floored(&["1002"]).expect_err("one below");
}

#[test]
fn ok_an_older_backup_bounds_its_counters_and_the_others_need_a_floor() {
    let of = |taken: UnixNanos, reserved: u128, has_region: bool| {
        let mut backup =
            Backup { unix_nanos: i64::try_from(taken.get()).expect("a time"), ..backup(&at(reserved, taken)) };
        backup.records.push((keys::CLUSTER, stored::encode_cluster(&ClusterKey::new([2; 16]))));
        backup.records.retain(|(key, _)| has_region || !key.as_str().ends_with("/default/0000000000000000"));
        backup
    };
    let (series, region) = (keys::series(&SERIES.parse().expect("a series")), keys::counter("default", 0));
    let restored = |older: Option<Backup>| {
        let newer = of(TAKEN, 700, true);
        let older = older.map(|older| OlderBackup::of(Path::new("older"), older, &newer).expect("older"));
        // Make the region large enough for the skipped numbers.
        let mut newer = newer;
        let record = newer.records.iter_mut().find(|(key, _)| *key == keys::region("default", 0)).expect("there");
        let known = stored::decode_region(&record.1, RegionNumber(0), Count::ZERO).expect("a region");
        record.1 = stored::encode_region(&Region { suffix: 50, zone: 10, ..known });
        let restore = plan(&args(&[]), newer, older, TAKEN.offset(HOUR), &SystemEntropy).expect("planned");
        (counter_of(&restore, &series), counter_of(&restore, &region), lapse_of(&restore))
    };
    let (alone_series, alone_region, alone) = restored(None);
    assert!(!alone_region.unsure);
    let day = 24 * HOUR;
    let (with_series, with_region, lapse) = restored(Some(of(TAKEN.offset(-day), 500, true)));
    // A day earlier, 200 fewer had been issued.
    let pace = u128::from(Pace::for_bits(20).get());
    let moved = |from: &Counter| from.reserved.checked_add(pace * 24 * 3600 - 200).expect("no overflow");
    assert_eq!(with_region, Counter { reserved: moved(&alone_region), ..alone_region });
    assert_eq!(with_series.unsure, alone_series.unsure);
    assert_eq!(lapse, Lapse { since: alone.since.offset(-day), ..alone });
    // The region was created after the older backup. It may also have been created in the store that was restored from
    // the older backup, with any number.
    let (_, unknown, _) = restored(Some(of(TAKEN.offset(-day), 500, false)));
    assert_eq!(unknown, Counter { reserved: Count::Below(700), unsure: true, ..alone_region });
    for (other, key) in [(TAKEN.offset(1), [2; 16]), (TAKEN, [3; 16])] {
        let mut older = of(other, 500, true);
        older.records.retain(|(key, _)| *key != keys::CLUSTER);
        older.records.push((keys::CLUSTER, stored::encode_cluster(&ClusterKey::new(key))));
        let refused = OlderBackup::of(Path::new("older"), older, &of(TAKEN, 700, true)).expect_err("not older");
        assert!(matches!(refused, RestoreError::NotOlder { .. }), "{refused}");
    }
}

fn region_of(records: &BTreeMap<Key, Vec<u8>>, space: &str, number: u64) -> Region {
    stored::decode_region(&records[&keys::region(space, number)], RegionNumber(number), Count::ZERO).expect("a region")
}

/// A region of each kind, all with a counter, even those that need none. Each entry has the source, the space and the
/// region, and whether a restore moves its counter and seals it.
fn regions_of_all_kinds() -> Vec<(&'static str, String, Region, bool, bool)> {
    let mixed = region_of(&backup(&at(0, TAKEN)).records.into_iter().collect(), "default", 0);
    let open = Region { order: Order::Sequential, zone: 10, suffix: 50, pace: Pace::for_bits(50), ..mixed };
    let outer = || "default".to_owned();
    vec![
        ("region:open", outer(), open.clone(), true, true),
        ("region:partial", outer(), Region { kind: Kind::Partial, ..open.clone() }, true, true),
        ("region:closed", outer(), Region { kind: Kind::Closed, zone: 0, suffix: 0, ..open.clone() }, false, false),
        ("region:external", outer(), Region { order: Order::External, ..open.clone() }, false, true),
        ("region:delegated", outer(), Region { delegated: true, ..open.clone() }, false, false),
        ("region:sealed", outer(), Region { sealed: true, ..open.clone() }, true, false),
        ("region:inner@default/delegated", keys::inner_space("default", 5), open, true, true),
    ]
}

#[test]
fn ok_a_restore_moves_counters_that_may_have_issued_and_seals_regions_that_may_have_been_edited() {
    let counter = at(500, TAKEN);
    let Backup { mut records, unix_nanos } = backup(&counter);
    let facts = stored::decode_space(&records.last().expect("the space's").1).expect("facts");
    let of_all_kinds = regions_of_all_kinds();
    for ((source, space, region, ..), number) in of_all_kinds.iter().zip(1..) {
        let name = source.split([':', '@']).nth(1).expect("a name").into();
        records.push((keys::region(space, number), stored::encode_region(&Region { name, ..region.clone() })));
        records.push((keys::counter(space, number), stored::encode_counter(&counter)));
    }
    let inner = keys::inner_space("default", 5);
    records.push((keys::space(&inner), stored::encode_space(&SpaceFacts { bits: 50, ..facts })));
    records.extend([keys::BOOTS, keys::IN_FORCE].map(|key| (key, vec![1])));
    for (more, seals) in [(&[][..], true), (&["--table-unchanged"], false)] {
        let backup = Backup { unix_nanos, records: records.clone() };
        let restore = plan(&args(more), backup, None, TAKEN.offset(HOUR), &SystemEntropy).expect("planned");
        let mut sources = vec!["region:mixed", "serial:AB"];
        let mut sealed = vec![("default", 0)];
        for ((source, space, before, is_moved, is_sealed), number) in of_all_kinds.iter().zip(1..) {
            let after = counter_of(&restore, &keys::counter(space, number));
            assert_eq!(after != counter, *is_moved, "{source}");
            let region = region_of(&restore.records, space, number);
            assert_eq!(region.sealed, before.sealed || (seals && *is_sealed), "{source}");
            sources.extend(is_moved.then_some(*source));
            sealed.extend(is_sealed.then_some((&**space, number)));
        }
        let skipped: Vec<_> = restore.skips.iter().map(|skip| &*skip.source).collect();
        assert!(sources.iter().all(|source| skipped.contains(source)), "{skipped:?}");
        assert_eq!((skipped.len(), restore.sealed), (sources.len(), if seals { sealed.len() } else { 0 }));
        let made = Revision(advanced(facts.revision.0, TAKEN.offset(HOUR)));
        for space in ["default", &inner] {
            let after = stored::decode_space(&restore.records[&keys::space(space)]).expect("facts");
            assert_eq!((after.revision, after.next_number.0), (made, facts.next_number.0 + LEAP));
            assert_ne!(after.last_edit, facts.last_edit);
            let entry = stored::decode_history([&*restore.records[&keys::history(space, made.0, 0)]]).expect("an edit");
            assert_eq!((&*entry.principal, &*entry.operation), ("kentd restore", "restore"));
            assert_eq!(entry.follows, Some(facts.revision));
            let changed = entry.changes.iter().map(|change| {
                assert!(change.before.as_ref().is_some_and(|before| !before.sealed));
                assert!(change.after.as_ref().is_some_and(|after| after.sealed));
                (space, change.number.0)
            });
            let expected = sealed.iter().copied().filter(|(of, _)| seals && *of == space);
            assert!(changed.eq(expected));
            let forgotten = stored::decode_forgotten(&restore.records[&keys::oldest(space)]).expect("a record");
            assert_eq!((forgotten.through, forgotten.passed_over), (0, made.0 - facts.revision.0 - 1));
        }
        assert!(!restore.records.contains_key(&keys::BOOTS) && !restore.records.contains_key(&keys::IN_FORCE));
    }
}

/// The error must not advise using an empty directory, which suits a new store but would not help here.
#[tokio::test]
async fn err_a_directory_without_a_store_is_not_a_source() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("foo"), "").expect("written");
    let args = RestoreArgs { source: dir.path().to_owned(), ..args(&[]) };
    let refused = Restore::plan_at(&args, TAKEN, &SystemEntropy).await.expect_err("nothing to restore").to_string();
    assert!(refused.starts_with("there is no backup or store at ") && refused.contains("or an archive"), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 1);
}

#[test]
fn ok_every_slot_continues_after_its_reservation_with_a_new_fence() {
    let (mut early, until) = (backup(&at(0, TAKEN)), TAKEN.offset(HOUR));
    let slots: Vec<Slot> = Slot::all().collect();
    let record = |slot: Slot, until: UnixNanos| SlotRecord {
        node: Node::for_slot(7, slot),
        clock_seq: ClockSeq::from_random(7),
        epoch: SlotEpoch::new(3),
        holder: HolderId::new([7; 16]),
        reserved_until: until.ceil_seconds(),
        seen: TAKEN.ceil_seconds(),
    };
    let known = [None, Some(record(slots[1], TAKEN)), Some(record(slots[2], TAKEN.offset(9 * HOUR)))];
    for (slot, record) in slots.iter().zip(&known) {
        early.records.extend(record.as_ref().map(|record| (keys::slot(*slot), stored::encode_slot(record))));
    }
    let restore = plan(&args(&["--clock-error", "0s"]), early, None, until, &SystemEntropy).expect("planned");
    let expected = until.offset(2 * SECOND).ceil_seconds();
    assert_eq!(restore.reserved_until, expected);
    let (mut nodes, mut sequences) = (BTreeSet::new(), BTreeSet::new());
    for (slot, at) in slots.iter().zip(0_usize..) {
        let after = stored::decode_slot(&restore.records[&keys::slot(*slot)]).expect("a slot");
        nodes.insert(after.node.get());
        sequences.insert(after.clock_seq.get());
        match known.get(at).and_then(Option::as_ref) {
            Some(before) => {
                assert_eq!(after.reserved_until, before.reserved_until.max(expected));
                assert_eq!((after.node, after.clock_seq, after.seen), (before.node, before.clock_seq, before.seen));
                assert_eq!(after.epoch.get(), advanced(before.epoch.get(), until));
            }
            None => assert_eq!((after.reserved_until, after.epoch.get()), (expected, advanced(0, until))),
        }
        assert_ne!(after.holder, HolderId::new([7; 16]));
    }
    assert_eq!(nodes.len(), slots.len(), "each slot has a separate node");
    assert!(sequences.len() > 2, "most slots have a separate clock sequence: {sequences:?}");
}

#[test]
fn ok_the_latest_time_of_a_directory_is_the_last_write_of_a_slot() {
    let record = |seen: UnixNanos| SlotRecord {
        node: Node::for_slot(7, Slot::all().next().expect("a slot")),
        clock_seq: ClockSeq::from_random(7),
        epoch: SlotEpoch::new(3),
        holder: HolderId::new([7; 16]),
        reserved_until: TAKEN.offset(9 * HOUR).ceil_seconds(),
        seen: seen.ceil_seconds(),
    };
    let slots = Slot::all().zip([TAKEN, TAKEN.offset(HOUR), TAKEN.offset(-HOUR)]);
    let records: Vec<_> = slots.map(|(slot, seen)| (keys::slot(slot), stored::encode_slot(&record(seen)))).collect();
    // The recorded time was rounded up.
    assert_eq!(latest(&records), Ok(TAKEN.offset(HOUR - SECOND)));
    assert_eq!(latest(&[]), Ok(UnixNanos::new(0)));
}

#[test]
fn ok_a_floor_may_equal_the_capacity() {
    let counter = at(0, TAKEN);
    let floored = |floor: &str| planned(&["--floor", floor], &counter, TAKEN);
    // The region has 2^20 numbers.
    let restore = floored("region:mixed=1_048_576").expect("planned");
    assert_eq!(counter_of(&restore, &keys::counter("default", 0)).reserved, Count::Below(1 << 20));
    let floor_of =
        |restore: &Restore, of: &str| restore.skips.iter().find(|skip| skip.source == of).expect("listed").to;
    assert_eq!(floor_of(&restore, "region:mixed"), Some(Count::Below(1 << 20)));
    let unsure = planned(&[], &at(1 << 20, TAKEN), TAKEN.offset(HOUR)).expect("planned");
    assert!(counter_of(&unsure, &keys::counter("default", 0)).unsure);
    assert_eq!(floor_of(&unsure, "region:mixed"), None);
    let refused = floored("region:mixed=1048577").expect_err("one more");
    assert!(matches!(refused, RestoreError::FloorTooHigh { capacity: Count::Below(0x10_0000), .. }), "{refused}");
    let refused = floored("region:missing=1").expect_err("no such region");
    assert!(matches!(refused, RestoreError::NoSuchSource { .. }), "{refused}");
    let listed = "no such region; its sources with a counter are region:mixed";
    assert!(refused.to_string().contains(listed), "{refused}");
    // A floor may also name a series whose counter was lost.
    let restore = floored("serial:CD=17").expect("planned");
    assert_eq!(counter_of(&restore, &keys::series(&"serial:CD".parse().expect("one"))).reserved, Count::Below(17));
}

#[test]
fn err_a_malformed_floor_is_refused() {
    assert!(parse_floor("region:r=1_000").is_ok_and(|floor| floor.next == Count::Below(1000)));
    for (text, says) in
        [("region:r", "SOURCE=N"), ("uuidv7=1", "has no counter"), ("region:r=x", "not a whole number"), ("=1", "")]
    {
        let error = parse_floor(text).expect_err(text);
        assert!(error.contains(says), "{error}");
    }
}

/// A backup of a complete store, taken at this time after these restores.
fn complete(counter: &Counter, taken: UnixNanos, restores: &[Restored]) -> Backup {
    let mut backup = Backup { unix_nanos: i64::try_from(taken.get()).expect("a time"), ..backup(counter) };
    backup.records.push((keys::CLUSTER, stored::encode_cluster(&ClusterKey::new([2; 16]))));
    backup.records.extend((!restores.is_empty()).then(|| (keys::RESTORES, stored::encode_restores(restores))));
    backup
}

fn restores_of(restore: &Restore) -> Vec<Restored> {
    stored::decode_restores(&restore.records[&keys::RESTORES]).expect("restores")
}

#[test]
fn ok_earlier_restores_are_kept_and_bound_missing_counters() {
    let lapse = Lapse { since: TAKEN.offset(-9 * HOUR), until: TAKEN.offset(-8 * HOUR) };
    for tables_edited in [false, true] {
        let earlier = Restored { lapse, tables_edited };
        let mut backup = complete(&at(0, TAKEN), TAKEN, &[earlier]);
        // A region of 2^50 numbers from which nothing was issued.
        let record = backup.records.iter_mut().find(|(key, _)| *key == keys::region("default", 0)).expect("there");
        let known = stored::decode_region(&record.1, RegionNumber(0), Count::ZERO).expect("a region");
        record.1 = stored::encode_region(&Region { suffix: 50, zone: 10, ..known });
        backup.records.retain(|(key, _)| *key != keys::counter("default", 0));
        let restore = plan(&args(&["--table-unchanged"]), backup, None, TAKEN, &SystemEntropy).expect("planned");
        let restores = restores_of(&restore);
        assert_eq!((restores.len(), restores[0], restores[1].tables_edited), (2, earlier, false));
        assert_eq!(counter_of(&restore, &keys::counter("default", 0)).unsure, tables_edited);
    }
}

#[test]
fn ok_an_older_backup_replaces_later_restores_with_one() {
    let lapse = |hours: i128| Lapse { since: TAKEN.offset(-hours * HOUR), until: TAKEN.offset((1 - hours) * HOUR) };
    let first = Restored { lapse: lapse(90), tables_edited: false };
    for tables_edited in [false, true] {
        let since = Restored { lapse: lapse(9), tables_edited };
        let newer = complete(&at(0, TAKEN), TAKEN, &[first, since]);
        let older = complete(&at(0, TAKEN), TAKEN.offset(-48 * HOUR), &[first]);
        let older = OlderBackup::of(Path::new("older"), older, &newer).expect("older");
        let restore = plan(&args(&["--table-unchanged"]), newer, Some(older), TAKEN, &SystemEntropy).expect("planned");
        let restores = restores_of(&restore);
        assert_eq!((restores.len(), restores[0]), (2, first));
        assert_eq!(restores[1].tables_edited, tables_edited);
        assert_eq!(restores[1].lapse.since, Lapse::begin(TAKEN.offset(-48 * HOUR)));
    }
}

#[test]
fn ok_a_region_that_the_older_backup_knows_without_a_counter_is_bounded() {
    let newer = complete(&at(500, TAKEN), TAKEN, &[]);
    let mut older = complete(&at(0, TAKEN), TAKEN, &[]);
    older.records.retain(|(key, _)| *key != keys::counter("default", 0));
    // A backup with the same time counts as older.
    let older = OlderBackup::of(Path::new("older"), older, &newer).expect("as old");
    let kind = CounterKind {
        first: Count::ZERO,
        pace: Pace::for_bits(20),
        capacity: Count::power_of_two(50),
        order: Order::Scrambled,
        record: Some(keys::region("default", 0)),
    };
    let bound = |kind| older.bounds(&keys::counter("default", 0), TAKEN, kind).expect("a bound");
    assert!(bound(&kind).is_some_and(|bound| bound > Count::ZERO));
    assert_eq!(bound(&CounterKind { record: Some(keys::region("default", 1)), ..kind }), None);
}

#[tokio::test]
async fn ok_a_planned_restore_is_written_into_an_empty_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("new");
    let args = RestoreArgs { data: data.clone(), ..args(&[]) };
    let planned = || plan(&args, complete(&at(500, TAKEN), TAKEN, &[]), None, TAKEN, &SystemEntropy).expect("planned");
    let restore = planned();
    let expected = restore.records.clone();
    restore.write(&args).await.expect("written");
    let read = load(&data).await.expect("a complete store");
    assert_eq!(read.records.into_iter().collect::<BTreeMap<_, _>>(), expected);
    let refused = planned().write(&args).await.expect_err("a store exists");
    assert!(matches!(refused, RestoreError::NotEmpty { .. }), "{refused}");
}

#[tokio::test]
async fn err_a_store_that_is_not_empty_is_not_touched() {
    let store = kent_store::MemoryStore::new(StoreId::new([1; 16]));
    store.commit(kent_store::Txn::new().put(keys::BOOTS, [1])).await.expect("committed");
    let args = args(&[]);
    let restore = plan(&args, complete(&at(500, TAKEN), TAKEN, &[]), None, TAKEN, &SystemEntropy).expect("planned");
    let refused = restore.write_to(&store, &args, &SystemEntropy).await.expect_err("the store is not empty");
    assert!(matches!(refused, RestoreError::NotEmpty { .. }), "{refused}");
    let there: Vec<Key> = store.scan(&Key::ROOT).await.expect("read").into_iter().map(|(key, _)| key).collect();
    assert_eq!(there, [keys::BOOTS]);
}

#[tokio::test]
async fn ok_an_archive_is_locked_while_it_is_restored_and_is_not_restored_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("archive")).expect("created");
    let archiving = Archiving::To { dir: path("archive"), base_after: 1 << 20 };
    let options = SledOptions { dir: path("old"), new_id: [1; 16] };
    let store = SledStore::open_archived(options, archiving).expect("opened");
    let txn = |txn: kent_store::Txn, (key, value)| txn.put(key, value);
    let records = complete(&at(500, TAKEN), TAKEN, &[]).records.into_iter();
    store.commit(records.fold(kent_store::Txn::new(), txn)).await.expect("committed");
    store.close().await;
    drop(store);
    let own = kent_store::Archived::list(&path("archive")).expect("read").remove(0).0;
    let hold = || kent_store::ArchiveLock::take(&own);

    let args = RestoreArgs { source: path("archive"), data: path("new"), ..args(&["--archive"]) };
    let planned = async |dry_run| {
        let args = RestoreArgs { dry_run, ..args.clone() };
        Restore::plan_at(&args, TAKEN, &SystemEntropy).await
    };
    let held = hold().expect("it is free");
    planned(true).await.expect("a dry run may read it");
    let refused = planned(false).await.expect_err("a daemon may still write to it");
    assert!(matches!(refused, RestoreError::Archive(_)), "{refused}");
    drop(held);
    let restore = planned(false).await.expect("planned");
    assert!(hold().is_err(), "no daemon can continue");
    let counter = counter_of(&restore, &keys::counter("default", 0));
    assert_eq!(counter.reserved, Count::Below(500), "nothing is skipped");
    let half = SledStore::open(SledOptions { dir: path("new"), new_id: [2; 16] }).expect("opened");
    let archive = restore.archive.as_ref().expect("an archive");
    archive.hand_over(half.store_id(), &path("new")).expect("recorded");
    Filling::begin(&half, archive.store, restore.records.clone(), &SystemEntropy).await.expect("begun");
    half.close().await;
    drop((half, restore));
    let resumed = Restore::plan(&args).await.expect("an interrupted restore is continued");
    resumed.write(&args).await.expect("written");
    let again = Restore::plan(&args).await.expect_err("it is complete");
    assert!(matches!(again, RestoreError::NotEmpty { .. }), "{again}");
    let elsewhere = RestoreArgs { data: path("elsewhere"), ..args };
    let refused = Restore::plan_at(&elsewhere, TAKEN, &SystemEntropy).await.expect_err("it was restored");
    assert!(matches!(refused, RestoreError::Archive(_)), "{refused}");
}

#[test]
fn ok_a_later_restore_of_a_backup_has_higher_fences_and_revisions() {
    let slot = Slot::all().next().expect("a slot");
    let marks = |now: UnixNanos| {
        let restore = planned(&["--clock-error", "0s"], &at(0, TAKEN), now).expect("planned");
        let slot = stored::decode_slot(&restore.records[&keys::slot(slot)]).expect("a slot");
        let space = stored::decode_space(&restore.records[&keys::space("default")]).expect("a space");
        (slot.epoch.get(), space.revision.0)
    };
    let (earlier, later) = (marks(TAKEN.offset(HOUR)), marks(TAKEN.offset(HOUR + SECOND)));
    // The difference covers all starts and edits that the earlier store may make within a second.
    assert!(later.0 >= earlier.0 + 100_000 && later.1 >= earlier.1 + 100_000, "{earlier:?} {later:?}");
    // Even with a wrong clock, fences and revisions exceed those in the backup.
    assert_eq!(advanced(7, UnixNanos::new(-1)), 7 + LEAP);
    assert_eq!(advanced(u64::MAX, TAKEN), u64::MAX);
}
