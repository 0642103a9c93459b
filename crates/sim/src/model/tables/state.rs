//! A state of the model of regions, and the effect of each step.

use std::time::Duration;

use kent_ids::{Position, Stride, UnixNanos};
use kent_issue::{Bound, Reserved, Stored};
use kent_regions::{Count, Edit, Kind, Place, Plan, Prefix, Rare, Region, RegionNumber, Revision, Start, Table};

use super::{
    super::{
        Mutant,
        shared::{Shared, hash, pooled},
        store::ModelTxn,
    },
    TableBudget,
    edits::{EditKind, FIRST},
    replica::{BITS, Key, Replica, Sent, Stage, Store, Value, View, Waiting},
};

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TablesState {
    store: Store,
    /// The durable edits from the second revision on, with their versions.
    history: Shared<Vec<(u64, Plan)>>,
    /// Counter changes that at least one daemon has not received yet.
    pub(super) moves: Shared<Vec<Move>>,
    pub(super) replicas: Vec<Replica>,
    pub(super) late: Vec<Shared<Sent>>,
    /// Granted identifiers, and the region that granted each.
    pub(super) granted: Vec<(u8, u8)>,
    seal: Seal,
    pub(super) left: TableBudget,
    pub(super) broken: Option<&'static str>,
}

/// A change of a counter, as a watch delivers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Move {
    region: u64,
    read: Stored<Count>,
}

/// The progress of the seal of the first region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seal {
    None,
    /// The seal was committed in this revision, but is not confirmed.
    Committed(Revision),
    /// The seal is confirmed: no daemon grants from the region or from a region inside it.
    InEffect,
}

/// The delivery of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Delivery {
    /// The commit reaches the store, and the answer reaches the daemon.
    Answered,
    /// The commit reaches the store, but the answer is lost.
    Unheard,
    /// The commit is lost.
    Lost,
    /// The daemon stops waiting for the commit while it is in flight.
    GivenUp,
}

impl Delivery {
    pub(super) const FAULTS: [Self; 3] = [Self::Unheard, Self::Lost, Self::GivenUp];
}

pooled!(Vec<(u64, Plan)>, Vec<Move>);

/// The paid-until time of every counter.
const TIME: UnixNanos = UnixNanos::new(0);
const NOW: Duration = Duration::ZERO;

impl TablesState {
    /// Returns the initial state: daemons on a table with one region.
    pub(super) fn new(replicas: usize, left: TableBudget) -> Option<Self> {
        let (mut table, prefix) = (Table::new(BITS).ok()?, "0".parse::<Prefix>().ok()?);
        let place = Place::At(prefix);
        let create = Edit::Create { name: "first".to_owned(), suffix: 2, place, start: Start::default() };
        table.apply(&table.plan(&create).ok()?).ok()?;
        let mut write = vec![(Key::Space, Value::Space(table.revision(), table.next_number()))];
        for region in table.iter() {
            write.push((Key::Region(region.number.0), Value::Region(Box::new(region.clone()))));
        }
        let mut store = Store::new();
        store.commit(&ModelTxn { expect: Vec::new(), write }, true).ok()?;
        let replica = Replica::new(&store, 0)?;
        Some(Self {
            store,
            history: Shared::new(Vec::new()),
            moves: Shared::new(Vec::new()),
            replicas: vec![replica; replicas],
            late: Vec::new(),
            granted: Vec::new(),
            seal: Seal::None,
            left,
            broken: None,
        })
    }

    /// Normalizes a state: sorts the daemons, so that states that differ only in their order are equal, and drops
    /// changes that all daemons have received.
    pub(super) fn normalize(&mut self) {
        let heard = self.replicas.iter().map(|replica| replica.heard).min().unwrap_or_default();
        if heard > 0 {
            self.moves.update(|moves| drop(moves.drain(..usize::from(heard))));
            self.replicas.iter_mut().for_each(|replica| replica.heard -= heard);
        }
        self.replicas.sort_by_cached_key(hash);
        if self.late.len() > 1 {
            self.late.sort_by_cached_key(hash);
        }
    }

    pub(super) fn commit(&mut self, sent: &Sent, mutant: Option<Mutant>) -> Result<u64, Key> {
        let txn = &sent.txn;
        let unguarded = |key: &Key| match mutant {
            Some(Mutant::NoVersionCheck) => matches!(key, Key::Counter(_)),
            Some(Mutant::NoRegionGuard) => sent.plan.is_none() && matches!(key, Key::Region(_)),
            Some(Mutant::NoRevisionCheck) => matches!(key, Key::Space | Key::Region(_)),
            _ => false,
        };
        let flush = mutant != Some(Mutant::AnswerBeforeFlush);
        let version = if txn.expect.iter().any(|(key, _)| unguarded(key)) {
            let expect = txn.expect.iter().filter(|(key, _)| !unguarded(key)).copied().collect();
            self.store.commit(&ModelTxn { expect, write: txn.write.clone() }, flush)?
        } else {
            self.store.commit(txn, flush)?
        };
        for (key, value) in &txn.write {
            if let (Key::Counter(region), Value::Counter(value)) = (key, value) {
                let read = Stored { version, value: *value };
                self.moves.update(|moves| moves.push(Move { region: *region, read }));
            }
        }
        if let Some(plan) = &sent.plan {
            self.history.update(|history| history.push((version, without_counters(plan))));
        }
        self.check_sound();
        Ok(version)
    }

    fn read_counter(&self, region: u64) -> Stored<Count> {
        match self.store.get(&Key::Counter(region)) {
            Some((version, Value::Counter(reserved))) => Stored { version: *version, value: *reserved },
            _ => Stored { version: 0, value: Count::ZERO },
        }
    }

    /// Checks and grants in one step: no edit is applied and no seal is confirmed in between.
    pub(super) fn grant(&mut self, replica: usize, region: u64, mutant: Option<Mutant>) -> bool {
        self.replicas[replica].view.facts(region, mutant).is_some() && self.cut_from(replica, region)
    }

    /// Grants from the region that was checked earlier.
    pub(super) fn cut(&mut self, replica: usize) -> Option<()> {
        let region = self.replicas[replica].looked.take()?;
        self.cut_from(replica, region).then_some(())
    }

    fn cut_from(&mut self, replica: usize, region: u64) -> bool {
        let it = &mut self.replicas[replica];
        let Some(facts) = it.view.table.get(RegionNumber(region)) else { return false };
        let (base, capacity, kind) = (facts.prefix.base(it.view.table.bits()), facts.capacity(), facts.kind);
        let is_covered = it.view.table.outward(facts).any(|region| region.number.0 == FIRST);
        let Ok(first) = it.with_counter(region, |counter| counter.grant(1)) else { return false };
        // If the region has been closed since the check, its chunk belongs to its heir.
        if kind != Kind::Closed && !capacity.includes(first.get()) {
            self.broken = Some("an identifier is outside its region");
        }
        if self.seal == Seal::InEffect && is_covered {
            self.broken = Some("an identifier was granted from a sealed region, or from one inside it");
        }
        // OK because identifiers have six bits, and regions are few.
        let (id, region) = ((base | first.get()) as u8, region as u8);
        if self.granted.iter().any(|(granted, _)| *granted == id) {
            self.broken = Some("an identifier was granted twice");
        }
        self.granted.push((id, region));
        self.granted.sort_unstable();
        self.check_sound();
        true
    }

    /// Reserves a chunk, like `RegionGrants::reserve` and `Cell::try_reserve`.
    pub(super) fn reserve(&mut self, replica: usize, region: u64, mutant: Option<Mutant>) -> Option<()> {
        let read = self.read_counter(region);
        let it = &mut self.replicas[replica];
        let facts = it.view.facts(region, mutant)?;
        let (capacity, guard) = (facts.limit().get()?, it.view.version(Key::Region(region)));
        // The pace sets no limit in this model, because it does not affect how two replicas interact.
        let value = Reserved { below: Position::new(read.value.get()?), paid: TIME };
        let read = Stored { version: read.version, value };
        let bound = Bound { capacity: Position::new(capacity), pace: facts.pace, time: TIME, stride: Stride::EVERY };
        let plan = it.with_counter(region, |counter| counter.plan_chunk(read, 1, &bound, NOW)).ok()?;
        let txn = ModelTxn {
            expect: vec![(Key::Counter(region), plan.guard()), (Key::Region(region), guard)],
            write: vec![(Key::Counter(region), Value::Counter(Count::Below(plan.reserved().below.get())))],
        };
        it.waiting = Some(Waiting::Chunk { region, plan, sent: Shared::new(Sent { txn, plan: None }) });
        Some(())
    }

    pub(super) fn give_back(&mut self, replica: usize, region: u64, mutant: Option<Mutant>) -> Option<()> {
        let before = self.replicas[replica].counters.clone();
        let sent = self.rest(replica, region)?;
        let it = &mut self.replicas[replica];
        if mutant == Some(Mutant::GrantAfterGiveBack) {
            it.counters = before;
        }
        it.waiting = Some(Waiting::GiveBack { region, sent });
        Some(())
    }

    /// Returns the commit that gives back the rest of a chunk. The daemon grants nothing more from that chunk.
    fn rest(&mut self, replica: usize, region: u64) -> Option<Shared<Sent>> {
        let plan = self.replicas[replica].with_counter(region, |counter| counter.plan_give_back())?;
        let txn = ModelTxn {
            expect: vec![(Key::Counter(region), plan.guard())],
            write: vec![(Key::Counter(region), Value::Counter(Count::Below(plan.reserved().below.get())))],
        };
        Some(Shared::new(Sent { txn, plan: None }))
    }

    /// Delivers the commit that reserves or gives back a chunk.
    pub(super) fn sent(&mut self, replica: usize, delivery: Delivery, mutant: Option<Mutant>) -> Option<()> {
        let waiting = self.replicas[replica].waiting.take()?;
        let Some(answer) = self.deliver(waiting.sent(), delivery, mutant) else { return Some(()) };
        let it = &mut self.replicas[replica];
        match (waiting, answer) {
            (Waiting::Chunk { region, plan, .. }, Ok(version)) => {
                let value = Count::Below(plan.reserved().below.get());
                it.with_counter(region, |counter| counter.on_committed(plan, version));
                it.receive_counter(region, Stored { version, value }, mutant);
            }
            // The stored table has a newer revision, so reload it. A pending edit of this daemon would detect the new
            // revision itself.
            (Waiting::Chunk { .. }, Err(Key::Region(_))) if it.edit.is_none() => it.edit = Some(Stage::Reload),
            _ => {}
        }
        Some(())
    }

    /// Delivers a commit, and returns the answer if it arrives.
    fn deliver(&mut self, sent: &Shared<Sent>, delivery: Delivery, mutant: Option<Mutant>) -> Option<Result<u64, Key>> {
        self.left.faults -= u8::from(delivery != Delivery::Answered);
        match delivery {
            Delivery::Answered => return Some(self.commit(sent, mutant)),
            // Only the answer is lost.
            Delivery::Unheard => drop(self.commit(sent, mutant)),
            Delivery::Lost => {}
            Delivery::GivenUp => self.late.push(sent.clone()),
        }
        None
    }

    /// Returns whether an edit locks the first region's counter on this daemon.
    pub(super) fn is_counter_locked(&self, replica: usize) -> bool {
        match &self.replicas[replica].edit {
            Some(Stage::GiveBack(..) | Stage::Read(_)) => true,
            Some(Stage::Plan(kind, _)) => kind.is_about_the_counter(),
            Some(Stage::Commit(sent) | Stage::Apply(sent, _)) => {
                sent.txn.expect.iter().any(|(key, _)| *key == Key::Counter(FIRST))
            }
            Some(Stage::Reload) | None => false,
        }
    }

    pub(super) fn begin_edit(&mut self, replica: usize, kind: EditKind) -> Option<()> {
        if !kind.is_about_the_counter() {
            return self.plan(replica, kind, 0, None);
        }
        let rest = self.rest(replica, FIRST);
        self.replicas[replica].edit = Some(rest.map_or(Stage::Read(kind), |sent| Stage::GiveBack(kind, sent)));
        Some(())
    }

    /// Proceeds to the next stage of an edit, without a fault.
    pub(super) fn proceed(&mut self, replica: usize, mutant: Option<Mutant>) -> Option<()> {
        match self.replicas[replica].edit.take()? {
            Stage::GiveBack(kind, sent) => {
                let answer = self.commit(&sent, mutant);
                let it = &mut self.replicas[replica];
                if let (Ok(version), Some((_, Value::Counter(value)))) = (answer, sent.txn.write.first()) {
                    it.receive_counter(FIRST, Stored { version, value: *value }, mutant);
                }
                // If the commit failed, the rest of the chunk becomes a gap.
                it.edit = Some(Stage::Read(kind));
            }
            Stage::Read(kind) => {
                let read = self.read_counter(FIRST);
                let it = &mut self.replicas[replica];
                it.receive_counter(FIRST, read, mutant);
                it.edit = Some(Stage::Plan(kind, read.version));
            }
            Stage::Plan(kind, version) => {
                // OK because a refused plan ends the edit.
                let _ = self.plan(replica, kind, version, mutant);
            }
            Stage::Commit(sent) => {
                let answer = self.commit(&sent, mutant);
                let stage = answer.map_or(Stage::Reload, |version| Stage::Apply(sent, version));
                self.replicas[replica].edit = Some(stage);
            }
            Stage::Apply(sent, version) => {
                let plan = sent.plan.as_ref()?;
                let it = &mut self.replicas[replica];
                if !it.view.update(|view| view.apply(plan, version)) {
                    it.edit = Some(Stage::Reload);
                }
                let seals = plan.subject().is_some_and(|region| region.number.0 == FIRST && region.sealed);
                if seals && self.seal == Seal::None {
                    self.seal = Seal::Committed(plan.revision);
                }
            }
            Stage::Reload => {
                let view = View::load(&self.store)?;
                self.replicas[replica].view = Shared::new(view);
            }
        }
        Some(())
    }

    pub(super) fn edit_sent(&mut self, replica: usize, delivery: Delivery, mutant: Option<Mutant>) -> Option<()> {
        let stage = self.replicas[replica].edit.take()?;
        self.deliver(stage.sent()?, delivery, mutant);
        self.replicas[replica].edit = Some(match stage {
            Stage::GiveBack(kind, _) => Stage::Read(kind),
            // The daemon reads the table again to learn whether the edit was applied.
            _ => Stage::Reload,
        });
        Some(())
    }

    /// Plans an edit on the table in memory, and sends the commit. The commit is guarded by the counter's version in
    /// that table, on which the plan is based, not by a version read elsewhere.
    fn plan(&mut self, replica: usize, kind: EditKind, read: u64, mutant: Option<Mutant>) -> Option<()> {
        let it = &mut self.replicas[replica];
        let plan = it.view.table.plan(&kind.edit(&it.view.table)?).ok()?;
        if plan.revision == plan.base {
            return None;
        }
        let made = plan.changes.iter().filter(|change| change.creates()).count() as u64;
        let next = RegionNumber(it.view.table.next_number().0 + made);
        let mut expect = vec![(Key::Space, it.view.version(Key::Space))];
        let mut write = vec![(Key::Space, Value::Space(plan.revision, next))];
        for change in &plan.changes {
            let number = change.number.0;
            expect.push((Key::Region(number), it.view.version(Key::Region(number))));
            let Some(after) = &change.after else {
                write.push((Key::Region(number), Value::Deleted));
                continue;
            };
            write.push((Key::Region(number), Value::Region(Box::new(after.clone()))));
            if change.before.is_none() && *after.issued != Count::ZERO {
                expect.push((Key::Counter(number), 0));
                write.push((Key::Counter(number), Value::Counter(*after.issued)));
            }
        }
        if kind.is_about_the_counter() {
            let known = it.view.version(Key::Counter(FIRST));
            expect.push((Key::Counter(FIRST), if mutant == Some(Mutant::OlderCounter) { read } else { known }));
        }
        if let Some((number, declared)) = plan.declared {
            write.push((Key::Counter(number.0), Value::Counter(declared)));
        }
        let txn = ModelTxn { expect, write };
        it.edit = Some(Stage::Commit(Shared::new(Sent { txn, plan: Some(plan) })));
        Some(())
    }

    pub(super) fn hear_counter(&mut self, replica: usize, mutant: Option<Mutant>) -> Option<()> {
        let it = &mut self.replicas[replica];
        let Move { region, read } = self.moves.get(usize::from(it.heard))?.clone();
        it.heard += 1;
        // Like `set_reserved_elsewhere`, ignore values older than this daemon's own commit.
        if read.version > it.own_version(region) {
            it.receive_counter(region, read, mutant);
        }
        Some(())
    }

    /// Returns the next edit that a daemon has not applied.
    pub(super) fn next_edit(&self, replica: usize) -> Option<&(u64, Plan)> {
        let revision = self.replicas[replica].view.table.revision().0;
        self.history.iter().find(|(_, plan)| plan.base.0 == revision)
    }

    /// Applies the next edit, like `Directory::step`.
    pub(super) fn hear_edit(&mut self, replica: usize, mutant: Option<Mutant>) -> Option<()> {
        let (version, plan) = self.next_edit(replica)?.clone();
        if !self.replicas[replica].view.update(|view| view.apply(&plan, version)) {
            self.replicas[replica].edit = Some(Stage::Reload);
            return Some(());
        }
        for change in &plan.changes {
            let read = self.read_counter(change.number.0);
            self.replicas[replica].receive_counter(change.number.0, read, mutant);
        }
        Some(())
    }

    /// Returns whether all daemons have applied the seal.
    pub(super) fn can_confirm(&self) -> bool {
        match self.seal {
            Seal::Committed(revision) => self.replicas.iter().all(|replica| replica.view.table.revision() >= revision),
            Seal::None | Seal::InEffect => false,
        }
    }

    pub(super) const fn confirm(&mut self) {
        self.seal = Seal::InEffect;
    }

    pub(super) fn crash(&mut self, replica: usize) -> Option<()> {
        let it = &mut self.replicas[replica];
        let sent = it.edit.take().and_then(|stage| stage.sent().cloned());
        self.late.extend(it.waiting.take().map(|waiting| waiting.sent().clone()).into_iter().chain(sent));
        self.restart(replica)
    }

    /// Starts a new daemon, whose watches begin before it reads the table.
    fn restart(&mut self, replica: usize) -> Option<()> {
        let heard = u8::try_from(self.moves.len()).ok()?;
        self.replicas[replica] = Replica::new(&self.store, heard)?;
        Some(())
    }

    pub(super) fn power_loss(&mut self) -> Option<()> {
        self.store.crash();
        self.late.clear();
        let (kept, _) = self.store.get(&Key::Space)?;
        let kept = *kept;
        self.history.update(|history| history.retain(|(version, _)| *version <= kept));
        (0..self.replicas.len()).try_for_each(|replica| self.restart(replica))
    }

    /// Checks that the stored table is valid, and that every identifier belongs to the region that granted it, or to
    /// its heir.
    fn check_sound(&mut self) {
        let Some(view) = &*View::of(&self.store) else {
            self.broken = Some("the stored table is damaged");
            return;
        };
        let table = &view.table;
        let sound = self.granted.iter().all(|(id, number)| {
            let Some(found) = table.classify((*id).into()) else { return false };
            let mut owner = table.get(RegionNumber((*number).into()));
            while let Some(region) = owner
                && region.kind == Kind::Closed
            {
                owner = table.children(region).next();
            }
            let last = found.path.last().map(|region| region.number);
            let issued = found.issued() == Some(true);
            issued && last.is_some() && last == owner.map(|owner| owner.number)
        });
        if !sound {
            self.broken = Some("an identifier left the region that granted it, or does not count as issued");
        }
    }

    /// Returns whether, after faults have stopped, every daemon can grant from some region, or all regions are full,
    /// sealed or delegated.
    ///
    /// A state in which a daemon waits is not checked, because it leads to another state that is checked.
    pub(super) fn recovers(&self, mutant: Option<Mutant>) -> bool {
        let is_quiet = |replica: &Replica| replica.waiting.is_none() && replica.edit.is_none();
        if !self.late.is_empty() || !self.replicas.iter().all(is_quiet) {
            return true;
        }
        let mut calm = self.clone();
        (0..calm.replicas.len()).all(|replica| calm.grants_again(replica, mutant))
    }

    fn grants_again(&mut self, replica: usize, mutant: Option<Mutant>) -> bool {
        for _ in 0..12 {
            if self.replicas[replica].edit.is_some() && self.proceed(replica, mutant).is_none() {
                return false;
            }
            if self.replicas[replica].waiting.is_some() {
                self.sent(replica, Delivery::Answered, mutant);
            }
            let view = self.replicas[replica].view.clone();
            let is_exhausted = |number: u64| {
                let capacity = view.facts(number, mutant).map(Region::capacity);
                capacity.is_none_or(|capacity| self.read_counter(number).value >= capacity)
            };
            if view.open(mutant).all(is_exhausted)
                || view.open(mutant).any(|number| self.grant(replica, number, mutant))
            {
                return true;
            }
            if self.replicas[replica].waiting.is_none() && !self.is_counter_locked(replica) {
                // Reserve from the first region that is not full.
                let _ = view.open(mutant).any(|number| self.reserve(replica, number, mutant).is_some());
            }
        }
        false
    }
}

impl Replica {
    /// Receives the value of a counter.
    fn receive_counter(&mut self, region: u64, read: Stored<Count>, mutant: Option<Mutant>) {
        let unchecked = mutant == Some(Mutant::OlderCounter);
        if unchecked || read.version > self.view.version(Key::Counter(region)) {
            self.view.update(|view| view.set_issued(region, read, unchecked));
        }
    }
}

/// Returns an edit without counters, as the history records it.
fn without_counters(plan: &Plan) -> Plan {
    let mut changes = plan.changes.clone();
    for change in &mut changes {
        change.sides_mut().for_each(|region| region.issued = Rare::default());
    }
    Plan::made(plan.revision, changes)
}
