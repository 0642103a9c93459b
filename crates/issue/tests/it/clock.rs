//! The issuer's reactions to steps of the clock.

use std::time::Duration;

use kent_ids::{ClusterKey, Format, Position, Slot, UnixNanos, UnixSeconds};
use kent_issue::{ClockPolicy, Extended, HolderId, Refusal, TimeIssuer};

use super::world::{Daemon, LAYOUTS, Ledger, Records, ms};

const TOKENS: [&str; 3] = ["uuidv7", "uuidv6", "xid"];

fn started(at_ms: i128) -> (Records, Daemon) {
    let (mut records, mut daemon) = (Records::default(), Daemon::start(1));
    daemon.take(&mut records, ms(at_ms));
    (records, daemon)
}

#[test]
fn err_nothing_is_granted_without_a_slot() {
    let mut daemon = Daemon::start(1);
    for token in TOKENS {
        assert_eq!(daemon.grant(token, 1, ms(0)).expect_err("no slot"), Refusal::NoSlot);
    }
}

#[test]
fn ok_the_first_grant_carries_the_time_of_the_clock() {
    let (_, mut daemon) = started(0);
    for token in TOKENS {
        let grant = daemon.grant(token, 1, ms(1234)).expect("granted");
        assert_eq!(grant.block.instant(), Some(ms(1234)), "{token}");
    }
}

#[test]
fn ok_a_small_step_back_is_absorbed_and_blocks_still_ascend() {
    let (_, mut daemon) = started(0);
    let before = daemon.grant("uuidv7", 100, ms(1000)).expect("granted");
    let after = daemon.grant("uuidv7", 100, ms(600)).expect("granted");
    assert!(after.block.first() >= before.block.first().checked_add(100).expect("small"));
    assert_eq!(before.clock_epoch, after.clock_epoch);
}

#[test]
fn ok_a_large_step_back_costs_the_slot_and_timestamps_follow_the_clock() {
    let (mut records, mut daemon) = started(0);
    let mut ledger = Ledger::default();
    let before = daemon.grant("uuidv7", 10, ms(1000)).expect("granted");
    ledger.record("uuidv7", &before);
    let refusal = daemon.grant("uuidv7", 10, ms(-3_600_000)).expect_err("the clock went back");
    assert_eq!(refusal, Refusal::ClockStepped { back: Duration::from_secs(3601) });
    daemon.take(&mut records, ms(-3_600_000));
    let after = daemon.grant("uuidv7", 10, ms(-3_600_000)).expect("granted from another slot");
    assert_eq!(after.block.instant(), Some(ms(-3_600_000)));
    assert_eq!(after.clock_epoch, before.clock_epoch + 1);
    assert_ne!(after.block.slot_constants().map(|c| c.slot), before.block.slot_constants().map(|c| c.slot));
    ledger.record("uuidv7", &after);
}

#[test]
fn ok_a_step_back_right_after_a_slot_was_taken_costs_it_too() {
    // The clock was an hour ahead when the slot was taken, so the reserved ticks are an hour ahead.
    let (mut records, mut daemon) = started(3_600_000);
    daemon.grant("uuidv7", 10, ms(3_600_300)).expect("granted");
    let plan = daemon.issuer.plan_give_back().expect("unused time");
    records.commit(&plan).expect("still ours");
    // The slot is taken again while the clock is still ahead. The clock is corrected before the first grant.
    let mut next = Daemon::start(2);
    next.take(&mut records, ms(3_602_000));
    let refusal = next.grant("uuidv7", 1, ms(0)).expect_err("the clock went back");
    assert!(matches!(refusal, Refusal::ClockStepped { .. }), "{refusal:?}");
    next.take(&mut records, ms(0));
    let granted = next.grant("uuidv7", 1, ms(0)).expect("granted from another slot");
    assert_eq!(granted.block.instant(), Some(ms(0)));
}

#[test]
fn err_no_timestamp_is_further_ahead_than_max_ahead() {
    let (_, mut daemon) = started(0);
    // uuidv6 has 10,000 positions per millisecond, so the last of 10,000,001 positions is exactly one second ahead.
    let grant = daemon.grant("uuidv6", 10_000_000, ms(0)).expect("granted");
    assert_eq!(grant.block.instant(), Some(ms(0)));
    daemon.grant("uuidv6", 1, ms(0)).expect("the tick one second ahead");
    let refusal = daemon.grant("uuidv6", 10_000, ms(0)).expect_err("beyond one second");
    assert_eq!(refusal, Refusal::Ahead { wait: Duration::from_millis(1) });
    daemon.grant("uuidv6", 10_000, ms(1)).expect("granted a millisecond later");
}

#[test]
fn err_a_request_above_the_maximum_is_rejected_with_the_maximum() {
    let (_, mut daemon) = started(0);
    let refusal = daemon.grant("uuidv6", 10_000_002, ms(0)).expect_err("too many");
    assert_eq!(refusal, Refusal::TooMany { max: 10_000_001 });
}

#[test]
fn ok_the_maximum_is_granted_and_not_one_more() {
    for (format, max) in [("uuidv6", 10_000_001), ("uuidv7", 1001 << 22)] {
        let (_, mut daemon) = started(0);
        daemon.grant(format, max, ms(0)).expect("all identifiers of one second and one tick");
        let refusal = daemon.grant(format, 1, ms(0)).expect_err("one more");
        assert!(matches!(refusal, Refusal::Ahead { .. }), "{format}: {refusal:?}");
    }
}

#[test]
fn ok_windows_double_up_to_a_minute_and_an_ended_one_rejects_grants() {
    let (mut records, mut daemon) = started(0);
    let mut windows = Vec::new();
    for at in (0..600_000).step_by(100) {
        if daemon.issuer.plan_extension(ms(at)).is_some() {
            daemon.extend(&mut records, ms(at));
            windows.push(daemon.issuer.window_left(ms(at)).as_secs());
        }
    }
    assert_eq!(windows[..6], [5, 9, 17, 33, 61, 61]);
    assert!(windows.len() < 50, "an extension every 15 s, not {} in 10 minutes", windows.len());
    daemon.grant("xid", 1, ms(640_000)).expect("a window covers most of a minute without the store");
    let refusal = daemon.grant("xid", 1, ms(700_000)).expect_err("spent");
    assert!(matches!(refusal, Refusal::WindowSpent { .. }), "{refusal}");
}

#[test]
fn ok_a_paused_daemon_is_fenced_by_the_next_holder_of_its_slot() {
    let (mut records, mut paused) = started(0);
    let mut ledger = Ledger::default();
    ledger.record("xid", &paused.grant("xid", 5, ms(10)).expect("granted"));
    let mut other = Daemon::start(2);
    other.take(&mut records, ms(60_000));
    ledger.record("xid", &other.grant("xid", 5, ms(60_000)).expect("granted"));
    assert!(matches!(paused.grant("xid", 5, ms(60_001)), Err(Refusal::WindowSpent { .. })));
    assert_eq!(paused.extend(&mut records, ms(60_001)), Some(Extended::Fenced));
    assert_eq!(paused.grant("xid", 5, ms(60_002)).expect_err("fenced"), Refusal::NoSlot);
}

#[test]
fn ok_a_committed_extension_without_an_answer_costs_the_slot() {
    let (mut records, mut daemon) = started(0);
    let plan = daemon.issuer.plan_extension(ms(2000)).expect("due");
    let slot = plan.slot();
    assert!(
        matches!(daemon.issuer.on_read(slot, records.read(slot)), Extended::Until(_)),
        "the extension is not committed yet"
    );
    records.commit(&plan).expect("committed, although the answer is lost");
    assert_eq!(daemon.issuer.on_read(slot, records.read(slot)), Extended::Fenced);
    daemon.take(&mut records, ms(2001));
    daemon.grant("uuidv7", 1, ms(2001)).expect("granted from another slot");
}

#[test]
fn err_a_cloned_machine_does_not_adopt_the_window_of_its_twin() {
    let (mut records, mut daemon) = started(0);
    let mut twin = Daemon { issuer: daemon.issuer.clone() };
    let slot = daemon.issuer.held().expect("held").0;
    daemon.extend(&mut records, ms(2000));
    daemon.grant("uuidv7", 1, ms(4000)).expect("in the new window");
    // The twin's own extension conflicts. The record that the twin then reads has the twin's holder ID, but was
    // committed by the other daemon.
    assert_eq!(twin.issuer.on_read(slot, records.read(slot)), Extended::Fenced);
    assert_eq!(twin.grant("uuidv7", 1, ms(4000)).expect_err("fenced"), Refusal::NoSlot);
}

#[test]
fn ok_a_clean_stop_gives_back_the_rest_of_the_window() {
    let (mut records, mut daemon) = started(0);
    daemon.grant("uuidv7", 1, ms(300)).expect("granted");
    let plan = daemon.issuer.plan_give_back().expect("unused time");
    assert_eq!(daemon.grant("uuidv7", 1, ms(301)).expect_err("the slot was given back"), Refusal::NoSlot);
    records.commit(&plan).expect("still ours");
    let mut next = Daemon::start(2);
    next.take(&mut records, ms(1001));
    assert_eq!(records.all().len(), 1, "the slot is used again");
    let first = next.grant("uuidv7", 1, ms(1001)).expect("granted").block.instant();
    assert_eq!(first, Some(ms(1001)));
}

#[test]
fn ok_after_a_crash_another_slot_serves_immediately() {
    let (mut records, mut daemon) = started(0);
    daemon.grant("uuidv7", 1, ms(300)).expect("granted");
    let mut next = Daemon::start(2);
    next.take(&mut records, ms(301));
    assert_eq!(records.all().len(), 2);
    assert_eq!(next.grant("uuidv7", 1, ms(301)).expect("granted").block.instant(), Some(ms(301)));
}

#[test]
fn ok_a_step_back_by_the_tolerance_is_absorbed_and_by_more_is_not() {
    let (_, mut daemon) = started(1000);
    assert_eq!(daemon.issuer.observe(ms(500)), None);
    assert_eq!((daemon.issuer.clock().epoch(), daemon.issuer.held().is_some()), (0, true));
    assert_eq!(daemon.issuer.observe(UnixNanos::new(ms(500).get() - 1)), Some(Duration::from_nanos(500_000_001)));
    assert_eq!((daemon.issuer.clock().epoch(), daemon.issuer.held().is_none()), (1, true));
}

#[test]
fn ok_an_extension_is_due_when_a_quarter_of_the_window_is_used() {
    let (mut records, mut daemon) = started(0);
    // The slot is reserved for 3 s: a window of 2 s, and `max_ahead` of 1 s. The extension is due when 2.5 s are left.
    assert_eq!(daemon.issuer.window_left(ms(0)), Duration::from_secs(3));
    assert_eq!(daemon.issuer.plan_extension(UnixNanos::new(ms(500).get() - 1)), None);
    let plan = daemon.issuer.plan_extension(ms(500)).expect("due");
    assert_eq!(
        plan.record().reserved_until,
        UnixSeconds::new(1_700_000_006),
        "0.5 s plus a window of 4 s plus 1 s, rounded up"
    );
    assert_eq!(plan.record().seen, UnixSeconds::new(1_700_000_001));
    daemon.extend(&mut records, ms(500));
    // The next extension is due when 4 s are left: 3/4 of the window of 4 s, plus `max_ahead`.
    assert_eq!(daemon.issuer.plan_extension(UnixNanos::new(ms(2000).get() - 1)), None);
    assert!(daemon.issuer.plan_extension(ms(2000)).is_some());
}

#[test]
fn ok_no_extension_is_planned_that_would_not_raise_the_ceiling() {
    // The first reservation ends at 5 s: a window of 4 s, plus `max_ahead`. The largest window is only 1 s, so an
    // extension at 3 s would also end at 5 s.
    let seconds = Duration::from_secs;
    let policy = ClockPolicy { window_first: seconds(4), window_last: seconds(1), ..ClockPolicy::default() };
    let issuer = TimeIssuer::new(policy, HolderId::new([1; 16]), ClusterKey::new(*b"the cluster key!"));
    let (mut records, mut daemon) = (Records::default(), Daemon { issuer });
    daemon.take(&mut records, ms(0));
    assert_eq!(daemon.issuer.plan_extension(ms(3000)), None);
    let plan = daemon.issuer.plan_extension(ms(3001)).expect("due");
    assert_eq!(plan.record().reserved_until, UnixSeconds::new(1_700_000_006));
}

#[test]
fn ok_an_extension_raises_the_sequences_of_earlier_grants() {
    let (mut records, mut daemon) = started(0);
    daemon.grant("xid", 1, ms(0)).expect("granted");
    assert!(matches!(daemon.grant("xid", 1, ms(4000)), Err(Refusal::WindowSpent { .. })));
    daemon.extend(&mut records, ms(4000));
    assert_eq!(daemon.grant("xid", 1, ms(4000)).expect("granted").block.instant(), Some(ms(4000)));
}

#[test]
fn ok_a_slot_whose_earlier_ticks_are_not_past_at_the_answer_is_not_used() {
    let (records, _) = started(0);
    let until = records.all()[0].1.value.reserved_until.nanos();
    for (answered, held) in [(until, false), (UnixNanos::new(until.get() + 1), true)] {
        let mut next = Daemon::start(2);
        let plan = next.issuer.plan_take(records.all(), &[], UnixNanos::new(until.get() + 1), 7).expect("past");
        next.issuer.on_committed(plan, 9, answered);
        assert_eq!(next.issuer.held().is_some(), held);
    }
}

#[test]
fn ok_the_answer_to_another_take_does_not_change_the_held_slot() {
    let (records, mut daemon) = started(0);
    let held = *daemon.issuer.held().expect("held").1;
    // The first plan takes the same slot with another epoch. The second takes another slot with the same epoch.
    let again = daemon.issuer.plan_take(records.all(), &[], ms(60_000), 7).expect("past");
    let other_slot = daemon.issuer.plan_take(records.all(), &[], ms(0), 7).expect("fresh");
    assert_eq!((again.slot(), other_slot.slot()), (Slot::new(0).expect("a slot"), Slot::new(1).expect("a slot")));
    assert_eq!(other_slot.record().epoch, held.epoch);
    for plan in [again, other_slot] {
        daemon.issuer.on_committed(plan, 99, ms(60_000));
        assert_eq!(daemon.issuer.held(), Some((Slot::new(0).expect("a slot"), &held)));
        assert_eq!(daemon.issuer.window_left(ms(0)), Duration::from_secs(3));
    }
}

#[test]
fn ok_the_record_of_another_slot_does_not_affect_ours() {
    let (records, mut daemon) = started(0);
    let (slot, other) = (Slot::new(0).expect("a slot"), Slot::new(1).expect("a slot"));
    assert_eq!(daemon.issuer.on_read(other, records.read(slot)), Extended::Fenced);
    assert!(daemon.issuer.held().is_some());
    assert_eq!(daemon.issuer.on_read(slot, records.read(slot)), Extended::Until(UnixSeconds::new(1_700_000_003)));
    assert_eq!(daemon.issuer.on_read(slot, None), Extended::Fenced);
    assert!(daemon.issuer.held().is_none());
}

#[test]
fn err_a_clock_past_the_end_of_a_format_is_rejected() {
    let line = Format::by_token("xid").expect("a format").line();
    let last = line.instant(Position::new(line.end().get() - 1));
    let (mut records, mut daemon) = (Records::default(), Daemon::start(1));
    daemon.take(&mut records, last);
    assert_eq!(daemon.grant("xid", 1, last).expect("granted").block.instant(), Some(last));
    assert_eq!(daemon.grant("xid", 1, last.offset(1_000_000)).expect_err("beyond"), Refusal::OutsideFormat);
}

#[test]
fn ok_the_time_given_back_begins_after_the_last_tick() {
    // Nothing was granted from this new slot, so all of its window is given back.
    let (_, mut daemon) = started(0);
    let plan = daemon.issuer.plan_give_back().expect("unused time");
    assert_eq!(plan.record().reserved_until, UnixSeconds::new(0));
    for (at_ms, until) in [(0, 1_700_000_000), (1, 1_700_000_001), (1000, 1_700_000_001), (1001, 1_700_000_002)] {
        let (_, mut daemon) = started(0);
        daemon.grant("xid", 1, ms(at_ms)).expect("granted");
        daemon.grant("uuidv7", 1, ms(at_ms)).expect("granted");
        let plan = daemon.issuer.plan_give_back().expect("unused time");
        assert_eq!(plan.record().reserved_until, UnixSeconds::new(until), "{at_ms}");
    }
    let (_, mut daemon) = started(0);
    daemon.grant("xid", 1, ms(2001)).expect("granted");
    assert_eq!(daemon.issuer.plan_give_back(), None, "all of it is used");
}

#[test]
fn ok_a_refusal_passes_if_waiting_may_help() {
    let second = Duration::from_secs(1);
    for (refusal, is_passing) in [
        (Refusal::NoSlot, true),
        (Refusal::ClockStepped { back: second }, true),
        (Refusal::WindowSpent { reserved_until: UnixSeconds::new(0) }, true),
        (Refusal::Ahead { wait: second }, true),
        (Refusal::TooMany { max: 1 }, false),
        (Refusal::Quarantined { ahead: second }, false),
        (Refusal::OutsideFormat, false),
    ] {
        assert_eq!(refusal.is_passing(), is_passing, "{refusal}");
    }
}

#[test]
fn ok_an_issuer_returns_what_it_was_created_with() {
    let daemon = Daemon::start(7);
    assert_eq!(daemon.issuer.holder(), HolderId::new([7; 16]));
    assert_eq!(*daemon.issuer.policy(), ClockPolicy::default());
    assert_eq!((daemon.issuer.held(), daemon.issuer.window_left(ms(0))), (None, Duration::ZERO));
}

#[test]
fn ok_each_layout_has_a_sequence_of_its_own() {
    let (_, mut daemon) = started(0);
    for fields in LAYOUTS {
        let first = daemon.grant(fields, 3, ms(1000)).expect("granted").block;
        let second = daemon.grant(fields, 1, ms(1000)).expect("granted").block;
        assert_eq!(second.first(), first.first().checked_add(3).expect("small"), "{fields}");
        // The second layout counts 90 seconds with one tick, and parts of its counter count the seconds.
        let at = first.layout_constants().expect("a layout").layout.line().expect("a time").instant(first.first());
        assert_eq!(at, ms(1000), "{fields}");
    }
}

#[test]
fn err_a_layout_cannot_hold_the_slot() {
    let (mut records, mut first) = started(0);
    let narrow = "time:44:1ms@1970-01-01 slot:2:3 counter:12";
    assert!(first.grant(narrow, 1, ms(1000)).is_ok());
    let mut second = Daemon::start(2);
    second.take(&mut records, ms(1000));
    let refusal = second.grant(narrow, 1, ms(1000)).expect_err("slot 1 needs the number 4");
    let slot = Slot::new(1).expect("a slot");
    assert_eq!((refusal, refusal.is_passing()), (Refusal::SlotBeyondLayout { slot, slots: 1 }, false));
    assert!(second.grant("time:44:1ms@1970-01-01 slot:3:3 counter:12", 1, ms(1000)).is_ok());
    let counted = second.grant("counter:40", 1, ms(1000)).expect_err("no time");
    assert_eq!(counted, Refusal::OutsideFormat);
}
