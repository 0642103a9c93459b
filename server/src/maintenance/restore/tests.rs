use kent_ids::ClusterKey;
use kent_issue::BURST;
use kent_proto::stored::{EditId, TextForm};
use kent_regions::{Prefix, Rare};

use super::*;

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

/// A backup with a series and a scrambled region whose counters stand here.
fn backup(counter: &Counter) -> Backup {
    let facts = SpaceFacts {
        bits: 64,
        revision: Revision(1),
        next_number: RegionNumber(1),
        last_edit: EditId::default(),
        scramble_key: ClusterKey::new([1; 16]),
        text_form: TextForm::Decimal,
    };
    let region = Region {
        number: RegionNumber(0),
        name: "mixed".to_owned(),
        prefix: Prefix::new(1, 4),
        zone: 40,
        suffix: 20,
        kind: Kind::Open,
        sub_bits: 0,
        parent: None,
        issued: Count::ZERO,
        since: Revision(1),
        history: Vec::new(),
        order: Order::Scrambled,
        pace: Pace::for_bits(20),
        sealed: false,
        delegated: false,
        policy: Rare::default(),
        texts: Rare::default(),
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
fn ok_a_restore_does_not_reach_what_the_lost_store_or_an_earlier_restore_issued_whatever_their_flags() {
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
    // What a store comes to that issues at its pace until a clock says `until`.
    let comes_to = |from: &Counter, until: UnixNanos| {
        reserved(from) + (until.offset(burst).get() - from.paid.get()) / SECOND * pace
    };
    let errors = [0, 1, 3600, 3 * 3600];
    // The clock of the lost store was an hour behind the one that the backup has its time from.
    for known in [at(5000, UnixNanos::new(0)), at(5000, TAKEN.offset(-HOUR)), at(5000, TAKEN.offset(burst))] {
        let lost = Counter { paid: known.paid.max(TAKEN.offset(-HOUR)), ..known };
        for second in errors {
            let now = TAKEN.offset(9 * HOUR);
            // The host of the second restore is behind all others by as much as it allows for.
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
fn ok_the_latest_time_that_a_counter_was_paid_by_has_passed() {
    let burst = i128::try_from(BURST.as_nanos()).expect("short");
    // A daemon's clock has said so since the backup was begun.
    let latest = TAKEN.offset(3 * HOUR);
    let counter = at(5000, latest.offset(burst));
    let refused = planned(&["--clock-error", "1h"], &counter, TAKEN.offset(2 * HOUR - SECOND)).expect_err("behind");
    assert!(matches!(refused, RestoreError::ClockBehind { latest: known, .. } if known == latest), "{refused}");
    // A clock that may be right, but is behind, goes on from there.
    let restore = planned(&["--clock-error", "1h"], &counter, TAKEN.offset(2 * HOUR)).expect("planned");
    assert_eq!(lapse_of(&restore).until, latest.offset(HOUR));
    let restore = planned(&["--clock-error", "1h"], &counter, TAKEN.offset(4 * HOUR)).expect("planned");
    assert_eq!(lapse_of(&restore).until, TAKEN.offset(5 * HOUR));
    // Also the time of the backup has passed.
    let refused =
        planned(&["--clock-error", "1h"], &at(0, UnixNanos::new(0)), TAKEN.offset(-2 * HOUR)).expect_err("behind");
    assert!(matches!(refused, RestoreError::ClockBehind { latest: TAKEN, .. }), "{refused}");
}

#[test]
fn ok_a_floor_of_a_scrambled_region_is_that_of_the_next_octave() {
    let floored = |floor: &str, from: u128| {
        let restore =
            planned(&["--floor", &format!("region:mixed={floor}")], &at(from, TAKEN), TAKEN).expect("planned");
        let counter = counter_of(&restore, &keys::counter("default", 0));
        assert!(!counter.unsure);
        counter.reserved.get().expect("not all")
    };
    for (floor, from, expected) in
        [("5000", 0, 8192), ("8192", 0, 8192), ("8193", 0, 16_384), ("5000", 9000, 9000), ("0", 0, 0), ("1", 0, 1)]
    {
        assert_eq!(floored(floor, from), expected, "{floor}, from {from}");
    }
    // A series is in order.
    let restore = planned(&["--floor", &format!("{SERIES}=5000")], &at(0, TAKEN), TAKEN).expect("planned");
    let counter = counter_of(&restore, &keys::series(&SERIES.parse().expect("a series")));
    assert_eq!(counter.reserved, Count::Below(5000));
}

#[test]
fn ok_what_an_older_backup_bounds_is_bounded_by_it_and_the_rest_needs_a_floor() {
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
        let older = older.map(|older| Older::of(Path::new("older"), older, &newer).expect("older"));
        // Large enough for what is skipped.
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
    // 200 less had been issued, a day earlier.
    let pace = u128::from(Pace::for_bits(20).get());
    let moved = |from: &Counter| from.reserved.checked_add(pace * 24 * 3600 - 200).expect("room");
    assert_eq!(with_region, Counter { reserved: moved(&alone_region), ..alone_region });
    assert_eq!(with_series.unsure, alone_series.unsure);
    assert_eq!(lapse, Lapse { since: alone.since.offset(-day), ..alone });
    // The region was made since, and may have been made again elsewhere, with any number.
    let (_, unknown, _) = restored(Some(of(TAKEN.offset(-day), 500, false)));
    assert_eq!(unknown, Counter { reserved: Count::Below(700), unsure: true, ..alone_region });
    for (other, key) in [(TAKEN.offset(1), [2; 16]), (TAKEN, [3; 16])] {
        let mut older = of(other, 500, true);
        older.records.retain(|(key, _)| *key != keys::CLUSTER);
        older.records.push((keys::CLUSTER, stored::encode_cluster(&ClusterKey::new(key))));
        let refused = Older::of(Path::new("older"), older, &of(TAKEN, 700, true)).expect_err("not older");
        assert!(matches!(refused, RestoreError::NotOlder { .. }), "{refused}");
    }
}
