//! Tests of strict counters.

use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::num::NonZeroU64;

use kent_regions::Pace;
use proptest::prelude::*;

use super::*;

const NOW: UnixNanos = UnixNanos::new(1_800_000_000_000_000_000);
const BOUND: Bound =
    Bound { capacity: Position::new(100), pace: Pace::per_second(NonZeroU64::MAX), time: NOW, stride: Stride::EVERY };
const RULES: RequestRules = RequestRules {
    policy: RequestPolicy { retention: core::time::Duration::from_secs(60), undated_max: 2 },
    floor: UnixNanos::new(0),
    now: Some(NOW),
};

/// Returns the stored state of a counter with `issued` suffixes issued.
fn stored(issued: u128) -> StrictState {
    let value = Reserved { below: Position::new(issued), paid: UnixNanos::new(0) };
    let undated = Some(Stored { version: 3, value: 0 });
    StrictState { counter: Stored { version: 7, value }, is_unsure: false, undated, is_remembered: false }
}

fn ask(count: u64) -> StrictRequest<'static, u32> {
    StrictRequest { count: NonZeroU64::new(count).unwrap(), id: None }
}

fn named(count: u64, key: &u32) -> StrictRequest<'_, u32> {
    StrictRequest { id: Some(StrictId { key, dated: None, before: None }), ..ask(count) }
}

/// Returns a request whose request ID was made `ago` seconds before now.
fn dated(count: u64, key: &u32, ago: i128) -> StrictRequest<'_, u32> {
    let millis = (NOW.get() - ago * 1_000_000_000) as u128 / 1_000_000;
    let uuid = kent_ids::Uuid::from_u128(millis << 80 | 7 << 76 | 2 << 62 | u128::from(*key));
    let dated = DatedRequest::parse(&uuid.to_string());
    StrictRequest { id: Some(StrictId { key, dated: Some(dated.unwrap()), before: None }), ..ask(count) }
}

fn again<'k>(request: StrictRequest<'k, u32>, first: u128, count: u64) -> StrictRequest<'k, u32> {
    earlier(request, first, count, true)
}

fn earlier<'k>(mut request: StrictRequest<'k, u32>, first: u128, count: u64, is_own: bool) -> StrictRequest<'k, u32> {
    let run = Run { first: Position::new(first), count, stride: Stride::EVERY };
    request.id.as_mut().unwrap().before = Some(Earlier { run, is_own });
    request
}

/// Returns the outcomes of the requests as short strings.
fn outcomes(plan: &StrictPlan) -> Vec<String> {
    let one = |outcome: &StrictOutcome| match outcome {
        StrictOutcome::Granted(first) => format!("from {}", first.get()),
        StrictOutcome::GrantedBefore(run) => format!("before {}", run.first.get()),
        StrictOutcome::Refused(StrictRefusal::Full { issued }) => format!("full {}", issued.get()),
        StrictOutcome::Refused(StrictRefusal::TooFast(_)) => "too fast".into(),
        StrictOutcome::Refused(StrictRefusal::Unsure) => "unsure".into(),
        StrictOutcome::Refused(StrictRefusal::Reused { count }) => format!("reused {count}"),
        StrictOutcome::Refused(StrictRefusal::OthersId) => "of another".into(),
        StrictOutcome::Refused(StrictRefusal::Request(RequestRefusal::TooMany { .. })) => "too many".into(),
        StrictOutcome::Refused(StrictRefusal::Request(RequestRefusal::TooOld { .. })) => "too old".into(),
        StrictOutcome::Refused(StrictRefusal::Request(RequestRefusal::TooNew { .. })) => "too new".into(),
        StrictOutcome::Again => "again".into(),
    };
    plan.outcomes().iter().map(one).collect()
}

#[test]
fn err_a_request_id_of_another_caller_gets_none_of_its_suffixes() {
    let key = 1;
    let requests = [earlier(named(3, &key), 0, 3, false), earlier(named(4, &key), 0, 3, false)];
    let plan = stored(7).plan(&BOUND, &RULES, &requests);
    assert_eq!(outcomes(&plan), ["of another", "of another"], "and the count is not revealed");
    assert!(plan.is_empty());
}

#[test]
fn ok_grants_with_a_stride_take_its_span() {
    let bound = Bound { stride: Stride::new(3, 1).unwrap(), ..BOUND };
    let key = 1;
    // 93 suffixes are left, which are 31 identifiers. An earlier grant keeps its own stride.
    let requests = [ask(30), again(named(2, &key), 0, 2), ask(2), ask(1)];
    let plan = stored(7).plan(&bound, &RULES, &requests);
    assert_eq!(outcomes(&plan), ["from 7", "before 0", "full 97", "from 97"]);
    assert_eq!((plan.count(), plan.reserved().below.get()), (31, 100));
    let [_, StrictOutcome::GrantedBefore(run), ..] = plan.outcomes() else { panic!("not repeated") };
    assert_eq!((run.count, run.stride), (2, Stride::EVERY));
}

#[test]
fn ok_grants_of_one_commit_are_consecutive() {
    let remembered = StrictState { is_remembered: true, ..stored(7) };
    let unsure = StrictState { is_unsure: true, ..stored(7) };
    let unread = StrictState { undated: None, ..stored(7) };
    let (a, b, c) = (1, 2, 3);
    let cases = [
        ("in order", stored(7), vec![ask(3), ask(4)], vec!["from 7", "from 10"], 14),
        ("up to the last suffix", stored(7), vec![ask(93), ask(1)], vec!["from 7", "full 100"], 100),
        (
            "a request that is too large leaves the rest",
            stored(7),
            vec![ask(94), ask(93)],
            vec!["full 7", "from 7"],
            100,
        ),
        (
            "a remembered state cannot prove that the counter is full",
            remembered,
            vec![ask(94), ask(2)],
            vec!["again", "from 7"],
            9,
        ),
        ("an unknown counter", unsure, vec![ask(1), named(1, &a)], vec!["unsure", "unsure"], 7),
        ("an earlier grant and an unknown counter", unsure, vec![again(named(2, &a), 0, 2)], vec!["before 0"], 7),
        (
            "the same request ID twice in one commit",
            stored(7),
            vec![named(1, &a), named(1, &a)],
            vec!["from 7", "again"],
            8,
        ),
        ("granted before", stored(7), vec![again(named(2, &a), 3, 2), ask(1)], vec!["before 3", "from 7"], 8),
        ("granted before with another count", stored(7), vec![again(named(3, &a), 3, 2)], vec!["reused 2"], 7),
        (
            "granted before, twice in one commit",
            stored(7),
            vec![again(named(2, &a), 3, 2); 2],
            vec!["before 3", "before 3"],
            7,
        ),
        (
            "at most two undated request IDs",
            stored(7),
            vec![named(1, &a), named(1, &b), named(1, &c)],
            vec!["from 7", "from 8", "too many"],
            9,
        ),
        (
            "the number of undated request IDs was not read",
            unread,
            vec![named(1, &a), dated(1, &b, 0)],
            vec!["again", "from 7"],
            8,
        ),
        (
            "dated request IDs are not counted",
            stored(7),
            vec![dated(1, &a, 0), named(1, &b), named(1, &c)],
            vec!["from 7", "from 8", "from 9"],
            10,
        ),
        (
            "too old and too new",
            stored(7),
            vec![dated(1, &a, 61), dated(1, &b, 60), dated(1, &c, -86_401)],
            vec!["too old", "from 7", "too new"],
            8,
        ),
    ];
    for (name, state, requests, expected, below) in cases {
        let plan = state.plan(&BOUND, &RULES, &requests);
        assert_eq!(outcomes(&plan), expected, "{name}");
        assert_eq!(plan.reserved().below.get(), below, "{name}");
        assert_eq!((plan.is_empty(), plan.guard(), u128::from(plan.count())), (below == 7, 7, below - 7), "{name}");
    }
}

#[test]
fn ok_request_ids_below_the_floor_are_forgotten_for_any_clock() {
    for now in [None, Some(NOW), Some(NOW.offset(-1_000_000_000_000))] {
        let rules = RequestRules { floor: NOW, now, ..RULES };
        let (a, b) = (1, 2);
        let plan = stored(7).plan(&BOUND, &rules, &[dated(1, &a, 1), dated(1, &b, 0)]);
        assert_eq!(outcomes(&plan), ["too old", "from 7"], "{now:?}");
    }
}

#[test]
fn ok_a_plan_has_its_guards_and_the_state_after_it() {
    let (a, b) = (1, 2);
    let none = stored(7).plan(&BOUND, &RULES, &[ask(2)]);
    assert_eq!((none.is_dated(), none.undated()), (false, None));
    assert_eq!(none.on_committed(9).undated, stored(7).undated, "the number was not written");
    let refused = stored(99).plan(&BOUND, &RULES, &[dated(2, &a, 0), named(2, &b)]);
    assert_eq!((refused.is_empty(), refused.is_dated(), refused.undated()), (true, false, None));
    let both = stored(7).plan(&BOUND, &RULES, &[dated(2, &a, 0), named(2, &b)]);
    assert_eq!((both.is_dated(), both.undated()), (true, Some((Stored { version: 3, value: 0 }, 1))));
    let left = both.on_committed(9);
    let counter = Stored { version: 9, value: both.reserved() };
    let undated = Some(Stored { version: 9, value: 1 });
    assert_eq!(left, StrictState { counter, is_unsure: false, undated, is_remembered: true });
}

#[test]
fn ok_the_count_of_large_requests_saturates() {
    let bound = Bound { capacity: Position::new(u128::MAX), ..BOUND };
    for (requests, expected) in [
        (vec![ask(u64::MAX)], u64::MAX),
        (vec![ask(u64::MAX - 1), ask(1)], u64::MAX),
        (vec![ask(u64::MAX); 2], u64::MAX),
    ] {
        let plan = stored(0).plan(&bound, &RULES, &requests);
        assert_eq!(plan.count(), expected, "{requests:?}");
    }
}

#[test]
fn ok_the_pace_is_kept() {
    // At a pace of 1 per second, a burst of 1024 suffixes can be granted at once.
    let bound = Bound { capacity: Position::new(10_000), pace: Pace::per_second(NonZeroU64::MIN), ..BOUND };
    let plan = stored(0).plan(&bound, &RULES, &[ask(1000), ask(25), ask(24), ask(1)]);
    assert_eq!(outcomes(&plan), ["from 0", "too fast", "from 1000", "too fast"]);
    assert_eq!(outcomes(&plan.on_committed(1).plan(&bound, &RULES, &[ask(1)])), ["too fast"]);
}

proptest! {
    /// Over a series of commits, no suffix is granted twice or skipped, and each request ID gets one grant.
    #[test]
    fn ok_no_gap_and_no_repetition(
        batches in prop::collection::vec((1..4u16, prop::collection::vec((1_u64..20, 0_u32..6), 0..6)), 1..8),
    ) {
        let keys: Vec<u32> = (0..6).collect();
        let rules = RequestRules { policy: RequestPolicy { undated_max: 4, ..RULES.policy }, ..RULES };
        let (mut state, mut issued, mut known) = (stored(0), 0_u128, vec![None; 6]);
        let own = |run| Earlier { run, is_own: true };
        // An edit may change the stride between two commits.
        for (number, (step, batch)) in batches.iter().enumerate() {
            let stride = Stride::new(*step, step - 1).unwrap();
            // A key below 3 means a request without a request ID.
            let request = |(count, key): &(u64, u32)| match *key {
                0..3 => ask(*count),
                _ => {
                    let mut request = named(*count, &keys[*key as usize]);
                    request.id.as_mut().unwrap().before = known[*key as usize];
                    request
                }
            };
            let requests: Vec<_> = batch.iter().map(request).collect();
            let plan = state.plan(&Bound { stride, ..BOUND }, &rules, &requests);
            let began = issued;
            for ((count, key), outcome) in batch.iter().zip(plan.outcomes()) {
                match *outcome {
                    StrictOutcome::Granted(first) => {
                        prop_assert_eq!(first.get(), issued);
                        issued += stride.span(*count);
                        if *key >= 3 {
                            let run = Run { first, count: *count, stride };
                            prop_assert_eq!(known[*key as usize].replace(own(run)), None);
                        }
                    }
                    StrictOutcome::GrantedBefore(run) => {
                        prop_assert_eq!((known[*key as usize], run.count), (Some(own(run)), *count));
                    }
                    StrictOutcome::Refused(_) | StrictOutcome::Again => {}
                }
            }
            prop_assert_eq!((plan.is_empty(), plan.reserved().below.get()), (issued == began, issued));
            prop_assert!(issued <= BOUND.capacity.get());
            if !plan.is_empty() {
                state = plan.on_committed(10 + number as u64);
            }
        }
    }
}
