//! Random histories of several daemons on one store: crashes, pauses, lost answers, and arbitrary clocks.

use kent_issue::SlotPlan;
use proptest::prelude::*;

use super::world::{Daemon, LAYOUTS, Ledger, Records, ms};

const TOKENS: [&str; 6] = ["uuidv7", "uuidv6", "xid", LAYOUTS[0], LAYOUTS[1], LAYOUTS[2]];

#[derive(Clone, Debug)]
enum Step {
    Tick {
        millis: i64,
    },
    Take {
        daemon: usize,
    },
    Extend {
        daemon: usize,
    },
    /// An extension that is committed later or never, and whose answer is lost.
    ExtendBlindly {
        daemon: usize,
    },
    CommitLate,
    Read {
        daemon: usize,
    },
    Grant {
        daemon: usize,
        token: usize,
        count: u64,
    },
    GiveBack {
        daemon: usize,
        lost: bool,
    },
    Crash {
        daemon: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let daemon = 0..3usize;
    let jump = prop_oneof![4 => 0..500i64, 1 => -400..0i64, 1 => -100_000..100_000i64];
    prop_oneof![
        3 => jump.prop_map(|millis| Step::Tick { millis }),
        2 => daemon.clone().prop_map(|daemon| Step::Take { daemon }),
        3 => daemon.clone().prop_map(|daemon| Step::Extend { daemon }),
        1 => daemon.clone().prop_map(|daemon| Step::ExtendBlindly { daemon }),
        1 => Just(Step::CommitLate),
        1 => daemon.clone().prop_map(|daemon| Step::Read { daemon }),
        8 => (daemon.clone(), 0..TOKENS.len(), 1..40u64)
            .prop_map(|(daemon, token, count)| Step::Grant { daemon, token, count }),
        1 => (daemon.clone(), any::<bool>()).prop_map(|(daemon, lost)| Step::GiveBack { daemon, lost }),
        1 => daemon.prop_map(|daemon| Step::Crash { daemon }),
    ]
}

struct History {
    records: Records,
    daemons: Vec<Daemon>,
    late: Vec<SlotPlan>,
    ledger: Ledger,
    now_ms: i128,
    runs: u8,
}

impl History {
    fn new() -> Self {
        let daemons = (0..3).map(Daemon::start).collect();
        Self { records: Records::default(), daemons, late: Vec::new(), ledger: Ledger::default(), now_ms: 0, runs: 3 }
    }

    fn apply(&mut self, step: Step) {
        let now = ms(self.now_ms);
        match step {
            Step::Tick { millis } => self.now_ms += i128::from(millis),
            Step::Take { daemon } => self.take(daemon),
            Step::Extend { daemon } => drop(self.daemons[daemon].extend(&mut self.records, now)),
            Step::ExtendBlindly { daemon } => self.late.extend(self.daemons[daemon].issuer.plan_extension(now)),
            Step::CommitLate => drop(self.late.pop().and_then(|plan| self.records.commit(&plan))),
            Step::Read { daemon } => self.read(daemon),
            Step::Grant { daemon, token, count } => self.grant(daemon, TOKENS[token], count),
            Step::GiveBack { daemon, lost } => self.give_back(daemon, lost),
            Step::Crash { daemon } => self.restart(daemon),
        }
    }

    fn take(&mut self, daemon: usize) {
        let now = ms(self.now_ms);
        let free = self.daemons[daemon].issuer.plan_take(self.records.all(), &[], now, 7).is_ok();
        if self.daemons[daemon].issuer.held().is_none() && free {
            self.daemons[daemon].take(&mut self.records, now);
        }
    }

    fn read(&mut self, daemon: usize) {
        if let Some((slot, _)) = self.daemons[daemon].issuer.held() {
            let read = self.records.read(slot);
            self.daemons[daemon].issuer.on_read(slot, read);
        }
    }

    fn grant(&mut self, daemon: usize, token: &'static str, count: u64) {
        let now = ms(self.now_ms);
        let Ok(grant) = self.daemons[daemon].grant(token, count, now) else { return };
        // A tick of a layout can be longer than the tick of its line.
        let line = grant.block.layout_constants().and_then(|constants| constants.layout.line());
        let instant = line.map(|line| line.instant(grant.block.first())).or_else(|| grant.block.instant());
        let instant = instant.expect("time-based").get();
        let tick_nanos = line.map_or(1_000_000, |line| i128::from(line.tick_nanos()));
        assert!(instant <= now.get() + 1_000_000_000, "the timestamp is more than a second ahead");
        assert!(instant > now.get() - tick_nanos, "the timestamp is behind the clock by more than its tick");
        self.ledger.record(token, &grant);
    }

    fn give_back(&mut self, daemon: usize, lost: bool) {
        if let Some(plan) = self.daemons[daemon].issuer.plan_give_back()
            && !lost
        {
            self.records.commit(&plan);
        }
        // A daemon gives its window back only when it stops, so a new run follows.
        self.restart(daemon);
    }

    fn restart(&mut self, daemon: usize) {
        self.runs = self.runs.wrapping_add(1);
        self.daemons[daemon] = Daemon::start(self.runs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn ok_no_position_of_a_slot_is_granted_twice(steps in prop::collection::vec(step(), 1..150)) {
        let mut history = History::new();
        for step in steps {
            history.apply(step);
        }
    }
}
